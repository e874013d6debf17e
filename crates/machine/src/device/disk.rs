//! What one disk did: how busy, how much of what, how long each operation took.

use std::time::Duration;

use procfs::DiskStat;

use crate::processor_time::share;

/// What one disk did in a window.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskUse {
    /// Its name, `nvme0n1`.
    pub name: String,
    /// Its device number, `259:0`.
    pub number: String,
    /// Share of the window in which it had something to do, 0 to 1. A disk that works on many things at once may have
    /// room left at 1.
    pub busy: f64,
    /// Operations that waited for it or were worked on, on average over the window.
    pub queue: f64,
    /// Reads.
    pub read: OperationUse,
    /// Writes.
    pub write: OperationUse,
    /// Discards (trims); `None` on kernels that do not count them.
    pub discard: Option<OperationUse>,
    /// Flushes of the disk's own cache; `None` on kernels that do not count them. They carry no bytes.
    pub flush: Option<OperationUse>,
}

/// What a disk did of one kind of operation in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OperationUse {
    /// Operations completed per second.
    pub per_s: f64,
    /// Megabytes (10^6 bytes) per second.
    pub mb_s: f64,
    /// Time from being queued to being completed, on average; `None` if there was none.
    pub latency: Option<Duration>,
}

/// What one disk had done up to one moment.
#[derive(Debug, Clone)]
pub(super) struct DiskTotals {
    number: String,
    busy_ms: u64,
    queued_ms: u64,
    read: OperationTotals,
    write: OperationTotals,
    discard: Option<OperationTotals>,
    flush: Option<OperationTotals>,
}

#[derive(Debug, Clone, Copy)]
struct OperationTotals {
    count: u64,
    sectors: u64,
    time_ms: u64,
}

/// The unit of `/proc/diskstats`, whatever the sector size of the disk is.
const SECTOR_BYTES: u64 = 512;

impl DiskTotals {
    /// Takes a line of `/proc/diskstats` (kernel Documentation/admin-guide/iostats.rst).
    pub(super) fn of(disk: &DiskStat) -> DiskTotals {
        let operations = |count, sectors, time_ms| OperationTotals { count, sectors, time_ms };
        let DiskStat { discards, sectors_discarded, time_discarding, flushes, time_flushing, .. } = *disk;
        let discard = || Some(operations(discards?, sectors_discarded?, time_discarding?));
        let flush = || Some(operations(flushes?, 0, time_flushing?));
        DiskTotals {
            number: format!("{}:{}", disk.major, disk.minor),
            busy_ms: disk.time_in_progress,
            queued_ms: disk.weighted_time_in_progress,
            read: operations(disk.reads, disk.sectors_read, disk.time_reading),
            write: operations(disk.writes, disk.sectors_written, disk.time_writing),
            discard: discard(),
            flush: flush(),
        }
    }

    /// What was added in the `window` since `earlier`.
    pub(super) fn since(&self, earlier: &DiskTotals, name: &str, window: Duration) -> DiskUse {
        let window_ms = window.as_secs_f64() * 1000.0;
        let both = |now: Option<OperationTotals>, then: Option<OperationTotals>| Some(now?.since(then?, window));
        DiskUse {
            name: name.to_owned(),
            number: self.number.clone(),
            busy: share(milliseconds(self.busy_ms, earlier.busy_ms) as f64, window_ms).unwrap_or(0.0),
            queue: milliseconds(self.queued_ms, earlier.queued_ms) as f64 / window_ms,
            read: self.read.since(earlier.read, window),
            write: self.write.since(earlier.write, window),
            discard: both(self.discard, earlier.discard),
            flush: both(self.flush, earlier.flush),
        }
    }
}

impl OperationTotals {
    fn since(self, earlier: OperationTotals, window: Duration) -> OperationUse {
        let count = self.count.saturating_sub(earlier.count);
        let bytes = self.sectors.saturating_sub(earlier.sectors).saturating_mul(SECTOR_BYTES);
        let time_us = milliseconds(self.time_ms, earlier.time_ms).saturating_mul(1000);
        OperationUse {
            per_s: count as f64 / window.as_secs_f64(),
            mb_s: bytes as f64 / 1e6 / window.as_secs_f64(),
            latency: time_us.checked_div(count).map(Duration::from_micros),
        }
    }
}

/// Milliseconds between two figures of which the kernel keeps 32 bits: they begin again at 0 after 49 days.
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
    fn every_kind_of_operation() {
        let then = totals("259 0 nvme0n1 100 0 8000 50 10 0 80 5 0 1000 4000 1 0 8 1 2 10");
        let now = totals("259 0 nvme0n1 300 9 24000 150 30 0 8080 45 3 2000 10000 3 0 4008 5 12 30");
        let usage = now.since(&then, "nvme0n1", WINDOW);
        assert_eq!((usage.name.as_str(), usage.number.as_str()), ("nvme0n1", "259:0"));
        assert_eq!((usage.busy, usage.queue), (0.5, 3.0));
        let operation =
            |per_s, mb_s, latency_us| OperationUse { per_s, mb_s, latency: Some(Duration::from_micros(latency_us)) };
        assert_eq!(usage.read, operation(100.0, 16_000.0 * 512.0 / 2e6, 500));
        assert_eq!(usage.write, operation(10.0, 8000.0 * 512.0 / 2e6, 2000));
        assert_eq!(usage.discard, Some(operation(1.0, 4000.0 * 512.0 / 2e6, 2000)));
        assert_eq!(usage.flush, Some(operation(5.0, 0.0, 2000)));
    }

    #[test]
    fn old_kernels_count_less_and_nothing_takes_no_time() {
        let then = totals("8 0 sda 1 0 8 1 0 0 0 0 0 1 1");
        let usage = then.since(&then, "sda", WINDOW);
        assert_eq!((usage.discard, usage.flush, usage.read), (None, None, OperationUse::default()));
        assert_eq!((usage.busy, usage.queue), (0.0, 0.0));
    }

    #[test]
    fn times_of_32_bits_begin_again() {
        let check = |now, then, expect| assert_eq!(milliseconds(now, then), expect, "{now} {then}");
        check(10, 3, 7);
        check(5, u64::from(u32::MAX), 6);
        check(1 << 40, (1 << 40) + 1, 0);
    }
}
