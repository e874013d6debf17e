//! The one thread that writes: a group after the other, each durable before the next begins.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use super::format::{SEGMENT_HEADER_BYTES, SegmentHeader, measure_frame};
use super::queue::{Group, Queue, Written};
use super::storage::{LogStorage, Segment};

/// Writes until the queue is closed and empty, or until anything fails.
pub(super) fn run(queue: &Arc<Queue>, storage: Box<dyn LogStorage>, segment_bytes: u64) {
    let _departure = Departure(queue);
    let mut segments = Segments { storage, segment_bytes, last: 0, live: Vec::new(), current: None };
    let mut frames = Vec::new();
    while let Some(group) = queue.take(&mut frames) {
        match segments.write_group(&group) {
            Ok(written) => queue.finish(&group, written),
            Err(error) => {
                let reason = match &segments.current {
                    Some(current) => format!("segment {} at byte {}: {error}", current.number, current.used),
                    None => format!("beginning segment {}: {error}", segments.last),
                };
                queue.fail(&reason);
                return;
            }
        }
    }
}

/// Tells the queue that nobody writes any more, also when the writer panics.
struct Departure<'a>(&'a Queue);

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        self.0.fail("its writer has ended");
    }
}

/// The segments of the log.
struct Segments {
    storage: Box<dyn LogStorage>,
    segment_bytes: u64,
    /// The number given last. Numbers are never given twice.
    last: u64,
    /// The numbers of those that there are.
    live: Vec<u64>,
    current: Option<Current>,
}

/// The segment that is being written.
struct Current {
    number: u64,
    segment: Box<dyn Segment>,
    used: u64,
    bytes: u64,
}

impl Segments {
    fn write_group(&mut self, group: &Group<'_>) -> io::Result<Written> {
        let mut written = Written::default();
        if group.is_emptied {
            self.remove_all()?;
        }
        let mut rest = group.frames;
        while !rest.is_empty() {
            let (first_length, first_lsn) = measure_frame(rest);
            let has_room = |current: &Current| current.used + first_length as u64 <= current.bytes;
            if !self.current.as_ref().is_some_and(has_room) {
                self.begin_segment(first_lsn, first_length)?;
                written.bytes += SEGMENT_HEADER_BYTES as u64;
            }
            let current = self.current.as_mut().expect("it was begun");
            let (now, later) = rest.split_at(frames_that_fit(rest, current.bytes - current.used));
            current.write(now)?;
            current.segment.sync()?;
            written.bytes += now.len() as u64;
            written.syncs += 1;
            rest = later;
        }
        Ok(written)
    }

    /// The segment before is durable: each write is followed by a sync.
    fn begin_segment(&mut self, first_lsn: u64, first_length: usize) -> io::Result<()> {
        self.current = None;
        self.last += 1;
        let number = self.last;
        let bytes = self.segment_bytes.max((SEGMENT_HEADER_BYTES + first_length) as u64);
        let segment = self.storage.create(number, bytes)?;
        self.live.push(number);
        let current = self.current.insert(Current { number, segment, used: 0, bytes });
        current.write(&SegmentHeader { number, first_lsn }.encode())
    }

    /// The newest first: whatever a crash leaves is a log that ended earlier.
    fn remove_all(&mut self) -> io::Result<()> {
        self.current = None;
        while let Some(number) = self.live.pop() {
            self.storage.remove(number)?;
        }
        Ok(())
    }
}

impl Current {
    /// Writes all of it behind what there is.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.segment.write_at(bytes, self.used) {
                Ok(0) => return Err(io::Error::new(ErrorKind::WriteZero, "nothing can be written any more")),
                Ok(count) => {
                    self.used += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The length of the whole frames among these that fit in so many bytes.
fn frames_that_fit(frames: &[u8], room: u64) -> usize {
    let mut end = 0;
    while end < frames.len() {
        let (length, _) = measure_frame(&frames[end..]);
        if (end + length) as u64 > room {
            break;
        }
        end += length;
    }
    end
}
