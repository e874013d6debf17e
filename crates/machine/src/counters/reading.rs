//! From what the kernel counted for each thread to figures for all of them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::event::Event;

/// What the threads did, scaled up for the time in which their events had to give way to others. Counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CounterReading {
    /// Core cycles, user mode.
    pub cycles: Option<u64>,
    /// Instructions retired, user mode.
    pub instructions: Option<u64>,
    /// First-level data cache load misses.
    pub l1d_misses: Option<u64>,
    /// Last-level cache misses.
    pub llc_misses: Option<u64>,
    /// Mispredicted branches.
    pub branch_misses: Option<u64>,
    /// Share of the threads' time on cores in which the events were really counted, 0 to 1.
    pub coverage: f64,
    /// Why a figure is missing, and what stands for another.
    pub notes: Vec<String>,
}

/// What the kernel counted for one thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupReading {
    /// Time the thread was on a core with its events enabled.
    pub enabled: Duration,
    /// Time of that in which the events were counted.
    pub running: Duration,
    /// Counts by [`Event`]; `None` for an event that was not opened.
    pub values: [Option<u64>; Event::ALL.len()],
}

/// A thread that ran for this long has used cycles, whatever the counter says.
const RUNNING_MIN: Duration = Duration::from_millis(1);

/// With this many misses of the first level, a last level that never misses is not wired to its counter.
const L1D_MISSES_SUSPICIOUS: u64 = 1_000_000;

impl CounterReading {
    /// Sums the threads' figures. A figure that cannot be trusted is left out, and a note says why.
    pub(super) fn combine(groups: &[GroupReading], mut notes: BTreeSet<String>) -> CounterReading {
        let sum = |time: fn(&GroupReading) -> Duration| groups.iter().map(time).sum::<Duration>();
        let (enabled, running) = (sum(|group| group.enabled), sum(|group| group.running));
        // Threads that never ran used nothing, and nothing of it was missed.
        let coverage = if enabled.is_zero() { 1.0 } else { (running.as_secs_f64() / enabled.as_secs_f64()).min(1.0) };
        let mut totals = Event::ALL.map(|event| total(groups, event));

        let [cycles, _, l1d_misses, llc_misses, _] = totals;
        if running.is_zero() && !enabled.is_zero() {
            notes.insert("the kernel never found counters free for the events; does another profiler run?".into());
            totals = Default::default();
        } else if cycles == Some(0) && running >= RUNNING_MIN {
            notes.insert("the counters open but stand still, as virtual ones may do: they are not used".into());
            totals = Default::default();
        } else if llc_misses == Some(0) && l1d_misses >= Some(L1D_MISSES_SUSPICIOUS) {
            notes.insert(format!(
                "{} counted 0 beside {} {}: they are not used",
                Event::LlcMisses,
                l1d_misses.unwrap_or(0),
                Event::L1dMisses
            ));
            totals[Event::LlcMisses as usize] = None;
        }

        let [cycles, instructions, l1d_misses, llc_misses, branch_misses] = totals;
        let notes = notes.into_iter().collect();
        CounterReading { cycles, instructions, l1d_misses, llc_misses, branch_misses, coverage, notes }
    }
}

/// The sum over threads, each scaled by its own coverage. A thread that ran and was never counted cannot be scaled; it is
/// missing here and in the coverage.
fn total(groups: &[GroupReading], event: Event) -> Option<u64> {
    let scaled = groups.iter().filter_map(|group| {
        let value = group.values[event as usize]?;
        if group.running >= group.enabled {
            return Some(value);
        }
        if group.running.is_zero() {
            return None;
        }
        let scale = group.enabled.as_secs_f64() / group.running.as_secs_f64();
        Some((value as f64 * scale).round() as u64)
    });
    scaled.fold(None, |sum: Option<u64>, value| Some(sum.unwrap_or(0).saturating_add(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(enabled_ms: u64, running_ms: u64, values: [Option<u64>; 5]) -> GroupReading {
        GroupReading { enabled: Duration::from_millis(enabled_ms), running: Duration::from_millis(running_ms), values }
    }

    fn combine(groups: &[GroupReading]) -> CounterReading {
        CounterReading::combine(groups, BTreeSet::new())
    }

    #[test]
    fn each_thread_is_scaled_by_its_own_coverage() {
        let reading = combine(&[
            group(100, 100, [Some(10), Some(20), None, Some(1), Some(2)]),
            group(100, 50, [Some(10), Some(20), None, Some(1), Some(2)]),
        ]);
        assert_eq!(reading.cycles, Some(30));
        assert_eq!(reading.instructions, Some(60));
        assert_eq!(reading.l1d_misses, None, "an event that was not opened");
        assert_eq!(reading.llc_misses, Some(3));
        assert_eq!(reading.branch_misses, Some(6));
        assert!((reading.coverage - 0.75).abs() < 1e-9);
        assert!(reading.notes.is_empty());
    }

    #[test]
    fn a_thread_that_was_never_counted_lowers_the_coverage() {
        let reading = combine(&[group(100, 100, [Some(10); 5]), group(100, 0, [Some(0); 5])]);
        assert_eq!((reading.cycles, reading.coverage), (Some(10), 0.5));
    }

    #[test]
    fn what_cannot_be_trusted_is_left_out() {
        let never = combine(&[group(100, 0, [Some(0); 5])]);
        assert_eq!((never.cycles, never.instructions, never.coverage), (None, None, 0.0));
        assert!(never.notes[0].contains("another profiler"), "{:?}", never.notes);

        let still = combine(&[group(100, 100, [Some(0); 5])]);
        assert_eq!((still.cycles, still.branch_misses), (None, None));
        assert!(still.notes[0].contains("stand still"), "{:?}", still.notes);

        let unwired = combine(&[group(100, 100, [Some(9), Some(9), Some(2_000_000), Some(0), Some(0)])]);
        assert_eq!((unwired.llc_misses, unwired.l1d_misses, unwired.branch_misses), (None, Some(2_000_000), Some(0)));
        assert!(unwired.notes[0].contains("2000000"), "{:?}", unwired.notes);
    }

    #[test]
    fn threads_that_did_not_run_used_nothing() {
        let reading = combine(&[group(0, 0, [Some(0), Some(0), Some(0), None, Some(0)])]);
        assert_eq!((reading.cycles, reading.llc_misses, reading.coverage), (Some(0), None, 1.0));
    }
}
