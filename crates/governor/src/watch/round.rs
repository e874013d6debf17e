//! One round: look, decide, do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use plimsoll_policy::{Action, Activity, CpuScheduler, Priority, Rules, cpu_scheduler, decide};
use plimsoll_postgres::connection::WireError;

use super::act::{LookedAt, Target, cancel};
use super::control::Up;
use super::graph::{Links, Node, Scene};
use super::late::{cards_of, in_flight};
use super::look::{Looked, look};
use super::pace::Seen;
use crate::agent::Agent;
use crate::governor::{EventId, Governor, Outcome, PreemptionEvent, SessionCommand};
use crate::registry::{Phase, SessionId};
use crate::settings::{CpuShare, Settings};
use crate::statistics::count;

/// What is kept from round to round.
pub(super) struct Round {
    governor: Arc<Governor>,
    links: Links,
    last: Looked,
    /// What was asked or counted already of each victim: its transaction and unit.
    dealt_with: BTreeMap<SessionId, (u64, u64)>,
}

/// By which rules to decide; `None` if there is nothing to decide.
pub(super) fn rules<'a>(settings: &'a Settings, agent: &Agent) -> Option<Rules<'a>> {
    let preemption = &settings.preemption;
    let cpu: Option<&'static dyn CpuScheduler> =
        if agent.may_inherit(settings) { cpu_scheduler("cpu-prio-inherit") } else { None };
    (preemption.policy.watches() || cpu.is_some()).then_some(Rules {
        locks: preemption.policy.scheduler(),
        cpu,
        bound: preemption.bound,
        idle_counts_as_waiting: preemption.idle_counts_as_waiting,
    })
}

impl Round {
    pub(super) fn new(governor: Arc<Governor>) -> Self {
        Round { governor, links: Links::default(), last: Looked::default(), dealt_with: BTreeMap::new() }
    }

    /// Nobody is late any more.
    pub(super) fn forget(&mut self) {
        (self.links, self.last) = (Links::default(), Looked::default());
        self.dealt_with.clear();
    }

    /// Looks who stands in the way of these processes, and does what is to be done about it.
    pub(super) fn go(
        &mut self,
        up: &mut Up,
        settings: &Settings,
        late: &[i32],
        agent: &mut Agent,
    ) -> Result<Seen, WireError> {
        let began = Instant::now();
        let looked = look(&mut up.connection, &up.look, late);
        let statistics = &self.governor.statistics;
        count(&statistics.looks);
        // Relaxed: a counter for people.
        statistics.look_nanos.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        let looked = looked?;
        let (now, clock) = (Instant::now(), self.governor.clock(Instant::now()));
        let cards = cards_of(&self.governor, &looked.processes());
        let scene = self.links.scene(&looked, cards, settings, now, clock);
        let Some(rules) = rules(settings, agent) else { return Ok(Seen { changed: false, blocked: false }) };
        let (mut victims, mut acted) = (Vec::new(), false);
        for action in decide(&scene.graph, &rules) {
            match action {
                Action::Inherit { holder, priority } => {
                    acted |= inherit(agent, settings, &scene.nodes[holder], priority);
                }
                Action::Preempt { victim, waiter } if settings.preemption.policy.acts() => {
                    victims.push((victim, waiter))
                }
                Action::Preempt { victim, waiter } => self.track(&scene, settings, victim, waiter),
            }
        }
        let seen = Seen { changed: looked != self.last, blocked: !looked.waits.is_empty() };
        self.last = looked;
        let looked_at = LookedAt { server: self.last.at, here: began };
        acted |= self.preempt(up, settings, &scene, &victims, looked_at)?;
        Ok(Seen { changed: seen.changed || acted, ..seen })
    }

