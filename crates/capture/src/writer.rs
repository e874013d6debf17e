//! Makes blocks of events and writes them. It has no thread and no clock: [`recorder`](crate::recorder) has both.

use std::io;

use plimsoll_notation::sql::TextRules;

use crate::description::Description;
use crate::encoding::encode;
use crate::event::{Event, Lost, WhyLost};
use crate::format::{HEAD_BYTES, Packer, head};
use crate::redact::Redactor;
use crate::storage::{Segment, Storage};

/// A block of plain events is written when it has this many bytes.
pub const BLOCK_BYTES: usize = 256 << 10;

/// How long a disk that has failed is left alone, in microseconds.
const RETRY_US: u64 = 1_000_000;

/// Room that is kept for the last losses when a capture has reached its size.
const RESERVE: u64 = 16 << 10;

/// Openings and ends of sessions that are kept while the disk fails, in encoded bytes.
const KEPT_MAX: usize = 1 << 20;

/// The bounds of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of all segments together.
    pub size_max: u64,
    /// The size from which a segment is followed by another.
    pub segment_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { size_max: 1 << 30, segment_bytes: 64 << 20 }
    }
}

/// Whether events are written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum State {
    /// They are.
    #[default]
    Recording,
    /// The capture has reached its size.
    Full,
    /// The disk refuses them for the given reason; it is tried again.
    DiskFails(String),
    /// The capture has ended.
    Ended,
}

/// An event that waits to be written, with the rules by which the texts in it are read.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    pub(crate) rules: TextRules,
}

/// A segment that is being written.
struct Open {
    segment: Box<dyn Segment>,
    bytes: u64,
}

/// Writes a capture.
pub(crate) struct Writer {
    storage: Box<dyn Storage>,
    limits: Limits,
    redactor: Redactor,
    description: Description,
    is_described: bool,
    packer: Packer,
    open: Option<Open>,
    number: u32,
    /// The bytes of all segments.
    pub(crate) written: u64,
    /// The units in them.
    pub(crate) units: u64,
    pub(crate) state: State,
    /// How many units were lost for each reason of [`WhyLost::ALL`].
    pub(crate) lost: [u64; WhyLost::ALL.len()],
    retry_at_us: u64,
    block: Block,
    /// Openings and ends of sessions of blocks that could not be written.
    kept: Vec<u8>,
    /// Losses that no segment tells of.
    untold: Vec<Lost>,
}

/// The events of the next block.
#[derive(Default)]
struct Block {
    plain: Vec<u8>,
    /// How many units there are, and when the first began.
    units: u64,
    first_us: u64,
    /// The bytes in `plain` that open or end sessions.
    sessions: Vec<std::ops::Range<usize>>,
}

impl Writer {
    /// Begins a capture; fails if its description cannot be written.
    pub(crate) fn begin(
        mut storage: Box<dyn Storage>,
        description: Description,
        limits: Limits,
        redactor: Redactor,
    ) -> io::Result<Self> {
        storage.describe(&description.text())?;
        Ok(Writer {
            storage,
            limits,
            redactor,
            description,
            is_described: true,
            packer: Packer::new()?,
            open: None,
            number: 0,
            written: 0,
            units: 0,
            state: State::Recording,
            lost: [0; WhyLost::ALL.len()],
            retry_at_us: 0,
            block: Block::default(),
            kept: Vec::new(),
            untold: Vec::new(),
        })
    }

    /// A session has shown the server's version.
    pub(crate) fn is_served_by(&mut self, version: u32) {
        if self.description.server_version != Some(version) {
            self.description.server_version = Some(version);
            self.is_described = false;
        }
    }

    /// Writes events, except for those that the disk or the size of the capture does not permit.
    pub(crate) fn write(&mut self, entries: impl IntoIterator<Item = Entry>, now_us: u64) {
        for Entry { mut event, rules } in entries {
            self.redactor.apply(&mut event, rules);
            self.block.add(&event);
            if self.block.plain.len() >= BLOCK_BYTES {
                self.end_block(now_us);
            }
        }
        self.end_block(now_us);
        if !self.is_described && matches!(self.state, State::Recording) {
            self.is_described = self.storage.describe(&self.description.text()).is_ok();
        }
    }

    /// Units are missing that never came here.
    pub(crate) fn add_lost(&mut self, lost: Lost) {
        let place = WhyLost::ALL.iter().position(|why| *why == lost.why).expect("all are listed");
        self.lost[place] += lost.units;
        match self.untold.iter_mut().find(|other| other.why == lost.why) {
            Some(other) => (other.units, other.at_us) = (other.units + lost.units, other.at_us.min(lost.at_us)),
            None => self.untold.push(lost),
        }
    }

