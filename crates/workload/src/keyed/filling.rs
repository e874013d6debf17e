//! INSERT statements that fill tables before clients begin.

use std::ops::Range;

use arrow::record_batch::RecordBatch;
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Insert, Query, SelectItem, SetExpr, Spanned, Statement, TableAlias,
    TableFactor, TableFunctionArgs,
};

use super::analysis::{Analysis, INSTEAD, Scope, refused};
use super::compile::Compiler;
use super::declaration::{Catalog, name_of};
use super::expression::Expression;
use super::run::{Action, Program};
use super::scalar::{Scalar, Type};
use super::{SqlError, parse, place_of};
use crate::batch::Batch;
use crate::database::DatabaseError;
use crate::schema::{ColumnId, DeclaredTable, Index, TableId};
use crate::statement::{End, Intent, RowAccess, RowRef, Rows, Value};

/// `INSERT … VALUES …`, or `INSERT … SELECT … FROM generate_series(first, last) AS number`.
#[derive(Debug, Clone, PartialEq)]
pub struct Filling {
    table: TableId,
    program: Program,
    /// For each of these numbers the program is run, with the number as its parameter.
    series: Option<(i64, i64)>,
}

impl Filling {
    /// Compiles a statement without parameters.
    pub fn compile(catalog: &Catalog, sql: &str) -> Result<Filling, SqlError> {
        let statement = parse(sql)?;
        let at = statement.span().start;
        let Statement::Insert(mut insert) = statement else {
            return refused(
                at,
                "tables are made and filled by CREATE TABLE, CREATE INDEX and INSERT on the embedded engine; write what this does \
                 into the INSERT, or run on a server: `--target postgres:`",
            );
        };
        let compiler = Compiler { catalog, sql };
        let (series, scope) = match series(sql, &mut insert)? {
            Some((first, last, name, kind)) => (Some((first, last)), Scope { table: None, series: Some((name, kind)) }),
            None => (None, Scope::default()),
        };
        let (action, parameters) = compiler.insert(insert, scope)?;
        let Action::Insert { table, ref returning, .. } = action else { unreachable!("an INSERT inserts") };
        if !returning.is_empty() {
            return refused(place_of(sql, &["returning"]), "what fills a table returns nothing; leave RETURNING out");
        }
        if parameters.len() > usize::from(series.is_some()) {
            return refused(place_of(sql, &["$1", "$2"]), "there are no parameters here; write `:scale` or `:seed`");
        }
        Ok(Filling { table, program: Program { parameters, action }, series })
    }

    /// The table that it fills.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// How often it is run. Each run makes one row, with VALUES as many as are listed.
    pub fn runs(&self) -> u64 {
        self.series.map_or(1, |(first, last)| if first > last { 0 } else { last.abs_diff(first) + 1 })
    }

    /// Makes the rows of some of its runs, from 0.
    pub(crate) fn batch(
        &self,
        table: &DeclaredTable,
        runs: Range<u64>,
        now_us: i64,
    ) -> Result<RecordBatch, DatabaseError> {
        let mut collector = Collector { batch: Batch::of(table, (runs.end - runs.start) as usize) };
        let mut rows = Rows::new();
        for run in runs {
            let number = self.series.map(|(first, _)| Value::Int(first.saturating_add_unsigned(run)));
            self.program.run(&mut collector, number.as_slice(), now_us, &mut rows)?;
        }
        Ok(collector.batch.finish())
    }
}

