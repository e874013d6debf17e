//! The control group of classes with `cpu = "idle"`: a process with `SCHED_IDLE` alone keeps its core for milliseconds now and then.
//!
//! Processes that serve such a class belong in a group of ours that is idle itself ([`IdleGroup`]), to which `groups` moves them
//! once they have settled in the class. They also get `SCHED_IDLE` at once. So do processes of classes with a nice value while their
//! reads are limited (`disk`).
//!
//! Where a class has a floor (`cpu_floor_percent`), the group has a weight as long as its processes get less than that as idle
//! ones ([`Floor`]).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_machine::host::Host;
use plimsoll_machine::idle_group::{self, IdleGroup};
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_policy::ClassIndex;

use super::REFUSED_FOR;
use super::floor::Floor;
use super::groups::Folders;
use crate::governor::Governor;
use crate::settings::{CpuShare, Settings};

/// Classes whose processes get idle time of the cores only, and what they get at least, percent of all cores.
pub(super) type Floors = BTreeMap<ClassIndex, u32>;

/// What a class with a nice value gets of the cores at least while its reads are limited, percent of all cores.
pub(super) const LIMITED_FLOOR_PERCENT: u32 = 10;

#[derive(Debug)]
pub(super) struct Idle {
    host: Host,
    state: PathBuf,
    /// The server's first process and how groups are made for it; in words why none is, or need be.
    server: Result<(ProcessIdentity, String), String>,
    group: Option<IdleGroup>,
    /// Where processes are to be.
    folders: Folders,
    /// What the kernel has refused, and until when nothing is tried.
    refused: Option<(String, Instant)>,
    /// Which classes get idle time at present.
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

    /// The server has become known, or is not known any more. What killed governors have left was put back before.
    pub(super) fn server(&mut self, server: &Result<ProcessIdentity, String>) {
        self.put_back();
        let server = server.clone();
        self.server = server.and_then(|server| Ok((server, idle_group::probe(&self.host, server.id)?)));
        self.refused = None;
    }

    /// Makes the group for the first session of these classes, and removes it when there is none of them and it is empty. Whether people
    /// are to be told.
    pub(super) fn tend(&mut self, governor: &Governor, classes: Floors, now: Instant) -> bool {
        self.classes = classes;
        let Ok((postmaster, _)) = &self.server else { return false };
        if self.classes.is_empty() {
            self.folders = Folders::default();
            if self.group.as_ref().is_some_and(IdleGroup::is_empty) {
                self.put_back();
            }
            return false;
        }
        if let Some(group) = &self.group {
            if self.folders.is_empty() {
                self.folders = Arc::from([group.folder().to_owned()]);
            }
            let cores = governor.health.lock().server_cores;
            self.floor.tend(group.cores(), sum(&self.classes), cores, now);
            return false;
        }
        let is_barred = self.refused.as_ref().is_some_and(|(_, until)| now < *until);
        let mut sessions = governor.registry.all().into_iter();
        if is_barred || !sessions.any(|card| self.classes.contains_key(&card.state().served)) {
            return false;
        }
        match IdleGroup::make(&self.host, &self.state, *postmaster) {
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

    /// Whether processes of a class belong into the group, and which that is.
    pub(super) fn folders(&self, class: ClassIndex) -> Option<&Folders> {
        (!self.folders.is_empty() && self.classes.contains_key(&class)).then_some(&self.folders)
    }

    /// Whether the group is of version 2, where a process is in one group only.
    pub(super) fn is_unified(&self) -> bool {
        self.group.as_ref().is_some_and(IdleGroup::is_unified)
    }

    /// Puts everything back at once. Processes that are in the group have been sent home before.
    pub(super) fn put_back(&mut self) {
        (self.group, self.folders, self.floor) = (None, Folders::default(), Floor::default());
    }

    /// How classes give way, for people; why by `SCHED_IDLE` alone.
    pub(super) fn how(&self) -> Result<&str, &str> {
        match (&self.server, &self.refused) {
            (Err(why), _) | (Ok(_), Some((why, _))) => Err(why),
            (Ok((_, how)), None) => Ok(how),
        }
    }
}

/// What the classes with `cpu = "idle"` get at least, percent of all cores, each. A class whose control groups an operator has named stays in those.
pub(super) fn floors_set(settings: &Settings) -> Floors {
    let idle = settings
        .indexed()
        .filter(|(class, own)| settings.share_of(*class) == CpuShare::Idle && own.control_groups.is_empty());
    idle.map(|(class, own)| (class, own.cpu_floor_percent.map_or(0, u32::from))).collect()
}

/// What the classes that yield and have less than others of the cores get at least, percent of all cores.
pub(super) fn floors_limited(settings: &Settings) -> Floors {
    let yielding = settings.indexed().filter(|(class, _)| settings.yields_disk(*class));
    let floors = yielding.filter_map(|(class, own)| match settings.share_of(class) {
        CpuShare::Nice(_) => Some((class, LIMITED_FLOOR_PERCENT)),
        CpuShare::Idle => Some((class, own.cpu_floor_percent.map_or(0, u32::from))),
        CpuShare::Untouched | CpuShare::Prompt => None,
    });
    floors.collect()
}

/// Whether all classes that yield have less than others of the cores, so that their group may.
pub(super) fn yielding_are_idle(settings: &Settings) -> bool {
    floors_limited(settings).len() == settings.disk_yielders().len()
}

/// What classes get at least together, percent of all cores.
pub(super) fn sum(floors: &Floors) -> u32 {
    floors.values().sum::<u32>().min(100)
}
