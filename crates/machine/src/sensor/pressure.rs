//! Whether the kernel keeps pressure stall information.

use std::path::Path;

use crate::availability::Availability;
use crate::groups::Cgroups;
use crate::host::Host;
use crate::pressure::PressureSample;
use crate::sensor::lap::Lap;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor};

/// Time in which some tasks, or all tasks, waited for a resource.
#[derive(Debug)]
pub(super) struct PressureStalls;

impl Sensor for PressureStalls {
    fn name(&self) -> &'static str {
        "pressure"
    }

    fn figures(&self) -> &'static str {
        "some or all tasks stalled for CPU, memory or I/O (share of time)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::ControlGroup, Scope::Machine]
    }

    fn probe(&self, host: &Host) -> Availability {
        if PressureSample::read(host).is_some() {
            return Availability::yes("/proc/pressure; of groups, *.pressure of cgroup version 2");
        }
        match host.exists("/proc/pressure") {
            true => Availability::no("/proc/pressure is there and cannot be read", Some("boot with psi=1")),
            false => Availability::no(
                "the kernel has no /proc/pressure: pressure stall information is off",
                Some("boot with psi=1 (a kernel with CONFIG_PSI, 4.20 or later)"),
            ),
        }
    }

    fn open(&self, instruments: &Instruments, observed: &Observed) -> Result<Box<dyn Reading>, Availability> {
        let host = instruments.host().clone();
        let group = match observed {
            Observed::ControlGroup(process) => {
                let groups = Cgroups::of_process(&host, &process.to_string());
                let none = "control groups have pressure files in version 2 only";
                Some(groups.version_2_folder().ok_or_else(|| Availability::no(none, None))?.to_owned())
            }
            _ => None,
        };
        match (sample(&host, group.as_deref()), &group) {
            (Some(_), _) => {}
            (None, None) => return Err(self.probe(&host)),
            (None, Some(folder)) => {
                let why = format!("{} has no pressure files", folder.display());
                return Err(Availability::no(why, Some("a kernel of 5.2 or later with CONFIG_PSI, booted with psi=1")));
            }
        }
        let mut lap = Lap::new();
        Ok(Box::new(move |figures: &mut Figures| {
            let sample = sample(&host, group.as_deref());
            figures.pressure = sample.and_then(|sample| lap.next(sample, PressureSample::since));
        }))
    }
}

/// Of a control group in its folder, or of the machine.
fn sample(host: &Host, group: Option<&Path>) -> Option<PressureSample> {
    match group {
        Some(folder) => PressureSample::of_group(host, folder),
        None => PressureSample::read(host),
    }
}
