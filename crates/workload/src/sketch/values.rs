//! Which values a placeholder of a sketch is drawn from: those of the column that it is compared with, by the server's own
//! statistics.

use std::collections::BTreeMap;

use super::places::{NamedColumn, Parsed, Place};
use crate::database::Session;
use crate::inquiry::{answer, first_integer};

/// How many values of a column are drawn from.
pub(super) const VALUES_MAX: usize = 10_000;

/// The statistics of columns, with their tables.
const STATISTICS: &str = "pg_catalog.pg_stats AS s JOIN pg_catalog.pg_namespace AS n ON n.nspname = s.schemaname \
     JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = s.tablename";

/// What a placeholder becomes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Drawn {
    /// One of the values of a query.
    Query(String),
    /// This number.
    Constant(i64),
}

/// The placeholders of a statement.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Values {
    /// The source of each placeholder, by its number.
    pub drawn: BTreeMap<usize, Drawn>,
    /// The two ends of each range with the type of their column: the smaller value is the lower end.
    pub ranges: Vec<(usize, usize, String)>,
    /// Whether a range has a drawn end.
    pub has_ranges: bool,
}

/// A column in the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    /// Its table, as SQL names it.
    table: String,
    /// Its name, as SQL writes it.
    name: String,
    /// Its type.
    kind: String,
    is_integer: bool,
    has_statistics: bool,
}

/// The columns of a database, each looked up once.
pub(super) struct Columns<'a> {
    session: &'a mut dyn Session,
    /// By the table's and the column's name as statements write them.
    known: BTreeMap<(String, String), Option<Column>>,
    /// Queries, and whether they have values.
    tried: BTreeMap<String, bool>,
}

impl<'a> Columns<'a> {
    pub fn new(session: &'a mut dyn Session) -> Self {
        Columns { session, known: BTreeMap::new(), tried: BTreeMap::new() }
    }

    /// The values of a statement that returns so many rows per call; otherwise why it has none.
    pub fn values(&mut self, parsed: &Parsed, rows: Option<f64>) -> Result<Values, String> {
        let mut values = Values::default();
        let mut lows: Vec<(usize, Column)> = Vec::new();
        let mut highs: Vec<(usize, Column)> = Vec::new();
        for (number, place) in &parsed.places {
            let place = place.as_ref().ok_or_else(|| format!("${number} is compared with no column"))?;
            let drawn = match place {
                Place::Limit => Drawn::Constant(rows.map_or(1, |rows| rows.ceil().max(1.0) as i64)),
                Place::Offset => Drawn::Constant(0),
                Place::Step => Drawn::Constant(1),
                Place::Value(named) => {
                    let column = self.find(parsed, named)?;
                    Drawn::Query(self.query(&column.sql())?)
                }
                Place::Values(named) => {
                    let column = self.find(parsed, named)?;
                    Drawn::Query(self.query(&column.arrays_sql())?)
                }
                Place::Low(named) | Place::High(named) => {
                    let column = self.find(parsed, named)?;
                    let drawn = Drawn::Query(self.query(&column.sql())?);
                    let ends = if matches!(place, Place::Low(_)) { &mut lows } else { &mut highs };
                    ends.push((*number, column));
                    values.has_ranges = true;
                    drawn
                }
            };
            values.drawn.insert(*number, drawn);
        }
        for (low, column) in lows {
            if let Some(at) = highs.iter().position(|(_, other)| *other == column) {
                values.ranges.push((low, highs.remove(at).0, column.kind));
            }
        }
        Ok(values)
    }

    /// The column that a statement means.
    fn find(&mut self, parsed: &Parsed, named: &NamedColumn) -> Result<Column, String> {
        let is_meant = |(table, alias): &&(String, Option<String>)| match &named.table {
            None => true,
            Some(wanted) => alias.as_deref().or_else(|| table.rsplit('.').next()) == Some(wanted),
        };
        let tables: Vec<String> = parsed.tables.iter().filter(is_meant).map(|(table, _)| table.clone()).collect();
        for table in tables {
            if let Some(column) = self.column(&table, &named.name)? {
                return Ok(column);
            }
        }
        Err(format!("`{}` is not a column of a table in its FROM", named.name))
    }

