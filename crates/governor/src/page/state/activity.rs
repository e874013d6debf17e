//! Which statements took the server's time.

use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::seconds;
use crate::activity::Statement;
use crate::governor::Governor;

/// The maximum number of running statements shown, largest share first.
const STATEMENTS_MAX: usize = 10;

/// Which statements ran at the looks of the last minute, about one a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityState {
    /// How many looks there were; none without a control connection.
    pub looks: u64,
    /// How many sessions the control role could not see at the last one, without the rights of `pg_read_all_stats`.
    pub hidden: u64,
    /// The largest shares, 10 at most.
    pub statements: Vec<RunningStatement>,
}

/// A statement that was seen running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunningStatement {
    /// Its fingerprint, 16 hexadecimal digits; null if the server keeps only a part of its text, and for the statements that
    /// are counted together.
    pub fingerprint: Option<String>,
    /// Its text without constants, 500 characters at most; null for the statements that are counted together.
    pub text: Option<String>,
    /// Its class; null if its session does not pass through the governor.
    pub class: Option<String>,
    /// Its share of the time that all statements took together, working and waiting.
    pub share: f64,
    /// The lower end of the interval of 95 % for that.
    pub share_low: f64,
    /// The upper end.
    pub share_high: f64,
    /// How often it was seen.
    pub samples: u64,
    /// How many sessions ran it at the last look.
    pub running: u64,
    /// The longest time that it had run when it was seen.
    pub longest_s: f64,
}

impl ActivityState {
    /// What was seen in the last minute.
    pub(super) fn of(governor: &Governor, now: Instant) -> Self {
        let settings = governor.settings();
        let minute = governor.activity.lock().minute(governor.clock(now));
        let row = |of: Statement| RunningStatement {
            fingerprint: of.fingerprint.map(|fingerprint| format!("{fingerprint:016x}")),
            text: of.text,
            class: of.class.map(|class| settings.class(class).name.clone()),
            share: of.share.0,
            share_low: of.share.1,
            share_high: of.share.2,
            samples: of.samples,
            running: of.running,
            longest_s: seconds(of.longest),
        };
        let statements = minute.statements.into_iter().take(STATEMENTS_MAX).map(row).collect();
        ActivityState { looks: minute.looks, hidden: minute.hidden, statements }
    }
}
