//! Facts about the host: processors, caches, memory, kernel, and whether it is a guest.

mod cache;
mod core_slice;
pub(crate) mod guest;
mod memory;
pub(crate) mod processor;
mod warning;

use serde::{Deserialize, Serialize};

pub use self::core_slice::CoreSlice;
pub use self::memory::{HugePages, NumaNode};
use crate::availability::Availability;
use crate::control::CONTROLS;
use crate::groups::Cgroups;
use crate::host::Host;
use crate::sensor::SENSORS;
use processor::{Identity, Topology};

/// Facts about the host. They are part of every result, so that readers know which machine produced the numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineFacts {
    /// The processor's model name.
    pub cpu_model: String,
    /// Vendor, family, model and stepping, `AuthenticAMD-25-17-1`.
    pub cpu_id: String,
    /// Logical cores this process may run on: its affinity, or the whole cores of its cgroup's CPU quota if they are fewer.
    pub cores_usable: usize,
    /// The smallest CPU quota of this process's cgroup and all visible ones above it, in cores; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<f64>,
    /// Logical cores that are online.
    pub cores_online: usize,
    /// Hardware threads of each physical core.
    pub threads_per_core: usize,
    /// Sockets.
    pub sockets: usize,
    /// Caches of core 0, nearest first.
    pub caches: Vec<Cache>,
    /// Physical memory, bytes.
    pub memory_bytes: u64,
    /// Memory limit of this process's cgroup, bytes; `None` if unlimited or unknown.
    pub memory_limit_bytes: Option<u64>,
    /// Kernel release.
    pub kernel: String,
    /// How the kernel cuts the time of a core; `None` if it does not report that (Linux before 6.12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_slice: Option<CoreSlice>,
    /// The hypervisor or container that runs this machine (`kvm`, `container`, …); `None` if it appears to be bare
    /// metal.
    pub virtualised: Option<String>,
    /// Memory nodes; one on most machines, empty where the kernel does not report them.
    #[serde(default)]
    pub numa_nodes: Vec<NumaNode>,
    /// Reserved huge pages; `None` where the kernel does not support them.
    #[serde(default)]
    pub huge_pages: Option<HugePages>,
    /// When the kernel makes huge pages by itself: `always`, `madvise` or `never`; `None` if it cannot.
    #[serde(default)]
    pub transparent_huge_pages: Option<String>,
    /// The version of control groups, `1`, `2` or `1 and 2`; `None` if none are mounted.
    #[serde(default)]
    pub cgroup_version: Option<String>,
    /// The controllers that could limit a workload.
    #[serde(default)]
    pub cgroup_controllers: Vec<CgroupController>,
    /// What disturbs or falsifies measurements here, each with its remedy.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Every sensor and control, and whether it works. Left empty where [`Description`](crate::Description) says more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
}

/// A controller of control groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupController {
    /// `cpu`, `cpuset`, `memory`, `io` (or `blkio`, its name in version 1).
    pub name: String,
    /// Whether this process may make groups with it.
    pub writable: bool,
}

/// One cache of a core.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u8,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Associativity; `None` where the kernel does not report it.
    pub ways: Option<u32>,
    /// Logical cores that share it.
    pub shared_by: usize,
    /// How many of these caches the machine has.
    pub count: usize,
}

/// Something this host can or cannot measure or limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Capability {
    /// A short name: of a sensor, `hardware counters`; of a control, its key, `llc_ways`.
    pub name: String,
    /// Whether it works here.
    pub available: bool,
    /// How it works, or why it does not.
    pub reason: String,
    /// How to make it work; `None` if it works or nothing can make it work.
    pub remedy: Option<String>,
}

impl MachineFacts {
    /// Reads the facts about this machine. Unknown facts are `unknown`, 0 or `None`, depending on their type; there is at
    /// least one core.
    pub fn read() -> MachineFacts {
        MachineFacts { capabilities: capabilities(&Host::real()), ..MachineFacts::of(&Host::real()) }
    }

    /// The facts about `host`, without asking every sensor and control whether it works.
    pub fn of(host: &Host) -> MachineFacts {
        let identity = Identity::read(host);
        let topology = Topology::read(host);
        let cgroups = Cgroups::read(host);
        MachineFacts {
            cpu_model: identity.model_name.clone(),
            cpu_id: identity.id(),
            cores_usable: cores_usable_on(host, &cgroups, topology.online),
            cpu_quota: cgroups.cpu_quota(),
            cores_online: topology.online,
            threads_per_core: topology.threads_per_core,
            sockets: topology.sockets,
            caches: cache::read(host),
            memory_bytes: host.line_value("/proc/meminfo", "MemTotal").unwrap_or(0),
            memory_limit_bytes: cgroups.memory_limit(),
            kernel: host.text("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
            core_slice: core_slice::read(host),
            virtualised: guest::virtualised(host),
            numa_nodes: memory::numa_nodes(host),
            huge_pages: memory::huge_pages(host),
            transparent_huge_pages: memory::transparent_huge_pages(host),
            cgroup_version: cgroups.version().map(str::to_owned),
            cgroup_controllers: controllers(&cgroups),
            warnings: warning::read(host, &cgroups),
            capabilities: Vec::new(),
        }
    }
}

fn cores_usable_on(host: &Host, cgroups: &Cgroups, online: usize) -> usize {
    processor::usable(processor::affinity(host).map(|cores| cores.len()), cgroups.cpu_quota(), online)
}

/// The controllers that could limit a workload, by their names in either version.
fn controllers(cgroups: &Cgroups) -> Vec<CgroupController> {
    const WANTED: [&str; 5] = ["cpu", "cpuset", "memory", "io", "blkio"];
    let found = |name: &&str| Some(CgroupController { name: (*name).to_owned(), writable: cgroups.controller(name)? });
    WANTED.iter().filter_map(found).collect()
}

fn capabilities(host: &Host) -> Vec<Capability> {
    let capability = |name: &str, Availability { available, reason, remedy }| Capability {
        name: name.to_owned(),
        available,
        reason,
        remedy,
    };
    let sensors = SENSORS.iter().map(|sensor| capability(sensor.name(), sensor.probe(host)));
    let controls = CONTROLS.iter().map(|control| capability(control.key(), control.probe(host)));
    sensors.chain(controls).collect()
}

/// Logical cores this process may run on, as [`MachineFacts::cores_usable`] counts them; cheap.
pub fn cores_usable() -> usize {
    let host = Host::real();
    cores_usable_on(&host, &Cgroups::read(&host), Topology::read(&host).online)
}

/// The logical cores in the affinity mask that this process was started with, in order; those that are online if it cannot be
/// read.
pub fn usable_cores() -> Vec<usize> {
    let host = Host::real();
    processor::affinity(&host).unwrap_or_else(|| processor::online_cores(&host))
}

#[cfg(test)]
pub(crate) mod tests;
