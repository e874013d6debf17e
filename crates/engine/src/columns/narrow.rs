//! Numbers of a chunk as distances from the smallest of them, in one, two or four bytes: frame of reference.
//!
//! A chunk has few different magnitudes: dates of seven years fit two bytes, discounts one, where Arrow keeps four and sixteen. A scan
//! that compares or adds up such a column reads an eighth of the memory. Goldstein, Ramakrishnan and Shaft, "Compressing relations
//! and indexes" (1998); whole bytes instead of bits, because the processor's vector instructions work on these directly (Abadi, Madden and
//! Ferreira, "Integrating compression and execution in column-oriented database systems", 2006).
//!
//! Positions that are holes may hold any number: their distances mean as little as their values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;

/// Evaluates an expression on the distances of an array as a plain slice, whichever width they have.
macro_rules! with_distances {
    ($array:expr, |$distances:ident| $result:expr) => {
        match $array.data_type() {
            arrow::datatypes::DataType::UInt8 => {
                let $distances = $array.as_primitive::<arrow::datatypes::UInt8Type>().values();
                $result
            }
            arrow::datatypes::DataType::UInt16 => {
                let $distances = $array.as_primitive::<arrow::datatypes::UInt16Type>().values();
                $result
            }
            _ => {
                let $distances = $array.as_primitive::<arrow::datatypes::UInt32Type>().values();
                $result
            }
        }
    };
}
pub(crate) use with_distances;

/// The distances of numbers from the smallest one, and that number. `None` if they would not halve the memory, and for
/// other types.
pub fn distances(values: &ArrayRef, min: &ScalarValue, max: &ScalarValue) -> Option<(ArrayRef, i64)> {
    let (base, span) = (whole(min)?, whole(max)?.checked_sub(whole(min)?)?);
    let base = i64::try_from(base).ok()?;
    let distances = match values.data_type() {
        DataType::Int32 => of::<Int32Type>(values, span, |value| i64::from(value).wrapping_sub(base)),
        DataType::Date32 => of::<Date32Type>(values, span, |value| i64::from(value).wrapping_sub(base)),
        DataType::Int64 => of::<Int64Type>(values, span, |value| value.wrapping_sub(base)),
        DataType::Decimal128(..) => of::<Decimal128Type>(values, span, |value| (value as i64).wrapping_sub(base)),
        _ => None,
    };
    Some((distances?, base))
}

fn of<T: ArrowPrimitiveType>(values: &ArrayRef, span: i128, distance: impl Fn(T::Native) -> i64) -> Option<ArrayRef> {
    let values = values.as_primitive::<T>();
    let bytes = size_of::<T::Native>();
    // Only holes can hold values that do not fit; these may be truncated.
    if span <= i128::from(u8::MAX) && bytes > 1 {
        Some(Arc::new(values.unary::<_, UInt8Type>(|value| distance(value) as u8)))
    } else if span <= i128::from(u16::MAX) && bytes > 2 {
        Some(Arc::new(values.unary::<_, UInt16Type>(|value| distance(value) as u16)))
    } else if span <= i128::from(u32::MAX) && bytes > 4 {
        Some(Arc::new(values.unary::<_, UInt32Type>(|value| distance(value) as u32)))
    } else {
        None
    }
}

/// The numbers that are these distances from `base`, one piece after the other, in the type `kept`.
pub fn numbers(pieces: &[(&ArrayRef, i64)], kept: &DataType) -> Result<ArrayRef, ArrowError> {
    match kept {
        DataType::Int32 => join::<Int32Type>(pieces, kept, |base, distance| base.wrapping_add(distance) as i32),
        DataType::Date32 => join::<Date32Type>(pieces, kept, |base, distance| base.wrapping_add(distance) as i32),
        DataType::Int64 => join::<Int64Type>(pieces, kept, |base, distance| base.wrapping_add(distance)),
        DataType::Decimal128(..) => {
            join::<Decimal128Type>(pieces, kept, |base, distance| i128::from(base.wrapping_add(distance)))
        }
        other => Err(ArrowError::InvalidArgumentError(format!("distances between values of type {other}"))),
    }
}

