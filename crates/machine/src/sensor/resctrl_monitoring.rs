//! Whether the processor tells cache occupancy and memory traffic of groups.

use crate::availability::Availability;
use crate::host::Host;
use crate::resctrl::{Absent, CacheSample, Group, Resctrl};
use crate::sensor::lap::Lap;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor};

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
        "last-level cache held (MiB), memory traffic (MB/s)"
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

    fn open(&self, instruments: &Instruments, observed: &Observed) -> Result<Box<dyn Reading>, Availability> {
        let availability = self.probe(instruments.host());
        if !availability.available {
            return Err(availability);
        }
        let resctrl = Resctrl::open(instruments.host()).map_err(|absent| absent.availability())?;
        let group = match observed {
            Observed::ControlGroup(process) => {
                let gone = || Availability::no("the process is in no group of resctrl", None);
                Some(resctrl.group_of(*process).ok_or_else(gone)?)
            }
            _ => None,
        };
        Ok(Box::new(Watching { resctrl, group, lap: Lap::new() }))
    }
}

struct Watching {
    resctrl: Resctrl,
    /// `None` for the whole machine: then all groups.
    group: Option<Group>,
    lap: Lap<CacheSample>,
}

impl Reading for Watching {
    fn read(&mut self, figures: &mut Figures) {
        let sample = match &self.group {
            Some(group) => CacheSample::read(std::slice::from_ref(group)),
            None => CacheSample::read(&self.resctrl.groups()),
        };
        figures.cache = self.lap.next(sample, CacheSample::since);
    }
}
