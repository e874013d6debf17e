//! One look at the wait graph, and the actions that follow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::{Action, Activity, Rules, Standing, WaitGraph};
use crate::{CpuVerdict, Priority, Requester, Stance, Verdict};

/// The actions to take: rollbacks first, in the order of the waiters that cause them, then inheritance. At most one
/// action for each transaction. Equal graphs give equal actions, in whatever order transactions and edges are listed,
/// as long as no two transactions have the same id.
///
/// # Panics
/// If an edge names a transaction that is not in the graph.
pub fn decide(graph: &WaitGraph, rules: &Rules<'_>) -> Vec<Action> {
    let look = Look::new(graph, rules);
    let waiters = look.waiters();
    let mut victims: Vec<Option<usize>> = vec![None; graph.transactions.len()];
    let mut actions = Vec::new();
    for &waiter in &waiters {
        // A victim no longer waits. A transaction that could make it a victim is more urgent and came earlier.
        if victims[waiter].is_some() {
            continue;
        }
        look.walk(waiter, |blocker, age| {
            if victims[blocker].is_none() && look.is_preempted(waiter, blocker, age) {
                victims[blocker] = Some(waiter);
                actions.push(Action::Preempt { victim: blocker, waiter });
            }
            victims[blocker].is_none()
        });
    }
    let mut inherited: Vec<Option<Priority>> = vec![None; graph.transactions.len()];
    for waiter in waiters.into_iter().filter(|waiter| victims[*waiter].is_none()) {
        look.walk(waiter, |blocker, _| {
            let stays = victims[blocker].is_none();
            if stays && look.inherits(waiter, blocker) {
                inherited[blocker] = inherited[blocker].max(Some(look.present[waiter]));
            }
            stays
        });
    }
    let mut heirs: Vec<usize> = (0..inherited.len()).filter(|at| inherited[*at].is_some()).collect();
    heirs.sort_unstable_by_key(|at| graph.transactions[*at].id);
    let inherit = |holder: usize| Some(Action::Inherit { holder, priority: inherited[holder]? });
    actions.extend(heirs.into_iter().filter_map(inherit));
    actions
}

/// How many more important transactions wait for each transaction, also indirectly: by the place in the graph.
///
/// # Panics
/// If an edge names a transaction that is not in the graph.
pub fn waiters_behind(graph: &WaitGraph, rules: &Rules<'_>) -> Vec<u32> {
    let look = Look::new(graph, rules);
    let mut behind = vec![0; graph.transactions.len()];
    for waiter in look.waiters() {
        look.walk(waiter, |blocker, _| {
            behind[blocker] += u32::from(look.is_below(waiter, blocker));
            true
        });
    }
    behind
}

#[derive(Debug)]
struct Look<'a> {
    transactions: &'a [Standing],
    rules: &'a Rules<'a>,
    /// The transactions that each one waits for, and for how long it has done so.
    blockers: Vec<Vec<(usize, Duration)>>,
    /// Present priorities: promotion included.
    present: Vec<Priority>,
    /// Whether it waits in a cycle.
    in_circle: Vec<bool>,
}

impl<'a> Look<'a> {
    fn new(graph: &'a WaitGraph, rules: &'a Rules<'a>) -> Self {
        let transactions = &graph.transactions;
        let mut blockers = vec![Vec::new(); transactions.len()];
        for edge in graph.edges.iter().filter(|edge| edge.waiter != edge.blocker) {
            let age = edge.since.map_or(Duration::ZERO, |since| graph.now.saturating_sub(since));
            blockers[edge.waiter].push((edge.blocker, age));
        }
        let present = transactions.iter().map(|it| rules.bound.present(it.priority, it.rollbacks)).collect();
        let in_circle = in_circles(&blockers);
        Look { transactions, rules, blockers, present, in_circle }
    }

    /// The waiters that can cause actions: the most urgent first, and among equals the one that has waited longest.
    fn waiters(&self) -> Vec<usize> {
        let waits = |at: &usize| self.transactions[*at].activity == Activity::WaitsForLock;
        let mut waiters: Vec<usize> =
            (0..self.transactions.len()).filter(waits).filter(|at| self.present[*at] > Priority::LOW).collect();
        waiters.sort_unstable_by_key(|at| {
            let standing = &self.transactions[*at];
            (Reverse(self.present[*at]), Reverse(standing.waited), standing.id)
        });
        waiters
    }

