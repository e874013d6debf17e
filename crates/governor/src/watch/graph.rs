//! The result of a look, combined with the sessions' cards, in the form that policies expect.
//!
//! A card may be ahead of the look or behind it. That does no harm: a session is aimed at only if its card is
//! unchanged, and the server then checks again that it still blocks the waiter.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_policy::{Activity, CycleLoss, Edge, Priority, Standing, WaitGraph};

use super::late::in_flight;
use super::look::{Looked, WayOut};
use crate::registry::{CardState, Phase, SessionCard};
use crate::settings::Settings;

/// A transaction of the graph.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// The server's process; 0 for a prepared transaction.
    pub process: i32,
    /// Its session, if it is one of ours, with a copy of its card.
    pub session: Option<(Arc<SessionCard>, CardState)>,
}

/// The graph, and the session behind each of its transactions.
#[derive(Debug)]
pub(super) struct Scene {
    /// The input of the policy.
    pub graph: WaitGraph,
    /// The process and session of each transaction in the graph.
    pub nodes: Vec<Node>,
}

/// One end of a link: a process, and the number of its transaction if it is one of ours. A wait of one transaction is
/// therefore never attributed to the next one of the same process.
type End = (i32, u64);

/// The units at both ends: while one waits for the other in a cycle, neither begins its next unit.
type Units = (u64, u64);

/// When each link of the last look was first seen, on the governor's clock.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<(End, End), (Duration, Units)>);

impl Links {
    /// Builds the graph of a look, and keeps its links for the next one.
    pub(super) fn scene(
        &mut self,
        looked: &Looked,
        cards: Vec<(i32, Arc<SessionCard>)>,
        settings: &Settings,
        now: Instant,
        clock: Duration,
    ) -> Scene {
        let mut sessions: BTreeMap<i32, (Arc<SessionCard>, CardState)> = BTreeMap::new();
        for (process, card) in cards {
            let state = card.state().clone();
            sessions.insert(process, (card, state));
        }
        let processes = looked.processes();
        let node = |process: &i32| Node { process: *process, session: sessions.remove(process) };
        let nodes: Vec<Node> = processes.iter().map(node).collect();
        let transactions = nodes.iter().map(|node| standing(node, looked, settings, now, clock)).collect();
        let place = |process: i32| processes.binary_search(&process).expect("it is one of the look's processes");
        let mut edges = Vec::new();
        let mut links = BTreeMap::new();
        for (&waiter, blockers) in &looked.waits {
            for &blocker in blockers {
                let (waiter, blocker) = (place(waiter), place(blocker));
                let link = (nodes[waiter].end(), nodes[blocker].end());
                let units = (nodes[waiter].unit(), nodes[blocker].unit());
                let before = self.0.get(&link).copied();
                let since = before.map(|(since, _)| since);
                links.insert(link, (since.unwrap_or(clock), units));
                let stands = before.is_some_and(|(_, before)| before == units);
                edges.push(Edge { waiter, blocker, since, stands, is_line: false });
            }
        }
        self.0 = links;
        Scene { graph: WaitGraph { now: clock, transactions, edges }, nodes }
    }
}

impl fmt::Display for Scene {
    /// One line per link: the waiter, the blocker, and what is known of both, for the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, edge) in self.graph.edges.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            let stands = if edge.stands { "" } else { " (new)" };
            write!(f, "{separator}{} -> {}{stands}", self.described(edge.waiter), self.described(edge.blocker))?;
        }
        Ok(())
    }
}

impl Scene {
    fn described(&self, at: usize) -> String {
        let (node, standing) = (&self.nodes[at], &self.graph.transactions[at]);
        let activity = match standing.activity {
            Activity::Runs => "runs",
            Activity::WaitsForLock => "waits",
            Activity::WaitsForClient => "thinks",
            Activity::Prepared => return "prepared".to_owned(),
            Activity::Foreign => return format!("{} foreign", node.process),
        };
        let loses = match (standing.preemptible, standing.cycle_loss) {
            (true, _) => "",
            (false, Some(_)) => " cycles-only",
            (false, None) => " fixed",
        };
        format!("{} {} {activity}{loses}", node.process, standing.priority)
    }
}

impl Node {
    fn end(&self) -> End {
        (self.process, self.session.as_ref().map_or(0, |(_, state)| state.transaction))
    }

    /// Whether its waiting in a cycle certainly does not end before the server looks for a deadlock, and the server's error
    /// would certainly reach its client. Sessions beside the governor are unknown.
    pub(super) fn is_held(&self, way_out: Option<&WayOut>, now: Instant) -> bool {
        let (Some((_, state)), Some(way_out)) = (&self.session, way_out) else { return false };
        let may_catch = way_out.catches && state.may_catch;
        !may_catch && !state.gives_up_within(way_out.deadlock_timeout, now)
    }

    fn unit(&self) -> u64 {
        self.session.as_ref().map_or(0, |(_, state)| state.unit)
    }
}

fn standing(node: &Node, looked: &Looked, settings: &Settings, now: Instant, clock: Duration) -> Standing {
    let id = u64::from(node.process.unsigned_abs());
    let waits = looked.waits.contains_key(&node.process);
    let Some((_, state)) = &node.session else {
        let activity = if node.process == 0 { Activity::Prepared } else { Activity::Foreign };
        let priority = Priority::LOW;
        return Standing {
            id,
            priority,
            rollbacks: 0,
            activity,
            preemptible: false,
            waited: Duration::ZERO,
            began: Duration::ZERO,
            aborts: 0,
            cycle_loss: None,
        };
    };
    let activity = match state.phase {
        _ if waits => Activity::WaitsForLock,
        Phase::Active | Phase::Preempted | Phase::Starting | Phase::Ungoverned => Activity::Runs,
        Phase::IdleInTransaction | Phase::Idle | Phase::Queued => Activity::WaitsForClient,
    };
    Standing {
        id,
        priority: if state.is_class_certain { settings.class(state.class).limits.priority } else { Priority::LOW },
        rollbacks: state.rollbacks,
        activity,
        preemptible: is_preemptible(state) && state.immunity(looked.commits_wait, now).is_none(),
        waited: if waits { in_flight(state, now) } else { Duration::ZERO },
        began: clock.saturating_sub(now.saturating_duration_since(state.transaction_since)),
        aborts: state.aborts,
        cycle_loss: cycle_loss(state, settings, now)
            .filter(|_| state.phase == Phase::Active && !state.may_wait_for_standby(looked.commits_wait)),
    }
}

/// How a rollback to break a cycle would affect its client: it is not replayed after too much of a timeout.
fn cycle_loss(state: &CardState, settings: &Settings, now: Instant) -> Option<CycleLoss> {
    let class = settings.class(state.class);
    match state.cycle_loss {
        Some(_) if state.has_used_timeout(now) => (class.preemptible && class.retries).then_some(CycleLoss::Told),
        loss => loss,
    }
}

/// Whether a session's transaction may be considered for rollback. Its card records the reasons against it. Outside of
/// a transaction, a session can only block others by locks of its own, which no rollback would free.
fn is_preemptible(state: &CardState) -> bool {
    state.preemptible && matches!(state.phase, Phase::Active | Phase::IdleInTransaction)
}
