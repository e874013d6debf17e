//! Queries over the table that transactions read and update: the analytical side of the micro-benchmark of SI 6.2.
//!
//! SI: "The projection microbenchmark does a single SUM() over a single column. […] The join […] does a SUM() over the addition of
//! the column that the projection query uses." The study sums order lines, and joins them with orders; here it is one table, which
//! the join joins with itself by its key, so that both sides of the mix are about the same rows.

use std::sync::Arc;

use super::check::key_line;
use super::{Columns, ROWS_SCALE, ROWS_SCALE_UNIT, RandomRows};
use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError};
use crate::inquiry::{first_integer, line};
use crate::registry::{Entry, Parameter, ParameterValue, Possible};
use crate::schema::Schema;
use crate::tpch_operators::SameQuery;

pub(crate) const ENTRY: Entry = Entry {
    name: "rows_query",
    about: "a sum over the table that `rows` reads and updates, or over its join with itself",
    source: "SI 6.2",
    scale_unit: ROWS_SCALE_UNIT,
    scale_default: 1.0,
    scale_possible: ROWS_SCALE,
    parameters: &[Parameter {
        name: "operator",
        about: "the sum of one column, or of both sides of a join by the key",
        default: ParameterValue::Text("projection"),
        possible: Possible::OneOf(&["projection", "join"]),
    }],
    sides: &[],
    make: |scale, parameters, _| {
        let is_join = parameters.text("operator") == "join";
        let rows = RandomRows {
            scale,
            columns: Columns::BigInt,
            rows_per_transaction: 1,
            updates: 0.0,
            inserts: 0.0,
            work: Arc::default(),
        };
        Box::new(RowsQuery { rows, is_join })
    },
};

const PROJECTION: &str = "select cast(sum(pair_value) as bigint) as total from pairs";
const JOIN: &str = "select cast(sum(a.pair_value + b.pair_value) as bigint) as total from pairs a, pairs b \
     where a.pair_key = b.pair_key";

#[derive(Debug)]
pub(super) struct RowsQuery {
    pub(super) rows: RandomRows,
    pub(super) is_join: bool,
}

impl RowsQuery {
    fn sql(&self) -> &'static str {
        if self.is_join { JOIN } else { PROJECTION }
    }
}

impl Benchmark for RowsQuery {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn schema(&self) -> &Schema {
        self.rows.schema()
    }

    fn data(&self) -> String {
        self.rows.data()
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn transactions(&self) -> Vec<&str> {
        vec![if self.is_join { "join" } else { "projection" }]
    }

    fn is_analytical(&self) -> bool {
        true
    }

    fn estimated_bytes(&self) -> u64 {
        self.rows.estimated_bytes()
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        self.rows.load(database, progress)
    }

    fn client(&self, _number: usize, _seed: u64) -> Box<dyn Client> {
        Box::new(SameQuery { sql: self.sql().to_owned() })
    }

    fn queries(&self) -> Vec<(String, String)> {
        vec![(self.transactions()[0].to_owned(), self.sql().to_owned())]
    }

    /// Keys are unique, so the join has each row once and sums each value twice.
    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        database.refresh(self.schema())?;
        let mut session = database.session(self.schema())?;
        let session = session.as_mut();
        let rows = key_line(session, &self.rows);
        let both = first_integer(session, PROJECTION).and_then(|sum| Ok((sum, first_integer(session, JOIN)?)));
        let judged = both.and_then(|(sum, joined)| match joined == 2 * sum {
            true => Ok(format!("{sum} and {joined}")),
            false => Err(format!("{sum} and {joined}")),
        });
        Ok(vec![rows, line("the join sums twice what the projection does".to_owned(), judged)])
    }
}
