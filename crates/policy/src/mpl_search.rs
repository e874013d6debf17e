//! Finds the smallest `mpl` of the lowest class that costs no throughput, where the operator has not set one.
//!
//! When more transactions of the lowest class run than there are cores, further ones add no throughput. They share the
//! cores, hold locks, and slow more important work down. [`MplSearch`] finds how few are enough. Once per second it receives the transactions that
//! ended, and it moves one number:
//!
//! 1. **Only under saturation.** The search moves nothing unless more transactions of the lower class run than there
//!    are cores, second after second, while more important transactions end. The measurement without a limit is
//!    repeated until it grows no more, because a server whose caches are cold does less, and would make any limit look
//!    good.
//! 2. **A step is a trial.** Measurements before and after the step are compared. A step down is kept if the more
//!    important work is at least a tenth faster, both classes together keep 95 % of their work, and the limited class half of its own. The next step halves the
//!    number, or the way to the largest that has failed; a failed step is followed by one halfway back, and in the end the search rests. A trial that
//!    loses much of the work ends as soon as that is certain.
//! 3. **Work, not counts.** A transaction counts by the time that its class's transactions took before anything was limited, so that a
//!    thousand short ones are no reason to stop a report.
//! 4. **Back again.** After a rest (30 s, doubled up to 8 min while nothing changes) a step up is tried. It is kept if it makes important
//!    work no slower, or adds more than a twentieth of work. The limit is removed at once if important work is idle for 10 s, if
//!    the limit is not used, or if a transaction was refused because of it.
//!
//! It reads no clock and no settings.

use std::fmt;
use std::time::Duration;

use crate::EndedWork;

/// Both classes together keep at least this share of their work.
const WORK_KEPT: f64 = 0.95;

/// A trial with less than this share of their work is over as soon as chance does not explain it.
const WORK_LOST: f64 = 0.85;

/// The limited class keeps at least this share of the transactions that it had without a limit.
const LIMITED_KEEPS: f64 = 0.5;

/// A step down is kept if it brings the mean time of important transactions to this share or less.
const FASTER: f64 = 0.9;

/// A step up is undone if it brings that time to this share or more,
const SLOWER: f64 = 1.05;

/// unless it brings at least this share of the work, and more than chance would.
const WORK_GAINED: f64 = 1.05;

/// The shortest and the longest measurement. In between it ends as soon as there are enough transactions.
const MEASURE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));

/// This many important transactions are enough: their mean time is then known to about a twentieth.
const ENOUGH: u64 = 400;

/// The same for the limited class.
const ENOUGH_LIMITED: u64 = 100;

/// Fewer of either class prove nothing, however long it was measured.
const LEAST: (u64, u64) = (100, 50);

/// The time left for a move to take effect: this, or twice the mean time of the limited class if that is longer.
const SETTLE: (Duration, Duration) = (Duration::from_millis(900), Duration::from_secs(10));

const REST: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(480));

/// A limit is removed after it was unused for this long.
const UNUSED: Duration = Duration::from_secs(10);

/// Observations of about one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MplSeen {
    /// More important transactions that ended.
    pub important: EndedWork,
    /// Transactions of the class that may be limited that ended.
    pub limited: EndedWork,
    /// Transactions of that class that are inside and do not wait for their client.
    pub running: u32,
    /// Transactions of that class that wait for admission.
    pub queued: u32,
    /// Transactions of that class that were refused because they could not be admitted in time.
    pub refused: u64,
}

/// The bounds of the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MplBounds {
    /// The least; at least 1.
    pub floor: u32,
    /// The server's cores.
    pub cores: u32,
    /// How late transactions may be reported after they ended; zero if at once. Measurements are longer then.
    pub lag: Duration,
}

/// A move of the number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MplMove {
    /// The number before; `None` for no limit.
    pub from: Option<u32>,
    /// The number from now on.
    pub to: Option<u32>,
    /// The reason.
    pub why: MplWhy,
}

