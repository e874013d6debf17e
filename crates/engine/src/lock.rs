//! The lock manager: strict two-phase locking with intention modes, key-range locks and scheduled queues.
//!
//! # Words
//!
//! A **lock name** is a thing that can be locked: a table, a row, or a gap of an index. A **grant** is a mode that a
//! transaction holds on a name; a transaction with a grant is a **holder**. A **request** that cannot be granted makes its
//! transaction a **waiter** in the name's **queue**. A holder that asks for more is a **conversion**. A transaction that is
//! rolled back so that a cycle of waiters disappears is the **victim**.
//!
//! # Invariants
//!
//! 1. Grants of different transactions on one name are pairwise compatible (asserted at each grant in
//!    [`head`]; an inherited gap grant, below, is the one stated exception).
//! 2. A transaction has at most one grant and at most one request on a name, and waits for at most one name at a time.
//! 3. The queue is ordered: conversions first, then by the scheduler's rank, then by arrival. Nobody behind a request that
//!    must wait is granted, so a request can be passed over only by its betters.
//! 4. Every edge "waits for" is created either by enqueueing a request or by inheriting a gap grant, and both are followed by
//!    a search for a cycle through the waiters concerned. The last edge of a cycle therefore always finds it, in whatever
//!    order the scheduler arranged the queue. An immediate grant creates no edge that can close a cycle, because its
//!    transaction is running.
//!
//! # Key-range locks
//!
//! `Gap(index, row)` names the open interval below that row's entry in that index, down to the entry before; `Gap(index, END)`
//! the interval above the last entry. A scan holds S on the gap below every entry it visits and below the first entry past
//! its end, so that no row can appear in the range. An insert needs the gap it splits free of other transactions' S for the
//! instant of the insertion, and afterwards its own X on the row does the rest. When an entry disappears its gap merges with
//! the next one, and holders of the lost gap [inherit](LockTable::inherit) the next: unconditionally, because an inserter that
//! already holds the right to the wider gap is by construction above the disappearing entry and so outside of the holder's range.
//!
//! # What schedulers decide here
//!
//! The order of queues, by [`LockScheduler::rank`](plimsoll_policy::LockScheduler::rank). The schedulers that there are leave
//! holders alone, so verdicts on holders are not asked for yet: the table of schedulers is to grow by those that preempt.
//!
//! # Files
//!
//! [`mode`] is the compatibility matrix, [`head`] one name's grants and queue (no threads, no clock: its schedules are tested
//! as text tables), [`table`] the partitioned table with sleeping waiters, [`deadlock`] the search for cycles.

pub mod deadlock;
pub mod head;
pub mod mode;
pub mod table;

pub use mode::Mode;
pub use table::{LockName, LockTable, Member, RequestError};
