//! Sensors: what this host can measure, each with its unit, its scope and its cost.
//!
//! Adding one is a file in `sensor/` and a line in [`SENSORS`].

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
    /// Takes one reading and throws it away, so that its cost can be measured.
    fn read_once(&self, host: &Host);
}

/// Every sensor, in the order in which they are told.
pub static SENSORS: &[&dyn Sensor] = &[];
