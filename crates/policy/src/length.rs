//! Lengths of time as names and options write them: `300ms`.

use std::time::Duration;

use plimsoll_notation::quantity::{TIME_UNITS, scaled, written};

/// The longest length that can be written, an hour: longer ones are typing mistakes.
const LENGTH_MAX: Duration = Duration::from_secs(3600);

/// Reads `300ms`: digits and a unit, `s`, `ms` or `us`, and nothing else; at most an hour.
pub fn parse_length(text: &str) -> Option<Duration> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let micros = scaled(text, units()).filter(|_| is_plain)?;
    Some(Duration::from_micros(micros)).filter(|length| *length <= LENGTH_MAX)
}

/// Writes whole microseconds in the largest unit that needs no fraction, so that equal lengths are written alike: `1500ms`.
/// Nothing is `0ms`.
pub fn write_length(length: Duration) -> String {
    written(length.as_micros() as u64, units(), "ms")
}

/// Seconds and less.
fn units() -> &'static [(&'static str, u64)] {
    &TIME_UNITS[3..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_written_alike() {
        let check = |text: &str, micros: u64, written: &str| {
            let length = Duration::from_micros(micros);
            assert_eq!((parse_length(text), write_length(length).as_str()), (Some(length), written), "{text}");
        };
        check("0s", 0, "0ms");
        check("0ms", 0, "0ms");
        check("12ms", 12_000, "12ms");
        check("1000us", 1_000, "1ms");
        check("1500ms", 1_500_000, "1500ms");
        check("3600s", 3_600_000_000, "3600s");
        for text in ["", "5", "ms", "1.5s", "-1s", " 1s", "1 s", "1min", "3601s", "99999999999999999999s"] {
            assert_eq!(parse_length(text), None, "{text}");
        }
    }
}
