//! The machine under the server: who has its cores, and what its disk does.
//!
//! Only the server's own machine shows this. The kernel counts time and requests; names of processes come from readings seconds apart, so that
//! reading them costs little. Processes that come and go in between count for those that began them.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_machine::MachineFacts;
use plimsoll_machine::busy_processes::{BusyProcesses, ProcessTimes};
use plimsoll_machine::disk_speed::DiskSpeed;
use plimsoll_machine::disk_watch::{DiskTraffic, DiskWatch, OperationUse, TrafficSample};
use plimsoll_machine::host::Host;
use plimsoll_machine::memory_speed::{disk_probe, state_folder};
use plimsoll_machine::process_share::ProcessFacts;
use plimsoll_machine::processor_time::ProcessorTicks;

use crate::results::{CoreUse, DiskProbe, DiskUse, HostUse, MissingRight, Operations, ProcessUse};

/// The part of the budget for looking that names of processes may cost, as a share of one core.
const NAMES_SHARE: f64 = 0.001;
/// Names are read this often at most.
const NAMES_EVERY: Duration = Duration::from_secs(5);
/// Names that are listed.
const NAMES_MAX: usize = 8;

/// The kernel's clock ticks as it shows them to programs, on every machine.
const TICKS_PER_SECOND: u64 = 100;

/// Watches the machine.
#[derive(Debug)]
pub(crate) struct HostWatch {
    host: Host,
    /// The server's first process, and our own: neither is another program.
    ours: [i32; 2],
    ticks: (ProcessorTicks, ProcessorTicks),
    disk: Result<WatchedDisk, String>,
    names: Names,
    began: Duration,
    last: Duration,
}

#[derive(Debug)]
struct WatchedDisk {
    watch: DiskWatch,
    first: TrafficSample,
    last: TrafficSample,
    /// The mean time of a request in the window in which it was longest, milliseconds.
    worst_ms: [Option<f64>; 2],
}

/// The processes that took cores, by name.
#[derive(Debug)]
struct Names {
    last: ProcessTimes,
    last_at: Duration,
    next: Duration,
    /// Core seconds and the most processes of a name.
    busy: BTreeMap<String, (f64, usize)>,
    server_core_s: f64,
    /// The time over which these are.
    seconds: f64,
}

impl HostWatch {
    /// Begins with a process of the server. `None` if the kernel does not show what is needed.
    pub(crate) fn begin(server_process: i32, at: Duration) -> Option<HostWatch> {
        let host = Host::real();
        let postmaster = ProcessFacts::of(&host, server_process)?.parent;
        let ticks = ProcessorTicks::read(&host)?;
        let disk = DiskWatch::of_server(&host, postmaster).and_then(|watch| {
            let first =
                watch.traffic().ok_or_else(|| format!("the kernel does not count requests of {}", watch.name()))?;
            Ok(WatchedDisk { watch, first, last: first, worst_ms: [None; 2] })
        });
        let last = ProcessTimes::read(&host);
        let names = Names {
            last,
            last_at: at,
            next: at + NAMES_EVERY,
            busy: BTreeMap::new(),
            server_core_s: 0.0,
            seconds: 0.0,
        };
        let ours = [postmaster, std::process::id().cast_signed()];
        Some(HostWatch { host, ours, ticks: (ticks, ticks), disk, names, began: at, last: at })
    }

    /// Reads the counts at the end of a window: time that cores were busy since boot, and that the disk was since the last reading.
    pub(crate) fn read(&mut self, at: Duration) -> (Option<Duration>, Option<Duration>) {
        let window = at.saturating_sub(self.last);
        self.last = at;
        let ticks = ProcessorTicks::read(&self.host);
        if let Some(ticks) = ticks {
            self.ticks.1 = ticks;
        }
        let disk_busy = self.disk.as_mut().ok().and_then(|disk| disk.read(window));
        // Time that the hypervisor took is no work of a process here.
        let busy = ticks.map(|ticks| ticks.busy.saturating_sub(ticks.stolen.unwrap_or(0)));
        (busy.map(|ticks| Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)), disk_busy)
    }

    /// Whether names are to be read at this moment.
    pub(crate) fn is_due(&self, at: Duration) -> bool {
        at >= self.names.next
    }

    /// Reads the names of processes.
    pub(crate) fn read_names(&mut self, at: Duration) {
        let now = ProcessTimes::read(&self.host);
        let seconds = at.saturating_sub(self.names.last_at).as_secs_f64();
        for BusyProcesses { name, count, cores } in now.busiest_with_ended_since(&self.names.last, &self.ours) {
            let sum = self.names.busy.entry(name).or_default();
            *sum = (sum.0 + cores * seconds, sum.1.max(count));
        }
        if let Some(cores) = now.cores_since(&self.names.last, &self.ours[..1]) {
            self.names.server_core_s += cores * seconds;
            self.names.seconds += seconds;
        }
        (self.names.last, self.names.last_at) = (now, at);
    }

    /// Reading names has cost this much.
    pub(crate) fn note_cost(&mut self, at: Duration, cost: Duration) {
        self.names.next = at + cost.div_f64(NAMES_SHARE).max(NAMES_EVERY);
    }

    /// What was seen, and what was not.
    pub(crate) fn finish(self, own_cpu_s: f64) -> HostUse {
        let mut missing = Vec::new();
        let cores = self.cores(own_cpu_s);
        let elapsed = self.last.saturating_sub(self.began);
        let disk = match &self.disk {
            Ok(disk) => disk.use_of(elapsed),
            Err(why) => {
                missing.push(no_disk(why));
                None
            }
        };
        if let Some(disk) = disk.as_ref().filter(|disk| disk.probe.is_none()) {
            missing.push(no_probe(&disk.device));
        }
        if disk.is_some() {
            missing.push(no_percentiles());
        }
        HostUse { cores, disk, missing }
    }

    fn cores(&self, own_cpu_s: f64) -> Option<CoreUse> {
        let used = self.ticks.1.since(&self.ticks.0);
        let elapsed_s = self.last.saturating_sub(self.began).as_secs_f64();
        if used.all == 0 || elapsed_s <= 0.0 || self.names.seconds <= 0.0 {
            return None;
        }
        let all = used.cores as f64;
        let of = |ticks: u64| ticks as f64 / used.all as f64 * all;
        let stolen = used.stolen.map(of);
        let busy = of(used.busy) - stolen.unwrap_or(0.0);
        let postgres = self.names.server_core_s / self.names.seconds;
        let observer = own_cpu_s / elapsed_s;
        let mut named: Vec<ProcessUse> = self
            .names
            .busy
            .iter()
            .map(|(name, (core_s, count))| ProcessUse {
                name: name.clone(),
                count: *count,
                cores: core_s / self.names.seconds,
            })
            .collect();
        named.sort_by(|one, other| other.cores.total_cmp(&one.cores));
        named.truncate(NAMES_MAX);
        Some(CoreUse {
            machine: used.cores,
            usable: MachineFacts::of(&self.host).cores_usable,
            postgres,
            // The two come from clocks of different grain.
            others: (busy - postgres - observer).max(0.0),
            observer,
            stolen,
            named,
        })
    }
}

