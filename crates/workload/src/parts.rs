//! Tables whose rows follow from their numbers: made part by part and loaded in order of row.

use arrow::record_batch::RecordBatch;

use crate::benchmark::{LoadError, LoadProgress};
use crate::database::Database;
use crate::schema::{Schema, TableId};

/// Rows of a part. Some hundred kilobytes of integers: few enough to stay in the second-level cache until they are
/// stored, and enough that the cost of a call per part is negligible.
const PART_ROWS: u64 = 32 * 1024;

/// Consecutive rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowRange {
    /// Its number, from 0; equal numbers have equal rows, independently of the table's size.
    pub number: u64,
    /// Its first row's number, from 0.
    pub first: u64,
    /// How many rows it has.
    pub rows: usize,
}

/// The parts of a table with `rows` rows, in order.
pub(crate) fn parts(rows: u64) -> impl Iterator<Item = RowRange> {
    (0..rows.div_ceil(PART_ROWS)).map(move |number| {
        let first = number * PART_ROWS;
        RowRange { number, first, rows: PART_ROWS.min(rows - first) as usize }
    })
}

pub(crate) struct Filling<'a> {
    /// Which table.
    pub table: TableId,
    /// How many rows it gets.
    pub rows: u64,
    /// Makes a part of it.
    pub make: Box<dyn Fn(RowRange) -> RecordBatch + 'a>,
}

/// Creates the tables of a schema and fills them.
pub(crate) fn load(
    schema: &Schema,
    fillings: &[Filling<'_>],
    database: &dyn Database,
    progress: &LoadProgress<'_>,
) -> Result<(), LoadError> {
    let all = fillings.iter().map(|filling| filling.rows).sum();
    let mut done = 0;
    database.create(schema)?;
    for filling in fillings {
        let table = schema.tables[filling.table].name;
        for part in parts(filling.rows) {
            progress.step(done, all, table)?;
            database.load(schema, filling.table, (filling.make)(part))?;
            done += part.rows as u64;
        }
        progress.step(done, all, table)?;
    }
    database.finish_load(schema)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_table_without_gaps() {
        for rows in [0, 1, PART_ROWS - 1, PART_ROWS, PART_ROWS + 1, 5 * PART_ROWS + 7] {
            let mut next = 0;
            for (number, part) in parts(rows).enumerate() {
                assert_eq!((part.number, part.first), (number as u64, next));
                next += part.rows as u64;
            }
            assert_eq!(next, rows);
        }
    }
}
