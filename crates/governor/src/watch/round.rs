//! One round: look, decide, act.

mod blocked;
mod cycles;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use plimsoll_pg::connection::WireError;
use plimsoll_policy::{
    Action, Activity, CpuScheduler, Cycle, NoReplay, Rules, Unsafe, cpu_scheduler, decide, waiters_behind,
};

use super::act::{LookedAt, Target, cancel, inherit};
use super::control::Up;
use super::cycle;
use super::graph::{Links, Node, Scene};
use super::late::{cards_of, in_flight};
use super::ledger::Ledger;
use super::look::{Looked, advisory_holders, ask_timeouts, look};
use super::outside::admit_holders;
use super::pace::Seen;
use super::tracked::Tracked;
use crate::agent::Agent;
use crate::governor::{CYCLE, Governor, Outcome, PreemptionEvent, SessionCommand};
use crate::registry::{CardState, EventId, Phase, SessionId};
use crate::settings::Settings;
use crate::statistics::count;

/// The recorded action for the victim of a cycle.
const BREAKS_CYCLE: &str = "cancelled to break a cycle";

/// The assumed saving of a rollback while its effect is unknown, so that looks continue until it is known.
const WON_IF_UNKNOWN: Duration = Duration::from_millis(100);

/// The state that is kept from round to round.
pub(super) struct Round {
    governor: Arc<Governor>,
    links: Links,
    last: Looked,
    /// The transaction and unit of each victim that was already asked to roll back, or counted.
    dealt_with: BTreeMap<SessionId, (u64, u64)>,
    /// Whether a session held an advisory lock when its client began to think: its transaction and unit, and the
    /// answer.
    advisory: BTreeMap<SessionId, ((u64, u64), bool)>,
    tracked: Tracked,
    ledger: Ledger,
    /// The expected savings of rollbacks since `take_won` was last called.
    won: Duration,
    /// How long the server lets the members of the last cycles wait before it looks for deadlocks.
    deadlock_timeout: Duration,
    /// The transaction of each process that was recorded as left alone.
    named: BTreeMap<i32, u64>,
    /// The last look has shown a cycle that can be broken once another look confirms it.
    pub(super) has_pending_cycle: bool,
}

