//! Controls: limits on the share of the machine that a database may use.
//!
//! A [`Control`] is one kind of limit: the cores, the bytes per second it may write. It can report whether it works here
//! ([`probe`](Control::probe)), whether an amount makes sense ([`check`](Control::check)), put an amount in force
//! ([`apply`](Control::apply)) and report whether the limit took effect ([`verify`](Control::verify)).
//!
//! Adding one is a file in `control/` and a line in [`CONTROLS`].

mod amount;
mod autogroups;
mod cores;
mod cpu_quota;
pub(crate) mod cpu_weight;
pub(crate) mod disk;
#[cfg(test)]
pub(crate) mod fake;
mod huge_pages;
mod kernel_word;
pub(crate) mod llc_ways;
mod memory;
pub(crate) mod memory_bandwidth;
mod nice;
mod prefetchers;
pub(crate) mod resctrl;
pub(crate) mod threads;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::availability::Availability;
use crate::host::Host;

pub(crate) use cores::list as core_list;
pub use llc_ways::KEY as LLC_WAYS;

/// How much of something is allowed, as typed in an experiment: a number in the control's unit, or a text such as
/// `0-3,8` or `unlimited`, which is the same as not naming the control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// A number in the unit of the control.
    Number(f64),
    /// A list or a word that the control knows.
    Text(String),
}

impl Amount {
    /// Whether this is the word for "no limit", which every control takes.
    pub(crate) fn is_unlimited(&self) -> bool {
        matches!(self, Amount::Text(text) if text.trim() == "unlimited")
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Number(number) => number.fmt(out),
            Amount::Text(text) => text.fmt(out),
        }
    }
}

/// Amounts wanted at one time, by [`Control::key`]. A control that is not named here limits nothing.
pub type Limits = BTreeMap<String, Amount>;

/// How a limit held during a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The figure that the limit bounds, in the unit of the control: bytes per second reached, cores run on; `None` if it
    /// could not be measured, and [`why_not`](Verdict::why_not) says why.
    pub achieved: Option<Amount>,
    /// Why the limit had no effect, or why its effect could not be seen; `None` if it had one.
    pub why_not: Option<String>,
}

/// Raw figures that a control takes at the beginning of a window, to compare with the end: bytes so far, time so far.
pub type Observation = BTreeMap<String, f64>;

/// The processes whose share of the machine is limited, with all present and future threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Process ids. Children that they start later are included.
    pub processes: Vec<i32>,
    /// The folder of their data: limits on reading and writing apply to the disk below it. `None` is the folder for
    /// temporary files.
    pub data_folder: Option<PathBuf>,
}

/// How one change is undone. Written to the restore journal before the change is made, so that it can be undone by
/// another process if this one is killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// A group folder that we made in a control group hierarchy or in resctrl: the remaining tasks move to `tasks_to`
    /// (the folder's parent if `None`), and the folder is removed.
    RemoveGroup {
        /// The folder, absolute on the host.
        folder: String,
        /// The group that its tasks came from.
        tasks_to: Option<String>,
    },
    /// A control group that we made: its members return to their original groups, and the group is removed.
    RemoveControlGroup {
        /// The folder, absolute on the host.
        folder: String,
        /// The origins of members, at least one. Members that are not listed began within the group: they go to the
        /// origin of the process that started them, or else to the first origin.
        came_from: Vec<Origin>,
    },
    /// A file of `/proc` or `/sys` whose previous text is written back.
    WriteFile {
        /// The file, absolute on the host.
        path: String,
        /// The previous text.
        text: String,
    },
    /// A thread that may run on these cores again.
    Affinity {
        /// The thread.
        thread: i32,
        /// When it began, in clock ticks since boot: the id may have been reused.
        started: u64,
        /// The cores.
        cores: Vec<usize>,
        /// If the thread is a process's first: the process's threads and children that began at this tick or later
        /// inherited the limit, and get these cores too.
        since: Option<u64>,
    },
    /// A thread whose nice value is restored.
    Nice {
        /// The thread.
        thread: i32,
        /// When it began, in clock ticks since boot.
        started: u64,
        /// The value, -20 to 19.
        nice: i32,
        /// As for [`Undo::Affinity`].
        since: Option<u64>,
    },
    /// The value of a model-specific register is restored on every core listed.
    Register {
        /// The number of the register.
        register: u32,
        /// The previous value on each core.
        values: BTreeMap<usize, u64>,
    },
}

/// The group of a process before we moved it into one of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The process.
    pub process: i32,
    /// When it began, in clock ticks since boot: the id may have been reused.
    pub started: u64,
    /// The folder of its group, absolute on the host.
    pub folder: String,
}

/// Records how to undo each change before it is made.
pub trait UndoNotes {
    /// Records how to undo the next change. The change may be made only if this succeeds.
    fn note(&mut self, undo: Undo) -> Result<(), ControlError>;
}

/// What a control needs to act.
pub struct ControlContext<'a> {
    /// The machine.
    pub host: &'a Host,
    /// Whose share is limited.
    pub subject: &'a Subject,
    /// Where undoing is noted.
    pub undo: &'a mut dyn UndoNotes,
}

