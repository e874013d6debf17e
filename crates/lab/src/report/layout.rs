//! Cells that show intervals.

use maud::Markup;
use plimsoll_display::page::Cell;

use crate::results::Interval;

/// A figure with its interval below.
pub(super) fn interval(interval: Option<Interval>, write: fn(f64) -> String) -> Cell {
    let ends = interval.and_then(|interval| interval.low.zip(interval.high));
    Cell::ranged(interval.map(|interval| interval.value), ends, write)
}

/// The same as a cell of a table that scrolls.
pub(super) fn interval_cell(of: Option<Interval>, write: fn(f64) -> String) -> Markup {
    interval(of, write).plain()
}
