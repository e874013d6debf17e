//! Query 3 of NO: rows that refer to a key, counted by way of a join with the table of keys.

use std::borrow::Cow;

use super::numbers::Numbers;
use super::{SCALE_POSSIBLE, SCALE_UNIT, VALUES_POSSIBLE, batch, row_count};
use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError};
use crate::footprint::bytes_per_row;
use crate::inquiry::{integer_line, row_count_line};
use crate::parts::{Filling, RowRange, load};
use crate::registry::{Entry, Parameter, ParameterValue};
use crate::schema::{ColumnKind, Schema, TableId, column, column_table};
use crate::tpch_operators::SameQuery;

pub(crate) const ENTRY: Entry = Entry {
    name: "key_join",
    about: "counts rows joined with the primary key that they refer to",
    source: "NO Q3",
    scale_unit: SCALE_UNIT,
    scale_default: 10.0,
    scale_possible: SCALE_POSSIBLE,
    parameters: &[Parameter {
        name: "keys",
        about: "how many primary keys there are",
        default: ParameterValue::Number(1e6),
        possible: VALUES_POSSIBLE,
    }],
    sides: &[],
    make: |scale, parameters, seed| Box::new(KeyJoin { scale, keys: parameters.number("keys") as i32, seed }),
};

const R: TableId = 0;

/// The rows that refer to them.
const S: TableId = 1;

static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("column_key_join"),
    tables: &[
        column_table("r", &[column("p", ColumnKind::Int)], &[0]),
        column_table("s", &[column("f", ColumnKind::Int)], &[]),
    ],
};

const SQL: &str = "select count(*) from r, s where r.p = s.f";

#[derive(Debug)]
pub(super) struct KeyJoin {
    /// Millions of rows that refer to a key.
    pub(super) scale: f64,
    /// The keys are 1 to this, and references are uniform over them.
    pub(super) keys: i32,
    pub(super) seed: u64,
}

impl KeyJoin {
    fn references(&self) -> Numbers {
        Numbers { seed: self.seed, column: 0, high: self.keys }
    }

    pub(super) fn expected_sum(&self) -> i64 {
        self.references().all(row_count(self.scale)).map(i64::from).sum()
    }
}

fn keys(part: RowRange) -> Vec<i32> {
    // The keys fit into 32 bits.
    (part.first as i32..).take(part.rows).map(|row| row + 1).collect()
}

impl Benchmark for KeyJoin {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn data(&self) -> String {
        format!("{}:{}:keys={}:seed={}", SCHEMA.name, self.scale, self.keys, self.seed)
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn is_analytical(&self) -> bool {
        true
    }

    fn estimated_bytes(&self) -> u64 {
        let bytes = |table: TableId, rows: f64| rows * bytes_per_row(&SCHEMA.tables[table], |_, _| 0.0);
        (bytes(R, self.keys.into()) + bytes(S, row_count(self.scale) as f64)) as u64
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        let make_keys = Box::new(|part| batch(&SCHEMA.tables[R], vec![keys(part)]));
        let make_references = Box::new(|part| batch(&SCHEMA.tables[S], vec![self.references().part(part)]));
        let fillings = [
            Filling { table: R, rows: self.keys as u64, make: make_keys },
            Filling { table: S, rows: row_count(self.scale), make: make_references },
        ];
        load(&SCHEMA, &fillings, database, progress)
    }

    fn client(&self, _number: usize, _seed: u64) -> Box<dyn Client> {
        Box::new(SameQuery { sql: SQL.to_owned() })
    }

    /// Every reference has one partner, so the join counts them all. The sum of the references and the number of keys
    /// show that the generated rows were joined.
    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        let mut session = database.session(&SCHEMA)?;
        let session = session.as_mut();
        let (rows, sum) = (row_count(self.scale), self.expected_sum());
        Ok(vec![
            row_count_line(session, SCHEMA.tables[R].name, self.keys as u64),
            integer_line(session, format!("the references add up to {sum}"), "select sum(f) from s", sum),
            integer_line(session, format!("the join has {rows} rows"), SQL, rows as i64),
        ])
    }
}
