//! Guards: work that holds up others by accident, and what is done about it.
//!
//! A guard names what it sees, and does something about it only in one of its modes ([`GuardMode`]).
//!
//! - [`next_try`]: a statement that needs a lock which stops readers or writers. A process that comes after it queues behind it,
//!   even if it waits itself. It therefore waits for a short time, steps back, and tries again.
//! - [`held_up_by`]: how many wait for a transaction, directly or behind others, and for how long together. A transaction
//!   whose client is thinking is judged by that, and not by how long its client thinks.
//! - [`RunawayLimits`]: how much a single statement may take.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// What a guard does about what it sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardMode {
    /// It does not look.
    #[default]
    Off,
    /// It counts and names what it would do.
    Warn,
    /// It does it.
    Enforce,
}

impl GuardMode {
    /// Every mode with its name in the settings.
    pub const NAMES: [(&str, GuardMode); 3] =
        [("off", GuardMode::Off), ("warn", GuardMode::Warn), ("enforce", GuardMode::Enforce)];
}

/// How much longer a statement may wait in one try if it cannot be run again: it has this one only.
const SINGLE_TRY_FACTOR: u32 = 10;

/// The first pauses between tries are that many times a try, and later ones that many. Those who queued behind a try
/// have at least that long to get done.
const PAUSE_FACTORS: [u32; 2] = [4, 8];

/// How many pauses are short.
const SHORT_PAUSES: u32 = 5;

/// The longest pause: a statement notices within this time that what it waited for is over.
const PAUSE_MAX: Duration = Duration::from_millis(800);

/// A statement that needs a strong lock, before one of its tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StrongLockWait {
    /// How long its client has waited for it, in all tries.
    pub waited: Duration,
    /// How long a try may wait for a lock.
    pub bound: Duration,
    /// The client's own `lock_timeout`.
    pub lock_timeout: Option<Duration>,
    /// Its `statement_timeout`.
    pub statement_timeout: Option<Duration>,
    /// For how long the guard tries.
    pub patience: Option<Duration>,
    /// Whether it can be run again.
    pub may_run_again: bool,
}

/// What a statement that needs a strong lock does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextTry {
    /// It waits for so long at most.
    Wait(Duration),
    /// Its client gets an error.
    GiveUp(GaveUp),
}

/// Why a statement that needs a strong lock is not tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaveUp {
    /// The client's own `lock_timeout` is over.
    LockTimeout,
    /// The client's own `statement_timeout` is over.
    StatementTimeout,
    /// The guard's patience is over.
    Patience,
}

/// How a statement that needs a strong lock is tried next. The client's own timeouts end it when they would without a
/// guard.
///
/// ```
/// use std::time::Duration;
/// use plimsoll_policy::{GaveUp, NextTry, StrongLockWait, next_try};
///
/// let seconds = Duration::from_secs;
/// let wait = StrongLockWait {
///     waited: seconds(4),
///     bound: Duration::from_millis(100),
///     lock_timeout: Some(seconds(5)),
///     statement_timeout: None,
///     patience: None,
///     may_run_again: true,
/// };
/// assert_eq!(next_try(&wait), NextTry::Wait(Duration::from_millis(100)));
/// let late = StrongLockWait { waited: seconds(5), ..wait };
/// assert_eq!(next_try(&late), NextTry::GiveUp(GaveUp::LockTimeout));
/// ```
pub fn next_try(wait: &StrongLockWait) -> NextTry {
    let ends = [
        (wait.lock_timeout, GaveUp::LockTimeout),
        (wait.statement_timeout, GaveUp::StatementTimeout),
        (wait.patience, GaveUp::Patience),
    ];
    if let Some((_, why)) = ends.iter().find(|(end, _)| end.is_some_and(|end| end <= wait.waited)) {
        return NextTry::GiveUp(*why);
    }
    let bound = if wait.may_run_again { wait.bound } else { wait.bound * SINGLE_TRY_FACTOR };
    let left = ends.iter().filter_map(|(end, _)| *end).map(|end| end - wait.waited);
    // The server counts milliseconds, and 0 is no bound.
    NextTry::Wait(left.fold(bound, Duration::min).max(Duration::from_millis(1)))
}

/// The pause after that many tries.
///
/// ```
/// use std::time::Duration;
/// use plimsoll_policy::pause_between_tries;
///
/// let bound = Duration::from_millis(50);
/// assert_eq!([1, 5, 6].map(|tries| pause_between_tries(bound, tries).as_millis()), [200, 200, 400]);
/// assert_eq!(pause_between_tries(8 * bound, 6).as_millis(), 800);
/// ```
pub fn pause_between_tries(bound: Duration, tries: u32) -> Duration {
    (bound * PAUSE_FACTORS[usize::from(tries > SHORT_PAUSES)]).min(PAUSE_MAX)
}

