//! Values of statements, found by the address of their text and verified by its content.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// Values by the text of a statement.
///
/// A text is looked up by its address in memory, so that it need not be hashed. It is then compared as a whole, because
/// another text may have been there before: a session can outlive the workload whose statements it has prepared.
#[derive(Debug)]
pub(super) struct StatementMap<V> {
    by_address: HashMap<usize, (Box<str>, V), BuildHasherDefault<AddressHasher>>,
    made: usize,
}

impl<V> Default for StatementMap<V> {
    fn default() -> Self {
        StatementMap { by_address: HashMap::default(), made: 0 }
    }
}

impl<V> StatementMap<V> {
    /// The value of a text. At first use it is made from the number of values made before.
    pub(super) fn get_or_make<E>(&mut self, sql: &str, make: impl FnOnce(usize) -> Result<V, E>) -> Result<&V, E> {
        match self.by_address.entry(address(sql)) {
            Entry::Occupied(known) if *known.get().0 == *sql => Ok(&known.into_mut().1),
            entry => {
                let value = make(self.made)?;
                self.made += 1;
                Ok(&entry.insert_entry((sql.into(), value)).into_mut().1)
            }
        }
    }
}

fn address(sql: &str) -> usize {
    sql.as_ptr().addr()
}

/// Addresses are spread already; a multiplication moves the bits that differ to those that the map uses.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_not_taken_for_the_one_that_was_in_its_place() {
        let mut known = StatementMap::default();
        let mut number = |sql: &str| *known.get_or_make(sql, Ok::<_, ()>).expect("it cannot fail");
        let mut text = "SELECT 1".to_owned();
        let place = address(&text);
        assert_eq!([number(&text), number(&text)], [0, 0]);
        for (other, expect) in [("SELECT 2", 1), ("SELECT", 2), ("", 3), ("SELECT 1", 4)] {
            // Not longer than the first, so that the address stays the same.
            text.replace_range(.., other);
            assert_eq!(address(&text), place);
            assert_eq!([number(&text), number(&text)], [expect, expect], "{other}");
        }
        let elsewhere = text.clone();
        assert_eq!(number(&elsewhere), 5, "the same text elsewhere");
    }

    #[test]
    fn what_could_not_be_made_is_made_the_next_time() {
        let mut known = StatementMap::default();
        assert_eq!(known.get_or_make("SELECT 1", |_| Err("refused")), Err("refused"));
        assert_eq!(known.get_or_make("SELECT 1", Ok::<_, &str>), Ok(&0));
    }
}
