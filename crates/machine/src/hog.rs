//! Hogs: programs that take a set amount of one resource. They show how a workload performs with less of the resource where
//! the hardware cannot limit it, and they separate the causes of interference (GA fig. 8: an infinite loop
//! on every core takes processors and nothing else).
//!
//! In reading order: [`HogSpec`] describes a hog (`llc:8`), [`Hog::start`](HogSpec::start) starts it at a [`HogPlace`],
//! and [`HogHandle::report`] returns what it achieved as a [`HogReport`]. [`serve`](mod@serve) runs one in a separate
//! process, and [`HogProcess`] is the parent's handle to it, so that a database's limits do not affect its hogs, and
//! hogs do not use its memory. [`pirate`] holds part of the last-level cache and measures how much it held.
//!
//! Adding one is a file in `hog/` and a line in [`HOGS`].

mod bandwidth;
mod cpu;
mod crew;
pub(crate) mod disk;
mod llc;
pub mod pirate;
mod process;
mod report;
pub(crate) mod schedule;
pub mod serve;
mod spec;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) use bandwidth::Streams;
pub(crate) use crew::{Crew, Leave, pin, pin_to_one};
pub use process::HogProcess;
pub use report::{Achieved, HogReport};
pub use serve::serve;
pub use spec::HogSpec;

/// Where a hog works.
#[derive(Debug, Clone, Default)]
pub struct HogPlace {
    /// The cores its threads are pinned to, in turn; if empty, threads are not pinned.
    pub cores: Vec<usize>,
    /// The folder for the file of a disk hog, on the disk that is to be kept busy.
    pub folder: PathBuf,
}

/// One kind of hog.
pub trait HogKind: Sync {
    /// Its name in a [`HogSpec`]: `cpu`, `llc`.
    fn key(&self) -> &'static str;
    /// The unit of its strength.
    fn unit(&self) -> &'static str;
    /// A sentence that says what it does.
    fn meaning(&self) -> &'static str;
    /// The verb of reports for the amount achieved: `reached`, `held`.
    fn verb(&self) -> &'static str {
        "reached"
    }
    /// Why its strength may not have been reached, in general.
    fn shortfall(&self) -> &'static str;
    /// Whether a strength of 0 makes sense: the hog keeps its cores as busy as at any other strength, and takes nothing
    /// else.
    fn may_be_idle(&self) -> bool {
        false
    }
    /// Why a strength, which is finite and above 0, makes no sense; `None` if it does.
    fn refuse(&self, strength: f64) -> Option<String>;
    /// Starts the hog. It works when this returns, until the returned value is dropped.
    fn start(&self, strength: f64, place: &HogPlace) -> Result<Box<dyn Running>, HogError>;
}

/// A hog at work. Dropping it ends it and waits until it has ended.
pub trait Running: Send {
    /// The amount achieved since the last call, or since it began, a time of length `window`.
    fn achieved(&mut self, window: Duration) -> Achieved;
}

impl<F: FnMut(Duration) -> Achieved + Send> Running for F {
    fn achieved(&mut self, window: Duration) -> Achieved {
        self(window)
    }
}

/// Every kind of hog, in the order in which they are listed.
pub static HOGS: &[&dyn HogKind] = &[&cpu::Cpu, &llc::Llc, &bandwidth::Bandwidth, &disk::DISK_WRITE, &disk::DISK_READ];

/// Why a hog does not exist or does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HogError {
    /// The text is not a hog.
    #[error("`{text}` is not a hog: {why}")]
    Spec {
        /// The text as typed.
        text: String,
        /// The error, and the valid forms.
        why: String,
    },
    /// A core that does not exist, or that this process may not use.
    #[error("a hog cannot run on core {core}: {error}; take cores that are online and in the affinity of this process")]
    Core {
        /// The core.
        core: usize,
        /// The system's error.
        error: std::io::Error,
    },
    /// No memory for the hog's buffer.
    #[error("a hog needs memory it cannot have: {0}")]
    Memory(std::io::Error),
    /// A thread could not be started.
    #[error("cannot start a thread for a hog: {0}")]
    Thread(std::io::Error),
    /// The disk has no room for the file.
    #[error("the disk of {} has no room for a file of {needed_mib} MiB: {error}", folder.display())]
    DiskFull {
        /// The folder.
        folder: PathBuf,
        /// The size of the file, MiB.
        needed_mib: u64,
        /// The system's error.
        error: std::io::Error,
    },
    /// The folder is on no disk, or its file system cannot be written to directly.
    #[error("{} is not a place to measure a disk or to load it: {why}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        why: String,
    },
    /// A hog in a separate process cannot be started or answers incorrectly. A hog that cannot start reports the error
    /// itself.
    #[error("a hog in a process of its own: {0}")]
    Process(String),
    /// The parent that receives reports cannot be reached.
    #[error("a hog cannot talk to its parent: {0}")]
    Parent(std::io::Error),
}

impl HogSpec {
    /// Starts this hog. It works when this returns, until the handle is dropped or [stopped](HogHandle::stop).
    pub fn start(&self, place: &HogPlace) -> Result<HogHandle, HogError> {
        let running = self.kind().map(|kind| kind.start(self.strength(), place)).transpose()?;
        Ok(HogHandle { spec: *self, running, since: Instant::now() })
    }
}

/// A hog at work. Dropping it ends it.
pub struct HogHandle {
    spec: HogSpec,
    running: Option<Box<dyn Running>>,
    since: Instant,
}

impl HogHandle {
    /// The amount really achieved since the last report, or since it began.
    pub fn report(&mut self) -> HogReport {
        let now = Instant::now();
        let window = now - self.since;
        self.since = now;
        let achieved = self.running.as_mut().map(|running| running.achieved(window)).unwrap_or_default();
        HogReport::judge(self.spec, window, achieved)
    }

    /// Ends the hog, waits for its threads, and returns what it achieved since the last report.
    pub fn stop(mut self) -> HogReport {
        self.report()
    }
}

impl std::fmt::Debug for HogHandle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HogHandle").field("spec", &self.spec).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
