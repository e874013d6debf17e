//! The specification of a lock table: its state, and the events that must happen in it, written from the definitions of
//! the study.
//!
//! After a client has done something ([`Specification::ask`] and so on) events follow by themselves: a transaction is
//! granted a lock, inherits, or is rolled back. [`events`](super::events) says which can come next; several orders may
//! be right. The specification calls neither a scheduler nor the lock table.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_engine::lock::head::Answer;
use plimsoll_engine::lock::{Mode, RequestError, State};
use plimsoll_policy::Priority;

use super::choice::Choice;
use super::lock_host::{Outcome, Thing, Who};

/// The rule of a scheduler, from the sections of MW named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// "Transactions are not prioritized" (3.6.1).
    Standard,
    /// "Waiting compatible transactions are granted the lock in priority-order" (3.6.1).
    NPrio,
    /// "Low-priority transactions that block high-priority transactions become high-priority (for the remainder of
    /// their lifetime)" (3.6.1).
    Inherit,
    /// "A low-priority transaction that blocks a high-priority transaction is always immediately preempted" (3.6.1).
    PAbort,
    /// "Preempted if and only if [it] currently, or in the future, waits for some other lock" (3.8.1).
    Pow,
    /// "Given a reprieve time (300ms) to complete before being preempted" (3.8.3).
    ConditionalRestart(Duration),
    /// "When three transactions wait in a chain T1 -> T2 -> T3, T2 is preempted" (3.8.3), whether T2 holds the lock for
    /// which T1 waits or waits for it ahead of T1.
    Wdl,
    /// The same, if T2 holds the lock.
    WdlHolders,
    /// When a lock becomes free, some of its waiters are chosen.
    Chosen(Choice),
}

impl Rule {
    /// The rule that a scheduler of this name promises.
    pub fn of(name: &str) -> Self {
        match name {
            "standard" => Rule::Standard,
            "nprio" => Rule::NPrio,
            "nprio-inherit" => Rule::Inherit,
            "pabort" => Rule::PAbort,
            "pow" => Rule::Pow,
            "cr(300ms)" => Rule::ConditionalRestart(Duration::from_millis(300)),
            "wdl" => Rule::Wdl,
            "wdl-holders" => Rule::WdlHolders,
            "vats" => Rule::Chosen(Choice::Eldest),
            "ldsf" => Rule::Chosen(Choice::LargestDependencySet),
            "bldsf" => Rule::Chosen(Choice::FastestBatch),
            _ => panic!("write down what `{name}` promises"),
        }
    }

    fn knows_priorities(self) -> bool {
        !matches!(self, Rule::Standard | Rule::Wdl | Rule::WdlHolders | Rule::Chosen(_))
    }
}

/// The rule of a CPU scheduler, from MW 2.7.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuRule {
    /// Nothing is said about threads.
    None,
    /// "More weight to processes working on high-priority transactions".
    Prio,
    /// "The priority of low-priority transactions that block high-priority transactions is raised".
    Inherit,
    /// "Low-priority transactions that block high-priority transactions are preempted and rolled back".
    Preempt,
}

impl CpuRule {
    /// The rule that a CPU scheduler of this name promises.
    pub fn of(name: &str) -> Self {
        match name {
            "none" => CpuRule::None,
            "cpu-prio" => CpuRule::Prio,
            "cpu-prio-inherit" => CpuRule::Inherit,
            "p-cpu" => CpuRule::Preempt,
            _ => panic!("write down what `{name}` promises"),
        }
    }
}

/// The rules that a host promises.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub lock: Rule,
    pub cpu: CpuRule,
    /// The number of rollbacks after which a transaction is promoted.
    pub bound: u32,
}

/// A request in a queue.
#[derive(Debug, Clone, Copy)]
pub struct Waiter {
    pub who: Who,
    pub mode: Mode,
    pub is_conversion: bool,
    /// Increases with each request.
    pub arrival: u64,
    /// 0 if it was chosen when the lock became free, 1 if it was chosen to be next, and 2 otherwise.
    pub place: u8,
}

/// One thing that is locked.
#[derive(Debug, Clone, Default)]
pub struct Lock {
    pub grants: BTreeMap<Who, Mode>,
    pub waiters: Vec<Waiter>,
}

/// One participant and its present transaction.
#[derive(Debug, Clone)]
pub struct Transaction {
    pub state: State,
    pub priority: Priority,
    /// Its CPU priority: never below the other.
    pub cpu: Priority,
    /// Its priority when it began.
    pub born: Priority,
    pub rollbacks: u32,
    /// Increases with each transaction.
    pub began: u64,
    pub waits_for: Option<Thing>,
    /// Locks that it inherited because gaps merged.
    pub inherited: BTreeSet<Thing>,
    /// The decision about its request since the last action of a client.
    pub outcome: Option<Outcome>,
}

