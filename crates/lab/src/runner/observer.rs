//! Attaches the machine's sensors to the driver's window.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use plimsoll_machine::control::Verdict;
use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_workload::activity::ActivityWatch;
use plimsoll_workload::database::{CacheSwitches, ColumnReads, Database, ProxyCounts};
use plimsoll_workload::driver::{Progress, WindowObserver, WorkloadThreads};
use plimsoll_workload::freshness::CopyWatch;

use crate::activity::{ActivityRecord, Sampling, WorkloadTally};
use crate::copy_sampling::{CopyReading, CopySampling};
use crate::limits::MachineLimits;
use crate::results::{CacheSwitching, ColumnReading, Device, GovernedClass, Server, Unmeasured};
use crate::sensors::{
    Instruments, Second, ServerProcesses, ThreadCounters, WatchedWorkload, WindowReading, WindowSensors,
};
use crate::time_share::ServingThreads;

/// Opens sensors when the window opens and reads them when it closes.
pub(super) struct SensorObserver<'a> {
    tick: &'a mut dyn FnMut(Progress),
    limits: &'a mut dyn MachineLimits,
    instruments: &'a Instruments,
    verdicts: BTreeMap<String, Verdict>,
    threads: Vec<WorkloadThreads>,
    sensors: Option<WindowSensors>,
    reading: Option<WindowReading>,
    server: ServerSensors<'a>,
    /// The governor's counts when the window opened, and those within the window.
    governed: (Vec<ProxyCounts>, Vec<GovernedClass>),
    /// Moves between cache classes before the window opened, and those within.
    switches: (Option<CacheSwitches>, Option<CacheSwitching>),
    /// Reads of columns in files before the window opened, and those within.
    /// What was read when, and the figures of the time between.
    columns: (Option<(Instant, ColumnReads)>, Option<ColumnReading>),
    /// Why the governor's counts are not known.
    ungoverned: Option<String>,
    sampling: Option<Sampling>,
    sampled: Option<ActivityRecord>,
    /// Samples the copy, from before the warm-up to the window's end.
    copy: Option<CopySampling>,
    copied: CopyReading,
    has_server: bool,
}

/// How a server is watched; nothing for a database in this process.
#[derive(Default)]
pub(super) struct ServerSensors<'a> {
    /// The database, which provides the governor's counts.
    pub database: Option<&'a dyn Database>,
    pub watch: Option<Box<dyn ActivityWatch>>,
    /// The watch of the copy that queries read, if there is one.
    pub copy: Option<Box<dyn CopyWatch>>,
    pub processes: ServerProcesses,
    /// The seed of the moments of the looks.
    pub seed: u64,
}

/// The measurements of the sensors in the window.
#[derive(Debug, Clone)]
pub(super) struct SensorReading {
    /// By workload, in the driver's order.
    pub workloads: Vec<WorkloadReading>,
    pub device: Device,
    /// The measurements of each second of the window, the rest at its end included.
    pub seconds: Vec<Second>,
    /// Hardware counters over all workloads.
    pub counted: ThreadCounters,
    /// The verdict on each limit in force.
    pub limits: BTreeMap<String, Verdict>,
    pub server: Option<Server>,
    /// The counts of a governor for its classes.
    pub governor: Vec<GovernedClass>,
    /// Why queries were not measured on data of the window; `None` if they were, or if they read the rows that
    /// transactions write.
    pub copy_fault: Option<String>,
    pub unmeasured: BTreeMap<String, Unmeasured>,
    pub warnings: Vec<String>,
}

/// The measurements of one workload's threads.
#[derive(Debug, Clone)]
pub(super) struct WorkloadReading {
    pub serving: ServingThreads,
    /// How long the threads or processes that serve it waited for block I/O, summed.
    pub block_io: Option<Duration>,
    /// Hardware counters of all its threads, or of the server's processes that serve it.
    pub counted: ThreadCounters,
    /// The results of looks at the server for it; `None` if the database is in this process.
    pub on_server: Option<ServerReading>,
}

/// The measurements of the server's processes that serve one workload.
#[derive(Debug, Clone)]
pub(super) struct ServerReading {
    pub seen: WorkloadTally,
    pub looks: u64,
    /// Times of these processes.
    pub times: Option<ThreadTimes>,
    /// Times of our own clients.
    pub clients: Option<ThreadTimes>,
}

