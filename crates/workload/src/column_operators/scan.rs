//! Query 1 of NO: a column is read from end to end and compared with a random number.

use std::borrow::Cow;

use rand::RngExt;
use rand_pcg::Pcg64;

use super::numbers::{Numbers, client_random};
use super::{SCALE_POSSIBLE, SCALE_UNIT, VALUES_POSSIBLE, batch, row_count};
use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Outcome, Writes};
use crate::database::{Database, DatabaseError, Session};
use crate::footprint::bytes_per_row;
use crate::inquiry::integer_line;
use crate::parts::{Filling, load};
use crate::registry::{Entry, Parameter, ParameterValue};
use crate::schema::{ColumnKind, Schema, column, column_table};

pub(crate) const ENTRY: Entry = Entry {
    name: "scan",
    about: "counts the rows of one column above a random number",
    source: "NO Q1",
    scale_unit: SCALE_UNIT,
    scale_default: 10.0,
    scale_possible: SCALE_POSSIBLE,
    parameters: &[Parameter {
        name: "values",
        about: "how many different values the column has",
        default: ParameterValue::Number(1e6),
        possible: VALUES_POSSIBLE,
    }],
    sides: &[],
    make: |scale, parameters, seed| Box::new(Scan { scale, values: parameters.number("values") as i32, seed }),
};

static SCHEMA: Schema =
    Schema { name: Cow::Borrowed("column_scan"), tables: &[column_table("a", &[column("x", ColumnKind::Int)], &[])] };

#[derive(Debug)]
pub(super) struct Scan {
    /// Millions of rows.
    pub(super) scale: f64,
    /// `x` is uniform over 1 to this.
    pub(super) values: i32,
    pub(super) seed: u64,
}

impl Scan {
    fn numbers(&self) -> Numbers {
        Numbers { seed: self.seed, column: 0, high: self.values }
    }

    /// The numbers that the check compares with: all rows exceed the first, and no row exceeds the last.
    fn checked(&self) -> [i32; 5] {
        [0, 10, 50, 90, 100].map(|percent| (i64::from(self.values) * percent / 100) as i32)
    }

    /// How many rows are above each of them.
    pub(super) fn expected(&self) -> [u64; 5] {
        let mut above = [0; 5];
        for x in self.numbers().all(row_count(self.scale)) {
            for (count, bound) in above.iter_mut().zip(self.checked()) {
                *count += u64::from(x > bound);
            }
        }
        above
    }
}

/// The query for the rows above a number.
fn sql(above: i32) -> String {
    format!("select count(*) from a where x > {above}")
}

impl Benchmark for Scan {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn data(&self) -> String {
        format!("{}:{}:values={}:seed={}", SCHEMA.name, self.scale, self.values, self.seed)
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn is_analytical(&self) -> bool {
        true
    }

    fn estimated_bytes(&self) -> u64 {
        (row_count(self.scale) as f64 * bytes_per_row(&SCHEMA.tables[0], |_, _| 0.0)) as u64
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        let make = Box::new(|part| batch(&SCHEMA.tables[0], vec![self.numbers().part(part)]));
        load(&SCHEMA, &[Filling { table: 0, rows: row_count(self.scale), make }], database, progress)
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        Box::new(ScanClient { random: client_random(seed, number), values: self.values, above: 0 })
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        let mut session = database.session(&SCHEMA)?;
        let lines = self.checked().into_iter().zip(self.expected()).map(|(above, expected)| {
            let what = format!("{expected} rows are above {above}");
            integer_line(session.as_mut(), what, &sql(above), expected as i64)
        });
        Ok(lines.collect())
    }
}

/// Draws a new number for each query ("we set the parameter to a random integer between 1 and 10^6 after every
/// execution of the query", NO 3.3).
#[derive(Debug)]
struct ScanClient {
    random: Pcg64,
    values: i32,
    above: i32,
}

impl Client for ScanClient {
    fn draw(&mut self) -> usize {
        self.above = self.random.random_range(1..=self.values);
        0
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        session.query(&sql(self.above)).map(|_| Outcome::Committed)
    }
}
