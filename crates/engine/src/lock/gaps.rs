//! The effect of insertions and deletions on locks on gaps; the rules are in the [manual](super).

use super::head::{Answer, Head, Slot, Ticket};
use super::member::Member;
use super::mode::Mode;
use super::name::LockName;
use super::table::LockTable;
use super::verdicts::Todo;

/// Which transactions have read a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapState {
    /// Another transaction has; an insertion must wait for it.
    pub read_by_others: bool,
    /// The inserter itself has; it must keep both halves locked.
    pub read_by_me: bool,
}

impl LockTable {
    /// Releases the intention to insert into a gap, but not the lock of a transaction that has read it. Returns whether
    /// that lock is held.
    pub fn give_up_intention(&self, member: &Member, gap: LockName) -> bool {
        let mut todo = Todo::default();
        let frees = |mode: Mode| !mode.covers(Mode::S);
        let still_held = self.change_and_choose(member, frees, gap, &mut todo, |head, granted| {
            let still_held = head.give_up_intention(member.slot, |waiter| granted.push(waiter));
            self.forget_reprieves(head);
            still_held
        });
        if !still_held {
            member.count_release();
        }
        self.carry_out(todo);
        still_held
    }

    /// Which members other than `member` keep an insertion out of this gap, and whether `member` has itself read it.
    pub(crate) fn gap_state(&self, member: &Member, gap: LockName) -> GapState {
        let hash = gap.hash();
        let heads = self.partition(hash).lock();
        let Some(head) = heads.get(gap, hash) else { return GapState { read_by_others: false, read_by_me: false } };
        let is_reader = |mode: Mode| !mode.is_compatible(Mode::IX);
        let (mut others, mut me) = (false, false);
        for grant in head.grants().iter().filter(|grant| is_reader(grant.mode)) {
            if grant.slot == member.slot { me = true } else { others = true }
        }
        GapState { read_by_others: others, read_by_me: me }
    }

    /// Grants a lock without a conflict check: for a gap that an insertion has just created, which no other transaction
    /// can know.
    pub(crate) fn grant_new_gap(&self, member: &Member, gap: LockName) -> Answer {
        let hash = gap.hash();
        let mut heads = self.partition(hash).lock();
        let answer = heads.head(gap, hash).grant_unconditionally(member.slot, Mode::S, |_| {
            unreachable!("no member waits for a gap that none has seen")
        });
        if answer == Answer::Granted {
            member.count_grant();
        }
        answer
    }

    /// A gap is merged into the next one: transactions that have read it now count as readers of the next one. The
    /// caller holds the latch of the index. When it has released the latch, it [carries out](Self::carry_out) the
    /// consequences: asking schedulers, setting nice values, and searching for cycles.
    #[must_use]
    pub fn inherit(&self, gap: LockName, next: LockName) -> Todo {
        let mut todo = Todo::default();
        let hashes = [gap, next].map(LockName::hash);
        let (mut heads, mut next_heads) = self.partition_pair(hashes);
        let Some(head) = heads.get(gap, hashes[0]) else { return todo };
        let readers: Vec<Slot> =
            head.grants().iter().filter(|grant| grant.mode.covers(Mode::S)).map(|grant| grant.slot).collect();
        if readers.is_empty() {
            return todo;
        }
        let head = next_heads.as_deref_mut().unwrap_or(&mut heads).head(next, hashes[1]);
        let mut granted = Vec::new();
        for &slot in &readers {
            if head.grant_unconditionally(slot, Mode::S, |waiter| granted.push(waiter)) == Answer::Granted {
                // A reader that is ending right now has not released `gap` yet, because its partition is locked here.
                // So it has not yet checked what it inherited.
                self.member(slot).inherited.lock().push(next);
            }
        }
        if !granted.is_empty() {
            self.let_in(head, next, &granted, &mut todo);
        }
        if !head.queue().is_empty() {
            self.note_heirs(head, next, readers, &mut todo);
        }
        todo
    }

    /// Waiters of a gap now also wait for heirs for which they did not wait before. In the partition of the gap.
    fn note_heirs(&self, head: &mut Head, gap: LockName, heirs: Vec<Slot>, todo: &mut Todo) {
        for &slot in &heirs {
            let heir = self.member(slot);
            if let Some(at) = head.position(slot) {
                // It is now ahead of waiters for which it may have waited.
                let ticket = Ticket { sequence: heir.next_wait(), ..head.queue()[at].ticket };
                head.renew(slot, ticket, |_| unreachable!("its rank is what it was"));
                if !self.leaves_holders_alone {
                    // It requests a stronger mode than before, which may conflict with other holders.
                    self.note_new_waiter(head, gap, &heir, todo);
                }
            }
            if !self.leaves_holders_alone {
                self.note_new_holder(head, gap, &heir, todo);
            }
        }
        self.forget_reprieves(head);
        // No request of the heirs announces these edges (invariant 4).
        todo.waiters = heirs;
    }

    /// Releases the locks that the member inherited through [`inherit`](Self::inherit). To be called last, after all
    /// requested locks are released, since only holders inherit.
    pub fn release_inherited(&self, member: &Member) {
        let mut todo = Todo::default();
        loop {
            let Some(name) = member.inherited.lock().pop() else { break };
            self.release_grant(member, name, &mut todo);
        }
        self.carry_out(todo);
    }
}