impl<'a> SensorObserver<'a> {
    /// An observer that passes progress on to `tick`, and asks `limits` for their verdicts.
    pub(super) fn new(
        tick: &'a mut dyn FnMut(Progress),
        limits: &'a mut dyn MachineLimits,
        instruments: &'a Instruments,
        mut server: ServerSensors<'a>,
    ) -> Self {
        let copy = server.copy.take().map(CopySampling::start);
        SensorObserver {
            tick,
            limits,
            instruments,
            verdicts: BTreeMap::new(),
            threads: Vec::new(),
            sensors: None,
            reading: None,
            has_server: server.watch.is_some(),
            governed: Default::default(),
            switches: Default::default(),
            columns: Default::default(),
            ungoverned: None,
            server,
            sampling: None,
            sampled: None,
            copy,
            copied: CopyReading::default(),
        }
    }

    /// The measurements; `None` if the window was not closed.
    pub(super) fn finish(self) -> Option<SensorReading> {
        let mut reading = self.reading?;
        reading.device.freshness = self.copied.whole;
        reading.device.cache_switches = self.switches.1;
        reading.device.columns = self.columns.1;
        for (second, freshness) in reading.seconds.iter_mut().zip(self.copied.seconds) {
            second.device.freshness = freshness;
        }
        let mut warnings: Vec<String> = reading.reasons.warnings.into_iter().collect();
        let mut workloads = Vec::new();
        let ActivityRecord { server, workloads: seen, warnings: of_sampling } = self.sampled.unwrap_or_default();
        warnings.extend(of_sampling);
        warnings.extend(self.ungoverned);
        let looks = server.as_ref().map_or(0, |server| server.sampler.looks);
        let mut seen = seen.into_iter();
        let shared = shared_workers(&self.threads);
        for ((threads, used), is_shared) in self.threads.iter().zip(reading.workloads).zip(shared) {
            let of_looks = seen.next().unwrap_or_default();
            if is_shared {
                let name = &threads.workload;
                warnings.push(format!(
                    "{name}: its query threads also serve another workload, so their times are not its own"
                ));
            }
            let count = serving(threads).len();
            let is_on_server = threads.servers.iter().flatten().next().is_some();
            let times = used.times.filter(|_| !is_on_server);
            workloads.push(WorkloadReading {
                serving: ServingThreads { times, count, window: reading.window },
                block_io: used.block_io,
                counted: if is_shared { ThreadCounters::default() } else { used.counted },
                on_server: is_on_server.then_some(ServerReading {
                    seen: of_looks,
                    looks,
                    times: used.times,
                    clients: used.clients,
                }),
            });
        }
        Some(SensorReading {
            workloads,
            device: reading.device,
            seconds: reading.seconds,
            counted: reading.counted,
            limits: self.verdicts,
            server,
            governor: self.governed.1,
            copy_fault: self.copied.fault,
            unmeasured: reading.reasons.unmeasured,
            warnings,
        })
    }

    /// What the database has read for its columns so far, and now.
    fn column_reads(&self) -> Option<(Instant, ColumnReads)> {
        let reads = self.server.database.and_then(Database::column_reads)?;
        Some((Instant::now(), reads))
    }

    /// The governor's counts since it began; empty if there is none.
    fn counts(&mut self) -> Vec<ProxyCounts> {
        let counts = self.server.database.map_or_else(|| Ok(Vec::new()), Database::proxy_counts);
        counts.unwrap_or_else(|error| {
            self.ungoverned = Some(format!("what the governor's levers did is not known: {error}"));
            Vec::new()
        })
    }
}

/// The moves between cache classes in a window; `None` if the database has no classes, or has made new ones in between.
fn switched(before: Option<CacheSwitches>, after: Option<CacheSwitches>, window: Duration) -> Option<CacheSwitching> {
    let (before, after) = (before?, after?);
    let count = after.count.checked_sub(before.count)? as f64;
    let time = after.time.checked_sub(before.time)?;
    let us = (count > 0.0).then(|| time.as_secs_f64() * 1e6 / count);
    let unbound = !(before.is_bound && after.is_bound);
    (!window.is_zero()).then(|| CacheSwitching { per_s: count / window.as_secs_f64(), us, unbound })
}

/// The reads of columns in files in a window; `None` if none are, or the database was opened again in between.
fn columns_read(
    before: Option<(Instant, ColumnReads)>,
    after: Option<(Instant, ColumnReads)>,
) -> Option<ColumnReading> {
    let ((began, before), (ended, after)) = (before?, after?);
    let window = ended - began;
    let read = after.read_bytes.checked_sub(before.read_bytes)? as f64;
    let found = before.found_bytes.zip(after.found_bytes).and_then(|(before, after)| after.checked_sub(before));
    let hit_share = found.map(|found| found as f64 / (found as f64 + read)).filter(|share| share.is_finite());
    let held_mib = after.held_bytes_peak as f64 / f64::from(1 << 20);
    (!window.is_zero()).then(|| ColumnReading { read_mb_s: read / 1e6 / window.as_secs_f64(), hit_share, held_mib })
}

