//! Columns of results: how their values are requested and read.

use postgres_protocol::Oid;

use super::numeric::Numeric;
use super::{DAYS_TO_2000, MICROSECONDS_TO_2000, RowSink, Value, oid};

/// How the values of a column are requested and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// `boolean`, as 0 or 1.
    Bool,
    /// `smallint`.
    Int2,
    /// `integer`.
    Int4,
    /// `bigint`.
    Int8,
    /// `double precision`.
    Float8,
    /// `date`, in days from 1970-01-01.
    Date,
    /// `timestamp`, in microseconds from 1970-01-01.
    Timestamp,
    /// `numeric`: an integer if it is shown without decimal places and fits, else text.
    Numeric,
    /// The server's text.
    Text,
}

/// A value as it was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// An integer, a date, a timestamp or a boolean.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// The server's text.
    Text(&'a str),
}

impl CellKind {
    /// How values of a type are read into a [`RowSink`].
    pub fn of(of: Oid) -> Self {
        match of {
            oid::BOOL => CellKind::Bool,
            oid::INT2 => CellKind::Int2,
            oid::INT4 => CellKind::Int4,
            oid::INT8 => CellKind::Int8,
            oid::DATE => CellKind::Date,
            oid::TIMESTAMP => CellKind::Timestamp,
            oid::NUMERIC => CellKind::Numeric,
            _ => CellKind::Text,
        }
    }

    /// The format to request: 1 binary, 0 text.
    pub(crate) fn format(self) -> i16 {
        i16::from(self != CellKind::Text)
    }

    /// Reads a value of any kind but numeric. Dates and times before or after all others are text: `infinity`.
    pub fn read(self, bytes: &[u8]) -> Result<Cell<'_>, String> {
        let wrong = |what| format!("{} bytes that are no {what}", bytes.len());
        let four = |what| bytes.try_into().map(i32::from_be_bytes).map_err(|_| wrong(what));
        let eight = |what| bytes.try_into().map(i64::from_be_bytes).map_err(|_| wrong(what));
        Ok(match self {
            CellKind::Int4 => Cell::Int(four("integer")?.into()),
            CellKind::Int8 => Cell::Int(eight("bigint")?),
            CellKind::Int2 => {
                Cell::Int(bytes.try_into().map(i16::from_be_bytes).map_err(|_| wrong("smallint"))?.into())
            }
            CellKind::Bool => match bytes {
                [0] => Cell::Int(0),
                [1] => Cell::Int(1),
                _ => return Err(wrong("boolean")),
            },
            CellKind::Float8 => {
                Cell::Float(bytes.try_into().map(f64::from_be_bytes).map_err(|_| wrong("double precision"))?)
            }
            CellKind::Date => match four("date")? {
                i32::MAX => Cell::Text("infinity"),
                i32::MIN => Cell::Text("-infinity"),
                days => Cell::Int(i64::from(days) + DAYS_TO_2000),
            },
            CellKind::Timestamp => match eight("timestamp")? {
                i64::MAX => Cell::Text("infinity"),
                i64::MIN => Cell::Text("-infinity"),
                time => Cell::Int(time.checked_add(MICROSECONDS_TO_2000).ok_or_else(|| wrong("timestamp"))?),
            },
            CellKind::Numeric | CellKind::Text => {
                Cell::Text(std::str::from_utf8(bytes).map_err(|_| wrong("UTF-8 text"))?)
            }
        })
    }

    /// Reads a value and passes it on; `None` is null.
    pub(crate) fn append(self, field: Option<&[u8]>, rows: &mut impl RowSink) -> Result<(), String> {
        let Some(bytes) = field else {
            rows.append(Value::Null);
            return Ok(());
        };
        if self == CellKind::Numeric {
            let number = Numeric::read(bytes)?;
            match number.whole() {
                Some(number) => rows.append(Value::Int(number)),
                None => {
                    let mut text = String::new();
                    number.show(&mut text);
                    rows.append(Value::Text(&text));
                }
            }
            return Ok(());
        }
        rows.append(match self.read(bytes)? {
            Cell::Int(number) => Value::Int(number),
            Cell::Text(text) => Value::Text(text),
            Cell::Float(_) => return Err("floats come as text".to_owned()),
        });
        Ok(())
    }
}
