//! What others on the machine did not disturb, as text.

use super::sweep;
use crate::results::Results;
use crate::undisturbed::{of, sentence};
use plimsoll_display::duration_us;
use plimsoll_display::wrap;

/// Cells that are listed.
const CELLS_MAX: usize = 12;

/// Nothing if others have disturbed nothing.
pub(super) fn lines(results: &Results) -> Vec<String> {
    let Some(sentence) = sentence(results) else { return Vec::new() };
    let mut out = vec![String::new()];
    out.extend(wrap(&sentence, "", "  "));
    let found = of(results);
    if !found.is_empty() {
        out.push(String::new());
        out.push("CPU time of a request".to_owned());
    }
    for one in found.iter().take(CELLS_MAX) {
        let [least, mean, most] = one.us.map(duration_us);
        let plural = if one.runs == 1 { "" } else { "s" };
        let figures = format!("{mean:>10}  ({least} to {most} in {} run{plural})", one.runs);
        out.extend(sweep::named(&sweep::place(&one.workload, &one.arm, &one.setting), 30, &figures));
    }
    out
}
