//! Whether time can be split by what a core waits for.

use crate::availability::Availability;
use crate::host::Host;
use crate::sensor::{Reader, Scope, Sensor, hardware_counters};

/// Where the slots of a core's pipeline went, by families of hardware counters.
#[derive(Debug)]
pub(super) struct TopDown;

impl Sensor for TopDown {
    fn name(&self) -> &'static str {
        "top-down"
    }

    fn figures(&self) -> &'static str {
        "retiring, bad speculation, frontend bound, backend bound (shares)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Thread]
    }

    fn probe(&self, host: &Host) -> Availability {
        // It is made of them.
        hardware_counters::counting(host)
    }

    fn reader(&self, host: &Host) -> Reader {
        hardware_counters::HardwareCounters.reader(host)
    }
}
