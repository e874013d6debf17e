//! Groups for some threads of this process, each with a part of the ways that the process may fill: a group for each class of work.
//!
//! A thread is moved once, when it starts, and stays. All other threads of the process stay in its group, which is never changed. How
//! the groups are undone is in a journal before they are made, as for groups of the governor ([`own_group`](crate::own_group)); what a
//! killed process has left is undone when the next one makes such groups, and by `plimsoll machine --restore`.

use std::path::{Path, PathBuf};

use super::{CacheMask, Group, Resctrl, Shares, subject};
use crate::control::{ControlError, Subject, Undo, UndoNotes};
use crate::host::Host;
use crate::limiter::LimiterError;
use crate::limiter::journal::Journal;
use crate::limiter::lock::StateLock;
use crate::own_group::{OwnGroupError, restore_left_over, state_of};
use crate::resctrl::{Absent, CacheControl};

/// How the state of these groups is called.
const NAME: &str = "cache";

/// The ways that this process may fill, and what there is for its classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheHome {
    /// The last-level cache.
    pub cache: CacheControl,
    /// The ways that the process's group has in every domain: an experiment's `llc_ways`, or what an operator has set.
    pub mask: CacheMask,
    /// Groups that can still be made.
    pub groups_free: u32,
}

/// The groups. Dropping them sends their threads back and removes them.
#[derive(Debug)]
pub struct ClassGroups {
    host: Host,
    resctrl: Resctrl,
    process: Subject,
    /// By class, in the order in which they were asked for; classes with equal masks share a group.
    classes: Vec<Class>,
    journal: Journal,
    state: PathBuf,
    _lock: StateLock,
}

#[derive(Debug)]
struct Class {
    group: Group,
    mask: CacheMask,
}

/// Notes in a journal on behalf of one control.
struct Noting<'a>(&'a mut Journal);

impl UndoNotes for Noting<'_> {
    fn note(&mut self, undo: Undo) -> Result<(), ControlError> {
        let path = self.0.path().display().to_string();
        self.0
            .note("cache_classes", undo)
            .map_err(|error| ControlError::refused("note how to undo a change in", path, error))
    }
}

fn absent(absent: Absent) -> OwnGroupError {
    OwnGroupError::Unavailable(absent.to_string())
}

/// The group that the process is in, apart from groups for its classes.
fn home_group(host: &Host, resctrl: &Resctrl, process: &Subject) -> Result<Group, OwnGroupError> {
    if let Some(group) = resctrl.find(&subject::group_name(process)) {
        return Ok(group);
    }
    let own = subject::class_groups(resctrl, process);
    let mut threads = subject::threads(host, process);
    for group in own {
        let of_class = group.tasks()?;
        threads.retain(|thread| !of_class.contains(thread));
    }
    let home = subject::home(resctrl, &threads).map_err(absent)?;
    let home = home.and_then(|folder| resctrl.find(folder.rsplit('/').next().unwrap_or_default()));
    Ok(home.unwrap_or_else(|| resctrl.default_group()))
}

/// What there is for the classes of a process.
fn cache_home(host: &Host, resctrl: &Resctrl, process: &Subject) -> Result<CacheHome, OwnGroupError> {
    let missing = "resctrl is mounted without allocation of the level 3 cache (no info/L3)";
    let cache = resctrl.capabilities().last_level();
    let cache = cache.ok_or_else(|| absent(Absent::missing(host, &["cat_l3"], "l3cat", missing)))?.clone();
    let home = home_group(host, resctrl, process)?;
    let schemata = home.schemata()?;
    let bandwidth = resctrl.capabilities().bandwidth.as_ref();
    let is_limited = |limit: u64| bandwidth.is_some_and(|bandwidth| limit < u64::from(bandwidth.unlimited));
    if schemata.numbers("MB").into_values().any(is_limited) {
        let reason = format!(
            "memory bandwidth of {} is limited, and each class would have that limit for itself",
            home.folder()
        );
        return Err(absent(Absent::because(reason, Some("leave memory_bandwidth unlimited with cache_classes"))));
    }
    let masks = cache.resources.iter().flat_map(|resource| schemata.masks(resource).into_values());
    let mask = masks.fold(cache.full, |all, mask| CacheMask(all.0 & mask.0));
    let taken = 1 + resctrl.group_names().len() as u32;
    let own = subject::class_groups(resctrl, process).len() as u32;
    let most = resctrl.capabilities().groups_max().unwrap_or(0);
    Ok(CacheHome { cache, mask, groups_free: (most + own).saturating_sub(taken) })
}

impl ClassGroups {
    /// Makes groups for classes of this process, by their names, with the masks that `masks` chooses. Threads are in them only when
    /// they are [put](ClassGroups::put) there. `E` says why masks cannot be chosen.
    ///
    /// # Errors
    /// Why there are no groups; what was begun is undone.
    pub fn make<E: From<OwnGroupError>>(
        host: &Host,
        state: &Path,
        names: &[&str],
        masks: impl FnOnce(&CacheHome) -> Result<Vec<CacheMask>, E>,
    ) -> Result<ClassGroups, E> {
        let resctrl = Resctrl::open(host).map_err(absent)?;
        let process = Subject { processes: vec![std::process::id().cast_signed()], ..Subject::default() };
        ClassGroups::make_in(host, resctrl, process, state, names, masks)
    }

