//! Attaches the machine's sensors to the driver's window.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::control::Verdict;
use plimsoll_workload::driver::{Progress, WindowObserver, WorkloadThreads};

use crate::limits::MachineLimits;
use crate::results::Device;
use crate::sensors::{Counted, DeviceMeter, Instruments, WindowReading, WindowSensors};
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
    /// Why figures are missing.
    pub warnings: Vec<String>,
}

/// What the sensors saw of one workload's threads.
#[derive(Debug, Clone)]
pub(super) struct WorkloadReading {
    /// The threads that serve its requests.
    pub serving: ServingThreads,
    /// Hardware counters of all its threads.
    pub counted: Counted,
}

impl<'a> SensorObserver<'a> {
    /// An observer that passes progress on to `tick`, and asks `limits` whether they bite.
    pub(super) fn new(
        tick: &'a mut dyn FnMut(Progress),
        limits: &'a mut dyn MachineLimits,
        instruments: &'a Instruments,
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
        }
    }

    /// What was seen; `None` if the window was not closed.
    pub(super) fn finish(self) -> Option<SensorReading> {
        let reading = self.reading?;
        let mut warnings = reading.warnings;
        let mut watched = BTreeSet::new();
        let mut workloads = Vec::new();
        for (threads, group) in self.threads.iter().zip(&reading.groups) {
            let is_shared = threads.workers.iter().flatten().any(|worker| !watched.insert(*worker));
            if is_shared {
                let name = &threads.workload;
                warnings.push(format!(
                    "{name}: its query threads also serve another workload, so their times are not its own"
                ));
            }
            let serving = threads.workers.as_ref().unwrap_or(&threads.clients);
            let times = if is_shared { None } else { group.times_of(serving) };
            workloads.push(WorkloadReading {
                serving: ServingThreads { times, count: serving.len(), window: reading.window },
                counted: if is_shared { Counted::default() } else { group.counted.clone() },
            });
        }
        Some(SensorReading {
            workloads,
            device: reading.device,
            seconds: self.seconds,
            counted: reading.counted,
            limits: self.verdicts,
            warnings,
        })
    }
}

impl WindowObserver for SensorObserver<'_> {
    fn opened(&mut self, threads: &[WorkloadThreads]) {
        self.threads = threads.to_vec();
        self.limits.open_window();
        self.sensors = Some(WindowSensors::open(&groups(threads), self.instruments));
        self.meter = Some(DeviceMeter::start());
    }

    fn second(&mut self) {
        if let Some(sensors) = &mut self.sensors {
            sensors.second();
        }
        self.seconds.extend(self.meter.as_mut().map(DeviceMeter::lap));
    }

    fn closed(&mut self) {
        self.seconds.extend(self.meter.as_mut().map(DeviceMeter::lap));
        self.reading = self.sensors.take().map(WindowSensors::close);
        self.verdicts = self.limits.close_window();
    }

    fn tick(&mut self, progress: Progress) {
        (self.tick)(progress);
    }
}

/// One group of threads for each workload. Query threads that several workloads share are watched in the first one's
/// group only, so that sums over groups count them once.
fn groups(threads: &[WorkloadThreads]) -> Vec<(String, Vec<i32>)> {
    let mut watched = BTreeSet::new();
    let group = |threads: &WorkloadThreads| {
        let all = threads.clients.iter().chain(threads.workers.iter().flatten()).copied();
        (threads.workload.clone(), all.filter(|thread| watched.insert(*thread)).collect())
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
        assert_eq!(groups, expect.map(|(name, threads)| (name.to_owned(), threads)));
    }

    #[test]
    fn times_are_those_of_the_serving_threads_or_unknown() {
        let ms = Duration::from_millis;
        let times = |run, wait| Some(ThreadTimes { run: ms(run), wait: ms(wait) });
        let group = GroupReading {
            name: "a".to_owned(),
            threads: vec![(1, times(100, 1)), (8, times(10, 2)), (9, times(20, 3)), (10, None)],
            counted: Counted::default(),
        };
        assert_eq!(group.times_of(&[8, 9]), times(30, 5));
        assert_eq!(group.times_of(&[8, 10]), None);
        assert_eq!(group.times_of(&[7]), None);
    }
}
