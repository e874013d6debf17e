//! The state's lines on aborted transactions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::statistics::{AbortCause, AbortOutcome};

/// How many transactions were aborted for a cause, and what became of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aborted {
    /// `deadlock` or `serialization` by the server, `cycle` by the governor.
    pub cause: String,
    /// `replayed`, `again`, `differed`, `unconfirmed`, `abandoned`, or why it was not replayed.
    pub outcome: String,
    /// How many.
    pub count: u64,
}

impl Aborted {
    /// One count.
    pub(super) fn of((cause, outcome, count): (AbortCause, AbortOutcome, u64)) -> Self {
        Aborted { cause: cause.name().to_owned(), outcome: outcome.name().to_owned(), count }
    }
}
