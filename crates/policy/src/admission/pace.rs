//! How many transactions of a class may begin per unit of time.
//!
//! A pace is an even sequence of moments, one interval apart. A transaction takes the next one. It may take moments in
//! advance, as many as the burst: after a rest, that many transactions begin at once.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Admission, Ticket};

/// A number of transactions per second, minute or hour: `10/s`, `600/min`, `100/h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    number: u32,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
}

impl Unit {
    const ALL: [(&str, Unit, u64); 3] = [("s", Unit::Second, 1), ("min", Unit::Minute, 60), ("h", Unit::Hour, 3600)];
}

/// A larger number is a mistake, and its interval would be below a microsecond.
const NUMBER_MAX: u32 = 1_000_000;

/// Why a text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a rate; write a number from 1 to 1000000 per second, minute or hour, as `10/s`, `600/min` or `100/h`"
)]
pub struct ParseRateError(String);

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let wrong = || ParseRateError(text.to_owned());
        let (number, unit) = text.split_once('/').ok_or_else(wrong)?;
        let number = number.trim().parse().ok().filter(|number| (1..=NUMBER_MAX).contains(number));
        let unit = Unit::ALL.iter().find(|(name, _, _)| *name == unit.trim()).map(|(_, unit, _)| *unit);
        number.zip(unit).map(|(number, unit)| Rate { number, unit }).ok_or_else(wrong)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of_unit().0)
    }
}

impl Rate {
    fn of_unit(self) -> (&'static str, Unit, u64) {
        Unit::ALL[self.unit as usize]
    }

    fn interval(self) -> Duration {
        Duration::from_secs(self.of_unit().2) / self.number
    }

    /// The burst of a class that names none: as many as in a second, and at least one.
    pub fn usual_burst(self) -> u32 {
        (self.number / u32::try_from(self.of_unit().2).unwrap_or(u32::MAX)).max(1)
    }
}

/// The pace of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How many per unit of time.
    pub rate: Rate,
    /// How many may begin at once after a rest; at least 1.
    pub burst: u32,
}

impl Pace {
    /// How many transactions begin at most within a time of that length.
    ///
    /// ```
    /// use std::time::Duration;
    /// use plimsoll_policy::Pace;
    ///
    /// let pace = Pace { rate: "30/min".parse().unwrap(), burst: 5 };
    /// assert_eq!(pace.most_within(Duration::from_secs(60)), 35);
    /// ```
    pub fn most_within(self, length: Duration) -> u64 {
        let intervals = length.as_nanos() / self.rate.interval().as_nanos();
        u64::try_from(intervals).unwrap_or(u64::MAX).saturating_add(self.burst.into())
    }
}

/// The moments that were taken of a pace.
///
/// ```
/// use std::time::Duration;
/// use plimsoll_policy::{Pace, Paced};
///
/// let seconds = Duration::from_secs;
/// let mut paced = Paced::new(Pace { rate: "1/s".parse().unwrap(), burst: 2 });
/// assert!(paced.takes(seconds(10)) && paced.takes(seconds(10)));
/// assert!(!paced.takes(seconds(10)));
/// assert_eq!(paced.ready_at(), seconds(11));
/// assert!(paced.takes(seconds(11)));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Paced {
    pace: Pace,
    /// The next moment of the sequence.
    next: Duration,
}

impl Paced {
    /// Nothing was taken yet.
    pub fn new(pace: Pace) -> Self {
        Paced { pace, next: Duration::ZERO }
    }

    /// Another pace from now on; what was taken in advance stays taken.
    pub fn change(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// The pace.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// When a transaction may begin.
    pub fn ready_at(&self) -> Duration {
        self.next.saturating_sub(self.pace.rate.interval() * self.pace.burst.saturating_sub(1))
    }

    /// Whether a transaction may begin now.
    pub fn is_ready(&self, now: Duration) -> bool {
        self.ready_at() <= now
    }

    /// Takes a moment if a transaction may begin now; returns whether it may.
    pub fn takes(&mut self, now: Duration) -> bool {
        let is_ready = self.is_ready(now);
        if is_ready {
            self.take(now);
        }
        is_ready
    }

    /// A transaction begins, whether or not it may.
    pub(super) fn take(&mut self, now: Duration) {
        self.next = self.next.max(now) + self.pace.rate.interval();
    }
}

impl Admission {
    /// Sets the paces of the classes; those that the list lacks have none.
    pub fn set_paces(&mut self, paces: impl IntoIterator<Item = Option<Pace>>) {
        let mut paces = paces.into_iter();
        for class in &mut self.classes {
            let pace = paces.next().flatten();
            class.paced = pace.map(|pace| {
                let mut paced = class.paced.unwrap_or_else(|| Paced::new(pace));
                paced.change(pace);
                paced
            });
        }
    }

    /// Lets in those whose moment has come; they are inside.
    #[must_use = "the transactions named are admitted and must be notified"]
    pub fn keep_pace(&mut self, now: Duration) -> Vec<Ticket> {
        self.enter(now)
    }

    /// When the moment of the next waiting transaction comes; `None` if none waits for one alone.
    pub fn next_moment(&self) -> Option<Duration> {
        let waits = self.classes.iter().filter(|class| !class.queue.is_empty() && !class.is_full());
        waits.filter_map(|class| Some(class.paced?.ready_at())).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_they_are_shown() {
        for (text, interval, burst) in
            [("10/s", 100, 10), ("600/min", 100, 10), ("30/min", 2000, 1), ("3600/h", 1000, 1)]
        {
            let rate: Rate = text.parse().expect("a rate");
            assert_eq!((rate.to_string().as_str(), rate.interval().as_millis()), (text, interval));
            assert_eq!(rate.usual_burst(), burst, "{text}");
        }
        for wrong in ["", "10", "/s", "0/s", "1000001/s", "-1/s", "1.5/s", "10/d", "10 per s"] {
            let error = wrong.parse::<Rate>().expect_err(wrong).to_string();
            assert!(error.starts_with(&format!("`{wrong}` is not a rate")), "{error}");
        }
    }

    /// Whatever the burst, no more than the rate allows begin over a long time.
    #[test]
    fn over_a_long_time_the_rate_holds() {
        for burst in [1, 5, 100] {
            let mut paced = Paced::new(Pace { rate: "10/s".parse().expect("a rate"), burst });
            // A client asks every millisecond, for 20 seconds.
            let begun = (0..20_000).filter(|at| paced.takes(Duration::from_millis(*at))).count();
            let most = 200 + burst as usize;
            assert!((most - 1..=most).contains(&begun), "{burst}: {begun}");
        }
    }

    #[test]
    fn rest_is_saved_up_to_the_burst_and_no_further() {
        let mut paced = Paced::new(Pace { rate: "1/s".parse().expect("a rate"), burst: 3 });
        let hour = Duration::from_secs(3600);
        assert_eq!((0..10).filter(|_| paced.takes(hour)).count(), 3);
        assert_eq!(paced.ready_at(), hour + Duration::from_secs(1));
    }
}
