//! What each lever of a governor cost a class.

use plimsoll_display::{Figure, duration_us, percent};

use crate::results::LeverUse;

/// The figures, per transaction of the class.
pub(crate) const FIGURES: [&Figure<LeverUse>; 5] = [
    &Figure {
        short: "admission",
        long: "Waited to be let in",
        width: 14,
        tell: |used| Some(duration_us(used.admission_wait_us)),
    },
    &Figure { short: "of time", long: "of time", width: 9, tell: |used| used.admission_share.map(percent) },
    &Figure {
        short: "rolled back",
        long: "Rolled back, of transactions",
        width: 13,
        tell: |used| Some(percent(used.rolled_back_per_transaction)),
    },
    &Figure {
        short: "work lost",
        long: "Work lost, of time",
        width: 11,
        tell: |used| used.work_lost_share.map(percent),
    },
    &Figure {
        short: "core wait",
        long: "Waited for a core, of time",
        width: 12,
        tell: |used| used.core_wait_share.map(percent),
    },
];
