//! Counts that cannot be right: counters of guests that open and stand still.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Event;
use super::plan::Plan;
use super::reading::{GroupCounts, SetCounts};
use crate::top_down::method::MemoryReads;

/// A thread that ran for this long must have used cycles.
const RUNNING_MIN: Duration = Duration::from_millis(1);

/// Beside this many misses of the first level, a last level that never misses is not wired to its counter.
const L1D_MISSES_SUSPICIOUS: f64 = 1e6;

/// Removes implausible counts and notes why.
pub(super) fn clean(set: &mut SetCounts, plan: &Plan, notes: &mut BTreeSet<String>) {
    let cycles = Event::Cycles.key();
    for group in &mut set.groups {
        if group.running.is_zero() && group.enabled >= RUNNING_MIN {
            notes.insert(format!(
                "the kernel never found counters free for the group \"{}\"; does another profiler run?",
                group.group
            ));
        } else if group.running >= RUNNING_MIN && group.counts.get(cycles) == Some(&0) {
            notes.insert("the counters open but stand still, as virtual ones may do: they are not used".to_owned());
            group.counts.clear();
        } else if group.running < group.enabled.mul_f64(1.0 - MULTIPLEXED) {
            notes.insert(format!(
                "the kernel gave the group \"{}\" counters for {:.0} % of its time only",
                group.group,
                group.running.as_secs_f64() / group.enabled.as_secs_f64() * 100.0
            ));
        }
    }
    for still in stand_still(set, plan) {
        for group in &mut set.groups {
            group.counts.remove(still);
        }
        notes.insert(format!("{still} stood at 0 while the threads worked: it is not used"));
    }
    for (key, misses) in never_from_memory(set, plan) {
        for group in &mut set.groups {
            group.counts.remove(key);
        }
        notes.insert(format!("{key} counted 0 beside about {misses} {}: it is not used", Event::L1dMisses));
    }
}

/// Events that only memory can cause, at 0 although the first level missed so often that memory must have served some
/// of the misses; with the approximate number of those misses. This is known of guests and off-core events.
fn never_from_memory(set: &SetCounts, plan: &Plan) -> Vec<(&'static str, u64)> {
    let reads: Vec<&'static str> = match plan.family.map(|family| &family.table().memory_reads) {
        Some(MemoryReads::Events(events, _)) => events.iter().map(|event| event.name).collect(),
        _ => Vec::new(),
    };
    let (l1d_running, l1d_misses) = counted(set, Event::L1dMisses.key());
    if l1d_running.is_zero() {
        return Vec::new();
    }
    // Of events that are added up one may well be 0: a prefetcher may be switched off.
    let together = [&[Event::LlcMisses.key()][..], &[Event::ServedByMemory.key()], &reads];
    let mut found = Vec::new();
    for keys in together {
        let counts: Vec<(Duration, u64)> = keys.iter().map(|key| counted(set, key)).collect();
        let running = counts.iter().map(|counted| counted.0).min().unwrap_or_default();
        let misses = l1d_misses as f64 * running.as_secs_f64() / l1d_running.as_secs_f64();
        if counts.iter().all(|counted| counted.1 == 0) && misses >= L1D_MISSES_SUSPICIOUS {
            found.extend(keys.iter().map(|key| (*key, misses.round() as u64)));
        }
    }
    found
}

/// For how long an event was counted, and how often it happened.
fn counted(set: &SetCounts, key: &str) -> (Duration, u64) {
    let groups = set.groups.iter().filter_map(|group| Some((group.running, *group.counts.get(key)?)));
    groups.fold((Duration::ZERO, 0), |sum, group| (sum.0 + group.0, sum.1 + group.1))
}

/// Less than this share of a group's time without counters is not worth a note.
const MULTIPLEXED: f64 = 0.01;

/// Events that any work makes count, at 0 in groups that saw work.
fn stand_still(set: &SetCounts, plan: &Plan) -> Vec<&'static str> {
    let always = plan.groups.iter().flat_map(|group| &group.events).filter(|event| event.counts_always);
    let mut keys: Vec<&'static str> = always.map(|event| event.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let worked = |group: &&GroupCounts| {
        group.running >= RUNNING_MIN && group.counts.get(Event::Cycles.key()).is_some_and(|cycles| *cycles > 0)
    };
    keys.retain(|key| {
        let mut seen = set.groups.iter().filter(worked).filter_map(|group| group.counts.get(*key)).peekable();
        seen.peek().is_some() && seen.all(|count| *count == 0)
    });
    keys
}
