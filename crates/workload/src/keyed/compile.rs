//! Makes programs of parsed statements.
//!
//! So that no part of a statement is ignored, each is compared with the plainest statement of its kind with the
//! supported parts added: if the two differ, the statement is beyond the subset.

use sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Insert, LimitClause, LockClause, LockType, ObjectName,
    OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Spanned, Statement, TableAlias, TableFactor, TableObject,
    TableWithJoins, Update, Values, WildcardAdditionalOptions,
};
use sqlparser::tokenizer::Location;

use super::access::{Access, Requirement, choose};
use super::analysis::{Analysis, INSTEAD, Scope, refused};
use super::declaration::{Catalog, name_of, single_name};
use super::expression::{Expression, first_given};
use super::function::{Aggregate, AggregateFunction};
use super::run::{Action, Program};
use super::scalar::Type;
use super::{SqlError, parse, place_of};
use crate::schema::{DeclaredTable, StoredColumn, TableId};
use crate::statement::{End, Intent};

impl Program {
    /// Compiles a statement with parameters as `$1`, `$2`, …
    pub fn compile(catalog: &Catalog, sql: &str) -> Result<Program, SqlError> {
        let compiler = Compiler { catalog, sql };
        let (action, parameters) = match parse(sql)? {
            Statement::Query(query) => compiler.query(*query)?,
            Statement::Insert(insert) => compiler.insert(insert, Scope::default())?,
            Statement::Update(update) => compiler.update(update)?,
            Statement::Delete(delete) => compiler.delete(delete)?,
            other => {
                return refused(
                    other.span().start,
                    format!("this is none of SELECT, INSERT, UPDATE and DELETE; {INSTEAD}"),
                );
            }
        };
        Ok(Program { parameters, action })
    }
}

/// The compiler of one statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compiler<'c> {
    pub(super) catalog: &'c Catalog,
    pub(super) sql: &'c str,
}

type CompileResult = Result<(Action, Vec<Type>), SqlError>;

/// A parsed statement of our own.
macro_rules! plain {
    ($kind:path, $sql:expr) => {
        match parse($sql) {
            Ok($kind(statement)) => statement,
            other => unreachable!("a statement of our own: {other:?}"),
        }
    };
}

impl<'c> Compiler<'c> {
    /// The error for an unsupported part of the statement, whose place is found by the words with which it may begin.
    fn beyond<T>(&self, words: &[&str]) -> Result<T, SqlError> {
        let place = place_of(self.sql, words);
        refused(place, format!("this part of the statement is beyond keyed statements; {INSTEAD}"))
    }

    fn query(&self, query: Query) -> CompileResult {
        let SetExpr::Select(select) = &*query.body else {
            return self.beyond(&["union", "intersect", "except", "values", "table", "("]);
        };
        let mut plain = plain!(Statement::Query, "SELECT 1");
        plain.body = query.body.clone();
        plain.order_by.clone_from(&query.order_by);
        plain.limit_clause.clone_from(&query.limit_clause);
        plain.locks.clone_from(&query.locks);
        if *plain != query {
            return self.beyond(&["with", "fetch", "for"]);
        }
        self.check_select(select)?;
        let intent = self.intent(&query.locks)?;
        let (number, scope) = match &select.from[..] {
            [] => (None, Scope::default()),
            [from] => {
                let (number, scope) = self.table(from)?;
                (Some(number), scope)
            }
            [_, second, ..] => {
                return refused(second.span().start, format!("a keyed statement has one table; {INSTEAD}"));
            }
        };
        let mut analysis = Analysis::new(scope);
        let output = self.output(&select.projection, &mut analysis)?;
        let plain_column = analysis.plain_column;
        let condition = select.selection.as_ref().map(|expr| analysis.condition(expr)).transpose()?;
        let order = self.order(query.order_by.as_ref(), &output, &mut analysis)?;
        let limit = self.limit(query.limit_clause.as_ref(), &mut analysis)?;
        let output: Vec<Expression> = output.into_iter().map(|(_, expression)| expression).collect();
        let Some(number) = number else {
            if condition.is_some() || limit.is_some() || intent.is_some() || query.order_by.is_some() {
                return self.beyond(&["where", "order", "limit", "for"]);
            }
            return Ok((Action::Compute { output }, analysis.parameter_types()));
        };
        let at = place_of(self.sql, &["from"]);
        let table = &self.catalog.tables()[number];
        if analysis.aggregates.is_empty() {
            let wanted = Requirement { order: &order, is_limited: limit.is_some() };
            let source = choose(table, number, condition, wanted, at)?;
            let intent = intent.unwrap_or(Intent::Read);
            return Ok((Action::Read { source, intent, limit, output }, analysis.parameter_types()));
        }
        if let Some(place) = plain_column {
            return refused(
                place,
                format!(
                    "a column beside aggregates belongs to a GROUP BY, which is beyond keyed statements; {INSTEAD}"
                ),
            );
        }
        if limit.is_some() || intent.is_some() || query.order_by.is_some() {
            return self.beyond(&["order", "limit", "for"]);
        }
        Ok((aggregate(table, number, condition, analysis.aggregates.clone(), output, at)?, analysis.parameter_types()))
    }

