//! Sensors: what this host can measure, each with its unit, its scope and its cost.
//!
//! Adding one is a file in `sensor/` and a line in [`SENSORS`]. A sensor says what can be measured, and what a reading
//! costs; the readings themselves are in modules of their own, which take two samples and tell what was between them.

mod block_io_delay;
mod control_groups;
mod devices;
mod frequency;
mod hardware_counters;
mod pressure;
mod process_tree;
mod resctrl_monitoring;
mod steal;
mod thread_times;
mod top_down;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::availability::Availability;
use crate::host::Host;

/// What a sensor's figures are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One thread.
    Thread,
    /// A process and its children.
    ProcessTree,
    /// A control group.
    ControlGroup,
    /// A disk.
    Device,
    /// The whole machine.
    Machine,
}

/// One kind of measurement.
pub trait Sensor: Sync {
    /// A short name that people know: `hardware counters`, `pressure`.
    fn name(&self) -> &'static str;
    /// What its figures are, with their units: `cycles, instructions, misses (events)`.
    fn figures(&self) -> &'static str;
    /// What they are about, widest use last.
    fn scopes(&self) -> &'static [Scope];
    /// Whether it works on `host`.
    fn probe(&self, host: &Host) -> Availability;
    /// Opens what readings need. Each call of what is returned takes one reading and throws it away, so that the cost of a
    /// reading can be measured.
    fn reader(&self, host: &Host) -> Reader;
}

/// Takes a reading.
pub type Reader = Box<dyn FnMut()>;

/// Every sensor, in the order in which they are told.
pub static SENSORS: &[&dyn Sensor] = &[
    &hardware_counters::HardwareCounters,
    &top_down::TopDown,
    &thread_times::ThreadSchedulingTimes,
    &process_tree::ProcessTreeTimes,
    &block_io_delay::BlockIoDelay,
    &devices::Devices,
    &pressure::PressureStalls,
    &control_groups::ControlGroupFigures,
    &frequency::CoreFrequencies,
    &steal::Steal,
    &resctrl_monitoring::ResctrlMonitoring,
];

/// What one sensor is, and whether it works on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SensorReport {
    /// As in [`Sensor::name`].
    pub name: String,
    /// As in [`Sensor::figures`].
    pub figures: String,
    /// As in [`Sensor::scopes`].
    pub scopes: Vec<Scope>,
    /// Whether it works here.
    pub available: bool,
    /// By which mechanism it works, or why it does not.
    pub reason: String,
    /// What would make it work; `None` if it does, or nothing can.
    pub remedy: Option<String>,
    /// What a reading costs, microseconds: the median of some taken for this report. `None` if the sensor does not work.
    pub cost_us: Option<f64>,
}

/// Asks every sensor, and measures the cost of those that work.
pub fn describe_sensors(host: &Host) -> Vec<SensorReport> {
    SENSORS.iter().map(|sensor| report(*sensor, host)).collect()
}

fn report(sensor: &dyn Sensor, host: &Host) -> SensorReport {
    let Availability { available, reason, remedy } = sensor.probe(host);
    SensorReport {
        name: sensor.name().to_owned(),
        figures: sensor.figures().to_owned(),
        scopes: sensor.scopes().to_vec(),
        available,
        reason,
        remedy,
        cost_us: available.then(|| cost(sensor, host).as_secs_f64() * 1e6),
    }
}

/// Readings for the median of a cost.
const COST_READINGS: usize = 9;
/// No more readings are taken of a sensor once they have cost this together.
const COST_TIME_MAX: Duration = Duration::from_millis(30);

/// The median time of a reading. A first one, which finds caches cold, is not counted.
fn cost(sensor: &dyn Sensor, host: &Host) -> Duration {
    let mut read = sensor.reader(host);
    read();
    let began = Instant::now();
    let mut times = Vec::with_capacity(COST_READINGS);
    while times.len() < COST_READINGS && (times.is_empty() || began.elapsed() < COST_TIME_MAX) {
        let reading = Instant::now();
        read();
        times.push(reading.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn every_sensor_says_what_it_is() {
        let names: BTreeSet<&str> = SENSORS.iter().map(|sensor| sensor.name()).collect();
        assert_eq!(names.len(), SENSORS.len(), "a name is taken twice");
        for sensor in SENSORS {
            assert!(!sensor.figures().is_empty() && !sensor.scopes().is_empty(), "{}", sensor.name());
        }
    }

    #[test]
    fn nothing_can_be_measured_where_there_is_nothing() {
        for report in describe_sensors(&FakeHost::new(&[]).host()) {
            assert!(!report.available && report.cost_us.is_none(), "{report:?}");
            assert!(!report.reason.is_empty(), "{report:?}");
        }
    }

    /// Files that are there and hold nothing that can be understood.
    #[test]
    fn broken_files_are_no_figures() {
        let broken = FakeHost::new(&[
            ("/proc/stat", "cpu  x\n"),
            ("/proc/diskstats", "254 0\n"),
            ("/proc/pressure/cpu", "some\n"),
            ("/proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: fast\nflags\t: aperfmperf\n"),
            ("/proc/uptime", "long"),
            ("/proc/7/stat", "("),
            ("/proc/self/stat", ")"),
            ("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/cpu.stat", "usage_usec\n"),
            ("/proc/sys/kernel/task_delayacct", "maybe"),
        ]);
        for report in describe_sensors(&broken.host()) {
            assert!(!report.available && !report.reason.is_empty(), "{report:?}");
        }
    }

    #[test]
    fn a_cost_is_measured_of_what_works() {
        for report in describe_sensors(&Host::real()) {
            assert_eq!(report.cost_us.is_some(), report.available, "{report:?}");
            assert!(report.cost_us.is_none_or(|cost| cost > 0.0), "{report:?}");
            assert!(!report.available || report.remedy.is_none(), "{report:?}");
        }
    }
}
