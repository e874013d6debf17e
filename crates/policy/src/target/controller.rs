//! The controller: state and observations in, moves out.

use std::time::Duration;

use super::evidence::Evidence;
use super::kept::Kept;
use super::lever::Lever;
use super::{LeverBounds, LeverKind, Move, Target, TargetPhase, TargetView, Times, Why};
use crate::{ClassIndex, Priority};

/// A step back is on trial for this long: if a target is not kept then, it is undone.
const TRIAL: Duration = Duration::from_secs(10);

/// The least time left for a move to take effect; longer if the bound is longer. It is nearly a second, so that the
/// second after a move is skipped even where steps come a little early.
const SETTLE_LEAST: Duration = Duration::from_millis(900);

/// The most time left for a move to take effect.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// How long a target is exceeded with every lever at its floor until the controller reports that it cannot hold it.
const STUCK: Duration = Duration::from_secs(10);

/// When it tries again after levers made no difference.
const TRY_AGAIN: Duration = Duration::from_secs(300);

/// Levers made no worthwhile difference if the best percentile is above this share of the one before.
const NO_DIFFERENCE: f64 = 0.75;

/// Quarters of each lever that are left, by how many times as many transactions as promised are beyond the bound.
const CUTS: [(f64, u64); 3] = [(8.0, 1), (2.0, 2), (0.0, SMALLEST_CUT)];

/// Quarters that are left after the smallest cut.
const SMALLEST_CUT: u64 = 3;

/// A class and its promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// The class.
    pub class: ClassIndex,
    /// Its priority: levers of classes below may be moved for it.
    pub priority: Priority,
    /// The promise.
    pub target: Target,
}

/// Observations of a class since the last step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassSeen {
    /// Response times of transactions that ended.
    pub ended: Times,
    /// Ages of transactions that are open and do not wait for their client.
    pub open: Times,
    /// The use of each lever; a lever is missing if its use is not known.
    pub uses: Vec<(LeverKind, u64)>,
}

impl ClassSeen {
    pub(super) fn is_at_work(&self) -> bool {
        self.ended.count() + self.open.count() > 0
    }
}

/// Bounds that exclude every amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: the floor {} is above the limit {}",
    .0.kind,
    .0.kind.written(Some(.0.floor)),
    .0.kind.written(.0.open)
)]
pub struct Contradiction(pub LeverBounds);

/// Keeps the targets of all classes. The module documentation has the rules.
#[derive(Debug, Clone, Default)]
pub struct TargetController {
    /// Highest priority first.
    targets: Vec<Kept>,
    levers: Vec<Lever>,
    /// Observations before this time are not evidence, because the last move is still taking effect.
    settles_until: Duration,
    last_step: Duration,
    last_move: Duration,
    trial: Option<Trial>,
}

/// The last step back, which may prove to be too much.
#[derive(Debug, Clone)]
struct Trial {
    at: Duration,
    /// The percentile of the target that is nearest to its bound, before the step.
    percentile: Option<Duration>,
    /// Places of levers, and the amounts at which they stood.
    levers: Vec<(usize, u64)>,
}

