//! Commit groups: committers that find the pen or wait for it, the writer, a full buffer, a disk that fails.

#[path = "../../src/log/format.rs"]
mod format;
#[path = "../../src/log/queue.rs"]
mod queue;

use system::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use system::sync::{Arc, Mutex};

pub use plimsoll_engine::log::{Durability, LogError, LogOptions, LogStatistics};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::clock::MonotonicClock;
use crate::scheduler::{self, Fault, Work, step};
use crate::{check, check_that_it_is_noticed};
use queue::{Pen, Queue};
use segments::Segments;

/// Units of the log, as far as the queue knows them.
mod record {
    pub struct Unit {
        pub(super) bytes: Vec<u8>,
    }

    impl Unit {
        pub fn bytes(&self) -> &[u8] {
            &self.bytes
        }

        pub fn checksum(&self) -> u32 {
            crc32fast::hash(&self.bytes)
        }

        pub fn tables(&self) -> &[u32] {
            &[0]
        }
    }
}

/// Segments whose disk is in memory.
mod segments {
    use super::queue::{Group, Written};
    use super::{Arc, Disk};

    pub struct Segments(pub(super) Arc<Disk>);

    impl Segments {
        pub fn place(&self) -> String {
            "the disk of a model".to_owned()
        }

        pub fn write_group(&mut self, group: &mut Group) -> system::io::Result<Written> {
            self.0.write(&group.frames)?;
            Ok(Written { bytes: group.frames.len() as u64, syncs: 1, recycled: 0 })
        }
    }
}

#[derive(Default)]
struct Disk {
    bytes: Mutex<Vec<u8>>,
    is_writing: AtomicBool,
    writes: AtomicUsize,
    /// The write that fails, from 1; 0: none.
    fails_at: usize,
}

impl Disk {
    fn write(&self, frames: &[u8]) -> system::io::Result<()> {
        assert!(!self.is_writing.swap(true, Ordering::SeqCst), "two write at a time");
        step();
        let fails = self.writes.fetch_add(1, Ordering::SeqCst) + 1 == self.fails_at;
        if !fails {
            self.bytes.lock().expect("nobody panics under it").extend_from_slice(frames);
        }
        step();
        self.is_writing.store(false, Ordering::SeqCst);
        if fails { Err(system::io::Error::other("no disk")) } else { Ok(()) }
    }

    fn has(&self, unit: &[u8]) -> bool {
        self.bytes.lock().expect("nobody panics under it").windows(unit.len()).any(|bytes| bytes == unit)
    }
}

const COMMITTERS: u8 = 3;
const COMMITS: u8 = 3;

/// Commits some units; each that is acknowledged is on the disk.
fn commit(queue: &Queue, disk: &Disk, who: u8, random: &mut Pcg64) -> Result<(), LogError> {
    for number in 0..COMMITS {
        let unit = record::Unit { bytes: vec![who, 0xAA, number, 0x55, who, number, 0xEE] };
        let ticket = queue.append(&unit, true)?;
        match random.random_range(0..4) {
            0 => queue.wait_for_all().map(|_| ())?,
            1 => queue.flush()?,
            _ => queue.wait(ticket).map(|_| ())?,
        }
        assert!(disk.has(unit.bytes()), "a commit was acknowledged that is not durable");
    }
    Ok(())
}

fn run(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let mut random = Pcg64::seed_from_u64(seed);
    let fails_at = if random.random_bool(0.3) { random.random_range(1..6) } else { 0 };
    let disk = Arc::new(Disk { fails_at, ..Disk::default() });
    // Sometimes there is room for a unit or two only.
    let buffer_bytes = if random.random_bool(0.5) { 64 } else { 1 << 20 };
    let options = LogOptions { durability: Durability::Sync, buffer_bytes, ..LogOptions::default() };
    let pen = Pen(Segments(Arc::clone(&disk)));
    let queue = Arc::new(Queue::new(&options, Arc::new(MonotonicClock::default()), pen, 0, 0));
    if random.random_bool(0.3) {
        queue.leave_to_writer();
    }
    let left = Arc::new(AtomicUsize::new(usize::from(COMMITTERS)));
    let committer = |who: u8| {
        let (queue, disk, left) = (Arc::clone(&queue), Arc::clone(&disk), Arc::clone(&left));
        let mut random = Pcg64::seed_from_u64(seed << 8 | u64::from(who));
        Box::new(move || {
            let outcome = commit(&queue, &disk, who, &mut random);
            assert!(outcome.is_ok() || disk.fails_at > 0, "{outcome:?}");
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                queue.close();
            }
        }) as Work
    };
    let writer = {
        let queue = Arc::clone(&queue);
        Box::new(move || queue::run(&queue)) as Work
    };
    scheduler::run(seed, fault, (0..COMMITTERS).map(committer).chain([writer]).collect())
}

#[test]
fn every_commit_is_durable_or_refused_in_any_order_of_steps() {
    check(1_000, |seed| run(seed, None));
}

#[test]
fn a_lost_wake_up_of_the_log_is_noticed() {
    for fault in [Fault::LosesNotification(2), Fault::FutexSleepsAnyway, Fault::WaitsAfterUnlock] {
        check_that_it_is_noticed(|seed| run(seed, Some(fault)), "sleep for ever");
    }
}
