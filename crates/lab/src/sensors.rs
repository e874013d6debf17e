//! The machine's measurements of one window: what each workload's threads or server processes used, and what the devices did.
//!
//! [`WindowSensors`] is opened when the window begins and closed when it ends; [`WindowReading`] is what happened in
//! between. Whatever this machine cannot measure is `None`, and a warning says why.

mod device;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use plimsoll_machine::cache_miss::{CacheMissBreakdown, LevelLatencies};
use plimsoll_machine::counters::{CounterReading, CounterSet, CountersUnavailable, Event, Plan, Watched};
use plimsoll_machine::cpu_time::{ThreadTimes, process_times, thread_times};
use plimsoll_machine::memory_speed::MemorySpeed;
use plimsoll_machine::top_down::TopDown;

pub use device::{DeviceMeter, ServerProcesses};

use crate::results::{Counters, Device};

/// Sensors that watch a window, from [`open`](WindowSensors::open) to [`close`](WindowSensors::close).
pub struct WindowSensors {
    groups: Vec<GroupSensors>,
    device: DeviceMeter,
    latencies: Option<LevelLatencies>,
    warnings: BTreeSet<String>,
    opened: Instant,
}

/// What windows are measured with, found out once.
#[derive(Debug)]
pub struct Instruments {
    /// The hardware counters of this machine, or why there are none.
    pub counters: Result<Plan, CountersUnavailable>,
    /// What a load costs by the level that serves it, if that was measured on this machine.
    pub latencies: Option<LevelLatencies>,
}

impl Instruments {
    /// Finds out what this machine counts, which takes some milliseconds.
    pub fn here(latencies: Option<LevelLatencies>) -> Instruments {
        Instruments { counters: Plan::of_machine(), latencies }
    }
}

/// What a load costs by the level that serves it; `None` unless all three were measured, for a part would pass for the whole.
pub fn level_latencies(speed: &MemorySpeed) -> Option<LevelLatencies> {
    let measured = speed.level_latencies();
    Some(LevelLatencies { l2_ns: measured.l2_ns?, llc_ns: measured.llc_ns?, dram_ns: measured.dram_ns? })
}

/// What hardware counters showed of some threads.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Events.
    pub counters: Option<Counters>,
    /// Where slots went.
    pub top_down: Option<TopDown>,
    /// Cache misses times latencies.
    pub cache_misses: Option<CacheMissBreakdown>,
}

/// Whom to watch for one workload. A thread or process should be in one group only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedGroup {
    /// The workload's name.
    pub name: String,
    /// Threads of this process: its clients' and the database's query threads.
    pub threads: Vec<i32>,
    /// The server's processes that serve it; none where the database is in this process. Hardware counters count these, and
    /// no threads then, which are our own clients.
    pub servers: Vec<i32>,
}

/// Sensors of the threads of one workload.
struct GroupSensors {
    name: String,
    threads: Times,
    servers: Times,
    counters: Option<CounterSet>,
}

/// Times by the id of a thread or process; `None` if it had ended, or the kernel keeps none.
type Times = Vec<(i32, Option<ThreadTimes>)>;

/// What happened in the window.
#[derive(Debug, Clone)]
pub struct WindowReading {
    /// How long it was.
    pub window: Duration,
    /// What each group of threads used, in the order they were given.
    pub groups: Vec<GroupReading>,
    /// What the devices did.
    pub device: Device,
    /// Hardware counters over all groups.
    pub counted: Counted,
    /// Why figures are missing, and what else a reader must know; each reason once.
    pub warnings: Vec<String>,
}

/// What one group of threads used.
#[derive(Debug, Clone)]
pub struct GroupReading {
    /// Its name.
    pub name: String,
    /// Each thread by its id; `None` if it had ended, or the kernel keeps no times.
    pub threads: Vec<(i32, Option<ThreadTimes>)>,
    /// The same of the server's processes.
    pub servers: Vec<(i32, Option<ThreadTimes>)>,
    /// Hardware counters over the server's processes, or where there are none over its threads.
    pub counted: Counted,
}

impl GroupReading {
    /// Times summed over some of the threads; `None` if any is unknown, for a part would pass for the whole.
    pub fn times_of(&self, wanted: &[i32]) -> Option<ThreadTimes> {
        sum(wanted.iter().map(|wanted| self.threads.iter().find(|(thread, _)| thread == wanted)?.1))
    }

    /// Times summed over all of the server's processes; `None` if there are none, or any is unknown.
    pub fn server_times(&self) -> Option<ThreadTimes> {
        sum(self.servers.iter().map(|(_, times)| *times)).filter(|_| !self.servers.is_empty())
    }
}

