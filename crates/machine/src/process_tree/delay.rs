//! Whether the kernel's figures of waiting for block I/O can be believed.
//!
//! The kernel measures it only for tasks that began while delay accounting was on, and writes 0 for all others (kernel
//! Documentation/accounting/delay-accounting.rst), so that a 0 is believed only where there is a reason to.

use std::time::Duration;

use super::{Key, TreeSample};
use crate::availability::Availability;
use crate::host::Host;

/// Whether the kernel measures delays of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelayAccounting {
    /// It does not.
    Off,
    /// It does for tasks that began since it was switched on, whenever that was.
    On,
    /// It does since boot, and so for all tasks.
    SinceBoot,
}

const REMEDY: &str = "as root: sysctl -w kernel.task_delayacct=1, then start the processes to watch; or boot with \
                      delayacct";

impl DelayAccounting {
    /// Reads how it stands.
    pub fn read(host: &Host) -> DelayAccounting {
        let boot = host.text("/proc/cmdline").unwrap_or_default();
        let is_on = match host.text("/proc/sys/kernel/task_delayacct") {
            Some(flag) => flag == "1",
            // Before Linux 5.14 there is no such file; delays are measured unless the boot line says no.
            None => {
                host.exists("/proc/sys/kernel/osrelease") && !boot.split_whitespace().any(|word| word == "nodelayacct")
            }
        };
        match (is_on, boot.split_whitespace().any(|word| word == "delayacct")) {
            (false, _) => DelayAccounting::Off,
            (true, false) => DelayAccounting::On,
            (true, true) => DelayAccounting::SinceBoot,
        }
    }

    /// The same as an answer with reason and remedy.
    pub fn availability(self) -> Availability {
        match self {
            DelayAccounting::Off => {
                Availability::no("kernel.task_delayacct is 0: the kernel does not measure it", Some(REMEDY))
            }
            DelayAccounting::On => {
                Availability::yes("delay accounting in /proc/PID/task/TID/stat, of tasks that began since it is on")
            }
            DelayAccounting::SinceBoot => Availability::yes("delay accounting in /proc/PID/task/TID/stat, since boot"),
        }
    }
}

/// Judges the time that a tree waited for block I/O; if it cannot be believed, the reason.
///
/// A task that shows a delay was measured, and so was every task that began after it. Older tasks may not have been: if
/// such a process read or wrote storage in the window, the time it waited is unknown.
pub(super) fn block_io(earlier: &TreeSample, later: &TreeSample, seen: Duration) -> Result<Duration, String> {
    match later.accounting {
        DelayAccounting::Off => {
            return Err(format!("no time of waiting for block I/O: kernel.task_delayacct is 0 (remedy: {REMEDY})"));
        }
        DelayAccounting::SinceBoot => return Ok(seen),
        DelayAccounting::On => {}
    }
    let threads = |sample: &TreeSample| -> Vec<(Key, u64)> {
        let threads = sample.processes.values().flat_map(|process| &process.threads);
        threads.map(|(key, thread)| (*key, thread.block_io_ticks)).collect()
    };
    let measured = threads(earlier).into_iter().chain(threads(later)).filter(|(_, ticks)| *ticks > 0);
    let measured_since = measured.map(|(key, _)| key.began).min();
    for (key, now) in &later.processes {
        let may_be_unmeasured =
            now.threads.keys().any(|thread| measured_since.is_none_or(|since| thread.began < since));
        let used_before = earlier.processes.get(key).map_or(Some(0), |then| then.storage_bytes);
        let used = now.storage_bytes.zip(used_before).map(|(now, then)| now.saturating_sub(then));
        if may_be_unmeasured && used != Some(0) {
            return Err(format!(
                "no time of waiting for block I/O: process {} used storage and shows no delay; it may have begun before \
                 kernel.task_delayacct was set to 1 (remedy: start it again)",
                key.id
            ));
        }
    }
    Ok(seen)
}
