//! The control group of classes with `cpu = "idle"`: a process with `SCHED_IDLE` alone keeps its core for milliseconds now and then.
//!
//! Processes that serve such a class belong in a group of ours that is idle itself ([`IdleGroup`]), to which `groups` moves them
//! once they have settled in the class. They also get `SCHED_IDLE` at once. A class whose control groups an operator has named
//! stays in those.
//!
//! Where a class has a floor (`cpu_floor_percent`), the group has a weight as long as its processes get less than that as idle
//! ones ([`CpuFloor`]).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_machine::host::Host;
use plimsoll_machine::idle_group::{self, IdleGroup};
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_policy::{ClassIndex, CpuFloor, CpuSeen};

use super::groups::Folders;
use crate::governor::Governor;
use crate::settings::{CpuShare, Settings};

/// How long nothing is tried after the kernel has refused something.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// For how long the group's processes are watched before its weight may change.
const WINDOW: Duration = Duration::from_millis(250);

/// For how long each process, by its number, has been on a core, and for how long it has waited for one.
type Times = BTreeMap<i32, (Duration, Duration)>;

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
    floor: CpuFloor,
    /// Until when no weight is tried, because the kernel has refused one.
    no_weight_until: Option<Instant>,
    /// When the window began, and what the times were then.
    window: Option<(Instant, Times)>,
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
            floor: CpuFloor::default(),
            no_weight_until: None,
            window: None,
        }
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
                self.put_back();
            }
            return false;
        }
        if let Some(group) = &self.group {
            if self.folders.is_empty() {
                self.folders = Arc::from([group.folder().to_owned()]);
            }
            self.tend_floor(governor, settings, now);
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

    /// Gives the group the weight with which its processes have their floor.
    fn tend_floor(&mut self, governor: &Governor, settings: &Settings, now: Instant) {
        let Some(group) = &self.group else { return };
        let (floor, before) = (floor_of(settings), self.floor.weight());
        let is_barred = self.no_weight_until.is_some_and(|until| now < until);
        if (floor == 0 || is_barred) && before.is_none() {
            self.window = None;
            return;
        }
        if self.window.as_ref().is_some_and(|(began, _)| now.saturating_duration_since(*began) < WINDOW) {
            return;
        }
        let times = group.times();
        let earlier = self.window.replace((now, times.clone()));
        let weight = match (earlier, governor.health.lock().server_cores) {
            _ if floor == 0 => {
                self.floor = CpuFloor::default();
                None
            }
            (Some((began, earlier)), Some(cores)) => {
                let window = now.saturating_duration_since(began);
                let (ran, waited) = spent(&earlier, &times, window);
                self.floor.step(f64::from(floor) / 100.0, &CpuSeen { window, cores, ran, waited })
            }
            _ => before,
        };
        if weight != before {
            match group.give(weight) {
                Ok(()) => tracing::debug!(?weight, "the weight of the group of classes with cpu = \"idle\""),
                Err(error) => {
                    tracing::warn!(%error, "classes with cpu = \"idle\" may get less than their floor");
                    // Half a change would be more than they are to have.
                    if let Err(error) = group.give(None) {
                        tracing::warn!(%error, "their group may not be idle");
                    }
                    (self.floor, self.no_weight_until) = (CpuFloor::default(), Some(now + REFUSED_FOR));
                }
            }
        }
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
        (self.floor, self.no_weight_until, self.window) = (CpuFloor::default(), None, None);
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

/// What the group's processes get at least, percent of all cores.
pub(super) fn floor_of(settings: &Settings) -> u32 {
    let idle = (0..).zip(&settings.classes).filter(|(at, _)| is_idle(settings, ClassIndex(*at)));
    idle.filter_map(|(_, class)| class.cpu_floor_percent).map(u32::from).sum::<u32>().min(100)
}

/// How long processes were on a core and waited for one within a window. One that has come counts from its beginning, but at most for
/// the length of the window, because it may have served another class before; what one did that has ended since the last look is lost, so
/// that the others get a little more than their floor.
fn spent(earlier: &Times, now: &Times, window: Duration) -> (Duration, Duration) {
    now.iter().fold((Duration::ZERO, Duration::ZERO), |(ran, waited), (process, (on, off))| {
        // A number that is another process's now has less than it had.
        let (on_before, off_before) =
            earlier.get(process).filter(|before| before.0 <= *on).copied().unwrap_or_default();
        (ran + (*on - on_before).min(window), waited + off.saturating_sub(off_before).min(window))
    })
}
