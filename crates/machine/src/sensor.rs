//! Sensors: what this host can measure, each with its unit, its scope and its cost.
//!
//! Adding one is a file in `sensor/`, a line in [`SENSORS`], and its part of [`Figures`]. A [`Sensor`] describes what
//! can be measured, and is opened for a subject ([`Observed`]); its [`Reading`] gives the figures between two moments.
//! [`Sensors`] holds all sensors.

mod block_io_delay;
mod control_groups;
mod devices;
mod figures;
mod frequency;
mod hardware_counters;
mod lap;
mod opened;
mod pressure;
mod process_tree;
mod resctrl_monitoring;
mod steal;
mod thread_times;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use figures::Figures;
pub use opened::Sensors;

use crate::availability::Availability;
use crate::counters::{CountersUnavailable, Plan};
use crate::cpu_time::current_thread_id;
use crate::host::Host;

/// The scope of a sensor's figures.
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

/// The subject that a sensor is opened for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// These threads, by the kernel's ids, of this process or another. Threads and processes that they start are not
    /// observed.
    Threads(Vec<i32>),
    /// These processes, with everything that they start.
    Processes(Vec<i32>),
    /// The control groups that this process is in, with all other processes in them.
    ControlGroup(i32),
    /// The machine and its devices.
    Machine,
}

impl Observed {
    /// Whether a sensor with figures about `scope` can be opened for it.
    pub fn is(&self, scope: Scope) -> bool {
        match self {
            Observed::Threads(_) => scope == Scope::Thread,
            Observed::Processes(_) => scope == Scope::ProcessTree,
            Observed::ControlGroup(_) => scope == Scope::ControlGroup,
            Observed::Machine => matches!(scope, Scope::Device | Scope::Machine),
        }
    }

    /// The subject of this scope that includes the calling thread.
    fn own(scope: Scope) -> Observed {
        let process = std::process::id().cast_signed();
        match scope {
            Scope::Thread => Observed::Threads(vec![current_thread_id()]),
            Scope::ProcessTree => Observed::Processes(vec![process]),
            Scope::ControlGroup => Observed::ControlGroup(process),
            Scope::Device | Scope::Machine => Observed::Machine,
        }
    }
}

/// One kind of measurement.
pub trait Sensor: Sync {
    /// A short name that people know: `hardware counters`, `pressure`.
    fn name(&self) -> &'static str;
    /// Its figures, with their units: `cycles, instructions, misses (events)`.
    fn figures(&self) -> &'static str;
    /// The scopes of the figures, widest use last.
    fn scopes(&self) -> &'static [Scope];
    /// Whether it works on `host`.
    fn probe(&self, host: &Host) -> Availability;
    /// Whether its figures come from turns of about a second, and each thread can have only one. Such a sensor is
    /// opened for a whole window, not for each second of it.
    fn takes_turns(&self) -> bool {
        false
    }
    /// Opens it for a subject in one of its [`scopes`](Sensor::scopes); if that fails, the reason and a remedy.
    fn open(&self, instruments: &Instruments, observed: &Observed) -> Result<Box<dyn Reading>, Availability>;
}

/// A sensor at work.
pub trait Reading {
    /// To be called about once per second between two calls of [`read`](Reading::read).
    fn second(&mut self) {}
    /// Adds the figures since the last call to `figures`, or why they are unknown. The first call only begins. A sensor
    /// that takes turns reports everything since the first call.
    fn read(&mut self, figures: &mut Figures);
}

impl<F: FnMut(&mut Figures)> Reading for F {
    fn read(&mut self, figures: &mut Figures) {
        self(figures);
    }
}

/// Facts that sensors find out once per machine, when first needed.
#[derive(Debug)]
pub struct Instruments {
    host: Host,
    counters: OnceLock<Result<Plan, CountersUnavailable>>,
}

impl Instruments {
    /// Of a host.
    pub fn of(host: Host) -> Instruments {
        Instruments { host, counters: OnceLock::new() }
    }

    /// The instruments of this machine. Finds out now which events it counts, which takes some milliseconds.
    pub fn here() -> Instruments {
        let instruments = Instruments::of(Host::real());
        let _ = instruments.counters();
        instruments
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The hardware counters; if there are none, why not.
    fn counters(&self) -> Result<&Plan, Availability> {
        if !self.host.is_real() {
            return Err(Availability::no("only the machine this process runs on can be asked for its counters", None));
        }
        self.counters.get_or_init(Plan::of_machine).as_ref().map_err(hardware_counters::unavailable)
    }
}

/// Every sensor, in the order in which they are listed.
pub static SENSORS: &[&dyn Sensor] = &[
    &hardware_counters::HardwareCounters,
    &thread_times::ThreadSchedulingTimes,
    &process_tree::ProcessTreeTime,
    &block_io_delay::BlockIoDelay,
    &devices::Devices,
    &pressure::PressureStalls,
    &control_groups::ControlGroupFigures,
    &frequency::CoreFrequencies,
    &steal::Steal,
    &resctrl_monitoring::ResctrlMonitoring,
];

/// One sensor, and whether it works on a host.
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
    /// How to make it work; `None` if it works or nothing can make it work.
    pub remedy: Option<String>,
    /// The cost of a reading, microseconds: the median of several readings for this report, of the calling thread, its
    /// process or its group, or of the machine. `None` if the sensor does not work.
    pub cost_us: Option<f64>,
}

/// Asks every sensor, and measures the cost of those that work.
pub(crate) fn describe_sensors(host: &Host) -> Vec<SensorReport> {
    let instruments = Instruments::of(host.clone());
    SENSORS.iter().map(|sensor| report(*sensor, &instruments)).collect()
}

fn report(sensor: &dyn Sensor, instruments: &Instruments) -> SensorReport {
    let Availability { available, reason, remedy } = sensor.probe(&instruments.host);
    let cost = available.then(|| cost(sensor, instruments)).flatten();
    SensorReport {
        name: sensor.name().to_owned(),
        figures: sensor.figures().to_owned(),
        scopes: sensor.scopes().to_vec(),
        available,
        reason,
        remedy,
        cost_us: cost.map(|cost| cost.as_secs_f64() * 1e6),
    }
}

/// Readings for the median of a cost.
const COST_READINGS: usize = 9;
/// No more readings are taken of a sensor once they have cost this together.
const COST_TIME_MAX: Duration = Duration::from_millis(30);

/// The median time of a reading. The first, which begins and finds caches cold, is not counted. `None` if it cannot be
/// opened for anything.
fn cost(sensor: &dyn Sensor, instruments: &Instruments) -> Option<Duration> {
    let open = |scope: &Scope| sensor.open(instruments, &Observed::own(*scope)).ok();
    let mut reading = sensor.scopes().iter().find_map(open)?;
    reading.read(&mut Figures::default());
    let began = Instant::now();
    let mut times = Vec::with_capacity(COST_READINGS);
    while times.len() < COST_READINGS && (times.is_empty() || began.elapsed() < COST_TIME_MAX) {
        let before = Instant::now();
        reading.read(&mut Figures::default());
        times.push(before.elapsed());
    }
    times.sort();
    Some(times[times.len() / 2])
}

#[cfg(test)]
mod tests;
