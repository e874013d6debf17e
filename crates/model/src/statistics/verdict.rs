//! Verdicts on claims: a claim holds, fails, or is undecided.
//!
//! # A comparison
//! A comparison has a value in every block: its *distance*, the logarithm of left over right (or left less right, where a
//! side is not above 0), with the sign that makes it positive where the comparison is true. Both sides ran in the same
//! block, so what a block shares cancels. The [`Margin`] of the comparison is Student's t interval on the mean distance.
//! It holds if the whole interval is above 0, fails if the whole interval is below 0, and is undecided otherwise.
//!
//! The spread is that of the comparison's own blocks. Pooling it with that of other comparisons, after a test of
//! homogeneity, was tried and refused: with few blocks no test sees that one comparison has twice the noise of the
//! others, and its interval then covers the truth in 75 to 90 % of experiments instead of 95 (a test in
//! `tests/verdicts.rs` keeps the proof, with Bartlett's test, the most powerful one). With enough blocks for the test
//! to see it, pooling narrows intervals by a tenth. So noise is never pooled, and a claim that its own blocks do not
//! decide asks for more blocks.
//!
//! A percentile has a distance only in a block in which ten requests lie beyond it. Pseudo-values from all blocks against
//! all but one would need fewer requests; they were tried and refused, too: their intervals cover 60 to 90 %.
//!
//! # Several comparisons
//! The margin of `a and b`, and of `for all`, is that of the worst comparison; of `or`, that of the best. Its bounds
//! are the least (or greatest) of both ends. [`Levels`] are the error probabilities of the ends:
//! - `and` holds only if every part holds. If it is false, some part is false, and the claim can only hold if that very part
//!   errs: no correction (an intersection–union test).
//! - `and` fails if any part fails. If it is true, each of k parts may err: each gets a k-th of the level (Bonferroni). This
//!   needs no assumption on how the parts depend on each other; parts that share a side do.
//! - `or` is the mirror image, and `not` swaps both ends.
//!
//! Each end of a claim's interval thus errs in at most 2.5 % of experiments, for every kind of claim.

use super::estimate::CONFIDENCE;
use super::student;

/// The verdict of the blocks on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// True beyond noise.
    Holds,
    /// False beyond noise.
    Fails,
    /// Within the noise.
    Undecided,
}

/// The probabilities with which the ends of an interval may lie on the wrong side of the truth, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Levels {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Levels {
    /// The levels of a 95 % interval on which a claim is judged `looks` times, after more blocks each time: every look
    /// gets its part, so that all looks together err as seldom as one.
    pub fn of_looks(looks: usize) -> Self {
        let level = (1.0 - CONFIDENCE) / 2.0 / looks.max(1) as f64;
        Levels { low: level, high: level }
    }

    /// The levels of each of `count` parts that must all be true.
    #[must_use]
    pub fn of_each(self, count: usize) -> Self {
        Levels { high: self.high / count.max(1) as f64, ..self }
    }

    /// The levels of each of `count` parts if at least one must be true.
    #[must_use]
    pub fn of_any(self, count: usize) -> Self {
        Levels { low: self.low / count.max(1) as f64, ..self }
    }

    /// The levels of the opposite.
    #[must_use]
    pub fn negated(self) -> Self {
        Levels { low: self.high, high: self.low }
    }
}

/// The distance of a claim from its bound: it is true above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// The mean over blocks.
    pub value: f64,
    /// Lower end of its interval; minus infinity where nothing bounds it.
    pub low: f64,
    /// Upper end of its interval; infinity where nothing bounds it.
    pub high: f64,
    /// How many further blocks would likely decide it: 0 if it is decided, `None` if more than [`BLOCKS_MORE_MAX`] or
    /// if blocks do not help.
    pub blocks_more: Option<u32>,
}

/// More further blocks than this are not promised: the spread is not known well enough to look so far ahead.
pub const BLOCKS_MORE_MAX: u32 = 1000;

/// The probability with which the number of further blocks is to suffice, if the mean and the spread are as they seem.
const POWER: f64 = 0.8;

impl Margin {
    /// From the distance in each block. `least` is the least half-width of the interval: the resolution of the figures,
    /// or the difference between two runs of the same setting. One block has no interval. Blocks that all show the same
    /// have a width of 0: such figures (limits, plans, counts) are known exactly.
    pub fn of_blocks(distances: &[f64], levels: Levels, least: f64) -> Self {
        let (margin, deviation) = Self::bounds(distances, levels, least);
        let blocks_more = match (margin.verdict(), deviation) {
            (Verdict::Holds | Verdict::Fails, _) => Some(0),
            (_, None) => Some(1),
            (_, Some(_)) if margin.value.abs() <= least => None,
            (_, Some(deviation)) => {
                let level = if margin.value > 0.0 { levels.low } else { levels.high };
                blocks_more(margin.value.abs(), deviation, distances.len() as f64, level)
            }
        };
        Margin { blocks_more, ..margin }
    }

