//! Checks of the list of figures against itself, the claim language and the document.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;

use plimsoll_machine::groups::GroupUse;
use plimsoll_machine::pressure::PressureUse;
use plimsoll_machine::resctrl::CacheUse;
use plimsoll_machine::top_down::{FrontEnd, MemoryLevels, TopDown};
use plimsoll_workload::database::NetworkBytes;
use plimsoll_workload::freshness::{ChangeUnit, Freshness, Spread, Tail};
use plimsoll_workload::parallelism::Learning;

use super::*;
use crate::histograms::{Latencies, LockHistograms, WorkloadHistograms};
use crate::report::fixture;
use crate::results::{
    Aborted, CacheSwitching, ColumnReading, Counters, Latency, Lengths, LockStatistics, LockWait, MeanLength,
    ResponseByWaits, SimulatedCache, TimeShare, WorkloadMeasurement,
};

/// A breakdown to level 3.
fn top_down(share: f64) -> TopDown {
    let front_end = FrontEnd {
        latency: Some(share),
        bandwidth: Some(share),
        icache: Some(share),
        branch_resteers: Some(share),
        decoding: Some(share),
    };
    let memory_levels = Some(MemoryLevels { l1: share, l2: share, l3: share, dram: share, store: share });
    TopDown { front_end, memory_levels, ..fixture::slots(share) }
}

/// A run in which everything was measured, with `times` the amounts of a first one.
fn run(times: u64) -> (Point, WorkloadHistograms) {
    let share = times as f64 / 10.0;
    let (completed, amount) = (20_000 * times, 20_000 * times * times);
    let mut histogram = plimsoll_workload::driver::Histogram::new(3).expect("three digits");
    (0..completed).for_each(|number| histogram.record(100 * times + number % 100).expect("it grows"));
    let latency_us: Option<Latency> = Latency::of(&histogram);
    let time_share = TimeShare::with_rest([Some(share), Some(share), Some(0.05), Some(0.05), Some(share), Some(0.05)]);
    let part = Part {
        completed,
        throughput_per_s: 100.0 * times as f64,
        latency_us,
        in_flight: None,
        locks: Some(locks(times)),
        time_share: Some(time_share),
        samples: Some(100),
        query_memory_bytes: Some(1_000 * times),
        network_bytes: Some(NetworkBytes { shuffle: 5 * amount, broadcast: 2 * amount, gather: amount }),
    };
    let count = |number: u64| Some(number * times);
    let cache_misses = json!({
        "l2": share, "llc": share, "dram": share, "memory": 3.0 * share, "disagreement": share, "icache": share,
        "coverage": 1.0, "notes": [],
    });
    let driven = WorkloadMeasurement {
        name: "shop".to_owned(),
        kind: "tpcc".to_owned(),
        clients: 4,
        all: part.clone(),
        aborted: Aborted { deadlock: times, preempted: 2 * times, conflict: 3, user: 4 * times, error: 5 },
        classes: [("high".to_owned(), part.clone())].into(),
        transactions: [("payment".to_owned(), Part { locks: None, ..part })].into(),
        round_trip_share: Some(share),
        lock_wait: Some(LockWait { waits: times, wait_s: share }),
        ..WorkloadMeasurement::default()
    };
    let workload = WorkloadResult {
        driven,
        block_io_s: Some(share),
        counters: Some(Counters {
            cycles: count(4_000),
            instructions: count(2_000 + times),
            kernel_instructions: count(600),
            spin_instructions: count(3),
            l1d_misses: count(50 + times),
            llc_misses: count(10 + times),
            branch_misses: count(9),
            branches: count(300),
            l2_misses: count(20),
            dtlb_misses: count(7),
            dram_read_bytes: count(64_000),
            coverage: 0.9,
            is_simulated: false,
        }),
        top_down: Some(top_down(share)),
        cache_misses: Some(serde_json::from_value(cache_misses).expect("all of its fields")),
        simulated: Some(SimulatedCache { shared_hits: times, misses: 5, ..SimulatedCache::default() }),
        ..WorkloadResult::default()
    };
    let packed = |name: &str| [(name.to_owned(), Latencies::of(&histogram))].into();
    let histograms = WorkloadHistograms {
        workload: "shop".to_owned(),
        transactions: packed("payment"),
        classes: packed("high"),
        locks: LockHistograms::default(),
    };
    let mut point = fixture::point("alone:shop", 1, vec![workload]);
    point.achieved = [("cores".to_owned(), json!(times))].into();
    point.device = device(share);
    (point, histograms)
}

