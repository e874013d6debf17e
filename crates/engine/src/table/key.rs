//! Index keys: column values as bytes whose order is the order of the values.
//!
//! Integers are written most significant byte first with the sign bit turned over; text is padded with zero bytes to its
//! column's width (so that text that differs only in zero bytes at its end is equal as a key). All keys of an index are
//! equally long, and a prefix of columns bounds the range of keys that begin with it by padding with 0x00 or 0xFF.

use super::layout::TableSpec;
use crate::value::{ColumnType, Value};

/// The longest key, bytes, the row number that ends a secondary key included.
pub const KEY_BYTES_MAX: usize = 64;

/// A key, or one end of a range of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    bytes: [u8; KEY_BYTES_MAX],
}

/// How the columns of one index become keys.
#[derive(Debug, Clone)]
pub struct KeyLayout {
    kinds: Vec<ColumnType>,
    columns: Vec<usize>,
    /// Bytes of the columns together.
    width: usize,
    /// Whether the row number follows, to tell rows with equal columns apart.
    with_row: bool,
}

impl KeyLayout {
    /// The layout of an index over these columns of a table. `None` if a key would be too long.
    pub fn new(spec: &TableSpec, columns: &[usize], unique: bool) -> Option<Self> {
        let kinds: Vec<_> = columns.iter().map(|&column| spec.columns[column].kind).collect();
        let width = kinds.iter().map(|&kind| bytes_of(kind)).sum();
        let layout = KeyLayout { kinds, columns: columns.to_vec(), width, with_row: !unique };
        (layout.key_bytes() <= KEY_BYTES_MAX).then_some(layout)
    }

    /// Bytes of a whole key.
    pub fn key_bytes(&self) -> usize {
        self.width + if self.with_row { 8 } else { 0 }
    }

    /// The columns, most significant first.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The smallest key that begins with these values.
    pub fn low(&self, values: &[Value<'_>]) -> Key {
        self.encode(values.iter().copied(), 0x00)
    }

    /// The largest key that begins with these values.
    pub fn high(&self, values: &[Value<'_>]) -> Key {
        self.encode(values.iter().copied(), 0xFF)
    }

    /// The key of a whole row with that number.
    pub fn of_row(&self, row: &[Value<'_>], number: u64) -> Key {
        let mut key = self.encode(self.columns.iter().map(|&column| row[column]), 0x00);
        if self.with_row {
            key.bytes[self.width..self.width + 8].copy_from_slice(&number.to_be_bytes());
        }
        key
    }

    fn encode<'a>(&self, values: impl Iterator<Item = Value<'a>>, fill: u8) -> Key {
        let mut bytes = [0; KEY_BYTES_MAX];
        let mut at = 0;
        for (value, &kind) in values.zip(&self.kinds) {
            let end = at + bytes_of(kind);
            match (kind, value) {
                (ColumnType::Int32, Value::Int(number)) => {
                    // Beyond 32 bits there is no such row; the nearest number keeps ranges right.
                    let number = number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
                    bytes[at..end].copy_from_slice(&(number as u32 ^ (1 << 31)).to_be_bytes());
                }
                (ColumnType::Int64, Value::Int(number)) => {
                    bytes[at..end].copy_from_slice(&(number as u64 ^ (1 << 63)).to_be_bytes());
                }
                (ColumnType::Text(max), Value::Text(text)) => {
                    let length = text.len().min(max as usize);
                    bytes[at..at + length].copy_from_slice(&text.as_bytes()[..length]);
                }
                (kind, value) => panic!("{value:?} in a key column of {kind:?}"),
            }
            at = end;
        }
        bytes[at..self.key_bytes()].fill(fill);
        Key { bytes }
    }
}

fn bytes_of(kind: ColumnType) -> usize {
    match kind {
        ColumnType::Int32 => 4,
        ColumnType::Int64 => 8,
        ColumnType::Text(max) => max as usize,
    }
}

/// A key in the width that its index keeps.
pub(super) trait StoredKey: Copy + Ord + std::hash::Hash + Send + Sync + std::fmt::Debug + 'static {
    /// No key is smaller.
    const MIN: Self;
    /// No key is larger.
    const MAX: Self;
    fn store(key: &Key) -> Self;
    /// The first eight bytes.
    fn leading(&self) -> u64;
}

impl Key {
    pub(super) fn leading(&self) -> u64 {
        word(self, 0)
    }
}

fn word(key: &Key, at: usize) -> u64 {
    u64::from_be_bytes(key.bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
}

impl<const WORDS: usize> StoredKey for [u64; WORDS] {
    const MIN: Self = [u64::MIN; WORDS];
    const MAX: Self = [u64::MAX; WORDS];

    fn store(key: &Key) -> Self {
        std::array::from_fn(|at| word(key, at))
    }

    fn leading(&self) -> u64 {
        self[0]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::ColumnSpec;

    fn spec() -> TableSpec {
        let column = |name: &str, kind| ColumnSpec { name: name.to_owned(), kind, nullable: false };
        TableSpec {
            name: "t".to_owned(),
            columns: vec![
                column("a", ColumnType::Int32),
                column("b", ColumnType::Text(6)),
                column("c", ColumnType::Int64),
            ],
            primary_key: vec![0, 1, 2],
            secondary: vec![],
        }
    }

    proptest! {
        #[test]
        fn keys_are_ordered_as_their_values(
            a in (any::<i32>(), "[a-c]{0,6}", any::<i64>()),
            b in (any::<i32>(), "[a-c]{0,6}", any::<i64>()),
        ) {
            let layout = KeyLayout::new(&spec(), &[0, 1, 2], true).expect("short");
            let encode = |(x, y, z): &(i32, String, i64)| {
                let values = [Value::Int(i64::from(*x)), Value::Text(y), Value::Int(*z)];
                (layout.of_row(&values, 0), layout.low(&values[..2]), layout.high(&values[..1]))
            };
            let ((key_a, low_a, high_a), (key_b, low_b, _)) = (encode(&a), encode(&b));
            prop_assert_eq!(key_a.cmp(&key_b), a.cmp(&b));
            prop_assert!(low_a <= key_a && key_a <= high_a);
            prop_assert_eq!(<[u64; 3]>::store(&key_a).cmp(&<[u64; 3]>::store(&key_b)), a.cmp(&b));
            if (a.0, &a.1) < (b.0, &b.1) {
                prop_assert!(key_a < low_b);
            }
        }
    }

    #[test]
    fn rows_with_equal_columns_have_keys_of_their_own() {
        let layout = KeyLayout::new(&spec(), &[0], false).expect("short");
        let row = [Value::Int(1), Value::Text("x"), Value::Int(2)];
        assert!(layout.of_row(&row, 1) < layout.of_row(&row, 2));
        assert!(layout.of_row(&row, u64::MAX - 1) <= layout.high(&row[..1]));
    }
}
