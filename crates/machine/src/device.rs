//! How busy the processors and disks of the whole machine are, for all processes together.
//!
//! Two [`DeviceSample`]s make a [`DeviceUse`].

pub(crate) mod disk;

use std::collections::BTreeMap;
use std::time::Duration;

use procfs::DiskStats;

use crate::host::Host;
use crate::processor_time::{ProcessorTicks, share};
use disk::{DiskTotals, Operations};

/// The totals of processors and disks up to one moment. Two samples make a [`DeviceUse`].
#[derive(Debug, Clone)]
pub struct DeviceSample {
    cpu: Option<ProcessorTicks>,
    disks: Option<BTreeMap<String, DiskTotals>>,
    /// Disks whose requests the kernel does not count.
    uncounted: Vec<String>,
}

/// The activity of processors and disks between two samples. `None` means "cannot be measured here".
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceUse {
    /// Cores that were not idle, on average. Time stolen by the host of a guest is not idle, because a process here wanted the core.
    pub busy_cores: Option<f64>,
    /// Share of the window in which the busiest disk was busy, 0 to 1. A disk that serves requests in parallel may have
    /// spare capacity at 1.
    pub io_busy: Option<f64>,
    /// Reads of all disks.
    pub read: OperationUse,
    /// Writes of all disks.
    pub write: OperationUse,
}

/// Disk operations of one kind in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OperationUse {
    /// Megabytes (10^6 bytes) per second.
    pub mb_s: Option<f64>,
    /// Operations completed per second.
    pub per_s: Option<f64>,
    /// Milliseconds from being queued to being completed, on average; `None` also if there was no operation.
    pub ms: Option<f64>,
}

impl DeviceSample {
    /// Samples this machine.
    pub fn read() -> DeviceSample {
        DeviceSample::read_from(&Host::real())
    }

    /// Samples `host`.
    pub fn read_from(host: &Host) -> DeviceSample {
        let (disks, uncounted) = disks(host);
        DeviceSample { cpu: ProcessorTicks::read(host), disks, uncounted }
    }

    /// The disks that are watched: whole physical disks. Loops, memory disks and mapped devices would count the same
    /// bytes again, or bytes that reach no disk.
    pub fn disks(&self) -> Vec<&str> {
        self.disks.iter().flatten().map(|(name, _)| name.as_str()).collect()
    }

    /// Disks that are not watched, because the kernel is configured not to count their requests (`queue/iostats` is 0).
    pub(crate) fn uncounted_disks(&self) -> &[String] {
        &self.uncounted
    }

    /// The activity in the `window` between `earlier` and this sample.
    pub fn since(&self, earlier: &DeviceSample, window: Duration) -> DeviceUse {
        let mut device = DeviceUse::default();
        if let (Some(now), Some(then)) = (self.cpu, earlier.cpu) {
            let cpu = now.since(&then);
            device.busy_cores = cpu.busy_share().map(|busy| busy * cpu.cores as f64);
        }
        let (Some(now), Some(then)) = (&self.disks, &earlier.disks) else { return device };
        if now.is_empty() || window.is_zero() {
            return device;
        }
        // A disk that appeared within the window is left out: its totals may predate the window.
        let disks: Vec<DiskTotals> = now.iter().filter_map(|(name, now)| Some(now.since(then.get(name)?))).collect();
        let sum =
            |of: fn(&DiskTotals) -> Operations| disks.iter().map(of).fold(Operations::default(), Operations::plus);
        let busiest = disks.iter().map(DiskTotals::busy).max().unwrap_or_default();
        device.io_busy = share(busiest.as_secs_f64(), window.as_secs_f64());
        device.read = sum(|disk| disk.read).over(window);
        device.write = sum(|disk| disk.write).over(window);
        device
    }
}