#[derive(Debug, Clone)]
pub struct Specification {
    pub rules: Rules,
    pub now: Duration,
    pub locks: BTreeMap<Thing, Lock>,
    pub transactions: Vec<Transaction>,
    counter: u64,
    /// Since when a transaction (the second) has blocked a waiter (the first).
    pub in_way_since: BTreeMap<(Who, Who), Duration>,
    /// Transactions that become readers of a gap because they have read one that was merged into it.
    pub heirs: BTreeSet<(Who, Thing)>,
}

impl Specification {
    pub fn new(rules: Rules, members: usize, things: &[Thing]) -> Self {
        let idle = Transaction {
            state: State::Idle,
            priority: Priority::LOW,
            cpu: Priority::LOW,
            born: Priority::LOW,
            rollbacks: 0,
            began: 0,
            waits_for: None,
            inherited: BTreeSet::new(),
            outcome: None,
        };
        Specification {
            rules,
            now: Duration::ZERO,
            locks: things.iter().map(|thing| (*thing, Lock::default())).collect(),
            transactions: vec![idle; members],
            counter: 0,
            in_way_since: BTreeMap::new(),
            heirs: BTreeSet::new(),
        }
    }

    pub fn begin(&mut self, who: Who, own: Priority, rollbacks: u32) {
        self.counter += 1;
        let transaction = &mut self.transactions[who];
        transaction.state = State::Running;
        transaction.priority = if rollbacks >= self.rules.bound { Priority::PROMOTED } else { own };
        (transaction.born, transaction.cpu) = (transaction.priority, transaction.priority);
        transaction.rollbacks = rollbacks;
        transaction.began = self.counter;
    }

    /// The answer, if there is an immediate one; otherwise the request waits from now on.
    pub fn ask(&mut self, who: Who, thing: Thing, mode: Mode) -> Option<Outcome> {
        if let State::Doomed(error) = self.transactions[who].state {
            return Some(Err(error));
        }
        let held = self.locks[&thing].grants.get(&who).copied();
        if held.is_some_and(|held| held.supremum(mode) == held) {
            return Some(Ok(Answer::Held));
        }
        self.counter += 1;
        let mode = held.map_or(mode, |held| held.supremum(mode));
        let waiter = Waiter { who, mode, is_conversion: held.is_some(), arrival: self.counter, place: 2 };
        self.lock(thing).waiters.push(waiter);
        self.transactions[who].state = State::Waiting;
        self.transactions[who].waits_for = Some(thing);
        if self.can_be_granted(thing).is_some_and(|first| first.who == who) {
            self.grant(thing, who);
            self.note_who_is_in_the_way();
            return self.transactions[who].outcome.take();
        }
        self.note_who_is_in_the_way();
        None
    }

    /// Whether it may commit now.
    pub fn commit_point(&mut self, who: Who) -> Result<(), RequestError> {
        if let State::Doomed(error) = self.transactions[who].state {
            return Err(error);
        }
        self.transactions[who].state = State::Ending;
        Ok(())
    }

    /// Its client gives up, in any state.
    pub fn roll_back(&mut self, who: Who) {
        self.leave_queue(who);
        self.transactions[who].state = State::Ending;
        self.note_who_is_in_the_way();
    }

    pub fn release(&mut self, who: Who, thing: Thing) {
        self.lock(thing).grants.remove(&who).expect("clients give back what they have");
        self.note_who_is_in_the_way();
    }

    /// Its transaction is over, and its inherited locks are released.
    pub fn end(&mut self, who: Who) {
        for thing in std::mem::take(&mut self.transactions[who].inherited) {
            self.lock(thing).grants.remove(&who);
        }
        self.transactions[who].state = State::Idle;
        self.note_who_is_in_the_way();
    }

    /// The nice value that its thread should have.
    pub fn nice(&self, who: Who) -> i32 {
        let is_low = self.transactions[who].cpu < Priority::HIGH;
        if is_low && self.rules.cpu != CpuRule::None { 19 } else { 0 }
    }

    /// Releases the right to insert into a gap; returns whether a read lock on it is left.
    pub fn give_up_intention(&mut self, who: Who, gap: Thing) -> bool {
        let grants = &mut self.lock(gap).grants;
        let has_read = grants[&who].covers(Mode::S);
        if has_read {
            grants.insert(who, Mode::S)
        } else {
            grants.remove(&who)
        };
        self.note_who_is_in_the_way();
        has_read
    }

    /// A gap is merged into another: its readers count as readers of that one from now on.
    pub fn merge(&mut self, gap: Thing, into: Thing) {
        let readers = self.locks[&gap].grants.iter().filter(|(_, mode)| mode.covers(Mode::S));
        self.heirs = readers.map(|(who, _)| (*who, into)).collect();
    }

    /// One heir gets its inherited lock, regardless of other holders.
    pub fn hand_on(&mut self, who: Who, gap: Thing) {
        self.heirs.remove(&(who, gap));
        let lock = self.lock(gap);
        let held = lock.grants.get(&who).copied();
        lock.grants.insert(who, held.map_or(Mode::S, |held| held.supremum(Mode::S)));
        if held.is_some() {
            return;
        }
        if let Some(waiter) = lock.waiters.iter_mut().find(|waiter| waiter.who == who) {
            // It now asks for a stronger mode than it holds.
            waiter.is_conversion = true;
            waiter.mode = waiter.mode.supremum(Mode::S);
        }
        self.transactions[who].inherited.insert(gap);
    }