/// A process that waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockWaiter {
    /// The process.
    pub process: i32,
    /// Those that it waits for: they hold the lock, or queue for it before.
    pub blockers: Vec<i32>,
    /// For how long it has waited.
    pub waited: Duration,
}

/// What a process holds up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldUp {
    /// How many processes wait for it, directly or behind others.
    pub others: u32,
    /// For how long they have waited, added up.
    pub waited: Duration,
}

impl fmt::Display for HeldUp {
    /// `41 others wait for it, 12.4s together`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waited = self.waited.as_secs_f64();
        match self.others {
            1 => write!(f, "one other waits for it, for {waited:.1}s"),
            others => write!(f, "{others} others wait for it, {waited:.1}s together"),
        }
    }
}

/// What a process holds up, given all that wait for locks.
pub fn held_up_by(process: i32, waiters: &[LockWaiter]) -> HeldUp {
    let mut waits_for: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (place, waiter) in waiters.iter().enumerate() {
        for blocker in &waiter.blockers {
            waits_for.entry(*blocker).or_default().push(place);
        }
    }
    let (mut seen, mut todo) = (BTreeSet::from([process]), vec![process]);
    let mut held_up = HeldUp::default();
    while let Some(at) = todo.pop() {
        for place in waits_for.get(&at).into_iter().flatten() {
            let waiter = &waiters[*place];
            if seen.insert(waiter.process) {
                held_up.others += 1;
                held_up.waited += waiter.waited;
                todo.push(waiter.process);
            }
        }
    }
    held_up
}

/// How much a single statement of a class may take; `None` for any amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunawayLimits {
    /// How long it may run.
    pub time: Option<Duration>,
    /// How many rows it may return.
    pub rows: Option<u32>,
    /// How many bytes of temporary files it may fill.
    pub temp_bytes: Option<u64>,
}

/// What a statement has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// How long it has run.
    pub time: Duration,
    /// How many rows it has returned.
    pub rows: u64,
    /// How many bytes of temporary files it fills; `None` while not known.
    pub temp_bytes: Option<u64>,
}

/// A limit that a statement has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runaway {
    /// It has run for longer than this.
    Time(Duration),
    /// It has returned more rows than this.
    Rows(u32),
    /// It fills more bytes of temporary files than this.
    TempBytes(u64),
}

impl Runaway {
    /// The key of the limit in the settings of its class.
    pub fn key(self) -> &'static str {
        match self {
            Runaway::Time(_) => "time_max",
            Runaway::Rows(_) => "rows_max",
            Runaway::TempBytes(_) => "temp_max",
        }
    }
}

impl RunawayLimits {
    /// Whether there is any limit.
    pub fn is_any(&self) -> bool {
        *self != RunawayLimits::default()
    }

