//! The control groups of a process, of version 1, 2 or both: their limits, and whether we may change them.
//!
//! Limits are hierarchical: the effective limit is the smallest of the group's own and those of all visible groups above it.

pub(super) mod usage;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use procfs::ProcessCGroups;
use procfs::process::MountInfo;

use crate::availability::Availability;
use crate::host::Host;

/// A controller by its names in either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Controller {
    pub v1: &'static str,
    pub v2: &'static str,
}

pub(crate) const CPU: Controller = Controller { v1: "cpu", v2: "cpu" };
/// Version 2 accounts for CPU time wherever the scheduler divides it.
pub(crate) const CPU_TIME: Controller = Controller { v1: "cpuacct", v2: "cpu" };
pub(crate) const CORES: Controller = Controller { v1: "cpuset", v2: "cpuset" };
pub(crate) const MEMORY: Controller = Controller { v1: "memory", v2: "memory" };
pub(crate) const DISK: Controller = Controller { v1: "blkio", v2: "io" };
const PIDS: Controller = Controller { v1: "pids", v2: "pids" };

impl Controller {
    pub(super) fn name(self, unified: bool) -> &'static str {
        if unified { self.v2 } else { self.v1 }
    }
}

/// The groups of a process in one hierarchy.
#[derive(Debug, Clone)]
struct Hierarchy {
    /// Version 2 has one hierarchy for all controllers, version 1 mostly one for each.
    unified: bool,
    /// Controllers that can be used in it.
    controllers: BTreeSet<String>,
    /// The process's own group, then each one above it up to the mount point.
    groups: Vec<PathBuf>,
}

/// The control groups a process is in.
#[derive(Debug, Clone)]
pub struct Cgroups {
    host: Host,
    hierarchies: Vec<Hierarchy>,
}

/// Version 1 writes "no limit" as the largest multiple of the page size; no machine has an exbibyte.
const MEMORY_UNLIMITED: u64 = 1 << 60;

impl Cgroups {
    /// Looks at the mounts and the membership of this process. Empty where there are no control groups.
    pub fn read(host: &Host) -> Cgroups {
        Cgroups::of_process(host, "self")
    }

    /// The groups of another process, by its id, as far as the mounts of this one show them.
    pub fn of_process(host: &Host, process: &str) -> Cgroups {
        let is_own = process == "self";
        let membership = host.parsed::<ProcessCGroups>(format!("/proc/{process}/cgroup"));
        let membership = membership.map(|groups| groups.0).unwrap_or_default();
        let hierarchies = host
            .mounts()
            .iter()
            .filter_map(|mount| {
                let member = |found: &dyn Fn(&[String]) -> bool| {
                    membership.iter().find(|group| found(&group.controllers)).map(|group| group.pathname.as_str())
                };
                match mount.fs_type.as_str() {
                    "cgroup2" => {
                        let path = member(&|names| names.is_empty())?;
                        let groups = groups(host, mount, path, is_own);
                        let controllers = groups.first().map(|own| controllers(host, own)).unwrap_or_default();
                        Some(Hierarchy { unified: true, controllers, groups })
                    }
                    "cgroup" => {
                        let mounted: BTreeSet<String> = mount.super_options.keys().cloned().collect();
                        let path = member(&|names| names.iter().any(|name| mounted.contains(name)))?;
                        let groups = groups(host, mount, path, is_own);
                        Some(Hierarchy { unified: false, controllers: mounted, groups })
                    }
                    _ => None,
                }
            })
            .collect();
        Cgroups { host: host.clone(), hierarchies }
    }