    /// Rolls victims back; whether there was anybody to be rolled back who had not been asked before.
    fn preempt(
        &mut self,
        up: &mut Up,
        settings: &Settings,
        scene: &Scene,
        victims: &[(usize, usize)],
        looked_at: LookedAt,
    ) -> Result<bool, WireError> {
        let (mut pairs, mut targets, mut acted) = (Vec::new(), Vec::new(), false);
        for &(victim, waiter) in victims {
            let Node { process, session: Some((card, state)) } = &scene.nodes[victim] else { continue };
            if state.phase == Phase::IdleInTransaction {
                acted |= self.roll_back_idle(settings, scene, victim, waiter);
                continue;
            }
            let Some(chain) = self.last.chain(scene.nodes[waiter].process, *process) else { continue };
            pairs.push((victim, waiter));
            targets.push(Target {
                card: card.clone(),
                process: *process,
                transaction: state.transaction,
                unit: state.unit,
                if_waiting: scene.graph.transactions[victim].activity == Activity::WaitsForLock,
                chain,
            });
        }
        if targets.is_empty() {
            return Ok(acted);
        }
        let done = cancel(up, &self.governor, settings, &targets, looked_at)?;
        for ((victim, waiter), done) in pairs.into_iter().zip(done) {
            let Some((_, state)) = &scene.nodes[victim].session else { continue };
            // Of those that were sent the session counts the ones that have done something.
            if !done {
                count(&self.governor.statistics.class(state.class).preempted_too_late);
            }
            let (done, outcome) = if done { ("cancelled", Outcome::Pending) } else { ("too late", Outcome::TooLate) };
            self.note(settings, scene, victim, waiter, done, outcome);
        }
        Ok(true)
    }

    /// Has a session whose client thinks roll back; whether it had not been asked before. It counts what comes of it.
    fn roll_back_idle(&mut self, settings: &Settings, scene: &Scene, victim: usize, waiter: usize) -> bool {
        let Some((card, state)) = &scene.nodes[victim].session else { return false };
        let which = (state.transaction, state.unit);
        if self.dealt_with.insert(card.id, which) == Some(which) {
            return false;
        }
        let Some(event) = self.note(settings, scene, victim, waiter, "rolled back", Outcome::Pending) else {
            return false;
        };
        let command = SessionCommand::RollBackIdle { transaction: state.transaction, unit: state.unit, event };
        self.governor.tell(card.worker, card.id, command);
        true
    }

    /// Counts whom the policy would roll back, once for each unit.
    fn track(&mut self, scene: &Scene, settings: &Settings, victim: usize, waiter: usize) {
        let Some((card, state)) = &scene.nodes[victim].session else { return };
        let which = (state.transaction, state.unit);
        if self.dealt_with.insert(card.id, which) != Some(which) {
            count(&self.governor.statistics.class(state.class).preemptions_tracked);
            self.note(settings, scene, victim, waiter, "tracked", Outcome::Tracked(Ok(())));
        }
    }

    /// Notes for people what was done to whom.
    fn note(
        &self,
        settings: &Settings,
        scene: &Scene,
        victim: usize,
        waiter: usize,
        done: &'static str,
        outcome: Outcome,
    ) -> Option<EventId> {
        let party =
            |at: usize| scene.nodes[at].session.as_ref().map(|(card, state)| (card, state, scene.nodes[at].process));
        let (victim_is, waiter_is) = (party(victim)?, party(waiter)?);
        let class_of = |state: &crate::registry::CardState| settings.class(state.class).name.clone();
        Some(self.governor.note(PreemptionEvent {
            id: EventId(0),
            at: SystemTime::now(),
            victim: (victim_is.0.id, victim_is.2),
            victim_class: class_of(victim_is.1),
            waiter: (waiter_is.0.id, waiter_is.2),
            waiter_class: class_of(waiter_is.1),
            waited: in_flight(waiter_is.1, Instant::now()),
            victim_was: match scene.graph.transactions[victim].activity {
                Activity::WaitsForLock => "waited for a lock",
                Activity::WaitsForClient => "waited for its client",
                _ => "ran",
            },
            done,
            outcome,
        }))
    }
}

/// Gives a holder the share of those who wait for it; whether it did not have that before.
fn inherit(agent: &mut Agent, settings: &Settings, holder: &Node, priority: Priority) -> bool {
    let Some((card, state)) = &holder.session else { return false };
    agent.inherit(settings, card, state.transaction, share_of(settings, priority), Instant::now())
}

/// What transactions of a priority get of the cores: what the highest class gets that is not above it.
fn share_of(settings: &Settings, priority: Priority) -> CpuShare {
    let below = settings.classes.iter().filter(|class| class.limits.priority <= priority);
    below.max_by_key(|class| class.limits.priority).map_or(CpuShare::Untouched, |class| class.cpu)
}
