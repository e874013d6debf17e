//! The resource use of control groups, and whether the kernel reports it.

use crate::availability::Availability;
use crate::groups::Cgroups;
use crate::groups::GroupSample;
use crate::host::Host;
use crate::sensor::lap::Lap;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor};

/// Memory, processor time, throttling and disk traffic of a control group.
#[derive(Debug)]
pub(super) struct ControlGroupFigures;

impl Sensor for ControlGroupFigures {
    fn name(&self) -> &'static str {
        "control groups"
    }

    fn figures(&self) -> &'static str {
        "memory (MiB), busy cores, throttled (share of periods), disk MB/s"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::ControlGroup]
    }

    fn probe(&self, host: &Host) -> Availability {
        let groups = Cgroups::read(host);
        let Some(version) = groups.version() else {
            let remedy = "as root: mount -t cgroup2 none /sys/fs/cgroup";
            return Availability::no("no cgroup file system is mounted", Some(remedy));
        };
        let (there, missing) = GroupSample::read(host, &groups).figures();
        if there.is_empty() {
            let remedy = "enable the controllers in cgroup.subtree_control of the groups above, as root";
            return Availability::no(format!("cgroup version {version}, without figures of this group"), Some(remedy));
        }
        let lacks = match missing.as_slice() {
            [] => String::new(),
            missing => format!("; of this process's own group not {}", missing.join(", ")),
        };
        Availability::yes(format!("cgroup version {version}: {}{lacks}", there.join(", ")))
    }

    fn open(&self, instruments: &Instruments, observed: &Observed) -> Result<Box<dyn Reading>, Availability> {
        let host = instruments.host().clone();
        let Observed::ControlGroup(process) = observed else {
            return Err(Availability::no("control groups are those of a process", None));
        };
        self.probe(&host).required()?;
        let (groups, mut lap) = (Cgroups::of_process(&host, &process.to_string()), Lap::new());
        Ok(Box::new(move |figures: &mut Figures| {
            figures.group = lap.next(GroupSample::read(&host, &groups), GroupSample::since);
        }))
    }
}
