//! Whether the counters of this machine really count: a little work with known needs, counted.

use std::hint::black_box;

use super::{CounterReading, CountersUnavailable, ThreadCounters};
use crate::cpu_time::current_thread_id;

/// Larger than what a core's share of the last-level cache holds on most machines, so that some loads go to memory.
const BUFFER_WORDS: usize = 64 * (1 << 20) / size_of::<u64>();

/// Loads at random places, each with a branch nobody can predict.
const LOADS: usize = 400_000;

/// Counts this thread while it does some ten milliseconds of work that must use cycles and instructions, miss caches and
/// mispredict branches.
pub fn probe() -> Result<CounterReading, CountersUnavailable> {
    let mut counters = ThreadCounters::open(&[current_thread_id()])?;
    let buffer = vec![1u64; BUFFER_WORDS];
    counters.enable()?;
    black_box(wander(&buffer));
    Ok(counters.read())
}

/// Reads at random places, each chosen with the help of the word read before, so that nothing can be fetched ahead.
fn wander(buffer: &[u64]) -> (u64, u64) {
    let (mut ones, mut zeros) = (0, 0);
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..LOADS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = (state >> 33) as usize % buffer.len();
        state = state.wrapping_add(buffer[place]);
        if state >> 63 == 1 {
            ones += black_box(1);
        } else {
            zeros += black_box(2);
        }
    }
    (ones, zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where there are counters, the work cannot have been done without using them.
    #[test]
    fn the_work_is_seen_by_the_counters() {
        let Ok(reading) = probe() else { return };
        assert!(reading.coverage > 0.0, "{reading:?}");
        assert!(reading.instructions.is_none_or(|count| count >= LOADS as u64), "{reading:?}");
    }

    #[test]
    fn the_work_branches_both_ways() {
        let (ones, zeros) = wander(&[1; 1024]);
        assert_eq!(ones + zeros / 2, LOADS as u64);
        assert!(ones > LOADS as u64 / 3 && zeros / 2 > LOADS as u64 / 3);
    }
}
