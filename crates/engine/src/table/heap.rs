//! The place of rows: fixed-size slots of 64-bit words in chunks that never move.
//!
//! Words are atomics with relaxed ordering, which costs no more than plain loads and stores. The lock on the row, not
//! the ordering of the words, keeps readers from seeing half-written rows: a transaction reads or writes a row only
//! under a lock, and the lock table's mutexes order its accesses after those of the holders before it. The atomics make
//! a program without locks (a benchmark's baseline, a bug) read a mixture of versions instead of being undefined.

use std::collections::VecDeque;
use std::iter::repeat_with;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::layout::{ColumnPlace, ColumnSet, RowLayout};
use crate::value::{ColumnType, Value};

/// The number of a row within its table.
pub type RowId = u64;

/// The contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RowState {
    /// Empty: free for the next insertion.
    Free = 0,
    /// A row.
    Live = 1,
    /// A row that its lock's holder has deleted and not committed.
    Deleted = 2,
}

/// Rows of a chunk: allocating one takes microseconds, so no transaction stalls because a table grows.
const CHUNK_ROWS: u64 = 1024;

/// Chunks of the first directory; each further directory is twice as long as the one before, so a table of any size has
/// few, and they never move.
const FIRST_DIRECTORY_CHUNKS: u64 = 64;
const DIRECTORIES: usize = 36;

/// The words of [`CHUNK_ROWS`] rows.
type Chunk = OnceLock<Box<[AtomicU64]>>;

/// The default of the free slots that a table keeps before it reuses the first of them. A transaction that found a row
/// just before it was deleted can then see in the index that the row is gone, without meeting another row's lock in its
/// slot.
pub(crate) const FREE_SLOTS_MIN: usize = 1024;

/// The rows of one table.
#[derive(Debug)]
pub struct Heap {
    layout: RowLayout,
    directories: [OnceLock<Box<[Chunk]>>; DIRECTORIES],
    next: AtomicU64,
    free: Mutex<VecDeque<RowId>>,
    /// Length of `free`, to skip its mutex if it has nothing to take.
    free_count: AtomicUsize,
    free_min: AtomicUsize,
}

impl Heap {
    /// A heap without rows.
    pub fn new(layout: RowLayout) -> Self {
        Heap {
            layout,
            directories: [const { OnceLock::new() }; DIRECTORIES],
            next: AtomicU64::new(0),
            free: Mutex::default(),
            free_count: AtomicUsize::new(0),
            free_min: AtomicUsize::new(FREE_SLOTS_MIN),
        }
    }

    /// The layout of every row.
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// Keeps `count` slots of deleted rows free before the first of them is reused.
    pub(crate) fn set_free_slots_min(&self, count: usize) {
        self.free_min.store(count, Ordering::Relaxed);
    }