    /// Refuses all of a SELECT but its list, FROM and WHERE.
    fn check_select(&self, select: &Select) -> Result<(), SqlError> {
        let query = plain!(Statement::Query, "SELECT 1");
        let SetExpr::Select(mut plain) = *query.body else { unreachable!("a statement of our own") };
        plain.projection.clone_from(&select.projection);
        plain.from.clone_from(&select.from);
        plain.selection.clone_from(&select.selection);
        if *plain == *select {
            return Ok(());
        }
        self.beyond(&["distinct", "into", "group", "having", "window"])
    }

    /// How the rows of a query are locked, if it has a locking clause.
    fn intent(&self, locks: &[LockClause]) -> Result<Option<Intent>, SqlError> {
        match locks {
            [] => Ok(None),
            [LockClause { lock_type, of: None, nonblock: None }] => Ok(Some(match lock_type {
                LockType::Update => Intent::Update,
                LockType::Share => Intent::Read,
            })),
            _ => {
                let place = place_of(self.sql, &["of", "nowait", "skip"]);
                refused(place, "rows are locked by FOR UPDATE or FOR SHARE here, and their locks are waited for")
            }
        }
    }

    /// The one table of a FROM clause.
    fn table(&self, from: &TableWithJoins) -> Result<(TableId, Scope<'c>), SqlError> {
        let at = from.span().start;
        let TableFactor::Table { name, alias, .. } = &from.relation else {
            return refused(at, format!("a keyed statement is about a table; {INSTEAD}"));
        };
        if let [join, ..] = &from.joins[..] {
            return refused(join.span().start, format!("joins are beyond keyed statements; {INSTEAD}"));
        }
        let number = self.catalog.table(name)?;
        let mut plain = plain!(Statement::Query, &format!("SELECT 1 FROM {name}"));
        if let SetExpr::Select(plain) = &mut *plain.body
            && let TableFactor::Table { alias: plain_alias, .. } = &mut plain.from[0].relation
        {
            plain_alias.clone_from(alias);
            if plain.from[0] != *from {
                return refused(at, format!("write a table's name here and nothing else; {INSTEAD}"));
            }
        }
        Ok((number, self.scope(number, alias.as_ref())?))
    }

