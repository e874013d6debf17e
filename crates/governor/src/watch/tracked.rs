//! The savings that `track` forgoes: how long important units wait for transactions that would have been rolled back.
//!
//! The time counts from the decision until the unit or its victims have ended, whichever comes first, and once for each
//! unit, however many victims it has. Units that wait behind it, and would also have gained, are not counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use plimsoll_policy::ClassIndex;

use crate::governor::Governor;
use crate::registry::{CardState, Phase, SessionCard, SessionId};

/// The units that wait for transactions that would have been rolled back.
#[derive(Debug, Default)]
pub(super) struct Tracked(BTreeMap<SessionId, Wait>);

/// A waiting unit.
#[derive(Debug)]
struct Wait {
    card: Arc<SessionCard>,
    class: ClassIndex,
    /// Transaction and unit.
    unit: (u64, u64),
    since: Instant,
    /// Sessions and their transactions.
    victims: Vec<(Arc<SessionCard>, u64)>,
}

impl Tracked {
    /// Records that a unit in flight would have had a transaction rolled back.
    pub(super) fn note(
        &mut self,
        waiter: (&Arc<SessionCard>, &CardState),
        victim: (&Arc<SessionCard>, &CardState),
        now: Instant,
    ) {
        let (card, state) = waiter;
        let wait = self.0.entry(card.id).or_insert_with(|| Wait {
            card: card.clone(),
            class: state.class,
            unit: (state.transaction, state.unit),
            since: now,
            victims: Vec::new(),
        });
        let is_known = wait.victims.iter().any(|(known, of)| (known.id, *of) == (victim.0.id, victim.1.transaction));
        if !is_known {
            wait.victims.push((victim.0.clone(), victim.1.transaction));
        }
    }

    pub(super) fn count_ended(&mut self, governor: &Governor, now: Instant) {
        self.0.retain(|_, wait| match wait.ended(now) {
            Some(end) => {
                wait.count(governor, end);
                false
            }
            None => true,
        });
    }

    /// Looking has stopped: waits that have not ended count as ended now.
    pub(super) fn end(&mut self, governor: &Governor, now: Instant) {
        self.count_ended(governor, now);
        std::mem::take(&mut self.0).into_values().for_each(|wait| wait.count(governor, now));
    }
}

impl Wait {
    /// When it ended, as far as cards show; `None` while it lasts.
    fn ended(&self, now: Instant) -> Option<Instant> {
        let within = |end: Instant| end.clamp(self.since, now.max(self.since));
        {
            let state = self.card.state();
            if state.phase != Phase::Active || (state.transaction, state.unit) != self.unit {
                return Some(within(state.since));
            }
        }
        let left = self.victims.iter().map(|(card, transaction)| {
            let state = card.state();
            let is_inside = matches!(state.phase, Phase::Active | Phase::IdleInTransaction | Phase::Preempted);
            (!is_inside || state.transaction != *transaction).then_some(state.since)
        });
        left.collect::<Option<Vec<_>>>()?.into_iter().max().map(within)
    }

    fn count(&self, governor: &Governor, end: Instant) {
        let saved = end.saturating_duration_since(self.since);
        // Relaxed: a counter for operators.
        governor.statistics.class(self.class).tracked_saved_nanos.fetch_add(saved.as_nanos() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::for_tests;
    use crate::testing::session;

    const MS: Duration = Duration::from_millis(1);

    struct World {
        governor: Governor,
        tracked: Tracked,
        /// The waiter, and two victims.
        cards: [Arc<SessionCard>; 3],
        began: Instant,
    }

    impl World {
        fn new() -> World {
            let began = Instant::now();
            let governor = Governor::new(for_tests(), began);
            let cards = [0, 1, 1].map(|class| session(&governor, 0, ClassIndex(class), began));
            World { governor, tracked: Tracked::default(), cards, began }
        }

        fn note(&mut self, victim: usize, at_ms: u32) {
            let [waiter, victim] = [&self.cards[0], &self.cards[victim]];
            let states = [waiter, victim].map(|card| card.state().clone());
            self.tracked.note((waiter, &states[0]), (victim, &states[1]), self.began + at_ms * MS);
        }

        fn becomes(&self, card: usize, phase: Phase, at_ms: u32) {
            let mut state = self.cards[card].state();
            (state.phase, state.since) = (phase, self.began + at_ms * MS);
        }

        /// The milliseconds counted up to then.
        fn saved(&mut self, at_ms: u32) -> u64 {
            self.tracked.count_ended(&self.governor, self.began + at_ms * MS);
            let saved = &self.governor.statistics.class(ClassIndex(0)).tracked_saved_nanos;
            saved.load(Ordering::Relaxed) / 1_000_000
        }
    }

    #[test]
    fn a_unit_that_waits_for_two_is_counted_once_until_it_ends() {
        let mut world = World::new();
        world.note(1, 10);
        world.note(2, 12);
        world.note(1, 14);
        assert_eq!(world.saved(20), 0, "it goes on");
        world.becomes(0, Phase::IdleInTransaction, 25);
        assert_eq!((world.saved(40), world.saved(50)), (15, 15));
    }

    #[test]
    fn it_ends_when_the_last_victim_has_left() {
        let mut world = World::new();
        world.note(1, 10);
        world.note(2, 10);
        world.becomes(1, Phase::Idle, 20);
        assert_eq!(world.saved(22), 0, "the other is still in the way");
        world.cards[2].state().transaction = 2;
        world.becomes(2, Phase::Active, 23);
        assert_eq!(world.saved(30), 13);
        // Another session blocks it now.
        world.note(2, 40);
        world.becomes(0, Phase::Idle, 41);
        assert_eq!(world.saved(45), 14);
    }

    #[test]
    fn what_goes_on_when_nobody_looks_any_more_ends_then() {
        let mut world = World::new();
        world.note(1, 10);
        world.tracked.end(&world.governor, world.began + 17 * MS);
        assert_eq!(world.saved(30), 7);
    }
}