/// The counts of each class between two moments.
fn counted_between(before: &[ProxyCounts], after: Vec<ProxyCounts>) -> Vec<GovernedClass> {
    let within = |after: ProxyCounts| {
        let before = before.iter().find(|before| before.class == after.class)?;
        Some(GovernedClass {
            transactions: after.transactions.checked_sub(before.transactions)?,
            transaction_s: after.transaction_time.checked_sub(before.transaction_time)?.as_secs_f64(),
            admission_wait_s: after.admission_wait.checked_sub(before.admission_wait)?.as_secs_f64(),
            rolled_back: after.rolled_back.checked_sub(before.rolled_back)?,
            class: after.class,
        })
    };
    after.into_iter().filter_map(within).collect()
}

impl WindowObserver for SensorObserver<'_> {
    fn opened(&mut self, threads: &[WorkloadThreads]) {
        self.threads = threads.to_vec();
        self.limits.open_window();
        // Before the sensors open, because these single queries take some milliseconds.
        self.governed.0 = self.counts();
        self.switches.0 = self.server.database.and_then(Database::cache_switches);
        self.columns.0 = self.column_reads();
        let seed = self.server.seed;
        self.sampling = self.server.watch.take().map(|watch| Sampling::start(watch, threads, seed));
        let processes = &self.server.processes;
        let watched = watched(threads, self.has_server);
        self.sensors = Some(WindowSensors::open(&watched, processes, self.instruments));
        self.copy.iter_mut().for_each(CopySampling::mark);
    }

    fn second(&mut self) {
        if let Some(sensors) = &mut self.sensors {
            sensors.second();
        }
        self.copy.iter_mut().for_each(CopySampling::mark);
    }

    fn closed(&mut self) {
        if let Some(sampling) = &self.sampling {
            sampling.end();
        }
        self.copied = self.copy.take().map(CopySampling::finish).unwrap_or_default();
        self.reading = self.sensors.take().map(WindowSensors::close);
        self.sampled = self.sampling.take().map(Sampling::finish);
        let switches = self.server.database.and_then(Database::cache_switches);
        let window = self.reading.as_ref().map_or(Duration::ZERO, |reading| reading.window);
        self.switches.1 = switched(self.switches.0, switches, window);
        self.columns.1 = columns_read(self.columns.0, self.column_reads());
        let counts = self.counts();
        self.governed.1 = counted_between(&self.governed.0, counts);
        self.verdicts = self.limits.close_window();
    }

    fn tick(&mut self, progress: Progress) {
        (self.tick)(progress);
    }
}

/// The threads that serve a workload's requests: the database's query threads, or its clients' own.
fn serving(threads: &WorkloadThreads) -> &Vec<i32> {
    threads.workers.as_ref().unwrap_or(&threads.clients)
}

/// For each workload, whether its query threads also serve another one.
fn shared_workers(threads: &[WorkloadThreads]) -> Vec<bool> {
    let mut serves = BTreeMap::new();
    for worker in threads.iter().flat_map(|threads| threads.workers.iter().flatten()) {
        *serves.entry(worker).or_insert(0) += 1;
    }
    threads.iter().map(|threads| threads.workers.iter().flatten().any(|worker| serves[worker] > 1)).collect()
}

