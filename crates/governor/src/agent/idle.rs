//! The control group of classes with `cpu = "idle"`: a process with only `SCHED_IDLE` now and then keeps its core for
//! milliseconds.
//!
//! Processes that serve such a class belong in a group of ours that is itself idle ([`idle`]), to which `groups`
//! moves them once they have settled in the class. They also get `SCHED_IDLE` at once. So do processes of classes with
//! a nice value while their reads are limited (`disk`).
//!
//! If a class has a floor (`cpu_floor_percent`), the group has a weight as long as its processes would get less than
//! that as idle ones ([`Floor`]).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_machine::groups::{OwnGroup, idle};
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_policy::ClassIndex;

use super::REFUSED_FOR;
use super::floor::Floor;
use super::groups::Folders;
use crate::governor::Governor;
use crate::settings::{CpuShare, Settings};

/// Classes whose processes run only in idle time, and their floors in percent of all cores.
pub(super) type Floors = BTreeMap<ClassIndex, u32>;

/// The floor of a class with a nice value while its reads are limited, in percent of all cores.
pub(super) const LIMITED_FLOOR_PERCENT: u32 = 10;

#[derive(Debug)]
pub(super) struct Idle {
    host: Host,
    state: PathBuf,
    /// The server's first process and how its groups are created, or why none is possible or needed.
    server: Result<(ProcessIdentity, String), String>,
    group: Option<OwnGroup>,
    /// The group for processes of these classes.
    folders: Folders,
    /// The kernel's refusal, and until when no group is tried.
    refused: Option<(String, Instant)>,
    /// The classes that run in idle time at present.
    classes: Floors,
    floor: Floor,
}

impl Idle {
    pub(super) fn new(host: Host) -> Self {
        let state = host.path(default_state_folder());
        let server = Err("the server is not known yet".to_owned());
        Idle {
            host,
            state,
            server,
            group: None,
            folders: Folders::default(),
            refused: None,
            classes: Floors::default(),
            floor: Floor::default(),
        }
    }

    /// The server has become known or unknown. Changes of killed governors have been undone before.
    pub(super) fn server(&mut self, server: &Result<ProcessIdentity, String>) {
        self.put_back();
        let server = server.clone();
        self.server = server.and_then(|server| Ok((server, idle::probe(&self.host, server.id)?)));
        self.refused = None;
    }

    /// Creates the group for the first session of these classes, and removes it when no class needs it and it is empty.
    /// Returns whether the lever's report must be updated.
    pub(super) fn tend(&mut self, governor: &Governor, classes: Floors, now: Instant) -> bool {
        self.classes = classes;
        let Ok((postmaster, _)) = &self.server else { return false };
        if self.classes.is_empty() {
            self.folders = Folders::default();
            if self.group.as_ref().is_some_and(OwnGroup::is_empty) {
                self.put_back();
            }
            return false;
        }
        if let Some(group) = &self.group {
            if self.folders.is_empty() {
                self.folders = Arc::from([group.folder().to_owned()]);
            }
            let cores = governor.health.lock().server_cores;
            self.floor.tend(group, sum(&self.classes), cores, now);
            return false;
        }
        let is_barred = self.refused.as_ref().is_some_and(|(_, until)| now < *until);
        let mut sessions = governor.registry.all().into_iter();
        if is_barred || !sessions.any(|card| self.classes.contains_key(&card.state().served)) {
            return false;
        }
        match idle::make(&self.host, &self.state, *postmaster) {
            Ok(group) => {
                self.folders = Arc::from([group.folder().to_owned()]);
                (self.group, self.floor, self.refused) = (Some(group), Floor::default(), None);
            }
            Err(error) => {
                tracing::warn!(%error, "classes with cpu = \"idle\" have no control group of their own");
                self.refused = Some((error.to_string(), now + REFUSED_FOR));
            }
        }
        true
    }

    /// The group for processes of the class, if they belong in it.
    pub(super) fn folders(&self, class: ClassIndex) -> Option<&Folders> {
        (!self.folders.is_empty() && self.classes.contains_key(&class)).then_some(&self.folders)
    }

    /// Whether the group is of version 2, where a process is in only one group.
    pub(super) fn is_unified(&self) -> bool {
        self.group.as_ref().is_some_and(OwnGroup::is_unified)
    }

    /// Undoes everything at once. Processes in the group have been moved back before.
    pub(super) fn put_back(&mut self) {
        (self.group, self.folders, self.floor) = (None, Folders::default(), Floor::default());
    }

    /// How classes yield, for the console; or why only `SCHED_IDLE` is used.
    pub(super) fn how(&self) -> Result<&str, &str> {
        match (&self.server, &self.refused) {
            (Err(why), _) | (Ok(_), Some((why, _))) => Err(why),
            (Ok((_, how)), None) => Ok(how),
        }
    }
}

/// The floor of each class with `cpu = "idle"`, in percent of all cores. A class for which an operator has named
/// control groups stays in those.
pub(super) fn floors_set(settings: &Settings) -> Floors {
    let idle = settings
        .indexed()
        .filter(|(class, own)| settings.share_of(*class) == CpuShare::Idle && own.control_groups.is_empty());
    idle.map(|(class, own)| (class, own.cpu_floor_percent.unwrap_or(0))).collect()
}

/// The floors of the yielding classes with a smaller CPU share, in percent of all cores.
pub(super) fn floors_limited(settings: &Settings) -> Floors {
    let yielding = settings.indexed().filter(|(class, _)| settings.yields_disk(*class));
    let floors = yielding.filter_map(|(class, own)| match settings.share_of(class) {
        CpuShare::Nice(_) => Some((class, LIMITED_FLOOR_PERCENT)),
        CpuShare::Idle => Some((class, own.cpu_floor_percent.unwrap_or(0))),
        CpuShare::Untouched | CpuShare::Prompt => None,
    });
    floors.collect()
}

/// Whether all yielding classes have a smaller CPU share, so that their group may have one.
pub(super) fn yielding_are_idle(settings: &Settings) -> bool {
    floors_limited(settings).len() == settings.disk_yielders().len()
}

/// The sum of the floors, in percent of all cores.
pub(super) fn sum(floors: &Floors) -> u32 {
    floors.values().sum::<u32>().min(100)
}
