//! Admission: which transactions may run at the same time, and in which order the others enter.
//!
//! A transaction *asks* before it begins. It *enters* if there is room: fewer than the multiprogramming level (MPL) of
//! its class are inside, and fewer than the total MPL altogether. Otherwise it *waits* in the queue of its class, or is
//! refused because that queue is full. When a transaction *leaves*, waiting ones enter as far as there is room:
//!
//! 1. the highest priority first, and among equal priorities the one that asked first; within a class the tenants take
//!    turns, each with its oldest transaction;
//! 2. a class that is full by its own MPL does not hold up others behind the total MPL;
//! 3. no transaction waits while there is room for it, unless its timeout has expired and its session does not know
//!    that yet.
//!
//! One exception: the host may [let in](Admission::let_in) a waiting transaction although there is no room, because an
//! admitted transaction waits for a lock that it holds.
//!
//! A class may have a [`Pace`]: its transactions then wait for their moment, too.
//!
//! There is no further protection from starvation: behind a full total MPL a class waits as long as more urgent classes
//! keep the server full. To bound that, give the urgent class an MPL below the total, so that the rest
//! remains for the others, or give the waiting class a timeout.
//!
//! This module has no threads and no clock: the host calls it under one lock, and passes the time.
//! Rejecting some to keep the rest fast, and MPLs by class: Schroeder et al., *How to Determine a Good
//! Multi-Programming Level for External Scheduling*, 2006.

mod pace;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::Priority;
use crate::turns::{Claim, TurnQueue, Waiter};
pub use pace::{Pace, Paced, ParseRateError, Rate};

/// A class by its place in the list of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassIndex(pub u16);

/// A transaction that asks to enter. The host chooses the number; no two that wait may have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The limits of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassLimits {
    /// Transactions of the highest priority enter first.
    pub priority: Priority,
    /// The most transactions of the class inside at once; `None` leaves only the total MPL, 0 holds all of them up.
    pub mpl: Option<u32>,
    /// The most that may wait; further transactions are refused. `None` is unlimited, 0 allows none to wait.
    pub queue_max: Option<u32>,
    /// How long a transaction may wait; `None` for no timeout.
    pub timeout: Option<Duration>,
}

/// The answer to [`Admission::ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Asked {
    /// The transaction is inside, and must leave later.
    Enter,
    /// The transaction waits: [`Admission::leave`], [`Admission::set_limits`] or [`Admission::expire`] will name it,
    /// unless it is [abandoned](Admission::abandon).
    Wait,
    /// The transaction is neither inside nor queued.
    Refused(RefusalReason),
}

/// Why a transaction may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The queue of its class is full.
    QueueFull {
        /// How many transactions wait.
        queued: u32,
        /// How many may wait.
        queue_max: u32,
    },
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RefusalReason::QueueFull { queued, queue_max } = self;
        write!(f, "{queued} of the class wait already, at most {queue_max} may")
    }
}

/// The state of a transaction when it gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "one that was admitted must leave"]
pub enum Abandoned {
    /// It waited, and held no place.
    Waited,
    /// It had been admitted, whether or not its session knew: it holds a place and must leave.
    Admitted,
    /// Its timeout had expired, whether or not its session knew. It held no place.
    Expired,
}

/// Why a transaction waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The class is full: this is its MPL.
    ClassMpl(u32),
    /// All places are taken: this is the total MPL.
    TotalMpl(u32),
    /// Its moment has not come: this is the rate of the class.
    Rate(Rate),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::ClassMpl(mpl) => write!(f, "class mpl {mpl} is full"),
            Obstacle::TotalMpl(mpl) => write!(f, "total mpl {mpl} is full"),
            Obstacle::Rate(rate) => write!(f, "class rate {rate} is used up"),
        }
    }
}

/// A waiting transaction, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Its ticket.
    pub ticket: Ticket,
    /// Its class.
    pub class: ClassIndex,
    /// When it asked, by the host's clock.
    pub since: Duration,
    /// Its position, from 1, among those that wait for the same room: the transactions of its class if the class is
    /// full, otherwise those of all classes that are not full.
    pub position: usize,
    /// Why it waits.
    pub why: Obstacle,
}

