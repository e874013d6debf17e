//! What insertions and deletions do to locks on gaps; the rules are in the [manual](super).

use super::head::{Answer, Head, Slot, Ticket};
use super::member::Member;
use super::mode::Mode;
use super::name::LockName;
use super::table::LockTable;
use super::verdicts::Todo;

/// Who has read a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapState {
    /// Another transaction: an insertion must wait for it.
    pub read_by_others: bool,
    /// The inserter itself: it must go on holding both halves.
    pub read_by_me: bool,
}

impl LockTable {
    /// Gives up the intention to insert into a gap, but not the right of having read it. Says whether that right is held.
    pub fn give_up_intention(&self, member: &Member, gap: LockName) -> bool {
        let mut todo = Todo::default();
        let still_held = self.change(gap, &mut todo, |head, granted| {
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

    /// Who besides `member` keeps an insertion out of this gap, and whether `member` has itself read it.
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

    /// Gives a lock without asking anybody: for a gap that an insertion has just created, which nobody else can know.
    pub(crate) fn grant_new_gap(&self, member: &Member, gap: LockName) -> Answer {
        let hash = gap.hash();
        let mut heads = self.partition(hash).lock();
        let answer = heads
            .head(gap, hash)
            .grant_unconditionally(member.slot, Mode::S, |_| unreachable!("nobody waits for a gap that nobody knows"));
        if answer == Answer::Granted {
            member.count_grant();
        }
        answer
    }

    /// A gap disappears into the next one: those who have read it have read the next one from now on. Whoever calls holds the
    /// latch of the index, and [carries out](Self::carry_out) what follows when it has given it up: schedulers are asked,
    /// threads get other nice values, and cycles are searched for.
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
                // A reader that is ending right now has not given up `gap` yet, for its partition is locked here; so it
                // has not yet looked for what it inherited.
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

    /// Waiters of a gap wait for heirs now whom they did not wait for before. In the partition of the gap.
    fn note_heirs(&self, head: &mut Head, gap: LockName, heirs: Vec<Slot>, todo: &mut Todo) {
        for &slot in &heirs {
            let heir = self.member(slot);
            if let Some(at) = head.position(slot) {
                // It is ahead of others now, whom it may have waited for.
                let ticket = Ticket { sequence: heir.next_wait(), ..head.queue()[at].ticket };
                head.renew(slot, ticket, |_| unreachable!("its rank is what it was"));
                if !self.leaves_holders_alone {
                    // It asks for more than before, and others hold what does not go with it.
                    self.note_new_waiter(head, gap, &heir, todo);
                }
            }
            if !self.leaves_holders_alone {
                self.note_new_holder(head, gap, &heir, todo);
            }
        }
        self.forget_reprieves(head);
        // No request of theirs announces these edges (invariant 4).
        todo.waiters = heirs;
    }

    /// Gives up what the member was made to hold by [`inherit`](Self::inherit). To be called last, when it has given up
    /// all that it asked for, since only holders inherit.
    pub fn release_inherited(&self, member: &Member) {
        let mut todo = Todo::default();
        loop {
            let Some(name) = member.inherited.lock().pop() else { break };
            self.change(name, &mut todo, |head, granted| head.release(member.slot, |waiter| granted.push(waiter)));
        }
        self.carry_out(todo);
    }
}
