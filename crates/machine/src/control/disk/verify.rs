//! Checks whether a disk limit took effect: the rate that the group reached, and the writes that bypassed the limit.

use std::time::Duration;

use super::device::Device;
use super::{Disk, Group};
use crate::control::threads::started;
use crate::control::{Amount, Observation, Unknown, Verdict};
use crate::host::Host;

/// A rate may be above the limit by this share: the ends of the window cut requests in two.
const TOLERANCE: f64 = 0.05;
/// The burst that the kernel allows, in seconds: it enforces the limit in slices of a tenth of a second.
const BUCKET_S: f64 = 0.1;
/// Bytes per second past the limit that are not reported, such as journals of file systems: this amount, or
/// this share of the limit if that is more.
const ESCAPED_LEAST: f64 = 1e6;
const ESCAPED_SHARE: f64 = 0.1;

/// The group's transfers, bytes or requests.
const DONE: &str = "done";
/// Bytes written to the disk by all processes.
const DISK_WRITTEN: &str = "disk_written";
/// Prefix of the process's number and start time: bytes that it has written or made dirty.
const PROCESS_WRITTEN: &str = "process_written ";

impl Disk {
    pub(super) fn figures(&self, host: &Host, group: &Group, device: &Device) -> Observation {
        let mut figures = Observation::new();
        figures.extend(self.done(host, group, device).map(|done| (DONE.to_owned(), done as f64)));
        if self.limits_written_bytes() {
            figures.extend(device.written_bytes(host).map(|bytes| (DISK_WRITTEN.to_owned(), bytes as f64)));
            for process in group.processes(host) {
                let written = host.line_value(format!("/proc/{process}/io"), "write_bytes");
                if let Some((written, started)) = written.zip(started(host, process)) {
                    figures.insert(format!("{PROCESS_WRITTEN}{process} {started}"), written as f64);
                }
            }
        }
        figures
    }

    fn limits_written_bytes(&self) -> bool {
        self.key == "write_mb_s"
    }

    /// Compares the figures of a window's two ends with the limit, bytes or requests per second.
    pub(super) fn judge(
        &self,
        limit: f64,
        earlier: &Observation,
        now: &Observation,
        window: Duration,
    ) -> Result<Verdict, Unknown> {
        let seconds = window.as_secs_f64();
        let since = |name: &str| Some(now.get(name)? - earlier.get(name)?);
        let done = since(DONE)
            .filter(|done| *done >= 0.0 && seconds > 0.0)
            .ok_or("what the group did on the disk is not known for the whole window")?;
        let mut past_limit = 0.0;
        if self.limits_written_bytes() {
            let disk = since(DISK_WRITTEN).ok_or("what was written to the disk is not told (/proc/diskstats)")?;
            past_limit = (disk - done).min(written_back(earlier, now).map_or(f64::INFINITY, |all| all - done)).max(0.0);
        }
        let rate = |amount: f64| amount / seconds / self.scale;
        if past_limit / seconds > ESCAPED_LEAST.max(limit * ESCAPED_SHARE) {
            let reason =
                format!("{:.1} MB/s went past the limit as write-back of the page cache", past_limit / seconds / 1e6);
            return Ok(Verdict::escaped(Amount::Number(rate(done + past_limit)), reason));
        }
        let achieved = Amount::Number(rate(done));
        if done <= limit * seconds * (1.0 + TOLERANCE) + limit * BUCKET_S {
            return Ok(Verdict::held(achieved));
        }
        let reason = format!(
            "{:.2} were reached, {} allowed ({:.0} % and {BUCKET_S} s at that rate are tolerated), in {}",
            rate(done),
            limit / self.scale,
            TOLERANCE * 100.0,
            self.unit
        );
        Ok(Verdict::escaped(achieved, reason))
    }
}

/// Bytes that the group's processes wrote or made dirty in the window. `None` if one has ended, because its count is
/// then lost: all bytes written to the disk may be theirs.
fn written_back(earlier: &Observation, now: &Observation) -> Option<f64> {
    let is_of_process = |(name, _): &(&String, &f64)| name.starts_with(PROCESS_WRITTEN);
    if earlier.iter().filter(is_of_process).any(|(name, _)| !now.contains_key(name)) {
        return None;
    }
    let written = now.iter().filter(is_of_process);
    written.map(|(name, bytes)| bytes - earlier.get(name).unwrap_or(&0.0)).reduce(|sum, more| sum + more)
}
