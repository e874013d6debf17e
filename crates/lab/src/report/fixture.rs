//! A made-up study for tests: shop transactions (`tpcc`) beside reports (`tpch`), two blocks of three arms.
//!
//! [`study`] is the result of a good run. [`poor_study`] has every hole a run can have: missing counters, a workload that
//! completes nothing, an invalid point, a single repeat, no latency, and hostile names. [`experiments`] are sweeps and matrices;
//! [`derive`] computes estimates from their points.

use std::collections::BTreeMap;

use plimsoll_machine::MachineFacts;
use plimsoll_machine::facts::{Cache, Capability, CgroupController, HugePages, NumaNode};
use plimsoll_machine::top_down::{Family, FrontEnd, TopDown, Unit};
use plimsoll_workload::driver::Histogram;
use serde_json::json;

use crate::histograms::{Latencies, WorkloadHistograms};
use crate::results::*;
use crate::summary::Summary;

pub(crate) mod copy;
pub(crate) mod derive;
pub(crate) mod experiments;
pub(crate) mod memory;
pub(crate) mod policies;
pub(crate) mod records;
pub(crate) mod server;
pub(crate) mod speeds;

/// The figures of a workload of the fixture in one run; the rest follows from them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkloadRun {
    /// Requests per second.
    pub throughput_per_s: f64,
    /// Median latency, microseconds.
    pub p50: u64,
    /// How many times longer the 99th percentile is.
    pub tail: f64,
    /// cpu_run, cpu_wait, io, lock.
    pub share: [Option<f64>; 4],
    /// Instructions per cycle.
    pub ipc: f64,
    /// Last-level cache misses per 1000 instructions.
    pub llc: f64,
}

pub(crate) const WINDOW_S: f64 = 20.0;

const SHOP_ALONE: WorkloadRun = WorkloadRun {
    throughput_per_s: 3120.0,
    p50: 2_450,
    tail: 4.2,
    share: [Some(0.61), Some(0.06), Some(0.11), Some(0.14)],
    ipc: 1.12,
    llc: 2.1,
};
const SHOP_TOGETHER: WorkloadRun = WorkloadRun {
    throughput_per_s: 1290.0,
    p50: 5_900,
    tail: 9.0,
    share: [Some(0.27), Some(0.49), Some(0.06), Some(0.13)],
    ipc: 0.81,
    llc: 5.3,
};
const REPORTS_ALONE: WorkloadRun = WorkloadRun {
    throughput_per_s: 2.05,
    p50: 1_420_000,
    tail: 3.1,
    share: [Some(0.72), Some(0.03), Some(0.0), Some(0.0)],
    ipc: 1.64,
    llc: 6.4,
};
const REPORTS_TOGETHER: WorkloadRun = WorkloadRun {
    throughput_per_s: 1.86,
    p50: 1_590_000,
    tail: 3.3,
    share: [Some(0.66), Some(0.12), Some(0.0), Some(0.0)],
    ipc: 1.55,
    llc: 7.0,
};

/// Two blocks of three arms on a machine with everything.
pub(crate) fn study() -> Results {
    let points = [(1, 1.0), (2, 1.035)].into_iter().flat_map(|(repeat, luck)| {
        let shop = |did: WorkloadRun| workload("shop", "tpcc", 100, faster(did, luck));
        let reports = |did: WorkloadRun| workload("reports", "tpch", 2, faster(did, 2.0 - luck));
        [
            point("alone:shop", repeat, vec![shop(SHOP_ALONE)]),
            point("together", repeat, vec![shop(SHOP_TOGETHER), reports(REPORTS_TOGETHER)]),
            point("alone:reports", repeat, vec![reports(REPORTS_ALONE)]),
        ]
    });
    let warnings = ["the clock rate of the cores changed between blocks (2.25 GHz to 2.60 GHz)".to_string()];
    results(points.collect(), warnings.into())
}

