//! A disk in memory that knows which data is durable, and fails on request.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::super::storage::{FileName, LogStorage, StorageFile};

/// The fault, which happens once: the call with this number among its kind, counted from 0, fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No room for a new file.
    Create(u64),
    /// No room for a write; half of it has been done.
    Write(u64),
    /// A sync fails, and the pages are lost.
    Sync(u64),
    /// No room in this call, of any kind that changes something.
    Any(u64),
}

/// Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryStorage(Arc<(Mutex<Disk>, Condvar)>);

#[derive(Debug, Default)]
struct Disk {
    files: BTreeMap<FileName, Pages>,
    fault: Option<Fault>,
    /// The most bytes that a write does.
    write_max: Option<usize>,
    creates: u64,
    writes: u64,
    syncs: u64,
    calls: u64,
    /// Calls after the one that failed.
    calls_after_fault: u64,
    has_failed: bool,
    /// While it is set, syncs sleep.
    is_gate_closed: bool,
    waits_at_gate: bool,
}

#[derive(Debug, Clone, Default)]
struct Pages {
    /// The contents that the process sees.
    bytes: Vec<u8>,
    /// The contents that survive any crash.
    durable: Vec<u8>,
}

/// The unit in which a crash keeps or loses data that was not synced.
const BLOCK: usize = 512;

impl MemoryStorage {
    pub(crate) fn with_fault(fault: Fault) -> Self {
        let storage = MemoryStorage::default();
        storage.set_fault(fault);
        storage
    }

    /// Sets the fault, counted from the beginning.
    pub(crate) fn set_fault(&self, fault: Fault) {
        self.0.0.lock().fault = Some(fault);
    }

    pub(crate) fn with_short_writes(write_max: usize) -> Self {
        let storage = MemoryStorage::default();
        storage.0.0.lock().write_max = Some(write_max);
        storage
    }

    pub(crate) fn of(segments: BTreeMap<u64, Vec<u8>>) -> Self {
        let segment = |(number, bytes)| (FileName::Segment(number), bytes);
        MemoryStorage::of_files(segments.into_iter().map(segment).collect())
    }

    pub(crate) fn of_files(files: BTreeMap<FileName, Vec<u8>>) -> Self {
        let storage = MemoryStorage::default();
        let pages = |bytes: Vec<u8>| Pages { durable: bytes.clone(), bytes };
        storage.0.0.lock().files = files.into_iter().map(|(name, bytes)| (name, pages(bytes))).collect();
        storage
    }

    pub(crate) fn durable(&self) -> Self {
        let disk = self.0.0.lock();
        MemoryStorage::of_files(disk.files.iter().map(|(&name, pages)| (name, pages.durable.clone())).collect())
    }

    /// The disk after a crash of the machine: the durable data, and some of the other blocks at random.
    pub(crate) fn after_crash(&self, seed: u64) -> Self {
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
        MemoryStorage::of_files(disk.files.iter().map(|(&name, pages)| (name, left(pages))).collect())
    }

    /// All segments as the process sees them.
    pub(crate) fn bytes(&self) -> BTreeMap<u64, Vec<u8>> {
        let segment = |(name, bytes)| if let FileName::Segment(number) = name { Some((number, bytes)) } else { None };
        self.files().into_iter().filter_map(segment).collect()
    }

    /// All files as the process sees them.
    pub(crate) fn files(&self) -> BTreeMap<FileName, Vec<u8>> {
        self.0.0.lock().files.iter().map(|(&name, pages)| (name, pages.bytes.clone())).collect()
    }

    /// The number of calls that change something.
    pub(crate) fn calls(&self) -> u64 {
        self.0.0.lock().calls
    }

    /// Whether the fault has happened.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.0.lock().has_failed
    }

    pub(crate) fn calls_after_fault(&self) -> u64 {
        self.0.0.lock().calls_after_fault
    }

    pub(crate) fn close_gate(&self) {
        self.0.0.lock().is_gate_closed = true;
    }

    pub(crate) fn open_gate(&self) {
        self.0.0.lock().is_gate_closed = false;
        self.0.1.notify_all();
    }

    /// Returns when a sync sleeps at the gate.
    pub(crate) fn wait_for_sync(&self) {
        let mut disk = self.0.0.lock();
        while !disk.waits_at_gate {
            self.0.1.wait(&mut disk);
        }
    }

    fn file(&self, name: FileName) -> Box<dyn StorageFile> {
        Box::new(MemoryFile { storage: self.clone(), name })
    }
}

impl Disk {
    /// Counts a call, and returns whether it is the one that fails.
    fn fails(&mut self, this: Option<Fault>) -> bool {
        self.calls_after_fault += u64::from(self.has_failed);
        let any = Fault::Any(self.calls);
        self.calls += 1;
        let fails = self.fault.is_some() && (self.fault == this || self.fault == Some(any));
        self.has_failed |= fails;
        fails
    }

    fn move_file(&mut self, old: FileName, new: FileName) -> io::Result<()> {
        if self.fails(None) {
            return Err(ErrorKind::StorageFull.into());
        }
        let pages = self.files.remove(&old).ok_or(ErrorKind::NotFound)?;
        assert!(self.files.insert(new, pages).is_none(), "{new} was there");
        Ok(())
    }
}

impl LogStorage for MemoryStorage {
    fn create(&self, name: FileName, _bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        let mut disk = self.0.0.lock();
        let call = disk.creates;
        disk.creates += 1;
        if disk.fails(Some(Fault::Create(call))) {
            return Err(ErrorKind::StorageFull.into());
        }
        assert!(disk.files.insert(name, Pages::default()).is_none(), "{name}: a number that was given before");
        Ok(self.file(name))
    }

    fn reuse(&self, old: FileName, new: FileName, _bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        self.0.0.lock().move_file(old, new)?;
        Ok(self.file(new))
    }

    fn open_to_write(&self, name: FileName) -> io::Result<Box<dyn StorageFile>> {
        assert!(self.0.0.lock().files.contains_key(&name), "{name} is not there");
        Ok(self.file(name))
    }

    fn rename(&self, old: FileName, new: FileName) -> io::Result<()> {
        self.0.0.lock().move_file(old, new)
    }

    fn remove(&self, name: FileName) -> io::Result<()> {
        let mut disk = self.0.0.lock();
        if disk.fails(None) {
            return Err(ErrorKind::Other.into());
        }
        disk.files.remove(&name).map(|_| ()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn names(&self) -> io::Result<Vec<FileName>> {
        Ok(self.0.0.lock().files.keys().copied().collect())
    }

    fn open(&self, name: FileName) -> io::Result<Box<dyn Read>> {
        let bytes = self.0.0.lock().files.get(&name).map(|pages| pages.bytes.clone());
        Ok(Box::new(io::Cursor::new(bytes.ok_or(ErrorKind::NotFound)?)))
    }
}

struct MemoryFile {
    storage: MemoryStorage,
    name: FileName,
}

impl StorageFile for MemoryFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.storage.0.0.lock();
        let call = disk.writes;
        disk.writes += 1;
        let fails = disk.fails(Some(Fault::Write(call)));
        let count = if fails { bytes.len() / 2 } else { bytes.len().min(disk.write_max.unwrap_or(usize::MAX)) };
        let pages = disk.files.get_mut(&self.name).unwrap();
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
        if disk.fails(Some(Fault::Sync(call))) {
            return Err(io::Error::other("the device has failed"));
        }
        let pages = disk.files.get_mut(&self.name).unwrap();
        pages.durable.clone_from(&pages.bytes);
        Ok(())
    }
}