    /// The same without advice on further blocks, and the standard deviation of the distances, if there are two.
    pub(super) fn bounds(distances: &[f64], levels: Levels, least: f64) -> (Self, Option<f64>) {
        let count = distances.len() as f64;
        let value = distances.iter().sum::<f64>() / count;
        if distances.len() < 2 {
            return (Margin { value, ..Margin::unknown() }, None);
        }
        let squares: f64 = distances.iter().map(|distance| (distance - value).powi(2)).sum();
        let deviation = (squares / (count - 1.0)).sqrt();
        let half = |level: f64| (quantile(level, count - 1.0) * deviation / count.sqrt()).max(least);
        let below = half(levels.low);
        let above = if levels.low == levels.high { below } else { half(levels.high) };
        (Margin { value, low: value - below, high: value + above, blocks_more: None }, Some(deviation))
    }

    /// From an interval that was found in another way.
    pub fn within(value: f64, low: f64, high: f64) -> Self {
        let margin = Margin { value, low, high, blocks_more: None };
        Margin { blocks_more: (margin.verdict() != Verdict::Undecided).then_some(0), ..margin }
    }

    /// The margin of a claim about which nothing is known.
    pub fn unknown() -> Self {
        Margin { value: 0.0, low: f64::NEG_INFINITY, high: f64::INFINITY, blocks_more: None }
    }

    /// The margin of a claim that is known without noise.
    pub fn certain(is_true: bool) -> Self {
        let end = if is_true { f64::INFINITY } else { f64::NEG_INFINITY };
        Margin { value: end, low: end, high: end, blocks_more: Some(0) }
    }

    /// Whether it has no noise: both ends agree.
    pub fn is_exact(&self) -> bool {
        self.low == self.high
    }

    /// The margin of the opposite.
    #[must_use]
    pub fn negated(self) -> Self {
        Margin { value: -self.value, low: -self.high, high: -self.low, ..self }
    }

    /// The margin of two claims that must both hold. Each must have been judged at [`Levels::of_each`] of all parts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let margin = Margin {
            value: self.value.min(other.value),
            low: self.low.min(other.low),
            high: self.high.min(other.high),
            blocks_more: Some(0),
        };
        let blocks_more = match (margin.verdict(), self.value > 0.0, other.value > 0.0) {
            (Verdict::Holds | Verdict::Fails, ..) => Some(0),
            // It seems to hold: the last part to be decided decides.
            (_, true, true) => self.blocks_more.zip(other.blocks_more).map(|(one, other)| one.max(other)),
            // It seems to fail: the first part that fails decides.
            (_, false, true) => self.blocks_more,
            (_, true, false) => other.blocks_more,
            (_, false, false) => [self.blocks_more, other.blocks_more].into_iter().flatten().min(),
        };
        Margin { blocks_more, ..margin }
    }

    /// The margin of two claims if at least one must hold. Each must have been judged at [`Levels::of_any`] of all
    /// parts.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.negated().and(other.negated()).negated()
    }

    /// The margin of the claim that it is 0. Noisy figures are never shown to be equal, only to differ. This margin
    /// must have been judged at [`Levels::of_equality`].
    #[must_use]
    pub fn equality(self) -> Self {
        let distance = if self.value > 0.0 { self.low } else { -self.high };
        let high = if distance > 0.0 { -distance } else { f64::INFINITY };
        Margin { value: -self.value.abs(), low: f64::NEG_INFINITY, high, ..self }
    }

    /// Its verdict.
    pub fn verdict(&self) -> Verdict {
        match self {
            _ if self.low > 0.0 => Verdict::Holds,
            _ if self.high < 0.0 => Verdict::Fails,
            _ => Verdict::Undecided,
        }
    }
}

impl Levels {
    /// The levels of a difference that, if it is not 0, makes an equality fail: it may err to both sides.
    #[must_use]
    pub fn of_equality(self) -> Self {
        Levels { low: self.high / 2.0, high: self.high / 2.0 }
    }
}

fn quantile(level: f64, degrees_of_freedom: f64) -> f64 {
    student::quantile(1.0 - level, degrees_of_freedom)
}

/// The least number of further blocks after which an interval of this level is expected to exclude 0 with [`POWER`].
fn blocks_more(distance: f64, deviation: f64, blocks: f64, level: f64) -> Option<u32> {
    let suffices = |more: u32| {
        let all = blocks + f64::from(more);
        (quantile(level, all - 1.0) + quantile(1.0 - POWER, all - 1.0)) * deviation / all.sqrt() <= distance
    };
    if !suffices(BLOCKS_MORE_MAX) {
        return None;
    }
    // More blocks always make the interval narrower, so the least number is found by halving.
    let (mut fails, mut found) = (0, BLOCKS_MORE_MAX);
    while found - fails > 1 {
        let middle = u32::midpoint(fails, found);
        if suffices(middle) { found = middle } else { fails = middle }
    }
    Some(found)
}

