//! The cost of each lever of a governor for each class, as text.

use super::sweep::{named, setting};
use crate::results::Results;
use crate::sections::levers::FIGURES;
use plimsoll_display::{MISSING, figure_line, heading_line, wrap};

/// A line for each class at each setting. Nothing without a governor.
pub(super) fn lines(results: &Results) -> Vec<String> {
    if results.levers.is_empty() {
        return Vec::new();
    }
    let mut out = vec![String::new(), "Which lever took it: what the governor did to each class".to_owned()];
    out.push(format!("  {:<18}{}", "", heading_line(&FIGURES)));
    for group in results.levers.chunk_by(|one, other| (&one.setting, &one.arm) == (&other.setting, &other.arm)) {
        let place = setting(&group[0].setting);
        let comma = if place.is_empty() { "" } else { ", " };
        out.extend(wrap(&format!("{}{comma}{place}", group[0].arm), "  ", "    "));
        for used in group {
            let figures = figure_line(&FIGURES, used);
            out.extend(named(&format!("  {}", used.class), 18, &figures));
        }
    }
    let mut reasons: Vec<&String> = results.levers.iter().flat_map(|used| &used.why_not).collect();
    reasons.sort();
    reasons.dedup();
    out.extend(reasons.into_iter().flat_map(|why| wrap(&format!("{MISSING}: {why}"), "  ", "     ")));
    out
}
