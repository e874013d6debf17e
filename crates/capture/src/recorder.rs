//! Takes events from the threads that see them, and writes them on a thread of its own.
//!
//! [`Recorder::record`] never waits for a disk and never fails: an event goes into a queue of bounded size, and what does
//! not fit is counted as lost. The lock of the queue is held for as long as it takes to move an event.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use plimsoll_notation::sql::TextRules;

use crate::description::{Description, Values};
use crate::event::{Event, Lost, WhyLost};
use crate::redact::{Key, Redactor};
use crate::storage::Storage;
use crate::tap::Sink;
use crate::writer::{BLOCK_BYTES, Entry, Limits, State, Writer};

/// The longest that an event waits for its block to fill.
const BLOCK_EVERY: Duration = Duration::from_millis(100);

/// The memory for events that are not written yet, and for long requests that are still arriving.
const HELD_MAX: usize = 64 << 20;

/// Room beyond that, for openings and ends of sessions: without them the units of a session mean little.
const HELD_FOR_SESSIONS: usize = 4 << 20;

/// About what an event takes besides its bytes.
const EVENT_BYTES: usize = 256;

/// How long the end of a capture waits for a disk.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// How a capture is written.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its bounds.
    pub limits: Limits,
    /// The key of the hashes of values that are not to be kept.
    pub key: Key,
}

/// Takes events. Clones record to the same capture.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    began: Instant,
    values: Values,
    queue: Mutex<Queue>,
    /// Something is to be done.
    wakes: Condvar,
    /// The writer has ended.
    ended: Condvar,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Queue {
    entries: Vec<Entry>,
    /// The bytes of `entries`.
    waiting: usize,
    /// The bytes of all events that are not written, and of requests that are still arriving.
    held: usize,
    lost: Vec<Lost>,
    server_version: Option<u32>,
    is_finishing: bool,
    has_ended: bool,
}

/// How far a capture is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// Whether events are written.
    pub state: State,
    /// The units that were written.
    pub units: u64,
    /// The bytes of all segments.
    pub bytes: u64,
    /// How many units were lost for each reason of [`WhyLost::ALL`].
    pub lost: [u64; WhyLost::ALL.len()],
}

