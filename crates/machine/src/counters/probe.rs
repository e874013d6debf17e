//! Whether the counters of this machine really count: a little work with known needs, counted.

use std::hint::black_box;

use super::{CounterReading, CounterSet, CountersUnavailable, Plan, Watched};
use crate::cpu_time::current_thread_id;

/// Larger than what a core's share of the last-level cache holds on most machines, so that some loads go to memory.
const BUFFER_WORDS: usize = 64 * (1 << 20) / size_of::<u64>();

/// Loads at random places, each with an unpredictable branch.
const LOADS: usize = 400_000;

/// Counts this thread during some ten milliseconds of work that must use cycles and instructions, miss caches and
/// mispredict branches. Every group gets a turn.
pub fn probe() -> Result<CounterReading, CountersUnavailable> {
    let plan = Plan::of_machine()?;
    let mut counters = CounterSet::open(&plan, &Watched::Threads(vec![current_thread_id()]))?;
    let buffer = vec![1u64; BUFFER_WORDS];
    counters.enable()?;
    let turns = plan.groups.len();
    for turn in 0..turns {
        black_box(wander(&buffer, LOADS / turns));
        if turn + 1 < turns {
            counters.rotate();
        }
    }
    Ok(counters.read())
}

/// Reads at random places, each chosen with the help of the word read before, so that nothing can be fetched ahead.
pub(super) fn wander(buffer: &[u64], loads: usize) -> (u64, u64) {
    let (mut ones, mut zeros) = (0, 0);
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..loads {
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
    use plimsoll_testing::{Need, skip};

    use super::*;
    use crate::counters::Event;

    /// Where there are counters, the work cannot have been done without using them.
    #[test]
    fn the_work_is_seen_by_the_counters() {
        let reading = match probe() {
            Ok(reading) => reading,
            Err(why) => return skip(Need::Perf, why),
        };
        let instructions = reading.figure(Event::Instructions).expect("every plan has instructions");
        // Some turns are on less work than others, so that the estimate is not exact.
        assert!(instructions.count >= LOADS as u64 / 2, "{reading:?}");
        assert!(reading.instructions_per_cycle().is_some_and(|ratio| ratio > 0.0 && ratio < 10.0), "{reading:?}");
        eprintln!("{:#?}", reading.summary());
    }

    #[test]
    fn the_work_branches_both_ways() {
        let (ones, zeros) = wander(&[1; 1024], LOADS);
        assert_eq!(ones + zeros / 2, LOADS as u64);
        assert!(ones > LOADS as u64 / 3 && zeros / 2 > LOADS as u64 / 3);
    }
}
