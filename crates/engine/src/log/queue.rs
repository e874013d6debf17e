//! The queue between committers and the writer: the gathering group, the group that is being written, and the
//! committers that wait for each.
//!
//! There is one [`Pen`], and the thread that has it writes. Under `sync` a committer that finds it free takes it and
//! writes the group of its unit. Units that come during the write wait and are left to the writer, which continues as
//! long as there is something to write. So a log that is not busy costs no context switches, and a busy one has no
//! pause between its groups.

// Paths, because a test compiles this file elsewhere (`tests/interleaving.rs`).
#[path = "queue/durable.rs"]
mod durable;
#[path = "queue/writer.rs"]
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::format::{FRAME_HEADER_BYTES, append_frame};
use super::record::Unit;
use super::{Durability, LogError, LogOptions, LogStatistics};
use crate::clock::Clock;
use durable::Durable;
pub(super) use writer::{Pen, run};

/// The state that committers and the writer share.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// The writer sleeps here.
    work: Condvar,
    /// Committers that found the buffer full.
    room: Condvar,
    /// The thread that makes checkpoints waits here.
    checkpoints: Condvar,
    /// The groups that are durable, and committers that wait for theirs.
    durable: Durable,
    bytes_max: u64,
    /// Bytes of units from one checkpoint to the next; `None`: there are no checkpoints, and the log forgets its oldest
    /// units instead of being full.
    checkpoint_bytes: Option<u64>,
    buffer_bytes: usize,
    /// The bytes and the time for which the writer may wait before it begins; `None`: it begins at once.
    lag: Option<(usize, Duration)>,
    /// Whether committers that wait for the disk may write.
    do_committers_write: AtomicBool,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct QueueState {
    /// The pen, while no thread writes.
    pen: Option<Box<Pen>>,
    /// Frames of the gathering group.
    frames: Vec<u8>,
    /// The buffer of the previous group, kept for its memory.
    spare: Vec<u8>,
    units: u64,
    /// When its first unit came.
    began: Duration,
    group: u64,
    next_lsn: u64,
    /// The beginning of the log; earlier units are forgotten.
    first_lsn: u64,
    /// A checkpoint is due when the log has reached this place.
    checkpoint_lsn: u64,
    /// No more checkpoints are to be made.
    is_ending_checkpoints: bool,
    /// Whether a table, by number, has units since the log began.
    has_units: Vec<bool>,
    /// All segments are to be removed before the next group.
    is_emptied: bool,
    /// A thread waits for the gathering group, or for room in the buffer; the lag does not apply.
    is_urgent: bool,
    is_closing: bool,
    statistics: LogStatistics,
}

/// A checkpoint that is durable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckpointNote {
    /// The place from which the log is to be read.
    pub(crate) begin_lsn: u64,
    pub(crate) bytes: u64,
}

/// The place of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "under `sync` a transaction may be acknowledged only when its unit has been waited for"]
pub(crate) struct Ticket {
    /// The group with which it became durable, or will become so.
    group: u64,
    /// How long it waited for room in the buffer.
    pub(crate) waited: Duration,
}

/// A group to be written.
pub(super) struct Group {
    /// Its frames, without stamps. Empty only if the log is emptied.
    pub(super) frames: Vec<u8>,
    /// Whether all segments so far are to be removed first.
    pub(super) is_emptied: bool,
    /// Units before this log sequence number are not needed any more.
    pub(super) keep_from: u64,
    number: u64,
    units: u64,
    began: Duration,
}

/// The result of writing a group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    /// Bytes with segment headers.
    pub(super) bytes: u64,
    /// Calls of `fdatasync`.
    pub(super) syncs: u64,
    /// Segments that were reused.
    pub(super) recycled: u64,
}

impl Queue {
    /// The queue of a log whose first unit is at `first_lsn` and whose next unit gets `next_lsn`.
    pub(super) fn new(options: &LogOptions, clock: Arc<dyn Clock>, pen: Pen, first_lsn: u64, next_lsn: u64) -> Self {
        let checkpoint_bytes = options.data_folder.is_some().then_some(options.checkpoint_bytes);
        let state = QueueState {
            pen: Some(Box::new(pen)),
            frames: Vec::new(),
            spare: Vec::new(),
            units: 0,
            began: Duration::ZERO,
            group: 0,
            next_lsn,
            first_lsn,
            checkpoint_lsn: checkpoint_bytes.map_or(u64::MAX, |bytes| first_lsn + bytes),
            is_ending_checkpoints: false,
            has_units: Vec::new(),
            is_emptied: false,
            is_urgent: false,
            is_closing: false,
            statistics: LogStatistics::default(),
        };
        Queue {
            state: Mutex::new(state),
            work: Condvar::new(),
            room: Condvar::new(),
            checkpoints: Condvar::new(),
            durable: Durable::default(),
            bytes_max: options.bytes_max,
            checkpoint_bytes,
            buffer_bytes: options.buffer_bytes,
            lag: (options.durability == Durability::Async).then_some((options.lag_bytes, options.lag)),
            do_committers_write: AtomicBool::new(options.durability == Durability::Sync),
            clock,
        }
    }

