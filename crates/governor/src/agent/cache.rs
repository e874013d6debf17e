//! The part of the last-level cache that server processes may fill, by the class of the transaction that each works
//! for.
//!
//! Processes of classes with a part of the cache (`cache = "polluting"`) belong in groups of resctrl ([`ClassGroups`]).
//! All others stay in the server's own group, which is never changed; a class with the whole cache needs no group. A
//! move takes the kernel some tens of microseconds, so the agent does it itself, and only if the group changes. A
//! process is confined once its session has served its class for [`SETTLED`], or has just begun, and is freed at once,
//! so sessions that change their class with each transaction keep the whole cache. A holder that blocks a more
//! important transaction is freed, too.
//!
//! The groups are created for the first session that needs one, because the kernel has few, and removed when no class
//! needs them. Every [`LOOK_EVERY`] they are read back: another process may have changed or removed them, moved one of
//! our processes, or changed the ways of the server.

mod made;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plimsoll_machine::groups::is_of_plimsoll;
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::ProcessFacts;
use plimsoll_machine::resctrl::class_groups::{CacheHome, ClassGroups, ClassSubject};
use plimsoll_policy::cache_use::CacheUse;

use super::REFUSED_FOR;
use super::groups::SETTLED;
use super::server::is_postgres;
use crate::governor::Governor;
use crate::settings::{Settings, levers};
use made::{Made, describe, make};

/// How often the groups are read back.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Cache {
    host: Host,
    state: PathBuf,
    /// The server's first process, or why it is unknown.
    server: Result<ProcessIdentity, String>,
    /// The cache and the server's ways, as last read.
    home: Option<CacheHome>,
    /// Why no groups exist, and until when creating them is not tried.
    refused: Option<(String, Instant)>,
    made: Option<Made>,
    /// The classes to be confined, as of the last walk.
    wanted: Vec<(String, CacheUse)>,
    /// By process ID.
    members: BTreeMap<i32, Member>,
    /// Threads that other processes have moved to groups of their own; read at most once per walk, for new members.
    strangers: Option<BTreeMap<i32, String>>,
    next_look: Instant,
    /// Why existing groups are not in force.
    faults: Vec<String>,
    /// Whether the list of misplaced processes, or the state of the lever, has changed since it was reported.
    is_list_new: bool,
    is_lever_new: bool,
}

/// A process that was to be in a group.
#[derive(Debug)]
struct Member {
    identity: ProcessIdentity,
    /// The part that its session's class may fill, and since when.
    part: CacheUse,
    since: Instant,
    /// The group where it was moved; `None` for the server's own.
    place: Option<usize>,
    /// Why it is not there.
    trouble: Option<String>,
    /// Whether another process has moved it, so that it is left there.
    is_left: bool,
}

impl Cache {
    pub(super) fn new(host: Host) -> Self {
        Cache {
            state: host.path(default_state_folder()),
            host,
            server: Err("the server is not known yet".to_owned()),
            home: None,
            refused: None,
            made: None,
            wanted: Vec::new(),
            members: BTreeMap::new(),
            strangers: None,
            next_look: Instant::now(),
            faults: Vec::new(),
            is_list_new: false,
            is_lever_new: false,
        }
    }

    /// The server has become known or unknown. Changes of killed governors have been undone before.
    pub(super) fn server(&mut self, server: &Result<ProcessIdentity, String>) {
        self.put_back();
        self.server.clone_from(server);
        self.refused = None;
        self.probe(Instant::now());
    }

    /// Reads the cache and the ways that can be divided.
    fn probe(&mut self, now: Instant) {
        let Ok(postmaster) = self.server else { return };
        match CacheHome::of(&self.host, &ClassSubject::server(postmaster.id)) {
            Ok(home) => (self.home, self.refused) = (Some(home), None),
            Err(why) => (self.home, self.refused) = (None, Some((why.to_string(), now + REFUSED_FOR))),
        }
    }

    /// Whether it has work to do.
    pub(super) fn is_wanted(&self, settings: &Settings) -> bool {
        self.made.is_some() || self.server.is_ok() && !settings.cache_confined().is_empty()
    }

    /// Whether any process is, or should be, in a group.
    pub(super) fn has_any(&self) -> bool {
        !self.members.is_empty()
    }