impl WatchedDisk {
    fn read(&mut self, window: Duration) -> Option<Duration> {
        let now = self.watch.traffic()?;
        let used = now.since(&self.last, window)?;
        self.last = now;
        for (worst, kind) in self.worst_ms.iter_mut().zip([used.read, used.write]) {
            *worst = [*worst, kind.ms].into_iter().flatten().reduce(f64::max);
        }
        Some(used.busy)
    }

    fn use_of(&self, elapsed: Duration) -> Option<DiskUse> {
        let DiskTraffic { busy, read, write } = self.last.since(&self.first, elapsed)?;
        let operations = |all: OperationUse, worst_ms: Option<f64>| {
            Some(Operations { mb_per_s: all.mb_s?, per_s: all.per_s?, mean_ms: all.ms, worst_ms })
        };
        let device = self.watch.name().to_owned();
        let variable = std::env::var_os;
        let folder = state_folder(variable("XDG_STATE_HOME").as_deref(), variable("HOME").as_deref());
        let probe = folder.and_then(|folder| disk_probe(&folder, &device)).and_then(|(at, speed)| probe(at, &speed));
        Some(DiskUse {
            device,
            busy: busy.as_secs_f64() / elapsed.as_secs_f64(),
            read: operations(read, self.worst_ms[0])?,
            write: operations(write, self.worst_ms[1])?,
            latency_percentiles_ms: None,
            probe,
        })
    }
}

/// What a probe found; `None` of one without figures.
fn probe(measured_at: String, speed: &DiskSpeed) -> Option<DiskProbe> {
    let most = speed.points.iter().map(|point| point.reads_per_s.median).reduce(f64::max)?;
    Some(DiskProbe { measured_at, reads_per_s_max: most, read_ms: speed.read_s() * 1e3 })
}

fn no_disk(why: &str) -> MissingRight {
    MissingRight {
        what: "what the disk of the data does".to_owned(),
        why: why.to_owned(),
        works: "how long sessions wait for the disk".to_owned(),
        remedy: why.contains("cwd").then(|| "run this as root, or as the user of the server".to_owned()),
    }
}

fn no_probe(device: &str) -> MissingRight {
    MissingRight {
        what: format!("what the disk {device} can do"),
        why: "it was not probed, or another user has kept the figures".to_owned(),
        works: "what it does".to_owned(),
        remedy: Some(
            "when the server may be slow: plimsoll machine --probe --folder FOLDER, for a folder on that disk"
                .to_owned(),
        ),
    }
}

fn no_percentiles() -> MissingRight {
    MissingRight {
        what: "percentiles of the disk's latencies".to_owned(),
        why: "the kernel counts requests and the sum of their times".to_owned(),
        works: "means, over all and in the worst window".to_owned(),
        remedy: None,
    }
}

/// A machine of which nothing is shown, because it is another one.
pub(crate) fn elsewhere() -> HostUse {
    let missing = MissingRight {
        what: "who has the cores of the server's machine, and what its disk does".to_owned(),
        why: "the server's processes are not visible on this machine".to_owned(),
        works: "how long sessions ran and waited for the disk".to_owned(),
        remedy: Some("run this on the server's machine".to_owned()),
    };
    HostUse { missing: vec![missing], ..HostUse::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process stands for a backend, and its parent for the server.
    #[test]
    fn a_machine_is_watched() {
        let mut watch = HostWatch::begin(std::process::id().cast_signed(), Duration::ZERO).unwrap();
        watch.ours[1] = 0;
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            std::hint::black_box(began);
        }
        let at = began.elapsed();
        let (busy, _) = watch.read(at);
        assert!(busy.unwrap() > Duration::ZERO);
        assert!(!watch.is_due(at));
        watch.read_names(at);
        watch.note_cost(at, Duration::from_millis(50));
        assert!(!watch.is_due(at + Duration::from_secs(49)) && watch.is_due(at + Duration::from_secs(50)));
        let found = watch.finish(0.01);
        let cores = found.cores.unwrap();
        assert!(cores.postgres > 0.2 && cores.machine >= 1 && cores.usable >= 1, "{cores:?}");
        assert!((cores.observer - 0.01 / at.as_secs_f64()).abs() < 1e-9);
        assert_eq!(found.disk.is_none(), found.missing.iter().any(|one| one.what == "what the disk of the data does"));
    }
}
