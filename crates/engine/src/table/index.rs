//! Indexes: keys to row numbers, in a concurrent B+ tree (`tree`) or, for rows that are found by whole keys only, in a
//! concurrent hash table (`hash`).
//!
//! Lookups take no latch. Functions that change the set of keys ([`Index::insert_latched`] and similar ones) take the
//! index's [latches](super::stripes). So does a scan when it checks that the entries which it has locked are still the
//! current ones: see [key-range locks](crate::lock).

mod hash;
mod tree;

use hash::HashTable;
use tree::Tree;

use super::heap::RowId;
use super::key::{Key, KeyLayout};
use super::stripes::{Frozen, Held, Stripe, Stripes};

/// The structure of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IndexKind {
    /// A B+ tree.
    #[default]
    Tree,
    /// A hash table, which has no order: rows are found by whole keys only.
    Hash,
}

impl IndexKind {
    /// All of them.
    pub const ALL: [IndexKind; 2] = [IndexKind::Tree, IndexKind::Hash];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Tree => "tree",
            IndexKind::Hash => "hash",
        }
    }
}

/// One index of a table.
#[derive(Debug)]
pub struct Index {
    /// Unique among all indexes of an engine.
    pub number: u32,
    /// How rows become keys.
    pub keys: KeyLayout,
    /// Whether two rows may not have equal columns.
    pub unique: bool,
    entries: Entries,
    stripes: Stripes,
}

#[derive(Debug)]
enum Entries {
    Tree(Tree),
    Hash(HashTable),
}

/// A place at which keys are absent; a lock on it keeps them absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// The space below the entry of that row.
    Below(RowId),
    /// The space above the last entry.
    End,
    /// In a hash index: the keys with that hash.
    Hash(u64),
}

/// The first entry above a key or a range; a lock on its gap covers the space between. In a hash index, which has no
/// order, the key itself takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Above {
    /// The gap that keeps the key absent, or the end of the range empty.
    pub gap: Gap,
    /// The first eight bytes of the entry's key.
    leading: u64,
}

impl Above {
    const END: Above = Above { gap: Gap::End, leading: u64::MAX };
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

impl Index {
    /// An empty index.
    pub fn new(number: u32, keys: KeyLayout, unique: bool, kind: IndexKind) -> Self {
        let bytes = keys.key_bytes();
        let (entries, stripes) = match kind {
            // With keys of one word, neighbours would be in different stripes.
            IndexKind::Tree => (Entries::Tree(Tree::new(bytes)), Stripes::new(bytes > 8)),
            IndexKind::Hash => (Entries::Hash(HashTable::new(bytes)), Stripes::new(true)),
        };
        Index { number, keys, unique, entries, stripes }
    }

    /// Its structure.
    pub fn kind(&self) -> IndexKind {
        match self.entries {
            Entries::Tree(_) => IndexKind::Tree,
            Entries::Hash(_) => IndexKind::Hash,
        }
    }

    /// The entries in their order.
    ///
    /// # Panics
    /// If there is no order. Transactions refuse to read ranges of a hash index.
    fn tree(&self) -> &Tree {
        match &self.entries {
            Entries::Tree(tree) => tree,
            Entries::Hash(_) => panic!("a hash index has no ranges"),
        }
    }

    /// The row with that key.
    #[inline]
    pub fn get(&self, key: &Key) -> Option<RowId> {
        match &self.entries {
            Entries::Tree(tree) => tree.get(key),
            Entries::Hash(table) => table.get(key),
        }
    }

    /// The first row in `low..=high`.
    pub fn first(&self, low: &Key, high: &Key) -> Option<RowId> {
        self.tree().first(low, high)
    }

    /// The first row in `low..=high`, and the entry whose gap protects this result: that row's, or the first one above.
    pub fn first_and_above(&self, low: &Key, high: &Key) -> (Option<RowId>, Above) {
        self.tree().first_and_above(low, high)
    }

    /// The last row in `low..=high`.
    pub fn last(&self, low: &Key, high: &Key) -> Option<RowId> {
        self.tree().last(low, high)
    }

    /// The first entry whose key is greater.
    pub fn after(&self, key: &Key) -> Above {
        match &self.entries {
            Entries::Tree(tree) => tree.after(key),
            Entries::Hash(table) => Above { gap: Gap::Hash(table.hash(key)), leading: key.leading() },
        }
    }

    /// The row with that key, and the first entry whose key is greater, by one descent of the tree. Exact under the
    /// latch of the key's stripe.
    pub fn at_and_after(&self, key: &Key) -> (Option<RowId>, Above) {
        match &self.entries {
            Entries::Tree(tree) => tree.at_and_after(key),
            Entries::Hash(table) => (table.settled(key), self.after(key)),
        }
    }

    /// Appends every row in `low..=high` in order of key; returns the first entry above them.
    pub fn collect(&self, low: &Key, high: &Key, rows: &mut Vec<RowId>) -> Above {
        self.tree().collect_first(low, high, usize::MAX, rows)
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
        let tree = self.tree();
        if is_from_last {
            tree.collect_last(low, high, limit, rows);
            tree.after(high)
        } else {
            tree.collect_first(low, high, limit, rows)
        }
    }

    /// How many keys there are. Walks the index.
    pub fn key_count(&self) -> usize {
        match &self.entries {
            Entries::Tree(tree) => tree.key_count(),
            Entries::Hash(table) => table.key_count(),
        }
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
        match &self.entries {
            Entries::Tree(tree) => tree.replace(key, row),
            Entries::Hash(table) => table.replace(key, row),
        }
        self.stripes.count_removal(place.own);
    }

    /// Removes a key at its [`place`](Self::place), if it belongs to that row.
    pub fn remove_latched(&self, place: &KeyGuard<'_>, key: &Key, row: RowId) -> bool {
        let removed = match &self.entries {
            Entries::Tree(tree) => tree.remove(key, row),
            Entries::Hash(table) => table.remove(key, row),
        };
        if removed {
            self.stripes.count_removal(place.own);
            self.stripes.count_change(place.next);
        }
        removed
    }

    /// Adds a key while no other thread uses the index, as in a bulk load. False if the key exists already.
    pub fn load(&self, key: &Key, row: RowId) -> bool {
        match &self.entries {
            Entries::Tree(tree) => tree.insert(key, row),
            Entries::Hash(table) => table.insert(key, row),
        }
    }
}

#[cfg(test)]
mod tests;
