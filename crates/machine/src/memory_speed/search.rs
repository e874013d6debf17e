//! The search for how much of the last level one core has, by a chase of several chains.
//!
//! Several chains touch their lines more often than one, and so keep them although other processes use the cache now
//! and then. In a cache that many share, a chase of one chain keeps less than a workload would.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::buffer::{Buffer, LINE};
use super::caches::CacheSizes;
use super::capacity::{capacity, is_clear, missed};
use super::chase::{follow_all, link};
use super::latency::{self, time_on_core};

const MIB: f64 = 1_048_576.0;

/// Steps in the capacity.
pub(crate) const STEPS: usize = 8;

/// Working sets in steps: up to half as much again as the capacity.
const STEPS_ALONE: usize = 12;

/// The upper end of the first, coarse search for the capacity, in multiples of the last level.
const COARSE_TIMES: f64 = 1.5;

/// Working sets of the coarse search per doubling.
const COARSE_PER_DOUBLING: u32 = 2;

/// The smallest working set that shows the last level, in multiples of the second.
const ABOVE_L2: f64 = 1.5;

/// Rounds of a latency, which is their median.
const ROUNDS: usize = 5;

/// Chains that the chase follows at a time: fast enough to keep its set although other processes use the cache now and
/// then, and half as fast as a pirate, so that the chase loses if both do not fit.
const CHAINS: usize = 4;

/// How often a chase goes through its working set before it is measured: the first pass brings it in.
const PASSES: usize = 3;

/// The shortest measurement of one latency.
const ROUND: Duration = Duration::from_millis(15);

/// Latency of the chase alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AlonePoint {
    /// The working set, MiB.
    pub mib: f64,
    /// Time of a load, ns.
    pub chase_ns: f64,
    /// The share of loads that missed, derived from that time.
    pub missed: f64,
}

pub(crate) struct Found {
    /// The distance between two sizes of the fine search, MiB; 0 if the coarse one found nothing.
    pub step_mib: f64,
    /// Time of a load that hits the last level and of one that misses it, ns; several are outstanding at a time.
    pub hit_and_miss_ns: [f64; 2],
    /// The chase by working set; sizes rise coarsely, then again in steps around the capacity.
    pub alone: Vec<AlonePoint>,
    /// Between the last working set that fits and the first that thrashes, MiB, including the second level where that
    /// is additional; `None` without a clear knee.
    pub capacity_mib: Option<[f64; 2]>,
}

/// Bytes of a buffer for a search on this machine, whose last level has `llc` bytes as the kernel reports it.
pub(crate) fn buffer_bytes(caches: &CacheSizes, llc: u64) -> usize {
    caches.beyond_caches(1).max((llc as f64 * COARSE_TIMES) as usize)
}

/// Searches on the calling thread, within the buffer: a capacity beyond it is not found. `tell` receives the share
/// completed, 0 to 1, and the next step.
pub(crate) fn search(buffer: &mut Buffer, caches: &CacheSizes, llc: u64, tell: &mut dyn FnMut(f64, &str)) -> Found {
    let beyond = buffer.bytes().len();
    tell(0.0, "loads from memory");
    let miss_ns = chase(buffer, beyond, 0);
    let mut found =
        Found { step_mib: 0.0, hit_and_miss_ns: [f64::NAN, miss_ns], alone: Vec::new(), capacity_mib: None };
    let above = caches.l2.unwrap_or(0) as f64 * ABOVE_L2;
    let largest = beyond.min((llc as f64 * COARSE_TIMES) as usize);
    let mut coarse = latency::sizes(largest, COARSE_PER_DOUBLING);
    coarse.retain(|bytes| *bytes as f64 >= above);
    tell(0.15, "how much of the cache there is");
    if let Some([_, high]) = alone(buffer, &mut found, &coarse) {
        // A step of whole lines; sizes within the second level are left out as before.
        let step = ((high * MIB) as usize / STEPS / LINE).max(1) * LINE;
        found.step_mib = step as f64 / MIB;
        let mut fine: Vec<usize> = (1..=STEPS_ALONE).map(|place| place * step).collect();
        fine.retain(|bytes| *bytes as f64 >= above && *bytes <= beyond);
        tell(0.6, "the same in steps");
        found.capacity_mib = alone(buffer, &mut found, &fine);
    }
    found
}

/// The chase through working sets of these sizes, and the capacity by them. The very first time is that of a hit: its
/// working set is far below the cache and above the second level.
fn alone(buffer: &mut Buffer, found: &mut Found, sizes: &[usize]) -> Option<[f64; 2]> {
    let mut points = Vec::with_capacity(sizes.len());
    for &bytes in sizes {
        let chase_ns = chase(buffer, bytes, PASSES);
        if found.hit_and_miss_ns[0].is_nan() {
            found.hit_and_miss_ns[0] = chase_ns;
        }
        let missed = missed(chase_ns, found.hit_and_miss_ns);
        points.push(AlonePoint { mib: bytes as f64 / MIB, chase_ns, missed });
    }
    let pairs = points.iter().map(|point| (point.mib, point.missed));
    let capacity = is_clear(found.hit_and_miss_ns).then(|| capacity(pairs)).flatten();
    found.alone.extend(points);
    capacity
}

/// A chase of several chains through the beginning of a buffer.
pub(crate) struct Chase<'a> {
    buffer: &'a Buffer,
    places: [usize; CHAINS],
}

impl Chase<'_> {
    pub(crate) fn through(buffer: &mut Buffer, bytes: usize) -> Chase<'_> {
        let lines = (bytes / LINE / CHAINS).max(1) * CHAINS;
        let places = link(buffer.bytes_mut(), lines, bytes as u64);
        Chase { buffer, places }
    }

    fn follow(&mut self, loads: usize) {
        follow_all(self.buffer.bytes(), &mut self.places, loads / CHAINS);
    }

    /// Mean nanoseconds of a load in a round with this time on the core.
    pub(crate) fn round(&mut self, time: Duration) -> f64 {
        const BATCH: usize = 1 << 14;
        let begin = time_on_core();
        let mut loads = 0;
        loop {
            self.follow(BATCH);
            loads += BATCH;
            let took = time_on_core() - begin;
            if took >= time {
                return took.as_secs_f64() * 1e9 / loads as f64;
            }
        }
    }

    pub(crate) fn latency(&mut self) -> f64 {
        median((0..ROUNDS).map(|_| self.round(ROUND)))
    }
}

/// The time of a load, ns, within `bytes`, after `passes` passes over them.
fn chase(buffer: &mut Buffer, bytes: usize, passes: usize) -> f64 {
    let mut chase = Chase::through(buffer, bytes);
    chase.follow(bytes / LINE * passes);
    chase.latency()
}

fn median(rounds: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = rounds.collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