impl Progress {
    /// How many units were lost for any reason.
    pub fn lost_units(&self) -> u64 {
        self.lost.iter().sum()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("progress", &self.progress()).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Begins a capture: writes its description and starts the thread. `began` is the origin of all times.
    pub fn start(
        storage: Box<dyn Storage>,
        description: Description,
        options: Options,
        began: Instant,
    ) -> io::Result<Self> {
        let values = description.values;
        let redactor = Redactor::new(options.key, values);
        let writer = Writer::begin(storage, description, options.limits, redactor)?;
        let shared = Arc::new(Shared {
            began,
            values,
            queue: Mutex::default(),
            wakes: Condvar::new(),
            ended: Condvar::new(),
            progress: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("capture".to_owned()).spawn(move || of_thread.run(writer))?;
        Ok(Recorder { shared })
    }

    /// Microseconds from the beginning of the capture to a moment.
    pub fn at_us(&self, moment: Instant) -> u64 {
        self.shared.at_us(moment)
    }

    /// How values are kept.
    pub fn values(&self) -> Values {
        self.shared.values
    }

    /// When the capture began.
    pub fn began(&self) -> Instant {
        self.shared.began
    }

    /// A session has shown the server's version.
    pub fn is_served_by(&self, version: u32) {
        self.shared.queue.lock().server_version = Some(version);
    }

    /// How far the capture is.
    pub fn progress(&self) -> Progress {
        self.shared.progress.lock().clone()
    }

    /// Takes no more events. Those before are written in the background.
    pub fn stop(&self) {
        self.shared.queue.lock().is_finishing = true;
        self.shared.wakes.notify_one();
    }

    /// Takes no more events, and waits until those before are written. Returns whether they were: a disk that does not
    /// answer is not waited for without end.
    pub fn finish(&self) -> bool {
        self.stop();
        let until = Instant::now() + FINISH_WITHIN;
        let mut queue = self.shared.queue.lock();
        while !queue.has_ended {
            if self.shared.ended.wait_until(&mut queue, until).timed_out() {
                return queue.has_ended;
            }
        }
        true
    }

    /// Whether it has been asked to end, and takes no more events.
    pub fn has_stopped(&self) -> bool {
        self.shared.queue.lock().is_finishing
    }
}

impl Sink for Recorder {
    fn record(&self, event: Event, rules: TextRules) {
        let bytes = size(&event);
        let is_unit = matches!(event, Event::Unit(_));
        let most = if is_unit { HELD_MAX } else { HELD_MAX + HELD_FOR_SESSIONS };
        let mut queue = self.shared.queue.lock();
        if queue.is_finishing {
            return;
        }
        if queue.held + bytes > most {
            if is_unit {
                queue.lose(event.at_us(), WhyLost::TooFast);
            }
            return;
        }
        let was_empty = queue.entries.is_empty();
        let was_short = queue.waiting < BLOCK_BYTES;
        queue.entries.push(Entry { event, rules });
        (queue.waiting, queue.held) = (queue.waiting + bytes, queue.held + bytes);
        let is_due = was_empty || was_short && queue.waiting >= BLOCK_BYTES;
        drop(queue);
        if is_due {
            self.shared.wakes.notify_one();
        }
    }

    fn lose(&self, at_us: u64, why: WhyLost) {
        let mut queue = self.shared.queue.lock();
        if !queue.is_finishing {
            queue.lose(at_us, why);
        }
    }

    fn reserve(&self, bytes: usize) -> bool {
        let mut queue = self.shared.queue.lock();
        let has_room = queue.held + bytes <= HELD_MAX;
        queue.held += if has_room { bytes } else { 0 };
        has_room
    }

    fn release(&self, bytes: usize) {
        let mut queue = self.shared.queue.lock();
        queue.held = queue.held.saturating_sub(bytes);
    }
}

/// About the memory that an event takes.
fn size(event: &Event) -> usize {
    EVENT_BYTES
        + match event {
            Event::Unit(unit) => unit.request.len() + unit.answer.begin.len(),
            _ => 0,
        }
}

impl Queue {
    fn lose(&mut self, at_us: u64, why: WhyLost) {
        match self.lost.iter_mut().find(|lost| lost.why == why) {
            Some(lost) => lost.units += 1,
            None => self.lost.push(Lost { at_us, units: 1, why }),
        }
    }
}

impl Shared {
    fn at_us(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.began).as_micros() as u64
    }

    /// The thread of the writer.
    fn run(&self, mut writer: Writer) {
        loop {
            let (entries, bytes, lost, version, is_last) = self.take();
            let now_us = self.at_us(Instant::now());
            version.into_iter().for_each(|version| writer.is_served_by(version));
            writer.write(entries, now_us);
            // They came after the events, for which there was room.
            lost.into_iter().for_each(|lost| writer.add_lost(lost));
            if is_last {
                writer.finish(now_us);
            }
            *self.progress.lock() =
                Progress { state: writer.state.clone(), units: writer.units, bytes: writer.written, lost: writer.lost };
            let mut queue = self.queue.lock();
            queue.held = queue.held.saturating_sub(bytes);
            if is_last {
                queue.has_ended = true;
                self.ended.notify_all();
                return;
            }
        }
    }

    /// Waits for events, and until they fill a block or the first has waited long enough.
    fn take(&self) -> (Vec<Entry>, usize, Vec<Lost>, Option<u32>, bool) {
        let mut queue = self.queue.lock();
        while queue.entries.is_empty() && queue.lost.is_empty() && !queue.is_finishing {
            self.wakes.wait(&mut queue);
        }
        let until = Instant::now() + BLOCK_EVERY;
        while queue.waiting < BLOCK_BYTES && !queue.is_finishing {
            if self.wakes.wait_until(&mut queue, until).timed_out() {
                break;
            }
        }
        let entries = std::mem::take(&mut queue.entries);
        let bytes = std::mem::take(&mut queue.waiting);
        let lost = std::mem::take(&mut queue.lost);
        (entries, bytes, lost, queue.server_version.take(), queue.is_finishing)
    }
}

#[cfg(test)]
mod tests;
