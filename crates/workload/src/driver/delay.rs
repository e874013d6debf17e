//! A random or constant length of time, as people write it: `none`, `exp 10ms`, `const 5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::RngExt;
use rand_distr::Exp1;
use rand_pcg::Pcg32;
use serde::{Serialize, Serializer};

use super::clock::Nanos;

/// A random delay is cut off at this many times its mean (TPC-C 5.2.5.4).
const CUT: f64 = 10.0;

/// How long a client waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delay {
    /// No delay.
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

    /// The next of a sequence of such delays. Only a random delay draws from `random`.
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
    let multiple: f64 = random.sample(Exp1);
    (mean.as_nanos() as f64 * multiple.min(cut)) as Nanos
}

/// The longest delay that can be written: a longer one is taken for a mistake, and ten times this still fits every sum.
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

/// Text that is not a delay. The message shows the text, the fault in it, and the correct form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a delay: {fault}")]
pub struct ParseDelayError {
    text: String,
    fault: String,
}

impl FromStr for Delay {
    type Err = ParseDelayError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (word, rest) = text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim()));
        let delay = match (word, rest) {
            ("none", "") => Ok(Delay::None),
            ("none", _) => Err(format!("`{rest}` at its end is too much; leave it out")),
            ("exp" | "const", "") => Err(format!("the length after `{text}` is missing; write `{text} 10ms`")),
            ("exp", _) => parse_length(word, rest).map(Delay::Exponential),
            ("const", _) => parse_length(word, rest).map(Delay::Constant),
            _ => Err(format!("it begins with `{word}`; write `none`, `exp 10ms` or `const 5ms`")),
        };
        delay.map_err(|fault| ParseDelayError { text: text.to_owned(), fault })
    }
}

/// Reads `10ms` or `10 ms`, which follows `kind`; the error describes the fault.
fn parse_length(kind: &str, length: &str) -> Result<Duration, String> {
    let unit_at = length.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(length.len());
    let (number, unit) = (&length[..unit_at], length[unit_at..].trim());
    let Some(value) = number.parse::<f64>().ok().filter(|value| *value > 0.0) else {
        let number = if number.is_empty() { length } else { number };
        return Err(format!("`{number}` is not a number above 0; write digits, as in `{kind} 10ms`"));
    };
    let Some((_, unit_nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{unit}` after {number} is not a unit; write us, ms or s, as in `{kind} {number}ms`"));
    };
    let nanos = (value * f64::from(*unit_nanos)).round();
    if nanos < 1.0 || nanos > DELAY_MAX.as_nanos() as f64 {
        return Err(format!("{length} is not between 1 ns and 3600 s; write a length within, or `none`"));
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
        for (text, fault) in [
            ("uniform 3ms", "it begins with `uniform`; write `none`, `exp 10ms` or `const 5ms`"),
            ("", "it begins with ``; write `none`, `exp 10ms` or `const 5ms`"),
            ("exp", "the length after `exp` is missing; write `exp 10ms`"),
            ("none 3ms", "`3ms` at its end is too much; leave it out"),
            ("exp ten", "`ten` is not a number above 0; write digits, as in `exp 10ms`"),
            ("exp -1ms", "`-1` is not a number above 0; write digits, as in `exp 10ms`"),
            ("const 0ms", "`0` is not a number above 0; write digits, as in `const 10ms`"),
            ("exp 10", "`` after 10 is not a unit; write us, ms or s, as in `exp 10ms`"),
            ("exp 10 min", "`min` after 10 is not a unit; write us, ms or s, as in `exp 10ms`"),
            ("const 3601s", "3601s is not between 1 ns and 3600 s; write a length within, or `none`"),
        ] {
            check(text, Err(&format!("`{text}` is not a delay: {fault}")));
        }
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
