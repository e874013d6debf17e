//! Cycles of waiters, broken before the server looks for deadlocks.
//!
//! Sessions ring for important units only, so a cycle among equals rings no bell. The watcher therefore checks now and
//! then whether two units have been in flight for a while and one of them may be rolled back. If so, a look begins with
//! all such units. A cycle is broken when a second look has shown the same links between the same statements, and the
//! statement that cancels has found them once more.

use std::time::{Duration, Instant};

use plimsoll_policy::Cycle;

use super::graph::Scene;
use crate::governor::Governor;
use crate::registry::Phase;
use crate::settings::{ClassSettings, Settings};

/// How long a unit must have been in flight: most lock waits that end by themselves end earlier. Also the shortest time
/// between two such looks.
const SUSPECT_AFTER: Duration = Duration::from_millis(10);

/// The longest pause while looks show no cycle. A unit that has been in flight for long may begin to wait at any time.
const PAUSE_MAX: Duration = Duration::from_millis(160);

/// When to look for cycles.
#[derive(Debug)]
pub(super) struct Cycles {
    /// When the next check for suspect units is due.
    next: Instant,
    /// No look may begin before this moment, whichever unit is suspect.
    rest_until: Instant,
    /// When a look is due even if no other unit has become suspect, and the pause before it.
    look_at: Instant,
    pause: Duration,
    /// The units that were suspect at the last look, in order.
    suspects: Vec<(i32, u64)>,
    /// The last look has shown a cycle, and the next one must begin with the suspects again to confirm it.
    pub(super) is_pending: bool,
}

