//! Levels 2 and 3 of known counts.

use super::*;

/// By hand from the makers' formulas: in 1000 cycles 150 delivered nothing. 50 + 10 of them waited for code and its address,
/// 20 + 9 × 1 came after a wrong turn. What is left of a frontend of 20 % is decoding (SI tab. A.1).
#[test]
fn the_frontend_of_skylake_by_hand() {
    let level_1 = [
        ("cycles", 1000),
        ("idq_uops_not_delivered.core", 800),
        ("uops_issued.any", 1600),
        ("uops_retired.retire_slots", 1400),
        ("int_misc.recovery_cycles", 50),
    ];
    let front_end = |icache| {
        [
            ("cycles", 1000),
            ("idq_uops_not_delivered.cycles_0_uops_deliv.core", 150),
            ("icache_16b.ifdata_stall", icache),
            ("icache_64b.iftag_stall", 10),
            ("int_misc.clear_resteer_cycles", 20),
            ("baclears.any", 1),
        ]
    };
    let found = |counts: &[(&str, u64)]| {
        let mut reading = reading_of(&[(50, 50, &level_1), (50, 50, counts)]);
        reading.family = Some(Family::Skylake);
        reading.top_down().unwrap()
    };
    let check = |counts: &[(&str, u64)], expect: [Option<f64>; 5], note: &str| {
        let top_down = found(counts);
        let FrontEnd { latency, bandwidth, icache, branch_resteers, decoding } = top_down.front_end;
        let rounded = [latency, bandwidth, icache, branch_resteers, decoding]
            .map(|share| share.map(|share| (share * 1e6).round() / 1e6));
        assert_eq!(rounded, expect, "{top_down:?}");
        assert!(top_down.notes.iter().any(|found| found.contains(note)), "{top_down:?}");
    };
    let all = [Some(0.15), Some(0.05), Some(0.06), Some(0.029), Some(0.111)];
    check(&front_end(50), all, "not counted on this processor: level 2 of the backend");
    assert!((found(&front_end(50)).branch_misprediction().unwrap() - 0.129).abs() < 1e-9);
    // The makers' parts may overlap: together they are at most latency.
    let overlapping = [Some(0.15), Some(0.05), Some(0.14), Some(0.01), Some(0.05)];
    check(&front_end(130), overlapping, "branch resteers came out as 2.9 % and was cut to 1.0 %");
    // A guest with few counters.
    let level_2 = [Some(0.15), Some(0.05), None, None, None];
    check(&front_end(0)[..2], level_2, "level 3 of the frontend (icache, branch resteers, decoding)");
    check(&[], [None; 5], "level 2 of the frontend (latency, bandwidth); level 3");
}

/// By hand from the makers' formulas: of a backend of 35 %, (300 + 50) / (400 + 100 + 0.35 × 200 + 50) waited for memory on
/// Skylake. On Sapphire Rapids memory's 17.2 % are divided by level.
#[test]
fn the_backend_of_intel_by_hand() {
    let level_1 = [
        ("cycles", 1000),
        ("idq_uops_not_delivered.core", 800),
        ("uops_issued.any", 1600),
        ("uops_retired.retire_slots", 1400),
        ("int_misc.recovery_cycles", 50),
    ];
    let level_2 = [
        ("cycles", 1000),
        ("cycle_activity.stalls_mem_any", 300),
        ("cycle_activity.stalls_total", 400),
        ("exe_activity.1_ports_util", 100),
        ("exe_activity.2_ports_util", 200),
        ("exe_activity.bound_on_stores", 50),
    ];
    let mut reading = reading_of(&[(50, 50, &level_1), (50, 50, &level_2)]);
    reading.family = Some(Family::Skylake);
    let memory = reading.top_down().unwrap().memory.unwrap();
    assert!((memory - 0.35 * 350.0 / 620.0).abs() < 1e-9, "{memory}");

    let level_1 = [
        ("cycles", 1_000),
        ("slots", 8_431_908),
        ("topdown-retiring", 1_554_116),
        ("topdown-bad-spec", 1_289_585),
        ("topdown-fe-bound", 2_810_636),
        ("topdown-be-bound", 2_810_636),
        ("topdown-mem-bound", 1_454_917),
        ("topdown-fetch-lat", 1_686_381),
        ("int_misc.uop_dropping", 0),
    ];
    let level_3 = [
        ("cycles", 1_000),
        ("exe_activity.bound_on_loads", 400),
        ("memory_activity.stalls_l1d_miss", 300),
        ("memory_activity.stalls_l2_miss", 250),
        ("memory_activity.stalls_l3_miss", 200),
        ("exe_activity.bound_on_stores", 100),
    ];
    let mut reading = reading_of(&[(50, 50, &level_1), (50, 50, &level_3)]);
    reading.family = Some(Family::SapphireRapids);
    let found = reading.top_down().unwrap();
    let MemoryLevels { l1, l2, l3, dram, store } = found.memory_levels.unwrap();
    let memory = found.memory.unwrap();
    for (part, expect) in [(l1, 0.2), (l2, 0.1), (l3, 0.1), (dram, 0.4), (store, 0.2)] {
        assert!((part - expect * memory).abs() < 1e-9, "{found:?}");
    }
}