/// Why the number was moved.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum MplWhy {
    /// More transactions were at work than there are cores: fewer are tried.
    Saturated {
        /// Transactions of the limited class.
        running: u32,
        /// Cores.
        cores: u32,
    },
    /// The last step made important transactions faster, and kept that share of the work: fewer are tried.
    Helped {
        /// Hundredths of the mean time before.
        time: u32,
        /// Hundredths of the work before.
        work: u32,
    },
    /// The last step did not: it is undone, or half of it.
    NoHelp {
        /// Hundredths of the mean time before.
        time: u32,
        /// Hundredths of the work before.
        work: u32,
        /// Hundredths of the limited class's transactions before.
        keeps: u32,
    },
    /// It has rested: more are tried.
    Rested,
    /// More made important transactions slower: the step is undone.
    Slower {
        /// Hundredths of the mean time before.
        time: u32,
    },
    /// It is not needed any more.
    Unused,
    /// A transaction was refused because of it.
    Refused,
    /// Too few transactions ended to tell.
    TooFew,
}

impl fmt::Display for MplWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MplWhy::Saturated { running, cores } => {
                write!(f, "{running} were at work on {cores} cores: fewer are tried")
            }
            MplWhy::Helped { time, work } => {
                write!(f, "important work took {time} % of the time, all did {work} % of the work: fewer are tried")
            }
            MplWhy::NoHelp { time, work, keeps } => write!(
                f,
                "important work took {time} % of the time, all did {work} % of the work, the class {keeps} %: not worth it"
            ),
            MplWhy::Rested => f.write_str("more are tried"),
            MplWhy::Slower { time } => write!(f, "with more, important work took {time} % of the time"),
            MplWhy::Unused => f.write_str("the limit is not needed any more"),
            MplWhy::Refused => f.write_str("a transaction was refused because of the limit"),
            MplWhy::TooFew => f.write_str("too few transactions ended to tell"),
        }
    }
}

/// Searches for the number. The module documentation has the rules.
#[derive(Debug, Clone, Default)]
pub struct MplSearch {
    mpl: Option<u32>,
    phase: Phase,
    /// Work that ended since the last move took effect.
    window: Window,
    /// The measurement before anything was limited.
    open: Option<Measurement>,
    /// The measurement at the number that was kept last.
    kept: Option<Measurement>,
    /// The largest number that has cost too much since then.
    too_few: Option<u32>,
    settles_until: Duration,
    lag: Duration,
    rest: Duration,
    unused_since: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Phase {
    /// Nothing is limited, or a number that is kept is measured.
    #[default]
    Watching,
    /// Fewer are tried; `back` worked, `None` for no limit.
    Down { back: Option<u32> },
    /// More are tried.
    Up { back: u32 },
    /// Nothing is tried until then.
    Resting { until: Duration },
}

/// Work that ended since a moment.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    since: Option<Duration>,
    important: EndedWork,
    limited: EndedWork,
    running: u64,
    seconds: u64,
}

/// The result of a measurement.
#[derive(Debug, Clone, Copy)]
struct Measurement {
    /// Important transactions per second, and their mean time in seconds.
    important: (f64, f64),
    /// The same for those that may be limited.
    limited: (f64, f64),
    /// How many of both ended.
    counts: (u64, u64),
    running: u32,
}

impl MplSearch {
    /// How many of the class may run; `None` for any number.
    pub fn mpl(&self) -> Option<u32> {
        self.mpl
    }

