//! Limits on the disk reads of yielding classes while other sessions wait for the server's disk.
//!
//! Every walk checks which server processes of important sessions wait for a disk. Every [`WINDOW`], these waits, the
//! activity of the disk, and the reads for yielding sessions go to [`DiskShare`], which decides on a limit. While a
//! limit is in force, those sessions' processes belong in a control group of ours ([`DiskGroup`]), to which `groups`
//! moves them. When it is lifted they return, and the empty group is removed. While no yielding session is active,
//! nothing is checked.
//!
//! A target of a more important class may set a lower limit ([`Settings::disk_held`]): the lower of the two is in
//! force.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_machine::disk_watch::{DiskWatch, DiskWatchSample, read_bytes, waits_for_disk};
use plimsoll_machine::groups::OwnGroupError;
use plimsoll_machine::groups::disk::{self, DiskGroup};
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_policy::{ClassIndex, DiskBounds, DiskShare, DiskSight, DiskWord};

use super::REFUSED_FOR;
use super::floor::Floor;
use super::groups::Folders;
use super::idle::{self, Floors, LIMITED_FLOOR_PERCENT, yielding_are_idle};
use super::workers::Workers;
use crate::governor::{DiskReading, Governor};
use crate::registry::Phase;
use crate::settings::{CpuShare, Settings, levers};

/// The interval between decisions.
pub(super) const WINDOW: Duration = Duration::from_millis(200);

/// The most processes that one look checks for waiting.
const LOOKS_MAX: usize = 32;

/// The most processes whose reads are measured in one window; active ones come first.
const READERS_MAX: usize = 128;

/// A limit that would change by less than this share is kept: the kernel restarts its accounting with each change.
const CHANGE_LEAST: f64 = 0.05;

/// The lowest limit, in windows of the kernel's read-ahead per second: a page that is being read ahead within the limit
/// blocks every session that needs it.
const READ_AHEADS_PER_S: u64 = 4;

/// The lowest limit in bytes per second, if that is more.
const FLOOR_LEAST: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Disk {
    host: Host,
    state: PathBuf,
    /// The server's first process and its disk, or why the disk cannot be limited.
    server: Result<(ProcessIdentity, DiskWatch, String), String>,
    share: DiskShare,
    /// What yielding sessions may read together, in bytes per second; `None` for unlimited.
    limit: Option<u64>,
    count: Option<Count>,
    group: Option<DiskGroup>,
    /// The CPU floor of the group's processes, in version 2.
    floor: Floor,
    /// The group for yielding processes.
    folders: Folders,
    /// The kernel's refusal, and until when no limit is tried.
    refused: Option<(String, Instant)>,
    /// The last reported state.
    told: Option<ToldLimit>,
}

/// The limit in force, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ToldLimit {
    limit: Option<u64>,
    word: DiskWord,
    /// It was set by a target.
    is_held: bool,
}

/// The measurements of a window.
#[derive(Debug)]
struct Count {
    began: Instant,
    disk: DiskWatchSample,
    looks: u32,
    important: f64,
    waiting: f64,
    ended: u64,
    /// Bytes read so far for each yielding process.
    read: HashMap<i32, u64>,
}

/// The result of one look at the sessions.
#[derive(Debug, Default)]
struct Look {
    important: usize,
    /// Important processes that were checked, and how many of them were waiting.
    asked: usize,
    waiting: usize,
    /// Yielding processes, active ones first.
    yielding: Vec<i32>,
    is_yielding_at_work: bool,
}

impl Disk {
    pub(super) fn new(host: Host) -> Self {
        let state = host.path(default_state_folder());
        Disk {
            host,
            state,
            server: Err("the server is not known yet".to_owned()),
            share: nobody_limited(),
            limit: None,
            count: None,
            group: None,
            floor: Floor::default(),
            folders: Folders::default(),
            refused: None,
            told: None,
        }
    }

    /// The server has become known or unknown.
    pub(super) fn server(&mut self, server: &Result<ProcessIdentity, String>) {
        self.put_back();
        self.server = server.clone().and_then(|postmaster| {
            let how = disk::probe(&self.host, postmaster.id)?;
            Ok((postmaster, DiskWatch::of_server(&self.host, postmaster.id)?, how))
        });
        (self.refused, self.told) = (None, None);
    }

