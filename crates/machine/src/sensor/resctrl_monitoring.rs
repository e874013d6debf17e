//! Whether the processor tells cache occupancy and memory traffic of groups.

use std::hint::black_box;

use crate::availability::Availability;
use crate::host::Host;
use crate::resctrl::{Absent, Resctrl, Traffic};
use crate::sensor::{Reader, Scope, Sensor};

/// Cache occupancy and memory traffic by resctrl groups.
#[derive(Debug)]
pub(super) struct ResctrlMonitoring;

/// The kernel's names for what the processor can count: cache occupancy, all memory traffic, that of the own socket.
const FLAGS: [&str; 3] = ["cqm_occup_llc", "cqm_mbm_total", "cqm_mbm_local"];

impl Sensor for ResctrlMonitoring {
    fn name(&self) -> &'static str {
        "resctrl monitoring"
    }

    fn figures(&self) -> &'static str {
        "last-level cache held, memory traffic (bytes)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::ControlGroup, Scope::Machine]
    }

    fn probe(&self, host: &Host) -> Availability {
        let resctrl = match Resctrl::open(host) {
            Ok(resctrl) => resctrl,
            Err(absent) => return absent.availability(),
        };
        let Some(monitoring) = &resctrl.capabilities().monitoring else {
            let otherwise = "resctrl is mounted and counts nothing (no info/L3_MON)";
            return Absent::missing(host, &FLAGS, "cmt", otherwise).availability();
        };
        let counted = [
            (monitoring.occupancy, "cache occupancy"),
            (monitoring.total_bytes, "all memory traffic"),
            (monitoring.local_bytes, "traffic of the own domain"),
        ];
        let counted: Vec<&str> = counted.iter().filter(|(is_counted, _)| *is_counted).map(|(_, name)| *name).collect();
        match counted.as_slice() {
            [] => Availability::no("resctrl is mounted and counts nothing that is known here", None),
            counted => Availability::yes(format!("{} of {} groups", counted.join(", "), monitoring.groups_max)),
        }
    }

    fn reader(&self, host: &Host) -> Reader {
        let group = Resctrl::open(host).ok().map(|resctrl| resctrl.default_group());
        Box::new(move || {
            if let Some(group) = &group {
                black_box((group.occupancy().is_ok(), group.memory_bytes(Traffic::Total).is_ok()));
            }
        })
    }
}
