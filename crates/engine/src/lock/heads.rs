//! One partition of the lock table: the heads of the names that are locked, by name.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::head::Head;
use super::name::LockName;

/// Heads by name. The caller passes the name's hash, which it has already computed to choose the partition.
#[derive(Debug, Default)]
pub(super) struct Heads(HashTable<Named>);

#[derive(Debug)]
struct Named {
    name: LockName,
    head: Head,
}

impl Heads {
    pub(super) fn get(&self, name: LockName, hash: u64) -> Option<&Head> {
        self.0.find(hash, |named| named.name == name).map(|named| &named.head)
    }

    /// The head of a locked name, to be changed. A caller that may leave it idle uses [`change`](Self::change).
    pub(super) fn get_mut(&mut self, name: LockName, hash: u64) -> Option<&mut Head> {
        self.0.find_mut(hash, |named| named.name == name).map(|named| &mut named.head)
    }

    /// The head of a name, a new one if it is not locked.
    pub(super) fn head(&mut self, name: LockName, hash: u64) -> &mut Head {
        match self.0.entry(hash, |named| named.name == name, |named| named.name.hash()) {
            Entry::Occupied(entry) => &mut entry.into_mut().head,
            Entry::Vacant(entry) => &mut entry.insert(Named { name, head: Head::default() }).into_mut().head,
        }
    }

    /// Changes the head of a name, if it is locked, and removes it if it has no holders or waiters any more.
    pub(super) fn change<R>(&mut self, name: LockName, hash: u64, change: impl FnOnce(&mut Head) -> R) -> Option<R> {
        let mut entry = self.0.find_entry(hash, |named| named.name == name).ok()?;
        let result = change(&mut entry.get_mut().head);
        if entry.get().head.is_idle() {
            entry.remove();
        }
        Some(result)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many requests wait for a name.
    pub(super) fn waiter_count(&self) -> usize {
        self.0.iter().map(|named| named.head.queue().len()).sum()
    }
}