fn sum(mut times: impl Iterator<Item = Option<ThreadTimes>>) -> Option<ThreadTimes> {
    times.try_fold(ThreadTimes::default(), |sum, times| {
        let times = times?;
        Some(ThreadTimes { run: sum.run + times.run, wait: sum.wait + times.wait })
    })
}

impl WindowSensors {
    /// Begins to watch these groups, and beside them the processes of a server.
    ///
    /// Opening counters takes a few microseconds for each thread, so that the window begins when this returns.
    pub fn open(groups: &[WatchedGroup], server: &ServerProcesses, instruments: &Instruments) -> WindowSensors {
        let mut warnings = BTreeSet::new();
        let mut groups: Vec<GroupSensors> =
            groups.iter().map(|group| GroupSensors::open(group, instruments, &mut warnings)).collect();
        let device = DeviceMeter::start(server);
        groups.iter_mut().for_each(|group| group.start(&mut warnings));
        WindowSensors { groups, device, latencies: instruments.latencies, warnings, opened: Instant::now() }
    }

    /// Gives the turn to the next group of counters. To be called about once a second.
    pub fn second(&mut self) {
        self.groups.iter_mut().filter_map(|group| group.counters.as_mut()).for_each(CounterSet::rotate);
    }

    /// Ends the window. Threads that ended within it keep their counters but not their times.
    pub fn close(mut self) -> WindowReading {
        let window = self.opened.elapsed();
        let mut warnings = self.warnings;
        let mut device = self.device.lap_with(&mut warnings);
        let mut sum: Option<Result<CounterReading, ()>> = None;
        let mut groups = Vec::new();
        for group in self.groups {
            let watches = !group.threads.is_empty() || !group.servers.is_empty();
            let (group, reading) = group.close(self.latencies.as_ref(), &mut warnings);
            if watches {
                // A part would pass for the whole.
                sum = Some(match (sum, reading) {
                    (None, Some(reading)) => Ok(reading),
                    (Some(Ok(sum)), Some(reading)) => Ok(sum + reading),
                    _ => Err(()),
                });
            }
            groups.push(group);
        }
        let counted = sum.and_then(Result::ok).map(|sum| Counted::of(&sum, None, &mut warnings)).unwrap_or_default();
        let read = counted.counters.and_then(|counters| counters.dram_read_bytes);
        device.dram_read_gb_s = read.map(|bytes| bytes as f64 / 1e9 / window.as_secs_f64());
        WindowReading { window, counted, groups, device, warnings: warnings.into_iter().collect() }
    }
}

impl GroupSensors {
    fn open(group: &WatchedGroup, instruments: &Instruments, warnings: &mut BTreeSet<String>) -> GroupSensors {
        let name = &group.name;
        let tids = if group.servers.is_empty() { &group.threads } else { &group.servers };
        let counters = if tids.is_empty() {
            warnings.insert(format!("{name}: no threads to watch, so no times and no counters"));
            None
        } else {
            let plan = instruments.counters.as_ref().map_err(Clone::clone);
            let opened = plan.and_then(|plan| CounterSet::open(plan, &Watched::Threads(tids.to_vec())));
            opened.map_err(|why| warnings.insert(no_counters(&why))).ok()
        };
        let unknown = |ids: &[i32]| ids.iter().map(|id| (*id, None)).collect();
        GroupSensors {
            name: name.clone(),
            threads: unknown(&group.threads),
            servers: unknown(&group.servers),
            counters,
        }
    }

    /// Takes the first reading. Apart from opening, so that all groups begin together.
    fn start(&mut self, warnings: &mut BTreeSet<String>) {
        if let Some(counters) = &mut self.counters
            && let Err(why) = counters.enable()
        {
            warnings.insert(no_counters(&why));
            self.counters = None;
        }
        for (tid, times) in &mut self.threads {
            *times = thread_times(*tid);
        }
        for (process, times) in &mut self.servers {
            *times = process_times(*process);
        }
    }

    /// What its threads used, and what was counted of them.
    fn close(
        mut self,
        latencies: Option<&LevelLatencies>,
        warnings: &mut BTreeSet<String>,
    ) -> (GroupReading, Option<CounterReading>) {
        let reading = self.counters.as_mut().map(CounterSet::read);
        let threads = since(&self.threads, thread_times);
        let servers = since(&self.servers, process_times);
        for (what, times) in [("threads", &threads), ("server processes", &servers)] {
            let missing = times.iter().filter(|(_, times)| times.is_none()).count();
            if missing > 0 {
                warnings.insert(format!(
                    "{}: no scheduling times of {missing} of {} {what}: they had ended or never ran, or the kernel keeps none",
                    self.name,
                    times.len()
                ));
            }
        }
        let counted = reading.as_ref().map(|reading| Counted::of(reading, latencies, warnings)).unwrap_or_default();
        (GroupReading { name: self.name, threads, servers, counted }, reading)
    }
}

