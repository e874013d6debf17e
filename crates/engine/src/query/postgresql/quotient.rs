//! Division and rounding of numerics, digit for digit as in PostgreSQL.
//!
//! PostgreSQL chooses the digits behind the point of each quotient by its size, so that there are at least 16 significant ones
//! (`select_div_scale` in its `numeric.c`), and rounds half away from zero.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal256Array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Decimal128Type, i256};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::kinds::QUOTIENT;

/// PostgreSQL's `NUMERIC_MIN_SIG_DIGITS`.
const SIGNIFICANT_DIGITS_MIN: i32 = 16;

/// PostgreSQL keeps numerics as digits to this base.
const BASE: u128 = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Quotient {
    signature: Signature,
}

/// `dividend / divisor`, both [`super::kinds::Kind::Numeric`].
pub fn quotient(dividend: Expr, divisor: Expr) -> Expr {
    quotient_function().call(vec![dividend, divisor])
}

fn quotient_function() -> ScalarUDF {
    ScalarUDF::from(Quotient { signature: Signature::any(2, Volatility::Immutable) })
}

/// The functions of calls that were planned elsewhere.
pub fn planned_functions() -> [ScalarUDF; 2] {
    [quotient_function(), rounded_function(0)]
}

impl ScalarUDFImpl for Quotient {
    fn name(&self) -> &str {
        "quotient"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal256(QUOTIENT.0, QUOTIENT.1))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [dividend, divisor] = &arrays[..] else { return exec_err!("a quotient has two operands") };
        Ok(ColumnarValue::Array(divide(dividend, divisor)?))
    }
}

fn divide(dividend: &ArrayRef, divisor: &ArrayRef) -> Result<ArrayRef> {
    let (DataType::Decimal128(_, scale_a), DataType::Decimal128(_, scale_b)) =
        (dividend.data_type(), divisor.data_type())
    else {
        return exec_err!("{} / {}", dividend.data_type(), divisor.data_type());
    };
    let scales = (i32::from(*scale_a), i32::from(*scale_b));
    let (a, b) = (dividend.as_primitive::<Decimal128Type>(), divisor.as_primitive::<Decimal128Type>());
    let rows = (0..a.len()).map(|row| match a.is_valid(row) && b.is_valid(row) {
        true => divide_one(a.value(row), b.value(row), scales).map(Some),
        false => Ok(None),
    });
    let quotients: Decimal256Array = rows.collect::<Result<_>>()?;
    Ok(Arc::new(quotients.with_precision_and_scale(QUOTIENT.0, QUOTIENT.1)?))
}

/// The quotient of two numbers without their points, with [`QUOTIENT`]'s digits behind the point.
fn divide_one(a: i128, b: i128, (scale_a, scale_b): (i32, i32)) -> Result<i256> {
    if b == 0 {
        return exec_err!("division by zero (SQLSTATE 22012)");
    }
    let scale = result_scale(a, b, scale_a, scale_b);
    // The dividend gets so many zeros that the quotient of whole numbers has the result's digits.
    let zeros = scale + scale_b - scale_a;
    let (digits, rest_digits) = (zeros.max(0) as u32, i32::from(QUOTIENT.1) - scale);
    let too_small = || {
        DataFusionError::Execution(
            "a quotient has more than 38 digits behind the point: multiply the dividend by a power of ten".to_owned(),
        )
    };
    if zeros < 0 || rest_digits < 0 {
        return Err(too_small());
    }
    let negative = (a < 0) != (b < 0);
    let (a, b) = (a.unsigned_abs(), b.unsigned_abs());
    let rounded = match 10_u128.checked_pow(digits).and_then(|power| a.checked_mul(power)) {
        Some(dividend) => i256::from_parts(dividend / b, 0).wrapping_add(round_up(dividend % b, b)),
        None => long_division(a, b, digits)?,
    };
    let power = i256::from_i128(10_i128.pow(rest_digits as u32));
    let all = rounded.checked_mul(power).ok_or_else(too_large)?;
    Ok(if negative { all.wrapping_neg() } else { all })
}