impl TargetController {
    /// Sets the promises and levers that hold from now on. Those that stay the same keep their state. Levers of classes
    /// that are not below a promise are left alone.
    pub fn plan(&mut self, promises: &[Promise], levers: &[LeverBounds]) -> Result<(), Contradiction> {
        if let Some(wrong) = levers.iter().find(|lever| lever.open.is_some_and(|open| open < lever.floor)) {
            return Err(Contradiction(*wrong));
        }
        let mut known = std::mem::take(&mut self.targets);
        self.targets = promises
            .iter()
            .map(|promise| match known.iter().position(|kept| kept.promise == *promise) {
                Some(place) => known.swap_remove(place),
                None => Kept::new(*promise),
            })
            .collect();
        self.targets.sort_by_key(|kept| (std::cmp::Reverse(kept.promise.priority), kept.promise.class));
        let is_governed = |lever: &&LeverBounds| promises.iter().any(|promise| promise.priority > lever.priority);
        let mut wanted: Vec<LeverBounds> = levers.iter().filter(is_governed).copied().collect();
        wanted.sort_by_key(|lever| (lever.priority, lever.kind, lever.class));
        let is_same = |lever: &Lever, bounds: &LeverBounds| {
            (lever.bounds.class, lever.bounds.kind) == (bounds.class, bounds.kind)
        };
        let stays = self.levers.len() == wanted.len()
            && self.levers.iter().zip(&wanted).all(|(lever, bounds)| is_same(lever, bounds));
        if stays {
            self.levers.iter_mut().zip(wanted).for_each(|(lever, bounds)| lever.bound(bounds));
            return Ok(());
        }
        // A trial names levers by their places.
        self.trial = None;
        let mut known = std::mem::take(&mut self.levers);
        self.levers = wanted
            .into_iter()
            .map(|bounds| match known.iter().position(|lever| is_same(lever, &bounds)) {
                Some(place) => {
                    let mut lever = known.swap_remove(place);
                    lever.bound(bounds);
                    lever
                }
                None => Lever::new(bounds),
            })
            .collect();
        Ok(())
    }

    /// The amount of a lever that a class may have; `None` if the controller leaves it at the operator's setting.
    pub fn position(&self, class: ClassIndex, kind: LeverKind) -> Option<u64> {
        let lever = self.levers.iter().find(|lever| lever.bounds.class == class && lever.bounds.kind == kind);
        lever.and_then(|lever| lever.position)
    }

    /// The levers, and how much the class may have of each now.
    pub fn levers(&self) -> impl Iterator<Item = (LeverBounds, Option<u64>)> {
        self.levers.iter().map(|lever| (lever.bounds, lever.amount()))
    }

    /// One step, about once per second: takes the observations of each class, by [`ClassIndex`], and returns the moves.
    /// The controller regards them as made.
    pub fn step(&mut self, now: Duration, seen: &[ClassSeen]) -> Vec<Move> {
        self.note(now, seen);
        let moves = self.decide(now);
        if !moves.is_empty() {
            self.settle(now);
        }
        moves
    }

    /// The state of each target, highest priority first.
    pub fn views(&self) -> Vec<TargetView> {
        self.targets.iter().map(Kept::view).collect()
    }

    fn note(&mut self, now: Duration, seen: &[ClassSeen]) {
        let none = ClassSeen::default();
        let of = |class: ClassIndex| seen.get(usize::from(class.0)).unwrap_or(&none);
        for lever in &mut self.levers {
            let uses = &of(lever.bounds.class).uses;
            lever.note_use(uses.iter().find(|(kind, _)| *kind == lever.bounds.kind).map(|(_, used)| *used));
        }
        let has_settled = std::mem::replace(&mut self.last_step, now) >= self.settles_until;
        let levers = &self.levers;
        let is_quiet = |priority: Priority| {
            levers
                .iter()
                .filter(|lever| lever.bounds.priority < priority)
                .all(|lever| !of(lever.bounds.class).is_at_work())
        };
        let is_limited = |priority: Priority| {
            levers.iter().any(|lever| lever.bounds.priority < priority && lever.position.is_some())
        };
        let is_on_trial = self.trial.is_some();
        for kept in &mut self.targets {
            let Promise { class, priority, .. } = kept.promise;
            kept.note(of(class), is_quiet(priority), is_limited(priority), has_settled, is_on_trial);
        }
    }

    fn decide(&mut self, now: Duration) -> Vec<Move> {
        let is_proved = self.trial_age(now).is_some_and(|age| age >= TRIAL) && self.targets.iter().all(Kept::has_room);
        if is_proved {
            self.trial = None;
        }
        for place in 0..self.targets.len() {
            let moves = self.attend(place, now);
            if !moves.is_empty() {
                return moves;
            }
        }
        self.loosen(now)
    }

