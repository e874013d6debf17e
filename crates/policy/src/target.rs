//! Targets: a class's response time as a promise, and the controller that keeps it.
//!
//! A [`Target`] such as `p95 < 20ms` or `p95 < 1.3 x alone` is the promise to a class. [`TargetController`] keeps it: once per
//! second it receives the response times of each class and how much the classes below use of each lever, and it moves levers
//! ([`LeverKind`]) of those classes between the operator's limit and a floor. It reads no clock and no settings.
//!
//! How it decides, for `pQ < bound`:
//!
//! 1. **By counts, not by an estimated percentile** (`evidence`). The promise is kept if at most 1 - Q of all transactions are beyond
//!    the bound. It is *exceeded* if significantly more are, and *comfortable* if significantly fewer are beyond 0.8 of the bound.
//!    Few transactions are never significant, so a slow class causes no moves by chance.
//! 2. **Fast down.** While the target is exceeded every lever of the lowest classes is cut by a quarter, by half if transactions are
//!    beyond the bound twice as often as promised, and to a quarter from eight times on; below twice only levers that are
//!    limited already are cut, if there are any. Higher classes follow when the lowest are at their floors.
//! 3. **Slow up.** While every target is kept, one lever at a time is given back a step, the most expensive one first:
//!    every 3 s while targets are comfortable, else every 10 s, or 30 s if one is only just kept. A step is on trial.
//!    If a target is not kept after it, it is undone, and that lever rests: 30 s, doubled each time. Levers that do not
//!    help are thus given back completely, and those that help stay limited.
//! 4. **Honest.** If a target is still exceeded 10 s after all levers have reached their floors, the controller reports that, with the best
//!    value that it reached. If the levers made no difference, it gives everything back and tries again after 5 minutes.
//!
//! After a move a new window begins, which leaves out the second (or the length of the bound) in which earlier transactions end.

mod alone;
mod controller;
mod evidence;
mod kept;
mod lever;
mod times;
mod view;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{parse_length, write_length};
pub use controller::{ClassSeen, Contradiction, Promise, TargetController};
pub use evidence::wilson;
pub use lever::{LeverBounds, LeverKind};
pub use times::Times;
pub use view::{Move, TargetPhase, TargetView, Why};

/// The promise to a class: a percentile of its response times and its limit.
///
/// ```
/// use plimsoll_policy::Target;
///
/// let target: Target = "p95 < 1.3 x alone".parse()?;
/// assert_eq!(target.to_string(), "p95 < 1.3 x alone");
/// assert!("p101 < 20ms".parse::<Target>().is_err());
/// # Ok::<(), plimsoll_policy::ParseTargetError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Which percentile.
    pub percentile: Percentile,
    /// The limit that it stays below.
    pub limit: TargetLimit,
}

/// The limit of a percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetLimit {
    /// A length of time.
    Length(Duration),
    /// Hundredths of the same percentile while no class below is at work.
    HundredthsOfAlone(u32),
}

/// A percentile from p50 to p99.9, in tenths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentile(u16);

impl Percentile {
    /// The share of all times that do not exceed it: 0.95 for p95.
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// The share of all times that may exceed it: 0.05 for p95.
    pub(crate) fn share_beyond(self) -> f64 {
        f64::from(1000 - self.0) / 1000.0
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", f64::from(self.0) / 10.0)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            TargetLimit::Length(length) => write!(f, "{} < {}", self.percentile, write_length(length)),
            TargetLimit::HundredthsOfAlone(factor) => {
                write!(f, "{} < {} x alone", self.percentile, f64::from(factor) / 100.0)
            }
        }
    }
}

/// The text given is not a target. The message says why, and how to write one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseTargetError(String);

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why: &str| ParseTargetError(format!("`{text}` is not a target: {why}"));
        const FORM: &str = "write `p95 < 20ms` or `p95 < 1.3 x alone`";
        let (percentile, limit) = text.split_once('<').ok_or_else(|| wrong(FORM))?;
        let percent = percentile.trim().strip_prefix('p').and_then(hundredths).ok_or_else(|| wrong(FORM))?;
        if !(5_000..=9_990).contains(&percent) || !percent.is_multiple_of(10) {
            return Err(wrong("percentiles lie between p50 and p99.9, in steps of 0.1"));
        }
        let percentile = Percentile((percent / 10) as u16);
        let limit = match limit.trim().strip_suffix("alone") {
            Some(factor) => {
                let factor = factor.trim_end().strip_suffix('x').and_then(|factor| hundredths(factor.trim()));
                let factor = factor.ok_or_else(|| wrong(FORM))?;
                if !(101..=10_000).contains(&factor) {
                    return Err(wrong("nothing is faster than alone; write a factor between 1.01 and 100"));
                }
                TargetLimit::HundredthsOfAlone(factor)
            }
            None => {
                let length = parse_length(limit.trim()).ok_or_else(|| wrong(FORM))?;
                if length < LIMIT_LEAST {
                    return Err(wrong("the shortest limit is 100us"));
                }
                TargetLimit::Length(length)
            }
        };
        Ok(Target { percentile, limit })
    }
}

/// The shortest limit: nothing that crosses a network is faster.
const LIMIT_LEAST: Duration = Duration::from_micros(100);

/// A positive number with up to two decimal places, times 100.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || whole.len() > 6 || part.len() > 2 {
        return None;
    }
    let part_value: u32 = part.parse().ok()?;
    Some(whole.parse::<u32>().ok()? * 100 + if part.len() == 1 { part_value * 10 } else { part_value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_written_alike() {
        let check = |text: &str, share: f64, written: &str| {
            let target: Target = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((target.percentile.share(), target.to_string().as_str()), (share, written), "{text}");
        };
        check("p95 < 20ms", 0.95, "p95 < 20ms");
        check(" p99.9<1500us ", 0.999, "p99.9 < 1500us");
        check("p50 < 1s", 0.5, "p50 < 1s");
        check("p95 < 1.3 x alone", 0.95, "p95 < 1.3 x alone");
        check("p95 < 1.25x alone", 0.95, "p95 < 1.25 x alone");
        check("p99 < 2 x alone", 0.99, "p99 < 2 x alone");
    }

    #[test]
    fn what_is_wrong_with_others_is_said() {
        let check = |text: &str, why: &str| {
            let error = text.parse::<Target>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}` is not a target")) && error.contains(why), "{error}");
        };
        for text in ["", "fast", "p95", "p95 <= 20ms", "95 < 20ms", "p95 < 20", "p95 < 1.3 alone", "p95 < x alone"] {
            check(text, "write `p95 < 20ms` or `p95 < 1.3 x alone`");
        }
        for text in ["p101 < 20ms", "p49 < 20ms", "p100 < 1s", "p99.99 < 1s", "p999 < 1s", "p0 < 1s"] {
            check(text, "between p50 and p99.9");
        }
        for text in ["p95 < 1 x alone", "p95 < 0.9 x alone", "p95 < 101 x alone"] {
            check(text, "nothing is faster than alone");
        }
        check("p95 < 99us", "the shortest limit is 100us");
        check("p95 < 0ms", "the shortest limit is 100us");
    }
}
