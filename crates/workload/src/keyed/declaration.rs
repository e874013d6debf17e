//! Tables as CREATE TABLE and CREATE INDEX declare them.

use sqlparser::ast::{
    CharacterLength, ColumnOption, CreateIndex, CreateTable, DataType, ExactNumberInfo, Expr, Ident, IndexColumn,
    ObjectName, PrimaryKeyConstraint, Spanned, Statement, TableConstraint, TimezoneInfo,
};
use sqlparser::tokenizer::Location;

use super::analysis::{Analysis, INSTEAD, Scope, refused};
use super::expression::Expression;
use super::numeric::PLACES_MAX;
use super::scalar::{Scalar, Type};
use super::{SqlError, parse, place_of};
use crate::schema::{ColumnKind, DeclaredColumn, DeclaredTable, Schema, Storage, TableId};

/// Bytes that a text without a length has room for. Rows have room for all of their texts.
const TEXT_BYTES: usize = 255;

/// The most bytes that one text has room for.
const TEXT_BYTES_MAX: u64 = 8_000;

/// The tables that statements are about.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    tables: Vec<DeclaredTable>,
    /// The defaults of columns that INSERT does not name, by table and column.
    defaults: Vec<Vec<Expression>>,
}

/// The modifiers of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    None,
    /// `numeric(precision, scale)`.
    Digits {
        precision: u8,
        scale: u8,
    },
    /// `varchar(n)`.
    Characters(usize),
}

/// A name as PostgreSQL keeps it.
pub(super) fn name_of(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

/// The type that a declaration or a cast names.
pub(super) fn type_of(named: &DataType, at: Location) -> Result<(Type, Limit), SqlError> {
    let plain = |kind| Ok((kind, Limit::None));
    match named {
        DataType::Int(None) | DataType::Int4(None) | DataType::Integer(None) => plain(Type::Int),
        DataType::BigInt(None) | DataType::Int8(None) => plain(Type::BigInt),
        DataType::Bool | DataType::Boolean => plain(Type::Bool),
        DataType::Date => plain(Type::Date),
        DataType::Text => plain(Type::Text),
        DataType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => plain(Type::Timestamp),
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            match length {
                None => plain(Type::Text),
                Some(CharacterLength::IntegerLength { length, unit: None })
                    if (1..=TEXT_BYTES_MAX).contains(length) =>
                {
                    Ok((Type::Text, Limit::Characters(*length as usize)))
                }
                Some(_) => refused(at, format!("a varchar has from 1 to {TEXT_BYTES_MAX} characters here")),
            }
        }
        DataType::Numeric(digits) | DataType::Decimal(digits) | DataType::Dec(digits) => {
            let (precision, scale) = match digits {
                ExactNumberInfo::None => return plain(Type::Numeric),
                ExactNumberInfo::Precision(precision) => (*precision, 0),
                ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
            };
            let (Ok(precision), Ok(scale)) = (u8::try_from(precision), u8::try_from(scale)) else {
                return refused(at, format!("{named} has too many digits; there are {PLACES_MAX} at most here"));
            };
            if precision == 0 || precision > PLACES_MAX || scale > precision {
                return refused(
                    at,
                    format!("{named} is not possible here; write numeric(p, s) with s up to p up to {PLACES_MAX}"),
                );
            }
            Ok((Type::Numeric, Limit::Digits { precision, scale }))
        }
        other => refused(
            at,
            format!(
                "the type {other} is not kept by the embedded engine; use integer, bigint, numeric(p, s), varchar(n), date or \
                 timestamp, or run on a server: `--target postgres:`"
            ),
        ),
    }
}

impl Catalog {
    /// The tables of a benchmark.
    pub fn of(schema: &Schema) -> Self {
        let mut catalog = Catalog::default();
        schema.tables.iter().for_each(|table| catalog.add(table.into(), None));
        catalog
    }

    /// The tables, in the order of their numbers.
    pub fn tables(&self) -> &[DeclaredTable] {
        &self.tables
    }

    /// Declares that statements read ranges of a table's primary key.
    pub fn note_key_ranges(&mut self, table: TableId) {
        self.tables[table].has_key_ranges = true;
    }

    /// Adds the tables and indexes that a statement declares. `false` if it is neither CREATE TABLE nor CREATE INDEX.
    pub fn declare(&mut self, sql: &str) -> Result<bool, SqlError> {
        match parse(sql)? {
            Statement::CreateTable(table) => self.create_table(sql, table).map(|()| true),
            Statement::CreateIndex(index) => self.create_index(sql, index).map(|()| true),
            _ => Ok(false),
        }
    }