    fn column(&mut self, table: &str, name: &str) -> Result<Option<Column>, String> {
        let key = (table.to_owned(), name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let found = answer(self.session, &column_sql(table, name))?.into_iter().next();
        let text = |cell: Option<&Option<String>>| cell.cloned().flatten().unwrap_or_default();
        let column = found.map(|row| Column {
            table: text(row.first()),
            name: text(row.get(1)),
            kind: text(row.get(2)),
            is_integer: text(row.get(3)) == "true",
            has_statistics: text(row.get(4)) == "true",
        });
        self.known.insert(key, column.clone());
        Ok(column)
    }

    /// The query, if it has values.
    fn query(&mut self, sql: &str) -> Result<String, String> {
        let has_values = match self.tried.get(sql) {
            Some(known) => *known,
            None => first_integer(self.session, &format!("SELECT count(*) FROM ({sql}) AS v"))? > 0,
        };
        self.tried.insert(sql.to_owned(), has_values);
        if has_values { Ok(sql.to_owned()) } else { Err("a column that it compares has no values".to_owned()) }
    }
}

impl Column {
    /// The type of the values that are drawn: numbers stay numbers, everything else is text, which the server reads.
    fn drawn_as(&self) -> &'static str {
        if self.is_integer { "bigint" } else { "text" }
    }

    /// Its most common values as often as they occur, and values between the bounds of its histogram; without statistics,
    /// values of the table's first rows.
    fn sql(&self) -> String {
        let Column { table, name, .. } = self;
        let (table_text, name_text) = (literal(table), literal(name));
        let (drawn_as, count) = (self.drawn_as(), VALUES_MAX);
        if !self.has_statistics {
            return format!("SELECT {name}::{drawn_as} AS v FROM {table} WHERE {name} IS NOT NULL LIMIT {count}");
        }
        // Between two bounds, whole numbers are taken to be equally frequent. Other types have no numbers in between.
        let between = match self.is_integer {
            true => {
                "floor(bounds[1 + floor(p)::int]::numeric + (p - floor(p)) * \
                 (bounds[2 + floor(p)::int]::numeric - bounds[1 + floor(p)::int]::numeric))::text"
            }
            false => "bounds[1 + round(p)::int]",
        };
        format!(
            "WITH s AS (SELECT most_common_vals::text::text[] AS common, most_common_freqs AS shares, \
             histogram_bounds::text::text[] AS bounds, null_frac FROM {STATISTICS} \
             WHERE c.oid = {table_text}::regclass AND quote_ident(s.attname) = {name_text} ORDER BY inherited DESC LIMIT 1), \
             c AS (SELECT v, f FROM s, unnest(s.common, s.shares) AS u(v, f)), \
             r AS (SELECT bounds, array_length(bounds, 1) - 1 AS steps, greatest(1, round({count} * \
             (1 - null_frac - coalesce((SELECT sum(f) FROM c), 0)))::int) AS k FROM s WHERE array_length(bounds, 1) > 1), \
             h AS (SELECT bounds, ((i - 0.5) / k * steps)::numeric AS p FROM r, generate_series(1, r.k) AS i) \
             SELECT v::{drawn_as} AS v FROM c, generate_series(1, greatest(1, round({count} * f)::int)) \
             UNION ALL SELECT ({between})::{drawn_as} FROM h"
        )
    }

    /// Arrays of one value each.
    fn arrays_sql(&self) -> String {
        format!("SELECT (ARRAY[v])::text AS v FROM ({}) AS one", self.sql())
    }
}

/// The table's name, the column's, its type, whether it is a whole number, and whether it has statistics.
fn column_sql(table: &str, name: &str) -> String {
    let (table, name) = (literal(table), literal(&catalog_name(name)));
    format!(
        "SELECT a.attrelid::regclass::text, quote_ident(a.attname), format_type(a.atttypid, NULL), \
         (a.atttypid IN (20, 21, 23))::text, EXISTS (SELECT FROM {STATISTICS} WHERE c.oid = a.attrelid AND s.attname = a.attname AND coalesce(s.most_common_vals::text, s.histogram_bounds::text) IS NOT NULL)::text \
         FROM pg_catalog.pg_attribute a WHERE a.attrelid = to_regclass({table}) AND a.attname = {name} \
         AND a.attnum > 0 AND NOT a.attisdropped"
    )
}

/// A name as the catalog has it: without its quotes, or in lower case.
fn catalog_name(written: &str) -> String {
    match written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => written.to_ascii_lowercase(),
    }
}

/// A text as a literal of SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
