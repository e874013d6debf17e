//! The pirate: holds part of the last-level cache by touching it all the time, so that other processes have the rest
//! (Eklov, Nikoleris, Black-Schaffer and Hagersten, "Cache Pirating: Measuring the Curse of the Shared Cache", ICPP
//! 2011). It replaces cache allocation where the processor or the hypervisor offers none.
//!
//! A cache keeps lines that are used more often. The pirate sweeps its buffer so often that other processes, which
//! touch each of their lines less often, lose theirs. How well that works depends on these processes, so the pirate
//! also measures its own losses: a load that misses is a line that it did not hold. It counts its misses with hardware
//! counters if possible (`counted`), and otherwise times a sample of its loads (`split`).
//!
//! A sweep follows several chains in random order through the buffer rather than going up its addresses: loads overlap,
//! which makes it fast, and no prefetcher fetches a lost line back before its loss is seen. A prefetcher that always brings
//! the neighbour of a line, as Intel's second level may, hides up to half of the losses; the reported amount is then too high.
//!
//! [`validate()`] checks these assumptions on a machine: a chase through a known working set must begin to miss when
//! the pirate leaves it too little cache.

pub(crate) mod counted;
pub(crate) mod split;
pub mod validate;

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::HogError;
use crate::memory_speed::buffer::{Buffer, LINE};
use crate::memory_speed::caches::CacheSizes;
use crate::memory_speed::chase::{follow_all, link, load};
use split::{Split, Timings};
pub use validate::{Validation, ValidationPoint, validate};

/// Chains of a sweep, and so the number of loads that may be outstanding. A core of any server since 2010 supports ten.
const CHAINS: usize = 8;

/// Loads of each chain between two samples: sampling takes 5 % of the time.
const LOADS_BETWEEN_SAMPLES: usize = 512;

/// Sampled loads of each kind, hits and misses, that calibrate the split.
const CALIBRATION_SAMPLES: u64 = 8192;

/// Sweeps after which a buffer that fits into a cache is in it.
const WARM_SWEEPS: usize = 8;

/// Bytes that a pirate that holds nothing sweeps: fits into the first-level cache of any core we know.
pub(crate) const IDLE_SWEEP: u64 = 16 << 10;

/// MiB that a pirate must hold so that `wanted_mib` of `total_mib` are left for other processes. 0 if they get the
/// whole cache: an idle pirate keeps its core as busy as at every other amount.
pub fn pirate_capacity(total_mib: f64, wanted_mib: f64) -> f64 {
    (total_mib - wanted_mib).max(0.0)
}

/// Bytes of the last level that a pirate holds, with their interval. It sweeps `swept` bytes, misses this share of its
/// loads, and has `beside` of the bytes that hit in its own second-level caches.
pub fn held(swept: u64, beside: u64, share: split::MissShare) -> (f64, [f64; 2]) {
    let most = swept.saturating_sub(beside) as f64;
    let of = |missed: f64| (swept as f64 * (1.0 - missed) - beside as f64).clamp(0.0, most);
    (of(share.share), [of(share.high), of(share.low)])
}

/// A buffer that is swept.
pub struct Sweep {
    buffer: Buffer,
    places: [usize; CHAINS],
}

impl Sweep {
    /// A buffer of about `bytes`, in huge pages if possible, linked into chains.
    pub fn new(bytes: u64, seed: u64) -> Result<Sweep, HogError> {
        let chained = (bytes as usize).next_multiple_of(LINE * CHAINS);
        let mut buffer = Buffer::new(chained).map_err(HogError::Memory)?;
        let lines = buffer.lines();
        let places = link(buffer.bytes_mut(), lines, seed);
        Ok(Sweep { buffer, places })
    }

    /// Bytes of the buffer.
    pub fn bytes(&self) -> u64 {
        self.buffer.bytes().len() as u64
    }

    /// The share of the buffer in huge pages; `None` if the kernel does not report it.
    pub(crate) fn huge_share(&self) -> Option<f64> {
        self.buffer.huge_share()
    }

    /// Continues the sweep by a piece, then times the next load of each chain. Returns the number of loads.
    pub fn piece(&mut self, timings: &mut Timings) -> u64 {
        let bytes = self.buffer.bytes();
        follow_all(bytes, &mut self.places, LOADS_BETWEEN_SAMPLES);
        for at in &mut self.places {
            let took;
            (*at, took) = timed_load(bytes, *at);
            timings.add(took);
        }
        (CHAINS * (LOADS_BETWEEN_SAMPLES + 1)) as u64
    }

    /// Sweeps the whole buffer `times` times.
    fn whole(&mut self, times: usize) {
        let loads = self.buffer.lines() / CHAINS * times;
        follow_all(self.buffer.bytes(), &mut self.places, loads);
    }

