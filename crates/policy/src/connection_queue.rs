//! Who gets the next free connection of a pool.
//!
//! A pool has fewer server connections than clients. A transaction *asks* for one when it begins; it *enters* if one is
//! free, and otherwise waits. When a connection comes free, [`next`](ConnectionQueue::next) names who gets it:
//!
//! 1. the class of the highest priority; among equal priorities the one that has waited longest;
//! 2. but one time in ten the class in which a transaction has waited longest, if that is longer than the patience: so
//!    no class starves, and one that is always late takes little from the important ones;
//! 3. within a class the tenants take turns, each with its oldest transaction, so that one with many clients gets no
//!    more than one with few.
//!
//! A class never has more connections than its most. Connections up to the least of a class are kept for it: others may
//! take one only if as many remain free as classes below their least still lack.
//!
//! A pool whose waiting is in the order of priorities is the external queue of McWherter et al., *Priority Mechanisms
//! for OLTP and Transactional Web Applications*, 2004. This module has no threads and no clock.

use std::time::Duration;

use crate::turns::{Claim, TurnQueue, Waiter};
use crate::{ClassIndex, Priority, Ticket};

/// Of so many connections one may go to a class that has waited for longer than the patience.
const OVERDUE_EVERY: u32 = 10;

/// The part of a class in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolShare {
    /// Transactions of the highest priority get connections first.
    pub priority: Priority,
    /// How many connections are kept for it.
    pub least: u32,
    /// How many it may have at once; `None` for all.
    pub most: Option<u32>,
}

#[derive(Debug)]
struct Class {
    share: PoolShare,
    in_use: u32,
    queue: TurnQueue,
}

impl Class {
    fn new(share: PoolShare) -> Self {
        Class { share, in_use: 0, queue: TurnQueue::default() }
    }

    fn is_at_most(&self) -> bool {
        self.share.most.is_some_and(|most| self.in_use >= most)
    }

    /// How many connections are to be kept free for it.
    fn lacks(&self) -> u32 {
        self.share.least.saturating_sub(self.in_use)
    }

    /// Since when its first waiter has waited.
    fn oldest(&self) -> Option<Duration> {
        self.queue.oldest().map(|first| first.since)
    }
}

/// The connections of a pool that are in use, and those who wait for one.
#[derive(Debug)]
pub struct ConnectionQueue {
    size: u32,
    in_use: u32,
    classes: Vec<Class>,
    arrivals: u64,
    patience: Duration,
    /// How many have been named since one was for its class's age.
    since_overdue: u32,
}

impl ConnectionQueue {
    /// A pool of that many connections, none of which is in use. A [`ClassIndex`] is a place in `shares`.
    pub fn new(size: u32, shares: Vec<PoolShare>, patience: Duration) -> Self {
        let classes = shares.into_iter().map(Class::new).collect();
        ConnectionQueue { size, in_use: 0, classes, arrivals: 0, patience, since_overdue: OVERDUE_EVERY }
    }

    /// Changes the number of connections, the shares and the patience. There may be more classes than before.
    pub fn set(&mut self, size: u32, shares: &[PoolShare], patience: Duration) {
        (self.size, self.patience) = (size, patience);
        for (at, share) in shares.iter().enumerate() {
            match self.classes.get_mut(at) {
                Some(class) => class.share = *share,
                None => self.classes.push(Class::new(*share)),
            }
        }
    }

    /// Changes the number of connections only.
    pub fn resize(&mut self, size: u32) {
        self.size = size;
    }

    /// One wants a connection. Returns whether it has one now; otherwise it waits until [`next`](Self::next) names it.
    pub fn ask(&mut self, claim: Claim, now: Duration) -> bool {
        let place = usize::from(claim.class.0);
        if self.classes[place].queue.is_empty() && self.may_take(place) {
            self.enter(place);
            return true;
        }
        self.arrivals += 1;
        let Claim { ticket, tenant, .. } = claim;
        self.classes[place].queue.push(Waiter { ticket, tenant, since: now, arrival: self.arrivals });
        false
    }

