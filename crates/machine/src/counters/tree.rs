//! The threads of a process and of all its descendants.

use std::collections::BTreeSet;

use procfs::process::Stat;

use crate::control::threads::thread_ids;
use crate::host::Host;
use crate::process_tree::tree_of;

/// A thread, and when it began in clock ticks since boot: ids are used again, pairs are not.
pub(super) type ThreadIdentity = (i32, u64);

/// Every thread of `process` and its descendants. Empty if it has ended.
pub(super) fn threads_of_tree(host: &Host, process: i32) -> BTreeSet<ThreadIdentity> {
    tree_of(host, &[process]).into_iter().flat_map(|process| threads_of(host, process)).collect()
}

fn threads_of(host: &Host, pid: i32) -> Vec<ThreadIdentity> {
    let identity = |tid: i32| {
        let stat: Stat = host.parsed(format!("/proc/{pid}/task/{tid}/stat"))?;
        Some((stat.pid, stat.starttime))
    };
    thread_ids(host, pid).into_iter().filter_map(identity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    fn write_thread(fake: &FakeHost, pid: i32, tid: i32, parent: i32, started: u64) {
        let rest = ["0"; 30].join(" ");
        let line = format!("{tid} (a) b) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {started} {rest}\n");
        fake.write(&format!("/proc/{pid}/task/{tid}/stat"), &line);
        if pid == tid {
            fake.write(&format!("/proc/{pid}/stat"), &line);
        }
    }

    #[test]
    fn children_and_their_children() {
        let fake = FakeHost::new(&[("/proc/uptime", "1 1")]);
        write_thread(&fake, 10, 10, 1, 5);
        write_thread(&fake, 10, 11, 1, 6);
        write_thread(&fake, 20, 20, 10, 7);
        write_thread(&fake, 30, 30, 20, 8);
        write_thread(&fake, 40, 40, 1, 9);
        let threads = |pid| threads_of_tree(&fake.host(), pid).into_iter().collect::<Vec<_>>();
        assert_eq!(threads(10), [(10, 5), (11, 6), (20, 7), (30, 8)]);
        assert_eq!(threads(20), [(20, 7), (30, 8)]);
        assert_eq!(threads(99), []);
    }

    #[test]
    fn this_process_has_this_thread() {
        let tid = crate::cpu_time::current_thread_id();
        let process = std::process::id() as i32;
        assert!(threads_of_tree(&Host::real(), process).iter().any(|thread| thread.0 == tid));
    }
}
