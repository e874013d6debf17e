//! The demands shown by one window of a workload alone: the cores and disk that its requests needed, and their response
//! times.

use plimsoll_machine::disk_speed::DiskSpeed;
use plimsoll_model::demand::{Block, Figure};

use crate::results::{Counters, Device, Point, WorkloadResult};

/// A rate of the disk, per second.
pub(super) type DiskRate = fn(&Device) -> Option<f64>;

/// Limits of the disk, each with the rate that it limits.
pub(super) const DISK_LIMITS: [(&str, DiskRate); 4] = [
    ("read_mb_s", |device| device.read_mb_s),
    ("write_mb_s", |device| device.write_mb_s),
    ("read_iops", |device| device.reads_per_s),
    ("write_iops", |device| device.writes_per_s),
];

/// The clients of a window's requests, and the database that they used.
pub(super) struct Clients {
    pub(super) cores: u32,
    /// Whether clients send the next request as soon as they can, and windows are long enough to see all requests.
    pub(super) never_pause: bool,
    /// Mean seconds of a round trip between statements, as the experiment has them.
    pub(super) round_trip_s: f64,
}

/// How a disk is modelled.
pub(super) enum DiskModel<'a> {
    /// No disk is used: the database is in this process.
    None,
    /// By the seconds in which it was busy.
    Busy,
    /// By its curve.
    Probed(&'a DiskSpeed),
    /// By the permitted rates per second. The kernel delays requests beyond them while the disk itself is idle.
    Limited(Vec<(f64, DiskRate)>),
}

impl DiskModel<'_> {
    /// Seconds of the disk per second. `None` if they were not measured.
    ///
    /// By its curve, they are the seconds in which it was busy, times its speed-up at the number of operations that it
    /// then served at once. By Little's law that number is the sum of their times over the time in which there were
    /// any. Under limits, they are the used part of the scarcest limit.
    pub(super) fn seconds_per_s(&self, device: &Device) -> Option<f64> {
        match self {
            DiskModel::None => Some(0.0),
            DiskModel::Busy => device.io_busy,
            DiskModel::Probed(disk) => {
                let of = |per_s: Option<f64>, ms: Option<f64>| Some(per_s? * ms.unwrap_or(0.0) * 1e-3);
                let waiting = of(device.reads_per_s, device.read_ms)? + of(device.writes_per_s, device.write_ms)?;
                let busy = device.io_busy?;
                Some(if busy > 0.0 { busy * disk.rate((waiting / busy).max(1.0)) } else { 0.0 })
            }
            DiskModel::Limited(limits) => {
                let parts = limits.iter().map(|(limit, rate)| Some(rate(device)? / limit));
                parts.collect::<Option<Vec<f64>>>().map(|parts| parts.into_iter().fold(0.0, f64::max))
            }
        }
    }
}

