//! The reads of a server and its processes, and the load of the disk that holds the server's data.

use std::path::PathBuf;
use std::time::Duration;

use crate::control::disk::device::Device;
pub use crate::device::OperationUse;
use crate::device::disk::DiskTotals;
use crate::groups::{DISK, site};
use crate::host::Host;
use crate::pressure::PressureSample;
use crate::processor_time::share;

/// The disk that holds a server's data, watched by the kernel's figures.
#[derive(Debug, Clone)]
pub struct DiskWatch {
    host: Host,
    device: Device,
    /// A control group of version 2 that holds all of the server; its pressure is the server's, not the machine's.
    group: Option<PathBuf>,
}

/// The totals of a disk up to one moment. Two samples make a [`DiskWatchUse`].
#[derive(Debug, Clone)]
pub struct DiskWatchSample {
    read_bytes: Option<u64>,
    busy: Option<Duration>,
    pressure: Option<PressureSample>,
}

/// The activity of a disk between two samples. `None` means that the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DiskWatchUse {
    /// Bytes per second read from it by all processes.
    pub read_bytes_per_s: Option<f64>,
    /// The share of the time in which it was busy, 0 to 1.
    pub busy: Option<f64>,
    /// The share of the time in which some process waited for a disk, 0 to 1: a process of the server if its control
    /// group reports that, else any process of the machine.
    pub waited: Option<f64>,
}

/// The totals of a disk's operations up to one moment. Two samples make a [`DiskTraffic`].
#[derive(Debug, Clone, Copy)]
pub struct TrafficSample(DiskTotals);

/// The operations of a disk between two samples, of all processes together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DiskTraffic {
    /// The time for which it had a request under way.
    pub busy: Duration,
    /// Reads.
    pub read: OperationUse,
    /// Writes.
    pub write: OperationUse,
}

impl TrafficSample {
    /// The operations in the `window` between `earlier` and this sample; `None` if the window has no length.
    pub fn since(&self, earlier: &TrafficSample, window: Duration) -> Option<DiskTraffic> {
        let used = self.0.since(&earlier.0);
        (!window.is_zero()).then(|| DiskTraffic {
            busy: used.busy().min(window),
            read: used.read.over(window),
            write: used.write.over(window),
        })
    }
}

impl DiskWatch {
    /// The disk of the data of the server whose first process this is. Otherwise the reason why it cannot be found.
    ///
    /// PostgreSQL's working directory is its data folder. The kernel shows it to root and to the server's own user.
    /// Tablespaces on other disks are ignored.
    pub fn of_server(host: &Host, postmaster: i32) -> Result<DiskWatch, String> {
        let device = device_of(host, postmaster)?;
        let group = site(host, postmaster, DISK).ok().filter(|site| site.unified).map(|site| site.base);
        Ok(DiskWatch { host: host.clone(), device, group })
    }

    /// The name of the disk, as in `/proc/diskstats`.
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// How much the kernel reads ahead of a process that reads one page after another, bytes.
    pub fn read_ahead_bytes(&self) -> Option<u64> {
        self.device.read_ahead_bytes(&self.host)
    }

    /// Reads the totals of its operations so far; `None` if the kernel does not count them.
    pub fn traffic(&self) -> Option<TrafficSample> {
        Some(TrafficSample(DiskTotals::of(&self.device.statistics(&self.host)?)))
    }

    /// Reads its totals so far.
    pub fn sample(&self) -> DiskWatchSample {
        let (read_bytes, busy) = self.device.read_bytes_and_busy(&self.host).unzip();
        let of_group = self.group.as_deref().and_then(|group| PressureSample::of_group(&self.host, group));
        DiskWatchSample { read_bytes, busy, pressure: of_group.or_else(|| PressureSample::read(&self.host)) }
    }
}

impl DiskWatchSample {
    /// The activity in the `window` between `earlier` and this sample.
    pub fn since(&self, earlier: &DiskWatchSample, window: Duration) -> DiskWatchUse {
        let seconds = window.as_secs_f64();
        let read = self.read_bytes.zip(earlier.read_bytes).filter(|_| seconds > 0.0);
        let busy = self.busy.zip(earlier.busy).and_then(|(now, then)| {
            // After the count has wrapped to 0, this window is unknown.
            share(now.checked_sub(then)?.as_secs_f64(), seconds)
        });
        let pressure = self.pressure.as_ref().zip(earlier.pressure.as_ref());
        DiskWatchUse {
            read_bytes_per_s: read.map(|(now, then)| now.saturating_sub(then) as f64 / seconds),
            busy,
            waited: pressure.and_then(|(now, then)| now.since(then, window).io_some),
        }
    }
}

