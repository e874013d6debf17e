//! The speed of a disk's random reads by queue depth.
//!
//! A disk serves several reads in hardly more time than one: its *curve* says how many it completes per second at each
//! queue depth. A model treats it as a station whose rate depends on the number of requests present (Lazowska,
//! Zahorjan, Graham and Sevcik, "Quantitative System Performance", 1984, chapter 8).
//!
//! Reads are of 8 KiB, a page of PostgreSQL, at random places of an unnamed file, bypassing the page cache. The number
//! of reading threads equals the queue depth. A guest cannot tell which data its host has cached.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::control::disk::device::Device;
use crate::device::DeviceSample;
use crate::hog::HogError;
use crate::hog::disk::make_file;
use crate::host::Host;
use crate::memory_speed::Figure;
use crate::memory_speed::buffer::Buffer;

/// Bytes per read.
pub const READ_BYTES: u64 = 8 << 10;

/// Reads under way at once.
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// The read rate of a disk at one queue depth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DepthPoint {
    /// Reads under way at once.
    pub depth: u32,
    /// Reads completed per second.
    pub reads_per_s: Figure,
}

impl DepthPoint {
    pub(crate) fn mean_ms(&self) -> f64 {
        f64::from(self.depth) * 1e3 / self.reads_per_s.median
    }
}

/// The speed of a disk's random reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskSpeed {
    /// The folder on it that held the file.
    pub folder: PathBuf,
    /// Its name, as in `/proc/diskstats`; `None` if the kernel does not report it.
    pub device: Option<String>,
    /// Whether it is the only disk of the machine, so that the machine's reads are its reads.
    pub is_only: bool,
    /// Size of the file, MiB.
    pub file_mib: u64,
    /// Its read rates, by increasing depth.
    pub points: Vec<DepthPoint>,
}

struct Plan {
    file_bytes: u64,
    rounds: usize,
    each: Duration,
}

impl DiskSpeed {
    /// Measures the disk of a folder in about 15 seconds (5 if `quick`). It first writes a file of 1 GiB there (256 MiB
    /// if `quick`). `progress` receives the share completed, 0 to 1, and the next step.
    pub fn measure(folder: &Path, quick: bool, progress: &mut dyn FnMut(f64, &str)) -> Result<DiskSpeed, HogError> {
        let plan = match quick {
            true => Plan { file_bytes: 256 << 20, rounds: 3, each: Duration::from_millis(150) },
            false => Plan { file_bytes: 1 << 30, rounds: 3, each: Duration::from_millis(500) },
        };
        measure(folder, &plan, progress)
    }

    /// Seconds per read without concurrent reads.
    pub fn read_s(&self) -> f64 {
        self.points.first().map_or(0.0, |first| 1.0 / first.reads_per_s.median)
    }

    /// Reads completed per second at depths 1, 2, 3, … relative to depth 1; the last entry applies to all greater
    /// depths.
    pub fn rates(&self) -> Vec<f64> {
        let deepest = self.points.last().map_or(0, |last| last.depth);
        (1..=deepest).map(|depth| self.rate(f64::from(depth))).collect()
    }

    /// The same at any depth from 1: interpolated between measured depths, and never falling, because a drop is noise
    /// or load from other processes.
    pub fn rate(&self, depth: f64) -> f64 {
        let mut most = 1.0_f64;
        let mut before = (1.0, 1.0);
        for point in &self.points {
            let (at, rate) = (f64::from(point.depth), point.reads_per_s.median * self.read_s());
            if at > depth {
                let (from, low) = before;
                return most.max(low + (rate.max(low) - low) * (depth - from) / (at - from));
            }
            most = most.max(rate);
            before = (at, most);
        }
        most
    }
}

fn measure(folder: &Path, plan: &Plan, progress: &mut dyn FnMut(f64, &str)) -> Result<DiskSpeed, HogError> {
    let host = Host::real();
    progress(0.0, "writing a file to read");
    let file = make_file(folder, plan.file_bytes, true)?;
    let device = Device::of(&host, folder).ok().map(|device| device.name);
    let disks = DeviceSample::read();
    let is_only = device.as_deref().is_some_and(|name| disks.disks() == [name]);
    let mut rates = vec![Vec::new(); DEPTHS.len()];
    // Each round covers all depths, so that a slow moment does not affect one depth only.
    for round in 0..plan.rounds {
        for (place, depth) in DEPTHS.into_iter().enumerate() {
            let done = (round * DEPTHS.len() + place) as f64 / (plan.rounds * DEPTHS.len()) as f64;
            progress(done, &format!("{depth} reads of the disk at once"));
            let rate = reads_per_s(&file, depth, plan).map_err(|error| HogError::Folder {
                folder: folder.to_owned(),
                why: format!("its disk cannot be read: {error}"),
            })?;
            rates[place].push(rate);
        }
    }
    let point = |(depth, rates): (u32, &Vec<f64>)| Some(DepthPoint { depth, reads_per_s: Figure::of("1/s", rates)? });
    Ok(DiskSpeed {
        folder: folder.to_owned(),
        device,
        is_only,
        file_mib: plan.file_bytes >> 20,
        points: DEPTHS.into_iter().zip(&rates).filter_map(point).collect(),
    })
}

