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
    Float(f64),
    Bool(bool),
}

impl Cell {
    /// A duration in seconds, to the microsecond.
    pub fn seconds(length: Duration) -> Self {
        Cell::Float(length.as_micros() as f64 / 1e6)
    }

    /// A duration in whole microseconds.
    pub fn micros(length: Duration) -> Self {
        Cell::Int(i64::try_from(length.as_micros()).unwrap_or(i64::MAX))
    }

    /// The value as psql shows it.
    fn shown(&self) -> Option<String> {
        match self {
            Cell::Null => None,
            Cell::Text(text) => Some(text.clone()),
            Cell::Int(number) => Some(number.to_string()),
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

/// The answer to a statement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Notices, sent before the rows.
    pub notices: Vec<String>,
}

impl Answer {
    pub fn of(rows: Vec<Vec<Cell>>) -> Self {
        Answer { rows, notices: Vec::new() }
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