/// Every hole a run can have.
pub(crate) fn poor_study() -> Results {
    let hostile = "re</script><b>ports</b> & \"co\" 'x'";
    let mut alone = workload("shop", "tpcc", 100, SHOP_ALONE);
    alone.counters = None;
    alone.all.time_share = Some(TimeShare { lock: Some(0.2), other: 0.8, ..TimeShare::default() });
    alone.latency_distribution.clear();
    let mut together = workload("shop", "tpcc", 100, SHOP_TOGETHER);
    together.counters = None;
    together.all.time_share = None;
    let mut idle = workload(hostile, "tpch", 2, REPORTS_TOGETHER);
    idle.all.completed = 0;
    idle.all.throughput_per_s = 0.0;
    idle.all.latency_us = None;
    idle.latency_distribution.clear();
    idle.classes.clear();
    idle.transactions = [("q1".to_string(), Part::default())].into();
    idle.lock_wait = None;
    idle.all.time_share = None;
    idle.counters = None;
    let mut shared = point("together", 1, vec![together, idle]);
    shared.device = Device::default();
    shared.counters = None;
    let mut lonely = point("alone:shop", 1, vec![alone]);
    lonely.device.io_busy = None;
    let mut invalid = point(&format!("alone:{hostile}"), 1, vec![workload(hostile, "tpch", 2, REPORTS_ALONE)]);
    invalid.valid = false;
    invalid.why_invalid = Some("cores: wanted 2, got 1.1 <b>".to_string());
    let mut results = results(
        vec![lonely, shared, invalid],
        vec![
            "hardware counters: not permitted (perf_event_paranoid is 3); ask for 2 or less".to_string(),
            "cpu_wait: <b>schedstat</b> is off".to_string(),
        ],
    );
    results.commit = None;
    results.experiment.workloads = vec!["shop".to_string(), hostile.to_string()];
    results.experiment.title = Some("<img src=x onerror=alert(1)>".to_string());
    results.experiment.text = Some("# </script><img src=x onerror=alert(1)>".to_string());
    results.claims = vec![ClaimResult {
        text: "</script><i>claim</i>".to_string(),
        expression: "1 < 2 && <b>".to_string(),
        why_not: Some("<b>why</b>".to_string()),
        ..ClaimResult::default()
    }];
    results.experiment.settings.insert("hostile".to_string(), json!("</script><script>alert(1)</script>"));
    results.machine.caches.clear();
    results.machine.warnings = vec!["a cgroup quota of 1.50 cores & <b>more</b>".to_string()];
    results.machine.cgroup_version = None;
    results.memory_speed = None;
    results
}

/// The document around `points`, with all derived parts filled in.
pub(crate) fn results(points: Vec<Point>, warnings: Vec<String>) -> Results {
    let estimates = derive::estimates(&points);
    let mut results = Results {
        origin: None,
        format: FORMAT,
        mode: Mode::Measured,
        machine_fingerprint: "41c64a8e".to_string(),
        scalability: Vec::new(),
        policies: Vec::new(),
        levers: Vec::new(),
        plimsoll: "0.1.0".to_string(),
        commit: Some("d125bf3a90c1".to_string()),
        started: "2026-03-14T09:26:53Z".to_string(),
        elapsed_s: 245.7,
        machine: machine(),
        memory_speed: Some(memory::memory_speed()),
        experiment: Experiment {
            name: "study".to_string(),
            settings_hash: "5e1f0c2ab7d94410".to_string(),
            settings: settings(),
            arms: ["alone:shop", "alone:reports", "together"].map(str::to_string).into(),
            workloads: ["shop", "reports"].map(str::to_string).into(),
            ..Experiment::default()
        },
        points,
        noise_floor: derive::noise(&estimates),
        interference: derive::interference(&estimates),
        side_by_side: Vec::new(),
        estimates,
        advice: Vec::new(),
        sizes: None,
        knees: Vec::new(),
        quick: false,
        runs_left: 0,
        claims: Vec::new(),
        line: None,
        verified: None,
        checks: None,
        warnings,
    };
    results.side_by_side = derive::side_by_side(&results.interference);
    results.advice = Summary::of(&results).advice();
    results
}

fn settings() -> BTreeMap<String, serde_json::Value> {
    let json = json!({
        "target.url": "embedded:", "target.options": {"durability": "sync", "dop": 8},
        "shop.kind": "tpcc", "shop.scale": 2, "shop.clients": 100, "shop.think": "exp 20ms", "shop.rate": null,
        "shop.priority": "high:0.1",
        "reports.kind": "tpch", "reports.scale": 1, "reports.clients": 2, "reports.think": null,
        "run.warmup": "5s", "run.measure": "20s", "run.repeats": 2, "run.seed": 7, "check": true,
    });
    serde_json::from_value(json).expect("an object of settings")
}