    /// Its state in a word: `open`, `trying`, `held` or `resting`.
    pub fn state(&self) -> &'static str {
        match (self.phase, self.mpl) {
            (Phase::Down { .. } | Phase::Up { .. }, _) => "trying",
            (Phase::Resting { .. }, None) => "resting",
            (_, Some(_)) => "held",
            (Phase::Watching, None) => "open",
        }
    }

    /// One step, about once per second: takes the observations since the last step, and returns the move, if any.
    pub fn step(&mut self, now: Duration, bounds: MplBounds, seen: &MplSeen) -> Option<MplMove> {
        self.lag = bounds.lag;
        // Work that is reported late has time before it has a count.
        let is_important_idle = seen.important == EndedWork::default();
        if self.mpl.is_some() {
            if seen.refused > 0 {
                self.rest = REST.1;
                return self.open(now, MplWhy::Refused);
            }
            let is_needed = !is_important_idle && self.mpl.is_none_or(|mpl| seen.running + seen.queued >= mpl);
            self.unused_since = if is_needed { None } else { self.unused_since.or(Some(now)) };
            if self.unused_since.is_some_and(|since| now >= since + UNUSED) {
                self.rest = Duration::ZERO;
                return self.open(now, MplWhy::Unused);
            }
        } else if seen.running <= bounds.cores || is_important_idle {
            // Not saturated, or no important work to make faster. The server may have changed by the next time.
            (self.window, self.open) = (Window::default(), None);
            return None;
        }
        if let Phase::Resting { until } = self.phase {
            if now < until {
                return None;
            }
            (self.phase, self.window) = (Phase::Watching, Window::default());
        }
        if now < self.settles_until {
            return None;
        }
        self.window.add(now, seen);
        let age = self.window.age(now);
        let is_enough = self.window.important.count >= ENOUGH && self.window.limited.count >= ENOUGH_LIMITED;
        let measured = self.window.measured(age);
        let is_lost = self.lag.is_zero() && measured.is_some_and(|measured| self.is_lost(&measured));
        if !is_lost && (age < MEASURE.0 + self.lag || !is_enough && age < MEASURE.1) {
            return None;
        }
        self.window = Window::default();
        match measured {
            Some(measured) => self.judge(now, bounds, measured),
            None if self.mpl.is_some() => self.open(now, MplWhy::TooFew),
            None => {
                self.pause(now);
                None
            }
        }
    }

    /// Whether a step down has certainly cost too much.
    fn is_lost(&self, measured: &Measurement) -> bool {
        let (Phase::Down { .. }, Some(open)) = (self.phase, &self.open) else { return false };
        let chance = 1.0 + 3.0 * (measured.noise(open) + open.noise(open)).sqrt();
        measured.work(open) * chance < WORK_LOST * open.work(open)
    }

    fn judge(&mut self, now: Duration, bounds: MplBounds, measured: Measurement) -> Option<MplMove> {
        match self.phase {
            Phase::Watching => match self.mpl {
                None => {
                    let before = self.open.replace(measured);
                    // The first one may be that of a server that has just begun.
                    if before.is_none_or(|before| measured.work(&measured) >= WORK_GAINED * before.work(&measured)) {
                        return None;
                    }
                    (self.kept, self.too_few) = (Some(measured), None);
                    let Measurement { running, .. } = measured;
                    // Twice the cores is where most systems have all the throughput they get.
                    let first = (running / 2).min(2 * bounds.cores).max(bounds.floor);
                    self.phase = Phase::Down { back: None };
                    self.go(now, Some(first), MplWhy::Saturated { running, cores: bounds.cores })
                }
                Some(mpl) => {
                    self.kept = Some(measured);
                    self.phase = Phase::Up { back: mpl };
                    self.go(now, Some(mpl + (mpl / 2).max(1)), MplWhy::Rested)
                }
            },
            Phase::Down { back } => self.judge_down(now, bounds, measured, back),
            Phase::Up { back } => self.judge_up(now, measured, back),
            Phase::Resting { .. } => None,
        }
    }

    fn judge_down(
        &mut self,
        now: Duration,
        bounds: MplBounds,
        measured: Measurement,
        back: Option<u32>,
    ) -> Option<MplMove> {
        let (Some(open), Some(kept), Some(mpl)) = (self.open, self.kept, self.mpl) else { return None };
        let (time, work) = (measured.important.1 / kept.important.1, measured.work(&open) / open.work(&open));
        let has_helped = time <= FASTER;
        let keeps = measured.limited.0 / open.limited.0;
        if has_helped && work >= WORK_KEPT && keeps >= LIMITED_KEEPS {
            self.kept = Some(measured);
            let next = self.too_few.map_or(mpl / 2, |too_few| too_few.midpoint(mpl)).max(bounds.floor);
            if next < mpl && self.too_few.is_none_or(|too_few| next > too_few) {
                self.phase = Phase::Down { back: Some(mpl) };
                return self.go(now, Some(next), MplWhy::Helped { time: hundredths(time), work: hundredths(work) });
            }
            self.rest = Duration::ZERO;
            self.pause(now);
            return None;
        }
        let why = MplWhy::NoHelp { time: hundredths(time), work: hundredths(work), keeps: hundredths(keeps) };
        let above = back.unwrap_or(open.running);
        let between = mpl + above.saturating_sub(mpl) / 2;
        if has_helped && between > mpl && between < above {
            // It helps, and costs too much.
            self.too_few = Some(mpl);
            return self.go(now, Some(between), why);
        }
        if back.is_some() {
            // A number was found.
            self.rest = Duration::ZERO;
        }
        self.pause(now);
        self.go(now, back, why)
    }

    fn judge_up(&mut self, now: Duration, measured: Measurement, back: u32) -> Option<MplMove> {
        let (Some(open), Some(kept)) = (self.open, self.kept) else { return None };
        let time = measured.important.1 / kept.important.1;
        let gained = measured.work(&open) / kept.work(&open);
        let has_gained = gained >= WORK_GAINED + 2.0 * (measured.noise(&open) + kept.noise(&open)).sqrt();
        if time >= SLOWER && !has_gained {
            self.pause(now);
            return self.go(now, Some(back), MplWhy::Slower { time: hundredths(time) });
        }
        (self.kept, self.rest, self.too_few) = (Some(measured), Duration::ZERO, None);
        self.phase = Phase::Watching;
        // A limit that is never reached is removed as unused.
        None
    }

    /// Removes the limit, for a while.
    fn open(&mut self, now: Duration, why: MplWhy) -> Option<MplMove> {
        self.pause(now);
        self.go(now, None, why)
    }

    /// Rests, twice as long as the last time.
    fn pause(&mut self, now: Duration) {
        self.rest = (self.rest * 2).clamp(REST.0, REST.1);
        self.phase = Phase::Resting { until: now + self.rest };
    }

    fn go(&mut self, now: Duration, to: Option<u32>, why: MplWhy) -> Option<MplMove> {
        let from = std::mem::replace(&mut self.mpl, to);
        let length = self.open.map_or(Duration::ZERO, |open| Duration::from_secs_f64(2.0 * open.limited.1));
        self.settles_until = now + length.clamp(SETTLE.0, SETTLE.1) + self.lag;
        self.window = Window::default();
        (from != to).then_some(MplMove { from, to, why })
    }
}