/// The numbers of blocks after which to check whether claims are decided, from `first` to at most `last`. Each is half
/// as large again as the one before, so that there are few looks, because each costs a part of the level.
pub fn looks(first: u32, last: u32) -> Vec<u32> {
    let first = first.max(2);
    let mut looks = vec![first];
    let mut next = first;
    while next < last {
        next = (next + next.div_ceil(2)).min(last);
        looks.push(next);
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(distances: &[f64], expect: Verdict, blocks_more: Option<u32>) {
        let margin = Margin::of_blocks(distances, Levels::of_looks(1), 0.0);
        assert_eq!((margin.verdict(), margin.blocks_more), (expect, blocks_more), "{distances:?}: {margin:?}");
    }

    #[test]
    fn the_bound_is_outside_or_inside() {
        check(&[0.30, 0.31, 0.29], Verdict::Holds, Some(0));
        check(&[-0.30, -0.31, -0.29], Verdict::Fails, Some(0));
        check(&[0.30, -0.28, 0.05], Verdict::Undecided, None);
        check(&[0.30, 0.10], Verdict::Undecided, Some(5));
        check(&[0.30], Verdict::Undecided, Some(1));
        check(&[0.1, -0.1], Verdict::Undecided, None);
        check(&[0.2, 0.2], Verdict::Holds, Some(0));
    }

    /// The interval of one comparison is that of the textbook: three blocks, mean 0.3, deviation 0.01.
    #[test]
    fn the_interval_is_students() {
        let margin = Margin::of_blocks(&[0.30, 0.31, 0.29], Levels::of_looks(1), 0.0);
        assert!((margin.value - 0.3).abs() < 1e-12);
        assert!((margin.high - 0.3 - 4.303 * 0.01 / 3.0_f64.sqrt()).abs() < 1e-5, "{margin:?}");
        let wide = Margin::of_blocks(&[0.30, 0.31, 0.29], Levels::of_looks(1), 0.4);
        assert_eq!((wide.verdict(), wide.blocks_more), (Verdict::Undecided, None));
        assert_eq!((wide.low, wide.high), (margin.value - 0.4, margin.value + 0.4));
    }

    #[test]
    fn parts_are_joined() {
        let holds = Margin::of_blocks(&[0.30, 0.31, 0.29], Levels::of_looks(1), 0.0);
        let unsure = Margin::of_blocks(&[0.30, 0.10], Levels::of_looks(1), 0.0);
        let fails = holds.negated();
        assert_eq!(holds.and(unsure).verdict(), Verdict::Undecided);
        assert_eq!(holds.and(unsure).blocks_more, Some(5));
        assert_eq!(fails.and(unsure).verdict(), Verdict::Fails);
        assert_eq!(holds.or(unsure).verdict(), Verdict::Holds);
        assert_eq!(fails.or(unsure).verdict(), Verdict::Undecided);
        assert_eq!(fails.or(fails).verdict(), Verdict::Fails);
        assert_eq!(Margin::certain(true).and(holds), holds);
        assert_eq!(Margin::unknown().or(holds).verdict(), Verdict::Holds);
    }

    #[test]
    fn equality_is_refuted_and_never_shown() {
        let of = |distances: &[f64]| Margin::of_blocks(distances, Levels::of_looks(1).of_equality(), 0.0).equality();
        assert_eq!(of(&[0.30, 0.31, 0.29]).verdict(), Verdict::Fails);
        assert_eq!(of(&[-0.30, -0.31, -0.29]).verdict(), Verdict::Fails);
        assert_eq!(of(&[0.01, -0.01, 0.0]).verdict(), Verdict::Undecided);
        assert_eq!(of(&[0.30, 0.31, 0.29]).negated().verdict(), Verdict::Holds);
    }

    #[test]
    fn levels_are_shared_out() {
        let all = Levels::of_looks(1);
        assert!((all.low - 0.025).abs() < 1e-12 && all.low == all.high);
        let of_each = all.of_each(10);
        assert!((of_each.low - 0.025).abs() < 1e-12 && (of_each.high - 0.0025).abs() < 1e-12);
        assert_eq!(all.negated().of_any(10).negated(), of_each);
    }

    #[test]
    fn looks_are_few() {
        assert_eq!(looks(5, 20), [5, 8, 12, 18, 20]);
        assert_eq!(looks(2, 4), [2, 3, 4]);
        assert_eq!(looks(1, 3), [2, 3]);
        assert_eq!(looks(5, 5), [5]);
    }
}
