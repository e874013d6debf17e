//! The age of the copy that queries read.

use plimsoll_display::{Figure, duration_us, percent};
use plimsoll_workload::freshness::Freshness;

use crate::freshness::amount;

/// The figures of one run, or of all runs at a setting.
pub(crate) const FIGURES: [&Figure<Freshness>; 6] = [
    &Figure {
        short: "published",
        long: "Published per s",
        width: 16,
        tell: |copy| copy.lambda.map(|changes| per_second(copy, changes)),
    },
    &Figure {
        short: "applied at",
        long: "Applied per busy s",
        width: 16,
        tell: |copy| copy.mu.map(|changes| per_second(copy, changes)),
    },
    &Figure { short: "busy", long: "Busy", width: 7, tell: |copy| copy.busy.map(percent) },
    &Figure {
        short: "lag",
        long: "Lag, half of the time",
        width: 9,
        tell: |copy| copy.lag_us.and_then(|lag| lag.p50).map(duration_us),
    },
    &Figure {
        short: "95 %",
        long: "95 % of the time",
        width: 9,
        tell: |copy| copy.lag_us.and_then(|lag| lag.p95).map(duration_us),
    },
    &Figure {
        short: "at most",
        long: "At most",
        width: 9,
        tell: |copy| copy.lag_us.and_then(|lag| lag.max).map(duration_us),
    },
];

fn per_second(copy: &Freshness, changes: f64) -> String {
    format!("{}/s", amount(copy.unit, changes))
}