/// A window in which a limit is watched.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    /// The machine.
    pub host: &'a Host,
    /// Whose share is limited.
    pub subject: &'a Subject,
    /// The amount in force.
    pub amount: &'a Amount,
    /// The figures [observed](Control::observe) when the window began.
    pub earlier: &'a Observation,
    /// How long the window was.
    pub length: Duration,
}

/// Why the effect of a limit is unknown.
#[derive(Debug)]
pub struct Unknown(String);

impl<E: fmt::Display> From<E> for Unknown {
    fn from(why: E) -> Unknown {
        Unknown(why.to_string())
    }
}

impl From<Unknown> for Verdict {
    fn from(Unknown(why): Unknown) -> Verdict {
        Verdict { achieved: None, why_not: Some(why) }
    }
}

/// Why a limit cannot be put in force. Nothing is left half done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The amount makes no sense on this machine.
    #[error("{control} cannot be {amount}: {why}")]
    Amount {
        /// The control's key.
        control: String,
        /// The requested amount.
        amount: String,
        /// The error, and the permitted amounts.
        why: String,
    },
    /// The control does not work here.
    #[error("{control} cannot be limited here: {reason}{}", remedy.as_ref().map(|remedy| format!(" (remedy: {remedy})")).unwrap_or_default())]
    Unavailable {
        /// The control's key.
        control: String,
        /// Why not.
        reason: String,
        /// How to make it work.
        remedy: Option<String>,
    },
    /// The kernel refused.
    #[error("cannot {doing} {path}: {error}{}", told.as_ref().map(|told| format!(" ({told})")).unwrap_or_default())]
    Refused {
        /// The attempted action: `write "0-1" to`, `make`.
        doing: String,
        /// The file or folder.
        path: String,
        /// The system's error.
        error: std::io::Error,
        /// The kernel's explanation from a separate file, as resctrl has.
        told: Option<String>,
    },
}

impl ControlError {
    pub(crate) fn amount(control: &str, amount: &Amount, why: impl Into<String>) -> ControlError {
        ControlError::Amount { control: control.to_owned(), amount: amount.to_string(), why: why.into() }
    }

    pub(crate) fn unavailable(control: &str, reason: impl Into<String>, remedy: Option<&str>) -> ControlError {
        ControlError::Unavailable {
            control: control.to_owned(),
            reason: reason.into(),
            remedy: remedy.map(str::to_owned),
        }
    }

    pub(crate) fn refused(doing: impl Into<String>, path: impl fmt::Display, error: std::io::Error) -> ControlError {
        ControlError::Refused { doing: doing.into(), path: path.to_string(), error, told: None }
    }

    /// Whether the file or group to change no longer exists.
    pub fn is_gone(&self) -> bool {
        // The kernel returns ENODEV for a file that was opened just before its group was removed.
        let is_gone = |error: &std::io::Error| {
            error.kind() == std::io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::NODEV)
        };
        matches!(self, ControlError::Refused { error, .. } if is_gone(error))
    }
}

impl Verdict {
    /// The limit was in force, and `achieved` was reached within it.
    pub(crate) fn held(achieved: Amount) -> Verdict {
        Verdict { achieved: Some(achieved), why_not: None }
    }

    /// `achieved` was reached, and the limit had no effect for this reason.
    pub(crate) fn escaped(achieved: Amount, why_not: impl Into<String>) -> Verdict {
        Verdict { achieved: Some(achieved), why_not: Some(why_not.into()) }
    }
}

/// One kind of limit.
pub trait Control: Sync {
    /// The word by which experiments sweep it: `cores`, `write_mb_s`.
    fn key(&self) -> &'static str;
    /// The unit of its amounts.
    fn unit(&self) -> &'static str;
    /// A sentence that says what the control limits.
    fn meaning(&self) -> &'static str;
    /// Whether it works on `host`, and by which mechanism. Changes nothing.
    fn probe(&self, host: &Host) -> Availability;
    /// Whether an amount makes sense on `host`: not less than the minimum, and only existing cores. Changes nothing.
    fn check(&self, host: &Host, amount: &Amount) -> Result<(), ControlError>;
    /// Puts an amount in force for the subject, or replaces the present one. If it fails, its changes are undone from
    /// the notes.
    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError>;
    /// Figures at the beginning of a window; empty for a control that is verified by its settings alone.
    fn observe(&self, _host: &Host, _subject: &Subject) -> Observation {
        Observation::new()
    }
    /// Whether the limit was in force and took effect in a window: reads back the setting and compares the figure
    /// reached with the amount allowed.
    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown>;
}

/// Every control, in the order in which they are listed and applied.
pub static CONTROLS: &[&dyn Control] = &[
    &cores::Cores,
    &cpu_weight::CpuWeight,
    &cpu_quota::CpuQuota,
    &nice::Nice,
    &llc_ways::CONTROL,
    &memory_bandwidth::CONTROL,
    &memory::Memory,
    &disk::READ_MB_S,
    &disk::WRITE_MB_S,
    &disk::READ_IOPS,
    &disk::WRITE_IOPS,
    &huge_pages::HUGE_PAGES,
    &autogroups::AUTOGROUPS,
    &prefetchers::Prefetchers,
];

#[cfg(test)]
mod tests;
