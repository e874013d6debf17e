//! The measurements of one window: the resource use of each workload's threads or server processes, and the activity of
//! the devices.
//!
//! [`WindowSensors`] is opened when the window begins and closed when it ends; [`WindowReading`] holds the measurements
//! in between, over the whole of it and second by second. `plimsoll_machine` has the list of sensors: every one of them
//! is opened for all subjects about which it has figures. Figures that this machine cannot measure are `None`, with a
//! reason.

mod device;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use plimsoll_machine::cache_miss::{CacheMissBreakdown, LevelLatencies};
use plimsoll_machine::counters::{CounterReading, Event};
use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_machine::memory_speed::MemorySpeed;
use plimsoll_machine::sensor::{self, Figures, Observed, Sensor, Sensors};
use plimsoll_machine::top_down::TopDown;

pub use device::{DeviceMeter, ServerProcesses};

use crate::results::{Counters, Device, Unmeasured};

/// The means of measuring windows, determined once.
#[derive(Debug)]
pub struct Instruments {
    sensors: sensor::Instruments,
    /// The cost of a load by the level that serves it, if that was measured on this machine.
    latencies: Option<LevelLatencies>,
}

impl Instruments {
    /// Determines the counters of this machine, which takes some milliseconds.
    pub fn here(latencies: Option<LevelLatencies>) -> Instruments {
        Instruments { sensors: sensor::Instruments::here(), latencies }
    }
}

/// The cost of a load by the level that serves it; `None` unless all three were measured, because a part would pass for
/// the whole.
pub fn level_latencies(speed: &MemorySpeed) -> Option<LevelLatencies> {
    let measured = speed.level_latencies();
    Some(LevelLatencies { l2_ns: measured.l2_ns?, llc_ns: measured.llc_ns?, dram_ns: measured.dram_ns? })
}

/// The hardware counters of some threads.
#[derive(Debug, Clone, Default)]
pub struct ThreadCounters {
    /// Events.
    pub counters: Option<Counters>,
    /// Top-down breakdown.
    pub top_down: Option<TopDown>,
    /// Cache misses times latencies.
    pub cache_misses: Option<CacheMissBreakdown>,
}

/// Why figures are missing, and other warnings for the reader.
#[derive(Debug, Clone, Default)]
pub struct Reasons {
    /// By sensor.
    pub unmeasured: BTreeMap<String, Unmeasured>,
    /// Warnings about the figures that are present; each once.
    pub warnings: BTreeSet<String>,
}

impl Reasons {
    /// Adds the reasons of these figures, each under the name of its sensor followed by `of`.
    fn add(&mut self, of: &str, figures: &Figures) {
        for (sensor, why) in &figures.missing {
            let unmeasured = Unmeasured { reason: why.reason.clone(), remedy: why.remedy.clone() };
            self.unmeasured.insert(format!("{sensor}{of}"), unmeasured);
        }
        self.warnings.extend(figures.notes.iter().cloned());
    }
}

/// Whether a sensor can be opened any number of times.
fn steady(sensor: &dyn Sensor) -> bool {
    !sensor.takes_turns()
}

/// The threads to watch for one workload, by the kernel's ids. A thread of one workload is counted for no other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedWorkload {
    /// The workload's name.
    pub name: String,
    /// Threads whose hardware events are counted: all that belong to it in this process, or the server's processes that
    /// serve it.
    pub counted: Vec<i32>,
    /// Threads that serve its requests; none if they serve other workloads, too.
    pub serving: Vec<i32>,
    /// Our own clients, if a server's processes serve them.
    pub clients: Vec<i32>,
}

/// Sensors that watch a window, from [`open`](WindowSensors::open) to [`close`](WindowSensors::close).
pub struct WindowSensors {
    workloads: Vec<WorkloadSensors>,
    device: DeviceMeter,
    laps: DeviceMeter,
    seconds: Vec<Second>,
    latencies: Option<LevelLatencies>,
    opened: Instant,
}

/// Sensors of the threads of one workload; `None` if it has no such threads.
struct WorkloadSensors {
    name: String,
    counted: Option<Sensors>,
    serving: Option<Sensors>,
    /// Sensors of the serving threads, read every second.
    laps: Option<Sensors>,
    clients: Option<Sensors>,
}

