//! Levers: amounts that limit a lower class, each between the operator's limit and a floor.

use std::fmt;
use std::time::Duration;

use crate::{ClassIndex, Priority};

/// A means of limiting a class. Its amount is a whole number; a larger one lets the class do more.
///
/// Levers are given back in this order: first those that keep work out, last the one that only lowers its rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeverKind {
    /// How many of its transactions run at once.
    Mpl,
    /// How fast it may use the disk, bytes per second.
    DiskBandwidth,
    /// How many parallel workers each of its queries may have.
    Workers,
    /// Its share of the cores: how far its nice value is below 19.
    CpuShare,
}

/// The nice value with the smallest share.
const NICE_MOST: i64 = 19;

impl LeverKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            LeverKind::Mpl => "mpl",
            LeverKind::DiskBandwidth => "disk bandwidth",
            LeverKind::Workers => "parallel workers",
            LeverKind::CpuShare => "cpu",
        }
    }

    /// The share of the cores for a nice value; nice 19 is 0.
    pub fn share_of_nice(nice: i32) -> u64 {
        u64::try_from(NICE_MOST - i64::from(nice)).unwrap_or(0)
    }

    /// The nice value of a share of the cores.
    pub fn nice_of_share(share: u64) -> i32 {
        (NICE_MOST - share.min(39) as i64) as i32
    }

    /// An amount for people; `None` is no limit.
    pub fn written(self, amount: Option<u64>) -> String {
        match (self, amount) {
            (_, None) => "any".to_owned(),
            (LeverKind::CpuShare, Some(share)) => format!("nice {}", LeverKind::nice_of_share(share)),
            (LeverKind::DiskBandwidth, Some(rate)) => format!("{:.1} MB/s", rate as f64 / 1e6),
            (LeverKind::Mpl | LeverKind::Workers, Some(count)) => count.to_string(),
        }
    }
}

impl fmt::Display for LeverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A lever of the host, and the bounds within which it may be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeverBounds {
    /// The class that it limits.
    pub class: ClassIndex,
    /// The class's priority.
    pub priority: Priority,
    /// Its kind.
    pub kind: LeverKind,
    /// The operator's limit, never exceeded; `None` for no limit.
    pub open: Option<u64>,
    /// The least that the class keeps.
    pub floor: u64,
}

/// The first rest of a lever after a step back that had to be undone. It doubles each time.
const REST_FIRST: Duration = Duration::from_secs(30);

/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(480);

/// The rest ends early if the target's percentile is below this share of its value at the same amount before a step
/// failed, because the load has changed.
const EASIER: f64 = 0.7;

/// Seconds for which the largest use is remembered, so that an idle moment does not count.
const USES: usize = 5;

/// A lever and its position.
#[derive(Debug, Clone)]
pub(super) struct Lever {
    pub(super) bounds: LeverBounds,
    /// `None` for the operator's setting.
    pub(super) position: Option<u64>,
    /// The use in the latest seconds; empty if the host does not know it.
    uses: Vec<u64>,
    /// How many quarters the next step gives back. It doubles as long as steps succeed.
    step: u64,
    /// The last step back that failed.
    knee: Option<Knee>,
}

/// A step back that was too much.
#[derive(Debug, Clone, Copy)]
struct Knee {
    /// The amount that was restored.
    amount: u64,
    /// The target's percentile at that amount.
    percentile: Option<Duration>,
    rests_until: Duration,
    rest: Duration,
}

impl Lever {
    pub(super) fn new(bounds: LeverBounds) -> Self {
        Lever { bounds, position: None, uses: Vec::new(), step: 1, knee: None }
    }

    /// Changes the bounds; the position stays as far as they allow.
    pub(super) fn bound(&mut self, bounds: LeverBounds) {
        self.bounds = bounds;
        let position = self.position.map(|position| position.max(bounds.floor));
        self.position = position.filter(|position| bounds.open.is_none_or(|open| *position < open));
    }

    /// How much the class may have now; `None` for no limit.
    pub(super) fn amount(&self) -> Option<u64> {
        self.position.or(self.bounds.open)
    }

    /// Notes the use; does nothing if it is not known.
    pub(super) fn note_use(&mut self, used: Option<u64>) {
        if let Some(used) = used {
            self.uses.push(used);
            self.uses.drain(..self.uses.len().saturating_sub(USES));
        }
    }

    /// The largest use in the latest seconds.
    fn used(&self) -> Option<u64> {
        self.uses.iter().copied().max()
    }

    /// Its position after a move down to that many quarters; `None` if it is at its floor, or not in use.
    pub(super) fn tightened(&self, quarters: u64) -> Option<u64> {
        let used = self.used();
        if used == Some(0) {
            return None;
        }
        // Cutting an unused amount costs nothing, so the first move starts from the use.
        let from = [self.amount(), used].into_iter().flatten().min()?;
        let to = (from.saturating_mul(quarters) / 4).max(self.bounds.floor);
        self.amount().is_none_or(|amount| to < amount).then_some(to)
    }

    /// Its position after a step back: nothing if it is open, or rests. The inner `None` is open. `percentile` is that
    /// of the target, and `is_idle` whether its class is idle.
    pub(super) fn loosened(&self, now: Duration, percentile: Option<Duration>, is_idle: bool) -> Option<Option<u64>> {
        let from = self.position?;
        let rests = |knee: &Knee| now < knee.rests_until && !is_idle && !knee.is_easier(percentile);
        if self.knee.as_ref().is_some_and(rests) {
            return None;
        }
        let to = from.saturating_add((from / 4).max(1).saturating_mul(self.step));
        let is_open = match self.bounds.open {
            Some(open) => to >= open,
            // Twice the use has no effect.
            None => self.used().is_some_and(|used| to >= 2 * used.max(2)),
        };
        Some((!is_open).then_some(to))
    }

