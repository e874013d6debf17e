//! Shapes and files by example, and kernels whose counts are known.

use std::process::Command;

use plimsoll_testing::{Need, skip};

use super::*;

fn cache(level: u8, kind: &str, size_bytes: u64, ways: Option<u32>) -> Cache {
    Cache { level, kind: kind.to_owned(), size_bytes, ways, shared_by: 1, count: 1 }
}

#[test]
fn caches_are_like_the_machine_s_with_a_power_of_two_of_sets() {
    let check = |caches: &[Cache], shapes: [&str; 3], notes: usize| {
        let made = SimulatedCaches::like(caches);
        assert_eq!([made.code, made.data, made.last].map(|shape| shape.to_string()), shapes.map(str::to_owned));
        assert_eq!(made.notes.len(), notes, "{:?}", made.notes);
    };
    let epyc = [
        cache(1, "data", 32 << 10, Some(8)),
        cache(1, "instruction", 32 << 10, Some(8)),
        cache(2, "unified", 512 << 10, Some(8)),
        cache(3, "unified", 32 << 20, Some(16)),
    ];
    check(&epyc, ["32768,8,64", "32768,8,64", "33554432,16,64"], 0);
    // 11 ways of 36608 KiB: 53248 sets, of which a power of two is left.
    let xeon = [cache(1, "data", 48 << 10, Some(12)), cache(3, "unified", 36_608 << 10, Some(11))];
    check(&xeon, ["32768,8,64", "49152,12,64", "23068672,11,64"], 2);
    check(&[], ["32768,8,64", "32768,8,64", "8388608,16,64"], 3);
    let odd = [cache(1, "unified", 64, Some(4)), cache(2, "unified", 0, None)];
    check(&odd, ["64,1,64", "64,1,64", "64,1,64"], 1);
}

#[test]
fn counts_are_those_of_the_summary() {
    let text = "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim\nsummary: 100 40 20 3 5 2 1 4 1 9 2\n\nfn=(1)\n1 7\n";
    let counts = SimulatedCounts::parse(text).unwrap();
    assert_eq!((counts.instructions, counts.read_misses, counts.last_level_misses), (100, 5, 6));
    assert_eq!((counts.branches(), counts.mispredictions(), counts.indirect_branches), (9, 2, 0));
    let refused = |text: &str, why: &str| assert_eq!(SimulatedCounts::parse(text), Err(why.to_owned()));
    refused("", "it has no line `events:`");
    refused("events: Ir\n", "it has no line `summary:`");
    refused("events: Ir\nsummary: many\n", "`many` is not a count");
    refused("events: Ir\nsummary: 1\n", "it has no event `I1mr`");
}

/// Which kernel the test program runs for [`known`], and how much of it.
const KERNEL: &str = "PLIMSOLL_TEST_KERNEL";

/// Bytes that the kernels read: more than the simulated last level, which has 1 MiB.
const BYTES: usize = 8 << 20;

/// Runs a kernel in this very program under the simulator: `name` before and after the counts begin.
fn known(name: &str) -> Option<SimulatedCounts> {
    let small = [cache(1, "data", 32 << 10, Some(8)), cache(3, "unified", 1 << 20, Some(16))];
    let simulator = match Simulator::find(&small) {
        Ok(simulator) => simulator,
        Err(error) => {
            skip(Need::Valgrind, error);
            return None;
        }
    };
    let folder = folder().unwrap();
    let words = simulator.command(folder.path(), Counting::Switched);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "simulated_counters::tests::kernel", "--nocapture", "--test-threads=1"]);
    let request = serde_json::to_string(&(name, &simulator, folder.path())).unwrap();
    let said = command.env(KERNEL, request).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let counts = text.lines().find_map(|line| line.split_once("counts: "));
    let counts = counts.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&said.stderr))).1;
    Some(serde_json::from_str(counts).unwrap())
}

/// Not a test, but what [`known`] runs; alone it does nothing.
#[test]
fn kernel() {
    let Ok(request) = std::env::var(KERNEL) else { return };
    let (name, simulator, folder): (String, Simulator, PathBuf) = serde_json::from_str(&request).unwrap();
    let process = std::process::id().cast_signed();
    let lines = BYTES / 64;
    let words: Vec<u64> = match &*name {
        // One cycle over all lines: an odd step in a ring of a power of two.
        "chase" => (0..BYTES / 8).map(|at| ((at / 8 + 40_503) % lines * 8) as u64).collect(),
        _ => (0..(BYTES / 8) as u64).map(mixed).collect(),
    };
    let run = || match &*name {
        "sum" => words.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word)),
        "chase" => (0..lines).fold(0, |at, _| words[at as usize]),
        "branch" => words.iter().fold(0, |sum: u64, word| match word >> 63 {
            1 => std::hint::black_box(sum + 1),
            _ => std::hint::black_box(sum ^ 3),
        }),
        other => panic!("{other} is no kernel"),
    };
    simulator.switch(&folder, process, Switch::On).unwrap();
    std::hint::black_box(run());
    simulator.switch(&folder, process, Switch::Zero).unwrap();
    std::hint::black_box(run());
    let counts = simulator.take(&folder, process).unwrap();
    println!("counts: {}", serde_json::to_string(&counts).unwrap());
}

/// Numbers as good as random (SplitMix64: Steele, Lea and Flood 2014).
fn mixed(at: u64) -> u64 {
    let x = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A count is as expected, within a twentieth: the test program and the asking add some.
#[track_caller]
fn near(count: u64, expect: usize) {
    let (count, expect) = (count as f64, expect as f64);
    assert!((count - expect).abs() <= 0.05 * expect, "{count} for {expect}");
}

#[test]
fn a_sum_misses_once_for_each_line_and_mispredicts_nothing() {
    let Some(counts) = known("sum") else { return };
    near(counts.read_misses, BYTES / 64);
    near(counts.last_level_misses, BYTES / 64);
    assert!(counts.mispredictions() < 5_000, "{counts:?}");
}

#[test]
fn a_chase_misses_at_every_step() {
    let Some(counts) = known("chase") else { return };
    near(counts.read_misses, BYTES / 64);
    near(counts.last_level_misses, BYTES / 64);
}

#[test]
fn a_random_branch_is_mispredicted_every_other_time() {
    let Some(counts) = known("branch") else { return };
    near(counts.conditional_mispredictions, BYTES / 8 / 2);
    near(counts.last_level_misses, BYTES / 64);
}
