//! Attaches the machine's sensors to the driver's window.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::control::Verdict;
use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_workload::activity::ActivityWatch;
use plimsoll_workload::driver::{Progress, WindowObserver, WorkloadThreads};

use crate::activity::{Sampled, Sampling, SeenWorkload};
use crate::limits::MachineLimits;
use crate::results::{Device, Server};
use crate::sensors::{Counted, DeviceMeter, Instruments, ServerProcesses, WatchedGroup, WindowReading, WindowSensors};
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
    meter: Option<DeviceMeter>,
    seconds: Vec<Device>,
    server: ServerSensors,
    sampling: Option<Sampling>,
    sampled: Option<Sampled>,
    has_server: bool,
}

/// How a server is watched; nothing for a database in this process.
#[derive(Default)]
pub(super) struct ServerSensors {
    /// Looks at what its processes do.
    pub watch: Option<Box<dyn ActivityWatch>>,
    /// Its processes on this machine.
    pub processes: ServerProcesses,
    /// Decides the moments of the looks.
    pub seed: u64,
}

/// What the sensors saw in the window.
#[derive(Debug, Clone)]
pub(super) struct SensorReading {
    /// By workload, in the driver's order.
    pub workloads: Vec<WorkloadReading>,
    /// What the devices did.
    pub device: Device,
    /// The same for each second of the window, the rest at its end included.
    pub seconds: Vec<Device>,
    /// Hardware counters over all workloads.
    pub counted: Counted,
    /// What was seen of each limit in force.
    pub limits: BTreeMap<String, Verdict>,
    /// What a server showed of itself.
    pub server: Option<Server>,
    /// Why figures are missing.
    pub warnings: Vec<String>,
}

/// What the sensors saw of one workload's threads.
#[derive(Debug, Clone)]
pub(super) struct WorkloadReading {
    /// The threads that serve its requests.
    pub serving: ServingThreads,
    /// Hardware counters of all its threads, or of the server's processes that serve it.
    pub counted: Counted,
    /// What looks at the server saw of it; `None` where the database is in this process.
    pub on_server: Option<ServerReading>,
}

/// What was seen of the server's processes that serve one workload.
#[derive(Debug, Clone)]
pub(super) struct ServerReading {
    /// By looks.
    pub seen: SeenWorkload,
    /// How many looks there were.
    pub looks: u64,
    /// Times of these processes.
    pub times: Option<ThreadTimes>,
    /// Times of our own clients.
    pub clients: Option<ThreadTimes>,
}

impl<'a> SensorObserver<'a> {
    /// An observer that passes progress on to `tick`, and asks `limits` whether they bite.
    pub(super) fn new(
        tick: &'a mut dyn FnMut(Progress),
        limits: &'a mut dyn MachineLimits,
        instruments: &'a Instruments,
        server: ServerSensors,
    ) -> Self {
        SensorObserver {
            tick,
            limits,
            instruments,
            verdicts: BTreeMap::new(),
            threads: Vec::new(),
            sensors: None,
            reading: None,
            meter: None,
            seconds: Vec::new(),
            has_server: server.watch.is_some(),
            server,
            sampling: None,
            sampled: None,
        }
    }

    /// What was seen; `None` if the window was not closed.
    pub(super) fn finish(self) -> Option<SensorReading> {
        let reading = self.reading?;
        let mut warnings = reading.warnings;
        let mut watched = BTreeSet::new();
        let mut workloads = Vec::new();
        let Sampled { server, workloads: seen, warnings: of_sampling } = self.sampled.unwrap_or_default();
        warnings.extend(of_sampling);
        let looks = server.as_ref().map_or(0, |server| server.sampler.looks);
        let mut seen = seen.into_iter();
        for (threads, group) in self.threads.iter().zip(&reading.groups) {
            let of_looks = seen.next().unwrap_or_default();
            let is_shared = threads.workers.iter().flatten().any(|worker| !watched.insert(*worker));
            if is_shared {
                let name = &threads.workload;
                warnings.push(format!(
                    "{name}: its query threads also serve another workload, so their times are not its own"
                ));
            }
            let serving = threads.workers.as_ref().unwrap_or(&threads.clients);
            // Of a server whose processes are not seen, our clients' times would say nothing.
            let times = if is_shared || self.has_server { None } else { group.times_of(serving) };
            workloads.push(WorkloadReading {
                serving: ServingThreads { times, count: serving.len(), window: reading.window },
                counted: if is_shared { Counted::default() } else { group.counted.clone() },
                on_server: (!group.servers.is_empty()).then(|| ServerReading {
                    seen: of_looks,
                    looks,
                    times: group.server_times(),
                    clients: group.times_of(&threads.clients),
                }),
            });
        }
        Some(SensorReading {
            workloads,
            device: reading.device,
            seconds: self.seconds,
            counted: reading.counted,
            limits: self.verdicts,
            server,
            warnings,
        })
    }
}

