//! How busy the processors and disks of the whole machine are, whoever keeps them busy.

use std::collections::BTreeMap;
use std::time::Duration;

use procfs::DiskStats;

use crate::host::Host;

/// What processors and disks had done up to one moment. Two of them make a [`DeviceUse`].
#[derive(Debug, Clone)]
pub struct DeviceSample {
    cpu: Option<CpuTicks>,
    disks: Option<BTreeMap<String, DiskTotals>>,
}

/// What processors and disks did between two samples. `None` is "cannot be measured here".
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceUse {
    /// Share of all cores' time in which they were not idle, 0 to 1. Time stolen by the host of a guest is not idle:
    /// somebody here wanted the core.
    pub cpu_busy: Option<f64>,
    /// The same as a number of cores.
    pub busy_cores: Option<f64>,
    /// Share of the window in which the busiest disk had something to do, 0 to 1.
    pub io_busy: Option<f64>,
    /// Megabytes (10^6 bytes) read from all disks per second.
    pub read_mb_s: Option<f64>,
    /// Megabytes (10^6 bytes) written to all disks per second.
    pub write_mb_s: Option<f64>,
}

/// Clock ticks summed over all cores.
#[derive(Debug, Clone, Copy)]
struct CpuTicks {
    busy: u64,
    all: u64,
    cores: usize,
}

/// What one disk had done.
#[derive(Debug, Clone, Copy)]
struct DiskTotals {
    busy: Duration,
    read_bytes: u64,
    written_bytes: u64,
}

/// The unit of `/proc/diskstats`, whatever the sector size of the disk is.
const SECTOR_BYTES: u64 = 512;

impl DeviceSample {
    /// Samples this machine.
    pub fn read() -> DeviceSample {
        DeviceSample::read_from(&Host::real())
    }

    /// Samples `host`.
    pub fn read_from(host: &Host) -> DeviceSample {
        DeviceSample { cpu: cpu_ticks(host), disks: disk_totals(host) }
    }

    /// The disks that are watched: whole disks with a device behind them. Loops, memory disks and mapped devices would
    /// count the same bytes again, or bytes that reach no disk.
    pub fn disks(&self) -> Vec<&str> {
        self.disks.iter().flatten().map(|(name, _)| name.as_str()).collect()
    }

    /// What happened in the `window` between `earlier` and this sample.
    pub fn since(&self, earlier: &DeviceSample, window: Duration) -> DeviceUse {
        let mut device = DeviceUse::default();
        if let (Some(now), Some(then)) = (self.cpu, earlier.cpu) {
            device.cpu_busy = share(now.busy.saturating_sub(then.busy) as f64, now.all.saturating_sub(then.all) as f64);
            device.busy_cores = device.cpu_busy.map(|busy| busy * now.cores as f64);
        }
        let (Some(now), Some(then)) = (&self.disks, &earlier.disks) else { return device };
        if now.is_empty() || window.is_zero() {
            return device;
        }
        let (mut read, mut written, mut busiest) = (0, 0, Duration::ZERO);
        for (name, now) in now {
            // A disk that came within the window started at nothing, and its figures from before then are not ours.
            let Some(then) = then.get(name) else { continue };
            read += now.read_bytes.saturating_sub(then.read_bytes);
            written += now.written_bytes.saturating_sub(then.written_bytes);
            busiest = busiest.max(now.busy.saturating_sub(then.busy));
        }
        let seconds = window.as_secs_f64();
        device.io_busy = share(busiest.as_secs_f64(), seconds);
        device.read_mb_s = Some(read as f64 / 1e6 / seconds);
        device.write_mb_s = Some(written as f64 / 1e6 / seconds);
        device
    }
}

/// `part / whole`, at most 1: the two come from clocks of different grain. `None` if there is no whole.
fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| (part / whole).min(1.0))
}

fn cpu_ticks(host: &Host) -> Option<CpuTicks> {
    let text = host.text("/proc/stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    // user nice system idle iowait irq softirq steal guest guest_nice; the guest times are within user and nice.
    let [_, _, _, idle, rest @ ..] = ticks.as_slice() else { return None };
    let all: u64 = ticks.iter().take(8).sum();
    let idle = idle + rest.first().copied().unwrap_or(0);
    let is_core =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    Some(CpuTicks { busy: all.saturating_sub(idle), all, cores: text.lines().filter(is_core).count() })
}

fn disk_totals(host: &Host) -> Option<BTreeMap<String, DiskTotals>> {
    let stats: DiskStats = host.parsed("/proc/diskstats")?;
    let whole_disk = |name: &str| host.exists(format!("/sys/block/{}/device", name.replace('/', "!")));
    let totals = stats.0.into_iter().filter(|disk| whole_disk(&disk.name)).map(|disk| {
        let totals = DiskTotals {
            busy: Duration::from_millis(disk.time_in_progress),
            read_bytes: disk.sectors_read.saturating_mul(SECTOR_BYTES),
            written_bytes: disk.sectors_written.saturating_mul(SECTOR_BYTES),
        };
        (disk.name, totals)
    });
    Some(totals.collect())
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
             254 0 vda 20 0 4000 5 20 0 8000 5 0 350 10\n\
             254 1 vda1 20 0 4000 5 20 0 8000 5 0 350 10\n\
             259 0 nvme0n1 1 0 2000 1 0 0 0 0 0 100 0 0 0 0 0 0 0\n",
        );
        assert_eq!(earlier.disks(), ["nvme0n1", "vda"]);
        let device = later.since(&earlier, SECOND);
        assert_eq!(device.cpu_busy, Some(0.4), "40 of 100 ticks: 20 user, 10 system, 10 stolen");
        assert_eq!(device.io_busy, Some(0.25));
        assert_eq!(device.read_mb_s, Some(4000.0 * 512.0 / 1e6));
        assert_eq!(device.write_mb_s, Some(4000.0 * 512.0 / 1e6));
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
        let idle =
            DeviceUse { io_busy: Some(0.0), read_mb_s: Some(0.0), write_mb_s: Some(0.0), ..DeviceUse::default() };
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