    /// Visits every transaction that `waiter` waits for, also indirectly, once, with the duration of that wait: that of
    /// the youngest link of the chain, and of several chains the oldest. `visit` returns whether to walk on through it.
    fn walk(&self, waiter: usize, mut visit: impl FnMut(usize, Duration) -> bool) {
        let mut is_visited = vec![false; self.transactions.len()];
        is_visited[waiter] = true;
        // The oldest chain comes first, and extending a chain makes none older, so each transaction is first reached by its oldest chain.
        let mut reached = BinaryHeap::new();
        let link = |from: usize, chain: Duration| {
            let links = self.blockers[from].iter();
            links.map(move |&(to, age)| (age.min(chain), Reverse(self.transactions[to].id), to))
        };
        reached.extend(link(waiter, Duration::MAX));
        while let Some((age, _, blocker)) = reached.pop() {
            // Cycles are broken elsewhere (`cycles`) or left to the server, together with the transactions behind them.
            let is_known = std::mem::replace(&mut is_visited[blocker], true);
            if !is_known && !self.in_circle[blocker] && visit(blocker, age) {
                reached.extend(link(blocker, age));
            }
        }
    }

    /// Whether it may be acted on for `waiter` at all.
    fn is_below(&self, waiter: usize, blocker: usize) -> bool {
        let is_ours = !matches!(self.transactions[blocker].activity, Activity::Prepared | Activity::Foreign);
        is_ours && self.present[blocker] < self.present[waiter]
    }

    fn requester_and_stance(&self, waiter: usize, blocker: usize) -> (Requester, Stance) {
        let holder = &self.transactions[blocker];
        let waiting = match holder.activity {
            Activity::WaitsForLock => true,
            Activity::WaitsForClient => self.rules.idle_counts_as_waiting,
            Activity::Runs | Activity::Prepared | Activity::Foreign => false,
        };
        let requester = Requester { priority: self.present[waiter], rollbacks: self.transactions[waiter].rollbacks };
        (requester, Stance { priority: self.present[blocker], waiting, rollbacks: holder.rollbacks })
    }

    fn is_preempted(&self, waiter: usize, blocker: usize, age: Duration) -> bool {
        if !self.transactions[blocker].preemptible || !self.is_below(waiter, blocker) {
            return false;
        }
        let (requester, holder) = self.requester_and_stance(waiter, blocker);
        let of_locks = self.rules.locks.verdict(&requester, &holder);
        let of_cpu = self.rules.cpu.map_or(CpuVerdict::Wait, |cpu| cpu.verdict(&requester, &holder));
        match of_cpu.joined(of_locks) {
            Verdict::Wait | Verdict::Inherit => false,
            Verdict::Preempt => true,
            Verdict::PreemptIfWaiting => holder.waiting,
            Verdict::PreemptAfter(reprieve) => age >= reprieve,
        }
    }

    fn inherits(&self, waiter: usize, blocker: usize) -> bool {
        let (requester, holder) = self.requester_and_stance(waiter, blocker);
        let of_cpu = self.rules.cpu.is_some_and(|cpu| cpu.verdict(&requester, &holder) == CpuVerdict::Inherit);
        let inherits = of_cpu || self.rules.locks.verdict(&requester, &holder) == Verdict::Inherit;
        inherits && self.is_below(waiter, blocker)
    }
}

/// The transactions that wait in a cycle, or between two cycles. Transactions that do not wait are removed until none
/// are left, then those for which none waits.
fn in_circles(blockers: &[Vec<(usize, Duration)>]) -> Vec<bool> {
    let mut waited_for_by = vec![Vec::new(); blockers.len()];
    let mut waits_for = vec![Vec::new(); blockers.len()];
    for (waiter, blockers) in blockers.iter().enumerate() {
        for &(blocker, _) in blockers {
            waits_for[waiter].push(blocker);
            waited_for_by[blocker].push(waiter);
        }
    }
    let mut is_left = vec![true; blockers.len()];
    take_away_ends(&mut is_left, &waits_for, &waited_for_by);
    take_away_ends(&mut is_left, &waited_for_by, &waits_for);
    is_left
}

/// Repeatedly removes those without links to any that is left. `back` is `links` reversed.
fn take_away_ends(is_left: &mut [bool], links: &[Vec<usize>], back: &[Vec<usize>]) {
    let count = |links: &Vec<usize>| links.iter().filter(|to| is_left[**to]).count();
    let mut counts: Vec<usize> = links.iter().map(count).collect();
    let mut ends: Vec<usize> = (0..links.len()).filter(|at| is_left[*at] && counts[*at] == 0).collect();
    while let Some(end) = ends.pop() {
        is_left[end] = false;
        for &from in &back[end] {
            counts[from] = counts[from].saturating_sub(1);
            if is_left[from] && counts[from] == 0 {
                ends.push(from);
            }
        }
    }
}