fn machine() -> MachineFacts {
    let cache = |level, kind: &str, size_bytes, ways, shared_by, count| Cache {
        level,
        kind: kind.to_string(),
        size_bytes,
        ways,
        shared_by,
        count,
    };
    let capability = |name: &str, reason: &str, remedy: Option<&str>| Capability {
        name: name.to_string(),
        available: remedy.is_none(),
        reason: reason.to_string(),
        remedy: remedy.map(str::to_string),
    };
    let node =
        |(node, cores): (usize, &str)| NumaNode { node, cores: cores.to_string(), memory_bytes: Some(135_291_469_824) };
    MachineFacts {
        cpu_model: "AMD EPYC 7742 64-Core Processor".to_string(),
        cpu_id: "AuthenticAMD-23-31-0".to_string(),
        cores_usable: 16,
        cpu_quota: None,
        cores_online: 128,
        threads_per_core: 2,
        sockets: 1,
        caches: vec![
            cache(1, "data", 32 << 10, Some(8), 2, 64),
            cache(2, "unified", 512 << 10, Some(8), 2, 64),
            cache(3, "unified", 16 << 20, None, 8, 16),
        ],
        memory_bytes: 270_582_939_648,
        memory_limit_bytes: Some(34_359_738_368),
        kernel: "6.1.0-18-amd64".to_string(),
        core_slice: None,
        virtualised: Some("kvm".to_string()),
        numa_nodes: ["0-31", "32-63"].into_iter().enumerate().map(node).collect(),
        huge_pages: Some(HugePages { size_bytes: 2 << 20, total: 0, free: 0 }),
        transparent_huge_pages: Some("madvise".to_string()),
        cgroup_version: Some("2".to_string()),
        cgroup_controllers: vec![
            CgroupController { name: "cpu".to_string(), writable: true },
            CgroupController { name: "io".to_string(), writable: false },
        ],
        warnings: vec![],
        capabilities: vec![
            capability("hardware counters", "perf_event_open works, user mode, 6 events at once", None),
            capability(
                "cache allocation (resctrl)",
                "/sys/fs/resctrl is not mounted",
                Some("mount -t resctrl resctrl /sys/fs/resctrl, on the host"),
            ),
        ],
    }
}

/// Where slots went: shares that add up to 1.
pub(crate) fn slots(retiring: f64) -> TopDown {
    TopDown {
        family: Family::Zen4,
        method: "dispatch slots".to_owned(),
        unit: Unit::Slots,
        approximate: false,
        retiring: Some(retiring),
        bad_speculation: Some(0.08),
        frontend: Some(0.12),
        backend: Some(0.78 - retiring),
        smt_contention: Some(0.02),
        memory: Some(0.7 * (0.78 - retiring)),
        core: Some(0.3 * (0.78 - retiring)),
        memory_levels: None,
        front_end: FrontEnd::default(),
        coverage: 0.5,
        notes: Vec::new(),
    }
}

/// One run of an arm.
pub(crate) fn point(arm: &str, repeat: u32, workloads: Vec<WorkloadResult>) -> Point {
    let counters = workloads.iter().map(|w| w.counters).collect::<Option<Vec<_>>>().and_then(|parts| {
        let sum = |event: fn(&Counters) -> Option<u64>| parts.iter().map(event).sum();
        Some(Counters {
            cycles: sum(|c| c.cycles),
            instructions: sum(|c| c.instructions),
            l1d_misses: sum(|c| c.l1d_misses),
            llc_misses: sum(|c| c.llc_misses),
            branch_misses: sum(|c| c.branch_misses),
            coverage: parts.iter().map(|c| c.coverage).reduce(f64::min)?,
            ..Counters::default()
        })
    });
    Point {
        arm: arm.to_string(),
        repeat,
        warmup_s: 5.0,
        valid: true,
        window_s: WINDOW_S,
        achieved: [("cores".to_string(), json!(15.9))].into(),
        device: Device {
            cpu_busy: Some(if arm == "together" { 0.97 } else { 0.62 }),
            busy_cores_others: Some(0.02),
            io_busy: Some(0.18),
            read_mb_s: Some(0.4),
            write_mb_s: Some(41.7),
            ..Device::default()
        },
        workloads,
        counters,
        ..Point::default()
    }
}