/// The measurements in the window.
#[derive(Debug, Clone)]
pub struct WindowReading {
    /// The length of the window.
    pub window: Duration,
    /// The resource use of each workload's threads, in the order they were given.
    pub workloads: Vec<WorkloadUse>,
    /// The activity of the machine.
    pub device: Device,
    /// The resource use and activity in each second, the rest at the end included.
    pub seconds: Vec<Second>,
    /// Hardware counters over all workloads.
    pub counted: ThreadCounters,
    /// Why figures are missing.
    pub reasons: Reasons,
}

/// The resource use of the threads of one workload. Figures that are not known for all of them are `None`, because a
/// part would pass for the whole.
#[derive(Debug, Clone, Default)]
pub struct WorkloadUse {
    /// Times of the threads that serve it.
    pub times: Option<ThreadTimes>,
    /// How long they waited for block I/O, summed.
    pub block_io: Option<Duration>,
    /// Times of our own clients, if a server's processes serve them.
    pub clients: Option<ThreadTimes>,
    /// Hardware counters.
    pub counted: ThreadCounters,
}

/// One second of a window.
#[derive(Debug, Clone, Default)]
pub struct Second {
    /// The activity of the machine.
    pub device: Device,
    /// The resource use of the threads that serve each workload, in the order in which these were given.
    pub workloads: Vec<SecondUse>,
}

/// The resource use of the threads that serve one workload in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SecondUse {
    /// Time on cores and waiting for one.
    pub times: Option<ThreadTimes>,
    /// Time waiting for block I/O, summed.
    pub block_io: Option<Duration>,
}

impl WindowSensors {
    /// Begins to watch these workloads and the processes of a server.
    ///
    /// Opening counters takes a few microseconds for each thread, so the window begins when this returns.
    pub fn open(workloads: &[WatchedWorkload], server: &ServerProcesses, instruments: &Instruments) -> WindowSensors {
        let sensors = &instruments.sensors;
        let mut workloads: Vec<WorkloadSensors> =
            workloads.iter().map(|workload| WorkloadSensors::open(workload, sensors)).collect();
        let (device, laps) = (DeviceMeter::start(sensors, server), DeviceMeter::start(sensors, server));
        // Separate from opening, so that all begin together.
        workloads.iter_mut().for_each(WorkloadSensors::begin);
        let (latencies, seconds) = (instruments.latencies, Vec::new());
        WindowSensors { workloads, device, laps, seconds, latencies, opened: Instant::now() }
    }

    /// Ends a second.
    pub fn second(&mut self) {
        self.device.second();
        for sensors in self.workloads.iter_mut().filter_map(|workload| workload.counted.as_mut()) {
            sensors.second();
        }
        self.end_second();
    }

    fn end_second(&mut self) {
        // The reasons for missing figures are about the whole window.
        let device = self.laps.lap(&mut Reasons::default());
        let workloads = self.workloads.iter_mut().map(|workload| {
            let figures = workload.laps.as_mut().map(Sensors::read).unwrap_or_default();
            SecondUse { times: figures.times, block_io: figures.block_io }
        });
        let workloads = workloads.collect();
        self.seconds.push(Second { device, workloads });
    }

    /// Ends the window. Threads that ended within it keep their counters but not their times.
    pub fn close(mut self) -> WindowReading {
        self.end_second();
        let window = self.opened.elapsed();
        let mut reasons = Reasons::default();
        let mut device = self.device.lap(&mut reasons);
        let mut sum: Option<Result<CounterReading, ()>> = None;
        let mut workloads = Vec::new();
        for workload in self.workloads {
            let watches = workload.counted.is_some();
            let (used, reading) = workload.close(self.latencies.as_ref(), &mut reasons);
            if watches {
                // A part would pass for the whole.
                sum = Some(match (sum, reading) {
                    (None, Some(reading)) => Ok(reading),
                    (Some(Ok(sum)), Some(reading)) => Ok(sum + reading),
                    _ => Err(()),
                });
            }
            workloads.push(used);
        }
        let all = sum.and_then(Result::ok);
        let counted = all.map(|all| ThreadCounters::of(&all, None, &mut reasons.warnings)).unwrap_or_default();
        let read = counted.counters.and_then(|counters| counters.dram_read_bytes);
        device.dram_read_gb_s = read.map(|bytes| bytes as f64 / 1e9 / window.as_secs_f64());
        WindowReading { window, workloads, device, seconds: self.seconds, counted, reasons }
    }
}

