//! Groups for some threads, each with a part of the ways that they may fill: a group for each class of work.
//!
//! The threads are those of this process, or the processes of a server ([`ClassSubject`]). A thread of this process is moved once, when
//! it starts, and stays; a server's processes are moved when their work changes. All others stay in the group that the process or the
//! server is in, which is never changed. How the groups are undone is in a journal before they are made, as for groups of the governor
//! ([`OwnGroup`](crate::groups::OwnGroup)); what a killed process has left is undone when the next one makes such groups, and by
//! `plimsoll machine --restore`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{CacheControl, CacheMask, Group, Resctrl, absent, subject};
use crate::availability::Availability;
use crate::control::threads::thread_ids;
use crate::control::{ControlError, Subject};
use crate::groups::make::own::OwnChanges;
use crate::groups::{OwnGroupError, restore_left_over};
use crate::host::Host;

/// The name of these groups' state, followed by the number of the subject's first process.
const NAME: &str = "cache";

/// The subject whose threads have classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSubject {
    subject: Subject,
    /// Whether processes forked by the first one are moved, while the first one itself stays in its group.
    is_server: bool,
}

/// The ways that a subject may fill, and the groups available for its classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheHome {
    /// The folder of the group that the subject is in.
    pub folder: String,
    /// The last-level cache.
    pub cache: CacheControl,
    /// The ways that this group has in every domain: an experiment's `llc_ways`, or what an operator has set.
    pub mask: CacheMask,
    /// Groups that can still be made.
    pub groups_free: u32,
}

/// The groups. Dropping them sends their threads back and removes them.
#[derive(Debug)]
pub struct ClassGroups {
    host: Host,
    resctrl: Resctrl,
    subject: ClassSubject,
    /// The group that the subject was in.
    home: Group,
    cache: CacheControl,
    /// By class, in the order in which they were asked for; classes with equal masks share a group.
    classes: Vec<Class>,
    changes: OwnChanges,
}

#[derive(Debug)]
struct Class {
    group: Group,
    mask: CacheMask,
}

impl ClassSubject {
    /// Threads of this process.
    pub fn own() -> ClassSubject {
        ClassSubject::of(std::process::id().cast_signed(), false)
    }

    /// Processes of the server whose first process this is.
    pub fn server(first: i32) -> ClassSubject {
        ClassSubject::of(first, true)
    }

    fn of(first: i32, is_server: bool) -> ClassSubject {
        ClassSubject { subject: Subject { processes: vec![first], ..Subject::default() }, is_server }
    }

    fn first(&self) -> i32 {
        self.subject.processes.first().copied().unwrap_or(0)
    }

    /// The threads whose group is the subject's: all, or those of a server's first process, which hands its group on to those it forks.
    fn threads(&self, host: &Host) -> BTreeSet<i32> {
        if self.is_server {
            threads_of(host, self.first()).into_iter().collect()
        } else {
            subject::threads(host, &self.subject)
        }
    }
}

/// The threads of a process: at least the first.
fn threads_of(host: &Host, process: i32) -> Vec<i32> {
    let threads = thread_ids(host, process);
    if threads.is_empty() { vec![process] } else { threads }
}

fn unavailable(why: Availability) -> OwnGroupError {
    OwnGroupError::Unavailable(why.to_string())
}

/// The group that the subject is in, apart from groups for its classes.
fn home_group(host: &Host, resctrl: &Resctrl, of: &ClassSubject) -> Result<Group, OwnGroupError> {
    if let Some(group) = resctrl.find(&subject::group_name(&of.subject)) {
        return Ok(group);
    }
    let mut threads = of.threads(host);
    for group in subject::class_groups(resctrl, &of.subject) {
        let of_class = group.tasks()?;
        threads.retain(|thread| !of_class.contains(thread));
    }
    let home = subject::home(resctrl, &threads).map_err(unavailable)?;
    Ok(home.unwrap_or_else(|| resctrl.default_group()))
}

