//! The errors of statements that are not tried again.

use std::time::Duration;

use plimsoll_policy::{GaveUp, NoReplay};

use super::super::answers::{Notice, error_response};
use crate::settings::write_duration;

/// The error for a client whose statement is not tried again; `None` if it is the server's own.
pub(super) fn gave_up(why: GaveUp, waited: Duration) -> Option<Vec<u8>> {
    match why {
        // It is what the server says.
        GaveUp::LockTimeout => None,
        GaveUp::StatementTimeout => {
            let message = "canceling statement due to statement timeout";
            Some(error_response(&Notice::new("ERROR", "57014", message)))
        }
        GaveUp::Patience => {
            let message = format!(
                "gave up after {}: this statement needs a lock that others hold or wait for",
                write_duration(Duration::from_millis(waited.as_millis() as u64))
            );
            let hint = "`migrations_patience` in [guards] says how long the governor tries.";
            let state = "55P03";
            Some(error_response(&Notice { hint: Some(hint), ..Notice::new("ERROR", state, &message) }))
        }
    }
}

/// What the server says when `lock_timeout` is over.
pub(super) fn lock_timeout_error() -> Vec<u8> {
    error_response(&Notice::new("ERROR", "55P03", "canceling statement due to lock timeout"))
}

/// The error for a client whose transaction cannot be run again.
pub(super) fn single_try(waited: Duration, why: NoReplay) -> Vec<u8> {
    let message = format!(
        "ended after {}: others would queue behind this statement, which waits for a lock",
        write_duration(Duration::from_millis(waited.as_millis() as u64))
    );
    let detail = format!("Its transaction cannot be run again for its client ({why}).");
    let hint = "Try again, send it alone in its transaction, or set `migrations` in [guards] to `warn`.";
    let notice = Notice::new("ERROR", "55P03", &message);
    error_response(&Notice { detail: Some(&detail), hint: Some(hint), ..notice })
}
