//! The machine's measurements of one window: what each workload's threads used, and what the devices did.
//!
//! [`WindowSensors`] is opened when the window begins and closed when it ends; [`WindowReading`] is what happened in
//! between. Whatever this machine cannot measure is `None`, and a warning says why.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use plimsoll_machine::counters::{CounterReading, ThreadCounters};
use plimsoll_machine::cpu_time::{ThreadTimes, process_cpu_time, thread_times};
use plimsoll_machine::device::{DeviceSample, DeviceUse};
use plimsoll_machine::facts::cores_usable;

use crate::results::{Counters, Device};

/// Sensors that watch a window, from [`open`](WindowSensors::open) to [`close`](WindowSensors::close).
#[derive(Debug)]
pub struct WindowSensors {
    groups: Vec<GroupSensors>,
    cores: usize,
    device: DeviceSample,
    process_cpu: Duration,
    warnings: BTreeSet<String>,
    opened: Instant,
}

/// What the devices do, lap by lap.
#[derive(Debug)]
pub struct DeviceMeter {
    cores: usize,
    device: DeviceSample,
    process_cpu: Duration,
    began: Instant,
}

impl DeviceMeter {
    /// Begins the first lap.
    pub fn start() -> Self {
        DeviceMeter {
            cores: cores_usable(),
            device: DeviceSample::read(),
            process_cpu: process_cpu_time(),
            began: Instant::now(),
        }
    }

    /// Ends a lap, begins the next, and tells what the devices did in it.
    pub fn lap(&mut self) -> Device {
        let ended = std::mem::replace(self, DeviceMeter::start());
        let window = self.began.saturating_duration_since(ended.began);
        let process_cpu = self.process_cpu.saturating_sub(ended.process_cpu);
        let device = self.device.since(&ended.device, window);
        // Why figures are missing is told of the whole window.
        device_of(device, process_cpu, window, self.cores, &mut BTreeSet::new())
    }
}

/// Sensors of the threads of one workload.
#[derive(Debug)]
struct GroupSensors {
    name: String,
    threads: Vec<(i32, Option<ThreadTimes>)>,
    counters: Option<ThreadCounters>,
}

/// What happened in the window.
#[derive(Debug, Clone)]
pub struct WindowReading {
    /// How long it was.
    pub window: Duration,
    /// What each group of threads used, in the order they were given.
    pub groups: Vec<GroupReading>,
    /// What the devices did.
    pub device: Device,
    /// Hardware counters summed over all groups.
    pub counters: Option<Counters>,
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
    /// Hardware counters summed over its threads.
    pub counters: Option<Counters>,
}

impl GroupReading {
    /// Times summed over some of the threads; `None` if any is unknown, for a part would pass for the whole.
    pub fn times_of(&self, wanted: &[i32]) -> Option<ThreadTimes> {
        wanted.iter().try_fold(ThreadTimes::default(), |sum, wanted| {
            let (_, times) = self.threads.iter().find(|(thread, _)| thread == wanted)?;
            let times = (*times)?;
            Some(ThreadTimes { run: sum.run + times.run, wait: sum.wait + times.wait })
        })
    }
}

impl WindowSensors {
    /// Begins to watch the named groups of threads. A thread should be in one group only.
    ///
    /// Opening counters takes a few microseconds for each thread, so that the window begins when this returns.
    pub fn open(groups: &[(String, Vec<i32>)]) -> WindowSensors {
        let mut warnings = BTreeSet::new();
        let mut groups: Vec<GroupSensors> =
            groups.iter().map(|(name, tids)| GroupSensors::open(name, tids, &mut warnings)).collect();
        let cores = cores_usable();
        groups.iter_mut().for_each(|group| group.start(&mut warnings));
        WindowSensors {
            groups,
            cores,
            device: DeviceSample::read(),
            process_cpu: process_cpu_time(),
            warnings,
            opened: Instant::now(),
        }
    }

    /// Ends the window. Threads that ended within it keep their counters but not their times.
    pub fn close(self) -> WindowReading {
        let window = self.opened.elapsed();
        let process_cpu = process_cpu_time().saturating_sub(self.process_cpu);
        let device = DeviceSample::read().since(&self.device, window);
        let mut warnings = self.warnings;
        let groups: Vec<GroupReading> = self.groups.into_iter().map(|group| group.close(&mut warnings)).collect();
        WindowReading {
            window,
            counters: sum(&groups),
            groups,
            device: device_of(device, process_cpu, window, self.cores, &mut warnings),
            warnings: warnings.into_iter().collect(),
        }
    }
}

impl GroupSensors {
    fn open(name: &str, tids: &[i32], warnings: &mut BTreeSet<String>) -> GroupSensors {
        let counters = if tids.is_empty() {
            warnings.insert(format!("{name}: no threads to watch, so no times and no counters"));
            None
        } else {
            ThreadCounters::open(tids).map_err(|why| warnings.insert(format!("no hardware counters: {why}"))).ok()
        };
        let threads = tids.iter().map(|tid| (*tid, None)).collect();
        GroupSensors { name: name.to_owned(), threads, counters }
    }

    /// Takes the first reading. Apart from opening, so that all groups begin together.
    fn start(&mut self, warnings: &mut BTreeSet<String>) {
        if let Some(counters) = &mut self.counters
            && let Err(why) = counters.enable()
        {
            warnings.insert(format!("no hardware counters: {why}"));
            self.counters = None;
        }
        for (tid, times) in &mut self.threads {
            *times = thread_times(*tid);
        }
    }

