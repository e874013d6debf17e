//! Ordered indexes: keys to row numbers, in a concurrent B+ tree.
//!
//! Lookups take no latch. What changes the set of keys ([`Index::insert_latched`] and its kind) goes through
//! the index's latch, and so does the moment in which a scan makes sure that what it has locked is still what there is: see
//! [key-range locks](crate::lock).

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use scc::{Guard, TreeIndex};

use super::heap::RowId;
use super::key::{Key, KeyLayout, StoredKey};
use super::latch::{Exclusive, Latch, Shared};

/// What the smallest and the largest possible key mean while no row has them.
///
/// Both are always in the tree. `scc::TreeIndex` finds where a range begins by a key on the near side of it; where there is
/// none, below its first key and above its last, it tries every leaf, which took 4 ms among 18 000 keys instead of 0.2 us.
const NO_ROW: RowId = RowId::MAX;

/// One ordered index of a table.
#[derive(Debug)]
pub struct Index {
    /// Unique among all indexes of an engine.
    pub number: u32,
    /// How rows become keys.
    pub keys: KeyLayout,
    /// Whether two rows may not have equal columns.
    pub unique: bool,
    tree: Tree,
    // Each on cache lines of its own: lookups read `removals`, which insertions leave alone, and nothing else of these.
    latch: CachePadded<Latch>,
    /// Grows with each change of the set of keys.
    version: CachePadded<AtomicU64>,
    /// Grows with each key that disappears or comes to mean another row.
    removals: CachePadded<AtomicU64>,
}

/// The tree in the least width that holds the index's keys: comparing two words is what a lookup does most.
#[derive(Debug)]
enum Tree {
    Two(TreeIndex<[u64; 2], RowId>),
    Three(TreeIndex<[u64; 3], RowId>),
    Eight(TreeIndex<[u64; 8], RowId>),
}

macro_rules! with_tree {
    ($self:expr, $tree:ident => $body:expr) => {
        match &$self.tree {
            Tree::Two($tree) => $body,
            Tree::Three($tree) => $body,
            Tree::Eight($tree) => $body,
        }
    };
}

impl Index {
    /// An empty index.
    pub fn new(number: u32, keys: KeyLayout, unique: bool) -> Self {
        let tree = match keys.key_bytes() {
            0..=16 => Tree::Two(TreeIndex::new()),
            17..=24 => Tree::Three(TreeIndex::new()),
            _ => Tree::Eight(TreeIndex::new()),
        };
        let (latch, version, removals) = Default::default();
        let index = Index { number, keys, unique, tree, latch, version, removals };
        with_tree!(index, tree => fence(tree));
        index
    }

    /// The row with that key.
    pub fn get(&self, key: &Key) -> Option<RowId> {
        with_tree!(self, tree => get(tree, key))
    }

    /// The first row in `low..=high`.
    pub fn first(&self, low: &Key, high: &Key) -> Option<RowId> {
        with_tree!(self, tree => first(tree, low, high))
    }

    /// The last row in `low..=high`.
    pub fn last(&self, low: &Key, high: &Key) -> Option<RowId> {
        with_tree!(self, tree => last(tree, low, high))
    }

    /// The first row whose key is greater.
    pub fn after(&self, key: &Key) -> Option<RowId> {
        with_tree!(self, tree => after(tree, key))
    }

    /// The row with that key, and the first row whose key is greater: one way down the tree for both.
    pub fn at_and_after(&self, key: &Key) -> (Option<RowId>, Option<RowId>) {
        with_tree!(self, tree => at_and_after(tree, key))
    }

    /// Appends every row in `low..=high` in order of key; returns the first row after them.
    pub fn collect(&self, low: &Key, high: &Key, rows: &mut Vec<RowId>) -> Option<RowId> {
        with_tree!(self, tree => collect(tree, low, high, rows))
    }

    /// How many keys there are. Walks the index.
    pub fn key_count(&self) -> usize {
        with_tree!(self, tree => tree.iter(&Guard::new()).filter(|(_, row)| **row != NO_ROW).count())
    }