    /// Writes what is left, and ends the capture.
    pub(crate) fn finish(&mut self, now_us: u64) {
        self.retry_at_us = 0;
        self.end_block(now_us);
        if !self.untold.is_empty() {
            // The reserve is for this.
            let told = self.tell_losses();
            let _ = self.append(&told);
        }
        if let Some(mut open) = self.open.take() {
            let _ = open.segment.sync();
        }
        if !self.is_described {
            let _ = self.storage.describe(&self.description.text());
        }
        self.state = State::Ended;
    }

    fn end_block(&mut self, now_us: u64) {
        let has_nothing = self.block.plain.is_empty() && self.untold.is_empty() && self.kept.is_empty();
        if has_nothing || self.state == State::Ended {
            return;
        }
        match self.state {
            State::Full => return self.lose(WhyLost::Size),
            State::DiskFails(_) if now_us < self.retry_at_us => return self.lose(WhyLost::Disk),
            _ => {}
        }
        let losses = self.untold.clone();
        let mut plain = std::mem::take(&mut self.kept);
        let kept = plain.len();
        losses.iter().for_each(|lost| encode(&Event::Lost(*lost), &mut plain));
        plain.extend_from_slice(&self.block.plain);
        let written = match self.packer.block(&plain) {
            Ok(block) if self.written + self.head_bytes() + block.len() as u64 + RESERVE > self.limits.size_max => {
                return self.fill();
            }
            Ok(block) => self.append(&block),
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => {
                self.units += self.block.units;
                self.block.clear();
                self.untold.clear();
                self.state = State::Recording;
            }
            Err(error) => {
                plain.truncate(kept);
                self.kept = plain;
                (self.state, self.retry_at_us) = (State::DiskFails(error.to_string()), now_us + RETRY_US);
                self.lose(WhyLost::Disk);
            }
        }
    }

    /// The capture has reached its size: that is the last it tells, until it ends.
    fn fill(&mut self) {
        self.state = State::Full;
        self.lose(WhyLost::Size);
        let told = self.tell_losses();
        if self.append(&told).is_ok() {
            self.untold.clear();
        }
    }

    /// A block that only tells of losses.
    fn tell_losses(&mut self) -> Vec<u8> {
        let mut plain = Vec::new();
        self.untold.iter().for_each(|lost| encode(&Event::Lost(*lost), &mut plain));
        if plain.is_empty() { Vec::new() } else { self.packer.block(&plain).unwrap_or_default() }
    }

    /// The block will not be written.
    fn lose(&mut self, why: WhyLost) {
        if self.block.units > 0 {
            self.add_lost(Lost { at_us: self.block.first_us, units: self.block.units, why });
        }
        for range in self.block.sessions.iter().filter(|_| why == WhyLost::Disk) {
            if self.kept.len() + range.len() <= KEPT_MAX {
                self.kept.extend_from_slice(&self.block.plain[range.clone()]);
            }
        }
        self.block.clear();
    }

    /// The bytes that a new segment would cost.
    fn head_bytes(&self) -> u64 {
        let is_full = self.open.as_ref().is_none_or(|open| open.bytes >= self.limits.segment_bytes);
        if is_full { HEAD_BYTES as u64 } else { 0 }
    }

    /// Appends a block, to a new segment if there is none or it is full.
    fn append(&mut self, block: &[u8]) -> io::Result<()> {
        if block.is_empty() {
            return Ok(());
        }
        if self.open.as_ref().is_some_and(|open| open.bytes >= self.limits.segment_bytes) {
            self.open = None;
        }
        if self.open.is_none() {
            // A number is not used twice: what a failure has left of a segment stays as it is.
            self.number += 1;
            let segment = self.storage.create(self.number)?;
            let open = self.open.insert(Open { segment, bytes: 0 });
            self.written += put(open, &head(self.number)).inspect_err(|_| self.open = None)?;
        }
        let open = self.open.as_mut().expect("it was just opened");
        let before = open.bytes;
        match put(open, block) {
            Ok(bytes) => {
                self.written += bytes;
                Ok(())
            }
            Err(error) => {
                // Half a block would hide those behind it. If it cannot be removed, they go to a new segment.
                if open.segment.cut(before).is_err() {
                    self.open = None;
                }
                Err(error)
            }
        }
    }
}

/// Appends bytes to a segment, and returns how many.
fn put(open: &mut Open, bytes: &[u8]) -> io::Result<u64> {
    open.segment.append(bytes)?;
    open.bytes += bytes.len() as u64;
    Ok(bytes.len() as u64)
}

impl Block {
    fn add(&mut self, event: &Event) {
        let begin = self.plain.len();
        encode(event, &mut self.plain);
        match event {
            Event::Opened(_) | Event::Closed(_) => self.sessions.push(begin..self.plain.len()),
            Event::Unit(unit) => {
                self.first_us = if self.units == 0 { unit.at_us } else { self.first_us.min(unit.at_us) };
                self.units += 1;
            }
            Event::Lost(_) => {}
        }
    }

    fn clear(&mut self) {
        self.plain.clear();
        self.sessions.clear();
        (self.units, self.first_us) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
