//! Counts and sums of groups, each group at its place in arrays.

use std::ops::Range;

use crate::query::array_aggregate::narrow::Registers;

/// Up to this many groups the arrays are kept several times, and rows take turns: rows that follow each other mostly belong to the
/// same few groups, and each addition would have to wait for the one before.
const GROUPS_MAX_FOR_TURNS: usize = 1024;

/// How many rows may be added at the same time.
const TURNS: usize = 4;

/// A sum: which value is added up, and how far from zero that may be.
#[derive(Debug, Clone, Copy)]
pub struct Sum {
    pub step: usize,
    /// The largest distance from zero.
    pub magnitude: u64,
}

impl Sum {
    /// How many values can be added in 64 bits.
    fn rows_max(&self) -> u64 {
        i64::MAX as u64 / self.magnitude.max(1)
    }
}

#[derive(Debug)]
pub struct Totals {
    /// Places per turn: one for each group, and one for rows that are not selected.
    places: usize,
    turns: usize,
    counts: Vec<u32>,
    sums: Vec<Total>,
    /// The blocks of places to which rows were added. Memory of the others was never touched, so that it takes no room.
    touched: Vec<bool>,
}

#[derive(Debug)]
struct Total {
    sum: Sum,
    narrow: Vec<i64>,
    /// Rows added to `narrow`.
    rows: u64,
    /// Sums that were moved out of `narrow` before they could overflow; empty until then.
    wide: Vec<i128>,
}

impl Totals {
    /// The bytes that [`Totals::new`] takes, and those that adding `rows` rows takes later.
    pub fn bytes(groups: usize, sums: &[Sum], rows: usize) -> usize {
        let places = (groups + 1) * turns(groups);
        let wide = sums.iter().filter(|sum| sum.rows_max() < rows as u64).count();
        places * (size_of::<u32>() + size_of::<i64>() * sums.len()) + (groups + 1) * size_of::<i128>() * wide
    }

    /// Empty totals. At least [`Totals::ROWS_MAX`] values of each sum must fit 64 bits.
    pub fn new(groups: usize, sums: &[Sum]) -> Self {
        let (places, turns) = (groups + 1, turns(groups));
        let total = |&sum: &Sum| Total { sum, narrow: vec![0; places * turns], rows: 0, wide: Vec::new() };
        let (counts, sums) = (vec![0; places * turns], sums.iter().map(total).collect());
        // Where rows take turns there are so few groups that all are looked at.
        Totals { places, turns, counts, sums, touched: vec![turns > 1; places.div_ceil(Totals::BLOCK)] }
    }

    /// The number of places in a block.
    pub const BLOCK: usize = 4096;

    /// The most rows that may be added in one go.
    pub const ROWS_MAX: usize = 1024;

    /// Whether sums of such values can be computed.
    pub fn can_add(sum: Sum) -> bool {
        sum.rows_max() >= Totals::ROWS_MAX as u64
    }

    /// Adds rows whose groups are at these places.
    pub fn add(&mut self, places: &mut [u32], values: &Registers) {
        assert!(places.len() <= Totals::ROWS_MAX, "more rows could overflow a sum");
        if self.turns > 1 {
            let offsets = (0..self.turns).map(|turn| (turn * self.places) as u32).cycle();
            places.iter_mut().zip(offsets).for_each(|(place, offset)| *place += offset);
        } else {
            places.iter().for_each(|place| self.touched[*place as usize / Totals::BLOCK] = true);
        }
        for place in places.iter() {
            let count = &mut self.counts[*place as usize];
            // Wraps only at the place of the rows that are not selected: a table of more rows is not grouped so.
            *count = count.wrapping_add(1);
        }
        for total in &mut self.sums {
            if total.rows + places.len() as u64 > total.sum.rows_max() {
                total.widen(self.places);
            }
            total.rows += places.len() as u64;
            for (place, value) in places.iter().zip(values.step(total.sum.step)) {
                let narrow = &mut total.narrow[*place as usize];
                // Wraps only at the place of the rows that are not selected, whose values can be anything.
                *narrow = narrow.wrapping_add(*value);
            }
        }
    }

    /// The place of rows that are not selected.
    pub fn unselected(&self) -> u32 {
        (self.places - 1) as u32
    }

    /// Whether rows may have been added to groups of a block.
    pub fn touches(&self, block: usize) -> bool {
        self.touched[block]
    }

    /// Notes which of some groups have rows.
    pub fn mark(&self, groups: Range<usize>, have_rows: &mut [bool]) {
        for turn in 0..self.turns {
            let counts = &self.counts[turn * self.places..][groups.clone()];
            have_rows.iter_mut().zip(counts).for_each(|(has_rows, count)| *has_rows |= *count > 0);
        }
    }

    pub fn count(&self, group: usize) -> u64 {
        (0..self.turns).map(|turn| u64::from(self.counts[turn * self.places + group])).sum()
    }

    pub fn sum(&self, sum: usize, group: usize) -> i128 {
        let total = &self.sums[sum];
        let narrow = (0..self.turns).map(|turn| i128::from(total.narrow[turn * self.places + group])).sum::<i128>();
        narrow + total.wide.get(group).copied().unwrap_or(0)
    }
}

impl Total {
    fn widen(&mut self, places: usize) {
        self.wide.resize(places, 0);
        for (place, narrow) in self.narrow.iter_mut().enumerate() {
            self.wide[place % places] += i128::from(std::mem::take(narrow));
        }
        self.rows = 0;
    }
}

fn turns(groups: usize) -> usize {
    if groups <= GROUPS_MAX_FOR_TURNS { TURNS } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_leave_64_bits_before_they_overflow() {
        let magnitude = i64::MAX as u64 / Totals::ROWS_MAX as u64;
        let sum = Sum { step: 0, magnitude };
        assert!(Totals::can_add(sum) && !Totals::can_add(Sum { magnitude: magnitude + 2, ..sum }));
        for groups in [3, GROUPS_MAX_FOR_TURNS + 1] {
            let mut totals = Totals::new(groups, &[sum]);
            let registers = Registers(vec![vec![magnitude as i64; Totals::ROWS_MAX]]);
            for _ in 0..5 {
                totals.add(&mut [1; Totals::ROWS_MAX], &registers);
            }
            let expect = i128::from(magnitude) * 5 * Totals::ROWS_MAX as i128;
            assert_eq!((totals.sum(0, 1), totals.sum(0, 0)), (expect, 0));
            assert_eq!((totals.count(1), totals.count(2)), (5 * Totals::ROWS_MAX as u64, 0));
        }
    }
}
