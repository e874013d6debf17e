//! Events that happen by themselves, and the search for an order of them that explains the observations.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_engine::lock::{RequestError, State};
use plimsoll_policy::Priority;

use super::lock_host::{Outcome, Thing, Who};
use super::specification::{CpuRule, Rule, Specification};

/// An event that follows from the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The best waiter of a thing is granted the lock.
    Grant(Thing, Who),
    /// It has read the gap into which another gap that it has read was merged.
    HandOn(Who, Thing),
    /// It gets a priority for the rest of its life.
    Inherit(Who, Priority),
    /// It gets a CPU priority for the rest of its life.
    Hurry(Who, Priority),
    /// It is to be rolled back for a more urgent transaction.
    Preempt(Who),
    /// It is to be rolled back to break a cycle of waiters.
    BreakCircle(Who),
}

/// The visible state of a participant.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub state: State,
    pub priority: Priority,
    pub nice: i32,
    pub outcome: Option<Outcome>,
}

impl Specification {
    /// The events that must happen, each a possible next one. None may be left when a call returns.
    pub fn events(&self) -> Vec<Event> {
        let mut events: Vec<_> = self.heirs.iter().map(|(who, gap)| Event::HandOn(*who, *gap)).collect();
        for (waiter, in_way) in self.pairs() {
            let goes_on = matches!(self.transactions[in_way].state, State::Running | State::Waiting);
            let verdicts = self.verdicts(waiter, in_way, self.now).into_iter().filter(|_| goes_on);
            for event in verdicts {
                if !events.contains(&event) {
                    events.push(event);
                }
            }
        }
        if events.is_empty() {
            // An heir may be part of a cycle only until the transactions for which it waits have inherited too.
            events.extend(self.victims_of_circles().into_iter().map(Event::BreakCircle));
        }
        for &thing in self.locks.keys() {
            events.extend(self.can_be_granted(thing).map(|first| Event::Grant(thing, first.who)));
        }
        events
    }

    /// Every waiter with every transaction about which the rules say something.
    fn pairs(&self) -> impl Iterator<Item = (Who, Who)> {
        let judged = |waiter| match self.rules.lock {
            Rule::Wdl => self.waited_for_by(waiter),
            _ => self.in_the_way_of(waiter),
        };
        (0..self.transactions.len())
            .flat_map(move |waiter| judged(waiter).into_iter().map(move |other| (waiter, other)))
    }

    /// The verdicts of the rules at that time about a transaction that blocks a waiter.
    fn verdicts(&self, waiter: Who, in_way: Who, now: Duration) -> Vec<Event> {
        let (requester, holder) = (&self.transactions[waiter], &self.transactions[in_way]);
        let low_blocks_high = holder.priority < requester.priority;
        let low_cpu_blocks_high = holder.cpu < requester.cpu && self.in_the_way_of(waiter).contains(&in_way);
        let waits = holder.state == State::Waiting;
        let preempts = match self.rules.lock {
            Rule::Standard | Rule::NPrio | Rule::Inherit | Rule::Chosen(_) => false,
            Rule::PAbort => low_blocks_high,
            Rule::Pow => low_blocks_high && waits,
            Rule::ConditionalRestart(reprieve) => {
                low_blocks_high && now >= self.in_way_since[&(waiter, in_way)] + reprieve
            }
            Rule::Wdl | Rule::WdlHolders => waits,
        };
        let preempts = preempts || (self.rules.cpu == CpuRule::Preempt && low_cpu_blocks_high);
        let can_be = matches!(holder.state, State::Running | State::Waiting) && holder.priority != Priority::PROMOTED;
        if preempts && can_be {
            return vec![Event::Preempt(in_way)];
        }
        let inherits = self.rules.lock == Rule::Inherit && low_blocks_high;
        let hurries = self.rules.cpu == CpuRule::Inherit && low_cpu_blocks_high;
        let inherit = inherits.then_some(Event::Inherit(in_way, requester.priority));
        inherit.into_iter().chain(hurries.then_some(Event::Hurry(in_way, requester.cpu))).collect()
    }

