//! Counts that cannot be right: counters of guests that open and stand still.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Event;
use super::plan::Plan;
use super::reading::{GroupCounts, SetCounts};

/// A thread that ran for this long has used cycles, whatever the counter says.
const RUNNING_MIN: Duration = Duration::from_millis(1);

/// With this many misses of the first level, a last level that never misses is not wired to its counter.
const L1D_MISSES_SUSPICIOUS: u64 = 1_000_000;

/// Takes out what cannot be right and notes why.
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
    let [l1d, llc] = [Event::L1dMisses.key(), Event::LlcMisses.key()];
    let total = |of: &str, beside: &str| -> u64 {
        set.groups
            .iter()
            .filter(|group| group.counts.contains_key(beside))
            .filter_map(|group| group.counts.get(of))
            .sum()
    };
    let beside = total(l1d, llc);
    if total(llc, l1d) == 0 && beside >= L1D_MISSES_SUSPICIOUS {
        notes.insert(format!("{} counted 0 beside {beside} {}: they are not used", Event::LlcMisses, Event::L1dMisses));
        for group in &mut set.groups {
            group.counts.remove(llc);
        }
    }
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
