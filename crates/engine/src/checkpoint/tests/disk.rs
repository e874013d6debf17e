//! A file system in memory that knows what is durable, and every state in which a crash may leave it.
//!
//! It promises as little as POSIX does. A name is durable when its folder has been synced, a block of 512 bytes when its file
//! has; until then each change of a name and each block is kept or lost by itself, in any combination. What is kept happens
//! in order, and a rename happens wholly or not at all. After a file's sync that failed, what was to be synced is still seen by
//! processes and will not become durable any more, whatever later syncs say; names, which file systems keep in a journal, may.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::log::files::{Files, WritableFile};
use crate::log::storage::StorageFile;

/// The unit in which a crash keeps or loses data.
const BLOCK: usize = 512;
/// With so many changes that are not durable, all combinations are looked at; with more, each one alone kept or lost, and
/// some by chance.
const ALL_COMBINATIONS_MAX: usize = 6;

/// Files and folders by number; the root is the first.
#[derive(Debug, Clone)]
pub(super) struct Disk(Vec<Node>);

#[derive(Debug, Clone, Default)]
struct Node {
    /// What it was called when it was made or renamed last.
    name: String,
    is_folder: bool,
    names: Versions<Names, NameChange>,
    data: Versions<Vec<u8>, DataChange>,
}

type Names = BTreeMap<String, usize>;

/// Something as it is durable, as processes see it, and what has changed between.
#[derive(Debug, Clone)]
struct Versions<T, C> {
    durable: T,
    seen: T,
    pending: Vec<C>,
}

impl<T: Default, C> Default for Versions<T, C> {
    fn default() -> Self {
        Versions { durable: T::default(), seen: T::default(), pending: Vec::new() }
    }
}

#[derive(Debug, Clone)]
struct NameChange {
    removed: Option<String>,
    added: Option<(String, usize)>,
}

#[derive(Debug, Clone)]
enum DataChange {
    /// Bytes within a block.
    Written(usize, Vec<u8>),
    /// It is at least so long.
    Reserved(usize),
}

trait Change<T> {
    fn apply(&self, to: &mut T);
}

impl Change<Names> for NameChange {
    fn apply(&self, names: &mut Names) {
        if let Some(removed) = &self.removed {
            names.remove(removed);
        }
        names.extend(self.added.clone());
    }
}

impl Change<Vec<u8>> for DataChange {
    fn apply(&self, data: &mut Vec<u8>) {
        match self {
            DataChange::Written(at, bytes) => {
                let end = at + bytes.len();
                data.resize(data.len().max(end), 0);
                data[*at..end].copy_from_slice(bytes);
            }
            DataChange::Reserved(length) => data.resize(data.len().max(*length), 0),
        }
    }
}

impl<T: Clone, C: Change<T>> Versions<T, C> {
    fn change(&mut self, change: C) {
        change.apply(&mut self.seen);
        self.pending.push(change);
    }

    /// Makes durable what is pending, as far as `keep` says.
    fn settle(&mut self, mut keep: impl FnMut() -> bool) {
        for change in self.pending.drain(..).filter(|_| keep()) {
            change.apply(&mut self.durable);
        }
    }

    fn crash(&mut self, keep: impl FnMut() -> bool) {
        self.settle(keep);
        self.seen = self.durable.clone();
    }
}

impl Default for Disk {
    fn default() -> Self {
        Disk(vec![Node { is_folder: true, ..Node::default() }])
    }
}

impl Disk {
    /// The file or folder at a path.
    fn walk(&self, path: &Path) -> io::Result<usize> {
        let mut way = vec![0];
        for component in path.components() {
            match component {
                Component::Normal(name) => {
                    let names = &self.0[way[way.len() - 1]].names.seen;
                    way.push(*names.get(&*name.to_string_lossy()).ok_or(ErrorKind::NotFound)?);
                }
                Component::ParentDir if way.len() > 1 => drop(way.pop()),
                _ => {}
            }
        }
        Ok(way[way.len() - 1])
    }

    fn folder_and_name(&self, path: &Path) -> io::Result<(usize, String)> {
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
        Ok((self.walk(path.parent().ok_or(ErrorKind::InvalidInput)?)?, name))
    }

    fn make(&mut self, path: &Path, is_folder: bool) -> io::Result<usize> {
        let (folder, name) = self.folder_and_name(path)?;
        if self.0[folder].names.seen.contains_key(&name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let node = self.0.len();
        self.0.push(Node { name: name.clone(), is_folder, ..Node::default() });
        self.0[folder].names.change(NameChange { removed: None, added: Some((name, node)) });
        Ok(node)
    }

    fn write(&mut self, node: usize, mut bytes: &[u8], mut at: usize) {
        while !bytes.is_empty() {
            let (block, rest) = bytes.split_at(bytes.len().min(BLOCK - at % BLOCK));
            self.0[node].data.change(DataChange::Written(at, block.to_vec()));
            at += block.len();
            bytes = rest;
        }
    }

    /// What a sync is for: tests leave out one kind to see that it is missed.
    fn kind_of_sync(&self, node: usize) -> &'static str {
        let node = &self.0[node];
        let renamed = |change: &NameChange| change.removed.is_some();
        let name = match node.names.pending.iter().rev().find(|change| change.added.is_some()) {
            _ if !node.is_folder => return kind_of_name(&node.name, ["a segment", "a checkpoint", "an identity", "?"]),
            None => return "no name",
            Some(change) => change.added.as_ref().map(|(name, node)| (name, *node, renamed(change))),
        };
        match name {
            Some((_, node, _)) if self.0[node].is_folder => "a folder's name",
            Some((name, _, true)) => kind_of_name(
                name,
                ["the name of a segment used again", "a checkpoint's name", "an identity's name", "?"],
            ),
            Some((name, _, false)) => kind_of_name(name, ["a new segment's name", "?", "?", "?"]),
            None => "?",
        }
    }