fn too_large() -> DataFusionError {
    DataFusionError::Execution("a quotient has more than 38 digits before the point".to_owned())
}

/// One if the remainder is half of the divisor or more.
fn round_up(remainder: u128, divisor: u128) -> i256 {
    if remainder >= divisor - remainder { i256::ONE } else { i256::ZERO }
}

/// The rounded quotient where the dividend and its zeros do not fit 128 bits.
fn long_division(a: u128, b: u128, zeros: u32) -> Result<i256> {
    let ten = i256::from_i128(10);
    let (divisor, mut remainder) = (i256::from_parts(b, 0), i256::from_parts(a % b, 0));
    let mut quotient = i256::from_parts(a / b, 0);
    for _ in 0..zeros {
        let next = remainder.wrapping_mul(ten);
        let digit = next.wrapping_div(divisor);
        quotient = quotient.checked_mul(ten).and_then(|all| all.checked_add(digit)).ok_or_else(too_large)?;
        remainder = next.wrapping_sub(digit.wrapping_mul(divisor));
    }
    let is_up = remainder.wrapping_add(remainder) >= divisor;
    Ok(if is_up { quotient.wrapping_add(i256::ONE) } else { quotient })
}

/// PostgreSQL's `select_div_scale`.
fn result_scale(a: i128, b: i128, scale_a: i32, scale_b: i32) -> i32 {
    let ((weight_a, first_a), (weight_b, first_b)) = (leading(a, scale_a), leading(b, scale_b));
    let weight = weight_a - weight_b - i32::from(first_a <= first_b);
    (SIGNIFICANT_DIGITS_MIN - weight * 4).max(scale_a).max(scale_b).max(0)
}

/// The place and the value of the first digit that is not zero, to base 10,000; the place of units is 0.
fn leading(number: i128, scale: i32) -> (i32, u128) {
    // PostgreSQL finds no such digit in a zero.
    if number == 0 {
        return (0, 0);
    }
    // Four digits of the base lie on either side of the point: zeros fill the last place.
    let fill = (4 - scale % 4) % 4;
    let (mut rest, mut place) = (number.unsigned_abs(), -(scale + fill) / 4);
    let mut filled = rest % 10_u128.pow(4 - fill as u32) * 10_u128.pow(fill as u32);
    rest /= 10_u128.pow(4 - fill as u32);
    while rest > 0 {
        filled = rest % BASE;
        rest /= BASE;
        place += 1;
    }
    (place, filled)
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rounded {
    /// The digits behind the point when a call is planned. A call that was planned has them in its return type.
    scale: i8,
    signature: Signature,
}

/// A numeric with `scale` digits behind the point.
pub fn rounded(value: Expr, scale: i8) -> Expr {
    rounded_function(scale).call(vec![value])
}

fn rounded_function(scale: i8) -> ScalarUDF {
    ScalarUDF::from(Rounded { scale, signature: Signature::any(1, Volatility::Immutable) })
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        "rounded"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let (DataType::Decimal128(digits, scale) | DataType::Decimal256(digits, scale)) = &types[0] else {
            return exec_err!("round of {}", types[0]);
        };
        let whole = (i16::from(*digits) - i16::from(*scale) + 1).max(1);
        Ok(DataType::Decimal128((whole + i16::from(self.scale)).clamp(1, 38) as u8, self.scale))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let target = arguments.return_type().clone();
        let DataType::Decimal128(_, scale) = target else { return exec_err!("a rounded number of type {target}") };
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let wide = cast(&arrays[0], &DataType::Decimal256(76, scale))?;
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let narrow = cast_with_options(&wide, &target, &options);
        let too_large = |_| DataFusionError::Execution("a rounded number has more than 38 digits".to_owned());
        Ok(ColumnarValue::Array(narrow.map_err(too_large)?))
    }
}
