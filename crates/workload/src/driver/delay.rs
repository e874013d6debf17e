//! A random or constant length of time, as people write it: `none`, `exp 10ms`, `const 5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg32;
use serde::{Serialize, Serializer};

use super::clock::Nanos;

/// A random delay is cut off at this many times its mean (TPC-C 5.2.5.4).
const CUT: f64 = 10.0;

/// How long a client waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delay {
    /// Not at all.
    #[default]
    None,
    /// Always this long.
    Constant(Duration),
    /// Negative-exponentially distributed with this mean, and cut off at ten times the mean (TPC-C 5.2.5.4).
    Exponential(Duration),
}

impl Delay {
    /// The mean, the cut left out: it lowers the mean by less than one in 20 000.
    pub fn mean(self) -> Duration {
        match self {
            Delay::None => Duration::ZERO,
            Delay::Constant(length) | Delay::Exponential(length) => length,
        }
    }

    /// The next of a sequence of such delays. Draws nothing where nothing is random.
    pub(super) fn draw(self, random: &mut Pcg32) -> Nanos {
        match self {
            Delay::None => 0,
            Delay::Constant(length) => length.as_nanos() as Nanos,
            Delay::Exponential(mean) => exponential(mean, CUT, random),
        }
    }
}

/// A negative-exponentially distributed time, at most `cut` times its mean.
pub(super) fn exponential(mean: Duration, cut: f64, random: &mut Pcg32) -> Nanos {
    // The number drawn is in [0, 1), so the logarithm is of something in (0, 1] and finite.
    let multiple = -(1.0 - random.random::<f64>()).ln();
    (mean.as_nanos() as f64 * multiple.min(cut)) as Nanos
}

/// The longest delay that can be written: longer ones are slips of the pen, and ten times it still fits every sum.
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// Units and how many nanoseconds each has, largest first.
const UNITS: [(&str, u32); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::None => f.write_str("none"),
            Delay::Constant(length) => write!(f, "const {}", Length(*length)),
            Delay::Exponential(mean) => write!(f, "exp {}", Length(*mean)),
        }
    }
}

/// A duration in the largest unit that needs no fraction.
struct Length(Duration);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        match UNITS.iter().find(|(_, unit)| nanos.is_multiple_of(u128::from(*unit))) {
            Some((name, unit)) => write!(f, "{}{name}", nanos / u128::from(*unit)),
            None => write!(f, "{}us", nanos as f64 / 1_000.0),
        }
    }
}

impl Serialize for Delay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Text that is no delay. Each message shows the text, what is wrong in it, and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseDelayError {
    /// The first word is none of those known.
    #[error("`{text}` is not a delay: it begins with `{word}`; write `none`, `exp 10ms` or `const 5ms`")]
    Kind {
        /// All of the text.
        text: String,
        /// Its first word.
        word: String,
    },
    /// The length is missing.
    #[error("`{text}` is not a delay: the length after `{text}` is missing; write `{text} 10ms`")]
    NoLength {
        /// All of the text.
        text: String,
    },
    /// There is more text than a delay has.
    #[error("`{text}` is not a delay: `{rest}` at its end is too much; leave it out")]
    TooMuch {
        /// All of the text.
        text: String,
        /// What is too much.
        rest: String,
    },
    /// The number cannot be read.
    #[error("`{text}` is not a delay: `{number}` is not a number above 0; write digits, as in `{kind} 10ms`")]
    Number {
        /// All of the text.
        text: String,
        /// The word before.
        kind: String,
        /// What stands where the number should.
        number: String,
    },
    /// The unit is missing or unknown.
    #[error(
        "`{text}` is not a delay: `{unit}` after {number} is not a unit; write us, ms or s, as in `{kind} {number}ms`"
    )]
    Unit {
        /// All of the text.
        text: String,
        /// The word before.
        kind: String,
        /// The number.
        number: String,
        /// What stands where the unit should.
        unit: String,
    },
    /// The length is not between a nanosecond and an hour.
    #[error("`{text}` is not a delay: {length} is not between 1 ns and 3600 s; write a length within, or `none`")]
    Range {
        /// All of the text.
        text: String,
        /// The length given.
        length: String,
    },
}

