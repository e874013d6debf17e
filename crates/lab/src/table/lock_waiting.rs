//! How the requests of each class waited for locks, as text (MW 3.7).

use super::sweep::setting;
use crate::results::{Estimate, LockStatistics, Results, most_urgent_first};
use plimsoll_display::wrap;
use plimsoll_display::{MISSING, duration_us, percent};

/// The number of settings that are printed; the report has all.
const SETTINGS_MAX: usize = 24;

/// A line for each class of each estimate; nothing if no workload with several classes waited for a lock.
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
            out.push(figures(
                "",
                ["waits", "queue time", "excess", "remainder", "of time", "preempted"].map(str::to_owned),
            ));
            last = heading;
        }
        if !estimate.setting.is_empty() {
            out.extend(wrap(&setting(&estimate.setting), "  ", "    "));
        }
        let classes = most_urgent_first(estimate.measured.classes.keys()).into_iter();
        let known = classes.filter_map(|class| Some((class, estimate.measured.classes[class].locks.as_ref()?)));
        out.extend(known.map(|(class, locks)| of_class(class, locks)));
    }
    if let Some(more @ 1..) = estimates.len().checked_sub(SETTINGS_MAX) {
        out.push(format!("  and {more} more settings, in the report"));
    }
    out
}

/// Waits and preemptions are per request, times are means over lock requests that waited.
fn of_class(class: &str, locks: &LockStatistics) -> String {
    let or_missing = |text: Option<String>| text.unwrap_or_else(|| MISSING.to_owned());
    let mean = |us: Option<f64>| or_missing(us.map(duration_us));
    let cells = [
        or_missing(locks.per_request(locks.waits()).map(|waits| format!("{waits:.2}"))),
        mean(locks.queue_time_us.mean),
        mean(locks.wait_excess_us.mean),
        mean(locks.wait_remainder_us.mean),
        or_missing(locks.queue_time_share.map(percent)),
        or_missing(locks.per_request(locks.preemptions()).map(percent)),
    ];
    figures(class, cells)
}

fn figures(class: &str, [waits, queue_time, excess, remainder, share, preempted]: [String; 6]) -> String {
    format!("    {class:<10}{waits:>9}{queue_time:>12}{excess:>11}{remainder:>11}{share:>10}{preempted:>12}")
}
