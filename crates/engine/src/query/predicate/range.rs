//! Conditions that say between which two numbers a column lies, evaluated on distances as they are kept.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{BooleanBuffer, MutableBuffer};
use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};

use crate::columns::narrow::{whole, with_distances};
use crate::query::predicate::without_nulls;

/// The smallest and the largest number that pass, scales left out; none if the first is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberRange {
    low: i128,
    high: i128,
}

impl NumberRange {
    /// The range that a condition on one column of this type states; `None` if it is no such condition.
    pub fn of(expression: &Arc<dyn PhysicalExpr>, field: &Field) -> Option<NumberRange> {
        let binary = expression.downcast_ref::<BinaryExpr>()?;
        let (literal, op) = match (binary.left(), binary.right()) {
            (column, literal) if column.downcast_ref::<Column>().is_some() => (literal, *binary.op()),
            (literal, column) if column.downcast_ref::<Column>().is_some() => (literal, binary.op().swap()?),
            _ => return None,
        };
        let literal = literal.downcast_ref::<Literal>()?.value();
        // The same type has the same scale.
        if literal.data_type() != *field.data_type() {
            return None;
        }
        let number = whole(literal)?;
        let (low, high) = match op {
            Operator::Eq => (number, number),
            Operator::Lt => (i128::MIN, number.checked_sub(1)?),
            Operator::LtEq => (i128::MIN, number),
            Operator::Gt => (number.checked_add(1)?, i128::MAX),
            Operator::GtEq => (number, i128::MAX),
            _ => return None,
        };
        Some(NumberRange { low, high })
    }

    /// Which distances from `base` are in the range. A null is not.
    pub fn select(&self, distances: &ArrayRef, base: i64) -> BooleanBuffer {
        let base = i128::from(base);
        let largest = match distances.data_type() {
            DataType::UInt8 => i128::from(u8::MAX),
            DataType::UInt16 => i128::from(u16::MAX),
            _ => i128::from(u32::MAX),
        };
        let low = self.low.saturating_sub(base).max(0);
        let high = self.high.saturating_sub(base).min(largest);
        if low > high {
            return BooleanBuffer::new_unset(distances.len());
        }
        let (low, width) = (low as u32, (high - low) as u32);
        let passing = match distances.data_type() {
            DataType::UInt8 => {
                let (low, width) = (low as u8, width as u8);
                let values = distances.as_primitive::<arrow::datatypes::UInt8Type>().values();
                pack(values, |value| value.wrapping_sub(low) <= width)
            }
            DataType::UInt16 => {
                let (low, width) = (low as u16, width as u16);
                let values = distances.as_primitive::<arrow::datatypes::UInt16Type>().values();
                pack(values, |value| value.wrapping_sub(low) <= width)
            }
            _ => {
                let values = distances.as_primitive::<arrow::datatypes::UInt32Type>().values();
                pack(values, |value| value.wrapping_sub(low) <= width)
            }
        };
        without_nulls(passing, distances)
    }
}

/// Which of these distances from `base`, counted from `first`, have their bit set.
pub fn look_up(distances: &ArrayRef, base: i64, first: i64, numbers: &BooleanBuffer) -> BooleanBuffer {
    // A number below the first wraps to a place far beyond the last.
    let shift = base.wrapping_sub(first) as usize;
    let passing = with_distances!(distances, |distances| {
        BooleanBuffer::collect_bool(distances.len(), |row| {
            let place = shift.wrapping_add(distances[row] as usize);
            place < numbers.len() && numbers.value(place)
        })
    });
    without_nulls(passing, distances)
}

/// A bit for each value. Comparisons of 64 values are made as bytes, which the compiler does with vector instructions, and then packed
/// eight at a time by a multiplication that moves the lowest bit of byte i to bit i of the highest byte.
fn pack<T: Copy>(values: &[T], passes: impl Fn(T) -> bool) -> BooleanBuffer {
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut bits = MutableBuffer::with_capacity(values.len().div_ceil(64) * 8);
    let mut bytes = [0u8; 64];
    for block in values.chunks(64) {
        if block.len() < 64 {
            bytes = [0; 64];
        }
        bytes.iter_mut().zip(block).for_each(|(byte, value)| *byte = u8::from(passes(*value)));
        let mut word = 0;
        for (eighth, byte) in bytes.as_chunks::<8>().0.iter().enumerate() {
            word |= (u64::from_le_bytes(*byte).wrapping_mul(GATHER) >> 56) << (8 * eighth);
        }
        bits.push(word);
    }
    BooleanBuffer::new(bits.into(), 0, values.len())
}