    /// The things that it holds by its own requests.
    pub fn held(&self, who: Who) -> Vec<Thing> {
        let inherited = &self.transactions[who].inherited;
        let held =
            self.locks.iter().filter(|(thing, lock)| lock.grants.contains_key(&who) && !inherited.contains(thing));
        held.map(|(thing, _)| *thing).collect()
    }

    fn lock(&mut self, thing: Thing) -> &mut Lock {
        self.locks.get_mut(&thing).expect("a thing that there is")
    }

    /// The waiters of a thing, best first: conversions, then as chosen, then by priority where it counts, then by arrival.
    pub fn queue(&self, thing: Thing) -> Vec<Waiter> {
        let mut queue = self.locks[&thing].waiters.clone();
        if let (Rule::Chosen(choice), true) = (self.rules.lock, self.locks[&thing].grants.is_empty()) {
            choice.place(self, &mut queue);
        }
        queue.sort_by_key(|waiter| {
            let priority = self.transactions[waiter.who].priority;
            let rank = self.rules.lock.knows_priorities().then_some(Reverse(priority));
            (!waiter.is_conversion, waiter.place, rank, waiter.arrival)
        });
        queue
    }

    /// The best waiter of a thing, if its mode is compatible with the other holders.
    pub fn can_be_granted(&self, thing: Thing) -> Option<Waiter> {
        let first = *self.queue(thing).first()?;
        self.conflicting_holders(thing, &first).next().is_none().then_some(first)
    }

    /// The transactions that must finish before a waiter is served: conflicting holders, and conversions ahead of it.
    pub fn in_the_way_of(&self, waiter: Who) -> Vec<Who> {
        self.held_up_by(waiter, |ahead| ahead.is_conversion)
    }

    /// The transactions for which a waiter waits: conflicting holders, and all waiters ahead of it.
    pub fn waited_for_by(&self, waiter: Who) -> Vec<Who> {
        self.held_up_by(waiter, |_| true)
    }

    fn held_up_by(&self, who: Who, ahead_counts: impl Fn(&Waiter) -> bool) -> Vec<Who> {
        let Some(thing) = self.transactions[who].waits_for else { return Vec::new() };
        let queue = self.queue(thing);
        let at = queue.iter().position(|waiter| waiter.who == who).expect("who waits is in the queue");
        let holders = self.conflicting_holders(thing, &queue[at]);
        let ahead = queue[..at].iter().filter(|waiter| ahead_counts(waiter)).map(|waiter| waiter.who);
        holders.chain(ahead).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn conflicting_holders(&self, thing: Thing, waiter: &Waiter) -> impl Iterator<Item = Who> {
        let (who, mode) = (waiter.who, waiter.mode);
        let holders = self.locks[&thing].grants.iter();
        holders.filter(move |(holder, held)| **holder != who && !held.is_compatible(mode)).map(|(holder, _)| *holder)
    }

    /// The best waiter becomes a holder.
    pub fn grant(&mut self, thing: Thing, who: Who) {
        // The choice is made once, and holds for the grants that follow.
        let waiters = self.queue(thing);
        self.lock(thing).waiters = waiters;
        let waiter = self.leave_queue(who).expect("who is granted has asked");
        self.lock(thing).grants.insert(who, waiter.mode);
        let answer = if waiter.is_conversion { Answer::Converted } else { Answer::Granted };
        self.transactions[who].outcome = Some(Ok(answer));
        self.transactions[who].state = State::Running;
    }

    /// A transaction becomes a victim: it loses its request, if it has one, and may only roll back.
    pub fn doom(&mut self, who: Who, error: RequestError) {
        if self.leave_queue(who).is_some() {
            self.transactions[who].outcome = Some(Err(error));
        }
        self.transactions[who].state = State::Doomed(error);
    }

    fn leave_queue(&mut self, who: Who) -> Option<Waiter> {
        let thing = self.transactions[who].waits_for.take()?;
        let waiters = &mut self.lock(thing).waiters;
        let at = waiters.iter().position(|waiter| waiter.who == who)?;
        Some(waiters.remove(at))
    }

    /// Keeps the times of pairs that still exist, and adds the new ones.
    pub fn note_who_is_in_the_way(&mut self) {
        if !matches!(self.rules.lock, Rule::ConditionalRestart(_)) {
            return;
        }
        let mut since = BTreeMap::new();
        for waiter in 0..self.transactions.len() {
            for in_way in self.in_the_way_of(waiter) {
                let pair = (waiter, in_way);
                since.insert(pair, self.in_way_since.get(&pair).copied().unwrap_or(self.now));
            }
        }
        self.in_way_since = since;
    }
}
