//! Writes groups one after the other; each is durable before the next begins.

use std::fmt;
use std::time::Duration;

use super::super::segments::Segments;
use super::{Group, Queue, QueueState, Written};
use crate::log::LogError;

/// The right to write, with the segments. There is one.
pub(in crate::log) struct Pen(pub(in crate::log) Segments);

impl fmt::Debug for Pen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Pen").field(&self.0.place()).finish()
    }
}

/// The log's own thread: writes the groups that are left to it until the queue is closed and empty, or until an error.
pub(in crate::log) fn run(queue: &Queue) {
    let _departure = Departure(queue);
    while let Some((pen, group)) = queue.take() {
        queue.write(pen, group);
    }
}

/// Tells the queue that no thread writes any more, even if writing panics.
struct Departure<'a>(&'a Queue);

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        self.0.fail("its writer has ended");
    }
}

impl Queue {
    /// Writes a group. Any error ends the log.
    pub(super) fn write(&self, mut pen: Box<Pen>, mut group: Group) {
        let departure = Departure(self);
        let outcome = pen.0.write_group(&mut group);
        std::mem::forget(departure);
        match outcome {
            Ok(written) => self.finish(pen, group, written),
            Err(error) => self.fail(&format!("{}: {error}", pen.0.place())),
        }
    }

    /// The pen and the next group, for the writer; `None` when no more will come.
    fn take(&self) -> Option<(Box<Pen>, Group)> {
        let mut state = self.state.lock();
        loop {
            let has_work = state.has_work();
            if self.durable.failure().is_some() || state.is_closing && !has_work {
                return None;
            }
            match self.time_left(&state).filter(|_| has_work) {
                Some(left) => drop(self.work.wait_for(&mut state, left)),
                None => match if has_work { state.pen.take() } else { None } {
                    Some(pen) => return Some((pen, self.take_group(&mut state))),
                    None => self.work.wait(&mut state),
                },
            }
        }
    }

    /// Takes the gathering group, for the thread that has the pen; the next group begins.
    pub(super) fn take_group(&self, state: &mut QueueState) -> Group {
        let keep_from = match self.checkpoint_bytes {
            Some(_) => state.first_lsn,
            None => state.first_lsn.max(state.next_lsn.saturating_sub(self.bytes_max)),
        };
        let spare = std::mem::take(&mut state.spare);
        let group = Group {
            frames: std::mem::replace(&mut state.frames, spare),
            is_emptied: std::mem::take(&mut state.is_emptied),
            keep_from,
            number: state.group,
            units: std::mem::take(&mut state.units),
            began: self.clock.now(),
        };
        state.group += 1;
        state.is_urgent = false;
        self.room.notify_all();
        group
    }

    /// How much longer the group may gather.
    fn time_left(&self, state: &QueueState) -> Option<Duration> {
        let (lag_bytes, lag) = self.lag?;
        if state.is_closing || state.is_urgent || state.is_emptied || state.frames.len() >= lag_bytes {
            return None;
        }
        let left = (state.began + lag).saturating_sub(self.clock.now());
        (!left.is_zero()).then_some(left)
    }

    /// The group is durable, and the pen is free again.
    fn finish(&self, pen: Box<Pen>, group: Group, written: Written) {
        let mut state = self.state.lock();
        self.durable.reach(group.number);
        let statistics = &mut state.statistics;
        statistics.durable_units += group.units;
        statistics.written_bytes += written.bytes;
        statistics.groups += u64::from(group.units > 0);
        statistics.group_units_max = statistics.group_units_max.max(group.units);
        statistics.syncs += written.syncs;
        statistics.recycled_segments += written.recycled;
        statistics.write_time += self.clock.now().saturating_sub(group.began);
        state.spare = group.frames;
        state.spare.clear();
        state.pen = Some(pen);
        let is_checkpoint_due = state.next_lsn >= state.checkpoint_lsn;
        let has_work = state.has_work();
        drop(state);
        if has_work {
            self.work.notify_one();
        }
        self.durable.wake(group.number);
        if is_checkpoint_due {
            self.checkpoints.notify_one();
        }
    }

    /// The log has failed, or its writer has ended: wakes all waiting threads. The first reason stays.
    fn fail(&self, reason: &str) {
        let state = self.state.lock();
        self.durable.fail(LogError::Dead { reason: reason.to_owned() });
        drop(state);
        self.work.notify_all();
        self.room.notify_all();
    }
}
