//! A governor between clients and a server, for experiments: `plimsoll govern` as a process of its own.
//!
//! [`GovernorSettings`] are the settings from a target's options, `configuration` is the file that the governor reads,
//! and [`GovernorProcess`] is the process, which ends with this value, or with this process. Clients connect to it
//! through a socket in a folder that no other user may enter. Each of their transactions names its class in a comment
//! in its first statement. In the mode `beside` clients connect to the server itself, and name their class in their
//! application names. In the mode `split` they do so for transactions of high priority only. In the modes `sql-only`
//! and `sql-only-split` the governor has nothing of its server but the connection (`isolated`), as with a server that is rented.
//! In the mode `pool` clients share server connections; in the mode `pgbouncer` they share those of `pgbouncer`, which stands
//! in the governor's place.

mod configuration;
mod isolated;
mod own_settings;
mod pgbouncer;
mod process;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_policy::Priority;

pub use isolated::IsolationError;
pub use pgbouncer::PeerError;
pub use process::{GovernorError, GovernorProcess};

/// The modes of a governor between clients and a server.
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
    "only-shares-without-inheritance",
    "only-shares-and-preemption",
    "beside",
    "split",
    "only-disk",
    "sql-only",
    "sql-only-split",
    "only-guards",
    "pool",
    "pgbouncer",
];

/// The CPU shares that processes of low priority can have.
pub(crate) static LOW_SHARES: &[&str] = &["untouched", "nice-5", "nice-10", "nice-15", "nice-19", "idle"];

/// The levers that a governor may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GovernorMode {
    /// The number of low-priority transactions that run at once is limited; others wait.
    pub admission: bool,
    /// Low-priority transactions are rolled back for high-priority ones.
    pub preemption: bool,
    /// Transactions that were rolled back are replayed.
    pub replay: bool,
    /// So are those that the server aborts by itself, in both classes, and deadlocks are broken before the server looks
    /// for them.
    pub retry: bool,
    /// A transaction that waits for its client may be rolled back, too.
    pub idle_preemption: bool,
    /// Processes that serve low priority get a lower CPU share.
    pub shares: bool,
    /// One that holds a lock for which a high-priority transaction waits gets that transaction's CPU share.
    pub inheritance: bool,
    /// Clients connect to the server itself, and the governor governs the sessions that it sees there.
    pub beside: bool,
    /// Transactions of high priority go to the server itself, all others through the governor, which sees both.
    pub split: bool,
    /// Disk reads of low priority are limited while high priority waits for the disk.
    pub disk: bool,
    /// The governor runs as another user, sees no process of the server, and has a role that is no superuser. It is asked
    /// for every lever, and finds out which ones work.
    pub isolated: bool,
    /// Statements that need a lock which stops others step back and try again.
    pub guards: bool,
    /// Clients share few server connections, transaction by transaction.
    pub pool: bool,
    /// pgbouncer stands in the governor's place.
    pub peer: bool,
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
        split: false,
        disk: true,
        isolated: false,
        guards: true,
        pool: false,
        peer: false,
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
        split: false,
        disk: false,
        isolated: false,
        guards: false,
        pool: false,
        peer: false,
    };

    /// The mode of that name in `GOVERNOR_MODES`; `None` for no governor.
    pub fn named(name: &str) -> Option<GovernorMode> {
        let (on, off) = (GovernorMode::ON, GovernorMode::OFF);
        Some(match name {
            "off" => off,
            "on" => on,
            "without-admission" => GovernorMode { admission: false, ..on },
            // Without it no transaction is rolled back, so there is nothing to replay.
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
            // CPU-Prio and P-CPU of MW 2.7.2; the one above is CPU-Prio-Inherit.
            "only-shares-without-inheritance" => GovernorMode { shares: true, ..off },
            "only-shares-and-preemption" => {
                GovernorMode { shares: true, preemption: true, replay: true, idle_preemption: true, ..off }
            }
            // The levers that need no place between client and server.
            "beside" => GovernorMode { admission: false, replay: false, idle_preemption: false, beside: true, ..on },
            "split" => GovernorMode { split: true, ..on },
            "only-disk" => GovernorMode { disk: true, ..off },
            "sql-only" => GovernorMode { isolated: true, ..on },
            "sql-only-split" => GovernorMode { isolated: true, split: true, ..on },
            // To step back is to be run again.
            "only-guards" => GovernorMode { guards: true, replay: true, ..off },
            "pool" => GovernorMode { pool: true, ..on },
            "pgbouncer" => GovernorMode { pool: true, peer: true, ..off },
            _ => return None,
        })
    }

    /// Whether rules find the class of a session by its application name, and not by the comments of its transactions.
    pub(crate) fn reads_names(self) -> bool {
        self.beside || self.split
    }

    /// Whether transactions name their class in comments.
    pub(crate) fn reads_comments(self) -> bool {
        !self.reads_names() && !self.peer
    }
}