/// The rules for decisions; `None` if there is nothing to decide.
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
        Round {
            governor,
            links: Links::default(),
            last: Looked::default(),
            dealt_with: BTreeMap::new(),
            advisory: BTreeMap::new(),
            tracked: Tracked::default(),
            ledger: Ledger::default(),
            won: Duration::ZERO,
            deadlock_timeout: Duration::ZERO,
            named: BTreeMap::new(),
            has_pending_cycle: false,
        }
    }

    /// The expected savings of rollbacks since the last call.
    pub(super) fn take_won(&mut self) -> Duration {
        std::mem::take(&mut self.won)
    }

    /// No unit is late any more.
    pub(super) fn forget(&mut self) {
        (self.links, self.last) = (Links::default(), Looked::default());
        self.dealt_with.clear();
        self.advisory.clear();
        self.named.clear();
        self.governor.blocked.lock().clear();
        self.tracked.end(&self.governor, Instant::now());
        self.ledger.close(&self.governor, Instant::now());
    }

    /// Looks which sessions block these processes, and acts on the result.
    pub(super) fn go(
        &mut self,
        up: &mut Up,
        settings: &Settings,
        late: &[i32],
        agent: &mut Agent,
    ) -> Result<Seen, WireError> {
        let began = Instant::now();
        self.has_pending_cycle = false;
        let looked = look(up, late);
        self.governor.statistics.count_look(began.elapsed());
        let mut looked = looked?;
        if !looked.waits.is_empty() {
            looked.commits_wait = up.note_commits(&self.governor, looked.commits_wait, began);
        }
        self.forget_ended();
        self.ledger.learn(&self.governor, &looked, Instant::now());
        let mut acted = admit_holders(&self.governor, &looked, began);
        let (now, clock) = (Instant::now(), self.governor.clock(Instant::now()));
        let cards = cards_of(&self.governor, &looked.processes());
        ask_timeouts(up, &cards, now)?;
        let mut scene = self.links.scene(&looked, cards, settings, now, clock);
        let Some(rules) = rules(settings, agent) else { return Ok(Seen::default()) };
        let (mut victims, actions) = (Vec::new(), self.decide(up, settings, &mut scene, &rules, began)?);
        if !looked.waits.is_empty() {
            tracing::debug!(graph = %scene, ?actions, "a look");
        }
        self.name_holders(&scene, &looked, settings, &rules, &actions);
        for action in actions {
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
        let cycles = if cycle::are_broken(settings) { self.cycles(up, &scene, rules.bound)? } else { Vec::new() };
        cycle::log(&scene, &cycles);
        self.has_pending_cycle = cycles.iter().any(|cycle| !cycle.stands && cycle.victim.is_some());
        let seen = Seen { changed: looked != self.last, blocked: !looked.waits.is_empty() };
        self.last = looked;
        let looked_at = LookedAt { server: self.last.at, here: began };
        acted |= self.preempt(up, settings, &scene, (&victims, &cycles), looked_at)?;
        if settings.is_beside && settings.preemption.policy.acts() {
            self.track_beside(scene, settings, &rules);
        }
        Ok(Seen { changed: seen.changed || acted, ..seen })
    }

    /// The policy's decisions, limited to permitted victims. A rollback that costs more than it saves is left undone. A
    /// transaction that holds an advisory lock is not rolled back while its client thinks: the client relies on this
    /// mutual exclusion, also in its work elsewhere.
    ///
    /// Only the server knows which transactions hold such a lock. It is asked only about would-be victims, once per
    /// unit: while a client thinks, its session acquires and releases nothing.
    fn decide(
        &mut self,
        up: &mut Up,
        settings: &Settings,
        scene: &mut Scene,
        rules: &Rules<'_>,
        looked: Instant,
    ) -> Result<Vec<Action>, WireError> {
        for (node, standing) in scene.nodes.iter().zip(&mut scene.graph.transactions) {
            standing.preemptible &= self.holds_advisory_lock(node) != Some(true);
        }
        // Once a victim is spared, another one may be chosen, which may have to be checked in turn.
        loop {
            let actions = decide(&scene.graph, rules);
            let victims: Vec<(usize, usize)> = actions.iter().filter_map(preempted).collect();
            let not_worth_it = self.not_worth_it(settings, scene, rules, &victims, looked);
            if !not_worth_it.is_empty() {
                not_worth_it.into_iter().for_each(|victim| scene.graph.transactions[victim].preemptible = false);
                continue;
            }
            let thinks = |victim: usize| {
                scene.nodes[victim].session.as_ref().is_some_and(|(_, state)| state.phase == Phase::IdleInTransaction)
            };
            let is_unknown = |victim: usize| self.holds_advisory_lock(&scene.nodes[victim]).is_none();
            let unknown: Vec<_> =
                victims.into_iter().filter(|(victim, _)| thinks(*victim) && is_unknown(*victim)).collect();
            if unknown.is_empty() {
                return Ok(actions);
            }
            let processes: Vec<i32> = unknown.iter().map(|(victim, _)| scene.nodes[*victim].process).collect();
            let holders = advisory_holders(up, &processes)?;
            for (victim, waiter) in unknown {
                let Node { process, session: Some((card, state)) } = &scene.nodes[victim] else { continue };
                let is_holder = holders.contains(process);
                self.advisory.insert(card.id, ((state.transaction, state.unit), is_holder));
                if is_holder {
                    let outcome = Outcome::Spared(NoReplay::Unsafe(Unsafe::AdvisoryLock));
                    self.note(settings, scene, (victim, waiter), "left alone", outcome);
                    scene.graph.transactions[victim].preemptible = false;
                }
            }
        }
    }

    /// The victims whose rollback costs more than it saves.
    fn not_worth_it(
        &mut self,
        settings: &Settings,
        scene: &Scene,
        rules: &Rules<'_>,
        victims: &[(usize, usize)],
        looked: Instant,
    ) -> Vec<usize> {
        if victims.is_empty() {
            return Vec::new();
        }
        let behind = waiters_behind(&scene.graph, rules);
        let costs_more = |&&(victim, waiter): &&(usize, usize)| {
            let rollback = (victim, waiter, behind[victim]);
            !self.ledger.weigh(&self.governor, settings, scene, rollback, looked)
        };
        victims.iter().filter(costs_more).map(|(victim, _)| *victim).collect()
    }

    /// Whether a transaction whose client thinks holds an advisory lock; `None` if the server was not asked.
    fn holds_advisory_lock(&self, node: &Node) -> Option<bool> {
        let (card, state) = node.session.as_ref().filter(|(_, state)| state.phase == Phase::IdleInTransaction)?;
        let (unit, is_holder) = self.advisory.get(&card.id)?;
        (*unit == (state.transaction, state.unit)).then_some(*is_holder)
    }

    /// Forgets sessions that have ended, and counts the savings of waits that have ended.
    fn forget_ended(&mut self) {
        self.tracked.count_ended(&self.governor, Instant::now());
        let registry = &self.governor.registry;
        // A unit may be late for days: without this, memory would grow with every session.
        if self.dealt_with.len() + self.advisory.len() > 2 * registry.len() + 64 {
            self.dealt_with.retain(|session, _| registry.get(*session).is_some());
            self.advisory.retain(|session, _| registry.get(*session).is_some());
        }
    }

    /// Rolls back victims of waiters and of cycles; returns whether any victim had not been asked before.
    fn preempt(
        &mut self,
        up: &mut Up,
        settings: &Settings,
        scene: &Scene,
        (victims, cycles): (&[(usize, usize)], &[Cycle]),
        looked_at: LookedAt,
    ) -> Result<bool, WireError> {
        let (mut targets, mut parties, mut acted) = (Vec::new(), Vec::new(), false);
        for &(victim, waiter) in victims {
            let Node { process, session: Some((_, state)) } = &scene.nodes[victim] else { continue };
            if state.phase == Phase::IdleInTransaction {
                acted |= self.roll_back_idle(settings, scene, victim, waiter);
                continue;
            }
            let Some(chain) = self.last.chain(scene.nodes[waiter].process, *process) else { continue };
            if let Some(target) = self.target(settings, scene, (victim, waiter), "cancelled", chain, looked_at.here) {
                parties.push((victim, waiter));
                targets.push(target);
            }
        }
        targets.extend(cycles.iter().filter_map(|cycle| self.target_of(settings, scene, cycle, looked_at.here)));
        if targets.is_empty() {
            return Ok(acted);
        }
        let done = match settings.is_beside {
            true => super::beside::cancel(up, &self.governor, &targets, looked_at)?,
            false => cancel(up, &self.governor, settings, &targets, looked_at)?,
        };
        // The others would have waited until the server looks for deadlocks.
        let broken = targets.iter().zip(&done).filter(|(target, is_done)| target.breaks_cycle && **is_done);
        self.won += self.deadlock_timeout * broken.count() as u32;
        // Victims of waiters come before those of cycles.
        for (&(victim, waiter), (target, is_done)) in parties.iter().zip(targets.iter().zip(&done)) {
            if *is_done {
                self.won += target.stake.won.unwrap_or(WON_IF_UNKNOWN);
                self.ledger.carried_out(&scene.nodes[victim], &scene.nodes[waiter], Instant::now());
            }
        }
        for (target, _) in targets.iter().zip(done).filter(|(_, done)| !done) {
            // Of the cancels that were sent, the session counts the ones that took effect.
            let class = target.card.state().class;
            count(&self.governor.statistics.class(class).preempted_too_late);
        }
        Ok(true)
    }

    /// A victim with the chain from its waiter; `None` if it was aimed at already, because that cancel may still hit
    /// it.
    fn target(
        &self,
        settings: &Settings,
        scene: &Scene,
        (victim, waiter): (usize, usize),
        done: &'static str,
        chain: Vec<(i32, i32)>,
        looked: Instant,
    ) -> Option<Target> {
        let Node { process, session } = &scene.nodes[victim];
        let (card, state) = session.as_ref().filter(|(_, state)| state.cancels.preempting != Some(state.unit))?;
        let stake = self.ledger.stake(scene, victim, waiter, looked)?;
        // Noted before any action: the victim's session may have an outcome before we receive one.
        let event = self.note(settings, scene, (victim, waiter), done, Outcome::Pending)?;
        let breaks_cycle = done == BREAKS_CYCLE;
        Some(Target {
            card: card.clone(),
            process: *process,
            transaction: state.transaction,
            unit: state.unit,
            breaks_cycle,
            exceeds: None,
            if_waiting: breaks_cycle || scene.graph.transactions[victim].activity == Activity::WaitsForLock,
            may_commit: state.may_commit,
            event,
            stake,
            chain,
        })
    }

    /// The victim of a confirmed cycle.
    fn target_of(&self, settings: &Settings, scene: &Scene, cycle: &Cycle, looked: Instant) -> Option<Target> {
        let victim = cycle.victim.filter(|_| cycle.stands)?;
        let process = |at: usize| scene.nodes[at].process;
        let next = |place: usize| cycle.members[(place + 1) % cycle.members.len()];
        let links = cycle.members.iter().enumerate().map(|(place, member)| (process(*member), process(next(place))));
        // For operators: the most important of the other members.
        let others = cycle.members.iter().copied().filter(|at| *at != victim && scene.nodes[*at].session.is_some());
        let waiter = others.max_by_key(|at| scene.graph.transactions[*at].priority).unwrap_or(victim);
        self.target(settings, scene, (victim, waiter), BREAKS_CYCLE, links.collect(), looked)
    }

    /// Asks a session whose client thinks to roll back; returns whether it had not been asked before. The session
    /// counts the outcome.
    fn roll_back_idle(&mut self, settings: &Settings, scene: &Scene, victim: usize, waiter: usize) -> bool {
        let Some((card, state)) = &scene.nodes[victim].session else { return false };
        let which = (state.transaction, state.unit);
        if self.dealt_with.insert(card.id, which) == Some(which) {
            return false;
        }
        let Some(event) = self.note(settings, scene, (victim, waiter), "rolled back", Outcome::Pending) else {
            return false;
        };
        // The session takes the stake if it rolls back.
        card.state().cancels.stake = self.ledger.stake(scene, victim, waiter, Instant::now());
        let command = SessionCommand::RollBackIdle { transaction: state.transaction, unit: state.unit, event };
        self.governor.tell(card.worker, card.id, command);
        true
    }

    /// Counts the transactions that would be victims beside a server if their classes opted in.
    fn track_beside(&mut self, mut scene: Scene, settings: &Settings, rules: &Rules<'_>) {
        for (node, standing) in scene.nodes.iter().zip(&mut scene.graph.transactions) {
            let observed = node.session.as_ref().and_then(|(_, state)| state.observed);
            standing.preemptible = observed.is_some_and(|observed| observed.is_tracked);
        }
        for action in decide(&scene.graph, rules) {
            let Action::Preempt { victim, waiter } = action else { continue };
            let is_cancelled = scene.nodes[victim].session.as_ref().is_some_and(|(_, state)| state.preemptible);
            if !is_cancelled {
                self.track(&scene, settings, victim, waiter);
            }
        }
    }

    /// Counts the transactions that the policy would roll back, once for each unit, and for how long the waiter waits
    /// for that.
    fn track(&mut self, scene: &Scene, settings: &Settings, victim: usize, waiter: usize) {
        let [victim_is, waiter_is] = [victim, waiter].map(|at| scene.nodes[at].session.as_ref());
        let (Some((card, state)), Some(waiter_is)) = (victim_is, waiter_is) else { return };
        self.tracked.note((&waiter_is.0, &waiter_is.1), (card, state), Instant::now());
        let which = (state.transaction, state.unit);
        if self.dealt_with.insert(card.id, which) != Some(which) {
            count(&self.governor.statistics.class(state.class).preemptions_tracked);
            let outcome = match settings.is_beside {
                true => Outcome::TrackedBeside,
                false => Outcome::Tracked(state.replayable),
            };
            self.note(settings, scene, (victim, waiter), "tracked", outcome);
        }
    }

    /// Records an action and its victim for operators.
    fn note(
        &self,
        settings: &Settings,
        scene: &Scene,
        (victim, waiter): (usize, usize),
        done: &'static str,
        outcome: Outcome,
    ) -> Option<EventId> {
        let (of_waiter, waiter_is) = scene.nodes[waiter].session.as_ref()?;
        let of_victim = scene.nodes[victim].session.as_ref();
        let class_of = |state: &CardState| settings.class(state.class).name.clone();
        Some(self.governor.note(PreemptionEvent {
            id: EventId(0),
            at: SystemTime::now(),
            victim: (of_victim.map_or(SessionId(0), |(card, _)| card.id), scene.nodes[victim].process),
            victim_class: of_victim.map_or_else(|| "-".to_owned(), |(_, state)| class_of(state)),
            waiter: (of_waiter.id, scene.nodes[waiter].process),
            waiter_class: class_of(waiter_is),
            lever: if done == BREAKS_CYCLE { CYCLE.to_owned() } else { settings.preemption.policy.to_string() },
            waited: in_flight(waiter_is, Instant::now()),
            victim_was: blocked::doing(scene.graph.transactions[victim].activity),
            done,
            outcome,
            stake: self.ledger.stake(scene, victim, waiter, Instant::now()),
        }))
    }
}

/// The victim and the waiter of an action, if it rolls a transaction back.
fn preempted(action: &Action) -> Option<(usize, usize)> {
    match *action {
        Action::Preempt { victim, waiter } => Some((victim, waiter)),
        Action::Inherit { .. } => None,
    }
}