/// A machine with this value for every figure.
fn device(figure: f64) -> Device {
    let pressure = PressureUse {
        cpu_some: Some(figure),
        cpu_full: Some(figure),
        memory_some: Some(figure),
        memory_full: Some(figure),
        io_some: Some(figure),
        io_full: Some(figure),
    };
    let cache = CacheUse { held_mib: Some(figure), memory_mb_s: Some(figure) };
    Device {
        cpu_busy: Some(figure),
        cpu_busy_clients: Some(figure),
        cpu_busy_proxy: Some(figure),
        busy_cores_others: Some(figure),
        stolen: Some(figure),
        mhz: Some(figure),
        io_busy: Some(figure),
        read_mb_s: Some(figure),
        write_mb_s: Some(figure),
        reads_per_s: Some(figure),
        writes_per_s: Some(figure),
        read_ms: Some(figure),
        write_ms: Some(figure),
        dram_read_gb_s: Some(figure),
        pressure: Some(pressure),
        cache: Some(cache),
        group: Some(GroupUse {
            memory_mib: Some(figure),
            busy_cores: Some(figure),
            throttled: Some(figure),
            read_mb_s: Some(figure),
            write_mb_s: Some(figure),
        }),
        group_pressure: Some(pressure),
        group_cache: Some(cache),
        freshness: Some(freshness(figure)),
        learning: Some(Learning {
            settled: figure,
            runs_to_best: Some(figure),
            speed_up: Some(figure),
            regret: Some(figure),
            reopened: figure,
        }),
        cache_switches: Some(CacheSwitching { per_s: figure, us: Some(figure), unbound: false }),
        columns: Some(ColumnReading { read_mb_s: figure, hit_share: Some(figure), held_mib: figure }),
    }
}

/// A copy with this value for every figure.
fn freshness(figure: f64) -> Freshness {
    let spread = Some(Spread { p50: Some(figure), p95: Some(figure), max: Some(figure) });
    Freshness {
        unit: ChangeUnit::Tuples,
        lambda: Some(figure),
        mu: Some(figure),
        mu_merge: Some(figure),
        busy: Some(figure),
        lag_us: spread,
        lag_changes: spread,
        delta_bytes: Some(figure),
        versions: Some(figure),
        staleness_us: spread,
        blocked_us: Some(Tail { p999: Some(figure), max: Some(figure) }),
    }
}

/// Ten requests per `times`. Half of them waited, once or twice; one was preempted twice.
fn locks(times: u64) -> LockStatistics {
    let lengths = |count: u64, mean: f64| Lengths {
        count: count * times,
        mean: (count > 0).then_some(mean * times as f64),
        ..Lengths::default()
    };
    let means = |count: u64, total: f64| MeanLength::of(count * times, total * times as f64);
    LockStatistics {
        requests: 10 * times,
        requests_by_waits: vec![5 * times, 3 * times, 2 * times],
        requests_by_preemptions: vec![9 * times, 0, times],
        response_by_waits: ResponseByWaits {
            none: means(5, 500.0),
            one: means(3, 1_800.0),
            two: means(2, 3_400.0),
            more: MeanLength::default(),
        },
        response_s: 0.0057 * times as f64,
        queue_time_us: lengths(7, 400.0),
        queue_time_if_preempted: means(2, 1_000.0),
        queue_time_if_completed: means(5, 1_800.0),
        wait_excess_us: lengths(7, 300.0),
        wait_remainder_us: lengths(7, 100.0),
        rollbacks: 3 * times,
        rollback_s: Some(0.0006 * times as f64),
        work_lost_us: lengths(2, 270.0),
        successful_attempts: means(10, 3_000.0),
        ..LockStatistics::default()
    }
    .with_shares()
}

/// An argument that a figure accepts.
fn asking(figure: &Figure) -> FigureArgument {
    match figure.read {
        FigureSource::Plain(_) | FigureSource::OfDevice(_) => FigureArgument::Nothing,
        FigureSource::OfTimes(_) => FigureArgument::Times(Times { from: 1, to: Some(1) }),
        FigureSource::OfLimit(_) => FigureArgument::Limit("cores"),
    }
}