    fn scope(&self, number: TableId, alias: Option<&TableAlias>) -> Result<Scope<'c>, SqlError> {
        let table = &self.catalog.tables()[number];
        let name = match alias {
            None => table.name.clone(),
            Some(TableAlias { name, columns, at: None, .. }) if columns.is_empty() => name_of(name),
            Some(alias) => {
                return refused(alias.name.span.start, "columns keep their names here; write the table's alias only");
            }
        };
        Ok(Scope { table: Some((table, name)), series: None })
    }

    /// The result columns of a statement, with the names that ORDER BY can use.
    fn output(
        &self,
        items: &[SelectItem],
        analysis: &mut Analysis<'c>,
    ) -> Result<Vec<(Option<String>, Expression)>, SqlError> {
        let mut output = Vec::new();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => output.push((None, analysis.output(expr)?.0)),
                SelectItem::ExprWithAlias { expr, alias } => {
                    output.push((Some(name_of(alias)), analysis.output(expr)?.0));
                }
                SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                    let Some((table, _)) = analysis.scope.table else {
                        return refused(item.span().start, "there is no table whose columns could be meant");
                    };
                    analysis.plain_column.get_or_insert(item.span().start);
                    let all = table.columns.iter().enumerate();
                    output.extend(all.map(|(column, of)| (None, Expression::Column(of.stored_at(column)))));
                }
                other => return refused(other.span().start, "write an expression, or * for all columns"),
            }
        }
        Ok(output)
    }

    /// The columns of ORDER BY, and whether each is descending.
    fn order(
        &self,
        order: Option<&OrderBy>,
        output: &[(Option<String>, Expression)],
        analysis: &mut Analysis<'c>,
    ) -> Result<Vec<(usize, bool)>, SqlError> {
        let expressions = match order {
            None => return Ok(Vec::new()),
            Some(OrderBy { kind: OrderByKind::Expressions(expressions), interpolate: None }) => expressions,
            Some(_) => return self.beyond(&["order"]),
        };
        let mut columns = Vec::new();
        for by in expressions {
            let at = by.expr.span().start;
            let named = match &by.expr {
                Expr::Identifier(name) => output.iter().find(|(known, _)| *known == Some(name_of(name))),
                _ => None,
            };
            // A name in the list takes precedence over that of a column.
            let meant = match named {
                Some((_, expression)) => expression.clone(),
                None => analysis.output(&by.expr)?.0,
            };
            let Expression::Column(StoredColumn { column, .. }) = meant else {
                return refused(at, format!("rows are ordered by columns of an index here; {INSTEAD}"));
            };
            // No column of an index is null, so that NULLS FIRST and LAST mean the same.
            if by.with_fill.is_some() {
                return self.beyond(&["fill"]);
            }
            columns.push((column, by.options.asc == Some(false)));
        }
        Ok(columns)
    }

    fn limit(&self, limit: Option<&LimitClause>, analysis: &mut Analysis<'c>) -> Result<Option<Expression>, SqlError> {
        let expr = match limit {
            None => return Ok(None),
            Some(LimitClause::LimitOffset { limit, offset: None, limit_by }) if limit_by.is_empty() => limit.as_ref(),
            Some(_) => {
                let place = place_of(self.sql, &["offset"]);
                return refused(
                    place,
                    "OFFSET would read rows to throw them away; begin behind the last key instead: WHERE key > $1",
                );
            }
        };
        let Some(expr) = expr else { return Ok(None) };
        let scope = std::mem::take(&mut analysis.scope);
        let limit = match analysis.analyse(expr)?.kind {
            Some(Type::Int) => analysis.of_type(expr, Type::Int),
            _ => analysis.of_type(expr, Type::BigInt),
        };
        analysis.scope = scope;
        limit.map(Some)
    }

    pub(super) fn insert(&self, insert: Insert, scope: Scope<'c>) -> CompileResult {
        let TableObject::TableName(name) = &insert.table else { return self.beyond(&["into"]) };
        let mut plain = plain!(Statement::Insert, &format!("INSERT INTO {name} VALUES (1)"));
        plain.columns.clone_from(&insert.columns);
        plain.source.clone_from(&insert.source);
        plain.returning.clone_from(&insert.returning);
        if plain != insert {
            return self.beyond(&["as", "overriding", "default", "on", "with"]);
        }
        let number = self.catalog.table(name)?;
        let table = &self.catalog.tables()[number];
        let positions = named_columns(table, &insert.columns)?;
        let mut analysis = Analysis::new(scope);
        let defaults = self.catalog.defaults(number);
        let mut rows = Vec::new();
        for values in self.given(&insert)? {
            if values.len() > positions.len() || (values.len() < positions.len() && !insert.columns.is_empty()) {
                let at = values.first().map_or(Location::new(1, 1), |first| first.span().start);
                return refused(at, format!("{} values are given for {} columns", values.len(), positions.len()));
            }
            let mut row = defaults.to_vec();
            for (expr, &position) in values.iter().zip(&positions) {
                row[position] = analysis.assigned(expr, &table.columns[position])?;
            }
            rows.push((first_given(&row), row));
        }
        analysis.scope = self.scope(number, None)?;
        let returning = self.returning(insert.returning.as_deref(), &mut analysis)?;
        let columns = table.columns.clone();
        Ok((Action::Insert { table: number, columns, rows, returning }, analysis.parameter_types()))
    }

    /// The rows of an INSERT, as expressions.
    fn given<'i>(&self, insert: &'i Insert) -> Result<Vec<Vec<&'i Expr>>, SqlError> {
        let Some(source) = insert.source.as_deref() else { return self.beyond(&["default"]) };
        let SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows }) = &*source.body else {
            return self.beyond(&["select", "table"]);
        };
        let mut plain = plain!(Statement::Query, "VALUES (1)");
        plain.body.clone_from(&source.body);
        if *plain != *source {
            return self.beyond(&["order", "limit", "with", "for"]);
        }
        Ok(rows.iter().map(|row| row.content.iter().collect()).collect())
    }

    fn returning(
        &self,
        items: Option<&[SelectItem]>,
        analysis: &mut Analysis<'c>,
    ) -> Result<Vec<Expression>, SqlError> {
        let output = self.output(items.unwrap_or_default(), analysis)?;
        if !analysis.aggregates.is_empty() {
            return refused(place_of(self.sql, &["returning"]), "RETURNING returns each row; it has no aggregates");
        }
        Ok(output.into_iter().map(|(_, expression)| expression).collect())
    }

    fn update(&self, update: Update) -> CompileResult {
        let mut plain = plain!(Statement::Update, "UPDATE t SET a = 1");
        plain.table.clone_from(&update.table);
        plain.assignments.clone_from(&update.assignments);
        plain.selection.clone_from(&update.selection);
        plain.returning.clone_from(&update.returning);
        if plain != update {
            return self.beyond(&["from", "order", "limit"]);
        }
        let (number, scope) = self.table(&update.table)?;
        let table = &self.catalog.tables()[number];
        let mut analysis = Analysis::new(scope);
        let condition = update.selection.as_ref().map(|expr| analysis.condition(expr)).transpose()?;
        let returning = self.returning(update.returning.as_deref(), &mut analysis)?;
        let mut columns: Vec<(usize, _)> = Vec::new();
        let mut values = Vec::new();
        for Assignment { target, value } in &update.assignments {
            let AssignmentTarget::ColumnName(name) = target else {
                return refused(value.span().start, "one column is set at a time here: column = value");
            };
            let at = name.span().start;
            let position = named_columns(table, std::slice::from_ref(name))?[0];
            let column = &table.columns[position];
            let is_indexed = (0..=table.secondary.len()).any(|index| table.index_columns(index).contains(&position));
            if is_indexed {
                let name = &column.name;
                return refused(
                    at,
                    format!(
                        "`{name}` belongs to an index, whose columns never change here; delete the row and insert another"
                    ),
                );
            }
            if columns.iter().any(|(known, _)| *known == position) {
                return refused(at, format!("`{}` is set twice", column.name));
            }
            columns.push((position, column.clone()));
            values.push(analysis.assigned(value, column)?);
        }
        let source = choose(table, number, condition, Requirement::default(), update.table.span().start)?;
        Ok((Action::Update { source, columns, values, returning }, analysis.parameter_types()))
    }

    fn delete(&self, delete: Delete) -> CompileResult {
        let mut plain = plain!(Statement::Delete, "DELETE FROM t");
        plain.from.clone_from(&delete.from);
        plain.selection.clone_from(&delete.selection);
        plain.returning.clone_from(&delete.returning);
        if plain != delete {
            return self.beyond(&["using", "order", "limit"]);
        }
        let FromTable::WithFromKeyword(from) = &delete.from else { return self.beyond(&["delete"]) };
        let [from] = &from[..] else { return self.beyond(&["from"]) };
        let (number, scope) = self.table(from)?;
        let mut analysis = Analysis::new(scope);
        let condition = delete.selection.as_ref().map(|expr| analysis.condition(expr)).transpose()?;
        let returning = self.returning(delete.returning.as_deref(), &mut analysis)?;
        let table = &self.catalog.tables()[number];
        let source = choose(table, number, condition, Requirement::default(), from.span().start)?;
        Ok((Action::Delete { source, returning }, analysis.parameter_types()))
    }
}

