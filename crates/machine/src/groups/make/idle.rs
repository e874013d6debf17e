//! A control group for processes of a server that get only idle time of the cores (`cpu.idle`).
//!
//! `SCHED_IDLE` does the same for a process, but only within its scheduling group. Nice values and policies of
//! processes have no effect between groups. With autogroups each session of processes is a group, and each of a
//! server's processes is a session; under systemd a service can be a group. A process that wakes then waits some
//! milliseconds for the end of another group's slice, however small that group's share is. A group that is itself idle
//! is preempted at once, and its processes do not use up the share of the server's group (kernel 5.15,
//! `Documentation/admin-guide/cgroup-v2.rst`).
//!
//! Within one group, too, processes with `SCHED_IDLE` are better off in a group of their own. The scheduler (EEVDF)
//! checks whether each entity has had less than its share. An idle process that has, such as a parallel worker that has
//! just begun, keeps the core until the next tick even if another process wakes: 4 ms at 250 ticks per second. A group
//! is one entity regardless of its number of processes, so this happens rarely.

use std::path::Path;

use super::cores::FILE;
use super::own::{OwnGroup, OwnGroupError};
use super::site_of_server;
use crate::groups::CPU;
use crate::host::Host;
use crate::process_identity::ProcessIdentity;

const NAME: &str = "idle";

/// Whether such a group can be made for the server whose first process this is: how, or why not. Changes nothing.
pub fn probe(host: &Host, postmaster: i32) -> Result<String, String> {
    site_of_server(host, postmaster, CPU).map(|site| format!("{}, {FILE}", site.describe()))
}

/// Makes the group, without members.
pub fn make(host: &Host, state: &Path, postmaster: ProcessIdentity) -> Result<OwnGroup, OwnGroupError> {
    let site = site_of_server(host, postmaster.id, CPU).map_err(OwnGroupError::Unavailable)?;
    let group = OwnGroup::make(host, state, postmaster, site, NAME)?;
    if !host.exists(group.folder().join(FILE)) {
        let why = format!("the kernel has no {FILE} (Linux before 5.15)");
        return Err(OwnGroupError::Unavailable(why));
    }
    group.give_cores(None)?;
    Ok(group)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::control::fake::{EVERY, Groups, Machine, quick_folder};
    use crate::groups::GroupFolder;
    use crate::groups::make::own::tests::is_over_when_killed_after;

    /// A server is process 100; 200 is a child of it, in its group.
    fn machine(groups: Groups) -> Machine {
        let machine = Machine::new(groups);
        machine.process(200, 100, &[200], "db");
        machine
    }

    fn take(machine: &Machine, group: &OwnGroup) {
        let process = ProcessIdentity::of(&machine.host(), 200).unwrap();
        let _ = GroupFolder::at(&machine.host(), group.folder()).unwrap().take(&machine.host(), process);
    }

    fn make(machine: &Machine, state: &Path) -> Result<OwnGroup, OwnGroupError> {
        super::make(&machine.host(), state, ProcessIdentity::of(&machine.host(), 100).unwrap())
    }

    #[test]
    fn the_group_is_idle_and_leaves_nothing_behind() {
        for groups in EVERY {
            let (machine, state) = (machine(groups), quick_folder());
            let before = machine.snapshot();
            let group = make(&machine, state.path()).unwrap();
            assert_eq!(machine.host().value::<u8>(group.folder().join(FILE)), Some(1), "{groups:?}");
            assert_eq!((group.is_unified(), group.is_empty()), (groups == Groups::V2, true));
            take(&machine, &group);
            assert!(!group.is_empty());
            drop(group);
            assert_eq!(machine.snapshot(), before, "{groups:?}");
            assert!(fs::read_dir(state.path()).unwrap().next().is_none(), "no folder of state is left");
        }
    }

    #[test]
    fn it_can_have_a_weight_and_be_idle_again() {
        for (groups, file, text) in [(Groups::V1, "cpu.shares", "266"), (Groups::V2, "cpu.weight", "26")] {
            let (machine, state) = (machine(groups), quick_folder());
            let before = machine.snapshot();
            let group = make(&machine, state.path()).unwrap();
            let has = |file: &str| machine.host().value::<u32>(group.folder().join(file));
            group.give_cores(Some(26)).unwrap();
            assert_eq!((has(FILE), has(file)), (Some(0), text.parse().ok()), "{groups:?}");
            group.give_cores(None).unwrap();
            assert_eq!(has(FILE), Some(1));
            take(&machine, &group);
            assert!(group.times().is_empty(), "the kernel keeps no times here");
            machine.write("/proc/200/schedstat", "7000000 5000000 3\n");
            assert_eq!(group.times(), BTreeMap::from([(200, (Duration::from_millis(7), Duration::from_millis(5)))]));
            drop(group);
            fs::remove_file(machine.host().path("/proc/200/schedstat")).unwrap();
            assert_eq!(machine.snapshot(), before, "{groups:?}");
        }
    }

    /// After a kill at any change, the next start restores everything.
    #[test]
    fn whatever_a_kill_leaves_is_undone_at_the_next_start() {
        for groups in EVERY {
            for changes in 0.. {
                let (machine, state) = (machine(groups), quick_folder());
                let make = || make(&machine, state.path()).inspect(|group| take(&machine, group));
                if is_over_when_killed_after(changes, &machine, state.path(), NAME, make) {
                    break;
                }
            }
        }
    }

    /// No group used to be made where all processes were in one group, because `SCHED_IDLE` was thought to be as good.
    /// It is not for processes that have just begun, such as parallel workers.
    #[test]
    fn a_group_can_be_made_with_and_without_autogroups() {
        let check = |groups: Groups, autogroups: &str, expect: Result<&str, &str>| {
            let machine = machine(groups);
            machine.write("/proc/sys/kernel/sched_autogroup_enabled", autogroups);
            let told = probe(&machine.host(), 100);
            let (is_as_expected, words) = match (&told, expect) {
                (Ok(how), Ok(words)) => (how.contains(words), words),
                (Err(why), Err(words)) => (why.contains(words), words),
                (_, Ok(words) | Err(words)) => (false, words),
            };
            assert!(is_as_expected, "{groups:?} {autogroups}: {told:?}, not {words}");
        };
        check(Groups::V1, "1\n", Ok("version 1 below"));
        check(Groups::V1, "0\n", Ok("version 1 below"));
        // The server is a service with a group of its own.
        check(Groups::V2, "0\n", Ok("version 2 below"));
        let machine = machine(Groups::V2);
        machine.write("/sys/fs/cgroup/unified/cgroup.subtree_control", "io memory\n");
        assert!(probe(&machine.host(), 100).unwrap_err().contains("offers the cpu controller"));
    }
}
