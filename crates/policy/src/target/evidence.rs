//! The evidence of response times about a target: exceeded, comfortable, or neither.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Percentile, Times};

/// A target is comfortable if its percentile is below this share of the bound.
pub(super) const COMFORT: f64 = 0.8;

/// Spans of latest seconds that are examined, shortest first: a sudden change shows in a short one, a small excess or a
/// class with few transactions in a long one.
const SPANS: [usize; 7] = [1, 3, 10, 30, 100, 300, SECONDS_MAX];

/// Seconds that are kept.
const SECONDS_MAX: usize = 1200;

/// The shortest span that can be comfortable.
const COMFORT_SPAN: usize = 3;

/// Seconds whose percentile is shown to people.
const SHOWN: usize = 10;

/// Fewer transactions beyond the bound than these prove nothing.
const BEYOND_LEAST: u64 = 3;

/// The certainty of "exceeded": the probability that this many are beyond the bound although the target is just kept,
/// and the same in standard deviations. Windows are examined again each second, so it must be rare.
pub(super) const EXCEEDED: Chance = Chance { probability: 0.001, deviations: 3.09 };

/// The same while a step back is on trial: a wrong undo costs a rest.
pub(super) const EXCEEDED_ON_TRIAL: Chance = Chance { probability: 0.02, deviations: 2.054 };

/// The same where the target was exceeded before the last move.
pub(super) const EXCEEDED_STILL: Chance = Chance { probability: 0.1, deviations: 1.282 };

/// A target is kept with room for a step back if at most this share of the promised transactions is beyond the bound.
const KEPT: f64 = 0.9;

/// With more transactions expected beyond the bound than these, the normal distribution is near enough to the binomial one.
const EXACT_MAX: f64 = 25.0;

/// The certainty of "comfortable": 1 of 20 is wrong. A wrong one costs a step, which is undone.
const Z_COMFORTABLE: f64 = 1.645;

/// The evidence of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Evidence {
    /// Too few transactions to tell: their number, and the least number needed for "comfortable".
    TooFew { count: u64, needed: u64 },
    /// More transactions than promised are beyond the bound: `beyond` of `count`, in that many seconds.
    Exceeded { beyond: u64, count: u64, seconds: usize },
    /// About as many transactions as promised are beyond the bound: more or fewer.
    Near { is_over: bool },
    /// Clearly fewer transactions than promised are beyond the bound, which may be chance.
    Kept,
    /// Fewer transactions than promised are beyond 0.8 of the bound.
    Comfortable,
}

/// The seconds since the last move, and the latest seconds for people.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    seconds: VecDeque<Second>,
    latest: VecDeque<Times>,
}

/// A probability, and the standard deviations beyond which that share of a normal distribution lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chance {
    probability: f64,
    deviations: f64,
}

/// Transactions that ended within a second.
#[derive(Debug, Clone, Copy, Default)]
struct Second {
    ended: u64,
    beyond: u64,
    beyond_comfort: u64,
}

impl Window {
    /// Adds one second for people. It counts as evidence only if `bound` is known and the last move has taken effect.
    pub(super) fn add(&mut self, ended: &Times, bound: Option<Duration>) {
        if let Some(bound) = bound {
            let comfort = bound.mul_f64(COMFORT);
            let (beyond, beyond_comfort) = (ended.beyond(bound), ended.beyond(comfort));
            self.seconds.push_back(Second { ended: ended.count(), beyond, beyond_comfort });
        }
        self.latest.push_back(ended.clone());
        keep_last(&mut self.seconds, SECONDS_MAX);
        keep_last(&mut self.latest, SHOWN);
    }

    /// Discards the evidence after a move.
    pub(super) fn begin_anew(&mut self) {
        self.seconds.clear();
    }

