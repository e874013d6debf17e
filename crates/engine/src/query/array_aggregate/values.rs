//! Columns as plain slices.

use std::ops::RangeInclusive;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};

use crate::columns::encode::ChunkColumn;

/// The values of a column as they are kept.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    /// Decimals without their scale.
    Decimal(&'a [i128]),
    /// Codes into a dictionary of at most 256 entries.
    Code8(&'a [u8]),
    /// Codes into a longer dictionary.
    Code16(&'a [u16]),
    /// Distances from a number, in one byte.
    Near8(&'a [u8], i64),
    Near16(&'a [u16], i64),
    Near32(&'a [u32], i64),
}

impl<'a> Values<'a> {
    /// The values of a column as it is kept; `None` for other types. Nulls are not looked at.
    pub fn of_column(column: &'a ChunkColumn) -> Option<Values<'a>> {
        let ChunkColumn::Distances { distances, base, .. } = column else { return Values::of(column.physical()) };
        Some(match distances.data_type() {
            DataType::UInt8 => Values::Near8(distances.as_primitive::<UInt8Type>().values(), *base),
            DataType::UInt16 => Values::Near16(distances.as_primitive::<UInt16Type>().values(), *base),
            _ => Values::Near32(distances.as_primitive::<UInt32Type>().values(), *base),
        })
    }

    /// The values of an array; `None` for other types. Nulls are not looked at.
    pub fn of(array: &'a ArrayRef) -> Option<Values<'a>> {
        match array.data_type() {
            DataType::Int32 => Some(Values::Int32(array.as_primitive::<Int32Type>().values())),
            DataType::Int64 => Some(Values::Int64(array.as_primitive::<Int64Type>().values())),
            DataType::Decimal128(..) => Some(Values::Decimal(array.as_primitive::<Decimal128Type>().values())),
            DataType::UInt8 => Some(Values::Code8(array.as_primitive::<UInt8Type>().values())),
            DataType::UInt16 => Some(Values::Code16(array.as_primitive::<UInt16Type>().values())),
            _ => None,
        }
    }

    /// Whether all of them are numbers within these bounds.
    pub fn are_within(&self, bounds: &RangeInclusive<i64>) -> bool {
        let is_within = |value: i128| (i128::from(*bounds.start())..=i128::from(*bounds.end())).contains(&value);
        match self {
            Values::Int32(values) => values.iter().all(|value| is_within(i128::from(*value))),
            Values::Int64(values) => values.iter().all(|value| bounds.contains(value)),
            Values::Decimal(values) => values.iter().all(|value| is_within(*value)),
            // An array of values has no other form.
            Values::Code8(_) | Values::Code16(_) => false,
            Values::Near8(..) | Values::Near16(..) | Values::Near32(..) => false,
        }
    }

    pub fn slice(&self, rows: std::ops::Range<usize>) -> Values<'a> {
        match self {
            Values::Int32(values) => Values::Int32(&values[rows]),
            Values::Int64(values) => Values::Int64(&values[rows]),
            Values::Decimal(values) => Values::Decimal(&values[rows]),
            Values::Code8(values) => Values::Code8(&values[rows]),
            Values::Code16(values) => Values::Code16(&values[rows]),
            Values::Near8(values, base) => Values::Near8(&values[rows], *base),
            Values::Near16(values, base) => Values::Near16(&values[rows], *base),
            Values::Near32(values, base) => Values::Near32(&values[rows], *base),
        }
    }
}