impl FromStr for Delay {
    type Err = ParseDelayError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let owned = || text.trim().to_owned();
        let (word, rest) = match text.trim().split_once(char::is_whitespace) {
            Some((word, rest)) => (word, rest.trim()),
            None => (text.trim(), ""),
        };
        match (word, rest) {
            ("none", "") => Ok(Delay::None),
            ("none", _) => Err(ParseDelayError::TooMuch { text: owned(), rest: rest.to_owned() }),
            ("exp" | "const", "") => Err(ParseDelayError::NoLength { text: owned() }),
            ("exp", _) => parse_length(text.trim(), word, rest).map(Delay::Exponential),
            ("const", _) => parse_length(text.trim(), word, rest).map(Delay::Constant),
            _ => Err(ParseDelayError::Kind { text: owned(), word: word.to_owned() }),
        }
    }
}

/// Reads `10ms` or `10 ms` within `text`, where it follows `kind`.
fn parse_length(text: &str, kind: &str, length: &str) -> Result<Duration, ParseDelayError> {
    let unit_at = length.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(length.len());
    let (number, unit) = (&length[..unit_at], length[unit_at..].trim());
    let [text, kind, number_owned] = [text, kind, number].map(str::to_owned);
    let Some(value) = number.parse::<f64>().ok().filter(|value| *value > 0.0) else {
        let number = if number.is_empty() { length.to_owned() } else { number_owned };
        return Err(ParseDelayError::Number { text, kind, number });
    };
    let Some((_, unit_nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(ParseDelayError::Unit { text, kind, number: number_owned, unit: unit.to_owned() });
    };
    let nanos = (value * f64::from(*unit_nanos)).round();
    if nanos < 1.0 || nanos > DELAY_MAX.as_nanos() as f64 {
        return Err(ParseDelayError::Range { text, length: length.to_owned() });
    }
    Ok(Duration::from_nanos(nanos as u64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expect: Result<Delay, &str>) {
        let found = text.parse::<Delay>().map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn delays_are_read() {
        let ms = Duration::from_millis;
        check("none", Ok(Delay::None));
        check("exp 10ms", Ok(Delay::Exponential(ms(10))));
        check("  const   5 ms ", Ok(Delay::Constant(ms(5))));
        check("exp 1.5s", Ok(Delay::Exponential(ms(1500))));
        check("const 0.5us", Ok(Delay::Constant(Duration::from_nanos(500))));
    }

    #[test]
    fn what_is_no_delay_is_refused_with_place_and_remedy() {
        check(
            "uniform 3ms",
            Err("`uniform 3ms` is not a delay: it begins with `uniform`; write `none`, `exp 10ms` or `const 5ms`"),
        );
        check("", Err("`` is not a delay: it begins with ``; write `none`, `exp 10ms` or `const 5ms`"));
        check("exp", Err("`exp` is not a delay: the length after `exp` is missing; write `exp 10ms`"));
        check("none 3ms", Err("`none 3ms` is not a delay: `3ms` at its end is too much; leave it out"));
        check(
            "exp ten",
            Err("`exp ten` is not a delay: `ten` is not a number above 0; write digits, as in `exp 10ms`"),
        );
        check(
            "exp -1ms",
            Err("`exp -1ms` is not a delay: `-1` is not a number above 0; write digits, as in `exp 10ms`"),
        );
        check(
            "const 0ms",
            Err("`const 0ms` is not a delay: `0` is not a number above 0; write digits, as in `const 10ms`"),
        );
        check("exp 10", Err("`exp 10` is not a delay: `` after 10 is not a unit; write us, ms or s, as in `exp 10ms`"));
        check(
            "exp 10 min",
            Err("`exp 10 min` is not a delay: `min` after 10 is not a unit; write us, ms or s, as in `exp 10ms`"),
        );
        check(
            "const 3601s",
            Err("`const 3601s` is not a delay: 3601s is not between 1 ns and 3600 s; write a length within, or `none`"),
        );
    }

    #[test]
    fn delays_are_written_in_the_largest_unit_without_a_fraction() {
        for text in ["none", "exp 10ms", "const 5us", "exp 1500ms", "const 2s", "exp 0.25us"] {
            assert_eq!(text.parse::<Delay>().expect("a delay").to_string(), text);
        }
        let json = serde_json::to_string(&Delay::Exponential(Duration::from_millis(3))).expect("text");
        assert_eq!(json, "\"exp 3ms\"");
    }

    proptest! {
        #[test]
        fn every_delay_reads_back(nanos in 1u64..3_600_000_000_000, exponential: bool) {
            let length = Duration::from_nanos(nanos);
            let delay = if exponential { Delay::Exponential(length) } else { Delay::Constant(length) };
            prop_assert_eq!(delay.to_string().parse::<Delay>(), Ok(delay));
        }
    }
}
