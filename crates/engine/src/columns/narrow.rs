//! Numbers of a chunk as distances from the smallest of them, in one, two or four bytes, or in bits: frame of reference.
//!
//! A chunk has few different magnitudes: dates of seven years fit two bytes, discounts one, where Arrow keeps four and sixteen. A scan
//! that compares or adds up such a column reads an eighth of the memory. Goldstein, Ramakrishnan and Shaft, "Compressing relations
//! and indexes" (1998); whole bytes where they are nearly full, because the processor's vector instructions work on these directly (Abadi,
//! Madden and Ferreira, "Integrating compression and execution in column-oriented database systems", 2006), and else [bits](Packed).
//!
//! Positions that are holes may hold any number: their distances mean as little as their values.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;

use crate::columns::packed::Packed;

/// Distances of this many bits are packed, where no number is null. Fewer bits fit two bytes, which a core reads about as fast as it could unpack
/// them. Counting codes of 20 bits on two cores takes 0.86 of the time of 32 (`benches/packed_codes.rs`), and each bit more adds a thirty-second
/// to what is read, so that beyond 22 bits less than a twentieth would be gained.
const PACKED_BITS: RangeInclusive<usize> = 17..=22;

/// Distances of numbers from the smallest.
#[derive(Debug, Clone)]
pub enum Distances {
    /// Unsigned integers of one, two or four bytes; null where the number is null.
    Bytes(ArrayRef),
    /// In fewer bits. None is null.
    Bits(Packed),
}

/// Executes a statement for the distances as a plain slice, whichever width they have; if they are packed, for one run after the other.
macro_rules! for_each_run {
    ($distances:expr, |$run:ident| $statement:expr) => {
        match $distances {
            Distances::Bits(packed) => packed.for_each_run(|$run| $statement),
            Distances::Bytes(array) => match array.data_type() {
                arrow::datatypes::DataType::UInt8 => {
                    let $run = array.as_primitive::<arrow::datatypes::UInt8Type>().values();
                    $statement
                }
                arrow::datatypes::DataType::UInt16 => {
                    let $run = array.as_primitive::<arrow::datatypes::UInt16Type>().values();
                    $statement
                }
                _ => {
                    let $run = array.as_primitive::<arrow::datatypes::UInt32Type>().values();
                    $statement
                }
            },
        }
    };
}
pub(crate) use for_each_run;

impl Distances {
    /// How many there are.
    pub fn rows(&self) -> usize {
        match self {
            Distances::Bytes(array) => array.len(),
            Distances::Bits(packed) => packed.rows(),
        }
    }

    /// The largest distance that there could be.
    pub fn largest(&self) -> u32 {
        match self {
            Distances::Bits(packed) => packed.largest(),
            Distances::Bytes(array) => match array.data_type() {
                DataType::UInt8 => u8::MAX.into(),
                DataType::UInt16 => u16::MAX.into(),
                _ => u32::MAX,
            },
        }
    }

    /// Some of them, without copying.
    pub fn slice(&self, offset: usize, rows: usize) -> Self {
        match self {
            Distances::Bytes(array) => Distances::Bytes(array.slice(offset, rows)),
            Distances::Bits(packed) => Distances::Bits(packed.slice(offset, rows)),
        }
    }

    /// The array that is kept. It has an entry for each distance only if these are whole bytes.
    pub fn physical(&self) -> &ArrayRef {
        match self {
            Distances::Bytes(array) => array,
            Distances::Bits(packed) => packed.words(),
        }
    }

    /// The same form of distances in another array.
    pub fn with_physical(&self, array: ArrayRef) -> Self {
        match self {
            Distances::Bytes(_) => Distances::Bytes(array),
            Distances::Bits(packed) => Distances::Bits(packed.with_words(array)),
        }
    }

    /// Which are null; `None` if none is.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Distances::Bytes(array) => array.nulls().filter(|nulls| nulls.null_count() > 0),
            Distances::Bits(_) => None,
        }
    }
}

