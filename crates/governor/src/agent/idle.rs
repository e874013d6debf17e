//! The control group of classes with `cpu = "idle"`: a process with `SCHED_IDLE` alone keeps its core for milliseconds now and then.
//!
//! Processes that serve such a class belong in a group of ours that is idle itself ([`IdleGroup`]), to which `groups` moves them
//! once they have settled in the class. They also get `SCHED_IDLE` at once. A class whose control groups an operator has named
//! stays in those.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_machine::host::Host;
use plimsoll_machine::idle_group::{self, IdleGroup};
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_policy::ClassIndex;

use super::groups::Folders;
use crate::governor::Governor;
use crate::settings::{CpuShare, Settings};

/// How long nothing is tried after the kernel has refused something.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// See the module.
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
}

impl Idle {
    pub(super) fn new(host: Host) -> Self {
        let state = host.path(default_state_folder());
        let server = Err("the server is not known yet".to_owned());
        Idle { host, state, server, group: None, folders: Folders::default(), refused: None }
    }

    /// The server has become known, or is not known any more. What killed governors have left was put back before.
    pub(super) fn server(&mut self, server: &Result<ProcessIdentity, String>) {
        self.put_back();
        self.server = server
            .as_ref()
            .map_err(String::clone)
            .and_then(|postmaster| idle_group::probe(&self.host, postmaster.id).map(|how| (*postmaster, how)));
        self.refused = None;
    }

    /// Makes the group for the first session that needs it, and removes it when no class does and it is empty. Whether people are to be
    /// told.
    pub(super) fn tend(&mut self, governor: &Governor, settings: &Settings, now: Instant) -> bool {
        let Ok((postmaster, _)) = &self.server else { return false };
        if !(0..).zip(&settings.classes).any(|(at, _)| is_idle(settings, ClassIndex(at))) {
            self.folders = Folders::default();
            if self.group.as_ref().is_some_and(IdleGroup::is_empty) {
                self.group = None;
            }
            return false;
        }
        if let Some(group) = &self.group {
            if self.folders.is_empty() {
                self.folders = Arc::from([group.folder().to_owned()]);
            }
            return false;
        }
        let is_barred = self.refused.as_ref().is_some_and(|(_, until)| now < *until);
        let mut sessions = governor.registry.all().into_iter();
        if is_barred || !sessions.any(|card| is_idle(settings, card.state().served)) {
            return false;
        }
        match IdleGroup::make(&self.host, &self.state, *postmaster) {
            Ok(group) => {
                self.folders = Arc::from([group.folder().to_owned()]);
                (self.group, self.refused) = (Some(group), None);
            }
            Err(error) => {
                tracing::warn!(%error, "classes with cpu = \"idle\" have no control group of their own");
                self.refused = Some((error.to_string(), now + REFUSED_FOR));
            }
        }
        true
    }

    /// Whether processes of a class belong into the group, and which that is.
    pub(super) fn folders(&self, settings: &Settings, class: ClassIndex) -> Option<&Folders> {
        (!self.folders.is_empty() && is_idle(settings, class)).then_some(&self.folders)
    }

    /// Whether the group is of version 2, where a process is in one group only.
    pub(super) fn is_unified(&self) -> bool {
        self.group.as_ref().is_some_and(IdleGroup::is_unified)
    }

    /// Puts everything back at once. Processes that are in the group have been sent home before.
    pub(super) fn put_back(&mut self) {
        (self.group, self.folders) = (None, Folders::default());
    }

    /// How classes give way, for people; why by `SCHED_IDLE` alone.
    pub(super) fn how(&self) -> Result<&str, &str> {
        match (&self.server, &self.refused) {
            (Err(why), _) | (Ok(_), Some((why, _))) => Err(why),
            (Ok((_, how)), None) => Ok(how),
        }
    }
}

fn is_idle(settings: &Settings, class: ClassIndex) -> bool {
    settings.share_of(class) == CpuShare::Idle && settings.class(class).control_groups.is_empty()
}
