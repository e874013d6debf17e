//! A control group for a child of this process, whose threads together get a share of the cores and no more
//! (`cpu.max`). Unlike the control `cpu_quota`, which limits one subject, there may be many of them.

use std::path::Path;

use super::own::{OwnGroup, OwnGroupError};
use super::site_of_server;
use crate::groups::{CPU, quota_of, write};
use crate::host::Host;
use crate::process_identity::ProcessIdentity;

/// The kernel's own period. Each period gets the full quota.
const PERIOD_US: f64 = 100_000.0;

/// The smallest quota that the kernel takes, in cores: 1 ms a period.
pub const CORES_MIN: f64 = 0.01;

/// Makes the group, without members, below the one that the parent is in. A process has at most one of each name.
pub fn make(
    host: &Host,
    state: &Path,
    parent: ProcessIdentity,
    name: &str,
    cores: f64,
) -> Result<OwnGroup, OwnGroupError> {
    let site = site_of_server(host, parent.id, CPU).map_err(OwnGroupError::Unavailable)?;
    let group = OwnGroup::make(host, state, parent, site, name)?;
    let quota_us = (cores.max(CORES_MIN) * PERIOD_US).round() as u64;
    if group.is_unified() {
        write(host, group.folder(), "cpu.max", &format!("{quota_us} {PERIOD_US}"))?;
    } else {
        write(host, group.folder(), "cpu.cfs_period_us", &PERIOD_US.to_string())?;
        write(host, group.folder(), "cpu.cfs_quota_us", &quota_us.to_string())?;
    }
    let has = quota_of(host, group.folder(), group.is_unified());
    if has.is_none_or(|has| (has - cores).abs() > 0.001) {
        let why = format!("{}: its quota was set to {cores} cores, and it holds {has:?}", group.folder().display());
        return Err(OwnGroupError::Unavailable(why));
    }
    Ok(group)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::control::fake::{EVERY, Groups, Machine, quick_folder};
    use crate::groups::GroupFolder;
    use crate::groups::make::own::tests::is_over_when_killed_after;

    fn make(machine: &Machine, state: &Path, name: &str) -> Result<OwnGroup, OwnGroupError> {
        super::make(&machine.host(), state, ProcessIdentity::of(&machine.host(), 100).unwrap(), name, 0.4)
    }

    /// Process 200 is a child of 100, in its group.
    fn machine(groups: Groups) -> Machine {
        let machine = Machine::new(groups);
        machine.process(200, 100, &[200], "db");
        machine
    }

    #[test]
    fn each_child_has_a_quota_of_its_own_and_nothing_is_left_behind() {
        for groups in EVERY {
            let (machine, state) = (machine(groups), quick_folder());
            let before = machine.snapshot();
            let both = ["worker-0", "worker-1"].map(|name| make(&machine, state.path(), name).unwrap());
            for group in &both {
                assert_eq!(quota_of(&machine.host(), group.folder(), group.is_unified()), Some(0.4), "{groups:?}");
            }
            let process = ProcessIdentity::of(&machine.host(), 200).unwrap();
            let _ = GroupFolder::at(&machine.host(), both[1].folder()).unwrap().take(&machine.host(), process);
            assert!(both[0].is_empty() && !both[1].is_empty());
            drop(both);
            assert_eq!(machine.snapshot(), before, "{groups:?}");
            assert!(fs::read_dir(state.path()).unwrap().next().is_none(), "no folder of state is left");
        }
    }

    /// After a kill at any change, the next start restores everything.
    #[test]
    fn whatever_a_kill_leaves_is_undone_at_the_next_start() {
        for groups in EVERY {
            for changes in 0.. {
                let (machine, state) = (machine(groups), quick_folder());
                let make = || make(&machine, state.path(), "worker-0");
                if is_over_when_killed_after(changes, &machine, state.path(), "worker-0", make) {
                    break;
                }
            }
        }
    }
}