    /// A transaction of that class has given its connection back.
    pub fn leave(&mut self, class: ClassIndex) {
        let class = &mut self.classes[usize::from(class.0)];
        class.in_use = class.in_use.saturating_sub(1);
        self.in_use = self.in_use.saturating_sub(1);
    }

    /// Who gets a free connection now, if there is one for a transaction that waits; it is in use then.
    pub fn next(&mut self, now: Duration) -> Option<Ticket> {
        let overdue = self.overdue(now);
        let place = overdue.or_else(|| self.foremost())?;
        self.since_overdue = if overdue.is_some() { 1 } else { self.since_overdue.saturating_add(1) };
        let queue = &mut self.classes[place].queue;
        let ticket = queue.first(|_| true)?.ticket;
        queue.take(ticket);
        self.enter(place);
        Some(ticket)
    }

    /// One who waited gives up. Returns whether it still waited: otherwise it has a connection, and must give it back.
    pub fn abandon(&mut self, ticket: Ticket) -> bool {
        self.classes.iter_mut().any(|class| class.queue.remove(ticket).is_some())
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.classes.iter().map(|class| class.queue.len()).sum()
    }

    /// How many connections are in use.
    pub fn in_use(&self) -> u32 {
        self.in_use
    }

    fn enter(&mut self, place: usize) {
        self.classes[place].in_use += 1;
        self.in_use += 1;
    }

    fn free(&self) -> u32 {
        self.size.saturating_sub(self.in_use)
    }

    fn may_take(&self, place: usize) -> bool {
        let class = &self.classes[place];
        let others = self.classes.iter().enumerate().filter(|(at, _)| *at != place);
        let kept: u32 = others.map(|(_, class)| class.lacks()).sum();
        let is_below_least = class.lacks() > 0;
        !class.is_at_most() && self.free() > if is_below_least { 0 } else { kept }
    }

    /// The class in which one has waited longest and for too long, if it is time for that again.
    fn overdue(&self, now: Duration) -> Option<usize> {
        if self.since_overdue < OVERDUE_EVERY || self.free() == 0 {
            return None;
        }
        let classes = self.classes.iter().enumerate().filter(|(_, class)| !class.is_at_most());
        let (since, place) = classes.filter_map(|(at, class)| Some((class.oldest()?, at))).min()?;
        (now.saturating_sub(since) > self.patience).then_some(place)
    }

