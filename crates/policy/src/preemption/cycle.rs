//! Cycles of waiters, and which transaction of each is rolled back so that the others can continue.
//!
//! A server looks for a deadlock when a process has waited for `deadlock_timeout`, one second by default, and then
//! fails the transaction that happened to look. A host that sees the wait graph can break the cycle at once, and choose
//! the victim. Breaking a cycle differs from preempting: it needs no more important waiter, because the server would
//! have failed one of the members.

use std::collections::{BTreeMap, VecDeque};

use super::{Activity, CycleLoss, WaitGraph};
use crate::{CycleMember, StarvationBound, deadlock_victim};

/// Transactions in which each waits for the next, and the last for the first. All are places in
/// [`WaitGraph::transactions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// The transactions, beginning with the one of the lowest id.
    pub members: Vec<usize>,
    /// The victim; `None` if no member may be rolled back, so that the cycle is left to the server.
    pub victim: Option<usize>,
    /// Whether the previous look showed every link, too. A look takes time, so a cycle that was seen once may never
    /// have existed.
    pub stands: bool,
}

/// The cycles of a graph: those that stand first. A transaction that is the victim of one cycle is in no other.
///
/// Among those that may be rolled back for a cycle, and that hold what another member waits for, the victim has the lowest
/// priority; then preferably a client that
/// will not notice; then the fewest rollbacks so far, so that no transaction loses forever; then the latest start.
///
/// # Panics
/// If an edge names a transaction that is not in the graph.
pub fn cycles(graph: &WaitGraph, bound: StarvationBound) -> Vec<Cycle> {
    let mut found = Vec::new();
    let mut is_left = vec![true; graph.transactions.len()];
    let mut places: Vec<usize> = (0..graph.transactions.len()).collect();
    places.sort_unstable_by_key(|place| graph.transactions[*place].id);
    for only_standing in [true, false] {
        let links = links(graph, only_standing);
        for &start in &places {
            while let Some(members) = shortest(&links, &is_left, start) {
                let victim = victim(graph, bound, &members);
                // A cycle that cannot be broken is found once; transactions that are in further cycles are still found.
                is_left[victim.unwrap_or(start)] = false;
                found.push(Cycle { members, victim, stands: only_standing });
            }
        }
    }
    found
}

/// The transactions that each one waits for, in the order of ids.
fn links(graph: &WaitGraph, only_standing: bool) -> Vec<Vec<usize>> {
    let mut links = vec![Vec::new(); graph.transactions.len()];
    for edge in graph.edges.iter().filter(|edge| edge.waiter != edge.blocker && (edge.stands || !only_standing)) {
        links[edge.waiter].push(edge.blocker);
    }
    for blockers in &mut links {
        blockers.sort_unstable_by_key(|place| graph.transactions[*place].id);
    }
    links
}

/// A shortest cycle through a transaction among those that are left.
fn shortest(links: &[Vec<usize>], is_left: &[bool], start: usize) -> Option<Vec<usize>> {
    if !is_left[start] {
        return None;
    }
    let mut reached_from = BTreeMap::new();
    let mut todo = VecDeque::from([start]);
    while let Some(at) = todo.pop_front() {
        for &next in links[at].iter().filter(|next| is_left[**next]) {
            if next == start {
                let mut members = vec![at];
                while let Some(&before) = reached_from.get(members.last()?) {
                    members.push(before);
                }
                members.reverse();
                return Some(members);
            }
            reached_from.entry(next).or_insert_with(|| {
                todo.push_back(next);
                at
            });
        }
    }
    None
}

fn victim(graph: &WaitGraph, bound: StarvationBound, members: &[usize]) -> Option<usize> {
    let standing = |member: usize| &graph.transactions[member];
    let present = |member: usize| bound.present(standing(member).priority, standing(member).rollbacks);
    let may_lose =
        |member: &usize| standing(*member).cycle_loss.is_some() && standing(*member).activity == Activity::WaitsForLock;
    let holds = |(waiter, blocker): (usize, usize)| {
        graph.edges.iter().any(|edge| (edge.waiter, edge.blocker) == (waiter, blocker) && !edge.is_line)
    };
    let waiters = members.iter().cycle().skip(members.len() - 1);
    let holders = waiters.zip(members).filter(|(waiter, blocker)| holds((**waiter, **blocker)));
    let mut eligible: Vec<usize> = holders.map(|(_, member)| *member).filter(may_lose).collect();
    let lowest = eligible.iter().map(|member| present(*member)).min()?;
    eligible.retain(|member| present(*member) == lowest);
    let is_unnoticed = |member: &usize| standing(*member).cycle_loss == Some(CycleLoss::Unnoticed);
    if eligible.iter().any(is_unnoticed) {
        eligible.retain(is_unnoticed);
    }
    let cycle: Vec<CycleMember> = eligible
        .iter()
        .map(|member| CycleMember {
            priority: lowest,
            rollbacks: standing(*member).rollbacks.saturating_add(standing(*member).aborts),
            // A look does not show it.
            locks: 0,
            began: u64::try_from(standing(*member).began.as_micros()).unwrap_or(u64::MAX),
        })
        .collect();
    Some(eligible[deadlock_victim(&cycle)])
}
