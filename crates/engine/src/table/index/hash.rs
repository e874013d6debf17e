//! Hash indexes: keys to row numbers in a concurrent hash table, for rows that are found by whole keys only.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use scc::HashIndex;
use scc::hash_index::Entry;

use crate::table::heap::RowId;
use crate::table::key::{Key, StoredKey};

/// Hashes are equal in every process, so that equal seeds give equal runs.
type Table<K> = HashIndex<K, RowId, FixedState>;

/// A hash table in the smallest width that holds the index's keys, as for trees.
#[derive(Debug)]
pub(super) enum HashTable {
    Two(Table<[u64; 2]>),
    Three(Table<[u64; 3]>),
    Eight(Table<[u64; 8]>),
}

macro_rules! with_table {
    ($self:expr, $table:ident => $body:expr) => {
        match $self {
            HashTable::Two($table) => $body,
            HashTable::Three($table) => $body,
            HashTable::Eight($table) => $body,
        }
    };
}

impl HashTable {
    /// An empty hash table for keys of that length.
    pub(super) fn new(key_bytes: usize) -> Self {
        match key_bytes {
            0..=16 => HashTable::Two(Table::default()),
            17..=24 => HashTable::Three(Table::default()),
            _ => HashTable::Eight(Table::default()),
        }
    }

    /// The row with that key. It may miss a key that is moved or given to another row just then, which
    /// [`settled`](Self::settled) does not.
    #[inline]
    pub(super) fn get(&self, key: &Key) -> Option<RowId> {
        with_table!(self, table => get(table, key))
    }

    /// The row with that key, read under the latch of its bucket.
    pub(super) fn settled(&self, key: &Key) -> Option<RowId> {
        with_table!(self, table => settled(table, key))
    }

    /// The hash of a key.
    pub(super) fn hash(&self, key: &Key) -> u64 {
        with_table!(self, table => hash(table, key))
    }

    pub(super) fn insert(&self, key: &Key, row: RowId) -> bool {
        with_table!(self, table => table.insert_sync(StoredKey::store(key), row).is_ok())
    }

    pub(super) fn replace(&self, key: &Key, row: RowId) {
        with_table!(self, table => replace(table, key, row));
    }

    pub(super) fn remove(&self, key: &Key, row: RowId) -> bool {
        with_table!(self, table => remove(table, key, row))
    }

    pub(super) fn key_count(&self) -> usize {
        with_table!(self, table => table.len())
    }
}

#[inline]
fn get<K: StoredKey>(table: &Table<K>, key: &Key) -> Option<RowId> {
    table.peek_with(&K::store(key), |_, row| *row)
}

fn settled<K: StoredKey>(table: &Table<K>, key: &Key) -> Option<RowId> {
    table.read_sync(&K::store(key), |_, row| *row)
}

fn hash<K: StoredKey>(_: &Table<K>, key: &Key) -> u64 {
    FixedState::default().hash_one(K::store(key))
}

fn replace<K: StoredKey>(table: &Table<K>, key: &Key, row: RowId) {
    match table.entry_sync(K::store(key)) {
        Entry::Occupied(mut entry) => entry.update(row),
        Entry::Vacant(entry) => drop(entry.insert_entry(row)),
    }
}

fn remove<K: StoredKey>(table: &Table<K>, key: &Key, row: RowId) -> bool {
    table.remove_if_sync(&K::store(key), |found| *found == row)
}