    /// `1`, `2`, `1 and 2` (both are mounted) or `None`.
    pub fn version(&self) -> Option<&'static str> {
        let has = |unified| self.hierarchies.iter().any(|hierarchy| hierarchy.unified == unified);
        match (has(false), has(true)) {
            (true, true) => Some("1 and 2"),
            (true, false) => Some("1"),
            (false, true) => Some("2"),
            (false, false) => None,
        }
    }

    /// Whether the controller exists here, and whether this process may make groups with it.
    pub fn controller(&self, name: &str) -> Option<bool> {
        let hierarchy = self.hierarchy(name)?;
        Some(self.host.writable(hierarchy.groups.first()?))
    }

    /// The process's groups in the hierarchy that has a controller: whether that is version 2, and the process's own group
    /// with all visible groups above it, at least one. In version 2 the own group may lack a controller that a group above has.
    pub(crate) fn standing(&self, controller: Controller) -> Result<(bool, &[PathBuf]), Availability> {
        let has = |hierarchy: &&Hierarchy| match hierarchy.unified {
            false => hierarchy.controllers.contains(controller.v1) && !hierarchy.groups.is_empty(),
            true => hierarchy.groups.iter().any(|group| controllers(&self.host, group).contains(controller.v2)),
        };
        let found = self.hierarchies.iter().find(has).map(|found| (found.unified, found.groups.as_slice()));
        found.ok_or_else(|| match self.version() {
            None => Availability::no(
                "no control group file system is mounted",
                Some("as root: mount -t cgroup2 none /sys/fs/cgroup"),
            ),
            Some(version) => Availability::no(
                format!("control groups (version {version}) have no {} controller here", controller.v2),
                Some("a kernel, or a container, with that controller"),
            ),
        })
    }

    /// A figure of each of the process's groups that has it, in the hierarchy that has a controller.
    fn figures<'a, T>(
        &'a self,
        controller: Controller,
        figure: impl Fn(bool, &Path) -> Option<T> + 'a,
    ) -> impl Iterator<Item = T> + 'a {
        let (unified, groups) = self.standing(controller).unwrap_or_default();
        groups.iter().filter_map(move |group| figure(unified, group))
    }

    /// The folder of the process's group in the version 1 hierarchy that has the controller.
    pub fn version_1_folder(&self, controller: &str) -> Option<&Path> {
        let hierarchy = self.hierarchy(controller).filter(|hierarchy| !hierarchy.unified)?;
        hierarchy.groups.first().map(PathBuf::as_path)
    }

    /// The folder of the process's group in version 2, whichever controllers it has.
    pub fn version_2_folder(&self) -> Option<&Path> {
        let hierarchy = self.hierarchies.iter().find(|hierarchy| hierarchy.unified)?;
        hierarchy.groups.first().map(PathBuf::as_path)
    }

    /// The folder of the process's group in the mounted hierarchy that `folder` belongs to, if any.
    pub fn beside(&self, folder: &Path) -> Option<&Path> {
        let holds = |hierarchy: &&Hierarchy| hierarchy.groups.last().is_some_and(|mount| folder.starts_with(mount));
        // Mounts may be nested where both versions are in use; take the innermost.
        let depth = |hierarchy: &&Hierarchy| hierarchy.groups.last().map(|mount| mount.components().count());
        self.hierarchies.iter().filter(holds).max_by_key(depth)?.groups.first().map(PathBuf::as_path)
    }

    /// The smallest memory limit above this process, bytes.
    pub fn memory_limit(&self) -> Option<u64> {
        self.figures(MEMORY, |unified, group| memory_limit_of(&self.host, group, unified)).min()
    }

    /// The least room left below any memory limit, bytes. File pages that were not used lately count as room, as they do
    /// in the kernel's `MemAvailable`.
    pub(crate) fn memory_room(&self) -> Option<u64> {
        let room = |unified: bool, group: &Path| {
            let limit = memory_limit_of(&self.host, group, unified)?;
            let (usage, inactive) = match unified {
                true => ("memory.current", "inactive_file"),
                false => ("memory.usage_in_bytes", "total_inactive_file"),
            };
            let used: u64 = self.host.value(group.join(usage))?;
            let reclaimable = self.host.line_value(group.join("memory.stat"), inactive).unwrap_or(0);
            Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
        };
        self.figures(MEMORY, room).min()
    }

    /// How many more processes and threads the groups above this process allow.
    pub(crate) fn pids_room(&self) -> Option<u64> {
        let room = |_, group: &Path| {
            let most: u64 = self.host.value(group.join("pids.max"))?;
            Some(most.saturating_sub(self.host.value(group.join("pids.current")).unwrap_or(0)))
        };
        self.figures(PIDS, room).min()
    }

    /// The smallest CPU quota above this process, in cores: its own group's, or that of any visible group above. In version 2
    /// the own group often lacks the controller of a quota that a group above has.
    pub fn cpu_quota(&self) -> Option<f64> {
        self.figures(CPU, |unified, group| quota_of(&self.host, group, unified)).min_by(f64::total_cmp)
    }

    /// The hierarchy that has the controller; a controller is in at most one.
    fn hierarchy(&self, controller: &str) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|hierarchy| hierarchy.controllers.contains(controller))
    }
}

