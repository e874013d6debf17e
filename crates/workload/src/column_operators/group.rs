//! Query 2 of NO: the greatest value of each group.

use std::borrow::Cow;

use super::numbers::Numbers;
use super::{SCALE_POSSIBLE, SCALE_UNIT, VALUES_POSSIBLE, batch, row_count};
use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError, Session};
use crate::footprint::bytes_per_row;
use crate::inquiry::{batches, integers, line, row_count_line};
use crate::parts::{Filling, load};
use crate::registry::{Entry, Parameter, ParameterValue, Possible};
use crate::schema::{ColumnKind, Schema, column, column_table};
use crate::tpch_operators::SameQuery;

pub(crate) const ENTRY: Entry = Entry {
    name: "group",
    about: "the greatest value of each group",
    source: "NO Q2",
    scale_unit: SCALE_UNIT,
    scale_default: 10.0,
    scale_possible: SCALE_POSSIBLE,
    parameters: &[
        Parameter {
            name: "values",
            about: "how many different values there are",
            default: ParameterValue::Number(1e6),
            possible: VALUES_POSSIBLE,
        },
        Parameter {
            name: "groups",
            about: "how many groups there are",
            default: ParameterValue::Number(1e5),
            // The check keeps a number for each.
            possible: Possible::Whole { low: 1.0, high: 1e8 },
        },
    ],
    sides: &[],
    make: |scale, parameters, seed| {
        let (values, groups) = (parameters.number("values") as i32, parameters.number("groups") as i32);
        Box::new(Group { scale, values, groups, seed })
    },
};

static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("column_group"),
    tables: &[column_table("b", &[column("v", ColumnKind::Int), column("g", ColumnKind::Int)], &[])],
};

const SQL: &str = "select max(v), g from b group by g";

#[derive(Debug)]
pub(super) struct Group {
    /// Millions of rows.
    pub(super) scale: f64,
    /// `v` is uniform over 1 to this.
    pub(super) values: i32,
    /// `g` is uniform over 1 to this.
    pub(super) groups: i32,
    pub(super) seed: u64,
}

impl Group {
    fn columns(&self) -> [Numbers; 2] {
        [
            Numbers { seed: self.seed, column: 0, high: self.values },
            Numbers { seed: self.seed, column: 1, high: self.groups },
        ]
    }

    /// The greatest value of each group, 0 for one without rows; group 1 comes first.
    pub(super) fn expected(&self) -> Vec<i32> {
        let mut greatest = vec![0; self.groups as usize];
        let [values, groups] = self.columns().map(|column| column.all(row_count(self.scale)));
        for (value, group) in values.zip(groups) {
            let known: &mut i32 = &mut greatest[group as usize - 1];
            *known = value.max(*known);
        }
        greatest
    }

    /// Whether the answer has every group that has rows once, with its greatest value.
    fn judge(&self, session: &mut dyn Session) -> Result<String, String> {
        let answer = batches(session, SQL)?;
        let (values, groups) = (integers(&answer, 0)?, integers(&answer, 1)?);
        // A matched group is removed, so that it counts as wrong if it comes twice.
        let mut expected = self.expected();
        for (value, group) in values.iter().zip(&groups) {
            let place = usize::try_from(*group - 1).ok().and_then(|place| expected.get_mut(place));
            match place {
                Some(greatest) if *greatest > 0 && i64::from(*greatest) == *value => *greatest = 0,
                Some(0) => return Err(format!("group {group} comes twice or has no rows")),
                Some(greatest) => return Err(format!("group {group} has {value}, its greatest is {greatest}")),
                None => return Err(format!("there is no group {group}")),
            }
        }
        match expected.iter().filter(|&&greatest| greatest > 0).count() {
            0 => Ok(format!("{} groups", groups.len())),
            missing => Err(format!("{missing} groups are missing")),
        }
    }
}

impl Benchmark for Group {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn data(&self) -> String {
        let Group { scale, values, groups, seed } = self;
        format!("{}:{scale}:values={values}:groups={groups}:seed={seed}", SCHEMA.name)
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
        let make = Box::new(|part| batch(&SCHEMA.tables[0], self.columns().map(|column| column.part(part)).into()));
        load(&SCHEMA, &[Filling { table: 0, rows: row_count(self.scale), make }], database, progress)
    }

    fn client(&self, _number: usize, _seed: u64) -> Box<dyn Client> {
        Box::new(SameQuery { sql: SQL.to_owned() })
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        let mut session = database.session(&SCHEMA)?;
        let rows = row_count_line(session.as_mut(), SCHEMA.tables[0].name, row_count(self.scale));
        let what = "each group's greatest value is that of the generated data".to_owned();
        Ok(vec![rows, line(what, self.judge(session.as_mut()))])
    }
}