    /// Handles one target: returns its moves and sets its phase.
    fn attend(&mut self, place: usize, now: Duration) -> Vec<Move> {
        let kept = &mut self.targets[place];
        // Once it was kept, a new excess has a new cause.
        let is_kept = matches!(kept.evidence, Evidence::Comfortable | Evidence::Kept);
        kept.gave_up_until = kept.gave_up_until.filter(|until| now < *until && !is_kept);
        let Evidence::Exceeded { beyond, count, seconds } = kept.evidence else {
            kept.stuck_since = None;
            if let Some(phase) = kept.calm_phase() {
                kept.enter(phase, now);
            }
            let has_failed = kept.evidence == (Evidence::Near { is_over: true })
                && self.trial_age(now).is_some_and(|age| age >= TRIAL);
            return if has_failed { self.undo(place, now).unwrap_or_default() } else { Vec::new() };
        };
        if kept.gave_up_until.is_some() {
            return Vec::new();
        }
        let promised = kept.promise.target.percentile.share_beyond();
        let excess = beyond as f64 / (promised * count as f64);
        let is_severe = excess >= CUTS[0].0;
        if !is_severe && let Some(moves) = self.undo(place, now) {
            return moves;
        }
        let quarters = CUTS.iter().find(|(times, _)| excess >= *times).map_or(SMALLEST_CUT, |(_, quarters)| *quarters);
        let moves = self.tighten(place, quarters, seconds, Why::Exceeded { beyond, count });
        let kept = &mut self.targets[place];
        if !moves.is_empty() {
            kept.stuck_since = None;
            kept.enter(TargetPhase::Limiting, now);
            return moves;
        }
        let since = *kept.stuck_since.get_or_insert(now);
        if now < since + STUCK {
            return Vec::new();
        }
        kept.enter(TargetPhase::CannotHold, now);
        self.give_up(place, now)
    }

    /// The age of the step back that is on trial.
    fn trial_age(&self, now: Duration) -> Option<Duration> {
        self.trial.as_ref().map(|trial| now.saturating_sub(trial.at))
    }

    /// Undoes the last step back, if that is on trial.
    fn undo(&mut self, place: usize, now: Duration) -> Option<Vec<Move>> {
        let Promise { class: target, priority, .. } = self.targets[place].promise;
        let all = &self.levers;
        let is_below = |trial: &mut Trial| trial.levers.iter().all(|(place, _)| all[*place].bounds.priority < priority);
        let Trial { percentile, levers, .. } = self.trial.take_if(is_below)?;
        let undone = levers.into_iter().map(|(place, amount)| {
            let lever = &mut self.levers[place];
            let from = lever.amount();
            lever.undo(amount, percentile, now);
            moved(lever, from, target, Why::Undone)
        });
        Some(undone.collect())
    }

    /// Cuts the levers of the lowest classes that can still be cut.
    fn tighten(&mut self, place: usize, quarters: u64, seconds: usize, why: Why) -> Vec<Move> {
        let Promise { class: target, priority, .. } = self.targets[place].promise;
        let below = self.levers.iter().filter(|lever| lever.bounds.priority < priority);
        let movable = below.filter(|lever| lever.tightened(quarters).is_some());
        let Some(lowest) = movable.map(|lever| lever.bounds.priority).min() else { return Vec::new() };
        if self.levers.iter().all(|lever| lever.bounds.priority >= priority || lever.position.is_none()) {
            let kept = &mut self.targets[place];
            (kept.before, kept.best) = (kept.window.of_seconds(kept.promise.target.percentile, seconds), None);
        }
        self.trial = None;
        // A small excess cuts levers that are limited already: open ones were tried, and made no difference.
        let is_small = quarters == SMALLEST_CUT;
        let gives = |lever: &Lever| lever.bounds.priority == lowest && lever.tightened(quarters).is_some();
        let is_limited = |lever: &Lever| gives(lever) && lever.position.is_some();
        let only_limited = is_small && self.levers.iter().any(is_limited);
        let levers = self.levers.iter_mut().filter(|lever| if only_limited { is_limited(lever) } else { gives(lever) });
        levers
            .filter_map(|lever| {
                let (from, to) = (lever.amount(), lever.tightened(quarters)?);
                lever.tighten(to);
                Some(moved(lever, from, target, why))
            })
            .collect()
    }

