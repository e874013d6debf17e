//! Counts of a simulated processor as text.

use crate::figures::{Reading, figure};
use crate::results::Results;
use crate::table::sweep::{named, setting};
use plimsoll_display::{MISSING, joined, significant};

/// The columns: a figure of each request, and its heading.
const COLUMNS: [(&str, &str); 5] = [
    ("counters.instructions", "instructions"),
    ("counters.l1d_misses", "L1D misses"),
    ("counters.llc_misses", "LLC misses"),
    ("counters.branches", "branches"),
    ("counters.branch_misses", "mispredicted"),
];

/// A line for each workload and setting.
pub(super) fn lines(results: &Results) -> Vec<String> {
    let heads: String = COLUMNS.iter().map(|(_, head)| format!("{head:>13}")).collect();
    let mut out = vec![String::new(), format!("{:<14}{heads}", "per request")];
    for estimate in &results.estimates {
        let reading = Reading::of_cell(estimate);
        let told = |key: &str| figure(key).value(&reading).map_or_else(|| MISSING.to_owned(), significant);
        let figures: String = COLUMNS.iter().map(|(key, _)| format!("{:>13}", told(key))).collect();
        let swept = Some(setting(&estimate.setting)).filter(|text| !text.is_empty());
        let what = joined(std::iter::once(estimate.workload.clone()).chain(swept));
        out.extend(named(&what, 12, &figures));
    }
    out
}
