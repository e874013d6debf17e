//! Whether time can be split by what a core waits for.

use crate::availability::Availability;
use crate::counters::probe;
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
        let counting = hardware_counters::counting(host);
        if !counting.available {
            return counting;
        }
        match probe().map_err(|why| why.to_string()).and_then(|reading| reading.top_down()) {
            Ok(split) if split.approximate => {
                Availability::yes(format!("{} by {}, approximate", split.family, split.method))
            }
            Ok(split) => Availability::yes(format!("{} by {}", split.family, split.method)),
            Err(why) => Availability::no(why, None),
        }
    }

    fn reader(&self, host: &Host) -> Reader {
        hardware_counters::HardwareCounters.reader(host)
    }
}
