//! Intention locks on tables that are kept by the transaction itself as long as no stronger lock on the table is
//! requested.
//!
//! Each operation begins with an intention on its table, so all threads would meet at the heads of a few tables, where
//! each would search for its grant among those of all. But IS and IX are compatible. As long as no transaction holds or
//! requests another mode of a table, there is nothing to decide, and a transaction records its intention in its member.
//! A request for a stronger mode makes the table *gather*: all intentions on it become grants of its head, and later
//! intentions are requested there, as for any other name.

use std::sync::atomic::Ordering;

use super::head::{Answer, Head};
use super::member::Member;
use super::mode::Mode;
use super::name::LockName;
use super::table::LockTable;

/// A transaction's request for a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Intent {
    table: u32,
    /// The intention that it holds, unless it is a grant of the table's head.
    mode: Option<Mode>,
}

fn is_intention(mode: Mode) -> bool {
    matches!(mode, Mode::IS | Mode::IX)
}

impl LockTable {
    /// Answers a request for a table if that needs no head. Otherwise the caller asks the head.
    pub(super) fn intend(&self, member: &Member, name: LockName, mode: Mode) -> Option<Answer> {
        let table = name.as_table()?;
        let mut intents = member.intents.lock();
        // Relaxed: a thread that makes a table gather looks into each member afterwards, under the member's mutex.
        // Either it finds the intention recorded here, or this load sees its increment.
        let is_open = is_intention(mode) && self.gathering(table).load(Ordering::Relaxed) == 0;
        let Some(intent) = intents.iter_mut().find(|intent| intent.table == table) else {
            intents.push(Intent { table, mode: is_open.then_some(mode) });
            drop(intents);
            if is_open {
                member.count_grant();
            }
            return is_open.then_some(Answer::Granted);
        };
        let held = intent.mode?;
        if held.covers(mode) {
            return Some(Answer::Held);
        }
        if is_open {
            intent.mode = Some(held.supremum(mode));
        }
        is_open.then_some(Answer::Converted)
    }

    /// Releases an intention that is not a grant of a head; returns whether it was one.
    pub(super) fn give_up_intent(&self, member: &Member, name: LockName) -> bool {
        let Some(table) = name.as_table() else { return false };
        let mut intents = member.intents.lock();
        let at = intents.iter().position(|intent| intent.table == table);
        at.is_some_and(|at| intents.swap_remove(at).mode.is_some())
    }

    /// Before a table's head is asked for a mode: turns the member's intention into a grant of the head. If the mode is
    /// not an intention, the table starts to gather, and the intentions of all members become grants. In the partition
    /// of the name.
    pub(super) fn gather(&self, head: &mut Head, member: &Member, name: LockName, mode: Mode) {
        let Some(table) = name.as_table() else { return };
        if is_intention(mode) || head.is_gathering {
            return hand_over(head, member, table);
        }
        head.is_gathering = true;
        self.gathering(table).fetch_add(1, Ordering::Relaxed);
        self.for_each_member(|member| hand_over(head, member, table));
    }

    /// After a head has changed: ends gathering if only intentions are left. In the partition of the name.
    pub(super) fn end_gathering(&self, head: &mut Head, name: LockName) {
        if head.is_gathering && head.has_intentions_only() {
            head.is_gathering = false;
            let table = name.as_table().expect("only tables gather");
            self.gathering(table).fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The intention of a member that is not a grant of the table's head.
    pub(super) fn intent(&self, member: &Member, name: LockName) -> Option<Mode> {
        let table = name.as_table()?;
        member.intents.lock().iter().find(|intent| intent.table == table)?.mode
    }
}

/// Turns a member's intention into a grant.
fn hand_over(head: &mut Head, member: &Member, table: u32) {
    let mut intents = member.intents.lock();
    if let Some(intent) = intents.iter_mut().find(|intent| intent.table == table)
        && let Some(mode) = intent.mode.take()
    {
        head.admit(member.slot, mode);
    }
}