impl WorkloadSensors {
    fn open(workload: &WatchedWorkload, instruments: &sensor::Instruments) -> WorkloadSensors {
        let open = |threads: &Vec<i32>, wanted: fn(&dyn Sensor) -> bool| {
            let observed = Observed::Threads(threads.clone());
            (!threads.is_empty()).then(|| Sensors::open(instruments, &observed, wanted))
        };
        WorkloadSensors {
            name: workload.name.clone(),
            counted: open(&workload.counted, |sensor| sensor.takes_turns()),
            serving: open(&workload.serving, steady),
            laps: open(&workload.serving, steady),
            clients: open(&workload.clients, steady),
        }
    }

    fn begin(&mut self) {
        for sensors in [&mut self.counted, &mut self.serving, &mut self.laps, &mut self.clients].into_iter().flatten() {
            sensors.read();
        }
    }

    /// The resource use of its threads, and their counters.
    fn close(self, latencies: Option<&LevelLatencies>, reasons: &mut Reasons) -> (WorkloadUse, Option<CounterReading>) {
        let name = &self.name;
        if self.counted.is_none() {
            reasons.warnings.insert(format!("{name}: no threads to watch, so no times and no counters"));
        }
        let mut read = |sensors: Option<Sensors>| {
            let figures = sensors.map(|mut sensors| sensors.read()).unwrap_or_default();
            reasons.add("", &figures);
            if let Some(why) = figures.missing.get("thread times") {
                reasons.warnings.insert(format!("{name}: {}", why.reason));
            }
            figures
        };
        let (counted, serving, clients) = (read(self.counted), read(self.serving), read(self.clients));
        if let Some(why) = counted.missing.get("hardware counters") {
            let without = "no top-down breakdown, no breakdown by cache misses and no memory traffic";
            let remedy = why.remedy.as_ref().map(|remedy| format!(" (remedy: {remedy})")).unwrap_or_default();
            reasons.warnings.insert(format!("no hardware counters, so {without}: {}{remedy}", why.reason));
        }
        let reading = counted.counters;
        let counted = reading.as_ref().map(|reading| ThreadCounters::of(reading, latencies, &mut reasons.warnings));
        let used = WorkloadUse {
            times: serving.times,
            block_io: serving.block_io,
            clients: clients.times,
            counted: counted.unwrap_or_default(),
        };
        (used, reading)
    }
}

impl ThreadCounters {
    /// The figures of a reading; a warning explains each missing one.
    fn of(
        reading: &CounterReading,
        latencies: Option<&LevelLatencies>,
        warnings: &mut BTreeSet<String>,
    ) -> ThreadCounters {
        warnings.extend(reading.notes.iter().cloned());
        let mut explain = |what: &str, why: &str| {
            warnings.insert(format!("no {what}: {why}"));
        };
        let top_down = reading.top_down().map_err(|why| explain("top-down breakdown", &why)).ok();
        let memory_read = reading.memory_read().map_err(|why| explain("memory traffic", &why)).ok();
        let unknown = || "latencies are not known; measure them by plimsoll machine --probe".to_owned();
        let cache_misses = latencies
            .ok_or_else(unknown)
            .and_then(|latencies| CacheMissBreakdown::of(reading, latencies, top_down.as_ref()))
            .map_err(|why| explain("breakdown by cache misses", &why))
            .ok();
        let mut counters = counters_of(reading);
        counters.dram_read_bytes = memory_read.map(|read| read.bytes);
        ThreadCounters { counters: Some(counters), top_down, cache_misses }
    }
}

/// The events that occur in ratios.
const TOGETHER: [Event; 5] =
    [Event::Cycles, Event::Instructions, Event::L1dMisses, Event::LlcMisses, Event::BranchMisses];