    /// Times [`CALIBRATION_SAMPLES`] loads, each after `skip` others of its chain.
    fn sample(&mut self, skip: usize) -> Timings {
        let mut timings = Timings::default();
        while timings.count() + timings.late() < CALIBRATION_SAMPLES {
            follow_all(self.buffer.bytes(), &mut self.places, skip);
            for at in &mut self.places {
                let took;
                (*at, took) = timed_load(self.buffer.bytes(), *at);
                timings.add(took);
            }
        }
        timings
    }
}

/// One load and its time, including the cost of reading the clock.
///
/// The address depends on the first clock reading, so that the processor cannot begin the load earlier. The second
/// reading waits for the load, because the kernel's clock waits for all previous instructions.
#[inline(always)]
fn timed_load(bytes: &[u8], at: usize) -> (usize, Duration) {
    let before = clock_gettime(ClockId::Monotonic);
    let after_clock = at + (before.tv_nsec as usize & black_box(0));
    let next = black_box(load(bytes, after_clock));
    let after = clock_gettime(ClockId::Monotonic);
    let nanoseconds = (after.tv_sec - before.tv_sec) * 1_000_000_000 + (after.tv_nsec - before.tv_nsec);
    (next, Duration::from_nanos(nanoseconds as u64))
}

/// Measures how long loads take on this core that hit the last level, and loads that miss it.
pub fn calibrate(caches: &CacheSizes) -> Result<Split, HogError> {
    /// Loads of a chain between two samples, so that the processor is as busy as during a sweep.
    const SKIP: usize = 64;
    let misses = Sweep::new(caches.beyond_caches(1) as u64, 1)?.sample(SKIP);
    let mut fits = Sweep::new(fits_llc(caches), 2)?;
    fits.whole(WARM_SWEEPS);
    Ok(Split::between(&fits.sample(SKIP), &misses))
}

/// A size that fits into the last level, and mostly exceeds the second.
fn fits_llc(caches: &CacheSizes) -> u64 {
    /// The size used if the kernel reports none.
    const USUAL: u64 = 2 << 20;
    let above = caches.l2.map_or(USUAL, |l2| 3 * l2);
    caches.llc.map_or(above, |llc| above.min(llc / 4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use split::MissShare;

    #[test]
    fn what_is_left_for_the_others() {
        assert_eq!(pirate_capacity(32.0, 8.0), 24.0);
        assert_eq!(pirate_capacity(32.0, 32.0), 0.0);
        assert_eq!(pirate_capacity(32.0, 40.0), 0.0);
    }

    #[test]
    fn what_is_held() {
        let mib = |mib: f64| mib * 1_048_576.0;
        let check = |beside: u64, (share, low, high), expect: (f64, [f64; 2])| {
            let (amount, interval) = held((8 + beside) << 20, beside << 20, MissShare { share, low, high });
            let near = |a: f64, b: f64| assert!((a - mib(b)).abs() < 1.0, "{amount} {interval:?}");
            near(amount, expect.0);
            near(interval[0], expect.1[0]);
            near(interval[1], expect.1[1]);
        };
        check(0, (0.0, 0.0, 0.25), (8.0, [6.0, 8.0]));
        check(0, (0.1, 0.05, 0.15), (7.2, [6.8, 7.6]));
        check(0, (1.0, 1.0, 1.0), (0.0, [0.0, 0.0]));
        // Nine MiB are swept, one of them is in the second level: all misses reduce the part in the last level.
        check(1, (0.0, 0.0, 0.0), (8.0, [8.0, 8.0]));
        check(1, (1.0 / 3.0, 0.0, 0.9), (5.0, [0.0, 8.0]));
    }

    #[test]
    fn a_sweep_touches_all_and_samples_some() {
        let mut sweep = Sweep::new(1 << 20, 1).unwrap();
        assert_eq!(sweep.bytes(), 1 << 20);
        let before = sweep.places;
        sweep.whole(1);
        assert_ne!(before, sweep.places);
        sweep.whole(CHAINS - 1);
        assert_eq!(before, sweep.places, "each chain has been all around");
        let mut timings = Timings::default();
        assert_eq!(sweep.piece(&mut timings), 8 * 513);
        assert_eq!(timings.count() + timings.late(), 8);
        let sampled = sweep.sample(4);
        assert_eq!(sampled.count() + sampled.late(), CALIBRATION_SAMPLES);
    }

    #[test]
    fn calibration_sizes() {
        let caches = |l2, llc| CacheSizes { l1: None, l2, llc, llc_shared_by: 1, is_victim: false };
        assert_eq!(fits_llc(&caches(Some(1 << 20), Some(32 << 20))), 3 << 20);
        assert_eq!(fits_llc(&caches(Some(2 << 20), Some(16 << 20))), 4 << 20);
        assert_eq!(fits_llc(&caches(None, None)), 2 << 20);
    }
}
