//! Figures from known counts.

use proptest::prelude::*;

use super::*;

/// A group of a fake set: the length of its turn and the time in which it counted, milliseconds, and counts.
pub(crate) type MadeGroup<'a> = (u64, u64, &'a [(&'a str, u64)]);

pub(crate) fn reading_of(groups: &[MadeGroup<'_>]) -> CounterReading {
    let group = |(number, (enabled, running, counts)): (usize, &MadeGroup<'_>)| GroupCounts {
        group: number.to_string(),
        enabled: Duration::from_millis(*enabled),
        running: Duration::from_millis(*running),
        counts: counts.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect(),
    };
    let set = SetCounts { groups: groups.iter().enumerate().map(group).collect(), user_share: Some(1.0) };
    CounterReading { sets: vec![set], ..CounterReading::default() }
}

fn check(reading: &CounterReading, event: Event, expect: Option<(u64, f64)>) {
    let figure = reading.figure(event);
    assert_eq!(figure.map(|figure| figure.count), expect.map(|expect| expect.0), "{event}: {figure:?}");
    if let (Some(figure), Some((_, coverage))) = (figure, expect) {
        assert!((figure.coverage - coverage).abs() < 1e-9, "{event}: {figure:?}");
    }
}

#[test]
fn one_group_that_counts_always_is_exact() {
    let reading = reading_of(&[(100, 100, &[("cycles", 1000), ("instructions", 700), ("llc_misses", 0)])]);
    check(&reading, Event::Cycles, Some((1000, 1.0)));
    check(&reading, Event::LlcMisses, Some((0, 1.0)));
    check(&reading, Event::Branches, None);
    assert_eq!(reading.instructions_per_cycle(), Some(0.7));
    assert_eq!(reading.per_thousand_instructions(Event::LlcMisses), Some(0.0));
}

#[test]
fn groups_in_turn_are_scaled_by_time_on_cores() {
    // Cycles in both turns: exact. The others in one of two unequal turns: 300 ms of 400 ms, and 100 ms of 400 ms.
    let reading = reading_of(&[
        (300, 300, &[("cycles", 3000), ("instructions", 1500), ("l1d_misses", 30)]),
        (100, 100, &[("cycles", 1200), ("instructions", 900), ("branches", 100)]),
    ]);
    check(&reading, Event::Cycles, Some((4200, 1.0)));
    check(&reading, Event::L1dMisses, Some((40, 0.75)));
    check(&reading, Event::Branches, Some((400, 0.25)));
    assert_eq!(reading.instructions_per_cycle(), Some(2400.0 / 4200.0));
    // Of the moments in which both were counted, not of the window.
    assert!((reading.per_thousand_instructions(Event::L1dMisses).unwrap() - 20.0).abs() < 1e-9);
    assert_eq!(reading.ratio(Event::L1dMisses, Event::Branches), None, "never counted together");
    assert_eq!(reading.coverage(), 0.25);
}

#[test]
fn what_the_kernel_multiplexes_is_scaled_and_shows() {
    let reading = reading_of(&[(100, 80, &[("cycles", 800), ("instructions", 400)])]);
    check(&reading, Event::Cycles, Some((1000, 0.8)));
    let never = reading_of(&[(100, 0, &[("cycles", 0)])]);
    check(&never, Event::Cycles, None);
    let idle = reading_of(&[(0, 0, &[("cycles", 0), ("instructions", 0)])]);
    check(&idle, Event::Cycles, Some((0, 1.0)));
    assert_eq!(idle.instructions_per_cycle(), None);
}

#[test]
fn sums_are_whole_or_nothing() {
    let busy = || reading_of(&[(100, 100, &[("cycles", 10), ("branches", 4)]), (300, 300, &[("cycles", 30)])]);
    let without = || reading_of(&[(100, 100, &[("cycles", 5)])]);
    let idle = || reading_of(&[(0, 0, &[("cycles", 0)])]);
    let both = busy() + busy();
    check(&both, Event::Cycles, Some((80, 1.0)));
    check(&both, Event::Branches, Some((32, 0.25)));
    let partly = busy() + without();
    check(&partly, Event::Cycles, Some((45, 1.0)));
    check(&partly, Event::Branches, None);
    // Threads that did not run lack nothing.
    check(&(busy() + idle()), Event::Branches, Some((16, 0.25)));
    check(&(idle() + busy()), Event::Branches, Some((16, 0.25)));
    check(&CounterReading::default(), Event::Cycles, None);
}

#[test]
fn each_set_is_scaled_by_its_own_coverage() {
    // One set had the turn of branches for half of its time, the other for a tenth; neither speaks for the other.
    let first = reading_of(&[(50, 50, &[("cycles", 50), ("branches", 10)]), (50, 50, &[("cycles", 50)])]);
    let second = reading_of(&[(10, 10, &[("cycles", 10), ("branches", 7)]), (90, 90, &[("cycles", 90)])]);
    check(&(first + second), Event::Branches, Some((10 * 2 + 7 * 10, 0.3)));
}

#[test]
fn lines_from_memory_are_bytes() {
    let counts = [("ls_any_fills_from_sys.dram_io_all", 700), ("l2_pf_miss_l2_l3.l2_hwpf", 300)];
    let mut reading = reading_of(&[(50, 50, &counts), (50, 50, &[])]);
    assert!(reading.memory_read().unwrap_err().contains("not known"));
    reading.family = Some(Family::Zen3);
    let read = reading.memory_read().unwrap();
    assert_eq!((read.bytes, read.coverage), (128_000, 0.5), "what the second level's prefetchers read is in it");
    reading.family = Some(Family::Skylake);
    assert!(reading.memory_read().unwrap_err().contains("prefetchers"));
    reading.family = Some(Family::Zen2);
    assert!(reading.memory_read().unwrap_err().contains("not counted"));
}

#[test]
fn a_summary_explains_what_is_missing_and_survives_the_document() {
    let summary = reading_of(&[(10, 10, &[("cycles", 4), ("instructions", 2)])]).summary();
    assert_eq!(summary.figures.len(), 2);
    assert_eq!((summary.top_down.is_none(), summary.memory_read.is_none(), summary.notes.len()), (true, true, 2));
    let text = serde_json::to_string(&summary).unwrap();
    assert!(text.contains(r#""cycles":{"count":4,"coverage":1.0}"#), "{text}");
    assert_eq!(serde_json::from_str::<CounterSummary>(&text).unwrap(), summary);
    let reading = reading_of(&[(10, 5, &[("cycles", 4)])]);
    let text = serde_json::to_string(&reading).unwrap();
    assert_eq!(serde_json::from_str::<CounterReading>(&text).unwrap(), reading);
}

proptest! {
    /// For any turns, an event that happens at a steady rate is estimated by that rate.
    #[test]
    fn steady_work_is_estimated_well(turns in prop::collection::vec(1u64..1000, 1..8), rate in 1u64..50) {
        let counts: Vec<[(&str, u64); 2]> =
            turns.iter().map(|ms| [("cycles", ms * 1000), ("branches", ms * rate)]).collect();
        let mut groups: Vec<MadeGroup<'_>> =
            turns.iter().zip(&counts).map(|(ms, counts)| (*ms, *ms, &counts[..1])).collect();
        groups[0].2 = &counts[0];
        let reading = reading_of(&groups);
        let total: u64 = turns.iter().sum();
        prop_assert_eq!(reading.figure(Event::Branches).unwrap().count, total * rate);
        prop_assert_eq!(reading.figure(Event::Cycles).unwrap().count, total * 1000);
        let ratio = reading.ratio(Event::Branches, Event::Cycles).unwrap();
        prop_assert!((ratio - rate as f64 / 1000.0).abs() < 1e-9);
    }
}
