//! How many more threads and open files this process can have.

use crate::groups::Cgroups;
use crate::host::Host;

/// How much the scarcest limit on something leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// How many more. A count.
    pub left: u64,
    /// The limit, for people: `pids.max of the control group`.
    pub limit: String,
}

/// How many more threads can begin; `None` if no limit is known.
pub fn thread_room() -> Option<Room> {
    thread_room_on(&Host::real())
}

/// How many more files, sockets included, can be opened; `None` if no limit is known.
pub fn file_room() -> Option<Room> {
    file_room_on(&Host::real())
}

fn thread_room_on(host: &Host) -> Option<Room> {
    // `0.20 0.18 0.12 1/80 11206`: of 80 tasks one runs.
    let tasks = host.text("/proc/loadavg").and_then(|text| {
        let (_, all) = text.split_whitespace().nth(3)?.split_once('/')?;
        all.parse::<u64>().ok()
    });
    let of_all = |file: &str| {
        let most: u64 = host.value(format!("/proc/sys/kernel/{file}"))?;
        Some(Room { left: most.saturating_sub(tasks.unwrap_or(0)), limit: format!("kernel.{file}") })
    };
    let of_group =
        Cgroups::read(host).pids_room().map(|left| Room { left, limit: "pids.max of the control group".to_owned() });
    [of_group, of_all("threads-max"), of_all("pid_max"), of_user(host), of_maps(host)]
        .into_iter()
        .flatten()
        .min_by_key(|room| room.left)
}

/// The limit on the processes and threads of a user, which root does not have.
fn of_user(host: &Host) -> Option<Room> {
    let status = host.text("/proc/self/status")?;
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.to_owned();
    let most = limit_of(host, "Max processes").filter(|_| user != "0")?;
    Some(Room { left: most, limit: "the limit on processes (ulimit -u)".to_owned() })
}

/// The stack of a thread is one mapping, and the page below it that guards it another one.
const MAPS_PER_THREAD: u64 = 2;

fn of_maps(host: &Host) -> Option<Room> {
    let most: u64 = host.value("/proc/sys/vm/max_map_count")?;
    let now = host.text("/proc/self/maps")?.lines().count() as u64;
    Some(Room { left: most.saturating_sub(now) / MAPS_PER_THREAD, limit: "vm.max_map_count".to_owned() })
}

fn file_room_on(host: &Host) -> Option<Room> {
    let most = limit_of(host, "Max open files")?;
    let now = host.names("/proc/self/fd").len() as u64;
    Some(Room { left: most.saturating_sub(now), limit: "the limit on open files (ulimit -n)".to_owned() })
}

/// The limit in force of `/proc/self/limits`; `None` if there is none.
fn limit_of(host: &Host, name: &str) -> Option<u64> {
    let limits = host.text("/proc/self/limits")?;
    limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn the_scarcest_limit_counts() {
        let fake = FakeHost::new(&[
            ("/proc/loadavg", "0.20 0.18 0.12 1/80 11206\n"),
            ("/proc/sys/kernel/threads-max", "190000\n"),
            ("/proc/sys/kernel/pid_max", "32768\n"),
            ("/proc/sys/vm/max_map_count", "65530\n"),
            ("/proc/self/maps", &"00400000-00401000 r-xp 0 0:0 0\n".repeat(30)),
            ("/proc/self/status", "Name:\tx\nUid:\t0\t0\t0\t0\n"),
            (
                "/proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max processes             100                  200                  processes\n\
                 Max open files            1024                 524288               files\n",
            ),
            ("/proc/self/fd/0", ""),
        ]);
        let threads = |left, limit: &str| {
            assert_eq!(thread_room_on(&fake.host()), Some(Room { left, limit: limit.to_owned() }));
        };
        threads(32_688, "kernel.pid_max");
        fake.write("/proc/sys/kernel/pid_max", "4194304\n");
        threads(32_750, "vm.max_map_count");
        fake.write("/proc/self/status", "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n");
        threads(100, "the limit on processes (ulimit -u)");
        fake.write("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        fake.write("/proc/self/cgroup", "0::/a/b\n");
        fake.write("/sys/fs/cgroup/a/b/cgroup.controllers", "memory pids\n");
        fake.write("/sys/fs/cgroup/a/b/pids.max", "max\n");
        fake.write("/sys/fs/cgroup/a/pids.max", "64\n");
        fake.write("/sys/fs/cgroup/a/pids.current", "14\n");
        threads(50, "pids.max of the control group");
        let files = file_room_on(&fake.host()).expect("a limit");
        assert_eq!((files.left, files.limit.as_str()), (1023, "the limit on open files (ulimit -n)"));
    }

    #[test]
    fn what_is_not_known_limits_nothing() {
        let nothing = FakeHost::new(&[]);
        assert_eq!((thread_room_on(&nothing.host()), file_room_on(&nothing.host())), (None, None));
        let here = thread_room().expect("every kernel has limits");
        assert!(here.left > 0, "{here:?}");
    }
}
