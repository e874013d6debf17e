//! Scalar functions: those that compute the same in DataFusion, and those that are computed with other means.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result as DataFusionResult, not_impl_err};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit, when,
};

use super::expressions::{Scope, Typed, together, typed};
use super::kinds::Kind;
use super::quotient::rounded;
use super::{Result, casts, fault, literals, operators, refused};

/// The parts of dates and timestamps that are whole numbers and the same in both.
const PARTS: [&str; 8] = ["year", "quarter", "month", "day", "hour", "minute", "dow", "doy"];

/// The parts of timestamps that are the same in both after truncation.
const TRUNCATED: [&str; 7] = ["year", "quarter", "month", "day", "hour", "minute", "second"];

/// A name that DataFusion's planner finds, and that is replaced before anything is computed.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Named {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Named {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DataFusionResult<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        not_impl_err!("{} is replaced before it is computed", self.name)
    }
}

/// Functions that only have a name.
pub fn named() -> Vec<Arc<ScalarUDF>> {
    let named = |name| Named { name, signature: Signature::variadic_any(Volatility::Immutable) };
    ["round", "abs", "mod"].map(|name| Arc::new(ScalarUDF::from(named(name)))).into()
}

/// A call of a function.
pub fn call(function: &ScalarFunction, scope: Scope) -> Result<Typed> {
    let arguments = function.args.iter().map(|argument| typed(argument, scope)).collect::<Result<Vec<_>>>()?;
    let name = function.func.name();
    match (name, &arguments[..]) {
        ("coalesce" | "greatest" | "least", [_, ..]) => {
            let (values, kind) = together(arguments)?;
            Ok(Typed { expr: function.func.call(values), kind })
        }
        ("nullif", [value, other]) => null_if(value, other, scope),
        ("abs", [value]) => absolute(value, scope),
        ("mod", [left, right]) => operators::binary(left.clone(), Operator::Modulo, right.clone(), scope),
        ("round", [value]) => round(value, Some(0)),
        ("round", [value, digits]) => round(value, literals::integer(&digits.expr)),
        ("date_part", [part, of]) => date_part(function, part, of),
        ("date_trunc", [part, of]) => date_trunc(function, part, of),
        _ => of_texts(function, name, arguments),
    }
}

/// Functions over texts. Positions and lengths are integers in PostgreSQL.
fn of_texts(function: &ScalarFunction, name: &str, arguments: Vec<Typed>) -> Result<Typed> {
    use Kind::{Integer, Text};
    let (takes, gives): (&[Kind], Kind) = match (name, arguments.len()) {
        ("substr", 2) => (&[Text, Integer], Text),
        ("substr", 3) => (&[Text, Integer, Integer], Text),
        ("left" | "right", 2) => (&[Text, Integer], Text),
        ("character_length" | "ascii", 1) => (&[Text], Integer),
        ("strpos", 2) => (&[Text, Text], Integer),
        ("btrim" | "ltrim" | "rtrim", 1) => (&[Text], Text),
        ("replace", 3) if literals::text(&arguments[1].expr).is_some_and(|from| !from.is_empty()) => {
            (&[Text, Text, Text], Text)
        }
        _ => {
            let construct = format!("the function {name} with {} arguments", arguments.len());
            return refused(construct, "see the list of functions");
        }
    };
    let operand = |(argument, kind): (Typed, &Kind)| match (kind, argument.kind) {
        (Text, _) => casts::text(argument, name),
        (_, Integer) => Ok(casts::widened(argument, Kind::Bigint).expr),
        (_, kind) => refused(format_args!("{kind} as an argument of {name}"), "give an integer"),
    };
    let operands = arguments.into_iter().zip(takes).map(operand).collect::<Result<Vec<_>>>()?;
    let expr = function.func.call(operands);
    Ok(match gives {
        Kind::Integer => casts::widened(Typed { expr, kind: Kind::Other }, Kind::Integer),
        kind => Typed { expr, kind },
    })
}

