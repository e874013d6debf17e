//! Which transaction of a cycle is rolled back so that the others can continue.

use std::cmp::Reverse;

use crate::Priority;

/// One transaction of a cycle of waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CycleMember {
    /// The priority that it began with, promotion included. Inherited priority does not count: in a cycle all members inherit the
    /// highest, and then the transaction that the rollback is meant to help could be the victim.
    pub priority: Priority,
    /// How often it has already been rolled back. A count.
    pub rollbacks: u32,
    /// How many locks it holds: a measure of the work that would be lost. A count.
    pub locks: u32,
    /// When it began, as a number that grows from transaction to transaction.
    pub began: u64,
}

/// The position in `cycle` of the victim: the lowest priority, then the fewest rollbacks so far (so that no transaction
/// loses forever), then the fewest locks, then the youngest.
///
/// # Panics
/// If the cycle is empty.
pub fn deadlock_victim(cycle: &[CycleMember]) -> usize {
    let cost = |member: &CycleMember| (member.priority, member.rollbacks, member.locks, Reverse(member.began));
    (0..cycle.len()).min_by_key(|&at| cost(&cycle[at])).expect("a cycle has members")
}

#[cfg(test)]
mod tests {
    use super::*;
    const LOW: Priority = Priority::LOW;
    const HIGH: Priority = Priority::HIGH;

    #[test]
    fn the_cheapest_of_the_least_important_loses() {
        let member = |(priority, rollbacks, locks, began)| CycleMember { priority, rollbacks, locks, began };
        for (cycle, victim) in [
            (vec![(HIGH, 0, 1, 9), (LOW, 3, 90, 1)], 1),
            (vec![(LOW, 1, 1, 9), (LOW, 0, 90, 1)], 1),
            (vec![(LOW, 0, 2, 9), (LOW, 0, 5, 10)], 0),
            (vec![(LOW, 0, 2, 9), (LOW, 0, 2, 10)], 1),
        ] {
            let members: Vec<_> = cycle.iter().copied().map(member).collect();
            assert_eq!(deadlock_victim(&members), victim, "{cycle:?}");
        }
    }
}
