//! What the host is: processors, caches, memory, kernel, and whether it is a guest.

mod cache;
mod capability;
pub mod guest;
pub mod processor;

use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroups;
use crate::counters::{CounterReading, CountersUnavailable, probe};
use crate::cpu_time::{ThreadTimes, current_thread_id, thread_times};
use crate::host::Host;
use processor::{Identity, Topology};

/// What the host is. Part of every result, so that numbers can be judged by where they came from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Processor model as it names itself.
    pub cpu_model: String,
    /// Maker, family, model and stepping, `AuthenticAMD-25-17-1`.
    pub cpu_id: String,
    /// Logical cores this process may run on: its affinity, or the whole cores of its cgroup's CPU quota if they are fewer.
    pub cores_usable: usize,
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
    /// Who runs this machine as a guest (`kvm`, `container`, …); `None` on bare metal as far as can be seen.
    pub virtualised: Option<String>,
    /// Where each capability stands: counters, cache allocation, cgroups.
    pub capabilities: Vec<Capability>,
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
    /// Associativity; `None` where the kernel does not tell.
    pub ways: Option<u32>,
    /// Logical cores that share it.
    pub shared_by: usize,
    /// How many of these caches the machine has.
    pub count: usize,
}

/// Something this host can or cannot measure or limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Capability {
    /// A short name: `hardware counters`, `cache allocation (resctrl)`, …
    pub name: String,
    /// Whether it works here.
    pub available: bool,
    /// What was found: how it works, or why it does not.
    pub reason: String,
    /// What would make it work; `None` if it does, or nothing can.
    pub remedy: Option<String>,
}

/// What only system calls can tell, taken apart so that facts can be made of any [`Host`].
#[derive(Debug, Clone)]
pub struct Live {
    /// Cores in the affinity mask of this process.
    pub affinity: Option<usize>,
    /// What the counters of this thread showed while it worked.
    pub counters: Result<CounterReading, CountersUnavailable>,
    /// The times that the scheduler keeps of this thread.
    pub thread_times: Option<ThreadTimes>,
}

impl Live {
    /// Asks the machine this process runs on. Counts a little work, some ten milliseconds, if there are counters.
    pub fn read() -> Live {
        Live { affinity: processor::affinity(), counters: probe(), thread_times: thread_times(current_thread_id()) }
    }
}

impl MachineFacts {
    /// What this machine is. What cannot be found out is `unknown`, 0 or `None`, in the way of its type; a core is at
    /// least one.
    pub fn read() -> MachineFacts {
        MachineFacts::of(&Host::real(), &Live::read())
    }

    /// What `host` is, given what system calls tell about it.
    pub fn of(host: &Host, live: &Live) -> MachineFacts {
        let identity = Identity::read(host);
        let topology = Topology::read(host);
        let cgroups = Cgroups::read(host);
        MachineFacts {
            cpu_model: identity.model_name.clone(),
            cpu_id: identity.id(),
            cores_usable: processor::usable(live.affinity, cgroups.cpu_quota(), topology.online),
            cores_online: topology.online,
            threads_per_core: topology.threads_per_core,
            sockets: topology.sockets,
            caches: cache::read(host),
            memory_bytes: host.line_value("/proc/meminfo", "MemTotal").unwrap_or(0),
            memory_limit_bytes: cgroups.memory_limit(),
            kernel: host.text("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
            virtualised: guest::virtualised(host),
            capabilities: capability::read(host, &cgroups, live),
        }
    }
}

/// Logical cores this process may run on, as [`MachineFacts::cores_usable`] counts them; cheap.
pub fn cores_usable() -> usize {
    let host = Host::real();
    processor::usable(processor::affinity(), Cgroups::read(&host).cpu_quota(), Topology::read(&host).online)
}

#[cfg(test)]
pub(crate) mod tests;
