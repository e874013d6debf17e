//! A map from statics to what belongs to them, by address.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use plimsoll_workload::statement::Statement;

/// Values by statement.
#[derive(Debug)]
pub(super) struct AddressMap<V>(HashMap<usize, V, BuildHasherDefault<AddressHasher>>);

impl<V> Default for AddressMap<V> {
    fn default() -> Self {
        AddressMap(HashMap::default())
    }
}

impl<V> AddressMap<V> {
    pub(super) fn get(&self, statement: &'static Statement) -> Option<&V> {
        self.0.get(&address(statement))
    }

    pub(super) fn insert(&mut self, statement: &'static Statement, value: V) {
        self.0.insert(address(statement), value);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn address(statement: &'static Statement) -> usize {
    std::ptr::from_ref(statement).addr()
}

/// Addresses are spread already; a multiplication brings what differs to the bits that the map looks at.
#[derive(Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        // Odd, and without a pattern: 2^64 over the golden ratio.
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(32)
    }
}
