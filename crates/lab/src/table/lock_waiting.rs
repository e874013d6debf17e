//! How the requests of each class waited for locks, as text (MW 3.7).

use super::sweep::setting;
use crate::results::{Estimate, Results, most_urgent_first};
use crate::sections::lock_waiting::IN_LINE;
use plimsoll_display::{figure_line, heading_line, wrap};

/// The number of settings that are printed; the report has all.
const SETTINGS_MAX: usize = 24;

/// A line for each class of each estimate: waits and preemptions are per request, times are means over lock requests that
/// waited. Nothing if no workload with several classes waited for a lock.
pub(super) fn lines(results: &Results) -> Vec<String> {
    let waited = |estimate: &&Estimate| {
        let mut locks = estimate.measured.classes.values().filter_map(|part| part.locks.as_ref());
        estimate.measured.classes.len() > 1 && locks.any(|locks| locks.waits() > 0)
    };
    let estimates: Vec<&Estimate> = results.estimates.iter().filter(waited).collect();
    if estimates.is_empty() {
        return Vec::new();
    }
    let mut out = vec![String::new(), "Lock waiting by class".to_owned()];
    let mut last = String::new();
    for estimate in estimates.iter().take(SETTINGS_MAX) {
        let heading = format!("{}, {}", estimate.workload, estimate.arm);
        if heading != last {
            out.extend(wrap(&heading, "  ", "    "));
            out.push(format!("    {:<10}{}", "", heading_line(&IN_LINE)));
            last = heading;
        }
        if !estimate.setting.is_empty() {
            out.extend(wrap(&setting(&estimate.setting), "  ", "    "));
        }
        let classes = most_urgent_first(estimate.measured.classes.keys()).into_iter();
        let known = classes.filter_map(|class| Some((class, estimate.measured.classes[class].locks.as_ref()?)));
        out.extend(known.map(|(class, locks)| format!("    {class:<10}{}", figure_line(&IN_LINE, locks))));
    }
    if let Some(more @ 1..) = estimates.len().checked_sub(SETTINGS_MAX) {
        out.push(format!("  and {more} more settings, in the report"));
    }
    out
}
