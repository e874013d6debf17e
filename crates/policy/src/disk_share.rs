//! Limits how much of a disk yielding processes may read while important work waits for it.
//!
//! A closed loop: the activity of the disk in an interval goes in ([`DiskSight`]), and a limit in bytes per second comes
//! out, or none. It starts without a limit, and sets one when, for two intervals in a row, important work spent much of its time
//! waiting for the disk, the yielding processes did much of the reading, and the disk was not idle. It lowers the limit fast, by
//! [`CUT`] at a time, down to a floor; raises it slowly while important work hardly waits; and lifts it when it has grown to what the
//! disk can deliver, or when there was no important work for [`AWAY`].
//!
//! A limit has to prove its worth: important work may wait for the disk because of its own reads alone. The loop
//! therefore compares how long an important statement waits for the disk before the limit and under it. If that time
//! has not fallen below [`HELPED`] of its former value, the limit is lifted, and no other is tried for a pause that
//! doubles each time.
//!
//! The floor is a share of what the disk delivered when it was full, which is measured, not configured. It is at least the bandwidth of a few
//! windows of read-ahead per second: while a limited process reads a page ahead, every process that wants the page waits,
//! so a lower limit would make them wait long.

use std::fmt;
use std::time::Duration;

/// Important work that waits for the disk for more than this share of its time is in trouble.
const MUCH: f64 = 0.10;
/// Important work that waits for less than this share is not.
const LITTLE: f64 = 0.05;
/// Yielding processes are the reason for trouble if they do at least this share of all reading.
const TO_BLAME: f64 = 0.25;
/// A disk that was busy, or waited for, in less than this share of the time is not full.
const PRESSED: f64 = 0.30;
/// Intervals with trouble before a limit is set, or lowered again.
const TROUBLED: u32 = 2;
/// A lowered limit is this share of the former one.
const CUT: f64 = 0.7;
/// How much a limit is raised per second, as a share of the disk's bandwidth.
const GROWTH_PER_S: f64 = 0.04;
/// The limit is lifted after this long without important work.
const AWAY: Duration = Duration::from_secs(5);
/// Fewer important transactions in flight than this, on average, count as none.
const NOBODY: f64 = 0.01;
/// Means cover about this much time.
const MEMORY: Duration = Duration::from_secs(1);
/// A limit at its floor has this long to take hold, and this long again to show that it helps.
const TRIAL_BEGINS: Duration = Duration::from_secs(1);
const TRIAL: Duration = Duration::from_secs(3);
/// A limit helps if an important statement waits for at most this share of the time that it waited before.
const HELPED: f64 = 0.8;
/// For how long no limit is tried after one that did not help: at first, and at most.
const BARRED: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(600));
/// About how long it takes to learn that a disk's bandwidth has fallen.
const FADING: Duration = Duration::from_secs(5);
/// A limit has no effect if less than this share of it is used.
const USED: f64 = 0.85;
/// The floor in bytes counts for at most this share of the disk's bandwidth: on a very slow disk it would leave others
/// nothing.
const FLOOR_MOST: f64 = 0.75;
/// A disk that is busy for this share of the time delivers all it can.
const FULL: f64 = 0.9;
/// The assumed bandwidth of a disk is never less than this share of the most that was seen since the limit was set.
/// Otherwise yielding classes would lose more and more to a disk that is busy with others' small requests.
const FADED: f64 = 0.25;

/// The bounds of the limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskBounds {
    /// The least that yielding processes keep, as a share of the disk's bandwidth, 0 to 1.
    pub floor_share: f64,
    /// The least that they keep, bytes per second, unless that is most of the bandwidth.
    pub floor_bytes_per_s: u64,
}