#[cfg(test)]
mod tests {
    use arrow::array::{UInt8Array, UInt16Array, UInt32Array};
    use arrow::datatypes::Schema;
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{binary, lit};

    use super::*;

    #[test]
    fn bits_are_packed_in_the_order_of_the_values() {
        for rows in [0, 1, 7, 8, 63, 64, 65, 200] {
            let values: Vec<u16> = (0..rows).map(|row| row * 37 % 101).collect();
            let expected = BooleanBuffer::collect_bool(values.len(), |row| values[row].is_multiple_of(3));
            assert_eq!(pack(&values, |value| value.is_multiple_of(3)), expected, "{rows} values");
        }
    }

    /// Compares every operator and many literals with plain comparisons.
    fn check(distances: ArrayRef, numbers: &[Option<i64>], base: i64) {
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
        for literal in [i64::MIN, base - 1, base, base + 1, base + 100, base + 255, base + 256, base + 70_000, i64::MAX]
        {
            for op in [Operator::Eq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq] {
                for is_swapped in [false, true] {
                    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("n", 0));
                    let (left, right) = if is_swapped { (lit(literal), column) } else { (column, lit(literal)) };
                    let condition = binary(left, op, right, &schema).unwrap();
                    let range = NumberRange::of(&condition, schema.field(0)).unwrap();
                    let passes = |number: i64| {
                        let (left, right) = if is_swapped { (literal, number) } else { (number, literal) };
                        match op {
                            Operator::Eq => left == right,
                            Operator::Lt => left < right,
                            Operator::LtEq => left <= right,
                            Operator::Gt => left > right,
                            _ => left >= right,
                        }
                    };
                    let expected: BooleanBuffer = numbers.iter().map(|number| number.is_some_and(passes)).collect();
                    assert_eq!(range.select(&distances, base), expected, "{condition}");
                }
            }
        }
    }

    #[test]
    fn distances_are_compared_as_their_numbers() {
        let base = -50;
        let numbers = |distances: &[Option<u32>]| -> Vec<Option<i64>> {
            distances.iter().map(|distance| distance.map(|distance| base + i64::from(distance))).collect()
        };
        let bytes: Vec<Option<u32>> = (0..256).map(|distance| (distance % 7 != 0).then_some(distance)).collect();
        let narrow = bytes.iter().map(|distance| distance.map(|distance| distance as u8));
        check(Arc::new(UInt8Array::from_iter(narrow)), &numbers(&bytes), base);
        let doubles: Vec<Option<u32>> = (0..300).map(|row| Some(row * 218)).collect();
        let narrow = doubles.iter().map(|distance| distance.map(|distance| distance as u16));
        check(Arc::new(UInt16Array::from_iter(narrow)), &numbers(&doubles), base);
        let words: Vec<Option<u32>> = (0..300).map(|row| Some(row * 1000)).chain([Some(u32::MAX)]).collect();
        check(Arc::new(UInt32Array::from_iter(words.iter().copied())), &numbers(&words), base);
    }

    #[test]
    fn numbers_are_looked_up_by_their_distance_from_another_one() {
        let bits = BooleanBuffer::collect_bool(10, |place| place % 2 == 0);
        let distances: ArrayRef = Arc::new(UInt8Array::from(vec![Some(0), Some(1), None, Some(4), Some(200)]));
        let found = look_up(&distances, 6, 4, &bits);
        assert_eq!(found, BooleanBuffer::from(vec![true, false, false, true, false]), "places 2, 3, none, 6 and 202");
        let below = look_up(&distances, 3, 4, &bits);
        assert_eq!(below, BooleanBuffer::from(vec![false, true, false, false, false]), "places -1, 0, none, 3 and 199");
    }

    #[test]
    fn other_conditions_state_no_range() {
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
        let column = || Arc::new(Column::new("n", 0)) as Arc<dyn PhysicalExpr>;
        let range = |left, op, right| NumberRange::of(&binary(left, op, right, &schema).unwrap(), schema.field(0));
        assert_eq!(range(column(), Operator::NotEq, lit(5i64)), None);
        assert_eq!(range(column(), Operator::Lt, column()), None);
        assert_eq!(range(column(), Operator::Lt, lit(ScalarValue::Int64(None))), None, "a null is no number");
        assert_eq!(range(column(), Operator::Lt, lit(5i32)), None, "another type may have another scale");
    }
}
