//! Isolation, in the table.

use super::kept::{self, letter};
use crate::line::told;
use crate::results::{Isolation, Line, LineStanding};
use plimsoll_display::wrap;
use plimsoll_display::{MISSING, percent};

/// Columns for the tried setting.
const WIDTH: usize = 32;

/// Settings that are named although they were not measured; the report and `results.json` have all.
const UNMEASURED_MAX: usize = 4;

/// The section: the measured settings, the others, and the conclusion.
pub(super) fn lines(line: &Line) -> Vec<String> {
    let mut out = vec![String::new()];
    out.extend(wrap(&line.sentence, "The line: ", "  "));
    let measured: Vec<&Isolation> = line.tried.iter().filter(|one| !one.kept.is_empty()).collect();
    if measured.len() > 1 {
        let (own, other) = (format!("{} keeps", line.protect), "the other keeps");
        out.push(format!(
            "  {:<WIDTH$}{own:>22}{other:>22}",
            format!("of throughput (at least {})", percent(line.slo))
        ));
        out.extend(measured.iter().enumerate().flat_map(|(at, one)| row(at, one)));
        out.extend(kept::lines(line, &measured));
        let how = line.best.map(|at| &line.tried[at].how[..]).unwrap_or_default();
        out.extend(how.iter().flat_map(|how| wrap(how, "  how: ", "    ")));
    }
    let unmeasured = line.tried.iter().filter(|one| one.kept.is_empty()).map(|one| one.words.as_str());
    let unmeasured: Vec<&str> = unmeasured.collect();
    if !unmeasured.is_empty() {
        let named = unmeasured[..unmeasured.len().min(UNMEASURED_MAX)].join("; ");
        let more = match unmeasured.len().saturating_sub(UNMEASURED_MAX) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        out.extend(wrap(&format!("considered, not measured: {named}{more}"), "  ", "    "));
    }
    out
}

fn row(at: usize, one: &Isolation) -> Vec<String> {
    let mark = match one.standing {
        Some(LineStanding::Kept) => "+",
        Some(LineStanding::Broken) => "-",
        Some(LineStanding::Undecided) | None => "?",
    };
    let keeps = |at: usize| one.kept.get(at).map_or_else(|| MISSING.to_owned(), |kept| told(kept.throughput));
    let (own, other) = (keeps(0), keeps(1));
    let mut out = wrap(&one.words, &format!("{mark} {} ", letter(at)), "    ");
    match out.last_mut() {
        Some(last) if last.chars().count() <= WIDTH + 2 => {
            let missing = WIDTH + 2 - last.chars().count();
            last.push_str(&format!("{:missing$}{own:>22}{other:>22}", ""));
        }
        _ => out.push(format!("  {:<WIDTH$}{own:>22}{other:>22}", "")),
    }
    let predicted: Vec<String> = one.predicted.iter().map(|(name, keeps)| format!("{name} {keeps:.2}")).collect();
    if !predicted.is_empty() {
        out.push(format!("    predicted: {}", predicted.join(", ")));
    }
    out
}
