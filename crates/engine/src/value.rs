//! The types of columns, and how values are encoded in rows and keys.

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// A 32-bit integer, or days since 1970-01-01.
    Int32,
    /// A 64-bit integer, a decimal times ten to its scale, or microseconds since 1970-01-01 00:00 UTC.
    Int64,
    /// Text with this number of bytes at most.
    Text(u16),
}

/// One column of a row table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnType,
    /// Whether it may be null.
    pub nullable: bool,
}

/// A value that is stored or was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Null.
    Null,
    /// For [`ColumnType::Int32`] and [`ColumnType::Int64`].
    Int(i64),
    /// For [`ColumnType::Text`].
    Text(&'a str),
}

/// A value does not fit its column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{table}.{column}: {reason}")]
pub struct ValueError {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// What does not fit.
    pub reason: String,
}

/// Checks that a value fits a column.
pub(crate) fn check(column: &ColumnSpec, value: &Value<'_>) -> Result<(), String> {
    match (column.kind, value) {
        (_, Value::Null) if column.nullable => Ok(()),
        (_, Value::Null) => Err("is never null".to_owned()),
        (ColumnType::Int32, Value::Int(number)) if i32::try_from(*number).is_err() => {
            Err(format!("{number} does not fit 32 bits"))
        }
        (ColumnType::Int32 | ColumnType::Int64, Value::Int(_)) => Ok(()),
        (ColumnType::Text(max), Value::Text(text)) if text.len() > max as usize => {
            Err(format!("{} bytes of text, at most {max} fit", text.len()))
        }
        (ColumnType::Text(_), Value::Text(_)) => Ok(()),
        (kind, value) => Err(format!("{value:?} is no {kind:?}")),
    }
}
