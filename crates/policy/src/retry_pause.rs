//! How long an aborted transaction pauses before it is replayed.

use std::time::Duration;

/// The number of replays without a pause: most conflicts are over after one.
const AT_ONCE: u32 = 3;

/// The longest pause is 2 to the power of this, in milliseconds.
const DOUBLINGS_MAX: u32 = 7;

/// The pause before a replay, given how often the transaction has been aborted: a conflict that has come back several
/// times takes longer to pass, and replays without pauses would only keep the cores busy.
///
/// ```
/// use std::time::Duration;
/// use plimsoll_policy::pause_before_replay;
///
/// assert_eq!(pause_before_replay(3), Duration::ZERO);
/// assert_eq!([4, 5, 6].map(pause_before_replay), [1, 2, 4].map(Duration::from_millis));
/// assert_eq!(pause_before_replay(u32::MAX), Duration::from_millis(128));
/// ```
pub fn pause_before_replay(aborts: u32) -> Duration {
    match aborts.checked_sub(AT_ONCE + 1) {
        Some(doublings) => Duration::from_millis(1 << doublings.min(DOUBLINGS_MAX)),
        None => Duration::ZERO,
    }
}
