//! The parts of sections that show intervals.

use maud::{Markup, html};
use plimsoll_display::{MISSING, range};

use crate::results::Interval;

/// A cell of a figure with its interval below.
pub(super) fn interval_cell(interval: Option<Interval>, write: fn(f64) -> String) -> Markup {
    html! {
        @match interval {
            None => td class="n missing" { (MISSING) },
            Some(Interval { value, low: Some(low), high: Some(high) }) => {
                td class="n" { (write(value)) small { (range(low, high, write)) } }
            }
            Some(interval) => td class="n" { (write(interval.value)) },
        }
    }
}