/// The activity of a disk in an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskSight {
    /// The length of the interval, below one second.
    pub window: Duration,
    /// Important transactions with a statement that the server was executing, on average.
    pub important: f64,
    /// The number of them that waited for the disk, on average.
    pub waiting: f64,
    /// Statements of important transactions that ended.
    pub ended: u64,
    /// Bytes per second requested from the disk for yielding processes, read-ahead included.
    pub yielding_bytes_per_s: f64,
    /// Bytes per second that the disk delivered in total. Those requested for yielding processes may arrive later.
    pub all_bytes_per_s: f64,
    /// The share of the time in which the disk was busy, 0 to 1; `None` if it is not known.
    pub busy: Option<f64>,
    /// The share of the time in which a process waited for the disk or for a limit, 0 to 1; `None` if it is not known.
    pub waited: Option<f64>,
}

/// The limit on the reads of yielding processes. The module documentation explains it.
#[derive(Debug, Clone)]
pub struct DiskShare {
    bounds: DiskBounds,
    /// Time since the first interval.
    clock: Duration,
    important: Mean,
    waiting: Mean,
    yielding: Mean,
    all: Mean,
    /// The disk's bandwidth, as far as seen since the first interval, limit or not, and its maximum.
    gives: f64,
    gave_most: f64,
    /// Consecutive intervals with trouble.
    troubled: u32,
    /// The waits of important work, and the reads, in those intervals, before there was a limit.
    before: Waited,
    limited: Option<Limited>,
    /// When important work was last seen.
    seen_important: Option<Duration>,
    /// Until when no limit is tried, and for how long after the next limit that does not help.
    barred: Option<Duration>,
    bar: Duration,
    word: DiskWord,
}

#[derive(Debug, Clone)]
struct Limited {
    bytes_per_s: f64,
    /// The disk's bandwidth, as far as seen, and its maximum since the limit was set.
    capacity: f64,
    peak: f64,
    before: Waited,
    trial: Option<Trial>,
}

/// Whether the limit helps.
#[derive(Debug, Clone)]
struct Trial {
    /// When the limit came to its floor; `None` until then.
    at_floor: Option<Duration>,
    with: Waited,
}

/// The waits of important work for the disk in some intervals.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    /// Seconds that all important transactions waited together, and the time in which they did.
    seconds: f64,
    within: f64,
    statements: u64,
    /// All bytes read in that time.
    read_bytes: f64,
}

impl Waited {
    fn add(&mut self, sight: &DiskSight) {
        let window = sight.window.as_secs_f64();
        self.seconds += sight.waiting * window;
        self.within += window;
        self.statements += sight.ended;
        self.read_bytes += sight.all_bytes_per_s * window;
    }

    fn bytes_per_s(&self) -> f64 {
        if self.within > 0.0 { self.read_bytes / self.within } else { 0.0 }
    }

    /// Whether the wait is clearly shorter than before: per statement, or per transaction where no statement ended in
    /// either.
    fn is_less_than(&self, before: &Waited) -> bool {
        let per = |waited: &Waited, what: f64| if what > 0.0 { waited.seconds / what } else { f64::INFINITY };
        let (with, without) = match (self.statements, before.statements) {
            (0, 0) => (per(self, self.within), per(before, before.within)),
            (with, without) => (per(self, with as f64), per(before, without as f64)),
        };
        with <= HELPED * without
    }
}

/// A mean in which older values count less and less.
#[derive(Debug, Clone, Copy, Default)]
struct Mean(f64);

impl Mean {
    fn add(&mut self, value: f64, window: Duration, memory: Duration) {
        let weight = 1.0 - (-window.as_secs_f64() / memory.as_secs_f64()).exp();
        self.0 += (value - self.0) * weight;
    }
}

/// Why the limit is as it is, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskWord {
    /// No important work waits for the disk, or not because of yielding processes.
    Calm,
    /// Important work waits for the disk, and yielding processes do much of the reading.
    Lowered,
    /// The limit is at its floor, and important work still waits.
    Floor,
    /// Important work waits for the disk sometimes.
    Kept,
    /// Important work hardly waits any more.
    Raised,
    /// A limit was tried and did not shorten the wait.
    NoHelp,
}

