//! How long threads wait for block I/O, by the kernel's delay accounting.
//!
//! The kernel measures it only for tasks that began while delay accounting was on, and writes 0 for all others (kernel
//! Documentation/accounting/delay-accounting.rst). A 0 is therefore believed only if there is a reason to.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::availability::Availability;
use crate::host::Host;
use crate::process_identity::ProcessIdentity;
use crate::process_tree::stat::{Stat, from_ticks, thread_folder};

/// Whether the kernel measures delays of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelayAccounting {
    /// It measures no delays.
    Off,
    /// It measures tasks that began after accounting was switched on, at an unknown time.
    On,
    /// It has measured since boot, so for all tasks.
    SinceBoot,
}

const REMEDY: &str = "as root: sysctl -w kernel.task_delayacct=1, then start the processes to watch; or boot with \
                      delayacct";

impl DelayAccounting {
    /// Reads whether accounting is on.
    pub fn read(host: &Host) -> DelayAccounting {
        let boot = host.text("/proc/cmdline").unwrap_or_default();
        let is_on = match host.text("/proc/sys/kernel/task_delayacct") {
            Some(flag) => flag == "1",
            // Before Linux 5.14 the file does not exist, and delays are measured unless the kernel command line
            // disables it.
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

    /// The same as an [`Availability`], with reason and remedy.
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

/// How long a set of threads had waited up to one moment.
#[derive(Debug, Clone)]
pub struct DelaySample {
    accounting: DelayAccounting,
    threads: BTreeMap<ProcessIdentity, Delayed>,
    /// The number of threads requested.
    asked: usize,
}

#[derive(Debug, Clone, Copy)]
struct Delayed {
    ticks: u64,
    /// Bytes that the thread read from and wrote to storage; `None` without the permission to read it.
    storage_bytes: Option<u64>,
}

impl DelaySample {
    /// Samples these threads, of this process or others.
    pub fn read(host: &Host, threads: &[i32]) -> DelaySample {
        let thread = |id: &i32| {
            let folder = thread_folder(host, *id);
            let stat = Stat::read(host, format!("{folder}/stat"))?;
            let io = |key: &str| host.line_value(format!("{folder}/io"), key);
            let storage_bytes = io("read_bytes").zip(io("write_bytes")).map(|(read, written)| read + written);
            Some((
                ProcessIdentity { id: *id, began: stat.began },
                Delayed { ticks: stat.block_io_ticks, storage_bytes },
            ))
        };
        DelaySample {
            accounting: DelayAccounting::read(host),
            threads: threads.iter().filter_map(thread).collect(),
            asked: threads.len(),
        }
    }

    /// How long the threads waited since `earlier`, summed, or why the figure cannot be trusted.
    ///
    /// A thread that shows a delay was measured, and so was every one that began after it. Older ones may not have been: if
    /// such a thread read or wrote storage in between, the time it waited is unknown.
    pub fn since(&self, earlier: &DelaySample) -> Result<Duration, Availability> {
        if self.accounting == DelayAccounting::Off {
            return Err(self.accounting.availability());
        }
        let measured = earlier.threads.iter().chain(&self.threads).filter(|(_, delayed)| delayed.ticks > 0);
        let measured_since = measured.map(|(key, _)| key.began).min();
        let mut ticks = 0;
        let mut known = 0;
        for (key, now) in &self.threads {
            let Some(then) = earlier.threads.get(key) else { continue };
            known += 1;
            ticks += now.ticks.saturating_sub(then.ticks);
            let may_be_unmeasured = measured_since.is_none_or(|since| key.began < since);
            let used = now.storage_bytes.zip(then.storage_bytes).map(|(now, then)| now.saturating_sub(then));
            if self.accounting == DelayAccounting::On && may_be_unmeasured && used != Some(0) {
                let why = format!(
                    "thread {} used storage and shows no delay; it may have begun before kernel.task_delayacct was set to 1",
                    key.id
                );
                return Err(Availability::no(why, Some("start the database again")));
            }
        }
        if known < self.asked {
            // A partial sum would be taken for the total.
            let gone = format!("{} of {} threads had ended", self.asked - known, self.asked);
            return Err(Availability::no(gone, None));
        }
        Ok(from_ticks(ticks))
    }
}

#[cfg(test)]
mod tests;
