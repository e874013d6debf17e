//! A queue in which tenants take turns.
//!
//! Each turn goes to the oldest request of the tenant that has waited longest for its turn, so that a tenant with many
//! clients gets no more than one with few. Requests of one tenant stay in the order in which they came; if all are of
//! one tenant, the queue is first come, first served.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::{ClassIndex, Ticket};

/// A transaction that wants room: a place inside, a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Its number; no two that wait may have the same.
    pub ticket: Ticket,
    /// Its class.
    pub class: ClassIndex,
    /// On whose behalf it asks, such as a hash of the user.
    pub tenant: u64,
}

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub ticket: Ticket,
    /// On whose behalf it waits.
    pub tenant: u64,
    /// Since when; not before that of an earlier request.
    pub since: Duration,
    /// Its number in the order of arrival. The host chooses it, ascending.
    pub arrival: u64,
}

/// Those who wait.
#[derive(Debug, Default)]
pub(crate) struct TurnQueue {
    /// The tenants that have waiters; the first is next.
    turns: VecDeque<u64>,
    /// Each in the order of arrival, and none empty.
    waiting: HashMap<u64, VecDeque<Waiter>>,
    tickets: HashMap<Ticket, Waiter>,
    /// In the order of arrival, those included that no longer wait; the first one still does.
    arrivals: VecDeque<Waiter>,
}

impl TurnQueue {
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// A count.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    /// The one that has waited longest.
    pub fn oldest(&self) -> Option<&Waiter> {
        self.arrivals.front()
    }

    pub fn push(&mut self, waiter: Waiter) {
        let queue = self.waiting.entry(waiter.tenant).or_default();
        if queue.is_empty() {
            self.turns.push_back(waiter.tenant);
        }
        queue.push_back(waiter);
        self.arrivals.push_back(waiter);
        self.tickets.insert(waiter.ticket, waiter);
    }

    /// All that wait, in the order of their turns if no other came.
    pub fn in_order(&self) -> Vec<&Waiter> {
        let tenants = self.turns.iter().enumerate();
        let mut all: Vec<_> = tenants
            .flat_map(|(turn, tenant)| {
                self.waiting[tenant].iter().zip(0..).map(move |(one, round)| ((round, turn), one))
            })
            .collect();
        all.sort_unstable_by_key(|(place, _): &((usize, usize), _)| *place);
        all.into_iter().map(|(_, one)| one).collect()
    }

    /// The first in that order that is `fit`.
    pub fn first(&self, fit: impl Fn(&Waiter) -> bool) -> Option<&Waiter> {
        let mut firsts = self.turns.iter().filter_map(|tenant| self.waiting[tenant].front());
        firsts.find(|waiter| fit(waiter)).or_else(|| self.in_order().into_iter().find(|waiter| fit(waiter)))
    }

    /// Takes out one that has had its tenant's turn; `None` if it does not wait.
    pub fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.remove(ticket)?;
        if self.waiting.contains_key(&waiter.tenant) {
            self.end_turn(waiter.tenant);
            self.turns.push_back(waiter.tenant);
        }
        Some(waiter)
    }

    /// Takes the tenant out of the list; most often it is the first.
    fn end_turn(&mut self, tenant: u64) {
        match self.turns.front() == Some(&tenant) {
            true => _ = self.turns.pop_front(),
            false => self.turns.retain(|other| *other != tenant),
        }
    }

    /// Takes out one that no longer waits; `None` if it did not. Its tenant keeps its turn.
    pub fn remove(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.tickets.remove(&ticket)?;
        let queue = self.waiting.get_mut(&waiter.tenant)?;
        let at = queue.binary_search_by_key(&waiter.arrival, |other| other.arrival).ok()?;
        queue.remove(at);
        if queue.is_empty() {
            self.waiting.remove(&waiter.tenant);
            self.end_turn(waiter.tenant);
        }
        while self.arrivals.front().is_some_and(|first| self.tickets.get(&first.ticket) != Some(first)) {
            self.arrivals.pop_front();
        }
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A plain list, in which the next is looked for: the tenant that has waited longest for its turn, and its oldest.
        #[test]
        fn turns_follow_a_plain_list(steps in prop::collection::vec((0..4_u8, 0..12_u64, 0..4_u64), 1..200)) {
            let (mut queue, mut list) = (TurnQueue::default(), Vec::<Waiter>::new());
            // When each tenant with waiters began to wait for its turn.
            let mut turns = Vec::<u64>::new();
            for ((deed, ticket, tenant), arrival) in steps.into_iter().zip(0_u64..) {
                let ticket = Ticket(ticket);
                let waits = list.iter().any(|waiter| waiter.ticket == ticket);
                match deed {
                    0 | 1 if !waits => {
                        let waiter = Waiter { ticket, tenant, since: Duration::from_secs(arrival), arrival };
                        queue.push(waiter);
                        list.push(waiter);
                    }
                    2 => {
                        // Tickets of some numbers may not be taken now.
                        let fit = |waiter: &Waiter| waiter.ticket.0 != 3;
                        let in_round = |round: usize| {
                            let nth = |tenant: &u64| list.iter().filter(|waiter| waiter.tenant == *tenant).nth(round);
                            turns.iter().filter_map(nth).find(|waiter| fit(waiter))
                        };
                        let next = (0..list.len()).find_map(in_round).copied();
                        prop_assert_eq!(queue.first(fit).copied(), next);
                        if let Some(next) = next {
                            prop_assert_eq!(queue.take(next.ticket), Some(next));
                            list.retain(|waiter| *waiter != next);
                            turns.retain(|tenant| *tenant != next.tenant);
                            turns.push(next.tenant);
                        }
                    }
                    _ => {
                        prop_assert_eq!(queue.remove(ticket).is_some(), waits);
                        list.retain(|waiter| waiter.ticket != ticket);
                    }
                }
                turns.retain(|tenant| list.iter().any(|waiter| waiter.tenant == *tenant));
                let new = list.iter().map(|waiter| waiter.tenant).find(|tenant| !turns.contains(tenant));
                turns.extend(new);
                prop_assert_eq!(queue.oldest(), list.first());
                prop_assert_eq!((queue.len(), queue.is_empty()), (list.len(), list.is_empty()));
                prop_assert_eq!(queue.in_order().len(), list.len());
            }
        }
    }
}