    /// Records a move down.
    pub(super) fn tighten(&mut self, to: u64) {
        (self.position, self.step) = (Some(to), 1);
    }

    /// Records a move up, after the last step has proved good.
    pub(super) fn loosen(&mut self, to: Option<u64>) {
        // The step after the rest has proved good.
        self.knee = self.knee.filter(|knee| self.position.is_some_and(|position| position <= knee.amount));
        self.position = to;
        self.step = self.step.saturating_mul(2);
    }

    /// Undoes the last step, which was too much, and rests for a while. Bounds may have changed since.
    pub(super) fn undo(&mut self, amount: u64, percentile: Option<Duration>, now: Duration) {
        let within = self.bounds.open.map_or(amount, |open| amount.min(open)).max(self.bounds.floor);
        let rest = self.knee.map_or(REST_FIRST, |knee| (knee.rest * 2).min(REST_MAX));
        self.knee = Some(Knee { amount, percentile, rests_until: now + rest, rest });
        (self.position, self.step) = (Some(within), 1);
    }

    /// Returns to the operator's setting.
    pub(super) fn open(&mut self) {
        (self.position, self.step, self.knee) = (None, 1, None);
    }
}

impl Knee {
    /// Whether the load is lighter than when the step failed, as far as that is known.
    fn is_easier(&self, percentile: Option<Duration>) -> bool {
        percentile.zip(self.percentile).is_some_and(|(now, then)| now < then.mul_f64(EASIER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn mpl(open: Option<u64>) -> Lever {
        let (class, priority) = (ClassIndex(1), Priority::LOW);
        Lever::new(LeverBounds { class, priority, kind: LeverKind::Mpl, open, floor: 1 })
    }

    fn down(lever: &mut Lever) -> Vec<u64> {
        std::iter::from_fn(|| lever.tightened(2).inspect(|to| lever.tighten(*to))).collect()
    }

    #[test]
    fn down_is_by_halves_of_what_is_used_and_ends_at_the_floor() {
        let mut lever = mpl(None);
        assert_eq!(lever.tightened(2), None, "without a limit and without a use there is nothing to halve");
        lever.note_use(Some(12));
        assert_eq!(down(&mut lever), [6, 3, 1]);
        let mut lever = mpl(Some(100));
        lever.note_use(Some(12));
        assert_eq!((lever.tightened(1), lever.tightened(2), lever.tightened(3)), (Some(3), Some(6), Some(9)));
        (0..USES).for_each(|_| lever.note_use(Some(0)));
        assert_eq!(lever.tightened(2), None, "nobody is there");
    }

    #[test]
    fn up_is_by_steps_that_grow_and_never_beyond_the_operators_bound() {
        let mut lever = mpl(Some(16));
        lever.tighten(1);
        let up: Vec<_> =
            std::iter::from_fn(|| lever.loosened(S, None, false).inspect(|to| lever.loosen(*to))).collect();
        assert_eq!(up, [Some(2), Some(4), Some(8), None]);
        assert_eq!((lever.position, lever.amount()), (None, Some(16)));
    }

    #[test]
    fn a_step_that_failed_is_tried_again_after_a_rest_or_under_lighter_load() {
        let mut lever = mpl(Some(16));
        lever.tighten(4);
        lever.loosen(Some(5));
        let below = Some(Duration::from_millis(15));
        lever.undo(4, below, S);
        assert_eq!(lever.position, Some(4));
        assert_eq!(lever.loosened(2 * S, below, false), None, "it rests");
        assert_eq!(lever.loosened(2 * S, Some(Duration::from_millis(9)), false), Some(Some(5)), "the load is lighter");
        assert_eq!(lever.loosened(2 * S, None, false), None, "too few transactions to know");
        assert_eq!(lever.loosened(2 * S, None, true), Some(Some(5)), "nobody is there");
        assert_eq!(lever.loosened(31 * S, below, false), Some(Some(5)), "it has rested");
        lever.loosen(Some(5));
        lever.undo(4, below, 31 * S);
        assert_eq!(lever.loosened(90 * S, below, false), None, "the rest has doubled");
        lever.loosen(Some(5));
        assert_eq!(lever.loosened(100 * S, below, false), Some(Some(7)), "the step was good");
    }

    #[test]
    fn other_bounds_keep_the_position_within_them() {
        let mut lever = mpl(Some(16));
        lever.tighten(4);
        lever.bound(LeverBounds { open: Some(3), ..lever.bounds });
        assert_eq!((lever.position, lever.amount()), (None, Some(3)));
        lever.tighten(1);
        lever.bound(LeverBounds { open: Some(8), floor: 2, ..lever.bounds });
        assert_eq!(lever.position, Some(2));
    }

    #[test]
    fn shares_are_nice_values_the_other_way_round() {
        for nice in -20..=19 {
            assert_eq!(LeverKind::nice_of_share(LeverKind::share_of_nice(nice)), nice);
        }
        assert_eq!(LeverKind::CpuShare.written(Some(9)), "nice 10");
        assert_eq!(LeverKind::Mpl.written(None), "any");
        assert_eq!(LeverKind::DiskBandwidth.written(Some(12_500_000)), "12.5 MB/s");
    }
}