/// Whether cycles are broken at all. Beside a server they are left to the server, because a victim could not be
/// replayed.
pub(super) fn are_broken(settings: &Settings) -> bool {
    let may_lose = |class: &ClassSettings| class.retry_aborted > 0 || class.preemptible && class.retries;
    !settings.is_beside && settings.preemption.policy.acts() && settings.classes.iter().any(may_lose)
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

    /// The time until the next check; `None` if no cycles are broken, or fewer than two transactions are inside.
    pub(super) fn due(&self, governor: &Governor, settings: &Settings, now: Instant) -> Option<Duration> {
        (are_broken(settings) && governor.statistics.inside() > 1).then(|| self.next.saturating_duration_since(now))
    }

    /// The processes with which a look for cycles begins, sorted; empty if no look is due.
    pub(super) fn suspects(&mut self, governor: &Governor, settings: &Settings, now: Instant) -> Vec<i32> {
        if now < self.next || self.due(governor, settings, now).is_none() {
            return Vec::new();
        }
        self.next = now + SUSPECT_AFTER;
        let (mut suspects, mut may_lose) = (Vec::new(), false);
        for card in governor.registry.all() {
            let state = card.state();
            // Of some sessions the server shows whether they wait.
            let may_wait = state.observed.is_none_or(|observed| observed.waits_for_lock);
            if state.phase == Phase::Active && may_wait && now.saturating_duration_since(state.since) >= SUSPECT_AFTER {
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

    /// A look that began with the suspects has ended. `is_pending` says whether it has shown a cycle that another look
    /// must confirm, and `want` how long others must wait for lack of budget.
    pub(super) fn looked(
        &mut self,
        took: Duration,
        is_pending: bool,
        settings: &Settings,
        want: Duration,
        now: Instant,
    ) {
        let soon = now + settings.preemption.look_interval.max(took * 2);
        self.is_pending = is_pending;
        if is_pending {
            (self.next, self.rest_until, self.look_at) = (soon, soon, soon);
            return;
        }
        self.rest_until = soon.max(now + want);
        self.look_at = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// Logs which cycles were seen, to explain why sessions waited.
pub(super) fn log(scene: &Scene, cycles: &[Cycle]) {
    for cycle in cycles {
        let process = |at: &usize| scene.nodes[*at].process;
        let members: Vec<i32> = cycle.members.iter().map(process).collect();
        let victim = cycle.victim.as_ref().map(process);
        tracing::debug!(?members, ?victim, stands = cycle.stands, graph = %scene, "a cycle of waiters");
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_policy::{ClassIndex, CycleLoss, PreemptionPolicy};

    use super::*;
    use crate::settings::for_tests;
    use crate::statistics::count;
    use crate::testing::session;

    const MS: Duration = Duration::from_millis(1);
    const LOW: ClassIndex = ClassIndex(1);

    struct World {
        governor: Governor,
        settings: Settings,
        cycles: Cycles,
        began: Instant,
    }

    impl World {
        fn new(policy: &str) -> World {
            let (mut settings, began) = (for_tests(), Instant::now());
            settings.preemption.policy = PreemptionPolicy::parse(policy).expect("a policy");
            let governor = Governor::new(settings.clone(), began);
            World { governor, settings, cycles: Cycles::new(began), began }
        }

        /// A unit of a process has been in flight since then.
        fn begins(&self, process: i32, at_ms: u32, cycle_loss: Option<CycleLoss>) {
            let card = session(&self.governor, process, LOW, self.began);
            (card.state().since, card.state().cycle_loss) = (self.began + at_ms * MS, cycle_loss);
            count(&self.governor.statistics.class(LOW).inside);
        }

        fn suspects(&mut self, at_ms: u32) -> Vec<i32> {
            self.cycles.suspects(&self.governor, &self.settings, self.began + at_ms * MS)
        }

        fn looked(&mut self, is_pending: bool, want: Duration, at_ms: u32) {
            self.cycles.looked(MS / 10, is_pending, &self.settings, want, self.began + at_ms * MS);
        }

        fn due(&self, at_ms: u32) -> Option<u128> {
            let due = self.cycles.due(&self.governor, &self.settings, self.began + at_ms * MS);
            due.map(|due| due.as_millis())
        }
    }

    const UNNOTICED: Option<CycleLoss> = Some(CycleLoss::Unnoticed);

    #[test]
    fn two_units_that_take_long_are_suspect_if_one_of_them_may_be_rolled_back() {
        let mut world = World::new("pow");
        world.begins(20, 0, None);
        assert_eq!((world.due(50), world.suspects(50)), (None, vec![]), "nobody waits for itself");
        world.begins(10, 0, None);
        assert!(world.suspects(50).is_empty(), "neither may be rolled back");
        world.begins(30, 55, UNNOTICED);
        assert_eq!((world.due(55), world.suspects(60)), (Some(5), vec![]), "one of them is young");
        assert_eq!(world.suspects(70), [10, 20, 30]);
    }

    #[test]
    fn nothing_is_suspect_where_nothing_is_rolled_back() {
        for policy in ["track", "never"] {
            let mut world = World::new(policy);
            world.begins(10, 0, UNNOTICED);
            world.begins(20, 0, UNNOTICED);
            assert_eq!((world.due(50), world.suspects(50)), (None, vec![]), "{policy}");
        }
    }

    #[test]
    fn pauses_grow_until_somebody_else_is_suspect_and_looks_wait_for_their_budget() {
        let mut world = World::new("pow");
        world.begins(10, 0, UNNOTICED);
        world.begins(20, 0, UNNOTICED);
        let mut looks = Vec::new();
        for at in 0..400 {
            if !world.suspects(at).is_empty() {
                looks.push(at);
                world.looked(false, Duration::ZERO, at);
            }
        }
        assert_eq!(looks, [10, 20, 40, 80, 160, 320]);
        world.begins(30, 395, UNNOTICED);
        let at = (400..500).find(|at| !world.suspects(*at).is_empty()).expect("somebody else is suspect");
        assert!((405..=415).contains(&at), "{at}");
        world.looked(false, 100 * MS, at);
        world.begins(40, at - 20, UNNOTICED);
        let next = (at + 1..at + 300).find(|at| !world.suspects(*at).is_empty()).expect("a look is due");
        assert!((at + 100..=at + 110).contains(&next), "{next} after {at}");
    }

    #[test]
    fn a_cycle_that_was_seen_once_is_looked_at_again_at_once() {
        let mut world = World::new("pow");
        world.begins(10, 0, UNNOTICED);
        world.begins(20, 0, UNNOTICED);
        assert_eq!(world.suspects(10), [10, 20]);
        world.looked(true, 100 * MS, 10);
        assert!(world.cycles.is_pending);
        assert_eq!((world.suspects(11), world.suspects(12)), (vec![], vec![10, 20]));
        world.looked(false, Duration::ZERO, 12);
        assert!(!world.cycles.is_pending && world.suspects(20).is_empty());
    }
}