impl fmt::Display for DiskWord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            DiskWord::Calm => "nothing important waits for others at the disk",
            DiskWord::Lowered => "lowered, because important work waits for the disk",
            DiskWord::Floor => "at its floor; important work still waits for the disk",
            DiskWord::Kept => "kept, because important work waits for the disk sometimes",
            DiskWord::Raised => "being raised, because important work hardly waits for the disk",
            DiskWord::NoHelp => "lifted for a while, because important work waited as long with it",
        })
    }
}

impl DiskShare {
    /// A controller that has seen nothing and sets no limit.
    pub fn new(bounds: DiskBounds) -> Self {
        DiskShare {
            bounds,
            clock: Duration::ZERO,
            important: Mean::default(),
            waiting: Mean::default(),
            yielding: Mean::default(),
            all: Mean::default(),
            gives: 0.0,
            gave_most: 0.0,
            troubled: 0,
            before: Waited::default(),
            limited: None,
            seen_important: None,
            barred: None,
            bar: BARRED.0,
            word: DiskWord::Calm,
        }
    }

    /// Changes the bounds, from the next interval on.
    pub fn bound(&mut self, bounds: DiskBounds) {
        self.bounds = bounds;
    }

    /// The limit, bytes per second; `None` for none.
    pub fn limit(&self) -> Option<u64> {
        self.limited.as_ref().map(|limited| limited.bytes_per_s as u64)
    }

    /// Why the limit is as it is.
    pub fn word(&self) -> DiskWord {
        self.word
    }

    /// The share of its time for which important work waited for the disk lately, 0 to 1; `None` if there was none.
    pub fn waited(&self) -> Option<f64> {
        (self.important.0 >= NOBODY).then(|| (self.waiting.0 / self.important.0).min(1.0))
    }

    /// The least that any limit must leave to yielding processes, also one that was set for another reason, bytes per
    /// second; `None` until something was read.
    pub fn least(&self) -> Option<u64> {
        (self.gives > 0.0).then(|| self.floor(self.gives) as u64)
    }

    /// The limit from now on, bytes per second; `None` for none.
    pub fn decide(&mut self, sight: &DiskSight) -> Option<u64> {
        self.clock += sight.window;
        let window = sight.window;
        self.important.add(sight.important, window, MEMORY);
        self.waiting.add(sight.waiting, window, MEMORY);
        self.yielding.add(sight.yielding_bytes_per_s, window, MEMORY);
        self.all.add(sight.all_bytes_per_s, window, MEMORY);
        self.note_bandwidth(sight);
        if sight.important > 0.0 {
            self.seen_important = Some(self.clock);
        }
        let is_troubled = self.waited().is_some_and(|waited| waited >= MUCH)
            && self.yielding.0 >= TO_BLAME * self.all.0
            && self.yielding.0 > 0.0;
        self.troubled = if is_troubled { self.troubled + 1 } else { 0 };
        match self.limited.take() {
            None => self.watch(sight, is_troubled),
            Some(limited) => self.limited = self.steer(limited, sight),
        }
        self.limit()
    }

    /// Learns a lower bandwidth from a full disk that delivers less than before.
    fn note_bandwidth(&mut self, sight: &DiskSight) {
        if sight.busy.is_some_and(|busy| busy >= FULL) {
            let mut gives = Mean(self.gives);
            gives.add(self.all.0, sight.window, FADING);
            self.gives = gives.0;
        }
        self.gave_most = self.gave_most.max(self.all.0);
        self.gives = self.gives.max(self.all.0).max(FADED * self.gave_most);
    }

    /// No limit is in force: sets one if it is time.
    fn watch(&mut self, sight: &DiskSight, is_troubled: bool) {
        if self.barred.is_some_and(|until| self.clock < until) {
            return;
        }
        if self.barred.take().is_some() {
            self.word = DiskWord::Calm;
        }
        let pressure = sight.busy.into_iter().chain(sight.waited).reduce(f64::max);
        if !is_troubled || pressure.is_some_and(|pressure| pressure < PRESSED) {
            (self.troubled, self.before) = (0, Waited::default());
            return;
        }
        self.before.add(sight);
        if self.troubled < TROUBLED {
            return;
        }
        let capacity = self.before.bytes_per_s().max(self.all.0);
        // A window of read-ahead is requested at once, and arrives gradually.
        let in_use = self.yielding.0.max(sight.yielding_bytes_per_s).min(capacity);
        let bytes_per_s = (in_use * CUT).max(self.floor(capacity));
        let trial = Some(Trial { at_floor: None, with: Waited::default() });
        let before = std::mem::take(&mut self.before);
        self.limited = Some(Limited { bytes_per_s, capacity, peak: capacity, before, trial });
        (self.troubled, self.word) = (0, DiskWord::Lowered);
    }

