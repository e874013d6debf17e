//! Whether control groups tell what they use.

use std::hint::black_box;

use crate::availability::Availability;
use crate::cgroup::Cgroups;
use crate::group_use::GroupSample;
use crate::host::Host;
use crate::sensor::{Reader, Scope, Sensor};

/// Memory, processor time, throttling and disk traffic of a control group.
#[derive(Debug)]
pub(super) struct ControlGroupFigures;

impl Sensor for ControlGroupFigures {
    fn name(&self) -> &'static str {
        "control groups"
    }

    fn figures(&self) -> &'static str {
        "memory (bytes), CPU and throttled time (ns), disk MB/s"
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

    fn reader(&self, host: &Host) -> Reader {
        let host = host.clone();
        Box::new(move || {
            black_box(GroupSample::read(&host, &Cgroups::read(&host)));
        })
    }
}