/// The demands shown by a window of a workload alone. CPU seconds are those of a server's processes for the workload
/// and of its clients, if the kernel accounts for them by process, and the rest is upkeep; otherwise all that the
/// machine spent. The disk's are all of the machine's.
pub(super) fn block(point: &Point, result: &WorkloadResult, clients: &Clients, disk: &DiskModel<'_>) -> Option<Block> {
    // Requests that began or ended outside the window count by their part in it.
    let within = result.all.throughput_per_s * point.window_s;
    let latency = result.all.latency_us?;
    (within > 0.0 && result.all.completed > 0).then(|| {
        let completed = result.all.completed as f64;
        let response_s = latency.mean * 1e-6 * completed;
        let sum = |rate: Option<f64>, sensor: &str| -> Figure {
            rate.map(|rate| rate * point.window_s * completed / within).ok_or_else(|| why_missing(point, sensor))
        };
        let device = &point.device;
        let lock_s = result.lock_wait.map(|wait| wait.wait_s);
        let lock_s = lock_s.or_else(|| Some(result.all.time_share?.lock? * response_s));
        // Each client is at work for the whole window, with its requests or between them.
        let between_s = || (result.clients as f64 * point.window_s * completed / within - response_s).max(0.0);
        let busy_s = device.cpu_busy.map(|busy| busy * f64::from(clients.cores) * point.window_s);
        let known = own_on_server(result);
        let upkeep_s = busy_s.zip(known).map_or(0.0, |(busy_s, own_s)| (busy_s - own_s).max(0.0));
        let own_cpu_s = known.map(|own_s| Ok(own_s * completed / within));
        let workers = result.server.as_ref().and_then(|server| server.workers.as_ref());
        let workers = workers.map_or(0.0, |workers| workers.mean);
        let counted = |pick: fn(&Counters) -> Option<u64>, figure: &str| -> Figure {
            if workers > 0.0 {
                return Err(format!("{figure} of parallel workers are not counted"));
            }
            let counters = result.counters.ok_or_else(|| why_missing(point, "hardware counters"))?;
            let count = pick(&counters).ok_or_else(|| format!("{figure} were not counted"))?;
            Ok(count as f64 * completed / within)
        };
        let round_trip_s = result.round_trip_share.unwrap_or(0.0) * response_s;
        let round_trips = if clients.round_trip_s > 0.0 { round_trip_s / clients.round_trip_s } else { 0.0 };
        let lock_waits = result.lock_wait.map_or(0.0, |wait| wait.waits as f64);
        Block {
            requests: result.all.completed,
            response_s,
            cpu_s: own_cpu_s
                .unwrap_or_else(|| sum(device.cpu_busy.map(|busy| busy * f64::from(clients.cores)), "cpu_time")),
            upkeep_cores: upkeep_s / point.window_s,
            disk_s: sum(disk.seconds_per_s(device), "devices"),
            log_s: Err("waits for the log are not measured by workload".to_owned()),
            lock_s: lock_s.ok_or_else(|| "the target does not tell lock waits".to_owned()),
            round_trip_s,
            wakes: completed + round_trips + lock_waits,
            workers_s: workers * point.window_s * completed / within,
            instructions: counted(|one| Some(one.instructions? + one.kernel_instructions?), "instructions"),
            spin_instructions: counted(|one| one.spin_instructions, "spin instructions"),
            between_s: match clients.never_pause {
                true => Ok(between_s()),
                false => Err("clients pause between requests, or windows are too short for them".to_owned()),
            },
        }
    })
}

fn why_missing(point: &Point, sensor: &str) -> String {
    point.unmeasured.get(sensor).map_or_else(|| "not measured in this run".to_owned(), |why| why.reason.clone())
}

/// CPU seconds that a run attributes to one of its workloads alone, and the workload's requests.
pub(crate) fn own_cpu_s(point: &Point, result: &WorkloadResult) -> Option<(f64, f64)> {
    match &result.server {
        Some(_) => Some((own_on_server(result)?, result.all.throughput_per_s * point.window_s)),
        None => {
            let completed = result.all.completed as f64;
            let response_s = result.all.latency_us?.mean * 1e-6 * completed;
            Some((result.all.time_share?.cpu_run? * response_s, completed))
        }
    }
}

/// Sum of the response times of a window, in seconds, and its requests. The time that its requests spent before the
/// window and the time that unfinished requests spent in it are equal on average; the sum takes half of each.
pub(super) fn response(result: &WorkloadResult) -> Option<(f64, f64)> {
    let requests = result.all.completed as f64;
    let ended_s = result.all.latency_us?.mean * 1e-6 * requests;
    let part = result.window.littles_law.and_then(|law| law.difference()).unwrap_or(0.0);
    Some((ended_s * (1.0 + part / 2.0), requests))
}

/// CPU seconds of the server's processes for a workload and of its clients, by the scheduler's accounts; `None` if
/// unknown.
fn own_on_server(result: &WorkloadResult) -> Option<f64> {
    let server = result.server.as_ref()?;
    let workers = server.workers.as_ref().map_or(Some(0.0), |workers| workers.cpu_run_s)?;
    Some(server.cpu_run_s? + server.clients_cpu_run_s? + workers)
}