/// The disks that are watched, and those that the kernel does not count.
fn disks(host: &Host) -> (Option<BTreeMap<String, DiskTotals>>, Vec<String>) {
    let Some(stats) = host.parsed::<DiskStats>("/proc/diskstats") else { return (None, Vec::new()) };
    let mut totals = BTreeMap::new();
    let mut uncounted = Vec::new();
    for disk in stats.0 {
        let folder = format!("/sys/block/{}", disk.name.replace('/', "!"));
        if !host.exists(format!("{folder}/device")) {
            continue;
        }
        match host.value::<u8>(format!("{folder}/queue/iostats")) {
            Some(0) => uncounted.push(disk.name),
            _ => {
                totals.insert(disk.name.clone(), DiskTotals::of(&disk));
            }
        }
    }
    (Some(totals), uncounted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    const SECOND: Duration = Duration::from_secs(1);

    fn sample(stat: &str, diskstats: &str) -> DeviceSample {
        DeviceSample::read_from(
            &FakeHost::new(&[
                ("/proc/stat", stat),
                ("/proc/diskstats", diskstats),
                ("/sys/block/vda/device/vendor", "x"),
                ("/sys/block/nvme0n1/device/model", "y"),
                ("/sys/block/loop0/size", "0"),
            ])
            .host(),
        )
    }

    #[test]
    fn processors_and_disks_between_two_samples() {
        let earlier = sample(
            "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0\n",
            "7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n\
             254 0 vda 10 0 2000 5 10 0 4000 5 0 100 10\n\
             254 1 vda1 10 0 2000 5 10 0 4000 5 0 100 10\n\
             259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        );
        let later = sample(
            "cpu  120 0 110 850 10 0 0 10 5 0\ncpu0 100 0 100 800 0 0 0 0 0 0\n",
            "7 0 loop0 900 0 900000 0 0 0 0 0 0 0 0\n\
             254 0 vda 20 0 4000 10 20 0 8000 25 0 350 10\n\
             254 1 vda1 20 0 4000 5 20 0 8000 5 0 350 10\n\
             259 0 nvme0n1 1 0 2000 1 0 0 0 0 0 100 0 0 0 0 0 0 0\n",
        );
        assert_eq!(earlier.disks(), ["nvme0n1", "vda"]);
        let device = later.since(&earlier, SECOND);
        assert_eq!(device.busy_cores, Some(0.4), "40 of 100 ticks: 20 user, 10 system, 10 stolen");
        assert_eq!(device.io_busy, Some(0.25));
        let operations =
            |per_s, ms| OperationUse { mb_s: Some(4000.0 * 512.0 / 1e6), per_s: Some(per_s), ms: Some(ms) };
        // One of the reads, which took a millisecond, was the other disk's.
        assert_eq!(device.read, operations(11.0, 6.0 / 11.0));
        assert_eq!(device.write, operations(10.0, 2.0));
    }

    #[test]
    fn what_cannot_be_read_is_none() {
        let check = |stat: &str, diskstats: &str, expect: DeviceUse| {
            let device = sample(stat, diskstats).since(&sample(stat, diskstats), SECOND);
            assert_eq!(device, expect, "{stat} {diskstats}");
        };
        check("", "", DeviceUse::default());
        check("cpu  1 x 3 4", "7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n", DeviceUse::default());
        check("intr 1", "254 0 vda broken\n", DeviceUse::default());
        let nothing = OperationUse { mb_s: Some(0.0), per_s: Some(0.0), ms: None };
        let idle = DeviceUse { busy_cores: None, io_busy: Some(0.0), read: nothing, write: nothing };
        check("cpu  1 2 3 4", "254 0 vda 10 0 2000 5 10 0 4000 5 0 100 10\n", idle);
        let none = DeviceSample::read_from(&FakeHost::new(&[]).host());
        assert_eq!(none.since(&none, SECOND), DeviceUse::default());
        assert_eq!(none.since(&none, Duration::ZERO), DeviceUse::default());
    }

    #[test]
    fn shares_never_exceed_one() {
        let disk = |busy: u64| format!("254 0 vda 10 0 2000 5 10 0 4000 5 0 {busy} 10\n");
        let device = sample("", &disk(5000)).since(&sample("", &disk(1000)), SECOND);
        assert_eq!(device.io_busy, Some(1.0));
    }
}
