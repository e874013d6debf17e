//! Numbers as people read them, with three significant digits and a suitable unit; and lists.

use serde_json::Value;

/// The placeholder for a missing figure.
pub const MISSING: &str = "–";

/// The distinct values, in order of first appearance.
pub fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// The parts that are not empty, with commas between them.
pub fn joined<T: AsRef<str>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut all = String::new();
    for part in parts.into_iter().filter(|part| !part.as_ref().is_empty()) {
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(part.as_ref());
    }
    all
}

/// Three significant digits; whole numbers from 100 up.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    let decimals = |value: f64| match value.abs() {
        0.0 => 0,
        magnitude => (2 - magnitude.log10().floor() as i32).clamp(0, 6) as usize,
    };
    // Rounding can carry into the next decade (9.996 to 10.0), which needs one decimal less.
    let unit = 10f64.powi(decimals(value) as i32);
    let rounded = (value * unit).round() / unit;
    format!("{rounded:.*}", decimals(rounded))
}

/// A number without needless decimals.
pub fn plain(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e9 { format!("{value:.0}") } else { significant(value) }
}

/// Microseconds as `3.20 ns`, `820 µs`, `12.3 ms` or `4.56 s`.
pub fn duration_us(us: f64) -> String {
    match us {
        us if us > 0.0 && us < 0.9995 => format!("{} ns", significant(us * 1e3)),
        us if us < 999.5 => format!("{} µs", significant(us)),
        us if us < 999_500.0 => format!("{} ms", significant(us / 1e3)),
        us => format!("{} s", significant(us / 1e6)),
    }
}

/// A latency of requests, microseconds, as `≤ 1 µs`, `7 µs` or [`duration_us`]. Latencies are recorded in whole microseconds, the
/// shortest as one, so that decimals below a tenth of a millisecond would be made up.
pub fn latency_told(us: f64) -> String {
    match us {
        us if us <= 1.0 => "≤ 1 µs".to_owned(),
        us if us < 99.5 => format!("{us:.0} µs"),
        us => duration_us(us),
    }
}

/// Seconds as `0 s`, `56.0 ms`, `48.0 s`, `12 min 5 s` or `2 h 1 min`.
pub fn seconds(s: f64) -> String {
    match s {
        0.0 => return "0 s".to_owned(),
        s if s < 119.5 => return duration_us(s * 1e6),
        s if !s.is_finite() => return MISSING.to_owned(),
        _ => {}
    }
    let whole = s.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Events per second as `0.52 /s`, `12.3 k/s` or `1.20 M/s`.
pub fn rate(per_s: f64) -> String {
    match per_s {
        per_s if per_s < 999.5 => format!("{} /s", significant(per_s)),
        per_s if per_s < 999_500.0 => format!("{} k/s", significant(per_s / 1e3)),
        per_s => format!("{} M/s", significant(per_s / 1e6)),
    }
}

/// A part of 1 as `41 %`, or `0.4 %` below one percent.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        percent if !percent.is_finite() => MISSING.to_string(),
        percent if percent.abs() < 0.05 => "0 %".to_string(),
        percent if percent.abs() < 0.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// A small relative difference: one decimal below ten percent.
pub fn fine_percent(share: f64) -> String {
    if share.abs() < 0.0995 { format!("{:.1} %", share * 100.0) } else { percent(share) }
}

/// A part of 1 and a lower bound of it, with as many digits as tell them apart: `1.04 %`, `1.00 %`.
pub fn percent_above(share: f64, bound: f64) -> (String, String) {
    let shown = |share: f64, digits: usize| format!("{:.digits$} %", share * 100.0);
    let differs = |digits: &usize| shown(share, *digits) != shown(bound, *digits);
    let digits = (1..=9).find(differs).unwrap_or(9);
    (shown(share, digits), shown(bound, digits))
}

/// Bytes in powers of 1024: `32 KiB`, `23.5 GiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..UNITS.len() - 1).take_while(|&power| bytes >> (10 * (power + 1)) > 0).count();
    let unit = 1u64 << (10 * power);
    let number =
        if bytes.is_multiple_of(unit) { (bytes / unit).to_string() } else { significant(bytes as f64 / unit as f64) };
    format!("{number} {}", UNITS[power])
}