/// The settings of a governor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GovernorSettings {
    /// Its levers.
    pub mode: GovernorMode,
    /// How many low-priority transactions may run at once, if it may limit them; `None` for any number.
    pub low_mpl: Option<u32>,
    /// How many parallel workers each query of low priority may have; `None` for as many as the server allows.
    pub low_workers_max: Option<u32>,
    /// The policy of preemption, if it may preempt.
    pub preemption: String,
    /// How long a high-priority statement must have been in flight before the governor looks for what it waits for.
    pub threshold: Duration,
    /// The shortest time between two such looks; `None` for the governor's own default.
    pub look_interval: Option<Duration>,
    /// The CPU share of processes that serve low priority, one of `LOW_SHARES`, if it may set shares.
    pub low_share: String,
    /// The CPU share that they keep at least, percent, if they get idle time only; `None` for nothing.
    pub low_floor: Option<u32>,
    /// Whether it keeps idle cores awake while high priority runs, if it may use any lever.
    pub awake: bool,
    /// How many server connections the clients share, if they do.
    pub pool_size: u32,
    /// The target of high priority, as its settings write it, if it may limit low priority; `None` for none.
    pub target: Option<String>,
    /// The operator's own settings file, which replaces all settings above.
    pub config: Option<PathBuf>,
    /// The governor's program; `None` for this one.
    pub program: Option<PathBuf>,
}

/// The names of the classes in the configuration: low priority first.
pub(crate) const CLASSES: [&str; 2] = ["low", "high"];

/// The index in [`CLASSES`] of a transaction's class: every priority above low is high.
pub(crate) fn class_of(priority: Priority) -> usize {
    usize::from(priority > Priority::LOW)
}

/// The application name by which the rules of a governor find a session's class.
pub(crate) fn name_of_class(class: usize) -> String {
    format!("plimsoll {}", CLASSES[class])
}

/// A statement with a comment that names the class of the transaction that it begins. Behind the statement, the comment
/// shifts no position in it; on a line of its own, it is not part of a comment that ends the statement.
pub(crate) fn tagged(sql: &str, class: Option<usize>) -> Cow<'_, str> {
    match class {
        None => sql.into(),
        Some(class) => format!("{sql}\n/*class='{}'*/", CLASSES[class]).into(),
    }
}

/// A client's messages whose texts name the class, in the same comment: those of `Query` and `Parse`.
pub(crate) fn class_in_messages(request: &[u8], class: Option<usize>) -> Cow<'_, [u8]> {
    let Some(class) = class else { return request.into() };
    let comment = tagged("", Some(class));
    let (mut named, mut rest) = (Vec::with_capacity(request.len() + 2 * comment.len()), request);
    while let Some((head, after)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some((body, next)) = length.checked_sub(4).and_then(|length| after.split_at_checked(length)) else { break };
        rest = next;
        let texts = match head[0] {
            b'Q' => 1,
            // The name of the statement stands before its text.
            b'P' => 2,
            _ => 0,
        };
        let end = body.iter().enumerate().filter(|(_, byte)| **byte == 0).nth(usize::max(texts, 1) - 1);
        match end.filter(|_| texts > 0) {
            Some((end, _)) => {
                named.push(head[0]);
                named.extend_from_slice(&((length + comment.len()) as u32).to_be_bytes());
                named.extend_from_slice(&body[..end]);
                named.extend_from_slice(comment.as_bytes());
                named.extend_from_slice(&body[end..]);
            }
            None => named.extend_from_slice(&[&head[..], body].concat()),
        }
    }
    named.extend_from_slice(rest);
    named.into()
}