/// The group that the subject is in, and what it has for the subject's classes.
fn cache_home(host: &Host, resctrl: &Resctrl, of: &ClassSubject) -> Result<(Group, CacheHome), OwnGroupError> {
    let missing = "resctrl is mounted without allocation of the level 3 cache (no info/L3)";
    let cache = resctrl.capabilities().last_level();
    let cache = cache.ok_or_else(|| unavailable(absent::missing(host, &["cat_l3"], "l3cat", missing)))?.clone();
    let home = home_group(host, resctrl, of)?;
    // That of the default group ends with a slash.
    let folder = home.folder().trim_end_matches('/').to_owned();
    let schemata = home.schemata()?;
    let limits = schemata.numbers("MB");
    if let Some(bandwidth) = &resctrl.capabilities().bandwidth
        && let Some((domain, limit)) = limits.iter().find(|(_, limit)| **limit < u64::from(bandwidth.unlimited))
    {
        let reason = format!(
            "memory bandwidth of {folder} is limited (MB:{domain}={limit} of {}), and each class would have that limit for itself",
            bandwidth.unlimited
        );
        let remedy = match of.is_server {
            false => "leave memory_bandwidth unlimited with cache_classes".to_owned(),
            true => format!("write MB:{domain}={} to {folder}/schemata", bandwidth.unlimited),
        };
        return Err(unavailable(Availability::no(reason, Some(&remedy))));
    }
    let mask = cache.masks(&schemata).fold(cache.full, |all, mask| CacheMask(all.0 & mask.0));
    let taken = 1 + resctrl.group_names().len() as u32;
    let own = subject::class_groups(resctrl, &of.subject).len() as u32;
    let most = resctrl.capabilities().groups_max().unwrap_or(0);
    Ok((home, CacheHome { folder, cache, mask, groups_free: (most + own).saturating_sub(taken) }))
}

impl CacheHome {
    /// The ways and groups available for a subject's classes, or why there are none. Changes nothing.
    ///
    /// # Errors
    /// Why there can be no groups.
    pub fn of(host: &Host, subject: &ClassSubject) -> Result<CacheHome, OwnGroupError> {
        Ok(cache_home(host, &Resctrl::open(host).map_err(unavailable)?, subject)?.1)
    }
}

impl ClassGroups {
    /// Makes groups for classes of a subject, by their names, with the masks that `masks` chooses. Threads are in them only when
    /// they are put there ([`put`](ClassGroups::put)). `E` says why masks cannot be chosen.
    ///
    /// # Errors
    /// Why there are no groups; partial changes are undone.
    pub fn make<E: From<OwnGroupError>>(
        host: &Host,
        state: &Path,
        subject: ClassSubject,
        names: &[&str],
        masks: impl FnOnce(&CacheHome) -> Result<Vec<CacheMask>, E>,
    ) -> Result<ClassGroups, E> {
        let resctrl = Resctrl::open(host).map_err(unavailable)?;
        // Groups that a killed process left occupy ids, which are scarce.
        restore_left_over(host, state);
        // One process may govern several servers.
        let name = format!("{NAME}-{}", subject.first());
        let changes = OwnChanges::begin(host, state, &name).map_err(OwnGroupError::from)?;
        let (home, shared) = cache_home(host, &resctrl, &subject)?;
        let chosen = masks(&shared)?;
        let (host, cache, classes) = (host.clone(), shared.cache, Vec::new());
        let mut groups = ClassGroups { host, resctrl, subject, home, cache, classes, changes };
        for (name, mask) in names.iter().zip(chosen) {
            groups.add(name, mask)?;
        }
        Ok(groups)
    }

    fn add(&mut self, name: &str, mask: CacheMask) -> Result<(), OwnGroupError> {
        let same = self.classes.iter().find(|class| class.mask == mask).map(|class| class.group.clone());
        let group = same.map_or_else(|| self.make_group(name, mask), Ok)?;
        self.classes.push(Class { group, mask });
        Ok(())
    }

    fn make_group(&mut self, name: &str, mask: CacheMask) -> Result<Group, ControlError> {
        let tasks_to = (!self.home.path().is_empty()).then(|| self.home.folder());
        let name = subject::class_group_name(&self.subject.subject, name);
        let mut notes = self.changes.notes_of("cache_classes");
        self.resctrl.group(&name, &self.cache.lines(mask), tasks_to, &mut notes)
    }

    /// The ways and groups available now, because limits of the subject may change.
    ///
    /// # Errors
    /// Why the classes can no longer have parts of it.
    pub fn home(&self) -> Result<CacheHome, OwnGroupError> {
        Ok(cache_home(&self.host, &self.resctrl, &self.subject)?.1)
    }

