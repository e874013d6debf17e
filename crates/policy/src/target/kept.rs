//! One target and its state.

use std::time::Duration;

use super::alone::Alone;
use super::controller::{ClassSeen, Promise};
use super::evidence::{EXCEEDED, EXCEEDED_ON_TRIAL, EXCEEDED_STILL, Evidence, Window};
use super::view::explained;
use super::{TargetLimit, TargetPhase, TargetView};

/// The time between a step back and the next while the target is comfortable.
const STEP_EVERY: Duration = Duration::from_secs(3);

/// The same while it is kept.
const STEP_EVERY_IF_KEPT: Duration = Duration::from_secs(10);

/// The same while it is only just kept: levers that do not help are given back even then.
const STEP_EVERY_IF_NEAR: Duration = Duration::from_secs(30);

/// Seconds without a transaction after which a class is idle.
const IDLE_SECONDS: u32 = 10;

/// An open transaction counts as late for this long: one that takes minutes by itself is not evidence for minutes.
const LATE_FOR: Duration = Duration::from_secs(10);

/// A promise and how well it is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) promise: Promise,
    pub(super) window: Window,
    alone: Alone,
    pub(super) evidence: Evidence,
    idle_seconds: u32,
    phase: TargetPhase,
    since: Duration,
    pub(super) stuck_since: Option<Duration>,
    /// Levers made no difference; they are not moved for this target until then.
    pub(super) gave_up_until: Option<Duration>,
    pub(super) best: Option<Duration>,
    pub(super) before: Option<Duration>,
}

impl Kept {
    pub(super) fn new(promise: Promise) -> Self {
        Kept {
            promise,
            window: Window::default(),
            alone: Alone::default(),
            evidence: Evidence::TooFew { count: 0, needed: 0 },
            idle_seconds: 0,
            phase: TargetPhase::TooFew,
            since: Duration::ZERO,
            stuck_since: None,
            gave_up_until: None,
            best: None,
            before: None,
        }
    }

    /// The bound of its percentile, if it is known yet.
    pub(super) fn bound(&self) -> Option<Duration> {
        match self.promise.target.limit {
            TargetLimit::Length(length) => Some(length),
            TargetLimit::HundredthsOfAlone(factor) => Some(self.alone.learned()? * factor / 100),
        }
    }

    /// Processes one second. `is_quiet`: no class below was at work. `is_limited`: levers below are not open.
    /// `has_settled`: the last move has taken effect. `is_on_trial`: that move was a step back that is not proved yet.
    pub(super) fn note(
        &mut self,
        seen: &ClassSeen,
        is_quiet: bool,
        is_limited: bool,
        has_settled: bool,
        is_on_trial: bool,
    ) {
        let percentile = self.promise.target.percentile;
        if matches!(self.promise.target.limit, TargetLimit::HundredthsOfAlone(_))
            && self.alone.note(&seen.ended, is_quiet, percentile)
        {
            self.window.begin_anew();
        }
        self.idle_seconds = if seen.is_at_work() { 0 } else { self.idle_seconds.saturating_add(1) };
        let bound = self.bound();
        self.window.add(&seen.ended, bound.filter(|_| has_settled));
        let late = |bound| seen.open.beyond(bound) - seen.open.beyond(bound + LATE_FOR);
        let late = bound.filter(|_| has_settled).map_or(0, late);
        let chance = match self.phase {
            TargetPhase::Limiting => EXCEEDED_STILL,
            _ if is_on_trial => EXCEEDED_ON_TRIAL,
            _ => EXCEEDED,
        };
        self.evidence = self.window.evidence(percentile, late, chance);
        if is_limited {
            let now = self.window.since_move(percentile);
            self.best = [self.best, now].into_iter().flatten().min();
        }
    }

    /// Its percentile since the last move.
    pub(super) fn percentile(&self) -> Option<Duration> {
        self.window.since_move(self.promise.target.percentile)
    }

    /// Whether its class has not been at work for a while.
    pub(super) fn is_idle(&self) -> bool {
        self.idle_seconds >= IDLE_SECONDS
    }

    /// Whether levers below may be given back a step as far as this target is concerned.
    pub(super) fn has_room(&self) -> bool {
        let is_unbound = self.bound().is_none();
        is_unbound
            || self.is_idle()
            || self.gave_up_until.is_some()
            || matches!(self.evidence, Evidence::Comfortable | Evidence::Kept | Evidence::Near { is_over: false })
    }

    /// How long levers below stay as they are before they are given back a step.
    pub(super) fn patience(&self) -> Duration {
        match self.evidence {
            Evidence::Kept if !self.is_idle() => STEP_EVERY_IF_KEPT,
            Evidence::Near { .. } if !self.is_idle() => STEP_EVERY_IF_NEAR,
            _ => STEP_EVERY,
        }
    }

    /// How near its percentile is to its bound, in thousandths of that.
    pub(super) fn nearness(&self) -> u64 {
        let share = |(now, bound): (Duration, Duration)| now.as_secs_f64() / bound.as_secs_f64();
        self.percentile().zip(self.bound()).map_or(0, |both| (share(both) * 1000.0) as u64)
    }

    /// The phase where the target is not exceeded; `None` to stay in the present one.
    pub(super) fn calm_phase(&self) -> Option<TargetPhase> {
        if self.bound().is_none() {
            return Some(TargetPhase::Learning);
        }
        if self.is_idle() {
            return Some(TargetPhase::Idle);
        }
        match self.evidence {
            Evidence::Comfortable | Evidence::Kept => Some(TargetPhase::Held),
            Evidence::Near { .. }
                if matches!(self.phase, TargetPhase::Idle | TargetPhase::TooFew | TargetPhase::Learning) =>
            {
                Some(TargetPhase::Held)
            }
            // Right after a move there are few transactions for a moment.
            Evidence::TooFew { .. } if self.phase == TargetPhase::Idle => Some(TargetPhase::TooFew),
            Evidence::Near { .. } | Evidence::TooFew { .. } | Evidence::Exceeded { .. } => None,
        }
    }

    /// Enters that phase.
    pub(super) fn enter(&mut self, phase: TargetPhase, now: Duration) {
        if self.phase != phase {
            (self.phase, self.since) = (phase, now);
        }
    }

    /// Its state, for people.
    pub(super) fn view(&self) -> TargetView {
        let Promise { class, target, .. } = self.promise;
        let (now, count) = self.window.shown(target.percentile);
        let few = match self.evidence {
            Evidence::TooFew { count, needed } => (count, needed),
            _ => (count, 0),
        };
        TargetView {
            class,
            target,
            bound: self.bound(),
            alone: self.alone.learned(),
            now,
            count,
            phase: self.phase,
            since: self.since,
            best: self.best,
            before: self.before,
            why: explained(self.phase, self.best, few, self.gave_up_until.is_some()),
        }
    }
}