    /// The limit that follows one in force.
    fn steer(&mut self, mut limited: Limited, sight: &DiskSight) -> Option<Limited> {
        let is_away = self.seen_important.is_none_or(|seen| self.clock.saturating_sub(seen) >= AWAY);
        if is_away {
            return self.lift(DiskWord::Calm);
        }
        limited.capacity = limited.capacity.max(self.all.0);
        limited.peak = limited.peak.max(limited.capacity);
        let is_binding = self.yielding.0 >= USED * limited.bytes_per_s;
        if self.troubled > 0 && (!is_binding || sight.busy.is_some_and(|busy| busy >= FULL)) {
            // A process waits although the limit holds none back, or the disk is full beside it: it delivers less than
            // it did.
            let mut capacity = Mean(limited.capacity);
            capacity.add(self.all.0, sight.window, FADING);
            limited.capacity = capacity.0.max(FADED * limited.peak);
        }
        let floor = self.floor(limited.capacity);
        if self.troubled >= TROUBLED {
            self.troubled = 0;
            let in_use = if is_binding { limited.bytes_per_s } else { limited.bytes_per_s.min(self.yielding.0) };
            limited.bytes_per_s = (in_use * CUT).max(floor);
            self.word = if limited.bytes_per_s > floor { DiskWord::Lowered } else { DiskWord::Floor };
        } else if self.waited().is_none_or(|waited| waited <= LITTLE) {
            limited.bytes_per_s += GROWTH_PER_S * limited.capacity * sight.window.as_secs_f64();
            // Important work hardly waits: the limit has done its job.
            limited.trial = None;
            self.word = DiskWord::Raised;
            if limited.bytes_per_s >= limited.capacity {
                return self.lift(DiskWord::Calm);
            }
        } else if self.troubled == 0 {
            self.word = DiskWord::Kept;
        }
        limited.bytes_per_s = limited.bytes_per_s.max(floor);
        match self.has_failed(&mut limited, floor, sight) {
            true => {
                self.barred = Some(self.clock + self.bar);
                self.bar = (self.bar * 2).min(BARRED.1);
                self.lift(DiskWord::NoHelp)
            }
            false => Some(limited),
        }
    }

    /// Whether a limit at its floor has had its time and has not helped.
    fn has_failed(&mut self, limited: &mut Limited, floor: f64, sight: &DiskSight) -> bool {
        let Some(trial) = &mut limited.trial else { return false };
        if trial.at_floor.is_none() && limited.bytes_per_s > floor {
            return false;
        }
        let at_floor = *trial.at_floor.get_or_insert(self.clock);
        let since = self.clock.saturating_sub(at_floor);
        if since > TRIAL_BEGINS {
            trial.with.add(sight);
        }
        if since < TRIAL_BEGINS + TRIAL {
            return false;
        }
        let has_helped = trial.with.is_less_than(&limited.before);
        limited.trial = None;
        if has_helped {
            self.bar = BARRED.0;
        }
        !has_helped
    }

    fn lift(&mut self, word: DiskWord) -> Option<Limited> {
        (self.troubled, self.before, self.word) = (0, Waited::default(), word);
        None
    }

    fn floor(&self, capacity: f64) -> f64 {
        let least = (self.bounds.floor_bytes_per_s as f64).min(FLOOR_MOST * capacity);
        (self.bounds.floor_share * capacity).max(least)
    }
}

#[cfg(test)]
mod tests;