fn null_if(value: &Typed, other: &Typed, scope: Scope) -> Result<Typed> {
    let value = match value.kind {
        Kind::Unknown => {
            literals::read(&value.expr, if other.kind == Kind::Unknown { Kind::Text } else { other.kind })?
        }
        _ => value.clone().settled()?,
    };
    let is_equal = operators::binary(value.clone(), Operator::Eq, other.clone(), scope)?.expr;
    let null = literals::read(&lit(datafusion::common::ScalarValue::Null), value.kind)?.expr;
    let expr = Expr::Case(Case::new(None, vec![(Box::new(is_equal), Box::new(null))], Some(Box::new(value.expr))));
    Ok(Typed { expr, kind: value.kind })
}

fn absolute(value: &Typed, scope: Scope) -> Result<Typed> {
    let zero = literals::typed(&datafusion::common::ScalarValue::Int64(Some(0)))?;
    let is_negative = operators::binary(value.clone(), Operator::Lt, zero, scope)?.expr;
    let negative = operators::negative(value.clone(), scope)?;
    let expr = when(is_negative, negative.expr).otherwise(value.expr.clone()).map_err(fault)?;
    Ok(Typed { expr, kind: value.kind })
}

fn round(value: &Typed, digits: Option<i32>) -> Result<Typed> {
    let Some(scale) = digits.and_then(|digits| i8::try_from(digits).ok()).filter(|digits| (0..=30).contains(digits))
    else {
        return refused("round to digits that are no literal from 0 to 30", "write round(value, 2)");
    };
    let value = match value.kind {
        Kind::Numeric(..) | Kind::Quotient(..) => value.clone(),
        // With digits it is a numeric; alone PostgreSQL rounds a double.
        Kind::Integer | Kind::Bigint if scale > 0 => casts::widened(value.clone(), value.kind.as_numeric()),
        kind => return refused(format_args!("round of {kind}"), "give a numeric"),
    };
    let (Kind::Numeric(of, behind) | Kind::Quotient(of, behind)) = value.kind else {
        return refused("round of another type", "give a numeric");
    };
    let whole = (i16::from(of) - i16::from(behind) + 1).max(1);
    let kind = Kind::Numeric((whole + i16::from(scale)).clamp(1, 38) as u8, scale);
    Ok(Typed { expr: rounded(value.expr, scale), kind })
}

/// In PostgreSQL the part is a numeric.
fn date_part(function: &ScalarFunction, part: &Typed, of: &Typed) -> Result<Typed> {
    let is_day_part = |part: &str| !matches!(part, "hour" | "minute");
    let name = literals::text(&part.expr).map(str::to_lowercase).unwrap_or_default();
    let has_part = match of.kind {
        Kind::Date => is_day_part(&name),
        Kind::Timestamp | Kind::Midnight => true,
        _ => false,
    };
    if !has_part || !PARTS.contains(&name.as_str()) {
        return refused(
            format_args!("extract({name} FROM {})", of.kind),
            format_args!("take one of {} of a date or timestamp", PARTS.join(", ")),
        );
    }
    let number = function.func.call(vec![part.expr.clone(), of.clone().settled()?.expr]);
    Ok(casts::widened(Typed { expr: number, kind: Kind::Integer }, Kind::Numeric(10, 0)))
}

fn date_trunc(function: &ScalarFunction, part: &Typed, of: &Typed) -> Result<Typed> {
    let name = literals::text(&part.expr).map(str::to_lowercase).unwrap_or_default();
    if of.kind != Kind::Timestamp || !TRUNCATED.contains(&name.as_str()) {
        return refused(
            format_args!("date_trunc('{name}', {})", of.kind),
            format_args!("take one of {} of a timestamp", TRUNCATED.join(", ")),
        );
    }
    Ok(Typed { expr: function.func.call(vec![part.expr.clone(), of.expr.clone()]), kind: Kind::Timestamp })
}
