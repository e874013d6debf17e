//! Lengths of time in experiment files: `5s`, `500ms`, `2 min`.

use std::time::Duration;

use plimsoll_notation::quantity::{TIME_UNITS, scaled};
use plimsoll_workload::driver::WarmUp;

/// Longer times are taken for a typing error.
const LENGTH_MAX: Duration = Duration::from_secs(24 * 3600);

/// The default limit of a warm-up that waits until throughput is steady.
const STEADY_MAX: Duration = Duration::from_secs(60);

/// Reads a length of time, which may be 0.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a length of time; write a number and ms, s, min or h, as in \"5s\"");
    // Without days and microseconds.
    let length = scaled(text, &TIME_UNITS[1..5]).map(Duration::from_micros).ok_or_else(wrong)?;
    if length <= LENGTH_MAX {
        return Ok(length);
    }
    Err(format!("`{text}` is longer than a day; write a shorter time, such as \"20s\""))
}

/// Reads a warm-up: a length, `steady`, or `steady` and the longest length.
pub(super) fn warmup(text: &str) -> Result<WarmUp, String> {
    match text.trim().strip_prefix("steady") {
        None => duration(text).map(WarmUp::For).map_err(|why| format!("{why}, or \"steady\"")),
        Some("") => Ok(WarmUp::UntilSteady { at_most: STEADY_MAX }),
        Some(rest) => match duration(rest)? {
            Duration::ZERO => Err("a warm-up until throughput is steady needs time; write \"steady 30s\"".to_owned()),
            longest => Ok(WarmUp::UntilSteady { at_most: longest }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read() {
        let check = |text, millis| assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        check("5s", 5_000);
        check(" 1.5 s ", 1_500);
        check("250ms", 250);
        check("2min", 120_000);
        check("1h", 3_600_000);
        check("0s", 0);
    }

    #[test]
    fn what_is_no_length_is_refused() {
        for text in ["", "5", "s", "-1s", "5 sec", "1.2.3s", "steady", "5s5s"] {
            let error = duration(text).expect_err(text);
            assert_eq!(
                error,
                format!("`{text}` is not a length of time; write a number and ms, s, min or h, as in \"5s\"")
            );
        }
        assert_eq!(
            duration("25h").expect_err("long"),
            "`25h` is longer than a day; write a shorter time, such as \"20s\""
        );
    }

    #[test]
    fn warm_ups_are_read() {
        let seconds = Duration::from_secs;
        assert_eq!(warmup("5s"), Ok(WarmUp::For(seconds(5))));
        assert_eq!(warmup("steady"), Ok(WarmUp::UntilSteady { at_most: seconds(60) }));
        assert_eq!(warmup("steady 30s"), Ok(WarmUp::UntilSteady { at_most: seconds(30) }));
        assert!(warmup("steady 0s").expect_err("no time").contains("write \"steady 30s\""));
        assert!(warmup("soon").expect_err("no length").ends_with("as in \"5s\", or \"steady\""));
    }
}
