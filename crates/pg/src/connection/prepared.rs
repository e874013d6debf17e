//! Prepared statements: parsed once, then one send and one receive for each execution.

use std::error::Error;
use std::iter;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::Oid;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend::{self, BindError};

use super::{Connection, WireError, text_row, unexpected};
use crate::values::cell::CellKind;
use crate::values::fields::Fields;
use crate::values::{RowSink, Value, parameter};

/// A statement that the server has parsed.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Its name on the server; empty for the unnamed statement, which the next unnamed one replaces.
    name: String,
    /// The types of its parameters.
    parameters: Vec<Oid>,
    /// The columns of its result; none if it returns no rows.
    columns: Vec<Column>,
    /// The requested format of each column: 0 text, 1 binary.
    formats: Vec<i16>,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, as an OID of pg_type.
    pub type_oid: u32,
    /// How its values are read.
    pub kind: CellKind,
}

impl Prepared {
    /// The columns of its result; none if it returns no rows.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The types of its parameters, as OIDs of pg_type.
    pub fn parameters(&self) -> &[u32] {
        &self.parameters
    }
}

impl Connection {
    /// Prepares a statement under a name, for results that are read by [`execute`](Connection::execute).
    pub fn prepare(&mut self, name: &str, sql: &str) -> Result<Prepared, WireError> {
        self.prepare_for(name, sql, CellKind::of)
    }

    /// Prepares a statement; `kind_of` decides how each column's values are read, by its type.
    pub fn prepare_for(&mut self, name: &str, sql: &str, kind_of: fn(Oid) -> CellKind) -> Result<Prepared, WireError> {
        self.check()?;
        let output = &mut self.output;
        let written = frontend::parse(name, sql, [], output).and_then(|()| frontend::describe(b'S', name, output));
        written.map_err(|error| self.refused(&error))?;
        frontend::sync(&mut self.output);
        let mut prepared =
            Prepared { name: name.to_owned(), parameters: Vec::new(), columns: Vec::new(), formats: Vec::new() };
        self.exchange(|tag, body| match tag {
            b'1' | b'n' => Ok(()),
            b't' | b'T' => describe(&mut prepared, tag, body, kind_of).map_err(|error| error.to_string()),
            other => Err(unexpected(other)),
        })?;
        Ok(prepared)
    }

    /// Prepares a statement whose values are sent as text.
    pub fn prepare_text(&mut self, name: &str, sql: &str) -> Result<Prepared, WireError> {
        self.prepare_for(name, sql, |_| CellKind::Text)
    }

    /// The first value of the first row of a text that must be one statement: the server refuses several (42601) and
    /// runs none of them. `None` if the value is null or there is no row.
    pub fn text_of_one(&mut self, sql: &str) -> Result<Option<String>, WireError> {
        // The next unnamed statement replaces it.
        let prepared = self.prepare_text("", sql)?;
        let mut first = None;
        self.prepared_text_rows(&prepared, &[], &mut |row| {
            first.get_or_insert_with(|| row.first().copied().flatten().map(str::to_owned));
        })?;
        Ok(first.flatten())
    }

    /// Runs a statement of [`prepare_text`](Connection::prepare_text), with parameters as text, and passes on each row.
    pub fn prepared_text_rows(
        &mut self,
        prepared: &Prepared,
        parameters: &[&str],
        each: &mut dyn FnMut(&[Option<&str>]),
    ) -> Result<(), WireError> {
        self.stream_with(prepared, parameters.iter().copied().map(Value::Text), |fields| text_row(fields, each))
    }

