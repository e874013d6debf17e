//! Cancels of a session's statements that are under way.

use std::time::{Duration, Instant};

use plimsoll_policy::{ClassIndex, Runaway};

use super::EventId;

/// Cancels that are under way, and their purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cancels {
    /// How many have been sent and have not arrived yet.
    pub in_flight: u32,
    /// The unit that we have cancelled for another transaction.
    pub preempting: Option<u64>,
    /// Whether that was to break a cycle of waiters, and not for a more important transaction.
    pub breaks_cycle: bool,
    /// Whether it was waiting for a lock when the cancel was aimed.
    pub was_waiting: bool,
    /// One may still arrive although no client waits for it any more: the server process must serve no other client.
    pub is_lost: bool,
    /// The event that receives the outcome.
    pub event: Option<EventId>,
    /// The cost and the benefit of the rollback, until they are counted.
    pub stake: Option<Stake>,
    /// The unit that was cancelled because it exceeded this limit of its class.
    pub runaway: Option<(u64, Runaway)>,
    /// Its client has cancelled while its pool prepared a connection for it: the cancel is sent after that.
    pub is_deferred: bool,
    /// The unit that its own client has cancelled.
    pub by_client: Option<u64>,
}

/// The cost and the benefit of a rollback, as expected when it was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stake {
    /// The victim's lost work: how long the server has worked for its transaction.
    pub lost: Duration,
    /// The waiting time that more important transactions save; `None` while too little is known to estimate it, and for
    /// a broken cycle.
    pub won: Option<Duration>,
    /// The class of the transaction for which the victim is rolled back.
    pub waiter: ClassIndex,
    /// When the watcher's look that led to the decision began.
    pub looked: Instant,
}