    /// The evidence of the seconds since the last move. `late` transactions are still open and already beyond the
    /// bound. An excess that is as likely as `chance` does not count.
    pub(super) fn evidence(&self, percentile: Percentile, late: u64, chance: Chance) -> Evidence {
        let promised = percentile.share_beyond();
        let mut all = Second::default();
        for (place, second) in self.seconds.iter().rev().enumerate() {
            all.ended += second.ended;
            all.beyond += second.beyond;
            all.beyond_comfort += second.beyond_comfort;
            let span = place + 1;
            if !SPANS.contains(&span) && span != self.seconds.len() {
                continue;
            }
            let (beyond, count) = (all.beyond + late, all.ended + late);
            if beyond >= BEYOND_LEAST && is_more_than(promised, beyond, count, chance) {
                return Evidence::Exceeded { beyond, count, seconds: span };
            }
            let is_below = wilson(all.beyond_comfort, all.ended, Z_COMFORTABLE) < promised;
            // The shortest span that proves anything decides: conditions may have been different long ago.
            if span >= COMFORT_SPAN && late == 0 && is_below {
                return Evidence::Comfortable;
            }
        }
        // With none beyond, this many are comfortable: z^2 / (n + z^2) < promised.
        let needed = (Z_COMFORTABLE.powi(2) * (1.0 / promised - 1.0)).ceil() as u64;
        if all.ended < needed {
            return Evidence::TooFew { count: all.ended, needed };
        }
        let (beyond, promised) = ((all.beyond + late) as f64, promised * all.ended as f64);
        if beyond <= KEPT * promised { Evidence::Kept } else { Evidence::Near { is_over: beyond > promised } }
    }

    /// The percentile of the last 10 seconds and its number of transactions. `None` if a single transaction would
    /// decide it.
    pub(super) fn shown(&self, percentile: Percentile) -> (Option<Duration>, u64) {
        self.of_latest(percentile, SHOWN)
    }

    /// The percentile since the last move, of the last 3 to 10 seconds.
    pub(super) fn since_move(&self, percentile: Percentile) -> Option<Duration> {
        let seconds = self.seconds.len();
        if seconds < COMFORT_SPAN { None } else { self.of_latest(percentile, seconds).0 }
    }

    /// The percentile of that many of the last 10 seconds.
    pub(super) fn of_seconds(&self, percentile: Percentile, seconds: usize) -> Option<Duration> {
        self.of_latest(percentile, seconds).0
    }

    fn of_latest(&self, percentile: Percentile, seconds: usize) -> (Option<Duration>, u64) {
        let mut times = Times::default();
        self.latest.iter().rev().take(seconds).for_each(|second| times.merge(second));
        let count = times.count();
        let is_known = count as f64 * percentile.share_beyond() >= 1.0;
        (times.percentile(percentile.share()).filter(|_| is_known), count)
    }
}

fn keep_last<T>(queue: &mut VecDeque<T>, length: usize) {
    queue.drain(..queue.len().saturating_sub(length));
}

/// Whether `hits` of `count` are more than that share, except by that chance: exactly for few, by Wilson's interval for
/// many.
fn is_more_than(share: f64, hits: u64, count: u64, chance: Chance) -> bool {
    if count as f64 * share > EXACT_MAX {
        return wilson(hits, count, -chance.deviations) > share;
    }
    // The probability of fewer hits, term by term.
    let mut term = (1.0 - share).powf(count as f64);
    let mut fewer = 0.0;
    for hit in 0..hits {
        fewer += term;
        term *= count.saturating_sub(hit) as f64 / (hit + 1) as f64 * share / (1.0 - share);
    }
    1.0 - fewer < chance.probability
}