    fn close(self, warnings: &mut BTreeSet<String>) -> GroupReading {
        let counters = self.counters.map(|mut counters| counters.read());
        let threads: Vec<(i32, Option<ThreadTimes>)> = self
            .threads
            .into_iter()
            .map(|(tid, earlier)| (tid, earlier.and_then(|earlier| Some(thread_times(tid)?.since(earlier)))))
            .collect();
        let missing = threads.iter().filter(|(_, times)| times.is_none()).count();
        if missing > 0 {
            warnings.insert(format!(
                "{}: no scheduling times of {missing} of {} threads: they had ended or never ran, or the kernel keeps none",
                self.name,
                threads.len()
            ));
        }
        let counters = counters.map(|reading| {
            warnings.extend(reading.notes.iter().cloned());
            counters_of(&reading)
        });
        GroupReading { name: self.name, threads, counters }
    }
}

fn counters_of(reading: &CounterReading) -> Counters {
    Counters {
        cycles: reading.cycles,
        instructions: reading.instructions,
        l1d_misses: reading.l1d_misses,
        llc_misses: reading.llc_misses,
        branch_misses: reading.branch_misses,
        coverage: reading.coverage,
    }
}

/// The counters of all groups together. A figure is there only if every group that has threads has it; the coverage is
/// that of the group covered worst.
fn sum(groups: &[GroupReading]) -> Option<Counters> {
    let mut groups = groups.iter().filter(|group| !group.threads.is_empty());
    let first = groups.next()?.counters?;
    groups.try_fold(first, |sum, group| {
        let next = group.counters?;
        let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Some(Counters {
            cycles: add(sum.cycles, next.cycles),
            instructions: add(sum.instructions, next.instructions),
            l1d_misses: add(sum.l1d_misses, next.l1d_misses),
            llc_misses: add(sum.llc_misses, next.llc_misses),
            branch_misses: add(sum.branch_misses, next.branch_misses),
            coverage: sum.coverage.min(next.coverage),
        })
    })
}

fn device_of(
    device: DeviceUse,
    process_cpu: Duration,
    window: Duration,
    cores: usize,
    warnings: &mut BTreeSet<String>,
) -> Device {
    if device.io_busy.is_none() {
        warnings.insert("no disk figures: no whole disk is in both /proc/diskstats and /sys/block".to_owned());
    }
    warnings.insert("no memory traffic: it takes the memory controllers' own counters, which are not read".to_owned());
    let cpu_time = window.as_secs_f64() * cores as f64;
    Device {
        // The two clocks are not read at one moment, so that a full machine may come out a little above 1.
        cpu_busy: (cpu_time > 0.0).then(|| (process_cpu.as_secs_f64() / cpu_time).min(1.0)),
        busy_cores_others: device
            .busy_cores
            .map(|busy| (busy - process_cpu.as_secs_f64() / window.as_secs_f64()).max(0.0)),
        io_busy: device.io_busy,
        read_mb_s: device.read_mb_s,
        write_mb_s: device.write_mb_s,
        dram_read_gb_s: None,
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
        let groups = [("busy".to_owned(), vec![current_thread_id()]), ("gone".to_owned(), vec![ended, i32::MAX])];
        let sensors = WindowSensors::open(&groups);
        work();
        go.send(()).unwrap();
        thread.join().unwrap();
        let reading = sensors.close();

        let [busy, gone] = reading.groups.as_slice() else { panic!("{reading:?}") };
        assert_eq!((busy.name.as_str(), gone.name.as_str()), ("busy", "gone"));
        assert_eq!(gone.threads[1], (i32::MAX, None));
        assert_eq!(gone.times_of(&[i32::MAX]), None);
        assert!(reading.warnings.iter().any(|warning| warning.starts_with("gone: no scheduling times of")));
        if let Some(times) = busy.times_of(&groups[0].1) {
            assert!(times.run >= Duration::from_millis(5), "{times:?}");
        }
        assert!(reading.device.cpu_busy.is_some_and(|busy| busy > 0.0 && busy <= 1.0), "{:?}", reading.device);
        let unexplained = reading.counters.is_none() && !reading.warnings.iter().any(|w| w.contains("counters"));
        assert!(!unexplained, "{:?}", reading.warnings);
    }

    #[test]
    fn a_group_without_threads_is_named() {
        let reading = WindowSensors::open(&[("idle".to_owned(), Vec::new())]).close();
        assert_eq!(reading.groups[0].times_of(&[7]), None);
        assert!(reading.groups[0].counters.is_none() && reading.counters.is_none());
        assert!(reading.warnings.iter().any(|warning| warning.starts_with("idle: no threads")));
    }

    #[test]
    fn sums_are_whole_or_nothing() {
        let counters = |cycles, llc_misses, coverage| {
            let one = Some(1);
            Counters { cycles, instructions: one, l1d_misses: one, llc_misses, branch_misses: one, coverage }
        };
        let group = |tids: &[i32], counters| GroupReading {
            name: "g".into(),
            threads: tids.iter().map(|tid| (*tid, None)).collect(),
            counters,
        };
        let check = |groups: &[GroupReading], expect: Option<(Option<u64>, Option<u64>, f64)>| {
            let sum = sum(groups).map(|sum| (sum.cycles, sum.llc_misses, sum.coverage));
            assert_eq!(sum, expect, "{groups:?}");
        };
        let (a, b) = (counters(Some(3), Some(2), 1.0), counters(Some(4), None, 0.5));
        check(&[group(&[1], Some(a)), group(&[2], Some(b))], Some((Some(7), None, 0.5)));
        check(&[group(&[1], Some(a)), group(&[], None)], Some((Some(3), Some(2), 1.0)));
        check(&[group(&[1], Some(a)), group(&[2], None)], None);
        check(&[], None);
    }
}
