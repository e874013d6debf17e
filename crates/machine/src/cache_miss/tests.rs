//! The breakdown of known counts.

use super::*;
use crate::counters::reading::tests::reading_of;
use crate::top_down::{Family, FrontEnd, FrontEndShares, Unit};

const LATENCIES: LevelLatencies = LevelLatencies { l2_ns: 4.0, llc_ns: 20.0, dram_ns: 100.0 };

fn top_down(memory: Option<f64>) -> TopDown {
    TopDown {
        family: Family::Zen4,
        method: "dispatch slots".into(),
        unit: Unit::Slots,
        approximate: false,
        retiring: Some(0.3),
        bad_speculation: Some(0.1),
        frontend: Some(0.1),
        backend: Some(0.5),
        smt_contention: None,
        memory,
        core: memory.map(|memory| 0.5 - memory),
        memory_levels: None,
        front_end: FrontEnd::default(),
        coverage: 1.0,
        notes: Vec::new(),
    }
}

/// By hand: in 1 ms on cores, 25,000 misses at 4 ns, 5,000 at 20 ns and 1,000 at 100 ns take 0.1 ms each.
#[test]
fn misses_times_latency() {
    let levels = [("served_by_l2", 25_000), ("served_by_l3", 5_000), ("served_by_memory", 1_000)];
    let reading = reading_of(&[(1, 1, &levels)]);
    let found = CacheMissBreakdown::of(&reading, &LATENCIES, Some(&top_down(Some(0.35)))).unwrap();
    for share in [found.l2, found.llc, found.dram] {
        assert!((share - 0.1).abs() < 1e-9, "{found:?}");
    }
    assert!((found.memory - 0.3).abs() < 1e-9);
    assert!((found.disagreement.unwrap() + 0.05).abs() < 1e-9, "stalls that were no misses: {found:?}");
    assert!(found.notes[0].contains("upper bound"));
    let alone = CacheMissBreakdown::of(&reading, &LATENCIES, Some(&top_down(None))).unwrap();
    assert_eq!(alone.disagreement, None);

    // The same rates in one turn of four give the same shares.
    let turns = reading_of(&[(1, 1, &levels), (3, 3, &[("cycles", 1)])]);
    let found = CacheMissBreakdown::of(&turns, &LATENCIES, None).unwrap();
    assert!((found.memory - 0.3).abs() < 1e-9);
    assert_eq!(found.coverage, 0.25);
}

#[test]
fn no_breakdown_without_its_parts() {
    let check = |reading: &CounterReading, latencies: LevelLatencies, expect: &str| {
        let why = CacheMissBreakdown::of(reading, &latencies, None).unwrap_err();
        assert!(why.contains(expect), "{why}");
    };
    let lacking = reading_of(&[(1, 1, &[("served_by_l2", 1), ("served_by_memory", 1)])]);
    check(&lacking, LATENCIES, "misses served by L3 were not counted");
    let apart = reading_of(&[(1, 1, &[("served_by_l2", 1), ("served_by_memory", 1)]), (1, 1, &[("served_by_l3", 1)])]);
    check(&apart, LATENCIES, "not counted together");
    let whole = [("served_by_l2", 1), ("served_by_l3", 1), ("served_by_memory", 1)];
    check(&reading_of(&[(0, 0, &whole)]), LATENCIES, "did not run");
    check(&reading_of(&[(1, 1, &whole)]), LevelLatencies { dram_ns: 0.0, ..LATENCIES }, "cannot have been measured");
    check(&reading_of(&[(1, 1, &whole)]), LevelLatencies { l2_ns: f64::NAN, ..LATENCIES }, "cannot have been measured");
}

/// Misses are counted in user mode only, so time in the kernel does not lower their share.
#[test]
fn user_misses_are_shares_of_user_time() {
    let levels = [("served_by_l2", 25_000), ("served_by_l3", 5_000), ("served_by_memory", 1_000)];
    let mut reading = reading_of(&[(1, 1, &levels)]);
    reading.sets[0].user_share = Some(0.5);
    let found = CacheMissBreakdown::of(&reading, &LATENCIES, None).unwrap();
    assert!((found.memory - 0.6).abs() < 1e-9, "{found:?}");

    // Two sets of threads: one millisecond each, one of them all in user mode.
    let both = reading.clone() + reading_of(&[(1, 1, &levels)]);
    assert_eq!(both.user_share(), Some(0.75));
    let found = CacheMissBreakdown::of(&both, &LATENCIES, None).unwrap();
    assert!((found.memory - 0.6 / 1.5).abs() < 1e-9, "{found:?}");

    reading.sets[0].user_share = None;
    let why = CacheMissBreakdown::of(&reading, &LATENCIES, None).unwrap_err();
    assert!(why.contains("user mode"), "{why}");
}

/// By hand: in 1 ms, 10,000 lines of code at 4 ns and 500 at 20 ns take 0.05 ms.
#[test]
fn of_the_front_end_there_are_misses_of_code() {
    let levels = [("served_by_l2", 1), ("served_by_l3", 1), ("served_by_memory", 1)];
    let check = |code: &[(&str, u64)], top_down: Option<&TopDown>, expect: Option<f64>, overlap: bool| {
        let reading = reading_of(&[(1, 1, &levels), (1, 1, code)]);
        let found = CacheMissBreakdown::of(&reading, &LATENCIES, top_down).unwrap();
        assert_eq!(found.icache.map(|share| (share * 1e6).round() / 1e6), expect);
        assert_eq!(found.notes.iter().any(|note| note.ends_with("they overlap")), overlap);
    };
    let code = |from_l2, beyond| [("code_from_l2", from_l2), ("code_beyond_l2", beyond)];
    // Each group had half of the time, so that its counts stand for twice as many.
    let shares = top_down(Some(0.35));
    check(&code(10_000, 500), Some(&shares), Some(0.05), false);
    check(&code(100_000, 0), Some(&shares), Some(0.4), true);
    check(&code(10_000, 500), None, Some(0.05), false);
    check(&[], Some(&shares), None, false);
}

/// As in SI fig. 3.2, with figures made up here: top-down waits for code longer than misses times latencies say. What they
/// lack is not decoding, which is about a tenth, and resteers after wrong predictions are none of both (tab. A.1).
#[test]
fn what_misses_of_code_lack_is_not_decoding() {
    let mut shares = TopDown { frontend: Some(0.5), backend: Some(0.1), ..top_down(None) };
    shares.split_frontend(FrontEndShares { latency: Some(0.45), waits: Some([0.3, 0.1]) });
    let levels = [("served_by_l2", 1), ("served_by_l3", 1), ("served_by_memory", 1)];
    let reading = reading_of(&[(1, 1, &levels), (1, 1, &[("code_from_l2", 37_500), ("code_beyond_l2", 0)])]);
    let misses = CacheMissBreakdown::of(&reading, &LATENCIES, Some(&shares)).unwrap();
    assert_eq!(misses.icache, Some(0.15));
    let decoding = shares.front_end.decoding.unwrap();
    assert!((decoding - 0.1).abs() < 1e-9, "and not 0.35, which misses leave of the front end: {decoding}");
    assert!((shares.branch_misprediction().unwrap() - 0.2).abs() < 1e-9);
}
