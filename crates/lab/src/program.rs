//! What the program that embeds the lab provides for carrying out experiments.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::plan::Plan;
use crate::runner::RunProgress;
use crate::targets::Targets;

/// The program, as far as experiments depend on it.
pub struct Program<'a> {
    /// The databases that it can open.
    pub targets: &'a dyn Targets,
    /// Its version.
    pub build: Build,
    /// The program and the first argument that start a hog; empty if it cannot start one.
    pub hog: Vec<OsString>,
    /// The program and the first argument that [count](crate::counted::count) requests; empty if it cannot.
    pub counting: Vec<OsString>,
    /// The folder for figures that are kept between experiments; `None` if its user has none.
    pub state_folder: Option<PathBuf>,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Informs the person who waits.
    pub reporter: &'a dyn Reporter,
}

/// The version of the program that measures, for the record.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The commit it was built from; `None` outside a checkout.
    pub commit: Option<&'static str>,
    /// The hash of each part of its sources, such as `engine/lock`, as they were when it was built; empty if they were
    /// not there.
    pub sources: &'static [(&'static str, &'static str)],
}

/// Informs a person about an experiment that is under way.
pub trait Reporter: Sync {
    /// The current step of a plan; called several times per second.
    fn step(&self, step: RunProgress<'_>, plan: &Plan);

    /// The current work, whose length is not known.
    fn activity(&self, words: &str);

    /// Removes the current step or work from the screen, before anything else is printed.
    fn clear(&self);

    /// A message that stays.
    fn tell(&self, message: &str);
}

impl Program<'_> {
    /// Whether Ctrl-C was pressed.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Program<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("build", &self.build).finish_non_exhaustive()
    }
}