    fn make_in<E: From<OwnGroupError>>(
        host: &Host,
        resctrl: Resctrl,
        process: Subject,
        state: &Path,
        names: &[&str],
        masks: impl FnOnce(&CacheHome) -> Result<Vec<CacheMask>, E>,
    ) -> Result<ClassGroups, E> {
        // What one that was killed has left takes ids of which there are few.
        restore_left_over(host, state);
        let state = state_of(state, NAME);
        let lock = StateLock::take(&state).map_err(OwnGroupError::from)?;
        let left = Journal::restore_old(host, &state).map_err(OwnGroupError::from)?;
        let journal = Journal::new(host, &state);
        if !left.failed.is_empty() {
            let journal = journal.path().to_owned();
            return Err(OwnGroupError::from(LimiterError::NotRestored { failed: left.failed, journal }).into());
        }
        let chosen = masks(&cache_home(host, &resctrl, &process)?)?;
        let host = host.clone();
        let mut groups = ClassGroups { host, resctrl, process, classes: Vec::new(), journal, state, _lock: lock };
        for (name, mask) in names.iter().zip(chosen) {
            groups.add(name, mask)?;
        }
        Ok(groups)
    }

    fn add(&mut self, name: &str, mask: CacheMask) -> Result<(), OwnGroupError> {
        if let Some(same) = self.classes.iter().find(|class| class.mask == mask) {
            let group = same.group.clone();
            self.classes.push(Class { group, mask });
            return Ok(());
        }
        let home = home_group(&self.host, &self.resctrl, &self.process)?;
        let tasks_to = (!home.path().is_empty()).then(|| home.folder());
        let name = subject::class_group_name(&self.process, name);
        let shares = Shares { mask: Some(mask), bandwidth: None };
        let group = self.resctrl.group(&name, shares, tasks_to, &mut Noting(&mut self.journal))?;
        self.classes.push(Class { group, mask });
        Ok(())
    }

    /// What there is for the classes now: limits of the process come and go.
    ///
    /// # Errors
    /// Why the classes can no longer have parts of it.
    pub fn home(&self) -> Result<CacheHome, OwnGroupError> {
        cache_home(&self.host, &self.resctrl, &self.process)
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
                self.classes[place].group.set_mask(mask)?;
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

    /// Why the classes are not in force though they were made; `None` if they are. Reads back the masks, and what the groups hold
    /// where that is counted: 5 % more than their ways is allowed, and what the kernel says that it leaves of former users.
    pub fn fault(&self) -> Option<String> {
        self.classes.iter().find_map(|class| self.fault_of(class))
    }

    fn fault_of(&self, class: &Class) -> Option<String> {
        const TOLERANCE: f64 = 1.05;
        let folder = class.group.folder();
        if self.resctrl.find(class.group.path()).is_none() {
            return Some(format!(
                "the group {folder} is gone; another process has removed it, and its threads have the whole cache"
            ));
        }
        let (schemata, sizes) = match (class.group.schemata(), class.group.sizes()) {
            (Ok(schemata), Ok(sizes)) => (schemata, sizes),
            (Err(error), _) | (_, Err(error)) => return Some(error.to_string()),
        };
        let cache = self.resctrl.capabilities().last_level()?;
        let masks = cache.resources.iter().flat_map(|resource| schemata.masks(resource).into_values());
        if let Some(found) = masks.into_iter().find(|found| *found != class.mask) {
            return Some(format!("the mask of {folder} is {found} and not {}", class.mask));
        }
        let monitoring = self.resctrl.capabilities().monitoring.as_ref()?;
        let leftover = monitoring.leftover_bytes as f64;
        // Where it is not counted, the masks are all that there is to see.
        let held = class.group.occupancy().ok()?;
        let sizes = sizes.numbers(&cache.resources[0]);
        held.into_iter().find_map(|(domain, held)| {
            let allowed = *sizes.get(&domain)?;
            (held as f64 > allowed as f64 * TOLERANCE + leftover).then(|| {
                let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
                format!(
                    "threads of {folder} hold {:.2} MiB in domain {domain}, where their ways {} have {:.2} MiB",
                    mebibytes(held),
                    class.mask,
                    mebibytes(allowed)
                )
            })
        })
    }
}

impl Drop for ClassGroups {
    fn drop(&mut self) {
        // What cannot be put back now is in the journal, for the next start.
        if self.journal.undo_all(&self.host).is_ok_and(|restored| restored.failed.is_empty()) {
            let _ = std::fs::remove_dir_all(&self.state);
        }
    }
}

#[cfg(test)]
mod tests;