    fn add(&mut self, table: DeclaredTable, defaults: Option<Vec<Expression>>) {
        let nulls = || vec![Expression::Constant(Scalar::Null); table.columns.len()];
        self.defaults.push(defaults.unwrap_or_else(nulls));
        self.tables.push(table);
    }

    /// A table's number.
    pub(super) fn table(&self, name: &ObjectName) -> Result<usize, SqlError> {
        let at = name.span().start;
        let wanted = single_name(name)?;
        let known = || self.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ");
        let position = self.tables.iter().position(|table| table.name == wanted);
        position.ok_or_else(|| SqlError::at(at, format!("there is no table `{wanted}`; there are: {}", known())))
    }

    /// The defaults of a table's columns.
    pub(super) fn defaults(&self, table: usize) -> &[Expression] {
        &self.defaults[table]
    }

    fn create_table(&mut self, sql: &str, create: CreateTable) -> Result<(), SqlError> {
        let name = single_name(&create.name)?;
        let at = create.name.span().start;
        if self.tables.iter().any(|table| table.name == name) {
            return refused(at, format!("there is a table `{name}` already; give this one another name"));
        }
        check_nothing_else(sql, &create)?;
        let mut table = DeclaredTable {
            name,
            columns: Vec::new(),
            primary_key: Vec::new(),
            secondary: Vec::new(),
            storage: Storage::RowsAndColumns,
            has_key_ranges: false,
        };
        let mut defaults = Vec::new();
        for (position, column) in create.columns.iter().enumerate() {
            let at = column.name.span.start;
            let (kind, limit) = type_of(&column.data_type, at)?;
            let kind = kept_as(kind, limit, at)?;
            let mut declared = DeclaredColumn { name: name_of(&column.name), kind, nullable: true };
            let mut default = Expression::Constant(Scalar::Null);
            for option in &column.options {
                match &option.option {
                    ColumnOption::Null => {}
                    ColumnOption::NotNull => declared.nullable = false,
                    ColumnOption::Default(expr) => {
                        default = Analysis::new(Scope::default()).assigned(expr, &declared)?;
                    }
                    ColumnOption::PrimaryKey(PrimaryKeyConstraint { characteristics: None, .. })
                        if table.primary_key.is_empty() =>
                    {
                        declared.nullable = false;
                        table.primary_key.push(position);
                    }
                    other => return refused(at, unchecked(&declared.name, other)),
                }
            }
            table.columns.push(declared);
            defaults.push(default);
        }
        for constraint in &create.constraints {
            match constraint {
                TableConstraint::PrimaryKey(PrimaryKeyConstraint { columns, characteristics: None, .. })
                    if table.primary_key.is_empty() =>
                {
                    table.primary_key = positions(&table, columns, at)?;
                    table.primary_key.iter().for_each(|&position| table.columns[position].nullable = false);
                }
                other => return refused(at, unchecked(&table.name, other)),
            }
        }
        check_key(&table, 0, at)?;
        self.add(table, Some(defaults));
        Ok(())
    }

    fn create_index(&mut self, sql: &str, create: CreateIndex) -> Result<(), SqlError> {
        let at = create.table_name.span().start;
        let number = self.table(&create.table_name)?;
        let plain = format!("CREATE INDEX ON {} (a)", create.table_name);
        let Ok(Statement::CreateIndex(mut plain)) = parse(&plain) else { unreachable!("a statement of our own") };
        (plain.name, plain.columns) = (create.name.clone(), create.columns.clone());
        if plain != create {
            let place = place_of(sql, &["unique", "concurrently", "if", "using", "include", "with", "where", "nulls"]);
            return refused(place, format!("only CREATE INDEX name ON table (column, …) is possible here; {INSTEAD}"));
        }
        let columns = positions(&self.tables[number], &create.columns, at)?;
        self.tables[number].secondary.push(columns);
        check_key(&self.tables[number], self.tables[number].secondary.len(), at)
    }
}

/// The only part of a name.
pub(super) fn single_name(name: &ObjectName) -> Result<String, SqlError> {
    match &name.0[..] {
        [part] => part.as_ident().map(name_of).ok_or_else(|| SqlError::at(name.span().start, "write a table's name")),
        _ => refused(name.span().start, "name the table without a schema; a workload has one of its own"),
    }
}

