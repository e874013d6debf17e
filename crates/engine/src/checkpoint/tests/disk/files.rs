//! The disk in use: calls are carried out, counted and recorded, and fail where a test says so.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{DataChange, Disk, NameChange};
use crate::log::files::{Files, WritableFile};
use crate::log::storage::StorageFile;

/// The fault to simulate. Calls that change something are counted from 0, and so are calls that read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::checkpoint::tests) enum Fault {
    /// The call fails. A write has done its first half; a file's sync has lost the data that it was to sync.
    Refused(u64),
    /// The call has its effect, and reports an error.
    AfterEffect(u64),
    /// From this call on the disk is full.
    Full(u64),
    /// This call to read fails.
    Read(u64),
}

/// The purpose of a segment's sync before anything was acknowledged.
pub(in crate::checkpoint::tests) const UNAWAITED: &str = "a segment that nobody waits for";

/// Syncs that do nothing, so that tests check that each is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::checkpoint::tests) enum Dropped {
    /// The sync with this number among those with this purpose, counted from 0.
    One(&'static str, usize),
    /// All syncs with this purpose.
    Kind(&'static str),
}

/// A disk in use. Clones share its state.
#[derive(Debug, Clone, Default)]
pub(in crate::checkpoint::tests) struct DiskFiles(Arc<Mutex<Work>>);

#[derive(Debug, Default)]
struct Work {
    disk: Disk,
    fault: Option<Fault>,
    dropped: Option<Dropped>,
    /// The purpose of each sync so far.
    syncs: Vec<&'static str>,
    /// The names that files had when the process began, by number.
    found: Vec<String>,
    calls: u64,
    reads: u64,
    /// The changes that were acknowledged as durable.
    acknowledged: Vec<i64>,
    /// The disk after each call, and the number of changes acknowledged before the next call.
    history: Vec<(Disk, usize)>,
}

impl DiskFiles {
    /// Continues with a disk and the changes that were acknowledged on it.
    pub(in crate::checkpoint::tests) fn of(disk: Disk, acknowledged: Vec<i64>) -> Self {
        let found = disk.0.iter().map(|node| node.name.clone()).collect();
        DiskFiles(Arc::new(Mutex::new(Work { disk, acknowledged, found, ..Work::default() })))
    }

    pub(in crate::checkpoint::tests) fn with_fault(self, fault: Option<Fault>) -> Self {
        self.0.lock().fault = fault;
        self
    }

    pub(in crate::checkpoint::tests) fn without(self, dropped: Option<Dropped>) -> Self {
        self.0.lock().dropped = dropped;
        self
    }

    /// The purpose of each sync.
    pub(in crate::checkpoint::tests) fn syncs(&self) -> Vec<&'static str> {
        self.0.lock().syncs.clone()
    }

    pub(in crate::checkpoint::tests) fn acknowledge(&self, key: i64) {
        let work = &mut *self.0.lock();
        work.acknowledged.push(key);
        if let Some((_, acknowledged)) = work.history.last_mut() {
            *acknowledged = work.acknowledged.len();
        }
    }

    pub(in crate::checkpoint::tests) fn acknowledged(&self) -> Vec<i64> {
        self.0.lock().acknowledged.clone()
    }

    pub(in crate::checkpoint::tests) fn disk(&self) -> Disk {
        self.0.lock().disk.clone()
    }

    pub(in crate::checkpoint::tests) fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    pub(in crate::checkpoint::tests) fn reads(&self) -> u64 {
        self.0.lock().reads
    }

    /// The disk after each call, with the changes acknowledged before the next call.
    pub(in crate::checkpoint::tests) fn history(&self) -> Vec<(Disk, Vec<i64>)> {
        let work = self.0.lock();
        work.history.iter().map(|(disk, count)| (disk.clone(), work.acknowledged[..*count].to_vec())).collect()
    }

    /// Carries out a call that changes something; `half` is the effect of a refused call.
    fn change<T>(
        &self,
        needs_room: impl FnOnce(&Disk) -> bool,
        effect: impl FnOnce(&mut Disk) -> io::Result<T>,
        half: impl FnOnce(&mut Disk),
    ) -> io::Result<T> {
        let work = &mut *self.0.lock();
        let call = work.calls;
        work.calls += 1;
        let outcome = match work.fault {
            Some(Fault::Refused(at)) if at == call => {
                half(&mut work.disk);
                Err(io::Error::other("the device has failed"))
            }
            Some(Fault::Full(from)) if call >= from && needs_room(&work.disk) => Err(ErrorKind::StorageFull.into()),
            _ => effect(&mut work.disk),
        };
        work.history.push((work.disk.clone(), work.acknowledged.len()));
        match work.fault {
            Some(Fault::AfterEffect(at)) if at == call => Err(io::Error::other("the device has failed afterwards")),
            _ => outcome,
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Disk) -> io::Result<T>) -> io::Result<T> {
        let work = &mut *self.0.lock();
        let call = work.reads;
        work.reads += 1;
        if work.fault == Some(Fault::Read(call)) {
            return Err(io::Error::other("it cannot be read"));
        }
        read(&work.disk)
    }

    fn sync(&self, find: impl Fn(&Disk) -> io::Result<usize>) -> io::Result<()> {
        let is_dropped = {
            let work = &mut *self.0.lock();
            let node = find(&work.disk)?;
            let kind = work.disk.kind_of_sync(node, |node| work.found.get(node) == Some(&work.disk.0[node].name));
            // Before the first commit waits for the log, the number of groups in which it is written depends on the
            // threads.
            let kind = if kind == "a segment" && work.acknowledged.is_empty() { UNAWAITED } else { kind };
            let number = work.syncs.iter().filter(|other| **other == kind).count();
            work.syncs.push(kind);
            work.dropped == Some(Dropped::One(kind, number)) || work.dropped == Some(Dropped::Kind(kind))
        };
        let settle = |disk: &mut Disk| {
            let node = find(disk)?;
            if !is_dropped {
                disk.0[node].names.settle(|| true);
                disk.0[node].data.settle(|| true);
            }
            Ok(())
        };
        let lose = |disk: &mut Disk| {
            if let Ok(node) = find(disk) {
                disk.0[node].data.settle(|| false);
            }
        };
        self.change(|_| false, settle, lose)
    }
}

