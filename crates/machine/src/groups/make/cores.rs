//! The combined CPU share of the processes of a control group: a weight, or idle time only (`cpu.idle`).

use std::collections::BTreeMap;
use std::time::Duration;

use procfs::process::Schedstat;

use super::own::{OwnGroup, OwnGroupError};
use crate::control::cpu_weight::weight_in;
use crate::groups::{PROCESSES, write};
use crate::processor_time::ProcessorTicks;

/// The file that makes a group idle, in either version.
pub(super) const FILE: &str = "cpu.idle";

/// The weight that replaces idle time where the kernel has no [`FILE`] (Linux before 5.15): the smallest.
const WEIGHT_LEAST: u32 = 1;

/// For a group in the hierarchy that divides the cores.
impl OwnGroup {
    /// Gives the group's processes a combined weight, where 100 is the default weight of one process; `None` is idle
    /// time only. Reads it back to verify it.
    pub fn give_cores(&self, weight: Option<u32>) -> Result<(), OwnGroupError> {
        let can_be_idle = self.host.exists(self.folder().join(FILE));
        let of_weight = |weight| weight_in(self.site.unified, weight);
        let wanted = match weight {
            None if can_be_idle => vec![(FILE, "1".to_owned())],
            None => vec![of_weight(WEIGHT_LEAST)],
            // The kernel rejects a weight for an idle group.
            Some(weight) if can_be_idle => vec![(FILE, "0".to_owned()), of_weight(weight)],
            Some(weight) => vec![of_weight(weight)],
        };
        for (file, text) in &wanted {
            write(&self.host, self.folder(), file, text)?;
            let has = self.host.text(self.folder().join(file));
            if has.as_ref() != Some(text) {
                let why = format!("{}: {file} was set to {text}, and holds {has:?}", self.folder().display());
                return Err(OwnGroupError::Unavailable(why));
            }
        }
        Ok(())
    }

    /// The ticks of all processors of the machine since boot.
    pub fn processors(&self) -> Option<ProcessorTicks> {
        ProcessorTicks::read(&self.host)
    }

    /// How long each of its processes has been on a core, and how long it waited for one (`schedstat`), by its number.
    pub fn times(&self) -> BTreeMap<i32, (Duration, Duration)> {
        let members = self.host.text(self.folder().join(PROCESSES)).unwrap_or_default();
        let times = members.lines().filter_map(|line| {
            let process: i32 = line.trim().parse().ok()?;
            // The times of the first thread; a server process has no other busy thread.
            let times: Schedstat = self.host.parsed(format!("/proc/{process}/schedstat"))?;
            Some((process, (Duration::from_nanos(times.sum_exec_runtime), Duration::from_nanos(times.run_delay))))
        });
        times.collect()
    }
}
