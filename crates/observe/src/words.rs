//! Figures and names as people read them, in the terminal and on the page.

use plimsoll_notation::is_shown;

/// The sign for a missing figure.
pub(crate) const MISSING: &str = "–";

/// A part of 1 as `41 %`, or `0.4 %` below one percent.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if !percent.is_finite() => MISSING.to_owned(),
        percent if percent.abs() < 0.05 => "0 %".to_owned(),
        percent if percent.abs() < 0.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// A part of 1 and a lower bound of it, with as many digits as tell them apart: `1.04 %`, `1.00 %`.
pub(crate) fn percent_above(share: f64, bound: f64) -> (String, String) {
    let shown = |share: f64, digits: usize| format!("{:.digits$} %", share * 100.0);
    let differs = |digits: &usize| shown(share, *digits) != shown(bound, *digits);
    let digits = (1..=9).find(differs).unwrap_or(9);
    (shown(share, digits), shown(bound, digits))
}

/// Seconds as `12 µs`, `3.4 ms`, `5.6 s` or `3 min 20 s`.
pub(crate) fn seconds(s: f64) -> String {
    match s {
        s if !s.is_finite() => MISSING.to_owned(),
        s if s <= 0.0 => "0 s".to_owned(),
        s if s < 0.000_999_5 => format!("{:.0} µs", s * 1e6),
        s if s < 0.009_995 => format!("{:.2} ms", s * 1e3),
        s if s < 0.099_95 => format!("{:.1} ms", s * 1e3),
        s if s < 0.999_5 => format!("{:.0} ms", s * 1e3),
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 119.5 => format!("{s:.1} s"),
        s => {
            let whole = s.round() as u64;
            format!("{} min {} s", whole / 60, whole % 60)
        }
    }
}

/// Events per second.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        per_s if per_s < 9.95 => format!("{per_s:.2} /s"),
        per_s if per_s < 999.5 => format!("{per_s:.0} /s"),
        per_s => format!("{:.1} k/s", per_s / 1e3),
    }
}

/// A name that may be empty, on one line.
pub(crate) fn named(name: &str, nothing: &str) -> String {
    if name.is_empty() { nothing.to_owned() } else { one_line(name) }
}

/// The text without characters that a terminal would obey.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_shown(c) { c } else { ' ' }).collect()
}

/// At most that many characters, the last of them a sign that the text was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// In lines of at most that many characters, where words allow it.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    // A word that is longer than a line is cut into pieces.
    let pieces = |line: String| {
        let letters: Vec<char> = line.chars().collect();
        letters.chunks(width.max(1)).map(|piece| piece.iter().collect::<String>()).collect::<Vec<_>>()
    };
    lines.into_iter().flat_map(pieces).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!([0.0, 0.004, 0.414, 1.0].map(percent), ["0 %", "0.4 %", "41 %", "100 %"]);
        let times = [0.0, 0.000_012, 0.0034, 0.056, 0.5, 5.6, 56.0, 200.0].map(seconds);
        assert_eq!(times, ["0 s", "12 µs", "3.40 ms", "56.0 ms", "500 ms", "5.60 s", "56.0 s", "3 min 20 s"]);
        assert_eq!([0.5, 123.4, 12_345.0].map(rate), ["0.50 /s", "123 /s", "12.3 k/s"]);
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
    fn texts_fit() {
        assert_eq!((cut("größer", 4).as_str(), cut("abcd", 4).as_str()), ("grö…", "abcd"));
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(named("a\x1b[2J\nb\u{202e}c", "-"), "a [2J b c");
    }
}
