//! Whole numbers that fail where they do not fit, as in PostgreSQL. DataFusion's `+`, `-` and `*` wrap. Remainders of numerics are
//! here, too: its optimizer takes `x % 1` for 0.

use arrow::array::Datum;
use arrow::compute::kernels::numeric;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// An operation on two whole numbers of the same type, or a remainder of numerics.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Arithmetic {
    operator: Operator,
    signature: Signature,
}

/// `left operator right`, both `integer` or both `bigint`, or a remainder of numerics.
pub fn checked(left: Expr, operator: Operator, right: Expr) -> Expr {
    function(operator).call(vec![left, right])
}

fn function(operator: Operator) -> ScalarUDF {
    ScalarUDF::from(Arithmetic { operator, signature: Signature::any(2, Volatility::Immutable) })
}

/// The functions of calls that were planned elsewhere.
pub fn planned_functions() -> [ScalarUDF; 5] {
    [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide, Operator::Modulo].map(function)
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        match self.operator {
            Operator::Plus => "checked_plus",
            Operator::Minus => "checked_minus",
            Operator::Multiply => "checked_multiply",
            Operator::Divide => "checked_divide",
            _ => "checked_modulo",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left @ (DataType::Int32 | DataType::Int64), right] if left == right => Ok(left.clone()),
            [DataType::Decimal128(digits_a, scale_a), DataType::Decimal128(digits_b, scale_b)]
                if self.operator == Operator::Modulo =>
            {
                let scale = *scale_a.max(scale_b);
                let whole = (*digits_a as i8 - scale_a).min(*digits_b as i8 - scale_b);
                Ok(DataType::Decimal128((scale + whole).clamp(1, 38) as u8, scale))
            }
            other => exec_err!("{} of {other:?}", self.name()),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = <[ColumnarValue; 2]>::try_from(arguments.args)
            .map_err(|found| DataFusionError::Execution(format!("{} operands where there are two", found.len())))?;
        let computed = match (&left, &right) {
            (ColumnarValue::Array(left), ColumnarValue::Array(right)) => self.compute(left, right),
            (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => self.compute(left, &right.to_scalar()?),
            (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => self.compute(&left.to_scalar()?, right),
            (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
                let one = self.compute(&left.to_scalar()?, &right.to_scalar()?)?;
                return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?));
            }
        };
        computed.map(ColumnarValue::Array)
    }
}

impl Arithmetic {
    fn compute(&self, left: &dyn Datum, right: &dyn Datum) -> Result<arrow::array::ArrayRef> {
        let computed = match self.operator {
            Operator::Plus => numeric::add(left, right),
            Operator::Minus => numeric::sub(left, right),
            Operator::Multiply => numeric::mul(left, right),
            Operator::Divide => numeric::div(left, right),
            _ => numeric::rem(left, right),
        };
        computed.map_err(|error| match error {
            ArrowError::DivideByZero => DataFusionError::Execution("division by zero (SQLSTATE 22012)".to_owned()),
            _ if !left.get().0.data_type().is_integer() => {
                DataFusionError::Execution(format!("a remainder of numerics: {error}"))
            }
            _ => {
                let of = if left.get().0.data_type() == &DataType::Int32 { "integer" } else { "bigint" };
                DataFusionError::Execution(format!(
                    "{of} out of range (SQLSTATE 22003): cast the operands to a wider type"
                ))
            }
        })
    }
}