    /// The first limit that a statement has exceeded.
    ///
    /// ```
    /// use plimsoll_policy::{Runaway, RunawayLimits, Taken};
    ///
    /// let limits = RunawayLimits { rows: Some(1000), ..RunawayLimits::default() };
    /// assert_eq!(limits.exceeded(&Taken { rows: 1000, ..Taken::default() }), None);
    /// assert_eq!(limits.exceeded(&Taken { rows: 1001, ..Taken::default() }), Some(Runaway::Rows(1000)));
    /// ```
    pub fn exceeded(&self, taken: &Taken) -> Option<Runaway> {
        let time = self.time.filter(|most| taken.time > *most).map(Runaway::Time);
        let rows = self.rows.filter(|most| taken.rows > u64::from(*most)).map(Runaway::Rows);
        let temp = self.temp_bytes.filter(|most| taken.temp_bytes.is_some_and(|bytes| bytes > *most));
        time.or(rows).or(temp.map(Runaway::TempBytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLIS: fn(u64) -> Duration = Duration::from_millis;

    const WAIT: StrongLockWait = StrongLockWait {
        waited: Duration::ZERO,
        bound: Duration::from_millis(100),
        lock_timeout: None,
        statement_timeout: None,
        patience: None,
        may_run_again: true,
    };

    #[test]
    fn a_try_is_short_unless_there_is_only_one() {
        assert_eq!(next_try(&WAIT), NextTry::Wait(MILLIS(100)));
        assert_eq!(next_try(&StrongLockWait { may_run_again: false, ..WAIT }), NextTry::Wait(MILLIS(1000)));
    }

    #[test]
    fn the_clients_own_timeouts_end_it_when_they_would_anyway() {
        let check = |lock, statement, waited, expect| {
            let wait = StrongLockWait { lock_timeout: lock, statement_timeout: statement, waited, ..WAIT };
            assert_eq!(next_try(&wait), expect, "{wait:?}");
        };
        check(Some(MILLIS(40)), None, MILLIS(0), NextTry::Wait(MILLIS(40)));
        check(Some(MILLIS(500)), None, MILLIS(450), NextTry::Wait(MILLIS(50)));
        check(Some(MILLIS(500)), None, MILLIS(500), NextTry::GiveUp(GaveUp::LockTimeout));
        check(None, Some(MILLIS(500)), MILLIS(600), NextTry::GiveUp(GaveUp::StatementTimeout));
        check(Some(MILLIS(500)), Some(MILLIS(300)), MILLIS(299), NextTry::Wait(MILLIS(1)));
        // 0 would be no bound at all.
        let almost = Duration::from_micros(499_900);
        check(Some(MILLIS(500)), None, almost, NextTry::Wait(MILLIS(1)));
        let patient = StrongLockWait { patience: Some(MILLIS(900)), waited: MILLIS(900), ..WAIT };
        assert_eq!(next_try(&patient), NextTry::GiveUp(GaveUp::Patience));
    }

    /// Those who queued behind a try must be able to catch up, and what it waited for must not be noticed late.
    #[test]
    fn pauses_are_longer_than_tries_and_shorter_than_a_second() {
        for bound in [1, 10, 100, 150] {
            for tries in [1, 6, 1000] {
                let pause = pause_between_tries(MILLIS(bound), tries);
                assert!(pause >= MILLIS(4 * bound) && pause <= MILLIS(800), "{bound} {tries} {pause:?}");
            }
        }
    }

    fn waiter(process: i32, blockers: &[i32], waited: u64) -> LockWaiter {
        LockWaiter { process, blockers: blockers.to_vec(), waited: MILLIS(waited) }
    }

    #[test]
    fn who_queues_behind_a_waiter_is_held_up_by_the_holder_too() {
        // A dump (1), an ALTER TABLE (2) behind it, three readers behind that, one of which waits for two.
        let waiters = [
            waiter(2, &[1], 900),
            waiter(3, &[2], 700),
            waiter(4, &[2], 600),
            waiter(5, &[2, 4], 100),
            waiter(7, &[6], 50),
        ];
        let held = |process| held_up_by(process, &waiters);
        assert_eq!(held(1), HeldUp { others: 4, waited: MILLIS(2300) });
        assert_eq!(held(2), HeldUp { others: 3, waited: MILLIS(1400) });
        assert_eq!(held(4), HeldUp { others: 1, waited: MILLIS(100) });
        assert_eq!(held(6).to_string(), "one other waits for it, for 0.1s");
        assert_eq!(held(3), HeldUp::default());
        assert_eq!(held(2).to_string(), "3 others wait for it, 1.4s together");
    }

    /// A cycle of waiters must not keep the walk going.
    #[test]
    fn a_cycle_is_counted_once() {
        let waiters = [waiter(1, &[2], 10), waiter(2, &[1], 20)];
        assert_eq!(held_up_by(1, &waiters), HeldUp { others: 1, waited: MILLIS(20) });
    }

    #[test]
    fn each_limit_is_enough_and_what_is_not_known_is_none() {
        let limits = RunawayLimits { time: Some(MILLIS(10)), rows: Some(5), temp_bytes: Some(100) };
        let taken = Taken { time: MILLIS(10), rows: 5, temp_bytes: Some(100) };
        assert_eq!(limits.exceeded(&taken), None);
        assert_eq!(limits.exceeded(&Taken { time: MILLIS(11), ..taken }), Some(Runaway::Time(MILLIS(10))));
        assert_eq!(limits.exceeded(&Taken { rows: 6, ..taken }), Some(Runaway::Rows(5)));
        assert_eq!(limits.exceeded(&Taken { temp_bytes: Some(101), ..taken }), Some(Runaway::TempBytes(100)));
        assert_eq!(limits.exceeded(&Taken { temp_bytes: None, ..taken }), None);
        assert!(!RunawayLimits::default().is_any() && limits.is_any());
        assert_eq!(RunawayLimits::default().exceeded(&Taken { time: MILLIS(1 << 30), ..taken }), None);
        let keys = [Runaway::Time(MILLIS(1)), Runaway::Rows(1), Runaway::TempBytes(1)].map(Runaway::key);
        assert_eq!(keys, ["time_max", "rows_max", "temp_max"]);
    }
}
