//! The totals of one disk, from its line of `/proc/diskstats`.

use std::time::Duration;

use procfs::DiskStat;

use super::OperationUse;

/// The totals of one disk up to one moment, or between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskTotals {
    busy_ms: u64,
    pub(crate) read: Operations,
    pub(crate) write: Operations,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Operations {
    count: u64,
    sectors: u64,
    time_ms: u64,
}

/// The unit of `/proc/diskstats`, independent of the disk's sector size.
const SECTOR_BYTES: u64 = 512;

impl DiskTotals {
    /// Takes a line of `/proc/diskstats` (kernel Documentation/admin-guide/iostats.rst).
    pub(crate) fn of(disk: &DiskStat) -> DiskTotals {
        let operations = |count, sectors, time_ms| Operations { count, sectors, time_ms };
        DiskTotals {
            busy_ms: disk.time_in_progress,
            read: operations(disk.reads, disk.sectors_read, disk.time_reading),
            write: operations(disk.writes, disk.sectors_written, disk.time_writing),
        }
    }

    pub(crate) fn since(&self, earlier: &DiskTotals) -> DiskTotals {
        DiskTotals {
            busy_ms: milliseconds(self.busy_ms, earlier.busy_ms),
            read: self.read.since(earlier.read),
            write: self.write.since(earlier.write),
        }
    }

    pub(crate) fn busy(&self) -> Duration {
        Duration::from_millis(self.busy_ms)
    }
}

impl Operations {
    fn since(self, earlier: Operations) -> Operations {
        Operations {
            count: self.count.saturating_sub(earlier.count),
            sectors: self.sectors.saturating_sub(earlier.sectors),
            time_ms: milliseconds(self.time_ms, earlier.time_ms),
        }
    }

    pub(super) fn plus(self, other: Operations) -> Operations {
        Operations {
            count: self.count + other.count,
            sectors: self.sectors + other.sectors,
            time_ms: self.time_ms + other.time_ms,
        }
    }

    /// As rates over the time in which they were done, which is not zero.
    pub(crate) fn over(self, window: Duration) -> OperationUse {
        let bytes = self.sectors.saturating_mul(SECTOR_BYTES);
        OperationUse {
            mb_s: Some(bytes as f64 / 1e6 / window.as_secs_f64()),
            per_s: Some(self.count as f64 / window.as_secs_f64()),
            ms: (self.count > 0).then(|| self.time_ms as f64 / self.count as f64),
        }
    }
}

/// Milliseconds between two figures of which the kernel keeps 32 bits: they wrap to 0 after 49 days.
fn milliseconds(now: u64, then: u64) -> u64 {
    match u32::try_from(then) {
        Ok(then) if now < u64::from(then) => u64::from((now as u32).wrapping_sub(then)),
        _ => now.saturating_sub(then),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(line: &str) -> DiskTotals {
        DiskTotals::of(&DiskStat::from_line(line).expect("a line of diskstats"))
    }

    const WINDOW: Duration = Duration::from_secs(2);

    #[test]
    fn rates_of_operations() {
        let then = totals("259 0 nvme0n1 100 0 8000 50 10 0 80 5 0 1000 4000 1 0 8 1 2 10");
        let now = totals("259 0 nvme0n1 300 9 24000 150 30 0 8080 45 3 2000 10000 3 0 4008 5 12 30");
        let used = now.since(&then);
        let rates = |per_s, mb_s, ms| OperationUse { per_s: Some(per_s), mb_s: Some(mb_s), ms: Some(ms) };
        assert_eq!(used.busy(), Duration::from_secs(1));
        assert_eq!(used.read.over(WINDOW), rates(100.0, 16_000.0 * 512.0 / 2e6, 0.5));
        assert_eq!(used.write.over(WINDOW), rates(10.0, 8000.0 * 512.0 / 2e6, 2.0));
        assert_eq!(used.read.plus(used.write).over(WINDOW).per_s, Some(110.0));
    }

    #[test]
    fn nothing_takes_no_time() {
        let then = totals("8 0 sda 1 0 8 1 0 0 0 0 0 1 1");
        let used = then.since(&then);
        assert_eq!((used.busy(), used.read.over(WINDOW).ms), (Duration::ZERO, None));
    }

    #[test]
    fn times_of_32_bits_begin_again() {
        let check = |now, then, expect| assert_eq!(milliseconds(now, then), expect, "{now} {then}");
        check(10, 3, 7);
        check(5, u64::from(u32::MAX), 6);
        check(1 << 40, (1 << 40) + 1, 0);
    }
}
