//! Ordered indexes: keys to row numbers, in a concurrent B+ tree.
//!
//! Lookups take no latch. Functions that change the set of keys ([`Index::insert_latched`] and similar ones) take the
//! index's [latches](super::stripes). So does a scan when it checks that the entries which it has locked are still the
//! current ones: see [key-range locks](crate::lock).

use scc::{Guard, TreeIndex};

use super::heap::RowId;
use super::key::{Key, KeyLayout, StoredKey};
use super::stripes::{Frozen, Held, Stripe, Stripes};

/// The row of the smallest and of the largest possible key while no real row has these keys.
///
/// Both are always in the tree. `scc::TreeIndex` finds the beginning of a range by a key outside it, on the side where
/// it begins. Below the first key and above the last one it has none and tries every leaf, which took 4 ms among 18 000
/// keys instead of 0.2 us.
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
    stripes: Stripes,
}

/// The first entry above a key or a range; a lock on its gap covers the space between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Above {
    /// Its row; `None` is the end of the index.
    pub row: Option<RowId>,
    /// The first eight bytes of its key.
    leading: u64,
}

impl Above {
    const END: Above = Above { row: None, leading: u64::MAX };
}

/// The right to change the entry of one key, as long as this is held.
#[derive(Debug)]
pub struct KeyGuard<'a> {
    _held: Held<'a>,
    own: Stripe,
    next: Stripe,
    /// The row that has the key.
    pub present: Option<RowId>,
    /// The first entry above it.
    pub above: Above,
}

/// The tree in the smallest width that holds the index's keys: a lookup spends most of its time comparing words.
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
        let stripes = Stripes::new(keys.key_bytes());
        let index = Index { number, keys, unique, tree, stripes };
        with_tree!(index, tree => fence(tree));
        index
    }

    /// The row with that key.
    #[inline]
    pub fn get(&self, key: &Key) -> Option<RowId> {
        with_tree!(self, tree => get(tree, key))
    }

    /// The first row in `low..=high`.
    pub fn first(&self, low: &Key, high: &Key) -> Option<RowId> {
        with_tree!(self, tree => first(tree, low, high))
    }

    /// The first row in `low..=high`, and the entry whose gap protects this result: that row's, or the first one above.
    pub fn first_and_above(&self, low: &Key, high: &Key) -> (Option<RowId>, Above) {
        with_tree!(self, tree => first_and_above(tree, low, high))
    }

    /// The last row in `low..=high`.
    pub fn last(&self, low: &Key, high: &Key) -> Option<RowId> {
        with_tree!(self, tree => last(tree, low, high))
    }

    /// The first entry whose key is greater.
    pub fn after(&self, key: &Key) -> Above {
        with_tree!(self, tree => after(tree, key))
    }

    /// The row with that key, and the first entry whose key is greater, by one descent of the tree.
    pub fn at_and_after(&self, key: &Key) -> (Option<RowId>, Above) {
        with_tree!(self, tree => at_and_after(tree, key))
    }

    /// Appends every row in `low..=high` in order of key; returns the first entry above them.
    pub fn collect(&self, low: &Key, high: &Key, rows: &mut Vec<RowId>) -> Above {
        with_tree!(self, tree => collect_first(tree, low, high, usize::MAX, rows))
    }

    /// The first or last rows in `low..=high`, up to a limit, from that end on. Returns the entry whose gap, with those
    /// below the rows, ensures that there are no others: the last row if the first ones were requested and the limit
    /// was reached, otherwise the first entry above the range.
    pub fn collect_some(
        &self,
        low: &Key,
        high: &Key,
        is_from_last: bool,
        limit: usize,
        rows: &mut Vec<RowId>,
    ) -> Above {
        with_tree!(self, tree => {
            if is_from_last {
                collect_last(tree, low, high, limit, rows);
                after(tree, high)
            } else {
                collect_first(tree, low, high, limit, rows)
            }
        })
    }

    /// How many keys there are. Walks the index.
    pub fn key_count(&self) -> usize {
        with_tree!(self, tree => tree.iter(&Guard::new()).filter(|(_, row)| **row != NO_ROW).count())
    }

    /// A number that increases whenever the keys in this range change; `None` if they are in several stripes.
    pub fn version(&self, low: &Key, high: &Key) -> Option<u64> {
        (low.leading() == high.leading()).then(|| self.stripes.version(self.stripe(low)))
    }

    /// A number that increases whenever a key of the same stripe is removed or given to another row.
    pub fn removals(&self, key: &Key) -> u64 {
        self.stripes.removals(self.stripe(key))
    }

    /// Prevents changes to the keys from `low` to `high` and up to the entry above them.
    pub fn freeze(&self, low: &Key, high: &Key, above: Above) -> Frozen<'_> {
        if low.leading() == high.leading() {
            self.stripes.share(self.stripe(low), self.stripes.of(above.leading))
        } else {
            self.stripes.share_all()
        }
    }

    /// The right to insert or remove a key, and its present row.
    pub fn place(&self, key: &Key) -> KeyGuard<'_> {
        let own = self.stripe(key);
        let mut next = self.stripes.guess(key.leading());
        loop {
            let held = self.stripes.take(own, next);
            let (present, above) = self.at_and_after(key);
            let found = self.stripes.of(above.leading);
            if found == next || found == own {
                return KeyGuard { _held: held, own, next: found, present, above };
            }
            self.stripes.note(key.leading(), found);
            next = found;
        }
    }

    fn stripe(&self, key: &Key) -> Stripe {
        self.stripes.of(key.leading())
    }

    /// Adds a key at its [`place`](Self::place). False, without a change, if the key exists already.
    pub fn insert_latched(&self, place: &KeyGuard<'_>, key: &Key, row: RowId) -> bool {
        let inserted = self.load(key, row);
        if inserted {
            self.stripes.count_change(place.next);
        }
        inserted
    }

    /// Gives a key to another row at its [`place`](Self::place).
    pub fn replace_latched(&self, place: &KeyGuard<'_>, key: &Key, row: RowId) {
        with_tree!(self, tree => tree.upsert_sync(StoredKey::store(key), row));
        self.stripes.count_removal(place.own);
    }

    /// Removes a key at its [`place`](Self::place), if it belongs to that row.
    pub fn remove_latched(&self, place: &KeyGuard<'_>, key: &Key, row: RowId) -> bool {
        let removed = with_tree!(self, tree => remove(tree, key, row));
        if removed {
            self.stripes.count_removal(place.own);
            self.stripes.count_change(place.next);
        }
        removed
    }

    /// Adds a key while no other thread uses the index, as in a bulk load. False if the key exists already.
    pub fn load(&self, key: &Key, row: RowId) -> bool {
        with_tree!(self, tree => insert(tree, key, row))
    }
}