fn counters_of(reading: &CounterReading) -> Counters {
    let offered: Vec<Event> = TOGETHER.into_iter().filter(|event| reading.figure(*event).is_some()).collect();
    let keys: Vec<&str> = offered.iter().map(|event| event.key()).collect();
    let together = reading.together(&keys);
    let of_together = |event: Event| {
        let position = offered.iter().position(|offered| *offered == event)?;
        Some(together.as_ref()?.counts[position].round() as u64)
    };
    let alone = |event: Event| reading.figure(event).map(|figure| figure.count);
    Counters {
        cycles: of_together(Event::Cycles),
        instructions: of_together(Event::Instructions),
        l1d_misses: of_together(Event::L1dMisses),
        llc_misses: of_together(Event::LlcMisses),
        branch_misses: of_together(Event::BranchMisses),
        kernel_instructions: alone(Event::KernelInstructions),
        spin_instructions: alone(Event::SpinInstructions),
        branches: alone(Event::Branches),
        l2_misses: alone(Event::L2Misses),
        dtlb_misses: alone(Event::DtlbMisses),
        dram_read_bytes: None,
        coverage: together.as_ref().map_or(0.0, |together| together.coverage),
        is_simulated: false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use plimsoll_machine::cpu_time::{current_thread_id, thread_times};

    use super::*;

    /// Works until the scheduler's times of this thread show it, or at once if it keeps none.
    fn work() {
        let Some(started) = thread_times(current_thread_id()) else { return };
        let worked = || thread_times(current_thread_id()).map(|now| now.since(started).run);
        while worked().is_some_and(|run| run < Duration::from_millis(5)) {
            std::hint::spin_loop();
        }
    }

    /// A workload whose threads are its clients.
    fn workload(name: &str, threads: Vec<i32>) -> WatchedWorkload {
        let serving = threads.clone();
        WatchedWorkload { name: name.to_owned(), counted: threads, serving, clients: Vec::new() }
    }

    fn open(workloads: &[WatchedWorkload]) -> WindowSensors {
        WindowSensors::open(workloads, &ServerProcesses::default(), &Instruments::here(None))
    }

    #[test]
    fn a_working_thread_and_a_thread_that_ends() {
        let (tell, told) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(current_thread_id()).unwrap();
            wait.recv().unwrap();
        });
        let ended = told.recv().unwrap();
        let mut sensors = open(&[workload("busy", vec![current_thread_id()]), workload("gone", vec![ended, i32::MAX])]);
        work();
        sensors.second();
        go.send(()).unwrap();
        thread.join().unwrap();
        let reading = sensors.close();

        let [busy, gone] = reading.workloads.as_slice() else { panic!("{reading:?}") };
        assert_eq!(gone.times, None);
        assert!(reading.reasons.warnings.iter().any(|warning| warning.starts_with("gone: no scheduling times of")));
        if let Some(times) = busy.times {
            assert!(times.run >= Duration::from_millis(5), "{times:?}");
            let by_second = reading.seconds.iter().map(|second| second.workloads[0].times.expect("known").run);
            assert_eq!(reading.seconds.len(), 2, "the rest is one, too");
            assert!(by_second.sum::<Duration>() <= times.run, "seconds end before the window does");
        }
        assert!(reading.device.cpu_busy.is_some_and(|busy| busy > 0.0 && busy <= 1.0), "{:?}", reading.device);
        let why = reading.reasons.unmeasured.get("hardware counters");
        assert!(reading.counted.counters.is_some() || why.is_some(), "{:?}", reading.reasons);
    }

    #[test]
    fn no_threads_no_figures() {
        let reading = open(&[workload("idle", vec![])]).close();
        assert!(reading.reasons.warnings.iter().any(|w| w.starts_with("idle: no threads")), "{:?}", reading.reasons);
        assert!(reading.workloads[0].times.is_none() && reading.counted.counters.is_none(), "{reading:?}");
    }

    #[test]
    fn a_server_s_processes_are_watched_in_place_of_our_threads() {
        let process = std::process::id().cast_signed();
        let (client, server) = (vec![current_thread_id()], vec![process]);
        let served = WatchedWorkload { clients: client, ..workload("served", server) };
        let sensors = open(&[served, workload("elsewhere", vec![])]);
        work();
        let reading = sensors.close();
        let [served, elsewhere] = reading.workloads.as_slice() else { panic!("{reading:?}") };
        if let Some(times) = served.clients {
            assert!(times.run >= Duration::from_millis(5), "{times:?}");
        }
        assert_eq!(elsewhere.times, None, "there is no server");
    }
}