    /// A slot for a new row.
    pub fn allocate(&self) -> RowId {
        // Relaxed: a bound that any thread may see late.
        let free_min = self.free_min.load(Ordering::Relaxed);
        if self.free_count.load(Ordering::Relaxed) > free_min {
            let mut free = self.free.lock();
            if free.len() > free_min
                && let Some(row) = free.pop_front()
            {
                self.free_count.store(free.len(), Ordering::Relaxed);
                return row;
            }
        }
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The first of a run of consecutive new slots. For loading: the rows of a batch are stored in its order.
    pub(crate) fn allocate_run(&self, rows: u64) -> RowId {
        self.next.fetch_add(rows, Ordering::Relaxed)
    }

    /// Gives a slot back.
    pub fn free(&self, row: RowId) {
        self.set_state(row, RowState::Free);
        let mut free = self.free.lock();
        free.push_back(row);
        self.free_count.store(free.len(), Ordering::Relaxed);
    }

    /// Writes a whole row, live. The values must have been [checked](crate::table::RowTable::check).
    pub fn write(&self, row: RowId, values: &[Value<'_>]) {
        let words = self.words(row);
        words[0].store(RowState::Live as u64, Ordering::Relaxed);
        for (column, value) in values.iter().enumerate() {
            store(words, column, self.layout.place(column), *value);
        }
    }

    /// The contents of a slot.
    #[inline]
    pub fn state(&self, row: RowId) -> RowState {
        match self.words(row)[0].load(Ordering::Relaxed) & 0xFF {
            1 => RowState::Live,
            2 => RowState::Deleted,
            _ => RowState::Free,
        }
    }

    pub(crate) fn set_state(&self, row: RowId, state: RowState) {
        let header = &self.words(row)[0];
        header.store((header.load(Ordering::Relaxed) & !0xFF) | state as u64, Ordering::Relaxed);
    }

    /// Whether a column is null.
    #[inline]
    pub fn is_null(&self, row: RowId, column: usize) -> bool {
        self.words(row)[0].load(Ordering::Relaxed) >> (8 + column) & 1 == 1
    }

    /// The integer in a column that is not null.
    #[inline]
    pub fn int(&self, row: RowId, column: usize) -> i64 {
        let place = self.layout.place(column);
        let word = self.words(row)[place.word as usize].load(Ordering::Relaxed);
        match place.kind {
            ColumnType::Int64 => word as i64,
            ColumnType::Int32 => i64::from((word >> place.shift) as u32 as i32),
            ColumnType::Text(_) => panic!("column {column} is text"),
        }
    }

    /// Appends the text in a column that is not null.
    pub fn text(&self, row: RowId, column: usize, into: &mut String) {
        let place = self.layout.place(column);
        assert!(matches!(place.kind, ColumnType::Text(_)), "column {column} is not a text");
        let words = &self.words(row)[place.word as usize..];
        let first = words[0].load(Ordering::Relaxed).to_le_bytes();
        let length = usize::from(u16::from_le_bytes([first[0], first[1]]));
        let mut bytes = [0_u8; 512 + 8];
        let mut at = 0;
        let mut piece = &first[2..];
        let mut buffer;
        let mut next = 1;
        let mut long = Vec::new();
        let target: &mut [u8] = if length <= 512 {
            &mut bytes
        } else {
            long.resize(length + 8, 0);
            &mut long
        };
        while at < length {
            target[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
            if at < length {
                buffer = words[next].load(Ordering::Relaxed).to_le_bytes();
                piece = &buffer;
                next += 1;
            }
        }
        // Text is whole under the row's lock. Without a lock two versions can be mixed; invalid UTF-8 is then replaced.
        match std::str::from_utf8(&target[..length]) {
            Ok(text) => into.push_str(text),
            Err(_) => into.push_str(&String::from_utf8_lossy(&target[..length])),
        }
    }

    /// Writes one column.
    pub fn set(&self, row: RowId, column: usize, value: Value<'_>) {
        store(self.words(row), column, self.layout.place(column), value);
    }

    /// The words of a column and the header before them, for undo.
    pub fn save(&self, row: RowId, place: ColumnPlace, into: &mut Vec<u64>) {
        let words = self.words(row);
        into.push(words[0].load(Ordering::Relaxed));
        let column = &words[place.word as usize..(place.word + place.words) as usize];
        into.extend(column.iter().map(|word| word.load(Ordering::Relaxed)));
    }

    /// Appends the values of these columns of a row, as the [runs](RowLayout::runs) of its words; `ImageColumn` reads
    /// one of them.
    pub(crate) fn image(&self, row: RowId, columns: ColumnSet, into: &mut Vec<u64>) {
        let words = self.words(row);
        for run in self.layout.runs(columns) {
            into.extend(words[run].iter().map(|word| word.load(Ordering::Relaxed)));
        }
    }

    /// Restores the words that [`save`](Self::save) has kept. Changes of one row are restored in reverse order.
    pub fn restore(&self, row: RowId, place: ColumnPlace, saved: &[u64]) {
        let words = self.words(row);
        words[0].store(saved[0], Ordering::Relaxed);
        for (word, saved) in words[place.word as usize..].iter().zip(&saved[1..]) {
            word.store(*saved, Ordering::Relaxed);
        }
    }

    /// Every live row, in order of number. Under a table lock, or while no thread writes.
    pub fn live_rows(&self) -> impl Iterator<Item = RowId> + '_ {
        (0..self.slot_count()).filter(|&row| self.state(row) == RowState::Live)
    }

    /// Every existing row has a smaller number.
    pub(crate) fn slot_count(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Makes room for a row with this number. No other thread may use the heap at the same time.
    pub(crate) fn reserve(&self, row: RowId) {
        self.next.fetch_max(row + 1, Ordering::AcqRel);
    }

    /// Collects the free slots, after rows were placed by number. No other thread may use the heap at the same time.
    pub(crate) fn collect_free(&self) {
        let mut free = self.free.lock();
        *free = (0..self.slot_count()).filter(|&row| self.state(row) == RowState::Free).collect();
        self.free_count.store(free.len(), Ordering::Relaxed);
    }

    /// Bytes of memory that the rows occupy.
    pub fn memory_bytes(&self) -> usize {
        let chunks = self.directories.iter().filter_map(OnceLock::get).flatten();
        chunks.filter_map(OnceLock::get).map(|chunk| size_of_val(&**chunk)).sum()
    }

    #[inline]
    fn words(&self, row: RowId) -> &[AtomicU64] {
        // Directory d holds chunks FIRST * (2^d - 1) up to FIRST * (2^(d+1) - 1).
        let chunk = row / CHUNK_ROWS;
        let directory = (chunk / FIRST_DIRECTORY_CHUNKS + 1).ilog2();
        let first = FIRST_DIRECTORY_CHUNKS * ((1 << directory) - 1);
        let (directory, chunk) = (directory as usize, (chunk - first) as usize);
        let made = self.directories[directory].get().and_then(|chunks| chunks[chunk].get());
        let words = made.map_or_else(|| self.make_chunk(directory, chunk), |words| &**words);
        let width = self.layout.words();
        let at = (row % CHUNK_ROWS) as usize * width;
        &words[at..at + width]
    }

    /// Separate from [`words`](Self::words), which every access to a column calls.
    #[cold]
    fn make_chunk(&self, directory: usize, chunk: usize) -> &[AtomicU64] {
        let chunks = self.directories[directory]
            .get_or_init(|| repeat_with(OnceLock::new).take((FIRST_DIRECTORY_CHUNKS << directory) as usize).collect());
        let words = CHUNK_ROWS as usize * self.layout.words();
        chunks[chunk].get_or_init(|| repeat_with(AtomicU64::default).take(words).collect())
    }
}

#[inline]
fn store(row: &[AtomicU64], column: usize, place: ColumnPlace, value: Value<'_>) {
    let header = row[0].load(Ordering::Relaxed);
    let null_bit = 1 << (8 + column);
    let is_null = value == Value::Null;
    let new_header = if is_null { header | null_bit } else { header & !null_bit };
    if new_header != header {
        row[0].store(new_header, Ordering::Relaxed);
    }
    let words = &row[place.word as usize..(place.word + place.words) as usize];
    match (place.kind, value) {
        (_, Value::Null) => {}
        (ColumnType::Int64, Value::Int(number)) => words[0].store(number as u64, Ordering::Relaxed),
        (ColumnType::Int32, Value::Int(number)) => {
            let others = words[0].load(Ordering::Relaxed) & !(0xFFFF_FFFF << place.shift);
            words[0].store(others | u64::from(number as u32) << place.shift, Ordering::Relaxed);
        }
        (ColumnType::Text(_), Value::Text(text)) => store_text(words, text),
        (kind, value) => panic!("{value:?} in column {column} of {kind:?}"),
    }
}

fn store_text(words: &[AtomicU64], text: &str) {
    let bytes = text.as_bytes();
    let mut word = [0_u8; 8];
    word[..2].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
    let (first, rest) = bytes.split_at(bytes.len().min(6));
    word[2..2 + first.len()].copy_from_slice(first);
    words[0].store(u64::from_le_bytes(word), Ordering::Relaxed);
    for (target, piece) in words[1..].iter().zip(rest.chunks(8)) {
        let mut word = [0_u8; 8];
        word[..piece.len()].copy_from_slice(piece);
        target.store(u64::from_le_bytes(word), Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::value::ColumnSpec;

    /// A heap with columns of these types, each of which may be null.
    pub(in crate::table) fn heap(kinds: &[ColumnType]) -> Heap {
        let columns: Vec<_> =
            kinds.iter().map(|&kind| ColumnSpec { name: String::new(), kind, nullable: true }).collect();
        Heap::new(RowLayout::new(&columns))
    }

    #[test]
    fn what_is_written_is_read_and_neighbours_are_left_alone() {
        let heap = heap(&[ColumnType::Int32, ColumnType::Int32, ColumnType::Text(600), ColumnType::Int64]);
        for length in [0, 1, 5, 6, 7, 14, 15, 511, 512, 513, 600] {
            let text = "é".repeat(300)[..length & !1].to_owned();
            let row = heap.allocate();
            heap.write(
                row,
                &[Value::Int(-7), Value::Int(i64::from(i32::MAX)), Value::Text(&text), Value::Int(i64::MIN)],
            );
            let mut read = String::new();
            heap.text(row, 2, &mut read);
            assert_eq!(read, text);
            assert_eq!([0, 1, 3].map(|column| heap.int(row, column)), [-7, i64::from(i32::MAX), i64::MIN]);
            heap.set(row, 1, Value::Int(3));
            assert_eq!([0, 1].map(|column| heap.int(row, column)), [-7, 3]);
        }
    }

    #[test]
    fn nulls_come_and_go_and_changes_are_undone() {
        let heap = heap(&[ColumnType::Int64, ColumnType::Text(20)]);
        let row = heap.allocate();
        heap.write(row, &[Value::Null, Value::Text("before the change")]);
        let mut saved = Vec::new();
        heap.save(row, heap.layout().place(1), &mut saved);
        heap.set(row, 1, Value::Null);
        heap.set(row, 0, Value::Int(5));
        assert!(heap.is_null(row, 1) && !heap.is_null(row, 0));
        heap.restore(row, heap.layout().place(1), &saved);
        let mut text = String::new();
        heap.text(row, 1, &mut text);
        assert_eq!(text, "before the change");
        assert!(heap.is_null(row, 0) && !heap.is_null(row, 1));
    }

    #[test]
    fn chunks_do_not_overlap() {
        let heap = heap(&[ColumnType::Int64]);
        for row in 0..200_000 {
            assert_eq!(heap.allocate(), row);
            heap.write(row, &[Value::Int(row as i64)]);
        }
        assert!((0..200_000).all(|row| heap.int(row, 0) == row as i64));
        heap.free(17);
        assert_eq!(heap.live_rows().count(), 199_999);
        assert_eq!(heap.allocate(), 200_000, "a freed slot rests before it is used again");
    }
}