/// The distances of numbers from the smallest, and that one; `None` if that would save no memory, or for other types.
pub fn distances(values: &ArrayRef, min: &ScalarValue, max: &ScalarValue) -> Option<(Distances, i64)> {
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

fn of<T: ArrowPrimitiveType>(values: &ArrayRef, span: i128, distance: impl Fn(T::Native) -> i64) -> Option<Distances> {
    let values = values.as_primitive::<T>();
    let bytes = size_of::<T::Native>();
    let bits = (i128::BITS - span.leading_zeros()) as usize;
    let is_packed = PACKED_BITS.contains(&bits)
        && values.null_count() == 0
        && Packed::bytes(values.len(), bits) < values.len() * size_of::<u32>();
    // What does not fit is a hole's and may be cut off.
    if is_packed {
        let distances = values.values().iter().map(|value| distance(*value) as u32);
        return Some(Distances::Bits(Packed::new(distances, bits)));
    }
    let array: ArrayRef = if span <= i128::from(u8::MAX) && bytes > 1 {
        Arc::new(values.unary::<_, UInt8Type>(|value| distance(value) as u8))
    } else if span <= i128::from(u16::MAX) && bytes > 2 {
        Arc::new(values.unary::<_, UInt16Type>(|value| distance(value) as u16))
    } else if span <= i128::from(u32::MAX) && bytes > 4 {
        Arc::new(values.unary::<_, UInt32Type>(|value| distance(value) as u32))
    } else {
        return None;
    };
    Some(Distances::Bytes(array))
}

/// The numbers that are these distances from `base`, one piece after the other, in the type `kept`.
pub fn numbers(pieces: &[(&Distances, i64)], kept: &DataType) -> Result<ArrayRef, ArrowError> {
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
    pieces: &[(&Distances, i64)],
    kept: &DataType,
    number: impl Fn(i64, i64) -> T::Native,
) -> Result<ArrayRef, ArrowError> {
    let rows = pieces.iter().map(|(distances, _)| distances.rows()).sum();
    let mut values: Vec<T::Native> = Vec::with_capacity(rows);
    for (distances, base) in pieces {
        for_each_run!(distances, |run| {
            values.extend(run.iter().map(|distance| number(*base, i64::from(*distance))));
        });
    }
    let nulls = match pieces {
        [(only, _)] => only.nulls().cloned(),
        pieces if pieces.iter().all(|(distances, _)| distances.nulls().is_none()) => None,
        pieces => {
            let valid = pieces.iter().flat_map(|(distances, _)| {
                let nulls = distances.nulls();
                (0..distances.rows()).map(move |row| nulls.is_none_or(|nulls| nulls.is_valid(row)))
            });
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

    /// The type of the distances, after the numbers were found again.
    fn check(values: ArrayRef, min: ScalarValue, max: ScalarValue) -> Option<DataType> {
        let (distances, base) = distances(&values, &min, &max)?;
        assert_eq!(&numbers(&[(&distances, base)], values.data_type()).unwrap(), &values);
        let (head, tail) = (distances.slice(0, 1), distances.slice(1, values.len() - 1));
        assert_eq!(&numbers(&[(&head, base), (&tail, base)], values.data_type()).unwrap(), &values);
        Some(distances.physical().data_type().clone())
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
        for (rows, max) in [(3, 9), (BLOCK_ROWS, 1 << 20)] {
            let mut expect: Vec<i64> = (0..rows).map(|row| if row % 2 == 0 { 7 } else { max }).collect();
            expect[1] = -1 << 40;
            let values: ArrayRef = Arc::new(Int64Array::from(expect.clone()));
            let (distances, base) = distances(&values, &7i64.into(), &max.into()).unwrap();
            let found = numbers(&[(&distances, base)], &DataType::Int64).unwrap();
            let found = found.as_primitive::<Int64Type>().values();
            assert_eq!((found[0], &found[2..]), (7, &expect[2..]));
        }
    }

    const BLOCK_ROWS: i64 = 1024;

    /// How many bits rows of this span are packed in.
    fn packed_bits(rows: i64, span: i64, has_null: bool) -> Option<u32> {
        let mut values: Vec<Option<i64>> = (0..rows).map(|row| Some(-5 + row * 7919 % span)).collect();
        (values[0], values[1]) = (Some(-5), Some(span - 5));
        if has_null {
            values[2] = None;
        }
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        check(Arc::clone(&values), (-5i64).into(), (span - 5).into()).expect("four bytes are enough");
        match distances(&values, &(-5i64).into(), &(span - 5).into()).unwrap().0 {
            Distances::Bits(packed) => Some(packed.largest().trailing_ones()),
            Distances::Bytes(_) => None,
        }
    }

    #[test]
    fn distances_are_packed_where_that_saves_enough() {
        let block = |span| packed_bits(BLOCK_ROWS, span, false);
        let spans = [(1 << 16) - 1, 1 << 16, 1_000_000, (1 << 22) - 1, 1 << 22].map(block);
        assert_eq!(spans, [None, Some(17), Some(20), Some(22), None]);
        assert_eq!(packed_bits(BLOCK_ROWS, 1_000_000, true), None, "nulls have no bits of their own");
        assert_eq!(packed_bits(600, 1_000_000, false), None, "the rest of a block would take more");
        assert_eq!(packed_bits(700, 1_000_000, false), Some(20));
        assert_eq!(packed_bits(BLOCK_ROWS + 1, 1_000_000, false), None);

        let values: ArrayRef = Arc::new(Int32Array::from_iter_values((0..1024).map(|row| row * 100 - 7)));
        assert_eq!(check(values, (-7i32).into(), (102_300i32 - 7).into()), Some(DataType::UInt32), "words");
    }

    #[test]
    fn texts_and_columns_of_nulls_have_no_distances() {
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
        assert!(distances(&nulls, &ScalarValue::Int64(None), &ScalarValue::Int64(None)).is_none());
        assert!(distances(&nulls, &ScalarValue::from("a"), &ScalarValue::from("b")).is_none());
    }
}
