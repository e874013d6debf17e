//! The clients of a recording: as many as sessions were at work at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::plan::Plan;

/// The sessions of each client, in their order. A session goes to the client that has been free for the longest time.
pub(super) fn lanes(plan: &Plan) -> Vec<Vec<usize>> {
    let mut order: Vec<(u64, usize)> =
        plan.sessions.iter().enumerate().filter_map(|(at, script)| Some((script.units.first()?.at_us, at))).collect();
    order.sort_unstable();
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let mut free: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (begins_us, session) in order {
        let lane = match free.peek() {
            Some(Reverse((since_us, lane))) if *since_us <= begins_us => {
                let lane = *lane;
                free.pop();
                lane
            }
            _ => {
                lanes.push(Vec::new());
                lanes.len() - 1
            }
        };
        lanes[lane].push(session);
        let units = &plan.sessions[session].units;
        let ends_us = units.iter().map(|unit| unit.at_us.saturating_add(unit.took_us)).max().unwrap_or(begins_us);
        free.push(Reverse((ends_us, lane)));
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Selection;
    use crate::testing::events;

    #[test]
    fn sessions_that_were_at_work_at_once_have_clients_of_their_own() {
        let table = "1 | 0-10 | I | select 1
                     2 | 5-15 | I | select 1
                     3 | 10-20 | I | select 1
                     4 | 30-40 | I | select 1
                     5 | 30-31 | I | select 1
                     6 | 32-33 | I | select 1";
        assert_eq!(lanes(&Plan::of(events(table), &Selection::ALL)), [vec![0, 2, 4, 5], vec![1, 3]]);
        assert!(lanes(&Plan::default()).is_empty());
    }
}