    /// When the next reprieve ends, if nothing else happens before.
    pub fn next_due(&self) -> Option<Duration> {
        let Rule::ConditionalRestart(reprieve) = self.rules.lock else { return None };
        let ends = self.in_way_since.iter().filter_map(|(&(waiter, in_way), since)| {
            let end = *since + reprieve;
            self.verdicts(waiter, in_way, end).contains(&Event::Preempt(in_way)).then_some(end)
        });
        ends.min()
    }

    /// Events that may happen but need not: a transaction that is ending may get CPU priority or inherit too.
    fn optional_events(&self) -> Vec<Event> {
        let pairs = self.pairs();
        let ends = |who: Who| !matches!(self.transactions[who].state, State::Running | State::Waiting);
        pairs
            .filter(|(_, in_way)| ends(*in_way))
            .flat_map(|(waiter, in_way)| self.verdicts(waiter, in_way, self.now))
            .collect()
    }

    /// For each cycle of waiters the victim that loses least: lowest priority when it began, then fewest rollbacks,
    /// then fewest locks, then youngest.
    fn victims_of_circles(&self) -> BTreeSet<Who> {
        let waits_for: Vec<Vec<Who>> = (0..self.transactions.len()).map(|who| self.waited_for_by(who)).collect();
        let mut victims = BTreeSet::new();
        for start in 0..waits_for.len() {
            self.walk(&waits_for, &mut vec![start], &mut victims);
        }
        victims
    }

    /// Follows every continuation of `path`, whose first member is its smallest, so that each cycle is found once.
    fn walk(&self, waits_for: &[Vec<Who>], path: &mut Vec<Who>, victims: &mut BTreeSet<Who>) {
        let (first, last) = (path[0], *path.last().expect("it has a first"));
        for &next in &waits_for[last] {
            if next == first {
                let loss = |who: &Who| {
                    let transaction = &self.transactions[*who];
                    (transaction.born, transaction.rollbacks, self.held(*who).len(), Reverse(transaction.began))
                };
                victims.extend(path.iter().copied().min_by_key(loss));
            } else if next > first && !path.contains(&next) {
                path.push(next);
                self.walk(waits_for, path, victims);
                path.pop();
            }
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Grant(thing, who) => self.grant(thing, who),
            Event::HandOn(who, gap) => self.hand_on(who, gap),
            Event::Inherit(who, priority) => {
                let transaction = &mut self.transactions[who];
                (transaction.priority, transaction.cpu) = (priority, transaction.cpu.max(priority));
            }
            Event::Hurry(who, priority) => self.transactions[who].cpu = priority,
            Event::Preempt(who) => self.doom(who, RequestError::Preempted),
            Event::BreakCircle(who) => self.doom(who, RequestError::Deadlock),
        }
        self.note_who_is_in_the_way();
    }

    /// The state after all events, in an order that explains the observations, if one exists.
    pub fn explain(&self, seen: &[Seen]) -> Option<Specification> {
        let mut events = self.events();
        if events.is_empty() && self.looks_like(seen) {
            return Some(self.clone());
        }
        events.extend(self.optional_events());
        let possible = events.into_iter().filter(|event| self.could_have_happened(*event, seen));
        possible.into_iter().find_map(|event| {
            let mut next = self.clone();
            next.apply(event);
            next.explain(seen)
        })
    }

    fn looks_like(&self, seen: &[Seen]) -> bool {
        self.transactions.iter().zip(seen).enumerate().all(|(who, (transaction, seen))| {
            // Between transactions a thread keeps the values of the last one.
            let has_nice_value = seen.state == State::Idle || self.nice(who) == seen.nice;
            has_nice_value
                && transaction.state == seen.state
                && transaction.priority == seen.priority
                && transaction.outcome == seen.outcome
        })
    }

    /// Shortens the search: events that were not observed need not be tried.
    fn could_have_happened(&self, event: Event, seen: &[Seen]) -> bool {
        match event {
            Event::Grant(_, who) => matches!(seen[who].outcome, Some(Ok(_))),
            Event::HandOn(..) | Event::Hurry(..) => true,
            Event::Inherit(who, priority) => priority <= seen[who].priority,
            Event::Preempt(who) => seen[who].state == State::Doomed(RequestError::Preempted),
            Event::BreakCircle(who) => seen[who].state == State::Doomed(RequestError::Deadlock),
        }
    }
}
