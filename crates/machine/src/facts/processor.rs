//! The processor's identity, and how its cores are arranged.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use procfs::CpuInfo;

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::host::{Host, parse_core_list};

/// The identity that a processor reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The vendor's name, `AuthenticAMD`; on Arm the number of the implementer. `unknown` if not reported.
    pub vendor: String,
    /// The vendor's family number; on Arm the architecture.
    pub family: Option<u32>,
    /// The vendor's model number; on Arm the part.
    pub model: String,
    /// The revision.
    pub stepping: String,
    /// The marketing name. `unknown` if not reported.
    pub model_name: String,
    /// Its features, by the kernel's names.
    pub flags: BTreeSet<String>,
}

impl Identity {
    /// Reads the first processor of `/proc/cpuinfo`.
    pub fn read(host: &Host) -> Identity {
        let info: Option<CpuInfo> = host.parsed("/proc/cpuinfo");
        let field = |names: &[&str]| {
            let info = info.as_ref()?;
            names.iter().find_map(|name| info.get_field(0, name)).map(str::to_owned)
        };
        let unknown = || "unknown".to_owned();
        let vendor = field(&["vendor_id", "CPU implementer"]).unwrap_or_else(unknown);
        let flags = field(&["flags", "Features"]).unwrap_or_default();
        Identity {
            model_name: field(&["model name", "Model", "cpu model"]).unwrap_or_else(unknown),
            family: field(&["cpu family", "CPU architecture"]).and_then(|family| family.parse().ok()),
            model: field(&["model", "CPU part"]).unwrap_or_else(unknown),
            stepping: field(&["stepping", "CPU revision"]).unwrap_or_else(unknown),
            flags: flags.split_whitespace().map(str::to_owned).collect(),
            vendor,
        }
    }

    /// `AuthenticAMD-25-17-1`, or `unknown`.
    pub fn id(&self) -> String {
        match self.family {
            Some(family) => format!("{}-{family}-{}-{}", self.vendor, self.model, self.stepping),
            None => self.vendor.clone(),
        }
    }
}

/// How cores are arranged. Every number is at least 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Logical cores that are online.
    pub online: usize,
    /// Hardware threads of one core.
    pub threads_per_core: usize,
    /// Sockets.
    pub sockets: usize,
}

impl Topology {
    /// Reads `/sys/devices/system/cpu`.
    pub fn read(host: &Host) -> Topology {
        let online = online_cores(host);
        let topology = |core: usize, file: &str| format!("/sys/devices/system/cpu/cpu{core}/topology/{file}");
        let siblings = online.iter().find_map(|core| host.cores(topology(*core, "thread_siblings_list")));
        let packages: BTreeSet<i64> =
            online.iter().filter_map(|core| host.value(topology(*core, "physical_package_id"))).collect();
        Topology {
            online: online.len().max(1),
            threads_per_core: siblings.map_or(1, |siblings| siblings.len()),
            sockets: packages.len().max(1),
        }
    }
}

/// The logical cores that are online; from `/proc/cpuinfo` where `/sys` is hidden.
pub(crate) fn online_cores(host: &Host) -> Vec<usize> {
    host.cores("/sys/devices/system/cpu/online").unwrap_or_else(|| {
        let text = host.text("/proc/cpuinfo").unwrap_or_default();
        (0..text.lines().filter(|line| line.split(':').next().is_some_and(|key| key.trim() == "processor")).count())
            .collect()
    })
}

/// The logical cores in the affinity mask of this process, in order; `None` if it cannot be read.
///
/// On the real host the mask is read once, at the first call: limits of ours narrow it later, and a caller that asks what may be used
/// means what the process was given.
pub(crate) fn affinity(host: &Host) -> Option<Vec<usize>> {
    static GIVEN: OnceLock<Option<Vec<usize>>> = OnceLock::new();
    let read = || {
        let mask = sched_getaffinity(Some(getpid())).ok()?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| mask.is_set(*core)).collect();
        (!cores.is_empty()).then_some(cores)
    };
    match host.is_real() {
        true => GIVEN.get_or_init(read).clone(),
        false => {
            let status = host.text("/proc/self/status")?;
            parse_core_list(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim())
        }
    }
}

/// Cores that may be used at a time, at least 1. A quota is rounded down to whole cores, as in the standard library's
/// `available_parallelism`.
pub(super) fn usable(affinity: Option<usize>, quota: Option<f64>, online: usize) -> usize {
    let cores = affinity.unwrap_or(online);
    quota.map_or(cores, |quota| cores.min(quota.floor() as usize)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn makers_name_things_differently() {
        let check = |cpuinfo: &str, id: &str, name: &str| {
            let identity = Identity::read(&FakeHost::new(&[("/proc/cpuinfo", cpuinfo)]).host());
            assert_eq!((identity.id().as_str(), identity.model_name.as_str()), (id, name));
        };
        check(
            "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\n",
            "AuthenticAMD-25-17-1",
            "AMD EPYC",
        );
        check(
            "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
             CPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n",
            "0x41-8-0xd0c-1",
            "unknown",
        );
        check("", "unknown", "unknown");
        check("\n\n", "unknown", "unknown");
    }

    #[test]
    fn two_sockets_with_two_threads_a_core() {
        let fake = FakeHost::new(&[("/sys/devices/system/cpu/online", "0-3\n")]);
        for core in 0..4 {
            let topology = format!("/sys/devices/system/cpu/cpu{core}/topology");
            fake.write(&format!("{topology}/physical_package_id"), if core < 2 { "0\n" } else { "1\n" });
            fake.write(&format!("{topology}/thread_siblings_list"), if core < 2 { "0-1\n" } else { "2-3\n" });
        }
        assert_eq!(Topology::read(&fake.host()), Topology { online: 4, threads_per_core: 2, sockets: 2 });
        let hidden = FakeHost::new(&[("/proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n")]);
        assert_eq!(Topology::read(&hidden.host()), Topology { online: 2, threads_per_core: 1, sockets: 1 });
        assert_eq!(Topology::read(&FakeHost::new(&[]).host()).online, 1);
    }

    #[test]
    fn a_quota_counts_whole_cores() {
        let check = |affinity, quota, expect| assert_eq!(usable(affinity, quota, 8), expect, "{affinity:?} {quota:?}");
        check(Some(4), None, 4);
        check(None, None, 8);
        check(Some(4), Some(2.9), 2);
        check(Some(4), Some(0.5), 1);
        check(Some(4), Some(16.0), 4);
    }
}