/// An end of Wilson's score interval (1927) for a share, from `hits` seen in `count`: the upper one, or the lower one for
/// `z` below 0, the deviations of the normal distribution that the interval covers. It is good also for few observations
/// and shares near 0, where the normal interval is not.
pub fn wilson(hits: u64, count: u64, z: f64) -> f64 {
    if count == 0 {
        return if z < 0.0 { 0.0 } else { 1.0 };
    }
    let count = count as f64;
    let share = hits as f64 / count;
    let spread = z * (share * (1.0 - share) / count + z * z / (4.0 * count * count)).sqrt();
    (share + z * z / (2.0 * count) + spread) / (1.0 + z * z / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    const BOUND: Duration = Duration::from_millis(20);

    fn p95() -> Percentile {
        "p95 < 20ms".parse::<Target>().expect("a target").percentile
    }

    /// Seconds with these numbers of short, uneasy (above 0.8 of the bound) and long transactions.
    fn window(seconds: &[(u64, u64, u64)]) -> Window {
        let mut window = Window::default();
        let ms = Duration::from_millis;
        for (short, uneasy, long) in seconds {
            let ended = [(ms(5), *short), (ms(18), *uneasy), (ms(50), *long)].into_iter().collect();
            window.add(&ended, Some(BOUND));
        }
        window
    }

    #[test]
    fn intervals_are_wilsons() {
        let near = |found: f64, expect: f64| assert!((found - expect).abs() < 1e-3, "{found} is not {expect}");
        near(wilson(5, 100, -1.96), 0.0215);
        near(wilson(5, 100, 1.96), 0.1118);
        near(wilson(0, 51, 1.645), 0.0504);
        assert_eq!((wilson(0, 0, -2.0), wilson(0, 0, 2.0)), (0.0, 1.0));
    }

    #[test]
    fn few_hits_are_compared_exactly() {
        // P(3 of 3) = 0.000125, P(3 or more of 4) = 0.00048, P(3 or more of 6) = 0.0022.
        let is_more = |hits, count| is_more_than(0.05, hits, count, EXCEEDED);
        assert!(is_more(3, 3) && is_more(3, 4) && !is_more(3, 6) && !is_more(0, 0) && is_more(500, 500));
        assert!(is_more_than(0.05, 3, 6, EXCEEDED_STILL) && !is_more_than(0.05, 3, 30, EXCEEDED_STILL));
        assert!(is_more(80, 1000) && !is_more(60, 1000));
    }

    fn evidence(seconds: &[(u64, u64, u64)], late: u64) -> Evidence {
        window(seconds).evidence(p95(), late, EXCEEDED)
    }

    #[test]
    fn few_transactions_prove_nothing_unless_all_are_late() {
        let few = |count| Evidence::TooFew { count, needed: 52 };
        assert_eq!(evidence(&[], 0), few(0));
        assert_eq!(evidence(&[(2, 0, 0); 10], 0), few(20));
        assert_eq!(evidence(&[(0, 0, 2)], 0), few(2), "two may be chance");
        assert_eq!(evidence(&[(1, 0, 1), (2, 0, 1), (2, 0, 1)], 0), few(8));
        assert_eq!(evidence(&[(0, 0, 3)], 0), Evidence::Exceeded { beyond: 3, count: 3, seconds: 1 });
        assert_eq!(evidence(&[(0, 0, 0)], 4), Evidence::Exceeded { beyond: 4, count: 4, seconds: 1 });
    }

    #[test]
    fn between_comfort_and_excess_it_is_kept_or_near() {
        assert_eq!(evidence(&[(100, 0, 2); 5], 0), Evidence::Comfortable);
        assert_eq!(evidence(&[(90, 10, 0); 5], 0), Evidence::Kept);
        assert_eq!(evidence(&[(93, 0, 7); 5], 0), Evidence::Near { is_over: true });
        assert_eq!(evidence(&[(905, 47, 48)], 0), Evidence::Near { is_over: false });
        assert_eq!(evidence(&[(80, 0, 20)], 0), Evidence::Exceeded { beyond: 20, count: 100, seconds: 1 });
        assert_eq!(evidence(&[(100, 0, 0); 2], 0), Evidence::Kept, "two seconds are no proof of comfort");
        assert_eq!(evidence(&[(100, 0, 0); 3], 2), Evidence::Kept, "two are late");
        let suspected = window(&[(93, 0, 7); 5]).evidence(p95(), 0, EXCEEDED_STILL);
        assert!(matches!(suspected, Evidence::Exceeded { .. }), "{suspected:?}");
    }

    #[test]
    fn a_change_shows_at_once_after_a_long_time_without_one() {
        let mut seconds = vec![(100, 0, 0); 600];
        seconds.push((50, 0, 50));
        assert_eq!(evidence(&seconds, 0), Evidence::Exceeded { beyond: 50, count: 100, seconds: 1 });
    }

    #[test]
    fn a_percentile_that_one_transaction_decides_is_not_shown() {
        assert_eq!(window(&[(10, 0, 1)]).shown(p95()), (None, 11));
        assert_eq!(window(&[(10, 0, 1); 2]).shown(p95()), (Some(Duration::from_millis(50)), 22));
        assert_eq!(window(&[(20, 0, 0); 40]).shown(p95()).1, 200);
    }
}
