//! A file system in memory that knows which data is durable and every state in which a crash may leave it.
//!
//! It promises as little as POSIX does. A name is durable when its folder has been synced, a block of 512 bytes when
//! its file has. Until then each change of a name and each block is kept or lost independently, in any combination. The
//! changes that are kept happen in order, and a rename is atomic. After a failed sync of a file, processes still see
//! its data, but the data never becomes durable, even if later syncs succeed. Names may become durable, because file
//! systems keep them in a journal.

mod files;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

pub(super) use files::{DiskFiles, Dropped, Fault, UNAWAITED};

/// The unit in which a crash keeps or loses data.
const BLOCK: usize = 512;
/// Up to this number of changes that are not durable, all combinations are tried. Beyond it, each change is kept alone
/// and lost alone, and some random combinations are added.
const ALL_COMBINATIONS_MAX: usize = 6;

/// Files and folders by number; the root is the first.
#[derive(Debug, Clone)]
pub(super) struct Disk(Vec<Node>);

#[derive(Debug, Clone, Default)]
struct Node {
    /// The name that it got last, when it was made or renamed.
    name: String,
    is_folder: bool,
    names: Versions<Names, NameChange>,
    data: Versions<Vec<u8>, DataChange>,
}

type Names = BTreeMap<String, usize>;

/// The files that a process finds on a disk, by path.
pub(super) type Image = BTreeMap<String, Vec<u8>>;

/// The durable version, the version that processes see, and the changes between them.
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
    /// The file is at least this long.
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

    /// Makes the pending changes durable for which `keep` returns true.
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
                Component::ParentDir if way.len() > 1 => way.truncate(way.len() - 1),
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

    /// The purpose of a sync. The name of a `found` file existed when the process began.
    fn kind_of_sync(&self, node: usize, found: impl Fn(usize) -> bool) -> &'static str {
        let Node { name, is_folder, names, .. } = &self.0[node];
        if !is_folder {
            let segment = if found(node) { "the end of a log that was found" } else { "a segment" };
            return kind_of_name(name, [segment, "a checkpoint", "an identity", "?"]);
        }
        let Some((change, (name, node))) =
            names.pending.iter().rev().find_map(|change| Some((change, change.added.as_ref()?)))
        else {
            return "nothing new";
        };
        match change.removed {
            _ if self.0[*node].is_folder => "a folder's name",
            Some(_) => kind_of_name(
                name,
                ["the name of a segment used again", "a checkpoint's name", "an identity's name", "?"],
            ),
            // An identity's draft tests whether the folder can be written, where other names are perhaps not durable
            // yet.
            None => kind_of_name(name, ["a new segment's name", "a draft's name", "names that were found", "?"]),
        }
    }

    /// The files that a process finds on it.
    pub(super) fn image(&self) -> Image {
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

    /// The states in which a crash may leave the disk.
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

/// One of four kinds: segments, checkpoints and their drafts, identities and their drafts, and others.
fn kind_of_name(name: &str, kinds: [&'static str; 4]) -> &'static str {
    let prefixes = ["segment-", "checkpoint-", "plimsoll-database"];
    kinds[prefixes.iter().position(|prefix| name.starts_with(prefix)).unwrap_or(3)]
}