    /// Creates the groups that classes need, reads them back, and removes them when no class needs them.
    pub(super) fn tend(&mut self, governor: &Governor, settings: &Settings, now: Instant) {
        self.strangers = None;
        let wanted = settings.cache_confined();
        if self.wanted != wanted {
            self.put_back();
            // An earlier failure may not recur.
            self.refused.iter_mut().for_each(|(_, until)| *until = now);
            (self.wanted, self.is_lever_new) = (wanted, true);
        }
        if self.made.is_some() && now >= self.next_look {
            self.next_look = now + LOOK_EVERY;
            self.look(now);
        }
        let is_barred = self.refused.as_ref().is_some_and(|(_, until)| now < *until);
        if self.made.is_some() || self.server.is_err() || self.wanted.is_empty() || is_barred {
            return;
        }
        if self.refused.is_some() {
            self.probe(now);
            self.is_lever_new = true;
        }
        let mut sessions = governor.registry.all().into_iter();
        if self.refused.is_none() && sessions.any(|card| settings.class(card.state().served).cache.is_confined()) {
            self.make(now);
        }
    }

    fn make(&mut self, now: Instant) {
        let Ok(postmaster) = self.server else { return };
        match make(&self.host, &self.state, postmaster, &self.wanted) {
            Ok(made) => (self.home, self.made) = (Some(made.home.clone()), Some(made)),
            Err(error) => {
                tracing::warn!(%error, "no class is confined to its part of the cache");
                self.refused = Some((error.to_string(), now + REFUSED_FOR));
            }
        }
        (self.next_look, self.is_lever_new) = (now + LOOK_EVERY, true);
    }

    /// Reads the groups back.
    fn look(&mut self, now: Instant) {
        let Some(made) = &self.made else { return };
        let (home, faults) = (made.groups.home(), made.groups.faults());
        let home = match home {
            Ok(home) => home,
            Err(why) => return self.lose(why.to_string(), now),
        };
        if (home.mask, &home.folder) != (made.home.mask, &made.home.folder) {
            tracing::info!(ways = %home.mask, group = home.folder, "the server may fill other ways of the cache");
            self.put_back();
            (self.home, self.is_lever_new) = (Some(home), true);
            return;
        }
        let groups: BTreeSet<usize> = made.places.values().flatten().copied().collect();
        for place in groups {
            let there = match made.groups.members(place) {
                Ok(there) => there,
                Err(error) if faults.is_empty() => return self.lose(error.to_string(), now),
                Err(_) => return self.lose(faults.join("; "), now),
            };
            for (process, member) in self.members.iter_mut().filter(|(_, member)| member.place == Some(place)) {
                let is_elsewhere = member.trouble.is_none() && !there.contains(process);
                if is_elsewhere && member.identity.is_running(&self.host) {
                    let why = "another process has moved it out of its group of resctrl, and it stays where it is";
                    (member.trouble, member.is_left, self.is_list_new) = (Some(why.to_owned()), true, true);
                }
            }
        }
        self.is_lever_new |= self.faults != faults;
        self.faults = faults;
    }

    /// A group has disappeared, or the cache can no longer be divided: everything is undone, and tried again later.
    fn lose(&mut self, why: String, now: Instant) {
        tracing::warn!(why, "classes are not confined to their parts of the cache any more");
        self.put_back();
        (self.home, self.is_lever_new) = (None, true);
        self.refused = Some((format!("{why}; tried again within a minute"), now + REFUSED_FOR));
    }

    /// Requests the group for a process that serves a class with this part of the cache.
    pub(super) fn wish(&mut self, process: i32, part: CacheUse, postmaster: ProcessIdentity, now: Instant) {
        let Some(made) = &self.made else { return };
        let place = made.places.get(&part).copied().flatten();
        let mut begins = false;
        if !self.members.contains_key(&process) {
            if place.is_none() || !self.meet(process, part, postmaster, now) {
                return;
            }
            begins = true;
        }
        let Some(member) = self.members.get_mut(&process) else { return };
        if member.part != part {
            (member.part, member.since) = (part, now);
        }
        let is_settled = begins || now.saturating_duration_since(member.since) >= SETTLED;
        let place = if is_settled || member.place == place { place } else { None };
        self.bring(process, place, now);
    }

    /// Puts a parallel worker in its leader's group.
    pub(super) fn follow(&mut self, worker: i32, leader: i32, postmaster: ProcessIdentity, now: Instant) {
        let Some(leader) = self.members.get(&leader).filter(|leader| leader.trouble.is_none()) else { return };
        let (place, part) = (leader.place, leader.part);
        if self.members.contains_key(&worker) || place.is_some() && self.meet(worker, part, postmaster, now) {
            self.bring(worker, place, now);
        }
    }