impl Window {
    fn add(&mut self, now: Duration, seen: &MplSeen) {
        // Transactions reported with the first step ended before it.
        if self.since.is_none() {
            self.since = Some(now);
            return;
        }
        self.important += seen.important;
        self.limited += seen.limited;
        (self.running, self.seconds) = (self.running + u64::from(seen.running), self.seconds + 1);
    }

    fn age(&self, now: Duration) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    fn measured(&self, age: Duration) -> Option<Measurement> {
        if self.important.count < LEAST.0 || self.limited.count < LEAST.1 || self.seconds == 0 {
            return None;
        }
        let of =
            |ended: EndedWork| (ended.count as f64 / age.as_secs_f64(), ended.time.as_secs_f64() / ended.count as f64);
        let running = u32::try_from(self.running / self.seconds).unwrap_or(u32::MAX);
        let counts = (self.important.count, self.limited.count);
        Some(Measurement { important: of(self.important), limited: of(self.limited), counts, running })
    }
}

impl Measurement {
    /// Work per second, each transaction counted with the time that its class took when nothing was limited.
    fn work(&self, open: &Measurement) -> f64 {
        self.important.0 * open.important.1 + self.limited.0 * open.limited.1
    }

    /// The square of the share by which chance changes that work: counts vary by their roots.
    fn noise(&self, open: &Measurement) -> f64 {
        let (important, limited) = (self.counts.0 as f64, self.counts.1 as f64);
        let sum = important * open.important.1 + limited * open.limited.1;
        (important * open.important.1.powi(2) + limited * open.limited.1.powi(2)) / sum.powi(2)
    }
}

fn hundredths(share: f64) -> u32 {
    (share * 100.0).round() as u32
}
