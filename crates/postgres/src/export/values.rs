//! Rows of COPY's binary format as Arrow columns. Types without a counterpart are exported as the server's text.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder,
    Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use plimsoll_pg::values::{DAYS_TO_2000, MICROSECONDS_TO_2000, oid};

/// `bytea`.
const BYTEA: u32 = 17;

/// `character varying`.
const VARCHAR: u32 = 1043;

/// The beginning of a copy: eleven fixed bytes, flags, and the length of an extension.
const HEAD_BYTES: usize = 19;
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Digits of the largest decimal.
const PRECISION_MAX: i32 = 38;

/// How a column is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Date,
    Timestamp,
    TimestampTz,
    Decimal {
        precision: u8,
        scale: i8,
    },
    Bytea,
    Text,
    /// Cast to text by the server.
    AsText,
}

impl ColumnKind {
    /// How a column of this type and modifier is read.
    pub(super) fn of(kind: u32, modifier: i32) -> Self {
        match kind {
            oid::BOOL => ColumnKind::Bool,
            oid::INT2 => ColumnKind::Int2,
            oid::INT4 => ColumnKind::Int4,
            oid::INT8 => ColumnKind::Int8,
            oid::FLOAT4 => ColumnKind::Float4,
            oid::FLOAT8 => ColumnKind::Float8,
            oid::DATE => ColumnKind::Date,
            oid::TIMESTAMP => ColumnKind::Timestamp,
            oid::TIMESTAMPTZ => ColumnKind::TimestampTz,
            oid::TEXT | VARCHAR => ColumnKind::Text,
            BYTEA => ColumnKind::Bytea,
            oid::NUMERIC => decimal_kind(modifier),
            _ => ColumnKind::AsText,
        }
    }

    /// The type in files.
    pub(super) fn arrow(self) -> DataType {
        match self {
            ColumnKind::Bool => DataType::Boolean,
            ColumnKind::Int2 | ColumnKind::Int4 => DataType::Int32,
            ColumnKind::Int8 => DataType::Int64,
            ColumnKind::Float4 => DataType::Float32,
            ColumnKind::Float8 => DataType::Float64,
            ColumnKind::Date => DataType::Date32,
            ColumnKind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            ColumnKind::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            ColumnKind::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            ColumnKind::Bytea => DataType::Binary,
            ColumnKind::Text | ColumnKind::AsText => DataType::Utf8,
        }
    }

    /// The column's expression in the query.
    pub(super) fn select(self, column: &str) -> String {
        if self == ColumnKind::AsText { format!("{column}::text") } else { column.to_owned() }
    }
}

/// The kind of a `numeric`: a decimal if its digits are declared and fit, else text, which loses nothing.
fn decimal_kind(modifier: i32) -> ColumnKind {
    let declared = modifier - 4;
    let (precision, scale) = (declared >> 16, declared & 0x7ff);
    // A scale of eleven bits is negative from 1024 on.
    if declared < 0 || precision > PRECISION_MAX || scale > precision {
        return ColumnKind::AsText;
    }
    ColumnKind::Decimal { precision: precision as u8, scale: scale as i8 }
}

/// The rows of a copy.
pub(super) fn rows(data: &[u8], kinds: &[ColumnKind], schema: &SchemaRef) -> Result<RecordBatch, String> {
    let mut rest = data;
    let head = take(&mut rest, HEAD_BYTES)?;
    if !head.starts_with(SIGNATURE) || head[11..] != [0; 8] {
        return Err("the server's copy does not begin as one".to_owned());
    }
    let mut columns: Vec<ColumnBuilder> = kinds.iter().map(|kind| ColumnBuilder::new(*kind)).collect();
    loop {
        let count = i16::from_be_bytes(fixed(take(&mut rest, 2)?)?);
        if count == -1 {
            break;
        }
        if usize::try_from(count) != Ok(columns.len()) {
            return Err(format!("a row of {count} columns instead of {}", columns.len()));
        }
        for (column, field) in columns.iter_mut().zip(schema.fields()) {
            let length = i32::from_be_bytes(fixed(take(&mut rest, 4)?)?);
            let value = usize::try_from(length).ok().map(|length| take(&mut rest, length)).transpose()?;
            column.push(value).map_err(|why| format!("column {}: {why}", field.name()))?;
        }
    }
    let arrays = columns.iter_mut().map(ColumnBuilder::finish).collect();
    RecordBatch::try_new(Arc::clone(schema), arrays).map_err(|error| error.to_string())
}