#[test]
fn names_are_of_one_figure_each() {
    let keys: Vec<&str> = figures().map(|figure| figure.key).collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "{keys:?}");
    let mut asked: Vec<_> =
        figures().filter_map(|figure| figure.claim).map(|one| (one.function, one.subject)).collect();
    let count = asked.len();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), count, "two figures for one function");
}

#[test]
fn every_figure_is_read_and_merges_as_its_row_says() {
    let [(one, one_histograms), (two, two_histograms)] = [run(1), run(2)];
    let merged = crate::analysis::cells::CellFigures::of(&[&one, &two], "shop", &[&one_histograms, &two_histograms]);
    let merged = merged.expect("there are two");
    for figure in figures() {
        let read = |reading: Reading<'_>| figure.read(&reading, asking(figure)).unwrap_or_else(|why| panic!("{why}"));
        let values = [&one, &two].map(|point| read(Reading::of_run(point, &point.workloads[0])));
        let (sum, together) = (values[0] + values[1], read(merged.reading()));
        let expect = match figure.merge {
            Merge::Runs => sum / 2.0,
            Merge::Sum => sum,
            Merge::Largest => values[0].max(values[1]),
            // The divisors differ, so only the range can be checked.
            Merge::Together | Merge::Joined => together,
        };
        assert!((together - expect).abs() <= 1e-9 * expect.abs(), "{figure:?}: {values:?} merge to {together}");
        let (low, high) = (values[0].min(values[1]), values[0].max(values[1]));
        assert!(figure.merge == Merge::Sum || (low - 1e-9..=high + 1e-9).contains(&together), "{figure:?}");
        for (of, part) in [
            (FigureSubject::Class, merged.reading().class("high")),
            (FigureSubject::Transaction, merged.reading().transaction("payment")),
        ] {
            let is_known = figure.of == of || figure.of == FigureSubject::Transaction;
            let part = part.expect("there is one");
            assert!(!is_known || figure.read(&part, asking(figure)).is_ok(), "{figure:?} of {of:?}");
        }
    }
    let percentile = figure("latency_us.p95").value(&merged.reading()).expect("enough");
    assert!((290.0..300.0).contains(&percentile), "of 20,000 fast and 40,000 slow requests: {percentile}");
}

/// A figure that `results.json` holds unchanged has this value.
#[test]
fn the_document_has_the_figures_under_their_names() {
    let (point, _) = run(1);
    let reading = Reading::of_run(&point, &point.workloads[0]);
    let (of_run, of_workload) = (json!(point), json!(point.workloads[0]));
    let mut found = 0;
    for figure in figures().filter(|figure| matches!(figure.read, FigureSource::Plain(_) | FigureSource::OfDevice(_))) {
        let document = if figure.of == FigureSubject::Run { &of_run } else { &of_workload };
        let told = document.pointer(&format!("/{}", figure.key.replace('.', "/"))).and_then(Value::as_f64);
        // Events are counts there and per request here.
        let Some(told) = told.filter(|_| figure.unit != Unit::PerRequest) else { continue };
        assert_eq!(Some(told), figure.value(&reading), "{figure:?}");
        found += 1;
    }
    assert!(found > 35, "{found} figures were found");
}

#[test]
fn what_did_not_happen_has_no_length() {
    let check = |locks: &LockStatistics, key: &str, asking: FigureArgument, expect: Result<f64, &str>| {
        let (mut point, _) = run(1);
        point.workloads[0].all.locks = Some(locks.clone());
        let found = figure(key).read(&Reading::of_run(&point, &point.workloads[0]), asking);
        assert_eq!(found, expect.map_err(|why| format!("no {key}: {why}")), "{key}");
    };
    let calm = LockStatistics { requests: 4, requests_by_waits: vec![4], ..LockStatistics::default() };
    check(&calm, "locks.waits_per_request", FigureArgument::Nothing, Ok(0.0));
    check(&calm, "locks.preemptions_per_request", FigureArgument::Nothing, Ok(0.0));
    check(&calm, "locks.queue_time_us.mean", FigureArgument::Nothing, Err("no lock request had to wait"));
    check(&calm, "locks.work_lost_share", FigureArgument::Nothing, Err("no attempt was preempted"));
    let once = FigureArgument::Times(Times { from: 1, to: Some(1) });
    check(&calm, "locks.response_by_waits", once, Err("no request completed that waited 1 times"));
    let none = "no attempt was rolled back for another or as a deadlock's victim";
    check(&calm, "locks.rollback_us.mean", FigureArgument::Nothing, Err(none));
    let mute = LockStatistics { rollback_s: None, ..locks(1) };
    check(
        &mute,
        "locks.rollback_us.mean",
        FigureArgument::Nothing,
        Err("this target cannot tell how long rollbacks take"),
    );
    check(&LockStatistics::default(), "locks.queue_time_share", FigureArgument::Nothing, Err("no request ended"));
}