/// Takes the series out of `INSERT … SELECT … FROM generate_series(…)`: the list of SELECT becomes a row of VALUES. Returns its
/// ends, its name and its type.
fn series(sql: &str, insert: &mut Insert) -> Result<Option<(i64, i64, String, Type)>, SqlError> {
    let Some(Query { body, .. }) = insert.source.as_deref() else { return Ok(None) };
    let SetExpr::Select(select) = &**body else { return Ok(None) };
    let beyond = || {
        refused(
            place_of(sql, &["select"]),
            format!(
                "rows are inserted by VALUES, or by SELECT … FROM generate_series(first, last) AS number, here; {INSTEAD}"
            ),
        )
    };
    let [from] = &select.from[..] else { return beyond() };
    let TableFactor::Table { name, alias, args: Some(TableFunctionArgs { args, settings: None }), .. } = &from.relation
    else {
        return beyond();
    };
    if !name.to_string().eq_ignore_ascii_case("generate_series") {
        return beyond();
    }
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(first)), FunctionArg::Unnamed(FunctionArgExpr::Expr(last))] =
        &args[..]
    else {
        return refused(name.span().start, "a series has a first and a last number here");
    };
    let number = match alias {
        None => "generate_series".to_owned(),
        Some(TableAlias { name, columns, at: None, .. }) => match &columns[..] {
            [] => name_of(name),
            [column] if column.data_type.is_none() => name_of(&column.name),
            _ => return beyond(),
        },
        Some(_) => return beyond(),
    };
    let ((first, a), (last, b)) = (constant(first)?, constant(last)?);
    let mut row = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => row.push(expr.clone()),
            other => return refused(other.span().start, "write an expression for each column"),
        }
    }
    let mut plain = of_our_own("SELECT 1 FROM generate_series(1, 2)");
    if let SetExpr::Select(plain) = &mut *plain.body
        && let TableFactor::Table { args: plain_args, alias: plain_alias, .. } = &mut plain.from[0].relation
    {
        (*plain_args, *plain_alias) = (Some(TableFunctionArgs { args: args.clone(), settings: None }), alias.clone());
        plain.projection.clone_from(&select.projection);
    }
    if insert.source.as_ref() != Some(&plain) {
        let words = ["distinct", "where", "group", "order", "limit", "with", "join", "ordinality", "for"];
        return refused(place_of(sql, &words), "a series gives all of its numbers here, in their order");
    }
    let mut source = of_our_own("VALUES (1)");
    if let SetExpr::Values(values) = &mut *source.body {
        values.rows[0].content = row;
    }
    insert.source = Some(source);
    Ok(Some((first, last, number, a.wider(b))))
}

fn of_our_own(sql: &str) -> Box<Query> {
    match parse(sql) {
        Ok(Statement::Query(query)) => query,
        other => unreachable!("a query of our own: {other:?}"),
    }
}

/// A whole number and its type.
fn constant(expr: &Expr) -> Result<(i64, Type), SqlError> {
    let typed = Analysis::new(Scope::default()).analyse(expr)?;
    match (typed.expression, typed.kind) {
        (Expression::Constant(Scalar::Int(number)), Some(kind @ (Type::Int | Type::BigInt))) => Ok((number, kind)),
        _ => refused(typed.at, "the ends of a series are whole numbers; write (…)::integer"),
    }
}

/// Where rows are inserted to be loaded.
struct Collector {
    batch: Batch,
}

fn only_inserts<T>() -> Result<T, DatabaseError> {
    Err(DatabaseError::Unsupported("tables are filled by INSERT only".to_owned()))
}

impl RowAccess for Collector {
    fn find(&mut self, _: Index, _: &[Value<'_>], _: Intent) -> Result<Option<RowRef>, DatabaseError> {
        only_inserts()
    }

    fn find_end(
        &mut self,
        _: Index,
        _: &[Value<'_>],
        _: &[Value<'_>],
        _: End,
        _: Intent,
    ) -> Result<Option<RowRef>, DatabaseError> {
        only_inserts()
    }

    fn find_all(
        &mut self,
        _: Index,
        _: &[Value<'_>],
        _: &[Value<'_>],
        _: Intent,
        _: &mut Vec<RowRef>,
    ) -> Result<(), DatabaseError> {
        only_inserts()
    }

    fn int(&self, _: RowRef, _: ColumnId) -> i64 {
        unreachable!("no row is found")
    }

    fn is_null(&self, _: RowRef, _: ColumnId) -> bool {
        unreachable!("no row is found")
    }

    fn text(&self, _: RowRef, _: ColumnId, _: &mut String) {
        unreachable!("no row is found")
    }

    fn set(&mut self, _: RowRef, _: ColumnId, _: Value<'_>) -> Result<(), DatabaseError> {
        only_inserts()
    }

    fn insert(&mut self, _: TableId, row: &[Value<'_>]) -> Result<(), DatabaseError> {
        for value in row {
            match value {
                Value::Null => self.batch.int_or_null(None),
                Value::Int(number) => self.batch.int(*number),
                Value::Text(text) => self.batch.text(text),
            };
        }
        Ok(())
    }

    fn delete(&mut self, _: RowRef) -> Result<(), DatabaseError> {
        only_inserts()
    }
}
