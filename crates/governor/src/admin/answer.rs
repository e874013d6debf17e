//! Answers to statements: rows of typed cells, or a refusal.

use std::borrow::Cow;
use std::time::Duration;

use super::wire::{Answers, texts};

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: Cow<'static, str>,
    pub kind: CellType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellType {
    /// `text`.
    Text,
    /// `bigint`.
    Int,
    /// `integer`, as pgbouncer has most numbers.
    Int4,
    /// `numeric`, as pgbouncer has counts that only grow.
    Numeric,
    /// `double precision`.
    Float,
    /// `boolean`.
    Bool,
}

pub const fn text(name: &'static str) -> Column {
    Column { name: Cow::Borrowed(name), kind: CellType::Text }
}

pub const fn int(name: &'static str) -> Column {
    Column { name: Cow::Borrowed(name), kind: CellType::Int }
}

pub const fn int4(name: &'static str) -> Column {
    Column { name: Cow::Borrowed(name), kind: CellType::Int4 }
}

pub const fn numeric(name: &'static str) -> Column {
    Column { name: Cow::Borrowed(name), kind: CellType::Numeric }
}

pub const fn float(name: &'static str) -> Column {
    Column { name: Cow::Borrowed(name), kind: CellType::Float }
}

pub const fn boolean(name: &'static str) -> Column {
    Column { name: Cow::Borrowed(name), kind: CellType::Bool }
}

/// A value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Unknown, or not applicable.
    Null,
    Text(String),
    Int(i64),
    Int4(i32),
    Numeric(u64),
    Float(f64),
    Bool(bool),
}

impl Cell {
    /// A duration in seconds, to the microsecond.
    pub fn seconds(length: Duration) -> Self {
        Cell::Float(length.as_micros() as f64 / 1e6)
    }

    /// A number of a column of 4 bytes.
    pub fn int4(number: impl TryInto<i32>) -> Self {
        Cell::Int4(number.try_into().unwrap_or(i32::MAX))
    }

    /// A duration in whole microseconds.
    pub fn micros(length: Duration) -> Self {
        Cell::Int(i64::try_from(length.as_micros()).unwrap_or(i64::MAX))
    }

    /// The value as psql shows it.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Cell::Null => None,
            Cell::Text(text) => Some(text.clone()),
            Cell::Int(number) => Some(number.to_string()),
            Cell::Int4(number) => Some(number.to_string()),
            Cell::Numeric(number) => Some(number.to_string()),
            Cell::Float(number) => Some(number.to_string()),
            Cell::Bool(value) => Some(if *value { "t" } else { "f" }.to_owned()),
        }
    }

    fn put(&self, is_binary: bool, body: &mut Vec<u8>) {
        let mut field = |bytes: &[u8]| {
            body.extend((bytes.len() as i32).to_be_bytes());
            body.extend(bytes);
        };
        match (self, is_binary) {
            (Cell::Null, _) => body.extend((-1i32).to_be_bytes()),
            (Cell::Int(number), true) => field(&number.to_be_bytes()),
            (Cell::Int4(number), true) => field(&number.to_be_bytes()),
            (Cell::Numeric(number), true) => field(&binary_numeric(*number)),
            (Cell::Float(number), true) => field(&number.to_be_bytes()),
            (Cell::Bool(value), true) => field(&[u8::from(*value)]),
            // The binary form of a text is its bytes.
            _ => field(self.shown().unwrap_or_default().as_bytes()),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Cell::Int(number)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Cell::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Cell::Int(number.into())
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Cell::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Cell::Float(number)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Cell::Bool(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

/// A `numeric` in binary: how many digits to the base of 10,000, the weight of the first, sign, scale, and the digits.
fn binary_numeric(number: u64) -> Vec<u8> {
    let mut digits = Vec::new();
    let mut rest = number;
    while rest > 0 {
        digits.push((rest % 10_000) as i16);
        rest /= 10_000;
    }
    let head = [digits.len() as i16, (digits.len() as i16 - 1).max(0), 0, 0];
    head.into_iter().chain(digits.into_iter().rev()).flat_map(i16::to_be_bytes).collect()
}

/// The answer to a statement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Notices, sent before the rows.
    pub notices: Vec<String>,
    /// The statement ends once what it waits for has ended.
    pub waits: Option<WaitsFor>,
}

/// What a statement waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    /// The sessions and connections that `RECONNECT` ends, of a database or of all.
    Reconnected(Option<String>),
    /// The connections of a database's pools.
    Paused(String),
}

impl Answer {
    pub fn of(rows: Vec<Vec<Cell>>) -> Self {
        Answer { rows, ..Answer::default() }
    }

    /// An answer without rows.
    pub fn notice(notice: impl Into<String>) -> Self {
        Answer { notices: vec![notice.into()], ..Answer::default() }
    }
}

/// Why a statement was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The SQLSTATE.
    pub code: &'static str,
    /// What went wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Refusal {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Refusal { code, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Describes the columns of an answer. `formats` as in Bind: none for text, one for all columns, or one each.
pub fn describe(columns: &[Column], formats: &[bool], answers: &mut Answers) {
    answers.message(b'T', |body| {
        body.extend((columns.len() as i16).to_be_bytes());
        for (place, column) in columns.iter().enumerate() {
            texts(body, &[&column.name]);
            let (oid, size): (i32, i16) = match column.kind {
                CellType::Text => (25, -1),
                CellType::Int => (20, 8),
                CellType::Int4 => (23, 4),
                CellType::Numeric => (1700, -1),
                CellType::Float => (701, 8),
                CellType::Bool => (16, 1),
            };
            // The expression refers to no table or column.
            body.extend([0; 6]);
            body.extend(oid.to_be_bytes());
            body.extend(size.to_be_bytes());
            body.extend((-1i32).to_be_bytes());
            body.extend(i16::from(is_binary(formats, place)).to_be_bytes());
        }
    });
}

pub(crate) fn put_row(row: &[Cell], formats: &[bool], answers: &mut Answers) {
    answers.message(b'D', |body| {
        body.extend((row.len() as i16).to_be_bytes());
        row.iter().enumerate().for_each(|(place, cell)| cell.put(is_binary(formats, place), body));
    });
}

fn is_binary(formats: &[bool], place: usize) -> bool {
    match formats {
        [] => false,
        [all] => *all,
        each => each.get(place).copied().unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_their_own_binary_forms() {
        let binary = |cell: Cell| {
            let mut body = Vec::new();
            cell.put(true, &mut body);
            body[4..].to_vec()
        };
        assert_eq!(binary(Cell::int4(258usize)), [0, 0, 1, 2]);
        assert_eq!(binary(Cell::int4(u64::MAX)), i32::MAX.to_be_bytes());
        assert_eq!(binary(Cell::Numeric(0)), [0; 8]);
        assert_eq!(binary(Cell::Numeric(12_345)), [0, 2, 0, 1, 0, 0, 0, 0, 0, 1, 9, 41]);
        assert_eq!(Cell::Numeric(u64::MAX).shown().as_deref(), Some("18446744073709551615"));
    }
}