/// The threads to watch. Query threads that several workloads share are counted only for the first one, so that sums
/// over workloads count them once, and their times belong to no single workload. If a server's processes serve a
/// workload, they are watched in place of its clients.
fn watched(threads: &[WorkloadThreads], has_server: bool) -> Vec<WatchedWorkload> {
    let mut seen = BTreeSet::new();
    let mut workload = |(threads, is_shared): (&WorkloadThreads, bool)| {
        let name = threads.workload.clone();
        let servers: Vec<i32> = threads.servers.iter().flatten().copied().collect();
        if !servers.is_empty() {
            let clients = threads.clients.clone();
            return WatchedWorkload { name, counted: servers.clone(), serving: servers, clients };
        }
        if has_server {
            // The activity of our clients would pass for that of the server.
            return WatchedWorkload { name, ..WatchedWorkload::default() };
        }
        let all = threads.clients.iter().chain(threads.workers.iter().flatten()).copied();
        let counted = all.filter(|thread| seen.insert(*thread)).collect();
        let serving = if is_shared { Vec::new() } else { serving(threads).clone() };
        WatchedWorkload { name, counted, serving, clients: Vec::new() }
    };
    threads.iter().zip(shared_workers(threads)).map(&mut workload).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::driver::Board;

    use super::*;

    fn threads(workload: &str, clients: &[i32], workers: Option<&[i32]>) -> WorkloadThreads {
        WorkloadThreads {
            workload: workload.to_owned(),
            clients: clients.to_vec(),
            workers: workers.map(<[_]>::to_vec),
            servers: vec![None; clients.len()],
            board: Board::new(clients.len()),
        }
    }

    #[test]
    fn moves_between_cache_classes_are_those_of_the_window() {
        let at = |count, us| Some(CacheSwitches { count, time: Duration::from_micros(us), is_bound: true });
        let second = Duration::from_secs(2);
        let expect = |per_s, us, unbound| Some(CacheSwitching { per_s, us, unbound });
        assert_eq!(switched(at(10, 100), at(30, 180), second), expect(10.0, Some(4.0), false));
        assert_eq!(switched(at(10, 100), at(10, 100), second), expect(0.0, None, false));
        let lost = at(30, 180).map(|after| CacheSwitches { is_bound: false, ..after });
        assert_eq!(switched(at(10, 100), lost, second), expect(10.0, Some(4.0), true));
        assert_eq!(switched(at(10, 100), at(3, 9), second), None, "counted again from 0");
        assert_eq!((switched(None, at(3, 9), second), switched(at(3, 9), at(4, 9), Duration::ZERO)), (None, None));
    }

    #[test]
    fn reads_of_columns_are_those_of_the_window() {
        let began = Instant::now();
        let at = |second, read, found, peak: u64| {
            let reads = ColumnReads { read_bytes: read, found_bytes: found, held_bytes_peak: peak << 20 };
            Some((began + Duration::from_secs(second), reads))
        };
        let expect = |read_mb_s, hit_share| Some(ColumnReading { read_mb_s, hit_share, held_mib: 3.0 });
        let before = at(1, 1_000_000, Some(500), 9);
        assert_eq!(columns_read(before, at(3, 5_000_000, Some(12_000_500), 3)), expect(2.0, Some(0.75)));
        assert_eq!(columns_read(before, at(3, 1_000_000, Some(500), 3)), expect(0.0, None), "none was needed");
        assert_eq!(columns_read(at(1, 0, None, 0), at(3, 4_000_000, None, 3)), expect(2.0, None), "none may stay");
        assert_eq!(columns_read(before, at(3, 7, Some(7), 3)), None, "counted again from 0");
        assert_eq!((columns_read(None, before), columns_read(before, before)), (None, None));
    }

    #[test]
    fn shared_query_threads_are_counted_once() {
        let threads = [threads("a", &[1], Some(&[8, 9])), threads("b", &[2], Some(&[8, 9])), threads("c", &[3], None)];
        let expect = [("a", vec![1, 8, 9], vec![]), ("b", vec![2], vec![]), ("c", vec![3], vec![3])];
        let workload = |(name, counted, serving): (&str, _, _)| WatchedWorkload {
            name: name.to_owned(),
            counted,
            serving,
            clients: Vec::new(),
        };
        assert_eq!(watched(&threads, false), expect.map(workload));
        assert_eq!(shared_workers(&threads), [true, true, false], "their times are neither's");
    }

    #[test]
    fn a_server_s_processes_are_watched_in_place_of_clients() {
        let on_server = WorkloadThreads { servers: vec![None, Some(70)], ..threads("d", &[4, 5], None) };
        let [found] = &watched(&[on_server], true)[..] else { panic!("one workload") };
        assert_eq!((&found.counted[..], &found.serving[..], &found.clients[..]), (&[70][..], &[70][..], &[4, 5][..]));
        let [unseen] = &watched(&[threads("e", &[6], None)], true)[..] else { panic!("one workload") };
        assert_eq!(
            (&unseen.counted[..], &unseen.serving[..]),
            (&[][..], &[][..]),
            "its server's processes are not seen"
        );
    }

    #[test]
    fn a_governor_s_counts_are_those_of_the_window() {
        let counts = |class: &str, number: u64| ProxyCounts {
            class: class.to_owned(),
            transactions: number,
            transaction_time: Duration::from_secs(number),
            admission_wait: Duration::from_millis(number * 100),
            rolled_back: number / 10,
        };
        let found =
            counted_between(&[counts("high", 10), counts("low", 50)], vec![counts("low", 80), counts("high", 5)]);
        let [low] = &found[..] else { panic!("a governor that began anew has counted less: {found:?}") };
        assert_eq!((low.class.as_str(), low.transactions, low.rolled_back), ("low", 30, 3));
        assert!((low.transaction_s - 30.0).abs() < 1e-9 && (low.admission_wait_s - 3.0).abs() < 1e-9, "{low:?}");
    }
}
