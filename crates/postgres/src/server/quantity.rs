//! Amounts of memory and time as PostgreSQL writes them: `64MB`, `1GB`, `5min`.

use std::time::Duration;

use plimsoll_notation::quantity::{TIME_UNITS, scaled, written};

/// Units of memory, the largest first. As in PostgreSQL they are powers of 1024, and case matters.
const BYTE_UNITS: [(&str, u64); 5] = [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];

/// Bytes from a number with its unit. `None` for anything else, also for a bare number: PostgreSQL would read it in a
/// unit that differs from parameter to parameter (blocks of 8 kB, kB), which is hardly what the user meant.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    scaled(text, &BYTE_UNITS)
}

/// Bytes as a whole number of the largest possible unit.
pub(super) fn format_bytes(bytes: u64) -> String {
    written(bytes, &BYTE_UNITS, "B")
}

pub(super) fn parse_time(text: &str) -> Option<Duration> {
    scaled(text, &TIME_UNITS).map(Duration::from_micros)
}

/// A time as a whole number of the largest possible unit.
pub(super) fn format_time(time: Duration) -> String {
    written(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), &TIME_UNITS, "us")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn memory_as_postgresql_writes_it() {
        let check = |text: &str, expect: Option<u64>| assert_eq!(parse_bytes(text), expect, "{text}");
        check("1GB", Some(1 << 30));
        check("64 MB", Some(64 << 20));
        check(" 8kB ", Some(8 << 10));
        check("1.5GB", Some(3 << 29));
        check("0MB", Some(0));
        for nonsense in
            ["", "MB", "64", "64mb", "64M", "-64MB", "1e3MB", "1..5GB", "1GB GB", "0x10MB", "∞GB", "64MB\n'"]
        {
            check(nonsense, None);
        }
        check("99999999999999999999TB", None);
        check("18446744073709551615TB", None);
    }

    #[test]
    fn time_as_postgresql_writes_it() {
        let check =
            |text: &str, expect: Option<u64>| assert_eq!(parse_time(text).map(|time| time.as_millis() as u64), expect);
        check("5min", Some(300_000));
        check("1s", Some(1000));
        check("0.5s", Some(500));
        check("2h", Some(7_200_000));
        check("10", None);
        check("10 minutes", None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(amount in 0..u64::MAX >> 1) {
            prop_assert_eq!(parse_bytes(&format_bytes(amount)), Some(amount));
            let time = Duration::from_micros(amount);
            prop_assert_eq!(parse_time(&format_time(time)), Some(time));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = (parse_bytes(&text), parse_time(&text));
        }
    }
}