impl WindowObserver for SensorObserver<'_> {
    fn opened(&mut self, threads: &[WorkloadThreads]) {
        self.threads = threads.to_vec();
        self.limits.open_window();
        // Before the sensors, for what is asked once takes some milliseconds.
        let seed = self.server.seed;
        self.sampling = self.server.watch.take().map(|watch| Sampling::start(watch, threads, seed));
        let processes = &self.server.processes;
        self.sensors = Some(WindowSensors::open(&groups(threads), processes, self.instruments));
        self.meter = Some(DeviceMeter::start(processes));
    }

    fn second(&mut self) {
        if let Some(sensors) = &mut self.sensors {
            sensors.second();
        }
        self.seconds.extend(self.meter.as_mut().map(DeviceMeter::lap));
    }

    fn closed(&mut self) {
        if let Some(sampling) = &self.sampling {
            sampling.end();
        }
        self.seconds.extend(self.meter.as_mut().map(DeviceMeter::lap));
        self.reading = self.sensors.take().map(WindowSensors::close);
        self.sampled = self.sampling.take().map(Sampling::finish);
        self.verdicts = self.limits.close_window();
    }

    fn tick(&mut self, progress: Progress) {
        (self.tick)(progress);
    }
}

/// One group of threads for each workload. Query threads that several workloads share are watched in the first one's
/// group only, so that sums over groups count them once.
fn groups(threads: &[WorkloadThreads]) -> Vec<WatchedGroup> {
    let mut watched = BTreeSet::new();
    let group = |threads: &WorkloadThreads| {
        let all = threads.clients.iter().chain(threads.workers.iter().flatten()).copied();
        WatchedGroup {
            name: threads.workload.clone(),
            threads: all.filter(|thread| watched.insert(*thread)).collect(),
            servers: threads.servers.iter().flatten().copied().collect(),
        }
    };
    threads.iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_machine::cpu_time::ThreadTimes;
    use plimsoll_workload::driver::Board;

    use super::*;
    use crate::sensors::GroupReading;

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
    fn shared_query_threads_are_watched_once() {
        let groups =
            groups(&[threads("a", &[1], Some(&[8, 9])), threads("b", &[2], Some(&[8, 9])), threads("c", &[3], None)]);
        let expect = [("a", vec![1, 8, 9]), ("b", vec![2]), ("c", vec![3])];
        let group = |(name, threads): (&str, _)| WatchedGroup { name: name.to_owned(), threads, servers: Vec::new() };
        assert_eq!(groups, expect.map(group));
        let on_server = WorkloadThreads { servers: vec![None, Some(70)], ..threads("d", &[4, 5], None) };
        assert_eq!(super::groups(&[on_server])[0].servers, [70]);
    }

    #[test]
    fn times_are_those_of_the_serving_threads_or_unknown() {
        let ms = Duration::from_millis;
        let times = |run, wait| Some(ThreadTimes { run: ms(run), wait: ms(wait) });
        let group = GroupReading {
            name: "a".to_owned(),
            threads: vec![(1, times(100, 1)), (8, times(10, 2)), (9, times(20, 3)), (10, None)],
            servers: Vec::new(),
            counted: Counted::default(),
        };
        assert_eq!(group.times_of(&[8, 9]), times(30, 5));
        assert_eq!(group.times_of(&[8, 10]), None);
        assert_eq!(group.times_of(&[7]), None);
    }
}
