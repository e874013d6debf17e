//! What the host is: processors, caches, memory, kernel, and whether it is a guest.

use serde::{Deserialize, Serialize};

/// What the host is. Part of every result, so that numbers can be judged by where they came from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Processor model as it names itself.
    pub cpu_model: String,
    /// Maker, family, model and stepping, `AuthenticAMD-25-17-1`.
    pub cpu_id: String,
    /// Logical cores this process may run on.
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