/// Refuses all of CREATE TABLE but columns and constraints.
fn check_nothing_else(sql: &str, create: &CreateTable) -> Result<(), SqlError> {
    let plain = format!("CREATE TABLE {} (a int)", create.name);
    let Ok(Statement::CreateTable(mut plain)) = parse(&plain) else { unreachable!("a statement of our own") };
    (plain.columns, plain.constraints) = (create.columns.clone(), create.constraints.clone());
    // Options for a server's pages have no meaning for this engine.
    plain.table_options = create.table_options.clone();
    if plain == *create {
        return Ok(());
    }
    let place = place_of(sql, &["temporary", "temp", "unlogged", "if", "as", "like", "inherits", "partition", "on"]);
    refused(place, format!("only CREATE TABLE name (column type, …) is possible here; {INSTEAD}"))
}

fn unchecked(of: &str, constraint: &impl std::fmt::Display) -> String {
    format!(
        "`{of}`: the embedded engine does not check `{constraint}`; leave it out, or run on a server: `--target postgres:`. \
         There are NOT NULL, DEFAULT and one PRIMARY KEY"
    )
}

/// How a column of a type is kept.
fn kept_as(kind: Type, limit: Limit, at: Location) -> Result<ColumnKind, SqlError> {
    Ok(match (kind, limit) {
        (Type::Int, _) => ColumnKind::Int,
        (Type::BigInt, _) => ColumnKind::BigInt,
        (Type::Numeric, Limit::Digits { precision, scale }) => {
            ColumnKind::Decimal { precision, scale: scale.cast_signed() }
        }
        (Type::Numeric, _) => {
            return refused(
                at,
                format!("a column of numbers needs its digits; write numeric(p, s) with p up to {PLACES_MAX}"),
            );
        }
        (Type::Text, Limit::Characters(characters)) => ColumnKind::Text(characters),
        (Type::Text, _) => ColumnKind::Text(TEXT_BYTES),
        (Type::Date, _) => ColumnKind::Date,
        (Type::Timestamp, _) => ColumnKind::Timestamp,
        (Type::Bool | Type::Interval, _) => {
            return refused(at, format!("a column of type {kind} is not kept by the embedded engine; use integer"));
        }
    })
}

/// The columns of an index, most significant first.
fn positions(table: &DeclaredTable, columns: &[IndexColumn], at: Location) -> Result<Vec<usize>, SqlError> {
    let position = |column: &IndexColumn| {
        let place = column.column.expr.span().start;
        let Expr::Identifier(name) = &column.column.expr else {
            return refused(place, "an index is over columns here, not over expressions");
        };
        if column.operator_class.is_some() || column.column.options.asc == Some(false) {
            return refused(place, "an index has ascending columns here; it can be read from either end");
        }
        let found = table.columns.iter().position(|column| column.name == name_of(name));
        found.ok_or_else(|| SqlError::at(place, format!("`{}` has no column `{}`", table.name, name_of(name))))
    };
    let positions: Vec<usize> = columns.iter().map(position).collect::<Result<_, _>>()?;
    let is_twice = |(at, column): (usize, &usize)| positions[..at].contains(column);
    if positions.iter().enumerate().any(is_twice) {
        return refused(at, "an index has each column once");
    }
    Ok(positions)
}

/// Bytes that the columns of a key may have; the engine's are 64, and it adds a number to those of secondary indexes.
const KEY_BYTES_MAX: usize = 56;

/// Refuses an index that the engine cannot have.
fn check_key(table: &DeclaredTable, number: usize, at: Location) -> Result<(), SqlError> {
    let columns = || table.index_columns(number).iter().map(|&column| &table.columns[column]);
    if let Some(column) = columns().find(|column| column.nullable) {
        let name = &column.name;
        return refused(at, format!("`{name}` may be null, and so it cannot be in an index here; declare it NOT NULL"));
    }
    let width = |column: &DeclaredColumn| match column.kind {
        ColumnKind::Int | ColumnKind::Date => 4,
        ColumnKind::BigInt | ColumnKind::Decimal { .. } | ColumnKind::Timestamp => 8,
        ColumnKind::Text(bytes) => bytes,
    };
    let bytes: usize = columns().map(width).sum();
    if bytes > KEY_BYTES_MAX {
        return refused(
            at,
            format!(
                "an index has keys of at most {KEY_BYTES_MAX} bytes here, and this has {bytes}; shorten a text: varchar(n)"
            ),
        );
    }
    Ok(())
}