/// Takes bytes from the beginning.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, left) = rest.split_at_checked(count).ok_or("the server's copy is cut")?;
    *rest = left;
    Ok(taken)
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], String> {
    bytes.try_into().map_err(|_| format!("{} bytes instead of {N}", bytes.len()))
}

enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int2(Int32Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Decimal(Decimal128Builder, i8),
    Bytea(BinaryBuilder),
    Text(StringBuilder),
}

impl ColumnBuilder {
    fn new(kind: ColumnKind) -> Self {
        let time = || TimestampMicrosecondBuilder::new().with_data_type(kind.arrow());
        match kind {
            ColumnKind::Bool => ColumnBuilder::Bool(BooleanBuilder::new()),
            ColumnKind::Int2 => ColumnBuilder::Int2(Int32Builder::new()),
            ColumnKind::Int4 => ColumnBuilder::Int4(Int32Builder::new()),
            ColumnKind::Int8 => ColumnBuilder::Int8(Int64Builder::new()),
            ColumnKind::Float4 => ColumnBuilder::Float4(Float32Builder::new()),
            ColumnKind::Float8 => ColumnBuilder::Float8(Float64Builder::new()),
            ColumnKind::Date => ColumnBuilder::Date(Date32Builder::new()),
            ColumnKind::Timestamp | ColumnKind::TimestampTz => ColumnBuilder::Timestamp(time()),
            ColumnKind::Decimal { scale, .. } => {
                ColumnBuilder::Decimal(Decimal128Builder::new().with_data_type(kind.arrow()), scale)
            }
            ColumnKind::Bytea => ColumnBuilder::Bytea(BinaryBuilder::new()),
            ColumnKind::Text | ColumnKind::AsText => ColumnBuilder::Text(StringBuilder::new()),
        }
    }