/// Reads completed per second while each of `depth` threads reads one page after another.
fn reads_per_s(file: &File, depth: u32, plan: &Plan) -> io::Result<f64> {
    let pages = plan.file_bytes / READ_BYTES;
    let (begin, is_over) = (Barrier::new(depth as usize + 1), AtomicBool::new(false));
    let read = |thread: u64| -> io::Result<u64> {
        let buffer = Buffer::new(READ_BYTES as usize);
        begin.wait();
        let mut buffer = buffer?;
        let (mut state, mut count) = (thread + 1, 0);
        while !is_over.load(Ordering::Relaxed) {
            // A linear congruential generator (multiplier of Steele and Vigna 2021), with a different increment for
            // each thread; its upper bits choose the page.
            state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(2 * thread + 1);
            let page = ((u128::from(state) * u128::from(pages)) >> 64) as u64;
            file.read_exact_at(buffer.bytes_mut(), page * READ_BYTES)?;
            count += 1;
        }
        Ok(count)
    };
    let (count, elapsed) = thread::scope(|scope| {
        let threads: Vec<_> = (0..u64::from(depth)).map(|thread| scope.spawn(move || read(thread))).collect();
        begin.wait();
        let began = Instant::now();
        thread::sleep(plan.each);
        is_over.store(true, Ordering::Relaxed);
        let counts: io::Result<u64> = threads.into_iter().map(|thread| thread.join().expect("it only reads")).sum();
        (counts, began.elapsed())
    });
    Ok(count? as f64 / elapsed.as_secs_f64())
}

/// As text, one line per depth.
impl fmt::Display for DiskSpeed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for point in &self.points {
            let at = format!("{} at once", point.depth);
            let rate = &point.reads_per_s;
            writeln!(
                out,
                "{:<22} {at:<22} {:.0} per s ({:.0} to {:.0}), {:.3} ms each",
                "random 8-KiB reads",
                rate.median,
                rate.low,
                rate.high,
                point.mean_ms()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(points: &[(u32, f64)]) -> DiskSpeed {
        let point = |(depth, rate): &(u32, f64)| DepthPoint {
            depth: *depth,
            reads_per_s: Figure::of("1/s", &[*rate]).expect("a number"),
        };
        DiskSpeed {
            folder: PathBuf::from("/data"),
            device: Some("vda".to_owned()),
            is_only: true,
            file_mib: 256,
            points: points.iter().map(point).collect(),
        }
    }

    #[test]
    fn rates_are_relative_to_one_read_and_never_fall() {
        let disk = speed(&[(1, 100.0), (2, 180.0), (4, 300.0), (8, 290.0)]);
        assert!((disk.read_s() - 0.01).abs() < 1e-12 && (disk.points[2].mean_ms() - 4.0 / 0.3).abs() < 1e-9);
        let expect = [1.0, 1.8, 2.4, 3.0, 3.0, 3.0, 3.0, 3.0];
        let rates = disk.rates();
        assert_eq!(rates.len(), 8);
        assert!(rates.iter().zip(expect).all(|(rate, expect)| (rate - expect).abs() < 1e-9), "{rates:?}");
        assert!((disk.rate(1.5) - 1.4).abs() < 1e-9 && (disk.rate(100.0) - 3.0).abs() < 1e-9);
        assert!(speed(&[]).rates().is_empty());
    }

    /// On a real disk concurrent reads are never slower than sequential ones, with a tolerance of one half for other
    /// load.
    #[test]
    fn a_disk_is_measured_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan { file_bytes: 8 << 20, rounds: 2, each: Duration::from_millis(20) };
        let mut steps = Vec::new();
        let measured = measure(folder.path(), &plan, &mut |share, step: &str| steps.push((share, step.to_owned())));
        let disk = match measured {
            Ok(disk) => disk,
            // Temporary files are in memory, or the file system has no direct reads.
            Err(HogError::Folder { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(disk.points.len(), DEPTHS.len());
        assert!(disk.rates().iter().all(|rate| *rate >= 0.5), "{disk}");
        assert!(steps.len() == 1 + 2 * DEPTHS.len() && steps.is_sorted_by(|a, b| a.0 <= b.0), "{steps:?}");
        assert_eq!(folder.path().read_dir().expect("it is there").count(), 0);
        let text = serde_json::to_string(&disk).expect("numbers and text");
        assert_eq!(serde_json::from_str::<DiskSpeed>(&text).expect("as written").points.len(), disk.points.len());
    }
}