/// A count with its thousands separated by spaces that do not break: `12 345`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A JSON value as a person would write it: no quotes around text, and `not set` for null.
pub fn value(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_string(),
        Value::Bool(true) => "yes".to_string(),
        Value::Bool(false) => "no".to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Array(items) => items.iter().map(self::value).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| format!("{name} {}", self::value(field))).collect::<Vec<_>>().join(", ")
        }
    }
}

/// `one, two and three`.
pub fn list(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [only] => (*only).to_string(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// `1 socket`, `2 sockets`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `1.20–1.40 k/s`: the unit once if it is the same.
pub fn range(low: f64, high: f64, write: fn(f64) -> String) -> String {
    let (low, high) = (write(low), write(high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}–{high}"),
        _ => format!("{low}–{high}"),
    }
}

/// A ratio with two decimals.
pub fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// `n of m nouns`, `m nouns` if it is all of them.
pub fn of(count: usize, all: usize, noun: &str) -> String {
    if count == all { counted(all, noun) } else { format!("{count} of {}", counted(all, noun)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        let check = |got: String, expect: &str| assert_eq!(got, expect);
        check(significant(0.0), "0");
        check(significant(9.996), "10.0");
        check(significant(0.01234), "0.0123");
        check(significant(1234.6), "1235");
        check(significant(f64::NAN), "–");
        check(significant(f64::INFINITY), "–");
        check(duration_us(0.0), "0 µs");
        check(duration_us(0.0032), "3.20 ns");
        check(duration_us(0.9997), "1.00 µs");
        check(latency_told(1.0), "≤ 1 µs");
        check(latency_told(7.4), "7 µs");
        check(latency_told(99.7), "99.7 µs");
        check(latency_told(12_345.0), "12.3 ms");
        check(duration_us(820.0), "820 µs");
        check(duration_us(999.7), "1.00 ms");
        check(duration_us(12_345.0), "12.3 ms");
        check(duration_us(4_560_000.0), "4.56 s");
        check(seconds(0.0), "0 s");
        check(seconds(0.0034), "3.40 ms");
        check(seconds(48.0), "48.0 s");
        check(seconds(f64::INFINITY), "–");
        check(seconds(725.2), "12 min 5 s");
        check(seconds(7260.0), "2 h 1 min");
        check(rate(0.0), "0 /s");
        check(rate(0.0213), "0.0213 /s");
        check(rate(12_345.0), "12.3 k/s");
        check(rate(1_200_000.0), "1.20 M/s");
        check(percent(0.412), "41 %");
        check(percent(0.004), "0.4 %");
        check(percent(0.0), "0 %");
        check(fine_percent(0.031), "3.1 %");
        check(fine_percent(0.31), "31 %");
        check(bytes(0), "0 B");
        check(bytes(32 * 1024), "32 KiB");
        check(bytes(24_684_084 * 1024), "23.5 GiB");
        check(bytes(270_582_939_648), "252 GiB");
        check(count(7), "7");
        check(count(1_234_567), "1\u{202f}234\u{202f}567");
        check(list(&["a"]), "a");
        check(list(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn settings_read_without_json() {
        assert_eq!(
            value(&serde_json::json!({"think": "exp 10ms", "rate": null, "mpl": [1, 2]})),
            "think exp 10ms, rate not set, mpl 1, 2"
        );
    }

    /// A warning said "1.0 % of a core, more than 1.0 %".
    #[test]
    fn a_bound_and_what_exceeds_it_do_not_read_the_same() {
        let pair = |share, bound| percent_above(share, bound);
        assert_eq!(pair(0.0104, 0.01), ("1.04 %".to_owned(), "1.00 %".to_owned()));
        assert_eq!(pair(0.025, 0.01), ("2.5 %".to_owned(), "1.0 %".to_owned()));
        assert_eq!(pair(0.010_000_4, 0.01), ("1.00004 %".to_owned(), "1.00000 %".to_owned()));
    }

    #[test]
    fn a_range_tells_its_unit_once() {
        assert_eq!(range(2_370.0, 2_450.0, duration_us), "2.37–2.45 ms");
        assert_eq!(range(970.0, 2_450.0, duration_us), "970 µs–2.45 ms");
        assert_eq!(range(1.0, 2.0, rate), "1.00–2.00 /s");
        assert_eq!(range(0.5, 0.75, ratio), "0.50–0.75");
    }

    #[test]
    fn counts_read_well() {
        assert_eq!(of(1, 1, "run"), "1 run");
        assert_eq!(of(3, 3, "run"), "3 runs");
        assert_eq!(of(2, 3, "run"), "2 of 3 runs");
    }
}
