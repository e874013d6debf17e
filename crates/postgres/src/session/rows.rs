//! A workload's values and rows on a connection.

use plimsoll_pg::connection::{Connection, Prepared, WireError};
use plimsoll_pg::values::{self, RowSink};
use plimsoll_workload::statement::{Rows, Value};

/// Runs a prepared statement; its rows replace what `rows` held.
pub fn run(
    connection: &mut Connection,
    prepared: &Prepared,
    parameters: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), WireError> {
    let parameters = parameters.iter().map(|value| match *value {
        Value::Null => values::Value::Null,
        Value::Int(number) => values::Value::Int(number),
        Value::Text(text) => values::Value::Text(text),
    });
    connection.execute(prepared, parameters, &mut Filling(rows))
}

/// Rows that a result is written into.
struct Filling<'a>(&'a mut Rows);

impl RowSink for Filling<'_> {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn start(&mut self, columns: usize) {
        self.0.start(columns);
    }

    fn append(&mut self, value: values::Value<'_>) {
        self.0.append(match value {
            values::Value::Null => Value::Null,
            values::Value::Int(number) => Value::Int(number),
            values::Value::Text(text) => Value::Text(text),
        });
    }

    fn set_affected(&mut self, rows: u64) {
        self.0.set_affected(rows);
    }
}
