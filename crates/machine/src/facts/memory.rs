//! How memory is arranged: nodes and huge pages.

use serde::{Deserialize, Serialize};

use crate::host::Host;

/// Memory that is near to some cores and farther from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number.
    pub node: usize,
    /// The logical cores near to it, as the kernel lists them: `0-15,32-47`; empty for memory without cores.
    pub cores: String,
    /// Its size, bytes; `None` if not reported.
    pub memory_bytes: Option<u64>,
}

/// Reserved huge pages of the default size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Bytes per page.
    pub size_bytes: u64,
    /// The number of reserved pages.
    pub total: u64,
    /// The number of them that are not in use.
    pub free: u64,
}

const NODES: &str = "/sys/devices/system/node";

pub(super) fn numa_nodes(host: &Host) -> Vec<NumaNode> {
    let node = |name: String| {
        let node = name.strip_prefix("node")?.parse().ok()?;
        let folder = format!("{NODES}/{name}");
        Some(NumaNode { node, cores: host.text(format!("{folder}/cpulist"))?, memory_bytes: memory(host, &folder) })
    };
    let mut nodes: Vec<NumaNode> = host.names(NODES).into_iter().filter_map(node).collect();
    nodes.sort_by_key(|node| node.node);
    nodes
}

/// The line `Node 0 MemTotal:  24684084 kB`.
fn memory(host: &Host, folder: &str) -> Option<u64> {
    let text = host.text(format!("{folder}/meminfo"))?;
    let kilobytes = text.lines().find_map(|line| line.split_once("MemTotal:"))?.1;
    kilobytes.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

pub(super) fn huge_pages(host: &Host) -> Option<HugePages> {
    let value = |key: &str| host.line_value("/proc/meminfo", key);
    Some(HugePages {
        size_bytes: value("Hugepagesize")?,
        total: value("HugePages_Total")?,
        free: value("HugePages_Free")?,
    })
}

/// The word in brackets of `always [madvise] never`.
pub(super) fn transparent_huge_pages(host: &Host) -> Option<String> {
    let text = host.text("/sys/kernel/mm/transparent_hugepage/enabled")?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn two_nodes_and_huge_pages() {
        let fake = FakeHost::new(&[
            ("/sys/devices/system/node/node1/cpulist", "4-7\n"),
            ("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       2048 kB\nNode 1 MemFree: 1 kB\n"),
            ("/sys/devices/system/node/node0/cpulist", "0-3\n"),
            ("/sys/devices/system/node/online", "0-1\n"),
            ("/proc/meminfo", "HugePages_Total:       4\nHugePages_Free:        3\nHugepagesize:       2048 kB\n"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ]);
        let node = |node, cores: &str, memory_bytes| NumaNode { node, cores: cores.to_owned(), memory_bytes };
        assert_eq!(numa_nodes(&fake.host()), [node(0, "0-3", None), node(1, "4-7", Some(2048 * 1024))]);
        assert_eq!(huge_pages(&fake.host()), Some(HugePages { size_bytes: 2 << 20, total: 4, free: 3 }));
        assert_eq!(transparent_huge_pages(&fake.host()).as_deref(), Some("madvise"));
    }

    #[test]
    fn nothing_is_told() {
        let fake = FakeHost::new(&[("/sys/kernel/mm/transparent_hugepage/enabled", "always\n")]);
        let host = fake.host();
        assert!(numa_nodes(&host).is_empty());
        assert_eq!((huge_pages(&host), transparent_huge_pages(&host)), (None, None));
    }
}
