//! Cycles of waiters, broken before the server looks for deadlocks.
//!
//! Sessions ring for important units only. A cycle among equals rings nobody, so it is seen now and then whether two units have been
//! in flight for a while, of which one may be rolled back. If so, a look begins with all of them. A cycle is broken when a second look
//! has shown the same links between the same statements, and the statement that cancels has found them once more.

use std::time::{Duration, Instant};

use plimsoll_policy::Cycle;

use super::graph::Scene;
use crate::governor::Governor;
use crate::registry::Phase;
use crate::settings::{ClassSettings, Settings};

/// How long a unit must have been in flight: a wait for a lock that ends by itself mostly ends before. Also the shortest time between two
/// such looks.
const SUSPECT_AFTER: Duration = Duration::from_millis(10);

/// A look for cycles is followed by at least this many times as long as it took without one, so that they take a fiftieth of
/// the time at most.
const REST_FACTOR: u32 = 50;

/// The longest pause while looks show no cycle. A unit that has been in flight for long may begin to wait at any time.
const PAUSE_MAX: Duration = Duration::from_millis(160);

/// When it is looked for cycles.
#[derive(Debug)]
pub(super) struct Cycles {
    /// When it is seen next whether anybody is suspect.
    next: Instant,
    /// Until then the server has no look, whoever is suspect.
    rest_until: Instant,
    /// When a look is due even if nobody else has become suspect, and how long after the last one.
    look_at: Instant,
    pause: Duration,
    /// The units that were suspect at the last look, in order.
    suspects: Vec<(i32, u64)>,
    /// The last look has shown a cycle that another look has to confirm.
    is_pending: bool,
}

/// Whether cycles are broken at all.
pub(super) fn are_broken(settings: &Settings) -> bool {
    let may_lose = |class: &ClassSettings| class.retry_aborted > 0 || class.preemptible && class.retries;
    settings.preemption.policy.acts() && settings.classes.iter().any(may_lose)
}

impl Cycles {
    pub(super) fn new(now: Instant) -> Self {
        Cycles {
            next: now,
            rest_until: now,
            look_at: now,
            pause: SUSPECT_AFTER,
            suspects: Vec::new(),
            is_pending: false,
        }
    }

    /// How long nothing is to be done; `None` where nothing is broken, or fewer than two transactions are inside.
    pub(super) fn due(&self, governor: &Governor, settings: &Settings, now: Instant) -> Option<Duration> {
        (are_broken(settings) && governor.statistics.inside() > 1).then(|| self.next.saturating_duration_since(now))
    }

    /// The processes with which a look for cycles begins, in order; none if no look is due.
    pub(super) fn suspects(&mut self, governor: &Governor, settings: &Settings, now: Instant) -> Vec<i32> {
        if now < self.next || self.due(governor, settings, now).is_none() {
            return Vec::new();
        }
        self.next = now + SUSPECT_AFTER;
        let (mut suspects, mut may_lose) = (Vec::new(), false);
        for card in governor.registry.all() {
            let state = card.state();
            if state.phase == Phase::Active && now.saturating_duration_since(state.since) >= SUSPECT_AFTER {
                may_lose |= state.cycle_loss.is_some();
                suspects.extend(card.process().map(|process| (process, state.unit)));
            }
        }
        if suspects.len() < 2 || !may_lose {
            self.is_pending = false;
            return Vec::new();
        }
        suspects.sort_unstable();
        let has_new = suspects.iter().any(|suspect| self.suspects.binary_search(suspect).is_err());
        if has_new {
            (self.pause, self.look_at) = (SUSPECT_AFTER, now);
        }
        if now < self.rest_until.max(self.look_at) {
            self.next = self.rest_until.max(self.look_at).min(self.next);
            return Vec::new();
        }
        self.suspects = suspects;
        self.suspects.iter().map(|(process, _)| *process).collect()
    }

    /// A look that began with the suspects has taken so long; `is_pending` says whether it has shown a cycle that another one has to
    /// confirm.
    pub(super) fn looked(&mut self, took: Duration, is_pending: bool, settings: &Settings, now: Instant) {
        self.is_pending = is_pending;
        if is_pending {
            let soon = now + settings.preemption.look_interval.max(took * 2);
            (self.next, self.rest_until, self.look_at) = (soon, soon, soon);
            return;
        }
        self.rest_until = now + took * REST_FACTOR;
        self.look_at = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Whether the next look has to begin with the suspects again, so that what this one has shown can be confirmed.
    pub(super) fn is_pending(&self) -> bool {
        self.is_pending
    }
}

/// Says which cycles were seen, for whoever wants to know why somebody waited.
pub(super) fn log(scene: &Scene, cycles: &[Cycle]) {
    for cycle in cycles {
        let process = |at: &usize| scene.nodes[*at].process;
        let members: Vec<i32> = cycle.members.iter().map(process).collect();
        let victim = cycle.victim.as_ref().map(process);
        tracing::debug!(?members, ?victim, stands = cycle.stands, graph = %scene, "a cycle of waiters");
    }
}