/// What each has used since an earlier reading.
fn since(earlier: &Times, times_of: fn(i32) -> Option<ThreadTimes>) -> Times {
    let used =
        |(id, earlier): &(i32, Option<ThreadTimes>)| (*id, earlier.and_then(|then| Some(times_of(*id)?.since(then))));
    earlier.iter().map(used).collect()
}

impl Counted {
    /// What a reading says; what it does not say is explained.
    fn of(reading: &CounterReading, latencies: Option<&LevelLatencies>, warnings: &mut BTreeSet<String>) -> Counted {
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
        Counted { counters: Some(counters), top_down, cache_misses }
    }
}

/// Why there are no counters, and what else there is not for want of them.
fn no_counters(why: &CountersUnavailable) -> String {
    format!("no hardware counters, so no top-down breakdown, no breakdown by cache misses and no memory traffic: {why}")
}

/// The events of which ratios are taken.
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
        branches: alone(Event::Branches),
        l2_misses: alone(Event::L2Misses),
        dtlb_misses: alone(Event::DtlbMisses),
        dram_read_bytes: None,
        coverage: together.as_ref().map_or(0.0, |together| together.coverage),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use plimsoll_machine::cpu_time::current_thread_id;

    use super::*;

    /// Works until the scheduler's times of this thread show it, or at once if it keeps none.
    fn work() {
        let Some(started) = thread_times(current_thread_id()) else { return };
        let worked = || thread_times(current_thread_id()).map(|now| now.since(started).run);
        while worked().is_some_and(|run| run < Duration::from_millis(5)) {
            std::hint::spin_loop();
        }
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
        let group = |name: &str, threads| WatchedGroup { name: name.to_owned(), threads, servers: Vec::new() };
        let groups = [group("busy", vec![current_thread_id()]), group("gone", vec![ended, i32::MAX])];
        let sensors = WindowSensors::open(&groups, &ServerProcesses::default(), &Instruments::here(None));
        work();
        go.send(()).unwrap();
        thread.join().unwrap();
        let reading = sensors.close();

        let [busy, gone] = reading.groups.as_slice() else { panic!("{reading:?}") };
        assert_eq!((busy.name.as_str(), gone.name.as_str()), ("busy", "gone"));
        assert_eq!(gone.threads[1], (i32::MAX, None));
        assert_eq!(gone.times_of(&[i32::MAX]), None);
        assert!(reading.warnings.iter().any(|warning| warning.starts_with("gone: no scheduling times of")));
        if let Some(times) = busy.times_of(&groups[0].threads) {
            assert!(times.run >= Duration::from_millis(5), "{times:?}");
        }
        assert!(reading.device.cpu_busy.is_some_and(|busy| busy > 0.0 && busy <= 1.0), "{:?}", reading.device);
        let unexplained =
            reading.counted.counters.is_none() && !reading.warnings.iter().any(|w| w.contains("counters"));
        assert!(!unexplained, "{:?}", reading.warnings);
    }

    #[test]
    fn a_group_without_threads_is_named() {
        let idle = WatchedGroup { name: "idle".to_owned(), ..WatchedGroup::default() };
        let reading = WindowSensors::open(&[idle], &ServerProcesses::default(), &Instruments::here(None)).close();
        assert_eq!(reading.groups[0].times_of(&[7]), None);
        assert!(reading.groups[0].counted.counters.is_none() && reading.counted.counters.is_none());
        assert!(reading.warnings.iter().any(|warning| warning.starts_with("idle: no threads")));
    }

    #[test]
    fn of_a_workload_on_a_server_its_processes_are_watched_and_its_clients_are_told_apart() {
        // This process stands for the server's: only its own thread's times show who is meant.
        let (own, thread) = (std::process::id().cast_signed(), current_thread_id());
        let group = WatchedGroup { name: "shop".to_owned(), threads: vec![thread], servers: vec![own] };
        let sensors = WindowSensors::open(&[group], &ServerProcesses::default(), &Instruments::here(None));
        work();
        let reading = sensors.close();
        let group = &reading.groups[0];
        assert_eq!((group.threads[0].0, group.servers[0].0), (thread, own));
        assert_eq!(group.server_times().is_some(), group.servers[0].1.is_some());
        if let Some(times) = group.times_of(&[thread]) {
            assert!(times.run >= Duration::from_millis(5), "{times:?}");
        }
        let none = GroupReading { servers: Vec::new(), ..group.clone() };
        assert_eq!(none.server_times(), None, "there is no server");
    }
}
