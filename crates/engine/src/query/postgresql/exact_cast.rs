//! Casts that lose digits or range: PostgreSQL rounds half away from zero, and fails where a value does not fit. DataFusion cuts digits
//! off, and its optimizer moves such casts to the other side of a comparison.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Decimal256Type};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ExactCast {
    /// The type when a call is planned. A call that was planned has it as its return type.
    target: DataType,
    signature: Signature,
}

/// A value of another type, rounded.
pub fn exact_cast(value: Expr, target: DataType) -> Expr {
    ScalarUDF::from(ExactCast::to(target)).call(vec![value])
}

/// The function of calls that were planned elsewhere.
pub fn planned_function() -> ScalarUDF {
    ScalarUDF::from(ExactCast::to(DataType::Null))
}

impl ScalarUDFImpl for ExactCast {
    fn name(&self) -> &str {
        "exact_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.target.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let target = arguments.return_type();
        match arguments.args.first() {
            Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(cast_exactly(array, target)?)),
            Some(ColumnarValue::Scalar(scalar)) => {
                let one = cast_exactly(&scalar.to_array()?, target)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?))
            }
            None => Err(DataFusionError::Execution("a cast of nothing".to_owned())),
        }
    }
}

impl ExactCast {
    fn to(target: DataType) -> ExactCast {
        ExactCast { target, signature: Signature::any(1, Volatility::Immutable) }
    }
}

fn cast_exactly(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let is_decimal = matches!(array.data_type(), DataType::Decimal128(..) | DataType::Decimal256(..));
    let cast = |array: &ArrayRef, to: &DataType| {
        cast_with_options(array, to, &options).map_err(|error| {
            let what = format!("a value does not fit {target} (SQLSTATE 22003): {error}");
            DataFusionError::Execution(what)
        })
    };
    // Arrow rounds decimals to decimals half away from zero, but cuts decimals to integers, and wraps those beyond 64 bits.
    if is_decimal && target.is_integer() {
        let rounded = cast(array, &DataType::Decimal256(76, 0))?;
        let whole = rounded.as_primitive::<Decimal256Type>().iter().map(|number| {
            let whole = number.map(|number| number.to_i128().and_then(|number| i64::try_from(number).ok()));
            let beyond = || DataFusionError::Execution(format!("{target} out of range (SQLSTATE 22003)"));
            whole.map(|whole| whole.ok_or_else(beyond)).transpose()
        });
        let whole: Int64Array = whole.collect::<Result<_>>()?;
        return cast(&(Arc::new(whole) as ArrayRef), target);
    }
    cast(array, target)
}
