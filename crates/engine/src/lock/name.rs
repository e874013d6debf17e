//! The things that can be locked, and their hashes.

/// Something that can be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName {
    /// The table or index, and the kind of thing in it.
    space: u32,
    /// The row; for a gap, the row above it, or the hash of its keys.
    item: u64,
}

impl LockName {
    const ROW: u32 = 1 << 30;
    const GAP: u32 = 2 << 30;
    const HASH: u32 = 3 << 30;
    /// No row has this number: the gap above the last entry of an index.
    const END: u64 = u64::MAX;

    /// A whole table.
    #[inline]
    pub fn table(table: u32) -> Self {
        LockName { space: table, item: 0 }
    }

    /// The number of the table, if this is a whole table.
    #[inline]
    pub(super) fn as_table(self) -> Option<u32> {
        (self.space < Self::ROW).then_some(self.space)
    }

    /// One row of a table.
    #[inline]
    pub fn row(table: u32, row: u64) -> Self {
        LockName { space: table | Self::ROW, item: row }
    }

    /// The gap of an index below the entry of `row`, or above the last entry.
    #[inline]
    pub fn gap(index: u32, row: Option<u64>) -> Self {
        LockName { space: index | Self::GAP, item: row.unwrap_or(Self::END) }
    }

    /// The keys of a hash index that have this hash, while they are absent.
    #[inline]
    pub fn absent(index: u32, hash: u64) -> Self {
        LockName { space: index | Self::HASH, item: hash }
    }

    /// Multiplicative hashing: names are numbers that the engine made itself, or hashes of keys, and a
    /// collision costs time only.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        // The golden ratio multiplier of Fibonacci hashing; the fold brings the well-mixed high bits down to where a
        // hash table takes its bucket from.
        let mix = |state: u64, value: u64| {
            let mixed = (state.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            mixed ^ (mixed >> 32)
        };
        mix(mix(0, u64::from(self.space)), self.item)
    }
}
