//! The costs and savings of rollbacks: learned from holders that block others, used before each rollback, and shown to
//! operators.
//!
//! A transaction that would be rolled back counts as a blocker from the first look that shows it. The ledger learns how
//! long blockers stay, by class and by what they do: until they end, or until they are rolled back. The card of the
//! session shows this, also between two looks. A rollback that the policy decides is carried out unless [`StayTimes`]
//! expects a later moment, or none, to be better. A victim whose client thinks is always rolled back. While nothing is
//! known of a kind, all but a few of its holders are rolled back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_policy::{Activity, ClassIndex, Price, StayTimes};

use super::graph::{Node, Scene};
use super::late::in_flight;
use super::look::Looked;
use crate::governor::Governor;
use crate::registry::{CardState, Phase, SessionCard, SessionId, Stake};
use crate::settings::Settings;
use crate::statistics::count;

/// The assumed time of a rollback before the first has been measured.
const TAKES_AT_FIRST: Duration = Duration::from_millis(1);

/// After this long, a rollback has freed the waiter, or the victim still blocks it and will continue to.
const IN_VAIN_AFTER: Duration = Duration::from_millis(100);

/// What a holder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Waits,
    Runs,
    Thinks,
}

/// The times learned so far, and the blockers and rollbacks observed now.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    kinds: BTreeMap<(ClassIndex, Doing), StayTimes>,
    stays: BTreeMap<(SessionId, Doing), Stay>,
    carried_out: Vec<CarriedOut>,
    /// The stake on each victim of the current scene, by its place.
    stakes: BTreeMap<usize, Stake>,
}

/// A transaction that blocks another.
#[derive(Debug)]
struct Stay {
    card: Arc<SessionCard>,
    class: ClassIndex,
    transaction: u64,
    /// How often it had been rolled back, for any reason, when it was seen first.
    rollbacks: u32,
    since: Instant,
    /// When it was last seen blocking.
    seen: Instant,
    /// Whether it is left alone in order to learn; `None` while undecided.
    is_experiment: Option<bool>,
    is_spared: bool,
}

/// A rollback whose effect on the waiter is not known yet.
#[derive(Debug)]
struct CarriedOut {
    kind: (ClassIndex, Doing),
    at: Instant,
    victim_process: i32,
    waiter: Arc<SessionCard>,
    /// The waiter's transaction and unit.
    unit: (u64, u64),
}

impl Ledger {
    /// Learns from transactions that have ceased to block, and from rollbacks whose effect this look shows.
    pub(super) fn learn(&mut self, governor: &Governor, looked: &Looked, now: Instant) {
        self.stakes.clear();
        let kinds = &mut self.kinds;
        self.stays.retain(|(_, doing), stay| match stay.end(now) {
            Some((at, has_ended)) => {
                let stayed = at.saturating_duration_since(stay.since);
                kinds.entry((stay.class, *doing)).or_default().note(stayed, has_ended);
                false
            }
            None => {
                stay.seen = now;
                true
            }
        });
        self.carried_out.retain(|rollback| {
            let Some(has_freed) = rollback.has_freed(looked, now) else { return true };
            kinds.entry(rollback.kind).or_default().note_rollback(has_freed);
            if !has_freed {
                count(&governor.statistics.class(rollback.kind.0).rollbacks_in_vain);
            }
            false
        });
    }

    /// Looking stops: how long the present blockers will stay is not known, and no unit waits.
    pub(super) fn close(&mut self, governor: &Governor, now: Instant) {
        self.learn(governor, &Looked::default(), now);
        for ((_, doing), stay) in std::mem::take(&mut self.stays) {
            let stayed = now.saturating_duration_since(stay.since);
            self.kinds.entry((stay.class, doing)).or_default().note(stayed, false);
        }
    }

    /// Weighs a rollback for a waiter, one of the given number; returns whether it is worth its cost.
    pub(super) fn weigh(
        &mut self,
        governor: &Governor,
        settings: &Settings,
        scene: &Scene,
        (victim, waiter, waiters): (usize, usize, u32),
        looked: Instant,
    ) -> bool {
        let [of_victim, of_waiter] = [victim, waiter].map(|at| scene.nodes[at].session.as_ref());
        let (Some((card, state)), Some((_, waiter))) = (of_victim, of_waiter) else { return true };
        let doing = doing(scene.graph.transactions[victim].activity);
        let stay = self.stays.entry((card.id, doing)).or_insert_with(|| Stay::new(card, state, looked));
        let stays = self.kinds.entry((state.class, doing)).or_default();
        let takes = governor.statistics.rollback_takes().unwrap_or(TAKES_AT_FIRST);
        let price = Price { takes, work: work(state, doing, looked), waiters };
        let outlook = stays.outlook(looked.saturating_duration_since(stay.since), &price);
        let won = outlook.map(|outlook| outlook.saves);
        self.stakes.insert(victim, Stake { lost: price.work, won, waiter: waiter.class, looked });
        let acts = settings.preemption.policy.acts();
        let is_worth_it = match outlook {
            _ if doing == Doing::Thinks || !settings.preemption.weigh => true,
            Some(outlook) => outlook.is_worth_it,
            None => !acts || !*stay.is_experiment.get_or_insert_with(|| stays.is_left_alone()),
        };
        if !is_worth_it && acts && !std::mem::replace(&mut stay.is_spared, true) {
            count(&governor.statistics.class(state.class).rollbacks_spared);
        }
        is_worth_it
    }