    /// Makes committers wait for the log's own thread rather than write themselves.
    pub(crate) fn leave_to_writer(&self) {
        // Relaxed: both values are right.
        self.do_committers_write.store(false, Ordering::Relaxed);
    }

    /// Adds a unit to the gathering group; sleeps only if there is no room for it. Catalog changes, which may make the
    /// log shorter, are accepted beyond its bound. A committer that waits for the disk may write the unit itself; for
    /// any other unit the writer is woken.
    pub(super) fn append(&self, unit: &Unit, is_waited_for: bool) -> Result<Ticket, LogError> {
        let length = FRAME_HEADER_BYTES + unit_length(unit.bytes().len() as u64)? as usize;
        let began = self.clock.now();
        let mut state = self.state.lock();
        let slept = self.wait_for_room(&mut state, length, is_waited_for)?;
        let was_empty = state.units == 0;
        state.append(unit, length);
        if was_empty {
            state.began = began;
        }
        let is_due = match self.lag {
            Some((bytes, _)) => was_empty || state.frames.len() >= bytes,
            None => was_empty && !(is_waited_for && self.do_committers_write.load(Ordering::Relaxed)),
        };
        if is_due {
            self.work.notify_one();
        }
        let group = state.group;
        drop(state);
        let waited = if slept { self.clock.now().saturating_sub(began) } else { Duration::ZERO };
        Ok(Ticket { group, waited })
    }

    /// Waits until the unit of this ticket is durable. Returns how long it slept.
    pub(super) fn wait(&self, ticket: Ticket) -> Result<Duration, LogError> {
        self.sleep_until_durable(self.state.lock(), ticket.group + 1)
    }

    /// Waits until everything appended so far is durable. Returns how long it slept.
    pub(super) fn wait_for_all(&self) -> Result<Duration, LogError> {
        let state = self.state.lock();
        let groups = state.group + u64::from(state.units > 0);
        self.sleep_until_durable(state, groups)
    }

    /// The place of the last unit appended; `None` if everything appended is durable.
    pub(super) fn last_ticket(&self) -> Option<Ticket> {
        let state = self.state.lock();
        let groups = state.group + u64::from(state.units > 0);
        (groups > self.durable.below()).then(|| Ticket { group: groups - 1, waited: Duration::ZERO })
    }

    /// Waits until all groups below this number are durable. Returns how long it slept.
    fn sleep_until_durable(&self, mut state: MutexGuard<'_, QueueState>, groups: u64) -> Result<Duration, LogError> {
        if self.durable.below() >= groups {
            return Ok(Duration::ZERO);
        }
        let began = self.clock.now();
        let may_write = self.do_committers_write.load(Ordering::Relaxed) && self.durable.failure().is_none();
        if may_write && state.has_work() && state.pen.is_some() {
            assert_eq!(state.group + 1, groups, "no thread writes, so that the group is either durable or gathering");
            let pen = state.pen.take().expect("it was seen a moment ago");
            let group = self.take_group(&mut state);
            MutexGuard::unlocked(&mut state, || self.write(pen, group));
            state.statistics.own_groups += u64::from(self.durable.below() >= groups);
        }
        drop(state);
        self.durable.wait_for(groups - 1)?;
        Ok(self.clock.now().saturating_sub(began))
    }

    /// Waits until the buffer has room for `length` bytes; returns whether it slept. A unit larger than the buffer gets
    /// it alone.
    fn wait_for_room(
        &self,
        state: &mut MutexGuard<'_, QueueState>,
        length: usize,
        is_bounded: bool,
    ) -> Result<bool, LogError> {
        let mut slept = false;
        loop {
            if let Some(failure) = self.durable.failure() {
                return Err(failure.clone());
            }
            // A full log is an error rather than a wait for a checkpoint, which may itself wait for the rows that this
            // transaction has locked.
            let has_bound = is_bounded && self.checkpoint_bytes.is_some();
            if has_bound && state.next_lsn - state.first_lsn + length as u64 > self.bytes_max {
                return Err(LogError::Full { bytes_max: self.bytes_max });
            }
            if state.frames.is_empty() || state.frames.len() + length <= self.buffer_bytes {
                return Ok(slept);
            }
            if !slept {
                state.statistics.buffer_waits += 1;
                slept = true;
            }
            // The writer need not wait for more units while there is no room.
            state.is_urgent = true;
            self.work.notify_one();
            self.room.wait(state);
        }
    }