/// Aggregates of a range; the least or greatest value of the column by which its index is ordered is looked up.
fn aggregate(
    table: &DeclaredTable,
    number: TableId,
    condition: Option<Expression>,
    aggregates: Vec<Aggregate>,
    output: Vec<Expression>,
    at: Location,
) -> Result<Action, SqlError> {
    if let [only] = &aggregates[..]
        && let Some(Expression::Column(StoredColumn { column, .. })) = only.argument
        && let Some(end) = match only.function {
            AggregateFunction::Min => Some(End::First),
            AggregateFunction::Max => Some(End::Last),
            _ => None,
        }
    {
        let wanted = Requirement { order: &[(column, false)], is_limited: true };
        if let Ok(source) = choose(table, number, condition.clone(), wanted, at)
            && source.filter.is_empty()
            && matches!(source.access, Access::Range { .. })
        {
            let aggregate = only.argument.clone().expect("it is a column");
            return Ok(Action::Extreme { source, end, aggregate, output });
        }
    }
    let source = choose(table, number, condition, Requirement::default(), at)?;
    Ok(Action::Aggregate { source, aggregates, output })
}

/// The positions of the named columns, or of all columns if none are named.
fn named_columns(table: &DeclaredTable, names: &[ObjectName]) -> Result<Vec<usize>, SqlError> {
    if names.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let mut positions = Vec::new();
    for name in names {
        let (at, wanted) = (name.span().start, single_name(name)?);
        let Some(position) = table.columns.iter().position(|column| column.name == wanted) else {
            return refused(at, format!("`{}` has no column `{wanted}`", table.name));
        };
        if positions.contains(&position) {
            return refused(at, format!("`{wanted}` is named twice"));
        }
        positions.push(position);
    }
    Ok(positions)
}
