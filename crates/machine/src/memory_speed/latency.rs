//! Latency of a load by the size of the working set, and the latency of each cache level derived from it.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::buffer::{Buffer, LINE};
use super::caches::CacheSizes;
use super::capacity;
use super::chase::{follow, link};
use super::figure::Figure;

/// Loads between two looks at the clock: some tens of microseconds in the nearest cache.
const BATCH: usize = 1 << 13;

const BYTES_MIN: usize = 4 << 10;

/// Loads that warm a working set at most: if it fits into a cache, they cover all of it.
const WARM_LOADS_MAX: usize = 1 << 20;

/// The smallest working set whose random loads count as memory's, in multiples of the last level: at four, one load in
/// four may still hit.
const DRAM_TIMES_MIN: u64 = 4;

/// The working set that measures the last level, in multiples of the second.
const LLC_TIMES: f64 = 3.0;

/// Latency at one working set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Bytes that the chase goes through, in random order.
    pub bytes: usize,
    /// Time of a load, ns.
    pub latency: Figure,
}

/// A level that may serve a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// First-level cache.
    L1,
    /// Second-level cache.
    L2,
    /// Last-level cache.
    Llc,
    /// Memory.
    Dram,
}

impl Level {
    /// The level's common name.
    pub fn name(self) -> &'static str {
        match self {
            Level::L1 => "L1",
            Level::L2 => "L2",
            Level::Llc => "LLC",
            Level::Dram => "DRAM",
        }
    }
}

/// Latency of a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelLatency {
    /// Which.
    pub level: Level,
    /// The working set that represents it, bytes: in the middle between the level below and its own size.
    pub bytes: usize,
    /// Time of a load, ns.
    pub latency: Figure,
}

/// Working sets from 4 KiB to `largest`, `per_doubling` per doubling.
pub fn sizes(largest: usize, per_doubling: u32) -> Vec<usize> {
    let size =
        |step: u32| (BYTES_MIN as f64 * f64::from(step).mul_add(1.0 / f64::from(per_doubling), 0.0).exp2()) as usize;
    let whole = (0..).map(size).map(|bytes| bytes.next_multiple_of(LINE)).take_while(|bytes| *bytes <= largest);
    whole.collect()
}

/// Prepares and warms a chase through the beginning of a buffer. Returns the place from which to continue.
pub fn prepare(buffer: &mut Buffer, bytes: usize, warm_loads: usize) -> usize {
    let [start] = link(buffer.bytes_mut(), bytes / LINE, bytes as u64);
    follow(buffer.bytes(), start, warm_loads)
}

/// Mean nanoseconds of a load in a round of at least `time`, which continues from `at`.
///
/// Time on a core, not wall-clock time: other threads that run on the core in between do not count. (Their effect on
/// the caches does.) A thread that hardly gets a core stops after twice the time.
pub fn round(buffer: &Buffer, at: &mut usize, time: Duration) -> f64 {
    const WALL_TIMES_MAX: u32 = 2;
    let (begin, begin_on_core) = (Instant::now(), time_on_core());
    let mut loads = 0;
    loop {
        *at = follow(buffer.bytes(), *at, BATCH);
        loads += BATCH;
        let on_core = time_on_core() - begin_on_core;
        if on_core >= time || begin.elapsed() >= time * WALL_TIMES_MAX {
            return on_core.as_secs_f64() * 1e9 / loads as f64;
        }
    }
}

/// Time that the calling thread has been on a core.
pub(crate) fn time_on_core() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Latency of a working set in `rounds` rounds of `time`, on the calling thread.
pub fn measure(buffer: &mut Buffer, bytes: usize, rounds: usize, time: Duration) -> Option<CurvePoint> {
    let mut at = prepare(buffer, bytes, (bytes / LINE).clamp(BATCH, WARM_LOADS_MAX));
    let all: Vec<f64> = (0..rounds).map(|_| round(buffer, &mut at, time)).collect();
    Some(CurvePoint { bytes, latency: Figure::of("ns", &all)? })
}

/// How much of the last level one core really had, bytes: between the last working set that fits and the first that
/// thrashes; it includes the second level where that is additional. `None` if the curve does not show it.
pub(crate) fn llc_seen(curve: &[CurvePoint], levels: &[LevelLatency]) -> Option<[u64; 2]> {
    let of = |wanted: Level| levels.iter().find(|level| level.level == wanted);
    let (llc, dram) = (of(Level::Llc)?, of(Level::Dram)?);
    let hit_and_miss = [llc.latency.median, dram.latency.median];
    let beyond = curve.iter().filter(|point| point.bytes >= llc.bytes);
    let points = beyond.map(|point| (point.bytes as f64, capacity::missed(point.latency.median, hit_and_miss)));
    let found = capacity::is_clear(hit_and_miss).then(|| capacity::capacity(points)).flatten()?;
    Some(found.map(|bytes| bytes as u64))
}