    /// Gives the classes other masks, in their order.
    ///
    /// # Errors
    /// The kernel's, or that classes that share a group would part.
    pub fn set_masks(&mut self, masks: &[CacheMask]) -> Result<(), OwnGroupError> {
        for place in 0..self.classes.len() {
            let (path, mask) = (self.classes[place].group.path(), masks[place]);
            let parts = |other: usize| self.classes[other].group.path() == path && masks[other] != mask;
            if (0..place).any(parts) {
                let why = "classes that had equal masks would get different ones; set cache_classes again to give them groups of their own";
                return Err(OwnGroupError::Unavailable(why.to_owned()));
            }
            if self.classes[place].mask != mask {
                self.classes[place].group.set(&self.cache.lines(mask))?;
                self.classes[place].mask = mask;
            }
        }
        Ok(())
    }

    /// Moves a thread to the group of a class, by its place in the order of names. One that has ended is no error.
    ///
    /// # Errors
    /// The kernel's: among others that the group is gone.
    pub fn put(&self, thread: i32, class: usize) -> Result<(), ControlError> {
        self.classes[class].group.add_task_if_alive(thread).map(drop)
    }

    /// Moves every thread of a process to the group of a class, or with `None` to the group that the subject was in when these were made.
    ///
    /// # Errors
    /// The kernel's: among others that the group is gone ([`ControlError::is_gone`]).
    pub fn put_process(&self, process: i32, class: Option<usize>) -> Result<(), ControlError> {
        let group = class.map_or(&self.home, |class| &self.classes[class].group);
        threads_of(&self.host, process).into_iter().try_for_each(|thread| match group.add_task_if_alive(thread) {
            // The subject's group is gone, and the kernel has moved the subject to the default group.
            Err(error) if class.is_none() && error.is_gone() => {
                self.resctrl.default_group().add_task_if_alive(thread).map(drop)
            }
            moved => moved.map(drop),
        })
    }

    /// The threads in the group of a class.
    ///
    /// # Errors
    /// The kernel's: among others that the group is gone ([`ControlError::is_gone`]).
    pub fn members(&self, class: usize) -> Result<BTreeSet<i32>, ControlError> {
        self.classes[class].group.tasks()
    }

    /// The threads in groups that are neither ours nor the subject's, with the folders of these groups: other programs
    /// have put them there.
    pub fn strangers(&self) -> BTreeMap<i32, String> {
        let is_ours = |group: &Group| self.classes.iter().any(|class| class.group.path() == group.path());
        let groups = self.resctrl.groups().into_iter();
        let groups = groups.filter(|group| group.path() != self.home.path() && !is_ours(group));
        // One that has just gone has no tasks.
        let tasks = groups.map(|group| (group.folder(), group.tasks().unwrap_or_default()));
        tasks.flat_map(|(folder, tasks)| tasks.into_iter().map(move |task| (task, folder.clone()))).collect()
    }

    /// Why the classes are not in force though they were made: the first of [`faults`](ClassGroups::faults).
    pub fn fault(&self) -> Option<String> {
        self.faults().into_iter().next()
    }

    /// Why classes are not in force though they were made; nothing if all are. Reads back the masks, and what the groups hold
    /// where that is counted: 5 % more than their ways is allowed, and what the kernel says that it leaves of former users.
    pub fn faults(&self) -> Vec<String> {
        let is_first =
            |at: usize| !self.classes[..at].iter().any(|other| other.group.path() == self.classes[at].group.path());
        (0..self.classes.len()).filter(|at| is_first(*at)).filter_map(|at| self.fault_of(&self.classes[at])).collect()
    }

    fn fault_of(&self, class: &Class) -> Option<String> {
        let folder = class.group.folder();
        if self.resctrl.find(class.group.path()).is_none() {
            return Some(format!(
                "the group {folder} is gone; another process has removed it, and its threads have the whole cache"
            ));
        }
        // Without occupancy counters only the masks can be checked.
        let overfull = || class.group.overfull(&class.group.occupancy().ok()?).map(|(_, why)| why);
        class.group.not_in_force(&self.cache.lines(class.mask)).or_else(overfull)
    }
}

#[cfg(test)]
mod tests;