/// The controllers that a group of version 2 has.
fn controllers(host: &Host, group: &Path) -> BTreeSet<String> {
    let names = host.text(group.join("cgroup.controllers")).unwrap_or_default();
    names.split_whitespace().map(str::to_owned).collect()
}

/// The group's own memory limit, bytes.
fn memory_limit_of(host: &Host, group: &Path, unified: bool) -> Option<u64> {
    let file = if unified { "memory.max" } else { "memory.limit_in_bytes" };
    host.value(group.join(file)).filter(|limit| *limit < MEMORY_UNLIMITED)
}

/// The group's own CPU quota, in cores.
pub(crate) fn quota_of(host: &Host, group: &Path, unified: bool) -> Option<f64> {
    let (quota, period): (f64, f64) = if unified {
        let text = host.text(group.join("cpu.max"))?;
        let (quota, period) = text.split_once(' ')?;
        (quota.parse().ok()?, period.parse().ok()?)
    } else {
        (host.value(group.join("cpu.cfs_quota_us"))?, host.value(group.join("cpu.cfs_period_us"))?)
    };
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// The folder of the group `path` and of all groups above it, up to the mount point.
///
/// Within a container the mount may show only a part of the hierarchy, while the path is that of the whole, or leads
/// out of the part (`/../other`). If the two do not match, the mount point is the nearest visible group of this
/// process. The groups of another process are then unknown, and the list is empty.
fn groups(host: &Host, mount: &MountInfo, path: &str, is_own: bool) -> Vec<PathBuf> {
    let below = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(path));
    let group = mount.mount_point.join(below.strip_prefix("/").unwrap_or(below));
    let is_within = !below.components().any(|component| component == Component::ParentDir);
    let group = match (is_within && host.exists(&group), is_own) {
        (true, _) => group,
        (false, true) => mount.mount_point.clone(),
        (false, false) => return Vec::new(),
    };
    group.ancestors().take_while(|folder| folder.starts_with(&mount.mount_point)).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Cgroups;
    use crate::host::fake::FakeHost;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_group_beside_another_is_of_the_same_hierarchy() {
        let fake = FakeHost::new(&[
            (
                "/proc/self/mountinfo",
                "41 31 0:38 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                 42 31 0:39 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                 43 31 0:40 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n",
            ),
            ("/proc/7/cgroup", "3:cpu:/db\n2:blkio:/\n0::/x/y\n"),
            ("/sys/fs/cgroup/cpu/db/cgroup.procs", ""),
            ("/sys/fs/cgroup/blkio/cgroup.procs", ""),
            ("/sys/fs/cgroup/unified/x/y/cgroup.procs", ""),
        ]);
        let groups = Cgroups::of_process(&fake.host(), "7");
        let check = |folder: &str, expect: Option<&str>| {
            assert_eq!(groups.beside(Path::new(folder)), expect.map(Path::new), "{folder}");
        };
        check("/sys/fs/cgroup/cpu/low", Some("/sys/fs/cgroup/cpu/db"));
        check("/sys/fs/cgroup/blkio/low", Some("/sys/fs/cgroup/blkio"));
        check("/sys/fs/cgroup/unified/low", Some("/sys/fs/cgroup/unified/x/y"));
        check("/sys/fs/cgroup/memory/low", None);
    }

    const UNIFIED: [(&str, &str); 2] = [
        ("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"),
        ("/proc/self/cgroup", "0::/a/b\n"),
    ];

    #[test]
    fn version_2_takes_the_smallest_limit_of_all_levels() {
        let fake = FakeHost::new(&UNIFIED);
        fake.write("/sys/fs/cgroup/a/b/cgroup.controllers", "cpuset cpu io memory pids\n");
        fake.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
        fake.write("/sys/fs/cgroup/a/memory.max", &format!("{}\n", 512 * MIB));
        fake.write("/sys/fs/cgroup/a/memory.current", &format!("{}\n", 200 * MIB));
        fake.write("/sys/fs/cgroup/a/memory.stat", &format!("anon 1\ninactive_file {}\n", 50 * MIB));
        fake.write("/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
        fake.write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
        let cgroups = Cgroups::read(&fake.host());
        assert_eq!(cgroups.version(), Some("2"));
        assert_eq!(cgroups.memory_limit(), Some(512 * MIB));
        assert_eq!(cgroups.memory_room(), Some(362 * MIB));
        assert_eq!(cgroups.cpu_quota(), Some(1.5));
        assert_eq!(cgroups.controller("memory"), Some(true));
        assert_eq!(cgroups.controller("blkio"), None);
    }

    /// A container with a limit of a quarter of a core, in which a service manager made groups without the CPU controller.
    #[test]
    fn a_limit_of_a_group_above_counts_where_the_own_group_lacks_the_controller() {
        let fake = FakeHost::new(&UNIFIED);
        fake.write("/sys/fs/cgroup/a/b/cgroup.controllers", "pids\n");
        fake.write("/sys/fs/cgroup/a/cgroup.controllers", "cpu memory pids\n");
        fake.write("/sys/fs/cgroup/a/cpu.max", "25000 100000\n");
        fake.write("/sys/fs/cgroup/a/memory.max", "2097152\n");
        let cgroups = Cgroups::read(&fake.host());
        assert_eq!((cgroups.cpu_quota(), cgroups.memory_limit()), (Some(0.25), Some(2 * MIB)));
    }

    #[test]
    fn version_1_beside_an_empty_version_2() {
        let fake = FakeHost::new(&[
            (
                "/proc/self/mountinfo",
                "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
                 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
            ),
            ("/proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/\n0::/\n"),
            ("/sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1073741824\n"),
            ("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "2073741824\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        let cgroups = Cgroups::read(&fake.host());
        assert_eq!(cgroups.version(), Some("1 and 2"));
        assert_eq!(cgroups.memory_limit(), Some(1024 * MIB));
        assert_eq!(cgroups.memory_room(), Some(0), "usage above the limit leaves nothing, and wraps nowhere");
        assert_eq!(cgroups.cpu_quota(), None);
        assert_eq!(cgroups.controller("cpu"), Some(true));
    }

    #[test]
    fn a_container_sees_its_group_as_the_mount_point() {
        let fake = FakeHost::new(&[
            ("/proc/self/mountinfo", "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"),
            ("/proc/self/cgroup", "4:memory:/docker/abc\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n"),
        ]);
        assert_eq!(Cgroups::read(&fake.host()).memory_limit(), Some(MIB));

        let fake = FakeHost::new(&UNIFIED);
        fake.write("/sys/fs/cgroup/cgroup.controllers", "memory\n");
        fake.write("/sys/fs/cgroup/memory.max", "2097152\n");
        for outside in ["/../elsewhere", "/..", "/../.."] {
            fake.write("/proc/self/cgroup", &format!("0::{outside}\n"));
            let cgroups = Cgroups::read(&fake.host());
            assert_eq!(cgroups.memory_limit(), Some(2 * MIB), "{outside}");
            assert_eq!(cgroups.version_2_folder(), Some(Path::new("/sys/fs/cgroup")), "{outside}");
        }
    }

    #[test]
    fn another_process_outside_of_what_is_mounted_has_no_group() {
        let fake = FakeHost::new(&UNIFIED);
        fake.write("/sys/fs/cgroup/memory.max", "2097152\n");
        fake.write("/sys/fs/cgroup/c/cgroup.controllers", "memory\n");
        fake.write("/proc/7/cgroup", "0::/c\n");
        fake.write("/proc/8/cgroup", "0::/../elsewhere\n");
        let folder = |process| Cgroups::of_process(&fake.host(), process).version_2_folder().map(Path::to_owned);
        assert_eq!(folder("7").as_deref(), Some(Path::new("/sys/fs/cgroup/c")));
        assert_eq!(folder("8"), None);
        assert_eq!(folder("9"), None, "a process that ended");
        assert_eq!(folder("self").as_deref(), Some(Path::new("/sys/fs/cgroup")));
        assert_eq!(Cgroups::of_process(&fake.host(), "7").version_1_folder("memory"), None);
    }

    #[test]
    fn none_at_all() {
        let cgroups = Cgroups::read(&FakeHost::new(&[]).host());
        assert_eq!(cgroups.version(), None);
        assert_eq!(cgroups.memory_limit(), None);
        assert_eq!(cgroups.memory_room(), None);
        assert_eq!(cgroups.cpu_quota(), None);
    }
}
