//! Memory traffic at a set rate: reads of a buffer that no cache holds.
//!
//! Every line read is 64 bytes from memory. These lines also displace other processes' lines in the last-level cache: a
//! workload beside this hog has less of both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::schedule::Schedule;
use super::{Achieved, Crew, HogError, HogKind, HogPlace, Leave, Running, pin_to_one};
use crate::memory_speed::buffer::Buffer;
use crate::memory_speed::caches::CacheSizes;
use crate::memory_speed::stream;

/// Bytes read between two looks at the schedule: tens of microseconds, and little compared to any rate.
const PIECE: usize = 256 << 10;

/// Plausible rates, MB/s.
const RATES: std::ops::RangeInclusive<f64> = 1.0..=10_000_000.0;

/// The kind `bandwidth`.
pub struct Bandwidth;

impl HogKind for Bandwidth {
    fn key(&self) -> &'static str {
        "bandwidth"
    }

    fn unit(&self) -> &'static str {
        "MB/s"
    }

    fn meaning(&self) -> &'static str {
        "reads memory at this rate, a thread on each of its cores; displaces caches too"
    }

    fn shortfall(&self) -> &'static str {
        "its cores cannot read memory faster, or others use them or the memory"
    }

    fn refuse(&self, strength: f64) -> Option<String> {
        (!RATES.contains(&strength)).then(|| format!("it takes {} to {} MB/s", RATES.start(), RATES.end()))
    }

    fn start(&self, strength: f64, place: &HogPlace) -> Result<Box<dyn Running>, HogError> {
        let threads = place.cores.len().max(1);
        let rate = strength * 1e6 / threads as f64;
        let mut streams = Streams::start(&CacheSizes::here(), &place.cores, threads, rate)?;
        Ok(Box::new(move |window: Duration| {
            let megabytes = streams.bytes_since() as f64 / 1e6;
            Achieved { amount: Some(megabytes / window.as_secs_f64()), ..Achieved::default() }
        }))
    }
}

/// Threads that read memory, each at a rate of its own.
pub(crate) struct Streams {
    read: Arc<AtomicU64>,
    before: u64,
    _crew: Crew,
}

impl Streams {
    /// Starts `threads` threads, pinned to `cores` in turn, that read at `rate` bytes per second each; infinity means
    /// as fast as possible.
    pub(crate) fn start(caches: &CacheSizes, cores: &[usize], threads: usize, rate: f64) -> Result<Streams, HogError> {
        let bytes = caches.beyond_caches(threads);
        let read = Arc::new(AtomicU64::new(0));
        let (inside, cores) = (Arc::clone(&read), cores.to_vec());
        let crew = Crew::start(threads, move |index| {
            pin_to_one(&cores, index)?;
            let buffer = Buffer::new(bytes).map_err(HogError::Memory)?;
            let read = Arc::clone(&inside);
            Ok(move |leave: &Leave| stream_at(rate, &buffer, &read, leave))
        })?;
        Ok(Streams { read, before: 0, _crew: crew })
    }

    /// Bytes read since the last call, or since the start.
    pub(crate) fn bytes_since(&mut self) -> u64 {
        // Relaxed: the counter guards no other data.
        let now = self.read.load(Ordering::Relaxed);
        now - std::mem::replace(&mut self.before, now)
    }
}

fn stream_at(rate: f64, buffer: &Buffer, read: &AtomicU64, leave: &Leave) {
    let begin = Instant::now();
    let mut schedule = Schedule::new(rate, Duration::ZERO);
    for piece in buffer.bytes().chunks(PIECE).cycle() {
        stream::read(piece);
        read.fetch_add(piece.len() as u64, Ordering::Relaxed);
        if let Some(wait) = schedule.done(piece.len() as f64, begin.elapsed()) {
            leave.sleep(wait);
        }
        if leave.is_asked() {
            return;
        }
    }
}