    /// Whether it has work to do.
    pub(super) fn is_wanted(&self, settings: &Settings) -> bool {
        self.group.is_some() || self.server.is_ok() && has_yielders(settings)
    }

    /// Whether the reads of processes and their workers are being measured.
    pub(super) fn is_counting(&self) -> bool {
        self.count.is_some()
    }

    /// The group for processes of the class, if they belong in it.
    pub(super) fn folders(&self, settings: &Settings, class: ClassIndex) -> Option<&Folders> {
        (!self.folders.is_empty() && settings.yields_disk(class)).then_some(&self.folders)
    }

    /// Whether a class gets idle time instead of its nice value while its reads are limited: otherwise an important
    /// process would wait for the end of a scan's time slice when its read has completed.
    pub(super) fn makes_idle(&self, settings: &Settings, class: ClassIndex) -> bool {
        self.folders(settings, class).is_some() && matches!(settings.share_of(class), CpuShare::Nice(_))
    }

    /// The classes for which [`makes_idle`](Self::makes_idle) holds and that need a CPU group, with their floors in
    /// percent of all cores. In version 2 the group with the limit serves as that group.
    pub(super) fn idle_classes(&self, settings: &Settings) -> Floors {
        let is_unified = self.group.as_ref().is_some_and(|limited| limited.group().is_unified());
        let idle = settings.indexed().filter(|(class, _)| !is_unified && self.makes_idle(settings, *class));
        idle.map(|(class, _)| (class, LIMITED_FLOOR_PERCENT)).collect()
    }

    /// Takes a look, and decides when a window has ended.
    pub(super) fn tend(&mut self, governor: &Governor, settings: &Settings, workers: &Workers, now: Instant) {
        if self.folders.is_empty() && self.group.as_ref().is_some_and(|limited| limited.group().is_empty()) {
            // No process belongs in the group any more, and it is empty: it is removed.
            self.group = None;
        }
        let is_barred = self.refused.as_ref().is_some_and(|(_, until)| now < *until);
        if is_barred || self.server.is_err() || !has_yielders(settings) {
            self.lift(governor, settings);
            return;
        }
        if self.refused.take().is_some() {
            self.tell(governor, settings);
        }
        if let Some(cores) = self.group.as_ref().and_then(DiskGroup::cores).filter(|_| yielding_are_idle(settings)) {
            let percent = idle::sum(&idle::floors_limited(settings));
            let server_cores = governor.health.lock().server_cores;
            self.floor.tend(cores, percent, server_cores, now);
        }
        let look = self.look(governor, settings);
        if !look.is_yielding_at_work && self.share.limit().is_none() {
            // A limit set by a target stays in force until the target lifts it.
            self.rest(governor, settings);
            return;
        }
        if let Some(count) = &mut self.count {
            count.add(&look);
            if now.saturating_duration_since(count.began) < WINDOW {
                return;
            }
        }
        let Ok((_, watch, _)) = &self.server else { return };
        let next = Count {
            began: now,
            disk: watch.sample(),
            looks: 0,
            important: 0.0,
            waiting: 0.0,
            ended: ended(governor, settings),
            read: read(&self.host, &look.yielding, workers),
        };
        let earlier = self.count.replace(next);
        let (Some(earlier), Some(now_counted)) = (earlier, &self.count) else { return };
        let Some(sight) = earlier.until(now_counted, &look.yielding) else { return };
        self.share.bound(bounds(settings, watch));
        let own = self.share.decide(&sight);
        self.limit = [own, settings.disk_held()].into_iter().flatten().min();
        if let Err(error) = self.bring(settings) {
            tracing::warn!(%error, "reads of classes that yield cannot be limited");
            self.refused = Some((error.to_string(), now + REFUSED_FOR));
            self.lift(governor, settings);
            self.group = None;
            self.tell(governor, settings);
        } else {
            let read_bytes_per_s = sight.yielding_bytes_per_s as u64;
            publish(governor, self.share.least().map(|least| DiskReading { read_bytes_per_s, least }));
            self.tell_changes(governor, settings);
        }
    }