/// A workload with the figures `did` for one window.
pub(crate) fn workload(name: &str, kind: &str, clients: usize, did: WorkloadRun) -> WorkloadResult {
    let completed = (did.throughput_per_s * WINDOW_S).round() as u64;
    let [cpu_run, cpu_wait, io, lock] = did.share;
    let other = 1.0 - did.share.iter().flatten().sum::<f64>();
    let part = |share: f64, stretch: f64| Part {
        completed: (completed as f64 * share) as u64,
        throughput_per_s: did.throughput_per_s * share,
        latency_us: latency((completed as f64 * share) as u64, (did.p50 as f64 * stretch) as u64, did.tail),
        ..Part::default()
    };
    let named = |parts: &[(&str, f64, f64)]| {
        parts.iter().map(|&(name, share, stretch)| (name.to_string(), part(share, stretch))).collect()
    };
    let cycles = cpu_run.unwrap_or(0.0) * WINDOW_S * 16.0 * 2.45e9;
    let instructions = cycles * did.ipc;
    let driven = WorkloadMeasurement {
        failed: Vec::new(),
        run_again: Vec::new(),
        name: name.to_string(),
        kind: kind.to_string(),
        analytical: kind == "tpch",
        clients,
        all: Part {
            time_share: Some(TimeShare { cpu_run, cpu_wait, io, lock, other, ..TimeShare::default() }),
            ..part(1.0, 1.0)
        },
        aborted: Aborted { deadlock: 12, preempted: 0, conflict: 0, user: completed / 230, error: 0 },
        latency_distribution: distribution(completed, did.p50, did.tail),
        classes: if kind == "tpcc" { named(&[("high", 0.1, 0.95), ("low", 0.9, 1.0)]) } else { BTreeMap::new() },
        transactions: match kind {
            "tpcc" => named(&[
                ("new_order", 0.45, 1.3),
                ("payment", 0.43, 0.7),
                ("order_status", 0.04, 0.5),
                ("delivery", 0.04, 3.2),
                ("stock_level", 0.04, 1.1),
            ]),
            _ => named(&[("q1", 0.4, 1.2), ("q6", 0.3, 0.4), ("q18", 0.3, 2.2)]),
        },
        round_trip_share: (kind == "tpcc").then_some(0.0),
        window: Default::default(),
        lock_wait: (kind == "tpcc").then_some(LockWait { waits: completed / 9, wait_s: completed as f64 * 0.0004 }),
    };
    WorkloadResult {
        driven,
        counters: Some(Counters {
            cycles: Some(cycles as u64),
            instructions: Some(instructions as u64),
            l1d_misses: Some((instructions * 0.021) as u64),
            llc_misses: Some((instructions * did.llc / 1000.0) as u64),
            branch_misses: Some((instructions * 0.0052) as u64),
            coverage: 0.83,
            ..Counters::default()
        }),
        ..WorkloadResult::default()
    }
}

/// The same figures at `times` the speed.
pub(crate) fn faster(did: WorkloadRun, times: f64) -> WorkloadRun {
    WorkloadRun { throughput_per_s: did.throughput_per_s * times, p50: (did.p50 as f64 / times) as u64, ..did }
}

/// Microseconds at quantile `q`: straight lines between the median, the 99th percentile and beyond on a log scale.
fn at(q: f64, p50: u64, tail: f64) -> u64 {
    let nines = -(1.0 - q).max(1e-5).log10();
    (p50 as f64 * tail.powf((nines - 0.301) / 1.699)).round() as u64
}

fn latency(completed: u64, p50: u64, tail: f64) -> Option<Latency> {
    let percentile = |q: f64| (completed >= Latency::completed_min(q)).then(|| at(q, p50, tail));
    (completed > 0).then(|| Latency {
        mean: p50 as f64 * (1.0 + tail / 12.0),
        p50: percentile(0.5),
        p90: percentile(0.9),
        p95: percentile(0.95),
        p99: percentile(0.99),
        p999: percentile(0.999),
        max: at(1.0 - 1.0 / (completed as f64 + 1.0), p50, tail),
    })
}

/// Histograms from which a run's percentiles could come, of every workload of a point.
pub(crate) fn histograms(point: &Point) -> Vec<WorkloadHistograms> {
    let packed = |(name, part): (&String, &Part)| {
        let latency = part.latency_us?;
        let p50 = latency.p50.unwrap_or(latency.mean as u64);
        let tail = latency.p99.map_or(4.0, |p99| p99 as f64 / p50 as f64);
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("sound bounds");
        for number in 0..part.completed {
            histogram.saturating_record(at((number as f64 + 0.5) / part.completed as f64, p50, tail));
        }
        Some((name.clone(), Latencies::of(&histogram)))
    };
    let of = |result: &WorkloadResult| WorkloadHistograms {
        workload: result.name.clone(),
        transactions: result.transactions.iter().filter_map(packed).collect(),
        classes: result.classes.iter().filter_map(packed).collect(),
        ..WorkloadHistograms::default()
    };
    point.workloads.iter().map(of).collect()
}

fn distribution(completed: u64, p50: u64, tail: f64) -> Vec<(f64, u64)> {
    let quantiles = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0];
    quantiles
        .into_iter()
        .filter(|&q| q == 1.0 || (completed as f64) * (1.0 - q) >= 1.0)
        .map(|q| (q, at(q, p50, tail)))
        .collect()
}