    /// Runs a prepared statement; its result replaces what `rows` held.
    pub fn execute<'v>(
        &mut self,
        prepared: &Prepared,
        parameters: impl ExactSizeIterator<Item = Value<'v>> + Clone,
        rows: &mut impl RowSink,
    ) -> Result<(), WireError> {
        rows.clear();
        self.check()?;
        self.bind(prepared, parameters)?;
        let columns = prepared.columns.as_slice();
        let outcome = self.exchange(|tag, body| match tag {
            b'D' => {
                rows.start(columns.len());
                let mut fields = Fields::of(body)?;
                for column in columns {
                    let field = fields.next().ok_or("a row with too few values")??;
                    column.kind.append(field, rows)?;
                }
                if fields.next().is_some() { Err("a row with too many values".to_owned()) } else { Ok(()) }
            }
            b'C' => {
                if columns.is_empty() {
                    rows.set_affected(rows_of(body));
                }
                Ok(())
            }
            b'2' | b'I' => Ok(()),
            other => Err(unexpected(other)),
        });
        if outcome.is_err() {
            rows.clear();
        }
        outcome
    }

    /// Runs a prepared statement without parameters and passes on each row as received.
    pub fn stream(
        &mut self,
        prepared: &Prepared,
        each: impl FnMut(Fields<'_>) -> Result<(), String>,
    ) -> Result<(), WireError> {
        self.stream_with(prepared, iter::empty(), each)
    }

    fn stream_with<'v>(
        &mut self,
        prepared: &Prepared,
        values: impl ExactSizeIterator<Item = Value<'v>> + Clone,
        mut each: impl FnMut(Fields<'_>) -> Result<(), String>,
    ) -> Result<(), WireError> {
        self.check()?;
        self.bind(prepared, values)?;
        self.exchange(|tag, body| match tag {
            b'D' => each(Fields::of(body)?),
            b'2' | b'C' | b'I' => Ok(()),
            other => Err(unexpected(other)),
        })
    }

    fn bind<'v>(
        &mut self,
        prepared: &Prepared,
        values: impl ExactSizeIterator<Item = Value<'v>> + Clone,
    ) -> Result<(), WireError> {
        let types = &prepared.parameters;
        if values.len() != types.len() {
            let what = format!("the statement has {} parameters and was given {}", types.len(), values.len());
            return Err(self.refused(&what));
        }
        let bound = frontend::bind(
            "",
            &prepared.name,
            values.clone().zip(types).map(|(value, of)| parameter::format(value, *of)),
            values.zip(types).enumerate(),
            |(number, (value, of)), output| {
                parameter::write(value, *of, output).map_err(|why| format!("parameter ${}: {why}", number + 1).into())
            },
            prepared.formats.iter().copied(),
            &mut self.output,
        );
        let executed = bound.map_err(bind_error).and_then(|()| {
            frontend::execute("", 0, &mut self.output).map_err(|error| Box::new(error) as Box<dyn Error + Send + Sync>)
        });
        executed.map_err(|error| self.refused(&error))?;
        frontend::sync(&mut self.output);
        Ok(())
    }
}

fn bind_error(error: BindError) -> Box<dyn Error + Send + Sync> {
    match error {
        BindError::Conversion(error) => error,
        BindError::Serialization(error) => Box::new(error),
    }
}

/// Reads the server's description of a statement's parameters or columns.
fn describe(prepared: &mut Prepared, tag: u8, body: &[u8], kind_of: fn(Oid) -> CellKind) -> std::io::Result<()> {
    let mut message = BytesMut::with_capacity(body.len() + 5);
    message.extend_from_slice(&[tag]);
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(body);
    match Message::parse(&mut message)? {
        Some(Message::ParameterDescription(body)) => {
            prepared.parameters = body.parameters().collect()?;
        }
        Some(Message::RowDescription(body)) => {
            let column = |field: postgres_protocol::message::backend::Field<'_>| {
                let kind = kind_of(field.type_oid());
                Ok(Column { name: field.name().to_owned(), type_oid: field.type_oid(), kind })
            };
            prepared.columns = body.fields().map(column).collect()?;
            prepared.formats = prepared.columns.iter().map(|column| column.kind.format()).collect();
        }
        _ => {}
    }
    Ok(())
}

/// The number of rows that a statement has changed: the last word of `UPDATE 3`, `INSERT 0 1`; 0 without a number.
fn rows_of(tag: &[u8]) -> u64 {
    let text = tag.strip_suffix(b"\0").unwrap_or(tag);
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let number = &text[text.len() - digits..];
    number.iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_rows_are_counted() {
        for (tag, expect) in
            [("UPDATE 3\0", 3), ("INSERT 0 1\0", 1), ("SELECT 120\0", 120), ("BEGIN\0", 0), ("\0", 0), ("", 0)]
        {
            assert_eq!(rows_of(tag.as_bytes()), expect, "{tag}");
        }
    }
}
