//! `numeric`: a decimal number that keeps its number of decimals.
//!
//! PostgreSQL's has up to 131,072 digits. Here there are 19 before the point and 18 after it, so that any two numbers
//! can be converted to the same scale without overflow. A number that does not fit is an error.

use std::cmp::Ordering;
use std::fmt;

/// The most decimal places.
pub(crate) const PLACES_MAX: u8 = 18;

/// Whole parts are below this.
const WHOLE_MAX: i128 = power_of_ten(19);

const _: () = assert!(WHOLE_MAX.checked_mul(power_of_ten(PLACES_MAX)).is_some(), "all numbers fit with all places");

/// A number: `unscaled / 10^places`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numeric {
    unscaled: i128,
    places: u8,
}

/// The error for a number that does not fit.
pub(super) const TOO_LARGE: &str =
    "a numeric has at most 19 digits before the point and 18 behind it here; a server has more";

const fn power_of_ten(exponent: u8) -> i128 {
    10_i128.pow(exponent as u32)
}

impl Numeric {
    /// `unscaled / 10^places`, if it fits.
    pub(crate) fn new(unscaled: i128, places: u8) -> Option<Self> {
        let fits = places <= PLACES_MAX && unscaled.unsigned_abs() < (WHOLE_MAX * power_of_ten(places)).unsigned_abs();
        fits.then_some(Numeric { unscaled, places })
    }

    /// Reads a number as PostgreSQL does, but for `NaN` and `Infinity`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (digits, exponent) = match rest.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut unscaled = 0_i128;
        for digit in whole.bytes().chain(fraction.bytes()) {
            let digit = digit.is_ascii_digit().then(|| i128::from(digit - b'0'))?;
            unscaled = unscaled.checked_mul(10)?.checked_add(digit)?;
        }
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let places = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        let zeros = places.min(0).unsigned_abs();
        let unscaled = unscaled.checked_mul(10_i128.checked_pow(zeros)?)?;
        Numeric::new(sign * unscaled, u8::try_from(places.max(0)).ok()?)
    }

    /// The number if it is shown without places, and fits.
    pub(crate) fn whole(self) -> Option<i64> {
        (self.places == 0).then(|| i64::try_from(self.unscaled).ok()).flatten()
    }

    /// The number times `10^places`, rounded half away from zero.
    pub(crate) fn unscaled_at(self, places: u8) -> i128 {
        if places >= self.places {
            return self.unscaled * power_of_ten(places - self.places);
        }
        let by = power_of_ten(self.places - places);
        let (whole, rest) = (self.unscaled / by, self.unscaled % by);
        if rest.abs() * 2 >= by { whole + rest.signum() } else { whole }
    }

    /// The number rounded to this number of places, half away from zero.
    pub(crate) fn rounded(self, places: u8) -> Option<Self> {
        Numeric::new(self.unscaled_at(places), places)
    }

    /// Both numbers times the same power of ten, which is also returned.
    fn aligned(self, other: Self) -> (i128, i128, u8) {
        let places = self.places.max(other.places);
        (self.unscaled_at(places), other.unscaled_at(places), places)
    }

    pub(super) fn add(self, other: Self) -> Option<Self> {
        let (a, b, places) = self.aligned(other);
        Numeric::new(a + b, places)
    }

    pub(super) fn subtract(self, other: Self) -> Option<Self> {
        let (a, b, places) = self.aligned(other);
        Numeric::new(a - b, places)
    }

    pub(super) fn multiply(self, other: Self) -> Option<Self> {
        Numeric::new(self.unscaled.checked_mul(other.unscaled)?, self.places + other.places)
    }

    /// The remainder, which has the sign of the dividend. `other` is not zero.
    pub(super) fn remainder(self, other: Self) -> Option<Self> {
        let (a, b, places) = self.aligned(other);
        Numeric::new(a % b, places)
    }

    pub(super) fn is_zero(self) -> bool {
        self.unscaled == 0
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        let (a, b, _) = self.aligned(other);
        a.cmp(&b)
    }
}

impl From<i64> for Numeric {
    fn from(number: i64) -> Self {
        Numeric { unscaled: number.into(), places: 0 }
    }
}

/// By value: `1.0` is `1.00`.
impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.compare(*other).is_eq()
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = power_of_ten(self.places).unsigned_abs();
        let magnitude = self.unscaled.unsigned_abs();
        let (sign, whole, fraction) = (if self.unscaled < 0 { "-" } else { "" }, magnitude / by, magnitude % by);
        match usize::from(self.places) {
            0 => write!(f, "{sign}{whole}"),
            places => write!(f, "{sign}{whole}.{fraction:0places$}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// The results of PostgreSQL's `SELECT text::numeric` and its operators.
    #[test]
    fn numbers_are_read_shown_and_rounded_as_postgresql_does() {
        for (text, expect) in [
            ("12.50", "12.50"),
            (" -0.5 ", "-0.5"),
            ("+7", "7"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("1.25e1", "12.5"),
            ("15e-3", "0.015"),
            ("-0", "0"),
        ] {
            assert_eq!(Numeric::parse(text).unwrap().to_string(), expect, "{text}");
        }
        for text in
            ["", ".", "-", "1x", "1e", "NaN", "Infinity", "1 2", "10000000000000000000", "0.0000000000000000001"]
        {
            assert!(Numeric::parse(text).is_none(), "{text}");
        }
        for (text, places, expect) in
            [("2.5", 0, "3"), ("-2.5", 0, "-3"), ("2.49", 0, "2"), ("1.005", 2, "1.01"), ("1.5", 3, "1.500")]
        {
            assert_eq!(Numeric::parse(text).unwrap().rounded(places).unwrap().to_string(), expect);
        }
    }

    #[test]
    fn arithmetic_keeps_the_places_that_postgresql_keeps() {
        let number = |text| Numeric::parse(text).unwrap();
        assert_eq!(number("1.50").add(number("2.255")).unwrap().to_string(), "3.755");
        assert_eq!(number("1").subtract(number("0.10")).unwrap().to_string(), "0.90");
        assert_eq!(number("1.50").multiply(number("-2.0")).unwrap().to_string(), "-3.000");
        assert_eq!(number("-7.5").remainder(number("2")).unwrap().to_string(), "-1.5");
        assert!(number("1.0") == number("1.00") && number("-1").compare(number("0.5")).is_lt());
        let largest = number("9999999999999999999.999999999999999999");
        assert!(largest.add(number("0.000000000000000001")).is_none());
        assert!(largest.multiply(largest).is_none());
        assert_eq!(largest.compare(number("-9999999999999999999")), Ordering::Greater);
    }
}
