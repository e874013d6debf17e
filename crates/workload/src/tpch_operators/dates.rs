//! How the dates of `lineitem` are distributed, and so before which day a given share of them lies.
//!
//! TPC-H 4.2.3: an order's date is uniform over the days from STARTDATE to ENDDATE - 151 days; a line is shipped 1 to 121
//! days later, was promised for 30 to 90 days after the order, and is received 1 to 30 days after it was shipped.

use std::ops::RangeInclusive;

use arrow::temporal_conversions::date32_to_datetime;

/// STARTDATE, 1992-01-01, in days since 1970-01-01.
const FIRST_ORDER_DAY: i32 = 8035;

/// Days from STARTDATE to 1998-08-02, both included: the days from which an order's date is chosen.
const ORDER_DAYS: usize = 2406;

/// How likely each day is.
#[derive(Debug, Clone)]
pub(super) struct Dates {
    /// By days since the first on which there can be an order; they add up to 1.
    chances: Vec<f64>,
}

impl Dates {
    fn ordered() -> Self {
        Dates { chances: vec![1.0 / ORDER_DAYS as f64; ORDER_DAYS] }
    }

    /// `l_shipdate`.
    pub(super) fn shipped() -> Self {
        Dates::ordered().later_by(1..=121)
    }

    /// `l_commitdate`.
    pub(super) fn committed() -> Self {
        Dates::ordered().later_by(30..=90)
    }

    /// `l_receiptdate`.
    pub(super) fn received() -> Self {
        Dates::shipped().later_by(1..=30)
    }

    /// Each date moved by a number of days, all equally likely.
    fn later_by(self, days: RangeInclusive<usize>) -> Self {
        let mut chances = vec![0.0; self.chances.len() + days.end()];
        let share = 1.0 / days.clone().count() as f64;
        for (day, chance) in self.chances.iter().enumerate() {
            for later in days.clone() {
                chances[day + later] += chance * share;
            }
        }
        Dates { chances }
    }

    /// The day, since 1970-01-01, before which the share of dates is nearest to the given one.
    pub(super) fn day_with_share_before(&self, share: f64) -> i32 {
        let mut before = 0.0;
        for (day, chance) in self.chances.iter().enumerate() {
            // Half a day's chance further, the next day would be the nearer one.
            if before + chance / 2.0 >= share {
                return FIRST_ORDER_DAY + day as i32;
            }
            before += chance;
        }
        FIRST_ORDER_DAY + self.chances.len() as i32
    }
}

/// A day as SQL writes it: `date '1995-06-17'`.
pub(super) fn literal(day: i32) -> String {
    let date = date32_to_datetime(day).expect("the days of TPC-H are within the calendar").date();
    format!("date '{date}'")
}