/// Inserts the two keys that are always in the tree.
fn fence<K: StoredKey>(tree: &TreeIndex<K, RowId>) {
    for key in [K::MIN, K::MAX] {
        tree.upsert_sync(key, NO_ROW);
    }
}

#[inline]
fn get<K: StoredKey>(tree: &TreeIndex<K, RowId>, key: &Key) -> Option<RowId> {
    tree.peek_with(&K::store(key), |_, row| *row).filter(|row| *row != NO_ROW)
}

fn insert<K: StoredKey>(tree: &TreeIndex<K, RowId>, key: &Key, row: RowId) -> bool {
    let key = K::store(key);
    if tree.insert_sync(key, row).is_ok() {
        return true;
    }
    // A row may have the smallest or the largest key; then the key is given to it.
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

fn above<K: StoredKey>((key, row): (&K, &RowId)) -> Above {
    Above { row: Some(*row), leading: key.leading() }
}

fn first_and_above<K: StoredKey>(tree: &TreeIndex<K, RowId>, low: &Key, high: &Key) -> (Option<RowId>, Above) {
    let guard = Guard::new();
    let high = K::store(high);
    let entry = tree.range::<K, _>(K::store(low).., &guard).find(|(_, row)| **row != NO_ROW);
    let found = entry.filter(|(key, _)| **key <= high).map(|(_, row)| *row);
    (found, entry.map_or(Above::END, above))
}

fn after<K: StoredKey>(tree: &TreeIndex<K, RowId>, key: &Key) -> Above {
    let guard = Guard::new();
    let bounds = (std::ops::Bound::Excluded(K::store(key)), std::ops::Bound::Unbounded);
    tree.range::<K, _>(bounds, &guard).next().filter(|(_, row)| **row != NO_ROW).map_or(Above::END, above)
}

fn at_and_after<K: StoredKey>(tree: &TreeIndex<K, RowId>, key: &Key) -> (Option<RowId>, Above) {
    let guard = Guard::new();
    let key = K::store(key);
    let mut entries = tree.range::<K, _>(key.., &guard).filter(|(_, row)| **row != NO_ROW);
    match entries.next() {
        Some((found, row)) if *found == key => (Some(*row), entries.next().map_or(Above::END, above)),
        next => (None, next.map_or(Above::END, above)),
    }
}

fn collect_first<K: StoredKey>(
    tree: &TreeIndex<K, RowId>,
    low: &Key,
    high: &Key,
    limit: usize,
    rows: &mut Vec<RowId>,
) -> Above {
    let guard = Guard::new();
    let high = K::store(high);
    for (key, row) in tree.range::<K, _>(K::store(low).., &guard) {
        if *row == NO_ROW {
            continue;
        }
        if *key > high {
            return above((key, row));
        }
        rows.push(*row);
        if rows.len() == limit {
            return above((key, row));
        }
    }
    Above::END
}

fn collect_last<K: StoredKey>(tree: &TreeIndex<K, RowId>, low: &Key, high: &Key, limit: usize, rows: &mut Vec<RowId>) {
    let guard = Guard::new();
    let found = tree.range(K::store(low)..=K::store(high), &guard).rev().map(|(_, row)| *row);
    rows.extend(found.filter(|row| *row != NO_ROW).take(limit));
}

#[cfg(test)]
mod tests;
