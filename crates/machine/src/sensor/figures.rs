//! The results of sensors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::availability::Availability;
use crate::counters::CounterReading;
use crate::cpu_time::ThreadTimes;
use crate::device::DeviceUse;
use crate::groups::GroupUse;
use crate::groups::resctrl::CacheUse;
use crate::pressure::PressureUse;

/// The figures of all sensors for their subject, between two moments. `None` means "not measured";
/// [`missing`](Figures::missing) says why, unless the sensor was not asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Hardware events of threads.
    pub counters: Option<CounterReading>,
    /// Times of all the threads together.
    pub times: Option<ThreadTimes>,
    /// CPU time of processes and everything they started, those that ended included.
    pub cpu_time: Option<Duration>,
    /// Time that threads waited for block I/O, summed.
    pub block_io: Option<Duration>,
    /// The activity of processors and disks.
    pub devices: DeviceUse,
    /// Time stalled.
    pub pressure: Option<PressureUse>,
    /// The resource use of a control group.
    pub group: Option<GroupUse>,
    /// Speed of cores, MHz, on average over cores and time.
    pub mhz: Option<f64>,
    /// Share of the cores' time that the host of this guest took for others, 0 to 1.
    pub stolen: Option<f64>,
    /// Last-level cache held, and traffic between caches and memory.
    pub cache: Option<CacheUse>,
    /// By a sensor's name, why some or all of its figures are missing, with the remedy.
    pub missing: BTreeMap<&'static str, Availability>,
    /// Caveats for the reader of the figures.
    pub notes: BTreeSet<String>,
}

impl Figures {
    /// Records why a sensor has no figures.
    pub(crate) fn miss(&mut self, sensor: &'static str, why: Availability) {
        self.missing.insert(sensor, why);
    }
}
