//! Who holds up important units, and why the governor leaves that holder alone: for operators.
//!
//! Of a chain of waiters the last one is named, which waits for no other: its end would free the rest. A holder that is
//! left alone for a while is recorded as an event as well, once for each of its transactions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_policy::{Action, Activity, Priority, Rules};

use super::super::late::present_priority;
use super::super::look::Looked;
use super::{Node, Round, Scene};
use crate::governor::{Blocked, LeftAlone, Outcome};
use crate::registry::{Immunity, Phase};
use crate::settings::Settings;

/// How long a holder must have been in the way before it is recorded as left alone.
const NAMED_AFTER: Duration = Duration::from_millis(500);

/// A waiting unit and its holder, as places in the scene.
#[derive(Debug, Clone)]
struct Held {
    waiter: usize,
    holder: usize,
    blocked: Blocked,
}

impl Round {
    /// Publishes who holds up which units, and records the holders that are left alone although important work has
    /// waited for them for a while.
    pub(super) fn name_holders(
        &mut self,
        scene: &Scene,
        looked: &Looked,
        settings: &Settings,
        rules: &Rules<'_>,
        actions: &[Action],
    ) {
        let spares = |node: &Node| self.holds_advisory_lock(node) == Some(true);
        let held = held(scene, looked, settings, rules, actions, spares);
        for one in &held {
            let Some(why) = one.blocked.why.filter(|_| one.blocked.since.elapsed() >= NAMED_AFTER) else { continue };
            let holder = &scene.nodes[one.holder];
            if self.holds_advisory_lock(holder) == Some(true) {
                // It was recorded when it was spared.
                continue;
            }
            let transaction = holder.session.as_ref().map_or(0, |(_, state)| state.transaction);
            if self.named.insert(holder.process, transaction) != Some(transaction) {
                self.note(settings, scene, (one.holder, one.waiter), "left alone", Outcome::LeftAlone(why));
            }
        }
        *self.governor.blocked.lock() = held.into_iter().map(|one| one.blocked).collect();
    }
}

/// Every unit of ours that waits, with its holder. `spares` says whether a node is spared for an advisory lock.
fn held(
    scene: &Scene,
    looked: &Looked,
    settings: &Settings,
    rules: &Rules<'_>,
    actions: &[Action],
    spares: impl Fn(&Node) -> bool,
) -> Vec<Held> {
    let place: BTreeMap<i32, usize> = scene.nodes.iter().enumerate().map(|(at, node)| (node.process, at)).collect();
    let victims: Vec<i32> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Preempt { victim, .. } => Some(scene.nodes[*victim].process),
            Action::Inherit { .. } => None,
        })
        .collect();
    let of_waiter = |(waiter, node): (usize, &Node)| {
        let (card, state) = node.session.as_ref()?;
        let chain = chain_to_the_end(looked, node.process)?;
        let holder = place[&chain.last()?.1];
        let is_dealt_with = chain.iter().any(|(_, blocker)| victims.contains(blocker));
        let important = present_priority(settings, state);
        let why = (!is_dealt_with && important > Priority::LOW)
            .then(|| why(scene, (node, holder), looked.commits_wait, settings, rules, &spares));
        let of_holder = scene.nodes[holder].session.as_ref();
        let blocked = Blocked {
            waiter: card.id,
            waiter_class: settings.class(state.class).name.clone(),
            unit: (state.transaction, state.unit),
            since: state.since,
            holder: of_holder.map(|(card, _)| card.id),
            holder_process: scene.nodes[holder].process,
            holder_class: of_holder.map(|(_, state)| settings.class(state.class).name.clone()),
            holder_was: doing(scene.graph.transactions[holder].activity),
            why,
        };
        Some(Held { waiter, holder, blocked })
    };
    scene.nodes.iter().enumerate().filter_map(of_waiter).collect()
}

/// The links from a waiter to a process that it waits for and that waits for no other; `None` in a cycle.
fn chain_to_the_end(looked: &Looked, waiter: i32) -> Option<Vec<(i32, i32)>> {
    let ends = looked.processes().into_iter().filter(|process| !looked.waits.contains_key(process));
    let chains = ends.filter_map(|end| looked.chain(waiter, end)).filter(|chain| !chain.is_empty());
    chains.min_by_key(Vec::len)
}

/// What a process does, in words.
pub(super) fn doing(activity: Activity) -> &'static str {
    match activity {
        Activity::WaitsForLock => "waited for a lock",
        Activity::WaitsForClient => "waited for its client",
        Activity::Prepared => "prepared",
        Activity::Runs | Activity::Foreign => "ran",
    }
}

/// Why a holder is neither rolled back nor counted.
fn why(
    scene: &Scene,
    (waiter, holder): (&Node, usize),
    commits_wait: bool,
    settings: &Settings,
    rules: &Rules<'_>,
    spares: impl Fn(&Node) -> bool,
) -> LeftAlone {
    let (node, standing) = (&scene.nodes[holder], &scene.graph.transactions[holder]);
    let Some((_, state)) = &node.session else {
        return if standing.activity == Activity::Prepared { LeftAlone::Prepared } else { LeftAlone::Foreign };
    };
    let class = settings.class(state.class);
    let waiters = waiter.session.as_ref().map_or(Priority::LOW, |(_, state)| present_priority(settings, state));
    if state.observed.is_some() && !settings.is_beside {
        return LeftAlone::Direct;
    }
    if class.limits.priority >= waiters {
        return LeftAlone::AsImportant;
    }
    if rules.bound.present(standing.priority, standing.rollbacks) >= waiters {
        return LeftAlone::Promoted;
    }
    let thinks = state.phase == Phase::IdleInTransaction;
    match state.immunity(commits_wait, Instant::now()) {
        _ if settings.is_beside && thinks => LeftAlone::OutOfReach,
        _ if settings.is_beside && !(class.preemptible && class.retries) => LeftAlone::NotOptedIn,
        _ if !class.preemptible => LeftAlone::NotPreemptible,
        Some(Immunity::NoRetry) => LeftAlone::NoRetry,
        Some(immunity) => LeftAlone::Immune(immunity),
        None if spares(node) => LeftAlone::Immune(Immunity::AdvisoryLock),
        None if !standing.preemptible => LeftAlone::TooDear,
        None => LeftAlone::Policy,
    }
}
