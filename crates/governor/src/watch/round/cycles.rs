//! The cycles of a round that are to be broken.

use std::sync::atomic::Ordering;
use std::time::Instant;

use plimsoll_pg::connection::WireError;
use plimsoll_policy::{Cycle, StarvationBound, cycles};

use super::super::control::Up;
use super::super::graph::Scene;
use super::super::look::{waited_for, ways_out};
use super::Round;

impl Round {
    /// The cycles that the server could only end by failing a transaction. If two members wait for the same lock, one
    /// may merely be queued behind the other, and the server can let it pass. A member that is only the first in the line for
    /// a row is no victim: the next one would wait in its place, and the cycle go on. A member that may give up, or catch the
    /// server's error, ends the cycle without a victim. The server is asked only if there is a cycle to break.
    pub(super) fn cycles(
        &mut self,
        up: &mut Up,
        scene: &Scene,
        bound: StarvationBound,
    ) -> Result<Vec<Cycle>, WireError> {
        let found = cycles(&scene.graph, bound);
        if !found.iter().any(|cycle| cycle.stands && cycle.victim.is_some()) {
            return Ok(found);
        }
        let processes: Vec<i32> = scene.nodes.iter().map(|node| node.process).collect();
        let locks = waited_for(up, &processes)?;
        let mut graph = scene.graph.clone();
        graph.edges.retain_mut(|edge| {
            let [waiter, blocker] = [edge.waiter, edge.blocker].map(|at| locks.get(&processes[at]));
            // The first who waits for a row's transaction holds the lock of its tuple, for which the others wait.
            edge.is_line = waiter.is_some_and(|lock| lock.starts_with("tuple/"));
            waiter.is_some() && blocker.is_some() && waiter != blocker
        });
        let mut found = cycles(&graph, bound);
        if !found.iter().any(|cycle| cycle.stands && cycle.victim.is_some()) {
            return Ok(found);
        }
        let members = found.iter().flat_map(|cycle| &cycle.members).map(|at| processes[*at]);
        let now = Instant::now();
        let ways_out = ways_out(up, &members.collect::<Vec<_>>(), now)?;
        self.deadlock_timeout = ways_out.values().map(|way_out| way_out.deadlock_timeout).min().unwrap_or_default();
        if ways_out.values().any(|way_out| way_out.catches) {
            self.governor.code_catches.store(true, Ordering::Relaxed);
        }
        for cycle in &mut found {
            let is_held = |at: &usize| scene.nodes[*at].is_held(ways_out.get(&processes[*at]), now);
            cycle.victim = cycle.victim.filter(|_| cycle.members.iter().all(is_held));
        }
        Ok(found)
    }
}
