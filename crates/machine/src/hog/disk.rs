//! Disk traffic at a set rate: direct reads or writes of an unnamed file, which disappears when the hog ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::schedule::Schedule;
use super::{Achieved, Crew, HogError, HogKind, HogPlace, Leave, Running, pin_to_one};
use crate::memory_speed::buffer::Buffer;
use crate::space::memory_file_system;

/// The file is written or read in circles.
const FILE_BYTES: u64 = 128 << 20;

/// The largest transfer; direct transfers of 1 MiB reach the full rate of all disks that we tested.
const BLOCK_MAX: u64 = 1 << 20;

/// The smallest transfer, and an alignment that every disk accepts.
const BLOCK_MIN: u64 = 4096;

/// Transfers per second, within the limits of the block size: few enough to be large, frequent enough to be steady.
const BLOCKS_PER_SECOND: f64 = 50.0;

/// Plausible rates, MB/s.
const RATES: std::ops::RangeInclusive<f64> = 0.01..=100_000.0;

/// Reads or writes.
pub struct Disk {
    key: &'static str,
    meaning: &'static str,
    writes: bool,
}

pub(crate) static DISK_WRITE: Disk =
    Disk { key: "disk", meaning: "writes to the disk of its folder at this rate, past the page cache", writes: true };

pub(crate) static DISK_READ: Disk = Disk {
    key: "disk-read",
    meaning: "reads from the disk of its folder at this rate, past the page cache",
    writes: false,
};

impl HogKind for Disk {
    fn key(&self) -> &'static str {
        self.key
    }

    fn unit(&self) -> &'static str {
        "MB/s"
    }

    fn meaning(&self) -> &'static str {
        self.meaning
    }

    fn shortfall(&self) -> &'static str {
        "the disk gives no more to one thread, or others use it, or it is limited"
    }

    fn refuse(&self, strength: f64) -> Option<String> {
        (!RATES.contains(&strength)).then(|| format!("it takes {} to {} MB/s", RATES.start(), RATES.end()))
    }

    fn start(&self, strength: f64, place: &HogPlace) -> Result<Box<dyn Running>, HogError> {
        let block = block_for(strength * 1e6);
        let file = Arc::new(make_file(&place.folder, FILE_BYTES, !self.writes)?);
        let tally = Arc::new(Tally::default());
        let (inside, cores, writes) = (Arc::clone(&tally), place.cores.clone(), self.writes);
        let crew = Crew::start(1, move |index| {
            pin_to_one(&cores, index)?;
            let buffer = Buffer::new(block as usize).map_err(HogError::Memory)?;
            let (file, tally) = (Arc::clone(&file), Arc::clone(&inside));
            Ok(move |leave: &Leave| transfer(&file, buffer, writes, strength * 1e6, &tally, leave))
        })?;
        let mut before = 0;
        Ok(Box::new(move |window: Duration| {
            let _works_until_dropped = &crew;
            let now = tally.bytes.load(Ordering::Relaxed);
            let bytes = now - std::mem::replace(&mut before, now);
            let failure = tally.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
            Achieved {
                amount: Some(bytes as f64 / 1e6 / window.as_secs_f64()),
                notes: failure.into_iter().collect(),
                ..Achieved::default()
            }
        }))
    }
}

/// Bytes of a transfer for a rate in bytes per second: a power of two.
fn block_for(rate: f64) -> u64 {
    let wanted = (rate / BLOCKS_PER_SECOND) as u64;
    wanted.clamp(BLOCK_MIN, BLOCK_MAX).next_power_of_two().min(BLOCK_MAX)
}

/// An unnamed file with its space reserved. A file to be read is written first: reads of unwritten space do not reach
/// the disk.
pub(crate) fn make_file(folder: &Path, bytes: u64, is_to_be_read: bool) -> Result<File, HogError> {
    let no_place = |why: String| HogError::Folder { folder: folder.to_owned(), why };
    if let Some(name) = memory_file_system(folder).map_err(|error| no_place(format!("{error}")))? {
        return Err(no_place(format!("it lies in memory ({name}); give a folder on a disk")));
    }
    let file = open_nameless(folder).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::INVAL | Errno::OPNOTSUPP) => {
            no_place("its file system has no direct transfers (O_DIRECT); give a folder on a local disk".to_owned())
        }
        Some(Errno::NOSPC | Errno::DQUOT) => disk_full(folder, bytes, error),
        _ => no_place(format!("{error}")),
    })?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // A file system that cannot reserve space reports a lack of it while writing.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(error) => return Err(disk_full(folder, bytes, error.into())),
    }
    if is_to_be_read {
        let block = Buffer::new(BLOCK_MAX as usize).map_err(HogError::Memory)?;
        for offset in (0..bytes).step_by(BLOCK_MAX as usize) {
            file.write_all_at(block.bytes(), offset).map_err(|error| disk_full(folder, bytes, error))?;
        }
    }
    Ok(file)
}

fn disk_full(folder: &Path, bytes: u64, error: io::Error) -> HogError {
    HogError::DiskFull { folder: folder.to_owned(), needed_mib: bytes >> 20, error }
}

/// A new unnamed file for direct transfers. It disappears with this process, however that ends.
fn open_nameless(folder: &Path) -> io::Result<File> {
    let file = tempfile::tempfile_in(folder)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::DIRECT)?;
    Ok(file)
}

/// The work done. Relaxed: the counters guard no other data.
#[derive(Debug, Default)]
struct Tally {
    bytes: AtomicU64,
    failure: Mutex<Option<String>>,
}

fn transfer(file: &File, mut buffer: Buffer, writes: bool, rate: f64, tally: &Tally, leave: &Leave) {
    let begin = Instant::now();
    let mut schedule = Schedule::new(rate, Duration::ZERO);
    let block = buffer.bytes().len() as u64;
    for offset in (0..FILE_BYTES / block).map(|place| place * block).cycle() {
        let done = if writes {
            file.write_all_at(buffer.bytes(), offset)
        } else {
            file.read_exact_at(buffer.bytes_mut(), offset)
        };
        if let Err(error) = done {
            let what = if writes { "write" } else { "read" };
            let told = format!("the hog has ended: it cannot {what} its file: {error}");
            *tally.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(told);
            return;
        }
        tally.bytes.fetch_add(block, Ordering::Relaxed);
        if let Some(wait) = schedule.done(block as f64, begin.elapsed()) {
            leave.sleep(wait);
        }
        if leave.is_asked() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_rates() {
        let check = |megabytes: f64, expect| assert_eq!(block_for(megabytes * 1e6), expect, "{megabytes} MB/s");
        check(0.01, 4096);
        check(1.0, 32 << 10);
        check(50.0, 1 << 20);
        check(5000.0, 1 << 20);
        assert!(FILE_BYTES.is_multiple_of(BLOCK_MAX));
    }

    #[test]
    fn folders_that_are_no_place() {
        let error = |folder: &str| make_file(Path::new(folder), FILE_BYTES, false).unwrap_err().to_string();
        assert!(error("/no/such/folder").contains("No such file"), "{}", error("/no/such/folder"));
        if memory_file_system(Path::new("/dev/shm")).is_ok_and(|found| found == Some("tmpfs")) {
            assert!(error("/dev/shm").contains("lies in memory (tmpfs)"), "{}", error("/dev/shm"));
        }
    }

    #[test]
    fn a_full_disk_is_told_as_such() {
        let told = disk_full(Path::new("/data"), FILE_BYTES, Errno::NOSPC.into()).to_string();
        assert!(told.starts_with("the disk of /data has no room for a file of 128 MiB: "), "{told}");
    }
}