    /// Waits until everything appended so far is durable, and the log is emptied if that was requested.
    pub(super) fn flush(&self) -> Result<(), LogError> {
        let mut state = self.state.lock();
        let has_work = state.has_work();
        if has_work {
            state.is_urgent = true;
            self.work.notify_one();
        }
        let last = (state.group + u64::from(has_work)).checked_sub(1);
        drop(state);
        last.map_or(Ok(()), |last| self.durable.wait_for(last))
    }

    /// Forgets the units of a table that no transaction will use any more. If no other table has units, the log begins
    /// again.
    pub(crate) fn forget_table(&self, table: u32) {
        let mut state = self.state.lock();
        let Some(has_units) = state.has_units.get_mut(table as usize) else { return };
        if std::mem::take(has_units) && !state.has_units.contains(&true) {
            // Unwritten units are about forgotten tables, too, and no committer waits for them: a table is dropped only
            // after the transactions that use it have ended.
            state.frames.clear();
            state.units = 0;
            state.first_lsn = state.next_lsn;
            state.is_emptied = true;
            self.work.notify_one();
        }
    }

    pub(super) fn statistics(&self) -> LogStatistics {
        self.state.lock().statistics
    }

    /// The log sequence number that the next unit gets.
    pub(crate) fn next_lsn(&self) -> u64 {
        self.state.lock().next_lsn
    }

    /// Sleeps until the log has grown enough for the next checkpoint; false if no more are to be made.
    pub(crate) fn wait_until_checkpoint_is_due(&self) -> bool {
        let mut state = self.state.lock();
        while !state.is_ending_checkpoints {
            if state.next_lsn >= state.checkpoint_lsn && self.durable.failure().is_none() {
                return true;
            }
            self.checkpoints.wait(&mut state);
        }
        false
    }

    /// Ends all waits for the next checkpoint.
    pub(crate) fn end_checkpoints(&self) {
        self.state.lock().is_ending_checkpoints = true;
        self.checkpoints.notify_all();
    }

    /// Records the outcome of a checkpoint. A durable one makes the units before its beginning superfluous.
    pub(crate) fn note_checkpoint(&self, outcome: Result<CheckpointNote, ()>) {
        let mut state = self.state.lock();
        let interval = self.checkpoint_bytes.unwrap_or(u64::MAX);
        match outcome {
            Ok(CheckpointNote { begin_lsn, bytes }) => {
                state.first_lsn = begin_lsn;
                state.checkpoint_lsn = begin_lsn.saturating_add(interval);
                state.statistics.checkpoints += 1;
                state.statistics.checkpoint_bytes += bytes;
            }
            // Not at once: the next attempt costs as much as this one.
            Err(()) => {
                state.checkpoint_lsn = state.next_lsn.saturating_add((interval / 4).max(1));
                state.statistics.checkpoint_failures += 1;
            }
        }
    }

    /// Makes the writer write the remaining units and end.
    pub(super) fn close(&self) {
        self.state.lock().is_closing = true;
        self.work.notify_one();
    }
}

/// The length of a unit as stored in frames.
fn unit_length(bytes: u64) -> Result<u32, LogError> {
    u32::try_from(bytes).map_err(|_| LogError::TooLarge { bytes })
}

impl QueueState {
    fn has_work(&self) -> bool {
        self.units > 0 || self.is_emptied
    }

    fn append(&mut self, unit: &Unit, length: usize) {
        append_frame(&mut self.frames, self.next_lsn, unit.bytes(), unit.checksum());
        self.next_lsn += length as u64;
        self.units += 1;
        self.statistics.units += 1;
        self.statistics.unit_bytes += length as u64;
        for &table in unit.tables() {
            let table = table as usize;
            if table >= self.has_units.len() {
                self.has_units.resize(table + 1, false);
            }
            self.has_units[table] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_of_four_gibibytes_is_refused() {
        assert_eq!(unit_length(u64::from(u32::MAX)), Ok(u32::MAX));
        let error = unit_length(1 << 32).expect_err("does not fit 32 bits");
        assert_eq!(error, LogError::TooLarge { bytes: 1 << 32 });
        assert!(error.to_string().contains("commit its work in smaller transactions"), "{error}");
    }
}