/// The disk that holds a process's working directory; otherwise the reason why there is none.
pub(crate) fn device_of(host: &Host, process: i32) -> Result<Device, String> {
    Device::of(host, format!("/proc/{process}/cwd").as_ref())
}

/// Whether a process is in uninterruptible sleep (state D of `/proc/PID/stat`), as when waiting for a disk; `None` if
/// it has ended. A process that waits for a lightweight lock is not in that state.
pub fn waits_for_disk(host: &Host, process: i32) -> Option<bool> {
    let stat: procfs::process::Stat = host.parsed(format!("/proc/{process}/stat"))?;
    Some(stat.state == 'D')
}

/// Bytes read from disks for a process so far, including read-ahead: the kernel counts them when they are requested.
/// `None` if the process has ended, or this user may not see the count (root and the process's own user may).
pub fn read_bytes(host: &Host, process: i32) -> Option<u64> {
    host.line_value(format!("/proc/{process}/io"), "read_bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::fake::{EVERY, Machine};

    #[test]
    fn the_disk_of_a_server_between_two_samples() {
        for groups in EVERY {
            let machine = Machine::new(groups);
            std::os::unix::fs::symlink(machine.path("/data"), machine.path("/proc/100/cwd")).unwrap();
            let watch = DiskWatch::of_server(&machine.host(), 100).unwrap();
            assert_eq!(watch.name(), "disk");
            let earlier = watch.sample();
            let line = std::fs::read_to_string(machine.path("/proc/diskstats")).unwrap();
            // Reads, merged, sectors, ms; writes likewise; in flight, ms busy, ms weighted.
            let later = line.replace("disk 0 0 0 0 0 0 0 0 0 0 0", "disk 5 0 4000 9 0 0 0 0 1 250 9");
            machine.write("/proc/diskstats", &later);
            let used = watch.sample().since(&earlier, Duration::from_millis(500));
            let expect = DiskWatchUse { read_bytes_per_s: Some(4_096_000.0), busy: Some(0.5), waited: None };
            assert_eq!(used, expect, "{groups:?}");
            let traffic = watch.traffic().unwrap();
            assert_eq!(traffic.since(&traffic, Duration::ZERO), None);
            let same = traffic.since(&traffic, Duration::from_secs(1)).unwrap();
            assert_eq!((same.busy, same.read.per_s, same.write.ms), (Duration::ZERO, Some(0.0), None));
            machine.write("/proc/diskstats", &line);
            assert_eq!(watch.sample().since(&watch.sample(), Duration::ZERO), DiskWatchUse::default());
        }
    }

    #[test]
    fn the_server_s_own_group_tells_its_pressure() {
        let machine = Machine::new(crate::control::fake::Groups::V2);
        std::os::unix::fs::symlink(machine.path("/data"), machine.path("/proc/100/cwd")).unwrap();
        let stalls = |total: u32| {
            let line = |kind: &str| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
            line("some") + &line("full")
        };
        machine.write("/sys/fs/cgroup/unified/io.pressure", &stalls(0));
        machine.write("/proc/pressure/io", &stalls(0));
        let watch = DiskWatch::of_server(&machine.host(), 100).unwrap();
        let earlier = watch.sample();
        machine.write("/sys/fs/cgroup/unified/io.pressure", &stalls(250_000));
        machine.write("/proc/pressure/io", &stalls(999_000));
        assert_eq!(watch.sample().since(&earlier, Duration::from_secs(1)).waited, Some(0.25));
    }

    #[test]
    fn processes_that_wait_and_read() {
        let machine = Machine::new(crate::control::fake::Groups::V1);
        let host = machine.host();
        assert_eq!((waits_for_disk(&host, 100), waits_for_disk(&host, 999)), (Some(false), None));
        let stat = std::fs::read_to_string(machine.path("/proc/100/stat")).unwrap();
        machine.write("/proc/100/stat", &stat.replace(") S ", ") D "));
        assert_eq!(waits_for_disk(&host, 100), Some(true));
        machine.write("/proc/100/io", "rchar: 9\nread_bytes: 4096\nwrite_bytes: 1\n");
        assert_eq!((read_bytes(&host, 100), read_bytes(&host, 999)), (Some(4096), None));
        assert!(DiskWatch::of_server(&host, 100).is_err_and(|why| why.contains("/proc/100/cwd")));
    }
}