    /// Whether two disks look the same to a process that opens their files.
    pub(super) fn image(&self) -> BTreeMap<String, Vec<u8>> {
        let mut image = BTreeMap::new();
        let mut folders = vec![(String::new(), 0)];
        while let Some((path, folder)) = folders.pop() {
            for (name, &node) in &self.0[folder].names.seen {
                let path = format!("{path}/{name}");
                image.insert(path.clone(), self.0[node].data.seen.clone());
                folders.extend(self.0[node].is_folder.then_some((path, node)));
            }
        }
        image
    }

    fn pending_count(&self) -> usize {
        self.0.iter().map(|node| node.names.pending.len() + node.data.pending.len()).sum()
    }

    fn after_crash(&self, mut keep: impl FnMut(usize) -> bool) -> Disk {
        let mut disk = self.clone();
        let mut at = 0;
        let mut next = || {
            at += 1;
            keep(at - 1)
        };
        for node in &mut disk.0 {
            node.names.crash(&mut next);
            node.data.crash(&mut next);
        }
        disk
    }

    /// The states in which a crash may leave it.
    pub(super) fn crash_states(&self, seed: u64) -> Vec<Disk> {
        let count = self.pending_count();
        if count <= ALL_COMBINATIONS_MAX {
            return (0..1_u32 << count).map(|kept| self.after_crash(|at| kept >> at & 1 == 1)).collect();
        }
        let mut random = Pcg64::seed_from_u64(seed);
        let mut states = vec![self.after_crash(|_| false), self.after_crash(|_| true)];
        for one in 0..count.min(16) {
            states.extend([self.after_crash(|at| at == one), self.after_crash(|at| at != one)]);
        }
        states.extend((0..32).map(|_| self.after_crash(|_| random.random_bool(0.5))));
        states
    }
}

/// One of four: for segments, checkpoints and their drafts, identities and their drafts, anything else.
fn kind_of_name(name: &str, kinds: [&'static str; 4]) -> &'static str {
    let prefixes = ["segment-", "checkpoint-", "plimsoll-database"];
    kinds[prefixes.iter().position(|prefix| name.starts_with(prefix)).unwrap_or(3)]
}

/// What goes wrong. Calls that change something are counted from 0, and so are those that read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// That call fails; a write has done its first half, a file's sync has lost what it was for.
    Refused(u64),
    /// That call does what it should, and reports an error.
    AfterEffect(u64),
    /// From that call on there is no room for anything more.
    Full(u64),
    /// That call to read fails.
    Read(u64),
}

/// A disk at work. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct DiskFiles(Arc<Mutex<Work>>);

#[derive(Debug, Default)]
struct Work {
    disk: Disk,
    fault: Option<Fault>,
    /// Syncs of this kind do nothing.
    dropped: Option<&'static str>,
    calls: u64,
    reads: u64,
    /// What users were told to be durable.
    acknowledged: Vec<i64>,
    /// The disk after each call, and how much had been acknowledged before the next.
    history: Vec<(Disk, usize)>,
}

impl DiskFiles {
    /// Goes on with a disk on which so much has been acknowledged.
    pub(super) fn of(disk: Disk, acknowledged: Vec<i64>) -> Self {
        DiskFiles(Arc::new(Mutex::new(Work { disk, acknowledged, ..Work::default() })))
    }

    pub(super) fn with_fault(self, fault: Option<Fault>) -> Self {
        self.0.lock().fault = fault;
        self
    }

    pub(super) fn without_sync_of(kind: &'static str) -> Self {
        let files = DiskFiles::default();
        files.0.lock().dropped = Some(kind);
        files
    }

    pub(super) fn acknowledge(&self, key: i64) {
        let work = &mut *self.0.lock();
        work.acknowledged.push(key);
        if let Some((_, acknowledged)) = work.history.last_mut() {
            *acknowledged = work.acknowledged.len();
        }
    }

    pub(super) fn acknowledged(&self) -> Vec<i64> {
        self.0.lock().acknowledged.clone()
    }

    pub(super) fn disk(&self) -> Disk {
        self.0.lock().disk.clone()
    }

    pub(super) fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    pub(super) fn reads(&self) -> u64 {
        self.0.lock().reads
    }

    /// The disk after each call, with what had been acknowledged before the next.
    pub(super) fn history(&self) -> Vec<(Disk, Vec<i64>)> {
        let work = self.0.lock();
        work.history.iter().map(|(disk, count)| (disk.clone(), work.acknowledged[..*count].to_vec())).collect()
    }

    /// Carries out a call that changes something; `half` is what it has done if it is refused.
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
        let dropped = self.0.lock().dropped;
        let settle = |disk: &mut Disk| {
            let node = find(disk)?;
            if dropped != Some(disk.kind_of_sync(node)) {
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