#[derive(Debug)]
struct Class {
    limits: ClassLimits,
    inside: u32,
    queue: TurnQueue,
    /// `None` if any number may begin.
    paced: Option<Paced>,
}

impl Class {
    fn new(limits: ClassLimits) -> Self {
        Class { limits, inside: 0, queue: TurnQueue::default(), paced: None }
    }

    /// The rate for which a transaction would have to wait now.
    fn rate_in_the_way(&self, now: Duration) -> Option<Rate> {
        self.paced.filter(|paced| !paced.is_ready(now)).map(|paced| paced.pace().rate)
    }

    /// A transaction enters.
    fn admit(&mut self, now: Duration) {
        self.inside += 1;
        self.paced.iter_mut().for_each(|paced| paced.take(now));
    }

    fn is_full(&self) -> bool {
        self.limits.mpl.is_some_and(|mpl| self.inside >= mpl)
    }

    /// When the waiter's timeout expires.
    fn expiry(&self, waiter: &Waiter) -> Option<Duration> {
        Some(waiter.since.saturating_add(self.limits.timeout?))
    }

    /// When the timeout of its first waiter expires.
    fn next_expiry(&self) -> Option<Duration> {
        self.expiry(self.queue.oldest()?)
    }

    /// Whose turn it is, of those whose timeout has not expired.
    fn first_in_time(&self, now: Duration) -> Option<&Waiter> {
        self.queue.first(|waiter| self.expiry(waiter).is_none_or(|expiry| expiry > now))
    }
}

/// The transactions that are inside and those that wait. The module documentation has the rules.
///
/// ```
/// use std::time::Duration;
/// use plimsoll_policy::{Admission, Asked, Claim, ClassIndex, ClassLimits, Priority, Ticket};
///
/// let class = |priority| ClassLimits { priority, mpl: None, queue_max: None, timeout: None };
/// let (low, high) = (ClassIndex(0), ClassIndex(1));
/// let mut admission = Admission::new(Some(1), vec![class(Priority::LOW), class(Priority::HIGH)]);
///
/// let now = Duration::ZERO;
/// let claim = |number, class| Claim { ticket: Ticket(number), class, tenant: 0 };
/// assert_eq!(admission.ask(claim(1, low), now), Asked::Enter);
/// assert_eq!(admission.ask(claim(2, low), now), Asked::Wait);
/// assert_eq!(admission.ask(claim(3, high), now), Asked::Wait);
/// assert_eq!(admission.leave(low, now), [Ticket(3)]);
/// ```
#[derive(Debug)]
pub struct Admission {
    total_mpl: Option<u32>,
    /// The sum over the classes.
    inside: u32,
    classes: Vec<Class>,
    arrivals: u64,
    latest: Duration,
    /// Tickets that [`Admission::expire`] has named and whose sessions have not confirmed it. Without them, a session
    /// that gives up could not tell whether it holds a place. At most one entry for each ticket that the host uses.
    expired: BTreeSet<Ticket>,
}

impl Admission {
    /// No transaction is admitted yet. A [`ClassIndex`] is a place in `classes`.
    pub fn new(total_mpl: Option<u32>, classes: Vec<ClassLimits>) -> Self {
        let classes = classes.into_iter().map(Class::new).collect();
        Admission { total_mpl, inside: 0, classes, arrivals: 0, latest: Duration::ZERO, expired: BTreeSet::new() }
    }

    /// Whether an MPL or a pace limits the class. If none does, a transaction need not ask. A transaction that did not ask must
    /// not leave either, even if a limit was set since.
    ///
    /// # Panics
    /// If the class does not exist, as for all functions that take one.
    pub fn bounds(&self, class: ClassIndex) -> bool {
        let class = self.class(class);
        self.total_mpl.is_some() || class.limits.mpl.is_some() || class.paced.is_some()
    }

