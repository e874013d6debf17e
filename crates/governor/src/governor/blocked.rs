//! Which units wait for locks, who holds them, and why the governor leaves the holder alone.

use std::fmt;
use std::time::Instant;

use crate::registry::{Immunity, SessionId};

/// A unit that waits for a lock, as the last look has shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Its session.
    pub waiter: SessionId,
    /// Its class.
    pub waiter_class: String,
    /// Its transaction and unit.
    pub unit: (u64, u64),
    /// Since when the unit has been in flight.
    pub since: Instant,
    /// The session at the end of the chain of waiters; `None` if it is not known to the governor.
    pub holder: Option<SessionId>,
    /// Its server process; 0 for a prepared transaction.
    pub holder_process: i32,
    /// Its class.
    pub holder_class: Option<String>,
    /// What the holder was doing.
    pub holder_was: &'static str,
    /// Why it is left alone; `None` if it is not, or if the unit is not important.
    pub why: Option<LeftAlone>,
}

/// Why a transaction that holds up a more important one is left alone. Its text names the setting that would change
/// this, where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftAlone {
    /// It is prepared for a commit in two phases.
    Prepared,
    /// Its session is not known to the governor.
    Foreign,
    /// Its session does not come through the governor, which only observes it.
    Direct,
    /// Its class is not below that of the waiter.
    AsImportant,
    /// It was rolled back as often as it may be.
    Promoted,
    /// Its class does not permit rollbacks.
    NotPreemptible,
    /// Beside a server: its class does not permit cancels.
    NotOptedIn,
    /// Beside a server: no cancel reaches a session whose client thinks.
    OutOfReach,
    /// Clients of its class do not retry, and it could not be replayed, or its client thinks.
    NoRetry,
    /// It must not be rolled back now.
    Immune(Immunity),
    /// Its rollback costs more than it saves.
    TooDear,
    /// The policy leaves such a holder alone.
    Policy,
}

impl fmt::Display for LeftAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftAlone::Prepared => "a prepared transaction: COMMIT PREPARED or ROLLBACK PREPARED ends it",
            LeftAlone::Foreign => "its client does not come through the governor",
            LeftAlone::Direct => "its client is connected to the server itself",
            LeftAlone::AsImportant => "its class is not less important",
            LeftAlone::Promoted => "it was rolled back rollbacks_max times",
            LeftAlone::NotPreemptible => {
                "its class is not preemptible (preemptible = true would change that, or idle_in_transaction_timeout)"
            }
            LeftAlone::NotOptedIn => "its class has not opted in (preemptible = \"retry-by-application\")",
            LeftAlone::OutOfReach => "its client thinks, and no cancel reaches it (idle_in_transaction_timeout)",
            LeftAlone::NoRetry => "no-retry (retries = true would change that, or idle_in_transaction_timeout)",
            LeftAlone::Immune(immunity) => immunity.name(),
            LeftAlone::TooDear => "its rollback costs more than it saves (weigh)",
            LeftAlone::Policy => "the policy leaves it alone (policy = \"pabort\" or \"after(50ms)\")",
        })
    }
}