    fn push(&mut self, value: Option<&[u8]>) -> Result<(), String> {
        match self {
            ColumnBuilder::Bool(builder) => {
                builder.append_option(value.map(fixed::<1>).transpose()?.map(|[byte]| byte != 0));
            }
            ColumnBuilder::Int2(builder) => {
                builder.append_option(value.map(fixed).transpose()?.map(|bytes| i16::from_be_bytes(bytes).into()));
            }
            ColumnBuilder::Int4(builder) => {
                builder.append_option(value.map(fixed).transpose()?.map(i32::from_be_bytes));
            }
            ColumnBuilder::Int8(builder) => {
                builder.append_option(value.map(fixed).transpose()?.map(i64::from_be_bytes));
            }
            ColumnBuilder::Float4(builder) => {
                builder.append_option(value.map(fixed).transpose()?.map(f32::from_be_bytes));
            }
            ColumnBuilder::Float8(builder) => {
                builder.append_option(value.map(fixed).transpose()?.map(f64::from_be_bytes));
            }
            ColumnBuilder::Date(builder) => builder.append_option(value.map(date).transpose()?),
            ColumnBuilder::Timestamp(builder) => builder.append_option(value.map(timestamp).transpose()?),
            ColumnBuilder::Decimal(builder, scale) => {
                builder.append_option(value.map(|bytes| decimal(bytes, *scale)).transpose()?);
            }
            ColumnBuilder::Bytea(builder) => builder.append_option(value),
            ColumnBuilder::Text(builder) => {
                let text = value.map(std::str::from_utf8).transpose();
                builder.append_option(text.map_err(|error| format!("a text that is not UTF-8: {error}"))?);
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            ColumnBuilder::Bool(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Int2(builder) | ColumnBuilder::Int4(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Int8(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Float4(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Float8(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Date(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Timestamp(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Decimal(builder, _) => Arc::new(builder.finish()),
            ColumnBuilder::Bytea(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Text(builder) => Arc::new(builder.finish()),
        }
    }
}

/// Days since 1970.
fn date(bytes: &[u8]) -> Result<i32, String> {
    let days = i32::from_be_bytes(fixed(bytes)?);
    let is_finite = days != i32::MAX && days != i32::MIN;
    let days = is_finite.then(|| i32::try_from(i64::from(days) + DAYS_TO_2000).ok()).flatten();
    days.ok_or_else(|| infinite("date"))
}

/// Microseconds since 1970.
fn timestamp(bytes: &[u8]) -> Result<i64, String> {
    let time = i64::from_be_bytes(fixed(bytes)?);
    let is_finite = time != i64::MAX && time != i64::MIN;
    is_finite.then(|| time.checked_add(MICROSECONDS_TO_2000)).flatten().ok_or_else(|| infinite("timestamp"))
}

/// Parquet has no such values, and another one in their place would be wrong.
fn infinite(what: &str) -> String {
    format!("a {what} that is infinite or that files cannot hold; change it, or change the column to text")
}

/// A `numeric` as a number of units of its last place.
fn decimal(bytes: &[u8], scale: i8) -> Result<i128, String> {
    const NEGATIVE: u16 = 0x4000;
    let mut rest = bytes;
    let mut part = || take(&mut rest, 2).and_then(fixed).map(u16::from_be_bytes);
    let (count, weight, sign, _) = (part()?, part()?.cast_signed(), part()?, part()?);
    if sign != 0 && sign != NEGATIVE {
        return Err(infinite("numeric"));
    }
    let too_long = || "a numeric with more digits than declared".to_owned();
    let mut number = 0_i128;
    for at in 0..i32::from(count) {
        let digit = i128::from(part()?);
        // The place of the digit's last decimal, in places behind the scale's last.
        let power = (i32::from(weight) - at) * 4 + i32::from(scale);
        let value = match u32::try_from(power) {
            Ok(power) => 10_i128.checked_pow(power).and_then(|unit| digit.checked_mul(unit)),
            // Zeros fill the last digit to four decimals.
            Err(_) => Some(digit / 10_i128.pow(power.unsigned_abs().min(4))),
        };
        number = value.and_then(|value| number.checked_add(value)).ok_or_else(too_long)?;
    }
    Ok(if sign == NEGATIVE { -number } else { number })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use plimsoll_pg::values::numeric::write_decimal;

    use super::*;

    #[test]
    fn decimals_are_read_as_they_are_written() {
        for scale in [0, 1, 2, 3, 4, 5, 9, 18] {
            for number in [0, 1, -1, 9, 10, 99_999, -123_456_789, 10_i128.pow(17), 999_999_999_999_999_999_999_i128] {
                let mut bytes = BytesMut::new();
                write_decimal(number, scale, &mut bytes).unwrap();
                assert_eq!(decimal(&bytes, scale), Ok(number), "{number} of scale {scale}");
            }
        }
        let error = decimal(&[0, 0, 0, 0, 0xc0, 0, 0, 0], 2).unwrap_err();
        assert!(error.contains("a numeric that is infinite or that files cannot hold"), "{error}");
    }

    #[test]
    fn numerics_are_decimals_if_their_digits_are_declared() {
        let modifier = |precision: i32, scale: i32| ((precision << 16) | (scale & 0x7ff)) + 4;
        assert_eq!(decimal_kind(modifier(12, 2)), ColumnKind::Decimal { precision: 12, scale: 2 });
        for other in [-1, modifier(39, 2), modifier(2, -3), modifier(2, 5)] {
            assert_eq!(decimal_kind(other), ColumnKind::AsText, "{other}");
        }
    }

    #[test]
    fn a_copy_that_is_cut_is_refused() {
        let schema: SchemaRef =
            Arc::new(arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new("a", DataType::Int32, true)]));
        let row = [0, 1, 0, 0, 0, 4, 0, 0, 0, 7, 0, 1, 0xff, 0xff, 0xff, 0xff];
        let whole = [SIGNATURE, &[0; 8], &row, &[0xff, 0xff]].concat();
        let read = |data: &[u8]| rows(data, &[ColumnKind::Int4], &schema);
        assert_eq!(read(&whole).unwrap().num_rows(), 2);
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]).unwrap_err(), "the server's copy is cut", "{end} bytes");
        }
    }
}