fn join<T: ArrowPrimitiveType>(
    pieces: &[(&ArrayRef, i64)],
    kept: &DataType,
    number: impl Fn(i64, i64) -> T::Native,
) -> Result<ArrayRef, ArrowError> {
    let rows = pieces.iter().map(|(distances, _)| distances.len()).sum();
    let mut values: Vec<T::Native> = Vec::with_capacity(rows);
    for (distances, base) in pieces {
        with_distances!(distances, |distances| {
            values.extend(distances.iter().map(|distance| number(*base, i64::from(*distance))));
        });
    }
    let nulls = match pieces {
        [(only, _)] => only.nulls().cloned(),
        pieces if pieces.iter().all(|(distances, _)| distances.null_count() == 0) => None,
        pieces => {
            let valid =
                pieces.iter().flat_map(|(distances, _)| (0..distances.len()).map(|row| distances.is_valid(row)));
            Some(valid.collect::<Vec<bool>>().into())
        }
    };
    let array = PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), nulls)?;
    Ok(Arc::new(array.with_data_type(kept.clone())))
}

/// A number without its scale.
pub fn whole(value: &ScalarValue) -> Option<i128> {
    match value {
        ScalarValue::Decimal128(value, ..) => *value,
        ScalarValue::Int64(value) => value.map(i128::from),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(i128::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Decimal128Array, Int32Array, Int64Array};

    use super::*;

    /// The type of the distances, after checking that they give the numbers again.
    fn check(values: ArrayRef, min: ScalarValue, max: ScalarValue) -> Option<DataType> {
        let (distances, base) = distances(&values, &min, &max)?;
        assert_eq!(&numbers(&[(&distances, base)], values.data_type()).unwrap(), &values);
        let (head, tail) = (distances.slice(0, 1), distances.slice(1, values.len() - 1));
        assert_eq!(&numbers(&[(&head, base), (&tail, base)], values.data_type()).unwrap(), &values);
        Some(distances.data_type().clone())
    }

    #[test]
    fn numbers_are_kept_in_as_few_bytes_as_their_distances_need() {
        let i32s = |values: &[i32]| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
        let of_i32 = |min: i32, max: i32| check(i32s(&[min, max]), min.into(), max.into());
        assert_eq!(of_i32(-5, 250), Some(DataType::UInt8));
        assert_eq!(of_i32(-5, 251), Some(DataType::UInt16));
        assert_eq!(of_i32(i32::MIN, i32::MIN + 65_535), Some(DataType::UInt16));
        assert_eq!(of_i32(0, 65_536), None, "four bytes are no fewer than four");
        assert_eq!(of_i32(i32::MIN, i32::MAX), None);

        let i64s = |min: i64, max: i64| {
            let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(max), None, Some(min)]));
            check(values, min.into(), max.into())
        };
        assert_eq!(i64s(i64::MAX - 3, i64::MAX), Some(DataType::UInt8));
        assert_eq!(i64s(i64::MIN, i64::MIN + i64::from(u32::MAX)), Some(DataType::UInt32));
        assert_eq!(i64s(i64::MIN, i64::MAX), None);

        let dates: ArrayRef = Arc::new(Date32Array::from(vec![8035, 10_561]));
        assert_eq!(
            check(dates, ScalarValue::Date32(Some(8035)), ScalarValue::Date32(Some(10_561))),
            Some(DataType::UInt16)
        );
        let decimals = |values: [i128; 2]| {
            let array = Decimal128Array::from(values.to_vec()).with_precision_and_scale(38, 2).unwrap();
            let [min, max] = values.map(|value| ScalarValue::Decimal128(Some(value), 38, 2));
            check(Arc::new(array), min, max)
        };
        assert_eq!(decimals([-7, 10_500_000]), Some(DataType::UInt32));
        assert_eq!(decimals([0, i128::from(u32::MAX) + 1]), None);
        assert_eq!(decimals([i128::from(i64::MAX) + 1, i128::from(i64::MAX) + 2]), None, "a base has 64 bits");
    }

    #[test]
    fn what_a_hole_holds_is_cut_off() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![7, -1 << 40, 9]));
        let (distances, base) = distances(&values, &7i64.into(), &9i64.into()).unwrap();
        let found = numbers(&[(&distances, base)], &DataType::Int64).unwrap();
        assert_eq!((found.as_primitive::<Int64Type>().value(0), found.as_primitive::<Int64Type>().value(2)), (7, 9));
    }

    #[test]
    fn texts_and_columns_of_nulls_have_no_distances() {
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
        assert!(distances(&nulls, &ScalarValue::Int64(None), &ScalarValue::Int64(None)).is_none());
        assert!(distances(&nulls, &ScalarValue::from("a"), &ScalarValue::from("b")).is_none());
    }
}