impl Files for DiskFiles {
    fn make_folders(&self, path: &Path) -> io::Result<()> {
        let mut missing: Vec<&Path> = path.ancestors().collect();
        missing.retain(|path| self.0.lock().disk.walk(path).is_err());
        let make = |path: &&Path| self.change(|_| true, |disk| disk.make(path, true), |_| ()).map(|_| ());
        missing.iter().rev().try_for_each(make)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let node = self.change(|_| true, |disk| disk.make(path, false), |_| ())?;
        Ok(Box::new(DiskFile { files: self.clone(), node }))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let node = self.0.lock().disk.walk(path)?;
        Ok(Box::new(DiskFile { files: self.clone(), node }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let node = self.read(|disk| disk.walk(path))?;
        Ok(Box::new(DiskReader { files: self.clone(), node, at: 0 }))
    }

    fn rename(&self, old: &Path, new: &Path) -> io::Result<()> {
        let rename = |disk: &mut Disk| {
            let (folder, removed) = disk.folder_and_name(old)?;
            let (node, (_, added)) = (disk.walk(old)?, disk.folder_and_name(new)?);
            disk.0[node].name.clone_from(&added);
            disk.0[folder].names.change(NameChange { removed: Some(removed), added: Some((added, node)) });
            Ok(())
        };
        self.change(|_| false, rename, |_| ())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let remove = |disk: &mut Disk| {
            let (folder, name) = disk.folder_and_name(path)?;
            disk.walk(path)?;
            disk.0[folder].names.change(NameChange { removed: Some(name), added: None });
            Ok(())
        };
        self.change(|_| false, remove, |_| ())
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.read(|disk| Ok(disk.0[disk.walk(folder)?].names.seen.keys().map(OsString::from).collect()))
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.sync(|disk| disk.walk(folder))
    }
}

struct DiskFile {
    files: DiskFiles,
    node: usize,
}

impl StorageFile for DiskFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let (node, at) = (self.node, offset as usize);
        let write = |disk: &mut Disk, count: usize| disk.write(node, &bytes[..count], at);
        let is_longer = |disk: &Disk| at + bytes.len() > disk.0[node].data.seen.len();
        let whole = |disk: &mut Disk| {
            write(disk, bytes.len());
            Ok(bytes.len())
        };
        self.files.change(is_longer, whole, |disk| write(disk, bytes.len() / 2))
    }

    fn sync(&mut self) -> io::Result<()> {
        let node = self.node;
        self.files.sync(|_| Ok(node))
    }
}

impl WritableFile for DiskFile {
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let (node, length) = (self.node, bytes as usize);
        if self.files.0.lock().disk.0[node].data.seen.len() >= length {
            return Ok(());
        }
        let reserve = |disk: &mut Disk| {
            disk.0[node].data.change(DataChange::Reserved(length));
            Ok(())
        };
        self.files.change(|_| true, reserve, |_| ())
    }
}

struct DiskReader {
    files: DiskFiles,
    node: usize,
    at: usize,
}

impl Read for DiskReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.files.read(|disk| {
            let rest = &disk.0[self.node].data.seen[self.at..];
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })?;
        self.at += count;
        Ok(count)
    }
}
