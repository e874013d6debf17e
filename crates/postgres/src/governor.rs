//! A governor between clients and a server, for experiments: `plimsoll govern` as a process of its own.
//!
//! [`GovernorSettings`] are what a target's options ask for, `configuration` is the file that the governor reads, and
//! [`GovernorProcess`] is the process, which ends with this value, or with this process. Clients come to it through a socket in a
//! folder that nobody else may enter, and say with each transaction of which class it is: by a comment in the statement that begins it.
//! In the mode `beside` clients connect to the server itself, and say of which class they are by their application names.

mod configuration;
mod own_settings;
mod process;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_policy::Priority;

pub use process::{GovernorError, GovernorProcess};

/// What can be between clients and a server.
pub(crate) static GOVERNOR_MODES: &[&str] = &[
    "none",
    "off",
    "on",
    "without-admission",
    "without-preemption",
    "without-replay",
    "without-retry",
    "without-idle-preemption",
    "without-shares",
    "without-inheritance",
    "without-disk",
    "only-admission",
    "only-preemption",
    "only-shares",
    "beside",
    "only-disk",
];

/// What processes that serve low priority can get of the cores.
pub(crate) static LOW_SHARES: &[&str] = &["nice-5", "nice-10", "nice-19", "idle"];

/// Which levers of a governor may be pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GovernorMode {
    /// Low-priority transactions wait where more than a number of them would be inside.
    pub admission: bool,
    /// Low-priority transactions are rolled back for high-priority ones.
    pub preemption: bool,
    /// What was rolled back is run again without its client.
    pub replay: bool,
    /// So is what the server aborts by itself, in both classes, and cycles of waiters are broken before the server looks for them.
    pub retry: bool,
    /// A transaction that waits for its client may be rolled back, too.
    pub idle_preemption: bool,
    /// Processes that serve low priority get less of the cores.
    pub shares: bool,
    /// One that holds what a high-priority transaction waits for gets that one's share of the cores.
    pub inheritance: bool,
    /// Clients connect to the server itself, and the governor governs the sessions that it sees there.
    pub beside: bool,
    /// Low priority may read less of the disk while high priority waits for it.
    pub disk: bool,
}

impl GovernorMode {
    /// Every lever.
    pub const ON: GovernorMode = GovernorMode {
        admission: true,
        preemption: true,
        replay: true,
        retry: true,
        idle_preemption: true,
        shares: true,
        inheritance: true,
        beside: false,
        disk: true,
    };

    /// No lever: a proxy.
    pub const OFF: GovernorMode = GovernorMode {
        admission: false,
        preemption: false,
        replay: false,
        retry: false,
        idle_preemption: false,
        shares: false,
        inheritance: false,
        beside: false,
        disk: false,
    };

    /// The mode of that name in `GOVERNOR_MODES`; `None` where there is to be no governor.
    pub fn named(name: &str) -> Option<GovernorMode> {
        let (on, off) = (GovernorMode::ON, GovernorMode::OFF);
        Some(match name {
            "off" => off,
            "on" => on,
            "without-admission" => GovernorMode { admission: false, ..on },
            // Without it nobody is rolled back, so that there is nothing to be run again.
            "without-preemption" => GovernorMode { preemption: false, ..on },
            "without-replay" => GovernorMode { replay: false, retry: false, ..on },
            "without-retry" => GovernorMode { retry: false, ..on },
            "without-idle-preemption" => GovernorMode { idle_preemption: false, ..on },
            "without-shares" => GovernorMode { shares: false, inheritance: false, ..on },
            "without-inheritance" => GovernorMode { inheritance: false, ..on },
            "without-disk" => GovernorMode { disk: false, ..on },
            "only-admission" => GovernorMode { admission: true, ..off },
            "only-preemption" => GovernorMode { preemption: true, replay: true, idle_preemption: true, ..off },
            "only-shares" => GovernorMode { shares: true, inheritance: true, ..off },
            // What needs no place in the path.
            "beside" => GovernorMode { admission: false, replay: false, idle_preemption: false, beside: true, ..on },
            "only-disk" => GovernorMode { disk: true, ..off },
            _ => return None,
        })
    }
}

/// How a governor is to behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GovernorSettings {
    /// Its levers.
    pub mode: GovernorMode,
    /// How many low-priority transactions may be inside at once, if it may limit them; `None` for any number.
    pub low_mpl: Option<u32>,
    /// The policy of preemption, if it may preempt.
    pub preemption: String,
    /// For how long a high-priority statement must have been in flight before it asks what that waits for.
    pub threshold: Duration,
    /// The shortest time between two looks at that; `None` for the governor's own default.
    pub look_interval: Option<Duration>,
    /// What processes that serve low priority get of the cores, one of `LOW_SHARES`, if it may share them out.
    pub low_share: String,
    /// How much of the cores they keep at least, percent, if they get idle time only; `None` for nothing.
    pub low_floor: Option<u32>,
    /// Whether it keeps idle cores awake while high priority is at work, if it may use any lever.
    pub awake: bool,
    /// What it promises high priority, as its settings write it, if it may limit low priority; `None` for nothing.
    pub target: Option<String>,
    /// The operator's own settings file, which says everything above in place of what is here.
    pub config: Option<PathBuf>,
    /// The program that is the governor; `None` for this one.
    pub program: Option<PathBuf>,
}

/// The classes that the configuration has, by what they are called there: first that of low priority.
pub(crate) const CLASSES: [&str; 2] = ["low", "high"];

/// The place in [`CLASSES`] of a transaction's class: whatever is above low is high.
pub(crate) fn class_of(priority: Priority) -> usize {
    usize::from(priority > Priority::LOW)
}

/// What a session calls itself beside a governor, whose rules know its class by that.
pub(crate) fn name_of_class(class: usize) -> String {
    format!("plimsoll {}", CLASSES[class])
}

/// A statement that says of which class the transaction is that it begins. What is behind a statement moves no place in it, and
/// a line of its own is not part of a comment that ends the statement.
pub(crate) fn tagged(sql: &str, class: Option<usize>) -> Cow<'_, str> {
    match class {
        None => sql.into(),
        Some(class) => format!("{sql}\n/*class='{}'*/", CLASSES[class]).into(),
    }
}