    /// Every lever is at its floor. If that made no difference, all are given back for a while.
    fn give_up(&mut self, place: usize, now: Duration) -> Vec<Move> {
        let may = |lever: &Lever, priority: Priority| lever.bounds.priority < priority && lever.position.is_some();
        let kept = &mut self.targets[place];
        let Promise { class: target, priority, .. } = kept.promise;
        if !self.levers.iter().any(|lever| may(lever, priority)) {
            return Vec::new();
        }
        let helped = match (kept.before, kept.best) {
            (Some(before), Some(best)) => best < before.mul_f64(NO_DIFFERENCE),
            // Missing figures are no reason to break a promise.
            _ => true,
        };
        if helped {
            return Vec::new();
        }
        kept.gave_up_until = Some(now + TRY_AGAIN);
        kept.stuck_since = None;
        let wanted_by_others = |lever: &Lever, targets: &[Kept]| {
            let above = targets.iter().enumerate().filter(|(other, _)| *other != place);
            above.into_iter().any(|(_, kept)| kept.promise.priority > lever.bounds.priority && !kept.has_room())
        };
        let targets = &self.targets;
        let levers = self.levers.iter_mut().filter(|lever| may(lever, priority) && !wanted_by_others(lever, targets));
        levers
            .map(|lever| {
                let from = lever.amount();
                lever.open();
                moved(lever, from, target, Why::NoHelp)
            })
            .collect()
    }

    /// Gives the most expensive lever of the highest limited class back a step, if every target above has room for it.
    fn loosen(&mut self, now: Duration) -> Vec<Move> {
        let mut order: Vec<(std::cmp::Reverse<Priority>, LeverKind)> =
            self.levers.iter().map(|lever| (std::cmp::Reverse(lever.bounds.priority), lever.bounds.kind)).collect();
        order.sort_unstable();
        order.dedup();
        for (std::cmp::Reverse(priority), kind) in order {
            let above = self.targets.iter().filter(|kept| kept.promise.priority > priority);
            // The target that is nearest to its bound decides.
            let Some(nearest) = above.clone().max_by_key(|kept| kept.nearness()) else { continue };
            let since_move = now.saturating_sub(self.last_move);
            if !above.into_iter().all(|kept| kept.has_room() && since_move >= kept.patience()) {
                continue;
            }
            let (target, percentile) = (nearest.promise.class, nearest.percentile());
            let is_idle = nearest.is_idle();
            let why = if is_idle { Why::Idle } else { Why::Comfortable };
            let group = self.levers.iter_mut().enumerate();
            let group = group.filter(|(_, lever)| lever.bounds.priority == priority && lever.bounds.kind == kind);
            let (mut moves, mut trial) = (Vec::new(), Vec::new());
            for (place, lever) in group {
                let (Some(stood), Some(to)) = (lever.position, lever.loosened(now, percentile, is_idle)) else {
                    continue;
                };
                let from = lever.amount();
                lever.loosen(to);
                trial.push((place, stood));
                moves.push(moved(lever, from, target, why));
            }
            if !moves.is_empty() {
                self.trial = Some(Trial { at: now, percentile, levers: trial });
                return moves;
            }
        }
        Vec::new()
    }

    fn settle(&mut self, now: Duration) {
        let bounds = self.targets.iter().filter_map(Kept::bound);
        let longest = bounds.max().unwrap_or_default();
        self.last_move = now;
        self.settles_until = now + longest.clamp(SETTLE_LEAST, SETTLE_MAX);
        self.targets.iter_mut().for_each(|kept| kept.window.begin_anew());
    }
}

fn moved(lever: &Lever, from: Option<u64>, target: ClassIndex, why: Why) -> Move {
    Move { class: lever.bounds.class, kind: lever.bounds.kind, from, to: lever.amount(), target, why }
}
