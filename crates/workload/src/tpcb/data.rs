//! The bank on its first day: every balance is zero and the history is empty (TPC-B 4.2). It follows from the number of
//! branches alone.

use arrow::record_batch::RecordBatch;

use super::schema::{ACCOUNT, ACCOUNTS_PER_BRANCH, BRANCH, BRANCH_FILLER, FILLER, SCHEMA, TELLER, TELLERS_PER_BRANCH};
use crate::batch::Batch;
use crate::parts::{Filling, RowRange};
use crate::schema::TableId;

/// The rows to load, table by table; the history is empty.
pub(super) fn fillings(branches: i64) -> [Filling<'static>; 3] {
    let rows = |per_branch: i64| (branches * per_branch) as u64;
    [
        Filling { table: BRANCH, rows: rows(1), make: Box::new(branch_batch) },
        of_branches(TELLER, rows(TELLERS_PER_BRANCH), TELLERS_PER_BRANCH),
        of_branches(ACCOUNT, rows(ACCOUNTS_PER_BRANCH), ACCOUNTS_PER_BRANCH),
    ]
}

fn branch_batch(part: RowRange) -> RecordBatch {
    let filler = ".".repeat(BRANCH_FILLER);
    let mut batch = Batch::new(&SCHEMA.tables[BRANCH], part.rows);
    for row in part.first..part.first + part.rows as u64 {
        batch.int(row as i64 + 1).int(0).text(&filler);
    }
    batch.finish()
}

fn of_branches(table: TableId, rows: u64, per_branch: i64) -> Filling<'static> {
    Filling { table, rows, make: Box::new(move |part| of_branch(table, per_branch, part)) }
}

/// Rows of tellers or accounts, `per_branch` for each branch.
fn of_branch(table: TableId, per_branch: i64, part: RowRange) -> RecordBatch {
    let filler = ".".repeat(FILLER);
    let mut batch = Batch::new(&SCHEMA.tables[table], part.rows);
    for row in part.first..part.first + part.rows as u64 {
        let row = row as i64;
        batch.int(row + 1).int(row / per_branch + 1).int(0).text(&filler);
    }
    batch.finish()
}