    fn foremost(&self) -> Option<usize> {
        let may = (0..self.classes.len()).filter(|at| !self.classes[*at].queue.is_empty() && self.may_take(*at));
        let rank = |at: &usize| {
            let class = &self.classes[*at];
            (class.share.priority, std::cmp::Reverse(class.oldest()))
        };
        may.max_by_key(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);
    const LOW: ClassIndex = ClassIndex(0);
    const HIGH: ClassIndex = ClassIndex(1);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn pool(size: u32, low: (u32, Option<u32>), high: (u32, Option<u32>)) -> ConnectionQueue {
        let share = |priority, (least, most)| PoolShare { priority, least, most };
        ConnectionQueue::new(size, vec![share(Priority::LOW, low), share(Priority::HIGH, high)], PATIENCE)
    }

    fn ask(pool: &mut ConnectionQueue, ticket: u64, class: ClassIndex, tenant: u64, now: Duration) -> bool {
        pool.ask(Claim { ticket: Ticket(ticket), class, tenant }, now)
    }

    #[test]
    fn the_important_class_goes_first_and_nobody_waits_for_ever() {
        let mut pool = pool(1, (0, None), (0, None));
        assert!(ask(&mut pool, 1, LOW, 0, at(0)));
        assert!(!ask(&mut pool, 2, LOW, 0, at(0)));
        assert!(!ask(&mut pool, 3, HIGH, 0, at(1)));
        assert_eq!(pool.next(at(1)), None, "none is free");
        pool.leave(LOW);
        assert_eq!(pool.next(at(2)), Some(Ticket(3)));
        assert!(!ask(&mut pool, 4, HIGH, 0, at(3)));
        pool.leave(HIGH);
        assert_eq!(pool.next(at(11)), Some(Ticket(2)), "it has waited for more than ten seconds");
        pool.leave(LOW);
        assert_eq!((pool.next(at(11)), pool.next(at(11)), pool.waiting()), (Some(Ticket(4)), None, 0));
    }

    /// Where all low transactions waited for longer than the patience, the oldest always went first: before the important
    /// ones, and before those of a tenant with few clients.
    #[test]
    fn a_class_that_is_always_late_takes_one_connection_in_ten_and_its_tenants_take_turns() {
        let mut pool = pool(1, (0, None), (0, None));
        assert!(ask(&mut pool, 0, HIGH, 0, at(0)));
        (1..=50).for_each(|ticket| assert!(!ask(&mut pool, ticket, LOW, 1, at(0))));
        (51..=60).for_each(|ticket| assert!(!ask(&mut pool, ticket, LOW, 2, at(1))));
        (101..=200).for_each(|ticket| assert!(!ask(&mut pool, ticket, HIGH, 0, at(20))));
        let (mut class, mut low) = (HIGH, Vec::new());
        for turn in 0..40 {
            pool.leave(class);
            let ticket = pool.next(at(21)).expect("many wait").0;
            class = if ticket < 100 { LOW } else { HIGH };
            low.extend((class == LOW).then_some((turn, ticket)));
        }
        assert_eq!(low, [(0, 1), (10, 51), (20, 2), (30, 52)]);
    }

    #[test]
    fn tenants_take_turns_whatever_they_ask_for() {
        let mut pool = pool(1, (0, None), (0, None));
        assert!(ask(&mut pool, 0, LOW, 9, at(0)));
        (1..=100).for_each(|ticket| assert!(!ask(&mut pool, ticket, LOW, 1, at(0))));
        (101..=103).for_each(|ticket| assert!(!ask(&mut pool, ticket, LOW, 2, at(1))));
        let mut order = Vec::new();
        for _ in 0..8 {
            pool.leave(LOW);
            order.extend(pool.next(at(2)).map(|ticket| ticket.0));
        }
        assert_eq!(order, [1, 101, 2, 102, 3, 103, 4, 5]);
    }

    #[test]
    fn what_is_kept_for_a_class_is_there_when_it_asks() {
        let mut pool = pool(4, (1, Some(2)), (1, None));
        assert!(ask(&mut pool, 1, LOW, 0, at(0)) && ask(&mut pool, 2, LOW, 0, at(0)));
        assert!(!ask(&mut pool, 3, LOW, 0, at(0)), "two are its most");
        assert!(ask(&mut pool, 4, HIGH, 0, at(0)) && ask(&mut pool, 5, HIGH, 0, at(0)));
        pool.leave(LOW);
        pool.leave(LOW);
        assert_eq!(pool.next(at(1)), Some(Ticket(3)));
        assert!(!ask(&mut pool, 6, LOW, 0, at(1)) || pool.in_use() == 4);
        // All of the low class leave; the important one may take all but the one that is kept.
        let mut pool = self::pool(3, (1, None), (0, None));
        assert!(ask(&mut pool, 1, HIGH, 0, at(0)) && ask(&mut pool, 2, HIGH, 0, at(0)));
        assert!(!ask(&mut pool, 3, HIGH, 0, at(0)));
        assert!(ask(&mut pool, 4, LOW, 0, at(0)));
    }

    #[test]
    fn who_gives_up_is_forgotten() {
        let mut pool = pool(1, (0, None), (0, None));
        assert!(ask(&mut pool, 1, LOW, 0, at(0)));
        assert!(!ask(&mut pool, 2, LOW, 5, at(0)));
        assert!(pool.abandon(Ticket(2)));
        assert!(!pool.abandon(Ticket(2)));
        pool.leave(LOW);
        assert_eq!((pool.next(at(0)), pool.in_use(), pool.waiting()), (None, 0, 0));
    }
}