    /// No yielding session is active, and no limit of our own is in force.
    fn rest(&mut self, governor: &Governor, settings: &Settings) {
        self.count = None;
        publish(governor, self.share.least().map(|least| DiskReading { read_bytes_per_s: 0, least }));
        if self.limit.is_some() && settings.disk_held().is_none() {
            (self.limit, self.folders) = (None, Folders::default());
            self.tell_changes(governor, settings);
        }
    }

    fn look(&self, governor: &Governor, settings: &Settings) -> Look {
        let (mut look, mut idle, mut important) = (Look::default(), Vec::new(), Vec::new());
        for card in governor.registry.all() {
            let Some(process) = card.process() else { continue };
            let (served, is_at_work) = {
                let state = card.state();
                (state.served, state.phase == Phase::Active)
            };
            match (settings.yields_disk(served), is_at_work) {
                (true, true) => look.yielding.push(process),
                (true, false) => idle.push(process),
                (false, true) => important.push(process),
                (false, false) => {}
            }
        }
        look.important = important.len();
        look.is_yielding_at_work = !look.yielding.is_empty();
        // Reading `/proc` for each of them is a waste while there is nothing to decide.
        if look.is_yielding_at_work || self.share.limit().is_some() {
            important.truncate(LOOKS_MAX);
            look.asked = important.len();
            look.waiting =
                important.iter().filter(|process| waits_for_disk(&self.host, **process) == Some(true)).count();
        }
        look.yielding.extend(idle);
        look.yielding.truncate(READERS_MAX);
        look
    }

    /// Puts the limit in force, or lifts it.
    fn bring(&mut self, settings: &Settings) -> Result<(), OwnGroupError> {
        let Some(limit) = self.limit else {
            self.folders = Folders::default();
            return Ok(());
        };
        match (&mut self.group, &self.server) {
            (Some(group), _) => {
                let now = group.in_force().unwrap_or(0) as f64;
                // A limit that is divided with the server's own is checked each time, because another process may have
                // changed the server's.
                if (limit as f64 - now).abs() >= CHANGE_LEAST * now || group.is_dividing() {
                    group.limit(limit)?;
                }
            }
            (none, Ok((postmaster, _, _))) => {
                let group = none.insert(DiskGroup::make(&self.host, &self.state, *postmaster, limit)?);
                self.floor = Floor::default();
                if let Some(cores) = group.cores().filter(|_| yielding_are_idle(settings)) {
                    cores.give_cores(None)?;
                }
            }
            (None, Err(_)) => return Ok(()),
        }
        let folder = self.group.as_ref().map(|limited| limited.group().folder().to_owned());
        if self.folders.first() != folder.as_ref() {
            self.folders = folder.into_iter().collect();
        }
        Ok(())
    }

    /// Lifts the limit; processes are moved back in the same walk.
    fn lift(&mut self, governor: &Governor, settings: &Settings) {
        (self.count, self.folders) = (None, Folders::default());
        publish(governor, None);
        if self.limit.take().is_some() {
            self.share = nobody_limited();
            self.tell_changes(governor, settings);
        }
    }

    /// Undoes everything at once. Processes in the group have been moved back before.
    pub(super) fn put_back(&mut self) {
        (self.group, self.count, self.folders, self.told) = (None, None, Folders::default(), None);
        (self.share, self.limit) = (nobody_limited(), None);
    }

    fn tell_changes(&mut self, governor: &Governor, settings: &Settings) {
        let limit = self.group.as_ref().filter(|_| self.limit.is_some()).and_then(DiskGroup::in_force);
        let is_held = limit.is_some() && self.share.limit() != self.limit;
        let now = ToldLimit { limit, word: self.share.word(), is_held };
        if self.told == Some(now) {
            return;
        }
        let was_limited = self.told.is_some_and(|told| told.limit.is_some());
        if was_limited != limit.is_some() {
            tracing::info!(bytes_per_s = limit, why = %now.why(), "limit of reads of classes that yield the disk");
        }
        self.told = Some(now);
        self.tell(governor, settings);
    }

    /// Reports whether limits work, and the one in force.
    pub(super) fn tell(&self, governor: &Governor, settings: &Settings) {
        let told = self.told.unwrap_or(ToldLimit { limit: None, word: DiskWord::Calm, is_held: false });
        governor.health.lock().disk_limit = told.limit;
        governor.report(levers::DISK, self.words(settings, told));
    }

