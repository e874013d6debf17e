//! How figures are reported. The speed of this machine does not matter here.

use super::bandwidth::Pattern;
use super::*;

pub(crate) fn example() -> MemorySpeed {
    let figure = |unit: &str, median: f64| Figure::of(unit, &[median * 0.5, median, median * 1.5]).unwrap();
    let level = |level, bytes, median| LevelLatency { level, bytes, latency: figure("ns", median) };
    MemorySpeed {
        quick: true,
        cores: vec![0, 1],
        caches: CacheSizes { l1: Some(32 << 10), l2: Some(1 << 20), llc: None, llc_shared_by: 1, is_victim: false },
        huge_page_share: Some(1.0),
        bandwidth: vec![Bandwidth {
            pattern: Pattern::Read,
            cores: vec![0, 1],
            socket: Some(0),
            rate: figure("GB/s", 20.0),
        }],
        curve: vec![CurvePoint { bytes: 4096, latency: figure("ns", 1.5) }],
        levels: vec![level(Level::L1, 16 << 10, 1.5), level(Level::L2, 256 << 10, 4.0)],
        llc_seen_bytes: Some([4 << 20, 8 << 20]),
        loaded: vec![LoadedPoint { traffic_gb_s: 10.0, latency: figure("ns", 150.0) }],
        took_s: 3.5,
        notes: vec!["an example".to_owned()],
    }
}

#[test]
fn in_words() {
    let told = example().to_string();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "sequential read        2 cores of socket 0    20.0 GB/s (10.0 to 30.0)");
    assert_eq!(lines[2], "latency of L2          256 KiB                4.0 ns (2.0 to 6.0)");
    assert_eq!(lines[3], "loaded latency         at 10.0 GB/s           150.0 ns (75.0 to 225.0)");
    assert_eq!(lines[4], "note: an example");
}

#[test]
fn a_level_that_is_not_known_is_none() {
    assert_eq!(example().level_latencies(), LevelLatencies { l2_ns: Some(4.0), llc_ns: None, dram_ns: None });
}

/// A machine with little to measure is measured completely and quickly, and the notes list what was left out.
#[test]
fn a_small_machine() {
    let caches = CacheSizes { l1: Some(8 << 10), l2: Some(64 << 10), llc: None, llc_shared_by: 1, is_victim: false };
    let cores = usable_cores()[..1].to_vec();
    let sockets = vec![(0, cores.clone())];
    let options = Options { quick: true, cores, sockets, caches, guest_of: Some("kvm".to_owned()) };
    let mut shares = Vec::new();
    let speed = MemorySpeed::measure(&options, &mut |share, _| shares.push(share));
    assert!(shares.windows(2).all(|pair| pair[0] <= pair[1]) && shares.last() == Some(&1.0), "{shares:?}");
    assert_eq!(speed.bandwidth.len(), Pattern::ALL.len(), "{speed:?}");
    assert_eq!(speed.curve.len(), 7, "4 KiB to 256 KiB: {speed:?}");
    assert_eq!(speed.levels.iter().map(|level| level.level).collect::<Vec<_>>(), [Level::L1, Level::L2, Level::Dram]);
    assert!(speed.loaded.is_empty());
    let notes = speed.notes.join("\n");
    assert!(notes.contains("a second core") && notes.contains("a guest (kvm)") && notes.contains("LLC"), "{notes}");
    assert!(speed.level_latencies().dram_ns.is_some_and(|ns| ns > 0.0));
}

#[test]
fn the_second_level_is_no_part_of_the_last() {
    let seen = |is_victim, seen: Option<[u64; 2]>| {
        let made = example();
        let caches = CacheSizes { l2: Some(1 << 20), is_victim, ..made.caches.clone() };
        MemorySpeed { caches, llc_seen_bytes: seen, ..made }.last_level_seen_mib()
    };
    assert_eq!(seen(false, Some([4 << 20, 8 << 20])), Some([4.0, 8.0]));
    assert_eq!(seen(true, Some([4 << 20, 8 << 20])), Some([3.0, 7.0]));
    assert_eq!(seen(true, Some([1 << 20, 2 << 20])), None, "what fits is the second level alone");
    assert_eq!(seen(true, None), None);
}