    /// A transaction wants to begin.
    pub fn ask(&mut self, claim: Claim, now: Duration) -> Asked {
        let Claim { ticket, class, tenant } = claim;
        // A client that asks again has seen the answer to its last request.
        self.expired.remove(&ticket);
        // One whose moment has come may still be in the queue.
        let is_behind = self.class(class).paced.is_some() && !self.class(class).queue.is_empty();
        if !is_behind && self.obstacle(self.class(class), now).is_none() {
            // This overtakes no waiter: transactions that wait elsewhere wait for their own class.
            self.class_mut(class).admit(now);
            self.inside += 1;
            return Asked::Enter;
        }
        let queued = self.class(class).queue.len();
        if let Some(queue_max) = self.class(class).limits.queue_max.filter(|queue_max| queued >= *queue_max as usize) {
            return Asked::Refused(RefusalReason::QueueFull { queued: count(queued), queue_max });
        }
        self.arrivals += 1;
        self.latest = self.latest.max(now);
        let waiter = Waiter { ticket, tenant, since: self.latest, arrival: self.arrivals };
        self.class_mut(class).queue.push(waiter);
        Asked::Wait
    }

    /// A transaction of the class that was inside has ended. Returns those that may enter now, in order; they are
    /// inside. A transaction whose timeout has expired no longer enters, whether or not [`expire`](Self::expire) has
    /// named it yet.
    #[must_use = "the transactions named are admitted and must be notified"]
    pub fn leave(&mut self, class: ClassIndex, now: Duration) -> Vec<Ticket> {
        debug_assert!(self.class(class).inside > 0, "more have left class {} than were inside", class.0);
        let class = self.class_mut(class);
        if class.inside > 0 {
            class.inside -= 1;
            self.inside -= 1;
        }
        self.enter(now)
    }

    /// A waiting transaction gives up: its client has gone or has cancelled it. No other transaction can enter for
    /// that: a waiter held no place, and an admitted transaction leaves afterwards. An expired ticket stays expired
    /// until its session [confirms](Self::confirm_expired) it, so that asking twice gives the same answer.
    pub fn abandon(&mut self, ticket: Ticket) -> Abandoned {
        if self.expired.contains(&ticket) {
            Abandoned::Expired
        } else if self.take_waiting(ticket).is_some() {
            Abandoned::Waited
        } else {
            Abandoned::Admitted
        }
    }

    /// The session of a ticket that [`expire`](Self::expire) has named knows it, or will never ask again. Other tickets
    /// are unaffected.
    pub fn confirm_expired(&mut self, ticket: Ticket) {
        self.expired.remove(&ticket);
    }

    /// Lets a waiting transaction in, whether or not there is room: an admitted transaction waits for a lock that it
    /// holds, and would otherwise wait forever. Returns whether it was waiting; it is then admitted, and must be
    /// notified.
    #[must_use = "the transaction that was let in must be notified"]
    pub fn let_in(&mut self, ticket: Ticket) -> bool {
        let Some(class) = self.take_waiting(ticket) else { return false };
        self.class_mut(class).inside += 1;
        self.inside += 1;
        true
    }

    /// Removes the transactions whose timeout has expired from the queues, and returns them. Each is remembered until
    /// it [confirms](Self::confirm_expired) or asks again.
    #[must_use = "the transactions named must be notified"]
    pub fn expire(&mut self, now: Duration) -> Vec<Ticket> {
        let mut expired = Vec::new();
        for class in &mut self.classes {
            while class.next_expiry().is_some_and(|expiry| expiry <= now) {
                let oldest = class.queue.oldest().map(|waiter| waiter.ticket);
                expired.extend(oldest);
                oldest.and_then(|ticket| class.queue.remove(ticket));
            }
        }
        self.expired.extend(&expired);
        expired
    }

    /// When the next timeout expires; `None` if no transaction waits with a timeout.
    pub fn next_expiry(&self) -> Option<Duration> {
        self.classes.iter().filter_map(Class::next_expiry).min()
    }