    /// A number that grows whenever the set of keys changes.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// A number that grows whenever a key disappears or comes to mean another row.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Keeps the set of keys as it is.
    pub fn freeze(&self) -> Shared<'_> {
        self.latch.share()
    }

    /// The right to change the set of keys.
    pub fn latch(&self) -> Exclusive<'_> {
        self.latch.take()
    }

    /// Adds a key under the [`latch`](Self::latch). False, and nothing changed, if it is there already.
    pub fn insert_latched(&self, _latch: &Exclusive<'_>, key: &Key, row: RowId) -> bool {
        let inserted = self.load(key, row);
        if inserted {
            self.version.fetch_add(1, Ordering::Release);
        }
        inserted
    }

    /// Makes a key mean another row under the [`latch`](Self::latch).
    pub fn replace_latched(&self, _latch: &Exclusive<'_>, key: &Key, row: RowId) {
        with_tree!(self, tree => tree.upsert_sync(StoredKey::store(key), row));
        self.version.fetch_add(1, Ordering::Release);
        self.removals.fetch_add(1, Ordering::Release);
    }

    /// Takes a key away under the [`latch`](Self::latch), if it means that row.
    pub fn remove_latched(&self, _latch: &Exclusive<'_>, key: &Key, row: RowId) -> bool {
        let removed = with_tree!(self, tree => remove(tree, key, row));
        if removed {
            self.version.fetch_add(1, Ordering::Release);
            self.removals.fetch_add(1, Ordering::Release);
        }
        removed
    }

    /// Adds a key while nobody else uses the index at all, as a bulk load does. False if it is there already.
    pub fn load(&self, key: &Key, row: RowId) -> bool {
        with_tree!(self, tree => insert(tree, key, row))
    }
}

/// Puts in the two keys that are always there.
fn fence<K: StoredKey>(tree: &TreeIndex<K, RowId>) {
    for key in [K::MIN, K::MAX] {
        tree.upsert_sync(key, NO_ROW);
    }
}

fn get<K: StoredKey>(tree: &TreeIndex<K, RowId>, key: &Key) -> Option<RowId> {
    tree.peek_with(&K::store(key), |_, row| *row).filter(|row| *row != NO_ROW)
}

fn insert<K: StoredKey>(tree: &TreeIndex<K, RowId>, key: &Key, row: RowId) -> bool {
    let key = K::store(key);
    if tree.insert_sync(key, row).is_ok() {
        return true;
    }
    // A row may well have the smallest or the largest key: then the key comes to mean it.
    let is_free = tree.peek_with(&key, |_, found| *found == NO_ROW) == Some(true);
    if is_free {
        tree.upsert_sync(key, row);
    }
    is_free
}

fn remove<K: StoredKey>(tree: &TreeIndex<K, RowId>, key: &Key, row: RowId) -> bool {
    let key = K::store(key);
    if key == K::MIN || key == K::MAX {
        let is_there = tree.peek_with(&key, |_, found| *found == row) == Some(true);
        if is_there {
            tree.upsert_sync(key, NO_ROW);
        }
        return is_there;
    }
    tree.remove_if_sync(&key, |found| *found == row)
}

fn first<K: StoredKey>(tree: &TreeIndex<K, RowId>, low: &Key, high: &Key) -> Option<RowId> {
    let guard = Guard::new();
    tree.range(K::store(low)..=K::store(high), &guard).map(|(_, row)| *row).find(|row| *row != NO_ROW)
}

fn last<K: StoredKey>(tree: &TreeIndex<K, RowId>, low: &Key, high: &Key) -> Option<RowId> {
    let guard = Guard::new();
    tree.range(K::store(low)..=K::store(high), &guard).rev().map(|(_, row)| *row).find(|row| *row != NO_ROW)
}

fn after<K: StoredKey>(tree: &TreeIndex<K, RowId>, key: &Key) -> Option<RowId> {
    let guard = Guard::new();
    let bounds = (std::ops::Bound::Excluded(K::store(key)), std::ops::Bound::Unbounded);
    tree.range::<K, _>(bounds, &guard).next().map(|(_, row)| *row).filter(|row| *row != NO_ROW)
}

fn at_and_after<K: StoredKey>(tree: &TreeIndex<K, RowId>, key: &Key) -> (Option<RowId>, Option<RowId>) {
    let guard = Guard::new();
    let key = K::store(key);
    let mut entries = tree.range::<K, _>(key.., &guard).filter(|(_, row)| **row != NO_ROW);
    match entries.next() {
        Some((found, row)) if *found == key => (Some(*row), entries.next().map(|(_, next)| *next)),
        next => (None, next.map(|(_, row)| *row)),
    }
}

fn collect<K: StoredKey>(tree: &TreeIndex<K, RowId>, low: &Key, high: &Key, rows: &mut Vec<RowId>) -> Option<RowId> {
    let guard = Guard::new();
    let high = K::store(high);
    for (key, row) in tree.range::<K, _>(K::store(low).., &guard) {
        if *row == NO_ROW {
            continue;
        }
        if *key > high {
            return Some(*row);
        }
        rows.push(*row);
    }
    None
}

#[cfg(test)]
mod tests;
