//! Durations and sizes in settings files: `2ms`, `120s`, `5min`, `1MiB`.

use std::time::Duration;

use plimsoll_notation::quantity::{TIME_UNITS, scaled, written};

/// A longer duration is a mistake.
const TIME_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Units and their bytes. Sizes are written in the first four, largest first.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// A larger size is a mistake.
const SIZE_MAX: u64 = 1 << 53;

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a length of time; write a number and us, ms, s, min, h or d, as in \"5s\"");
    let micros = scaled(text, &TIME_UNITS).ok_or_else(wrong)?;
    let length = Duration::from_micros(micros);
    if length <= TIME_MAX { Ok(length) } else { Err(format!("`{text}` is longer than 30 days; write a shorter one")) }
}

pub(crate) fn size(text: &str) -> Result<usize, String> {
    let bytes = scaled(text, &SIZE_UNITS).filter(|bytes| *bytes <= SIZE_MAX);
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| format!("`{text}` is not a size; write a number and B, KiB, MiB or GiB, as in \"1MiB\""))
}

/// Writes a duration in the largest unit that needs no fraction.
pub fn write_duration(length: Duration) -> String {
    written(length.as_micros() as u64, &TIME_UNITS, "s")
}

/// Writes a size in the largest unit that needs no fraction.
pub(crate) fn write_size(bytes: usize) -> String {
    written(bytes as u64, &SIZE_UNITS[..4], "B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_written() {
        let check = |text: &str, micros: u64, written: &str| {
            let length = duration(text).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!((length, write_duration(length).as_str()), (Duration::from_micros(micros), written), "{text}");
        };
        check("2ms", 2_000, "2ms");
        check("120s", 120_000_000, "2min");
        check(" 5 min ", 300_000_000, "5min");
        check("0.5s", 500_000, "500ms");
        check("0s", 0, "0s");
        check("30d", 30 * 86_400_000_000, "30d");
        for text in ["", "5", "s", "-1s", "5 sec", "1.2.3s", "1m", "5s5s", "99999999999999999999s"] {
            let error = duration(text).expect_err(text);
            assert!(error.contains("is not a length of time; write a number"), "{error}");
        }
        assert!(duration("31d").is_err());
    }

    #[test]
    fn sizes_are_read_and_written() {
        let check = |text: &str, bytes: usize, written: &str| {
            assert_eq!((size(text), write_size(bytes).as_str()), (Ok(bytes), written), "{text}");
        };
        check("1MiB", 1 << 20, "1MiB");
        check("64 KiB", 64 << 10, "64KiB");
        check("1.5KiB", 1536, "1536B");
        check("0B", 0, "0B");
        for text in ["", "5", "1M", "MiB", "-1B"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