    /// Replaces the limits. There may be more classes than before, but not fewer, and each keeps its index.
    /// Transactions that are inside stay, even if they exceed the new limits. Transactions that wait keep waiting under the new limits,
    /// even if their queue is longer than these allow. Returns those that may enter now, in order; they are inside.
    ///
    /// # Panics
    /// If there are fewer classes than before.
    #[must_use = "the transactions named are admitted and must be notified"]
    pub fn set_limits(&mut self, total_mpl: Option<u32>, classes: Vec<ClassLimits>, now: Duration) -> Vec<Ticket> {
        assert!(classes.len() >= self.classes.len(), "each class keeps its index");
        self.total_mpl = total_mpl;
        let mut limits = classes.into_iter();
        for class in &mut self.classes {
            class.limits = limits.next().expect("no fewer than before");
        }
        self.classes.extend(limits.map(Class::new));
        self.enter(now)
    }

    /// All that wait for room, in the order in which they would enter if there were room for all of them.
    pub fn waiting(&self) -> Vec<Waiting> {
        let queues = self.classes.iter().map(|class| class.queue.in_order().into_iter().peekable());
        let mut queues: Vec<_> = self.classes.iter().zip(0..).zip(queues).collect();
        let (mut waiting, mut positions, mut behind_total) = (Vec::new(), vec![0; queues.len()], 0);
        loop {
            let firsts = queues.iter_mut().filter_map(|((class, at), queue)| {
                let arrival = queue.peek()?.arrival;
                Some((Reverse(class.limits.priority), arrival, *at))
            });
            let Some((.., at)) = firsts.min() else { return waiting };
            let ((class, _), queue) = &mut queues[usize::from(at)];
            let at_its_moment = class.paced.map(|paced| Obstacle::Rate(paced.pace().rate));
            let why = self.obstacle(class, self.latest).or(at_its_moment);
            let Some((waiter, why)) = queue.next().zip(why) else { continue };
            let position = match why {
                Obstacle::TotalMpl(_) => &mut behind_total,
                _ => &mut positions[usize::from(at)],
            };
            *position += 1;
            let &Waiter { ticket, since, .. } = waiter;
            waiting.push(Waiting { ticket, class: ClassIndex(at), since, position: *position, why });
        }
    }

    /// How many of the class are inside. A count.
    pub fn inside(&self, class: ClassIndex) -> u32 {
        self.class(class).inside
    }

    /// How many of the class wait. A count.
    pub fn queued(&self, class: ClassIndex) -> u32 {
        count(self.class(class).queue.len())
    }

    /// Takes a transaction out of its queue and returns its class; `None` if it does not wait.
    fn take_waiting(&mut self, ticket: Ticket) -> Option<ClassIndex> {
        let mut classes = (0..).map(ClassIndex).zip(&mut self.classes);
        classes.find_map(|(index, class)| class.queue.remove(ticket).map(|_| index))
    }

    fn class(&self, class: ClassIndex) -> &Class {
        &self.classes[usize::from(class.0)]
    }

    fn class_mut(&mut self, class: ClassIndex) -> &mut Class {
        &mut self.classes[usize::from(class.0)]
    }

    /// Why a transaction of that class cannot enter now; `None` if it can.
    fn obstacle(&self, class: &Class, now: Duration) -> Option<Obstacle> {
        let of_class = class.limits.mpl.filter(|_| class.is_full()).map(Obstacle::ClassMpl);
        let of_class = of_class.or_else(|| class.rate_in_the_way(now).map(Obstacle::Rate));
        of_class.or_else(|| self.total_mpl.filter(|mpl| self.inside >= *mpl).map(Obstacle::TotalMpl))
    }

    /// Lets in all transactions for which there is room, in order.
    fn enter(&mut self, now: Duration) -> Vec<Ticket> {
        let mut entered = Vec::new();
        while self.total_mpl.is_none_or(|mpl| self.inside < mpl) {
            let open = self.classes.iter_mut().filter(|class| !class.is_full() && class.rate_in_the_way(now).is_none());
            let firsts = open.filter_map(|class| {
                let &Waiter { ticket, arrival, .. } = class.first_in_time(now)?;
                Some(((Reverse(class.limits.priority), arrival), ticket, class))
            });
            let Some((_, ticket, class)) = firsts.min_by_key(|(rank, ..)| *rank) else { break };
            class.admit(now);
            class.queue.take(ticket);
            entered.push(ticket);
            self.inside += 1;
        }
        entered
    }
}

/// A queue's length; no server has 2^32 connections.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
