//! The cost of each lever of a governor for each class, as text.

use super::sweep::{named, setting};
use crate::results::Results;
use plimsoll_display::wrap;
use plimsoll_display::{MISSING, duration_us, percent};

/// A line for each class at each setting. Nothing without a governor.
pub(super) fn lines(results: &Results) -> Vec<String> {
    if results.levers.is_empty() {
        return Vec::new();
    }
    let mut out = vec![String::new(), "Which lever took it: what the governor did to each class".to_owned()];
    out.push(format!(
        "  {:<18}{:>14}{:>9}{:>13}{:>11}{:>12}",
        "", "admission", "of time", "rolled back", "work lost", "core wait"
    ));
    let share = |share: Option<f64>| share.map_or_else(|| MISSING.to_owned(), percent);
    for group in results.levers.chunk_by(|one, other| (&one.setting, &one.arm) == (&other.setting, &other.arm)) {
        let place = setting(&group[0].setting);
        let comma = if place.is_empty() { "" } else { ", " };
        out.extend(wrap(&format!("{}{comma}{place}", group[0].arm), "  ", "    "));
        for used in group {
            let figures = format!(
                "{:>14}{:>9}{:>13}{:>11}{:>12}",
                duration_us(used.admission_wait_us),
                share(used.admission_share),
                percent(used.rolled_back_per_transaction),
                share(used.work_lost_share),
                share(used.core_wait_share)
            );
            out.extend(named(&format!("  {}", used.class), 18, &figures));
        }
    }
    let mut reasons: Vec<&String> = results.levers.iter().flat_map(|used| &used.why_not).collect();
    reasons.sort();
    reasons.dedup();
    out.extend(reasons.into_iter().flat_map(|why| wrap(&format!("{MISSING}: {why}"), "  ", "     ")));
    out
}