    fn words(&self, settings: &Settings, told: ToldLimit) -> Result<String, String> {
        if !settings.disk.limits {
            return Err("turned off in the settings".to_owned());
        }
        if !has_yielders(settings) {
            return Err("no class has disk = \"yields\" without `control_groups`".to_owned());
        }
        let (_, _, how) = self.server.as_ref().map_err(String::clone)?;
        if let Some((why, _)) = &self.refused {
            return Err(format!("{why}; tried again within a minute"));
        }
        let classes = settings.disk_yielders().join(", ");
        let limited = |limit| format!("limited to {:.1} MB/s together", limit as f64 / 1e6);
        let limit = told.limit.map_or("not limited".to_owned(), limited);
        Ok(format!("{classes}: {limit} ({}); {how}", told.why()))
    }
}

impl ToldLimit {
    fn why(&self) -> String {
        if self.is_held { "for the target of a class above".to_owned() } else { self.word.to_string() }
    }
}

/// Publishes the measured reads and the lowest limit, for targets.
pub(super) fn publish(governor: &Governor, reading: Option<DiskReading>) {
    governor.health.lock().disk_reading = reading;
}

/// Its bounds are set at the first decision.
fn nobody_limited() -> DiskShare {
    DiskShare::new(DiskBounds { floor_share: 0.5, floor_bytes_per_s: FLOOR_LEAST })
}

fn has_yielders(settings: &Settings) -> bool {
    settings.indexed().any(|(place, _)| settings.yields_disk(place))
}

fn bounds(settings: &Settings, watch: &DiskWatch) -> DiskBounds {
    let read_ahead = watch.read_ahead_bytes().unwrap_or(0);
    DiskBounds {
        floor_share: f64::from(settings.disk.floor_percent) / 100.0,
        floor_bytes_per_s: read_ahead.saturating_mul(READ_AHEADS_PER_S).max(FLOOR_LEAST),
    }
}

/// The number of statements of important transactions that have ended so far.
fn ended(governor: &Governor, settings: &Settings) -> u64 {
    let classes = (0..).map(ClassIndex).zip(governor.statistics.classes());
    let important = classes.filter(|(place, _)| {
        // A class that a reload has just added counts from the next window on.
        usize::from(place.0) < settings.classes.len() && !settings.yields_disk(*place)
    });
    // Relaxed: a slightly outdated count is good enough.
    important.map(|(_, class)| class.units.load(Ordering::Relaxed)).sum()
}

/// The bytes read so far for yielding processes and their parallel workers.
fn read(host: &Host, yielding: &[i32], workers: &Workers) -> HashMap<i32, u64> {
    let all = yielding.iter().flat_map(|process| workers.of(*process).chain([*process]));
    all.filter_map(|process| Some((process, read_bytes(host, process)?))).collect()
}

impl Count {
    fn add(&mut self, look: &Look) {
        self.looks += 1;
        self.important += look.important as f64;
        if look.asked > 0 {
            self.waiting += look.waiting as f64 * look.important as f64 / look.asked as f64;
        }
    }

    /// The measurements from the beginning of this count to that of the next; `None` without looks.
    fn until(&self, next: &Count, leaders: &[i32]) -> Option<DiskSight> {
        let window = next.began.saturating_duration_since(self.began);
        if self.looks == 0 || window.is_zero() {
            return None;
        }
        let new = |(process, read): (&i32, &u64)| match self.read.get(process) {
            Some(before) => read.saturating_sub(*before),
            // A worker began within the window; a session may be older and have served another class.
            None if leaders.contains(process) => 0,
            None => *read,
        };
        let yielding = next.read.iter().map(new).sum::<u64>() as f64 / window.as_secs_f64();
        let disk = next.disk.since(&self.disk, window);
        let looks = f64::from(self.looks);
        Some(DiskSight {
            window,
            important: self.important / looks,
            waiting: self.waiting / looks,
            ended: next.ended.saturating_sub(self.ended),
            yielding_bytes_per_s: yielding,
            all_bytes_per_s: disk.read_bytes_per_s.unwrap_or(yielding),
            busy: disk.busy,
            waited: disk.waited,
        })
    }
}