    /// Adds a process; `false` if it does not belong to the server.
    fn meet(&mut self, process: i32, part: CacheUse, postmaster: ProcessIdentity, now: Instant) -> bool {
        let facts = ProcessFacts::of(&self.host, process);
        // It has ended, or another process has its number now.
        let facts = facts.filter(|facts| facts.parent == postmaster.id && is_postgres(facts));
        let (Some(facts), Some(made)) = (facts, &self.made) else { return false };
        let strangers = self.strangers.get_or_insert_with(|| made.groups.strangers());
        let elsewhere = strangers.get(&process);
        if elsewhere.is_some_and(is_of_plimsoll) {
            // Another governor is about to end, and will move it back.
            return false;
        }
        let elsewhere = elsewhere.map(|folder| {
            format!("it is in the group {folder} of resctrl, to which another process has moved it, and it stays there")
        });
        self.is_list_new |= elsewhere.is_some();
        let is_left = elsewhere.is_some();
        let member = Member { identity: facts.identity, part, since: now, place: None, trouble: elsewhere, is_left };
        self.members.insert(process, member);
        true
    }

    /// Moves a process, unless it is in that group already.
    fn bring(&mut self, process: i32, place: Option<usize>, now: Instant) {
        let (Some(made), Some(member)) = (&self.made, self.members.get_mut(&process)) else { return };
        if member.is_left || member.place == place {
            return;
        }
        if !member.identity.is_running(&self.host) {
            self.members.remove(&process);
            return;
        }
        match made.groups.put_process(process, place) {
            Err(error) if error.is_gone() => self.lose(error.to_string(), now),
            moved => {
                let trouble = moved.err().map(|error| error.to_string());
                self.is_list_new |= trouble.is_some() || member.trouble.is_some();
                (member.place, member.trouble) = (place, trouble);
            }
        }
    }

    /// Drops processes for which `is_there` is false. A running one is no longer governed, and is moved back.
    pub(super) fn keep(&mut self, is_there: impl Fn(i32) -> bool) {
        let Cache { host, made, members, is_list_new, .. } = self;
        members.retain(|process, member| {
            let stays = is_there(*process);
            if let (Some(made), false) = (made.as_ref(), stays) {
                send_home(host, &made.groups, *process, member);
                *is_list_new |= member.trouble.is_some();
            }
            stays
        });
    }

    /// Undoes everything: processes are moved back, and the groups are removed.
    pub(super) fn put_back(&mut self) {
        if let Some(made) = self.made.take() {
            // The journal cannot move back processes whose group has disappeared.
            self.members.iter().for_each(|(process, member)| send_home(&self.host, &made.groups, *process, member));
        }
        self.is_list_new |= self.members.values().any(|member| member.trouble.is_some());
        self.members.clear();
        self.faults.clear();
    }

    /// How many processes are confined to a part of the cache.
    pub(super) fn confined(&self) -> usize {
        self.members.values().filter(|member| member.place.is_some() && member.trouble.is_none()).count()
    }

    /// Whether the state of the lever has changed.
    pub(super) fn take_lever_news(&mut self) -> bool {
        std::mem::take(&mut self.is_lever_new)
    }

    /// Whether the list of misplaced processes has changed.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_list_new)
    }

    /// The misplaced processes, and the reasons.
    pub(super) fn troubles(&self) -> Vec<(i32, String)> {
        self.members.iter().filter_map(|(process, member)| Some((*process, member.trouble.clone()?))).collect()
    }

    /// Reports whether classes are confined to parts of the cache, and how.
    pub(super) fn tell(&self, governor: &Governor, settings: &Settings) {
        governor.report(levers::CACHE, self.words(settings));
    }

    /// How classes are confined, or why not.
    fn words(&self, settings: &Settings) -> Result<String, String> {
        let wanted = settings.cache_confined();
        if wanted.is_empty() {
            return Err("every class has cache = \"sensitive\", which is the whole cache".to_owned());
        }
        self.server.clone()?;
        if let Some((why, _)) = &self.refused {
            return Err(why.clone());
        }
        let home = self.home.as_ref().ok_or("it is not known yet what there is to share out")?;
        let how = describe(home, &wanted)?;
        if self.faults.is_empty() { Ok(how) } else { Err(self.faults.join("; ")) }
    }
}

/// How the classes of a server on this machine can be confined, or why not.
pub(crate) fn cache_here(host: &Host, postmaster: ProcessIdentity, settings: &Settings) -> Result<String, String> {
    let home = CacheHome::of(host, &ClassSubject::server(postmaster.id)).map_err(|error| error.to_string())?;
    describe(&home, &settings.cache_confined())
}

fn send_home(host: &Host, groups: &ClassGroups, process: i32, member: &Member) {
    if member.place.is_none() || member.is_left || !member.identity.is_running(host) {
        return;
    }
    if let Err(error) = groups.put_process(process, None) {
        tracing::warn!(%error, "a server process stays in its group of resctrl until that is removed");
    }
}
