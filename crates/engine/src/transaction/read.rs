//! Finds rows: by whole key, at the end of a range, or all rows of a range; each protected against phantoms.

use super::{Connection, Purpose, TransactionError, Work, gap_name};
use crate::lock::{LockName, Mode};
use crate::table::heap::{RowId, RowState};
use crate::table::index::{Gap, Index};
use crate::table::key::Key;
use crate::table::{IndexKind, RowTable};
use crate::value::{ColumnType, Value, ValueError};

/// The end of a range from which rows are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The smallest key.
    First,
    /// The largest key.
    Last,
}

/// Both ends of a range of keys, inclusive.
struct Range {
    low: Key,
    high: Key,
}

impl Connection {
    /// The row with this primary key. If there is none, none can appear until this transaction ends.
    pub fn find(&mut self, table: u32, key: &[Value<'_>], purpose: Purpose) -> Result<Option<RowId>, TransactionError> {
        self.run(table, purpose.table_mode(), |work, table| {
            let index = &table.indexes[0];
            assert!(index.unique, "{} has no primary key to find a row by", table.spec.name);
            assert_eq!(key.len(), index.keys.columns().len(), "a whole key of {}", table.spec.name);
            check_key(table, index, key)?;
            work.find_key(table, index, &index.keys.low(key), purpose)
        })
    }

    /// The first or last row whose key begins between the two prefixes, inclusive. No row beyond it at that end can appear.
    pub fn find_end(
        &mut self,
        (table, index): (u32, usize),
        low: &[Value<'_>],
        high: &[Value<'_>],
        end: End,
        purpose: Purpose,
    ) -> Result<Option<RowId>, TransactionError> {
        self.run(table, purpose.table_mode(), |work, table| {
            let index = &table.indexes[index];
            let range = range_of(table, index, low, high)?;
            work.find_range_end(table, index, &range, end, purpose)
        })
    }

    /// Every row whose key begins between the two prefixes, inclusive, in order of key, replacing the contents of
    /// `rows`. No further row can appear.
    pub fn find_all(
        &mut self,
        (table, index): (u32, usize),
        low: &[Value<'_>],
        high: &[Value<'_>],
        purpose: Purpose,
        rows: &mut Vec<RowId>,
    ) -> Result<(), TransactionError> {
        self.run(table, purpose.table_mode(), |work, table| {
            let index = &table.indexes[index];
            let range = range_of(table, index, low, high)?;
            work.find_range(table, index, &range, purpose, rows)
        })
    }

    /// The first or last rows whose keys begin between the two prefixes, inclusive, up to a limit, from that end on,
    /// replacing the contents of `rows`. No further row can appear before the last of them, nor anywhere in the range
    /// if there are fewer.
    pub fn find_some(
        &mut self,
        (table, index): (u32, usize),
        (low, high): (&[Value<'_>], &[Value<'_>]),
        (end, limit): (End, usize),
        purpose: Purpose,
        rows: &mut Vec<RowId>,
    ) -> Result<(), TransactionError> {
        rows.clear();
        if limit == 0 {
            return Ok(());
        }
        self.run(table, purpose.table_mode(), |work, table| {
            let index = &table.indexes[index];
            let range = range_of(table, index, low, high)?;
            work.find_some(table, index, &range, (end, limit), purpose, rows)
        })
    }

    /// The integer in a column, not null, of a row that this transaction has found.
    #[inline]
    pub fn int(&self, table: u32, row: RowId, column: usize) -> i64 {
        self.locked_row(table, row).heap.int(row, column)
    }

    /// Whether a column is null in a row that this transaction has found.
    #[inline]
    pub fn is_null(&self, table: u32, row: RowId, column: usize) -> bool {
        self.locked_row(table, row).heap.is_null(row, column)
    }

    /// Appends the text in a column, not null, of a row that this transaction has found.
    pub fn text(&self, table: u32, row: RowId, column: usize, into: &mut String) {
        self.locked_row(table, row).heap.text(row, column, into);
    }
}

impl Work {
    /// Keeps other transactions from inserting into a gap that was read.
    fn lock_gap(&mut self, index: &Index, gap: Gap) -> Result<(), TransactionError> {
        if self.engine.options.key_range_locks { self.lock(gap_name(index, gap), Mode::S) } else { Ok(()) }
    }

    fn find_key(
        &mut self,
        table: &RowTable,
        index: &Index,
        key: &Key,
        purpose: Purpose,
    ) -> Result<Option<RowId>, TransactionError> {
        loop {
            let removals = index.removals(key);
            if let Some(row) = index.get(key) {
                self.lock(LockName::row(table.number, row), purpose.row_mode())?;
                // A transaction that removed the key did so before it released its lock on the row, so the removal is
                // visible by now.
                if index.removals(key) == removals || index.get(key) == Some(row) {
                    // A row in the index that is not live was deleted by this transaction itself.
                    return Ok((table.heap.state(row) == RowState::Live).then_some(row));
                }
            } else {
                let above = index.after(key);
                self.lock_gap(index, above.gap)?;
                let _frozen = index.freeze(key, key, above);
                if index.at_and_after(key) == (None, above) {
                    return Ok(None);
                }
            }
        }
    }

    fn find_range_end(
        &mut self,
        table: &RowTable,
        index: &Index,
        range: &Range,
        end: End,
        purpose: Purpose,
    ) -> Result<Option<RowId>, TransactionError> {
        let look = || match end {
            End::First => index.first_and_above(&range.low, &range.high),
            End::Last => (index.last(&range.low, &range.high), index.after(&range.high)),
        };
        loop {
            let version = index.version(&range.low, &range.high);
            // The row, and the entry whose gap ensures that there is none beyond it.
            let (found, guard) = look();
            self.lock_gap(index, guard.gap)?;
            if let Some(row) = found {
                self.lock(LockName::row(table.number, row), purpose.row_mode())?;
            }
            let frozen = index.freeze(&range.low, &range.high, guard);
            if !frozen.is_unchanged_since(version) && look() != (found, guard) {
                continue;
            }
            let Some(row) = found else { return Ok(None) };
            if table.heap.state(row) == RowState::Live {
                return Ok(Some(row));
            }
            // Deleted by this transaction itself: look at the whole range, which is rare.
            drop(frozen);
            let mut rows = std::mem::take(&mut self.range);
            let outcome = self.find_range(table, index, range, purpose, &mut rows);
            let row = if end == End::First { rows.first().copied() } else { rows.last().copied() };
            self.range = rows;
            return outcome.map(|()| row);
        }
    }

    fn find_range(
        &mut self,
        table: &RowTable,
        index: &Index,
        range: &Range,
        purpose: Purpose,
        rows: &mut Vec<RowId>,
    ) -> Result<(), TransactionError> {
        let mut again = Vec::new();
        loop {
            let version = index.version(&range.low, &range.high);
            rows.clear();
            let above = index.collect(&range.low, &range.high, rows);
            for &row in &*rows {
                self.lock_gap(index, Gap::Below(row))?;
                self.lock(LockName::row(table.number, row), purpose.row_mode())?;
            }
            self.lock_gap(index, above.gap)?;
            let frozen = index.freeze(&range.low, &range.high, above);
            let is_same = frozen.is_unchanged_since(version) || {
                again.clear();
                index.collect(&range.low, &range.high, &mut again) == above && again == *rows
            };
            if is_same {
                // Rows in the index that are not live were deleted by this transaction itself.
                rows.retain(|&row| table.heap.state(row) == RowState::Live);
                return Ok(());
            }
        }
    }

    fn find_some(
        &mut self,
        table: &RowTable,
        index: &Index,
        range: &Range,
        (end, limit): (End, usize),
        purpose: Purpose,
        rows: &mut Vec<RowId>,
    ) -> Result<(), TransactionError> {
        let is_from_last = end == End::Last;
        // Increases by the rows that this transaction itself has deleted.
        let mut wanted = limit;
        let mut again = Vec::new();
        loop {
            let version = index.version(&range.low, &range.high);
            rows.clear();
            let guard = index.collect_some(&range.low, &range.high, is_from_last, wanted, rows);
            self.lock_gap(index, guard.gap)?;
            for (at, &row) in rows.iter().enumerate() {
                // Nothing was read below the last row if the limit was reached.
                if !is_from_last || at + 1 < wanted {
                    self.lock_gap(index, Gap::Below(row))?;
                }
                self.lock(LockName::row(table.number, row), purpose.row_mode())?;
            }
            let frozen = index.freeze(&range.low, &range.high, guard);
            let is_same = frozen.is_unchanged_since(version) || {
                again.clear();
                index.collect_some(&range.low, &range.high, is_from_last, wanted, &mut again) == guard && again == *rows
            };
            if !is_same {
                continue;
            }
            let found = rows.len();
            rows.retain(|&row| table.heap.state(row) == RowState::Live);
            if rows.len() >= limit || found < wanted {
                return Ok(());
            }
            wanted += limit - rows.len();
        }
    }
}

fn range_of(table: &RowTable, index: &Index, low: &[Value<'_>], high: &[Value<'_>]) -> Result<Range, TransactionError> {
    if index.kind() == IndexKind::Hash {
        return Err(TransactionError::NoRanges { table: table.spec.name.clone() });
    }
    check_key(table, index, low)?;
    check_key(table, index, high)?;
    Ok(Range { low: index.keys.low(low), high: index.keys.high(high) })
}

fn check_key(table: &RowTable, index: &Index, values: &[Value<'_>]) -> Result<(), TransactionError> {
    for (value, &column) in values.iter().zip(index.keys.columns()) {
        let spec = &table.spec.columns[column];
        let fits = match (spec.kind, value) {
            (ColumnType::Int32, Value::Int(number)) => i32::try_from(*number).is_ok(),
            (ColumnType::Int64, Value::Int(_)) => true,
            (ColumnType::Text(max), Value::Text(text)) => text.len() <= max as usize,
            _ => false,
        };
        if !fits {
            let reason = format!("{value:?} is not a possible key");
            return Err(ValueError { table: table.spec.name.clone(), column: spec.name.clone(), reason }.into());
        }
    }
    Ok(())
}
