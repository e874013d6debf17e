//! Whether the processor tells cache occupancy and memory traffic of groups.

use std::hint::black_box;

use crate::availability::Availability;
use crate::facts::guest;
use crate::facts::processor::Identity;
use crate::host::Host;
use crate::resctrl_monitor::{MonitorSample, mounted};
use crate::sensor::{Scope, Sensor};

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
        "last-level cache held (bytes), memory traffic (MB/s)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::ControlGroup, Scope::Machine]
    }

    fn probe(&self, host: &Host) -> Availability {
        let identity = Identity::read(host);
        // Arm has no flag for it (MPAM); there the kernel alone decides.
        let is_x86 = ["AuthenticAMD", "GenuineIntel", "HygonGenuine"].contains(&identity.vendor.as_str());
        if is_x86 && !FLAGS.iter().any(|flag| identity.flags.contains(*flag)) {
            return match guest::hypervisor(host) {
                Some(_) => Availability::no(
                    "the processor of this guest does not have it (no cqm flags)",
                    Some("run on bare metal whose processor has it (Intel RDT, AMD QoS); guests rarely see it"),
                ),
                None => Availability::no("the processor does not have it (no cqm flags)", None),
            };
        }
        let file_systems = host.text("/proc/filesystems").unwrap_or_default();
        if !file_systems.split_whitespace().any(|word| word == "resctrl") {
            let remedy = "a kernel with CONFIG_X86_CPU_RESCTRL, not booted with rdt=!cmt,!mbmtotal,!mbmlocal";
            return Availability::no("the kernel has no resctrl file system", Some(remedy));
        }
        let Some(root) = mounted(host) else {
            let remedy = "as root: mount -t resctrl resctrl /sys/fs/resctrl";
            return Availability::no("resctrl is not mounted", Some(remedy));
        };
        let events = host.text(root.join("info/L3_MON/mon_features")).unwrap_or_default();
        let groups: Option<u64> = host.value(root.join("info/L3_MON/num_rmids"));
        match (MonitorSample::read(host, &root).is_empty(), groups) {
            (true, _) => Availability::no("resctrl is mounted without monitoring data (mon_data)", None),
            (false, None) => Availability::yes(events.replace('\n', ", ")),
            (false, Some(groups)) => Availability::yes(format!("{} in {groups} groups", events.replace('\n', ", "))),
        }
    }

    fn read_once(&self, host: &Host) {
        if let Some(root) = mounted(host) {
            black_box(MonitorSample::read(host, &root));
        }
    }
}
