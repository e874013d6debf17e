//! One basic SQL operator at a time over TPC-H's tables: the micro-benchmarks of SI 5.2, analysed in SI 5.3 to 5.5.
//!
//! In reading order: [`projection`], [`selection`] with the dates of [`dates`], and [`join`] are the three benchmarks;
//! [`OperatorQuery`] is their common part. They share tables and data with [`tpch`](crate::tpch). Every client runs the
//! same query again and again, as in the study; the check computes its answer from generated data.

pub(crate) mod dates;
pub(crate) mod join;
pub(crate) mod projection;
pub(crate) mod selection;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use arrow::array::AsArray;
use arrow::compute::sum;
use arrow::datatypes::Decimal128Type;
use arrow::record_batch::RecordBatch;

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Outcome, Writes};
use crate::database::{Database, DatabaseError, Session};
use crate::inquiry::{first_cell, from_hundredths, hundredths, line, row_count_line};
use crate::schema::{ColumnId, Schema, TableId};
use crate::tpch::Tpch;
use crate::tpch::load::{each_batch, row_counts};
use crate::tpch::tables::{L_DISCOUNT, L_EXTENDEDPRICE, L_QUANTITY, L_TAX, SCHEMA};

/// The columns of `lineitem` that are added up, in the order in which the study adds them.
pub(crate) const SUMMED: [ColumnId; 4] = [L_EXTENDEDPRICE, L_DISCOUNT, L_TAX, L_QUANTITY];

/// Computes one batch's part of the answer, in hundredths.
type PartialAnswer = Box<dyn Fn(&RecordBatch) -> i128 + Send + Sync>;

/// A benchmark of one query that returns one sum.
pub(crate) struct OperatorQuery {
    name: &'static str,
    tpch: Tpch,
    sql: String,
    /// The tables that the query reads.
    tables: &'static [TableId],
    /// The table whose rows are added up.
    summed: TableId,
    reckon: PartialAnswer,
}

impl OperatorQuery {
    /// The answer in hundredths, from data generated again.
    fn expected(&self) -> Result<i128, LoadError> {
        let mut total = 0;
        each_batch(self.summed, self.tpch.scale(), &mut |batch| {
            total += (self.reckon)(&batch);
            Ok(())
        })?;
        Ok(total)
    }

    fn sum_line(&self, session: &mut dyn Session) -> Result<CheckLine, DatabaseError> {
        let expected = self.expected().map_err(|error| DatabaseError::Failed(error.to_string()))?;
        let shown = from_hundredths(expected);
        let found = first_cell(session, &self.sql);
        let judge = |cell: String| if hundredths(&cell) == Some(expected) { Ok(cell) } else { Err(cell) };
        Ok(line(format!("{} answers {shown}, as reckoned from generated data", self.name), found.and_then(judge)))
    }
}

impl Benchmark for OperatorQuery {
    fn name(&self) -> &'static str {
        self.name
    }

    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn data(&self) -> String {
        self.tpch.data()
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn is_analytical(&self) -> bool {
        true
    }

    fn estimated_bytes(&self) -> u64 {
        self.tpch.estimated_bytes()
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        self.tpch.load(database, progress)
    }

    fn client(&self, _number: usize, _seed: u64) -> Box<dyn Client> {
        Box::new(SameQuery { sql: self.sql.clone() })
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        let mut session = database.session(&SCHEMA)?;
        let counts = row_counts(self.tpch.scale());
        let count = |&table: &TableId| row_count_line(session.as_mut(), SCHEMA.tables[table].name, counts[table]);
        let mut lines: Vec<CheckLine> = self.tables.iter().map(count).collect();
        lines.push(self.sum_line(session.as_mut())?);
        Ok(lines)
    }
}

/// A client that sends the same text each time.
#[derive(Debug)]
pub(crate) struct SameQuery {
    /// The text.
    pub(crate) sql: String,
}

impl Client for SameQuery {
    fn draw(&mut self) -> usize {
        0
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        session.query(&self.sql).map(|_| Outcome::Committed)
    }
}

/// `l_extendedprice + l_discount + …`, the sum of these columns.
fn sum_of(columns: &[ColumnId]) -> String {
    let names = columns.iter().map(|&column| SCHEMA.tables[crate::tpch::tables::LINEITEM].columns[column].name);
    names.collect::<Vec<_>>().join(" + ")
}

/// The sum over all rows of a batch of decimal columns, in hundredths.
fn total(batch: &RecordBatch, columns: &[ColumnId]) -> i128 {
    let decimal = |&column: &ColumnId| batch.column(column).as_primitive::<Decimal128Type>();
    columns.iter().map(|column| sum(decimal(column)).unwrap_or(0)).sum()
}