    /// The stake on a victim that was weighed, or that breaks a cycle.
    pub(super) fn stake(&self, scene: &Scene, victim: usize, waiter: usize, looked: Instant) -> Option<Stake> {
        let [of_victim, of_waiter] = [victim, waiter].map(|at| scene.nodes[at].session.as_ref());
        let (state, waiter) = (&of_victim?.1, of_waiter?.1.class);
        let of_cycle = || Stake { lost: work(state, Doing::Waits, looked), won: None, waiter, looked };
        Some(self.stakes.get(&victim).copied().unwrap_or_else(of_cycle))
    }

    /// A rollback was carried out for a waiter: its victim's stay ends, and later looks show whether that helps.
    pub(super) fn carried_out(&mut self, victim: &Node, waiter: &Node, now: Instant) {
        let (Some((card, _)), Some((waiter, of_waiter))) = (&victim.session, &waiter.session) else { return };
        for doing in [Doing::Waits, Doing::Runs, Doing::Thinks] {
            let Some(stay) = self.stays.remove(&(card.id, doing)) else { continue };
            let kind = (stay.class, doing);
            self.kinds.entry(kind).or_default().note(now.saturating_duration_since(stay.since), false);
            self.carried_out.push(CarriedOut {
                kind,
                at: now,
                victim_process: victim.process,
                waiter: waiter.clone(),
                unit: (of_waiter.transaction, of_waiter.unit),
            });
        }
    }
}

impl Stay {
    fn new(card: &Arc<SessionCard>, state: &CardState, now: Instant) -> Stay {
        Stay {
            card: card.clone(),
            class: state.class,
            transaction: state.transaction,
            rollbacks: state.rollbacks + state.aborts,
            since: now,
            seen: now,
            is_experiment: None,
            is_spared: false,
        }
    }

    /// When it ceased to block, and whether it ended by itself; `None` while it blocks.
    fn end(&self, now: Instant) -> Option<(Instant, bool)> {
        let state = self.card.state();
        let within = |at: Instant| at.clamp(self.seen, now.max(self.seen));
        let is_rolled_back = state.rollbacks + state.aborts > self.rollbacks
            || state.phase == Phase::Preempted
            || state.cancels.preempting == Some(state.unit);
        match state.transaction.saturating_sub(self.transaction) {
            _ if is_rolled_back => Some((self.seen, false)),
            0 if matches!(state.phase, Phase::Active | Phase::IdleInTransaction) => None,
            0 => Some((within(state.since), true)),
            // It ended before the next one began.
            1 => Some((within(state.transaction_since), true)),
            _ => Some((self.seen + now.saturating_duration_since(self.seen) / 2, true)),
        }
    }
}

impl CarriedOut {
    /// Whether the waiter has ceased to wait; `None` as long as the victim still blocks it.
    fn has_freed(&self, looked: &Looked, now: Instant) -> Option<bool> {
        let is_at_it = {
            let state = self.waiter.state();
            state.phase == Phase::Active && (state.transaction, state.unit) == self.unit
        };
        let process = self.waiter.process().filter(|_| is_at_it);
        let Some(process) = process.filter(|process| looked.waits.contains_key(process)) else { return Some(true) };
        let is_victim_there = looked.chain(process, self.victim_process).is_some();
        let is_young = now.saturating_duration_since(self.at) < IN_VAIN_AFTER;
        (!is_victim_there || !is_young).then_some(false)
    }
}

fn doing(activity: Activity) -> Doing {
    match activity {
        Activity::WaitsForLock => Doing::Waits,
        Activity::WaitsForClient => Doing::Thinks,
        Activity::Runs | Activity::Prepared | Activity::Foreign => Doing::Runs,
    }
}

/// The work that is lost if a transaction is rolled back now: the server's time for it. A lock wait that still lasts is
/// not work. Beside a server the end of units is not visible, so the time that the client took between them counts as
/// well.
fn work(state: &CardState, doing: Doing, now: Instant) -> Duration {
    let in_flight = in_flight(state, now);
    if state.observed.is_some() {
        let open = now.saturating_duration_since(state.transaction_since);
        return if doing == Doing::Waits { open.saturating_sub(in_flight) } else { open };
    }
    if doing == Doing::Runs { state.work + in_flight } else { state.work }
}

#[cfg(test)]
mod tests;