#[test]
fn figures_of_locks_are_of_all_requests() {
    let (point, _) = run(1);
    let reading = Reading::of_run(&point, &point.workloads[0]);
    let check = |key: &str, asking: FigureArgument, expect: f64| {
        let found = figure(key).read(&reading, asking).unwrap_or_else(|why| panic!("{why}"));
        assert!((found - expect).abs() < 1e-9, "{key} {asking:?}: {found}");
    };
    let times = |from, to| FigureArgument::Times(Times { from, to });
    check("locks.waits_per_request", FigureArgument::Nothing, 0.7);
    check("locks.queue_time_share", FigureArgument::Nothing, 2_800.0 / 5_700.0);
    check("locks.requests_by_waits", times(1, Some(1)), 0.3);
    check("locks.requests_by_waits", times(1, None), 0.5);
    check("locks.requests_by_waits", times(9, Some(9)), 0.0);
    check("locks.response_by_waits", times(0, Some(0)), 100.0);
    check("locks.response_by_waits", times(1, None), 1_040.0);
    check("locks.response_by_waits", times(2, None), 1_700.0);
    check("locks.requests_by_preemptions", times(1, None), 0.1);
    check("locks.rollbacks_per_request", FigureArgument::Nothing, 0.3);
    check("locks.rollback_us.mean", FigureArgument::Nothing, 200.0);
    check("locks.work_lost_share", FigureArgument::Nothing, 0.9);
}

#[test]
fn too_few_requests_are_told_with_what_is_needed() {
    let (mut point, _) = run(1);
    let latency = Latency { p99: None, ..point.workloads[0].all.latency_us.expect("measured") };
    (point.workloads[0].all.completed, point.workloads[0].all.latency_us) = (400, Some(latency));
    let why = figure("latency_us.p99").read(&Reading::of_run(&point, &point.workloads[0]), FigureArgument::Nothing);
    let expect = "no latency_us.p99: it needs 1000 completed requests, so that ten lie beyond it, and there are 400";
    assert_eq!(why, Err(expect.to_owned()));
}

const GUIDE: &str = "../../docs/data.md";

/// The text between two marks replaced.
fn with_block(text: &str, name: &str, block: &str) -> String {
    let mark = format!("<!-- {name} -->\n");
    let start = text.find(&mark).unwrap_or_else(|| panic!("no mark {name}")) + mark.len();
    let end = start + text[start..].find("<!-- end -->").unwrap_or_else(|| panic!("{name} has no end"));
    format!("{}{block}{}", &text[..start], &text[end..])
}

fn row(figure: &Figure) -> String {
    let claim = match figure.claim {
        None => String::new(),
        Some(ClaimName { function, subject: Some(subject) }) => format!("`{function}({subject}, …)`"),
        Some(ClaimName { function, subject: None }) => match figure.read {
            FigureSource::Plain(_) | FigureSource::OfDevice(_) => format!("`{function}(…)`"),
            FigureSource::OfTimes(_) => format!("`{function}(TIMES, …)`"),
            FigureSource::OfLimit(_) => format!("`{function}(LIMIT, …)`"),
        },
    };
    let Figure { key, meaning, .. } = figure;
    let (unit, of, merge) = (figure.unit.name(), figure.of.name(), figure.merge.name());
    format!("| `{key}` | {unit} | {of} | {merge} | {claim} | {meaning} |\n")
}

#[test]
fn the_tables_of_the_guide_are_those_of_the_lists() {
    let text = fs::read_to_string(GUIDE).expect("the guide");
    let heads = "| figure | unit | of | several runs | in claims | what |\n|---|---|---|---|---|---|\n";
    let figures: String = figures().map(row).collect();
    let right = with_block(&text, "figures", &format!("{heads}{figures}"));
    let right = with_block(&right, "columns", &crate::samples::columns_table());
    plimsoll_testing::check_made(GUIDE, &right);
}
