//! A disk in memory that knows what is durable, and fails when told to.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::super::storage::{LogStorage, Segment};

/// What goes wrong, once: the call with that number among its kind, counted from 0, fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// No room for a new segment.
    Create(u64),
    /// No room for a write, of which half has been done.
    Write(u64),
    /// A sync fails, and the pages are gone.
    Sync(u64),
}

/// Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(super) struct MemoryStorage(Arc<(Mutex<Disk>, Condvar)>);

#[derive(Debug, Default)]
struct Disk {
    segments: BTreeMap<u64, Pages>,
    fault: Option<Fault>,
    /// Writes do at most so many bytes.
    write_max: Option<usize>,
    creates: u64,
    writes: u64,
    syncs: u64,
    /// Calls after the one that failed.
    calls_after_fault: u64,
    has_failed: bool,
    /// Syncs sleep while this is so.
    is_gate_closed: bool,
    waits_at_gate: bool,
}

#[derive(Debug, Clone, Default)]
struct Pages {
    /// As the process sees it.
    bytes: Vec<u8>,
    /// As a crash leaves it at least.
    durable: Vec<u8>,
}

/// The unit in which a crash keeps or loses what was not synced.
const BLOCK: usize = 512;

impl MemoryStorage {
    pub(super) fn with_fault(fault: Fault) -> Self {
        let storage = MemoryStorage::default();
        storage.0.0.lock().fault = Some(fault);
        storage
    }

    pub(super) fn with_short_writes(write_max: usize) -> Self {
        let storage = MemoryStorage::default();
        storage.0.0.lock().write_max = Some(write_max);
        storage
    }

    /// A disk with these segments.
    pub(super) fn of(segments: BTreeMap<u64, Vec<u8>>) -> Self {
        let storage = MemoryStorage::default();
        let pages = |bytes: Vec<u8>| Pages { durable: bytes.clone(), bytes };
        storage.0.0.lock().segments = segments.into_iter().map(|(number, bytes)| (number, pages(bytes))).collect();
        storage
    }

    /// What is durable.
    pub(super) fn durable(&self) -> Self {
        let disk = self.0.0.lock();
        MemoryStorage::of(disk.segments.iter().map(|(&number, pages)| (number, pages.durable.clone())).collect())
    }

    /// What a crash of the machine may leave: what is durable, and of the rest some blocks by chance.
    pub(super) fn after_crash(&self, seed: u64) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let disk = self.0.0.lock();
        let mut left = |pages: &Pages| {
            let mut bytes = pages.durable.clone();
            bytes.resize(pages.bytes.len(), 0);
            for (left, seen) in bytes.chunks_mut(BLOCK).zip(pages.bytes.chunks(BLOCK)) {
                if random.random_bool(0.5) {
                    left.copy_from_slice(seen);
                }
            }
            bytes
        };
        MemoryStorage::of(disk.segments.iter().map(|(&number, pages)| (number, left(pages))).collect())
    }

    /// All segments as the process sees them.
    pub(super) fn bytes(&self) -> BTreeMap<u64, Vec<u8>> {
        self.0.0.lock().segments.iter().map(|(&number, pages)| (number, pages.bytes.clone())).collect()
    }

    pub(super) fn calls_after_fault(&self) -> u64 {
        self.0.0.lock().calls_after_fault
    }

    pub(super) fn close_gate(&self) {
        self.0.0.lock().is_gate_closed = true;
    }

    pub(super) fn open_gate(&self) {
        self.0.0.lock().is_gate_closed = false;
        self.0.1.notify_all();
    }

    /// Returns when a sync sleeps at the gate.
    pub(super) fn wait_for_sync(&self) {
        let mut disk = self.0.0.lock();
        while !disk.waits_at_gate {
            self.0.1.wait(&mut disk);
        }
    }
}

impl Disk {
    /// Counts a call, and says whether it is the one that fails.
    fn fails(&mut self, this: Fault) -> bool {
        self.calls_after_fault += u64::from(self.has_failed);
        let fails = self.fault == Some(this);
        self.has_failed |= fails;
        fails
    }
}

impl LogStorage for MemoryStorage {
    fn create(&mut self, segment: u64, _bytes: u64) -> io::Result<Box<dyn Segment>> {
        let mut disk = self.0.0.lock();
        let call = disk.creates;
        disk.creates += 1;
        if disk.fails(Fault::Create(call)) {
            return Err(ErrorKind::StorageFull.into());
        }
        assert!(disk.segments.insert(segment, Pages::default()).is_none(), "a number that was given before");
        Ok(Box::new(MemorySegment { storage: self.clone(), number: segment }))
    }

    fn remove(&mut self, segment: u64) -> io::Result<()> {
        self.0.0.lock().segments.remove(&segment).map(|_| ()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn segments(&self) -> io::Result<Vec<u64>> {
        Ok(self.0.0.lock().segments.keys().copied().collect())
    }

    fn read(&self, segment: u64) -> io::Result<Vec<u8>> {
        self.0.0.lock().segments.get(&segment).map(|pages| pages.bytes.clone()).ok_or(ErrorKind::NotFound.into())
    }
}

struct MemorySegment {
    storage: MemoryStorage,
    number: u64,
}

impl Segment for MemorySegment {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.storage.0.0.lock();
        let call = disk.writes;
        disk.writes += 1;
        let fails = disk.fails(Fault::Write(call));
        let count = if fails { bytes.len() / 2 } else { bytes.len().min(disk.write_max.unwrap_or(usize::MAX)) };
        let pages = disk.segments.get_mut(&self.number).unwrap();
        let end = offset as usize + count;
        pages.bytes.resize(pages.bytes.len().max(end), 0);
        pages.bytes[offset as usize..end].copy_from_slice(&bytes[..count]);
        if fails { Err(ErrorKind::StorageFull.into()) } else { Ok(count) }
    }

    fn sync(&mut self) -> io::Result<()> {
        let (disk, gate) = &*self.storage.0;
        let mut disk = disk.lock();
        while disk.is_gate_closed {
            disk.waits_at_gate = true;
            gate.notify_all();
            gate.wait(&mut disk);
        }
        disk.waits_at_gate = false;
        let call = disk.syncs;
        disk.syncs += 1;
        if disk.fails(Fault::Sync(call)) {
            return Err(io::Error::other("the device has failed"));
        }
        let pages = disk.segments.get_mut(&self.number).unwrap();
        pages.durable.clone_from(&pages.bytes);
        Ok(())
    }
}