/// The latency of each level that the curve shows, and why others are missing.
///
/// A level's latency is that of a working set well above the level below and well below its own size: the point nearest
/// to the geometric mean of the two. For the last level it is at most three times the level below, because others may
/// leave little of it. For memory it is the largest working set, if that is large enough.
pub fn levels(curve: &[CurvePoint], caches: &CacheSizes) -> (Vec<LevelLatency>, Vec<String>) {
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    let bounds = [(Level::L1, caches.l1), (Level::L2, caches.l2), (Level::Llc, caches.llc)];
    let mut below = BYTES_MIN as u64 / 2;
    for (level, size) in bounds {
        let Some(size) = size else {
            notes.push(format!(
                "the size of {} is not told by the kernel, so that its latency is not known",
                level.name()
            ));
            continue;
        };
        let mean = (below as f64 * size as f64).sqrt();
        let middle = if level == Level::Llc { mean.min(below as f64 * LLC_TIMES) } else { mean };
        let distance = |point: &CurvePoint| (point.bytes as f64 / middle).log2().abs();
        let inside = curve
            .iter()
            .filter(|point| point.bytes as f64 > below as f64 * 1.2 && (point.bytes as f64) < size as f64 * 0.8);
        match inside.min_by(|a, b| distance(a).total_cmp(&distance(b))) {
            Some(point) => found.push(LevelLatency { level, bytes: point.bytes, latency: point.latency.clone() }),
            None => notes.push(format!("no working set lies within {}", level.name())),
        }
        below = size;
    }
    let from = caches.llc.or(caches.l2).map(|last| last * DRAM_TIMES_MIN);
    match curve.last().filter(|point| from.is_some_and(|from| point.bytes as u64 + LINE as u64 * 2 >= from)) {
        Some(point) => {
            found.push(LevelLatency { level: Level::Dram, bytes: point.bytes, latency: point.latency.clone() });
        }
        None => notes.push(format!(
            "the latency of memory is not known: that takes a working set of {DRAM_TIMES_MIN} times the last level cache{}",
            if from.is_none() { ", the size of which is not told" } else { ", and memory for it" }
        )),
    }
    (found, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHES: CacheSizes =
        CacheSizes { l1: Some(32 << 10), l2: Some(1 << 20), llc: Some(32 << 20), llc_shared_by: 2, is_victim: true };

    /// A curve of steps at the sizes of caches.
    fn curve(largest: usize, per_doubling: u32) -> Vec<CurvePoint> {
        let steps = [(32 << 10, 1.0), (1 << 20, 4.0), (32 << 20, 15.0), (usize::MAX, 110.0)];
        let latency = |bytes: usize| steps.iter().find(|step| bytes <= step.0).unwrap().1;
        let point = |bytes| CurvePoint { bytes, latency: Figure::of("ns", &[latency(bytes)]).unwrap() };
        sizes(largest, per_doubling).into_iter().map(point).collect()
    }

    #[test]
    fn working_sets() {
        assert_eq!(sizes(32 << 10, 1), [4 << 10, 8 << 10, 16 << 10, 32 << 10]);
        let fine = sizes(256 << 20, 2);
        assert_eq!(fine.len(), 33);
        assert!(fine.windows(2).all(|pair| pair[0] < pair[1]) && fine.iter().all(|bytes| bytes.is_multiple_of(LINE)));
    }

    #[test]
    fn levels_are_read_in_the_middle_of_their_steps() {
        for per_doubling in [1, 2, 4] {
            let (levels, notes) = levels(&curve(256 << 20, per_doubling), &CACHES);
            let told: Vec<_> = levels.iter().map(|level| (level.level, level.latency.median)).collect();
            assert_eq!(told, [(Level::L1, 1.0), (Level::L2, 4.0), (Level::Llc, 15.0), (Level::Dram, 110.0)]);
            assert!(notes.is_empty(), "{notes:?}");
            assert!((2 << 20..=4 << 20).contains(&levels[2].bytes), "{}", levels[2].bytes);
        }
    }

    #[test]
    fn what_is_seen_of_the_last_level() {
        let whole = curve(256 << 20, 1);
        let (levels, _) = levels(&whole, &CACHES);
        assert_eq!(llc_seen(&whole, &levels), Some([32 << 20, 64 << 20]));
        // A guest that has a quarter of the reported cache.
        let step = |point: &CurvePoint| {
            let slow = point.bytes > 8 << 20;
            let latency = if slow { Figure::of("ns", &[110.0]).unwrap() } else { point.latency.clone() };
            CurvePoint { bytes: point.bytes, latency }
        };
        let part: Vec<CurvePoint> = whole.iter().map(step).collect();
        assert_eq!(llc_seen(&part, &levels), Some([8 << 20, 16 << 20]));
        assert_eq!(llc_seen(&part, &levels[..2]), None);
    }

    #[test]
    fn what_is_not_known_is_told() {
        let (small, notes) = levels(&curve(64 << 20, 1), &CACHES);
        assert_eq!(small.len(), 3);
        assert!(notes[0].contains("memory is not known") && notes[0].contains("memory for it"), "{notes:?}");
        let hidden = CacheSizes { l1: None, l2: None, llc: None, llc_shared_by: 1, is_victim: false };
        let (none, notes) = levels(&curve(256 << 20, 1), &hidden);
        assert_eq!((none.len(), notes.len()), (0, 4), "{notes:?}");
    }

    #[test]
    fn a_chase_takes_time() {
        let mut buffer = Buffer::new(64 << 10).unwrap();
        let point = measure(&mut buffer, 64 << 10, 2, Duration::from_micros(50)).unwrap();
        assert!(point.latency.median > 0.0 && point.latency.rounds == 2 && point.latency.unit == "ns");
    }
}
