//! The counters of a class. Each is declared once, below: its field, the name of its metric, and its meaning, for
//! metrics, the live page and readers of the code.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aborts, Times};

/// A counter of each class, as a metric.
#[derive(Debug, Clone, Copy)]
pub struct ClassCounter {
    /// The metric's name, without `plimsoll_` and `_total`.
    pub name: &'static str,
    pub about: &'static str,
    /// Whether it is known only in the connection path, and not beside a server.
    pub in_path_only: bool,
    pub of: fn(&ClassStatistics) -> &AtomicU64,
}

macro_rules! class_counters {
    (
        counts { $(#[doc = $about:literal] $count:ident = $name:literal, in_path_only: $in_path_only:literal;)* }
        nanoseconds { $(#[doc = $time_about:literal] $time:ident = $time_name:literal;)* }
    ) => {
        /// Counts and times of one class since the governor started.
        #[derive(Debug)]
        pub struct ClassStatistics {
            pub name: String,
            $(#[doc = $about] pub $count: AtomicU64,)*
            $(#[doc = $time_about] #[doc = " In nanoseconds."] pub $time: AtomicU64,)*
            /// Transactions inside now.
            pub inside: AtomicU64,
            /// Transactions that the server has failed by itself, or that were rolled back to break a cycle.
            pub aborts: Aborts,
            /// How many parallel workers the server last allowed one of its sessions without our limit; `u64::MAX`
            /// before it was asked.
            pub server_workers: AtomicU64,
            pub times: Times,
        }

        /// The counts of a class at a moment.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct ClassTotals {
            $(#[doc = $about] pub $count: u64,)*
        }

        impl ClassStatistics {
            /// Counters, in the order in which metrics report them.
            pub const COUNTERS: &[ClassCounter] = &[$(ClassCounter {
                name: $name,
                about: $about.trim_ascii(),
                in_path_only: $in_path_only,
                of: |class| &class.$count,
            },)*];

            /// Counters that are kept in nanoseconds and reported in seconds.
            pub const SECONDS: &[ClassCounter] = &[$(ClassCounter {
                name: $time_name,
                about: $time_about.trim_ascii(),
                in_path_only: false,
                of: |class| &class.$time,
            },)*];

            pub(super) fn new(name: String) -> Self {
                ClassStatistics {
                    name,
                    $($count: AtomicU64::default(),)*
                    $($time: AtomicU64::default(),)*
                    inside: AtomicU64::default(),
                    aborts: Aborts::new(),
                    server_workers: AtomicU64::new(u64::MAX),
                    times: Times::default(),
                }
            }

            /// The counts up to now.
            pub fn totals(&self) -> ClassTotals {
                // Relaxed: counters are read by operators, and order nothing.
                ClassTotals { $($count: self.$count.load(Relaxed),)* }
            }
        }
    };
}

class_counters! {
    counts {
        /// Transactions that ended, by commit, rollback or error.
        transactions = "transactions", in_path_only: true;
        /// Units (a query, or all messages up to a Sync) that ended.
        units = "units", in_path_only: true;
        /// Errors that clients received.
        errors = "errors", in_path_only: true;
        /// Transactions that were queued.
        queued = "queued", in_path_only: true;
        /// Transactions admitted beyond the limits, because others waited for their sessions or for a snapshot's importers.
        let_in = "let_in_beyond_limits", in_path_only: true;
        /// Transactions refused because the queue was full.
        refused_full = "refused_queue_full", in_path_only: true;
        /// Transactions refused because they had been queued too long.
        refused_timeout = "refused_timeout", in_path_only: true;
        /// Transactions rolled back for others while they waited for a lock.
        preempted_waiting = "preempted_waiting", in_path_only: false;
        /// Transactions rolled back for others while they ran.
        preempted_running = "preempted_running", in_path_only: false;
        /// Transactions rolled back for others while they waited for their client.
        preempted_idle = "preempted_idle", in_path_only: true;
        /// Preemptions that came too late: the victim had ended the statement.
        preempted_too_late = "preemptions_too_late", in_path_only: false;
        /// Commits that waited for a standby when a rollback came, and no longer wait: a failover may lose them.
        commit_waits_cancelled = "commit_waits_cancelled", in_path_only: true;
        /// Transactions left alone because their rollback would have cost more than it saves.
        rollbacks_spared = "rollbacks_spared", in_path_only: false;
        /// Rollbacks after which the transaction that they were done for still waited, for another.
        rollbacks_in_vain = "rollbacks_in_vain", in_path_only: false;
        /// Preemptions that `track` decided and did not carry out.
        preemptions_tracked = "preemptions_tracked", in_path_only: false;
        /// Replays with the same answers.
        replays_verified = "replays_verified", in_path_only: true;
        /// Replays with another answer; the client received 40001.
        replays_differed = "replays_differed", in_path_only: true;
        /// Rollbacks without a replay, because it was not safe; the client received 40001.
        replays_unsafe = "replays_unsafe", in_path_only: true;
        /// Transactions whose tag had no effect: there is no such class, or the user may not choose it.
        tags_refused = "tags_refused", in_path_only: true;
        /// Sessions ended because a transaction waited for its client for too long.
        idle_ended = "idle_ended", in_path_only: false;
        /// Times that a statement which needs a strong lock stepped back, so that others do not queue behind it.
        lock_steps_back = "lock_steps_back", in_path_only: true;
        /// Statements that waited for a strong lock while others queued behind them.
        lock_queues = "lock_queues", in_path_only: false;
        /// Transactions that waited for their client and held up others for longer than `idle_cost`.
        idle_holders = "idle_holders", in_path_only: false;
        /// Statements that exceeded a limit of their class.
        runaways = "runaways", in_path_only: false;
        /// Transactions beyond the rate of their class, counted with `budgets = "warn"`.
        beyond_rate = "beyond_rate", in_path_only: true;
        /// Moves of other classes' levers for the class's target.
        target_moves = "target_moves", in_path_only: false;
    }
    nanoseconds {
        /// Time that transactions waited for others that `track` would have rolled back.
        tracked_saved_nanos = "tracked_saved_seconds";
        /// Work of transactions that was thrown away by rollbacks for others.
        rollback_lost_nanos = "rollback_lost_seconds";
        /// Waiting that rollbacks of others have saved transactions, as expected.
        rollback_won_nanos = "rollback_won_seconds";
    }
}
