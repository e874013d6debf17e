//! The value of an expression.

use rand_pcg::Pcg64;

use super::functions::{extreme, hash_fnv1a, hash_murmur2, permute, random};
use super::{Binary, Expression, Function, Unary};
use crate::file::datum::Datum;

/// The state that an expression can use.
pub(in crate::file) struct Variables<'a> {
    /// The variables, by slot.
    pub(in crate::file) slots: &'a [Datum],
    /// The source of random numbers.
    pub(in crate::file) random: &'a mut Pcg64,
    /// The seed of hashes and permutations that are given none.
    pub(in crate::file) default_seed: i64,
}

/// The value of an expression, or why it has none.
pub(in crate::file) fn evaluate(expression: &Expression, variables: &mut Variables<'_>) -> Result<Datum, String> {
    match expression {
        Expression::Constant(value) => Ok(value.clone()),
        Expression::Variable(slot) => variables.slots[*slot].operand(),
        Expression::Unary(operator, operand) => unary(*operator, evaluate(operand, variables)?),
        Expression::Binary(Binary::And, left, right) => logical(left, right, false, variables),
        Expression::Binary(Binary::Or, left, right) => logical(left, right, true, variables),
        Expression::Binary(operator, left, right) => {
            let (left, right) = (evaluate(left, variables)?, evaluate(right, variables)?);
            if left == Datum::Null || right == Datum::Null {
                return Ok(Datum::Null);
            }
            binary(*operator, &left, &right)
        }
        Expression::Is(operand, value) => Ok(Datum::Bool(evaluate(operand, variables)? == *value)),
        Expression::Case(branches, otherwise) => {
            for (condition, value) in branches {
                if is_true(&evaluate(condition, variables)?) {
                    return evaluate(value, variables);
                }
            }
            evaluate(otherwise, variables)
        }
        Expression::Call(function, operands) => {
            let values = operands.iter().map(|operand| evaluate(operand, variables)).collect::<Result<Vec<_>, _>>()?;
            call(*function, &values, variables)
        }
    }
}

/// Whether a condition of `\if` or `CASE` holds: true, or a number that is not 0.
pub(in crate::file) fn is_true(value: &Datum) -> bool {
    match value {
        Datum::Bool(truth) => *truth,
        Datum::Int(number) => *number != 0,
        Datum::Double(number) => *number != 0.0,
        Datum::Null | Datum::Text(_) => false,
    }
}

fn truth(value: &Datum) -> Result<bool, String> {
    match value {
        Datum::Bool(truth) => Ok(*truth),
        other => Err(format!("{} is neither true nor false", other.shown())),
    }
}

/// The value as a whole number; a fraction is rounded to the nearest, a half to the even one.
pub(super) fn integer(value: &Datum) -> Result<i64, String> {
    match value {
        Datum::Int(number) => Ok(*number),
        Datum::Double(number) => {
            let rounded = number.round_ties_even();
            // The greatest integer is not a double; the next double above it is the first that does not fit.
            let fits = (i64::MIN as f64..i64::MAX as f64).contains(&rounded);
            if fits { Ok(rounded as i64) } else { Err(format!("{} is out of the range of bigint", value.text())) }
        }
        other => Err(format!("{} is not a number", other.shown())),
    }
}

/// The value as a number with a fraction.
pub(super) fn number(value: &Datum) -> Result<f64, String> {
    match value {
        Datum::Int(number) => Ok(*number as f64),
        Datum::Double(number) => Ok(*number),
        other => Err(format!("{} is not a number", other.shown())),
    }
}

fn unary(operator: Unary, operand: Datum) -> Result<Datum, String> {
    match (operator, &operand) {
        (_, Datum::Null) => Ok(Datum::Null),
        (Unary::Not, value) => Ok(Datum::Bool(!truth(value)?)),
        (Unary::Negative, value) => binary(Binary::Subtract, &Datum::Int(0), value),
        (Unary::Complement, value) => Ok(Datum::Int(!integer(value)?)),
    }
}

/// `AND` where `absorbing` is false, `OR` where it is true: if the left side has that value, it is the result, and the
/// right side is not evaluated. Otherwise a null on either side gives null, unlike in SQL.
fn logical(
    left: &Expression,
    right: &Expression,
    absorbing: bool,
    variables: &mut Variables<'_>,
) -> Result<Datum, String> {
    let left = evaluate(left, variables)?;
    if left != Datum::Null && truth(&left)? == absorbing {
        return Ok(Datum::Bool(absorbing));
    }
    let right = evaluate(right, variables)?;
    if left == Datum::Null || right == Datum::Null {
        return Ok(Datum::Null);
    }
    truth(&right).map(Datum::Bool)
}

fn binary(operator: Binary, left: &Datum, right: &Datum) -> Result<Datum, String> {
    let is_double = |value: &Datum| matches!(value, Datum::Double(_));
    if operator.is_arithmetic() && operator != Binary::Remainder && (is_double(left) || is_double(right)) {
        let (left, right) = (number(left)?, number(right)?);
        return Ok(match operator {
            Binary::Add => Datum::Double(left + right),
            Binary::Subtract => Datum::Double(left - right),
            Binary::Multiply => Datum::Double(left * right),
            Binary::Divide => Datum::Double(left / right),
            Binary::Less => Datum::Bool(left < right),
            Binary::LessOrEqual => Datum::Bool(left <= right),
            Binary::NotEqual => Datum::Bool(left != right),
            _ => Datum::Bool(left == right),
        });
    }
    integers(operator, integer(left)?, integer(right)?)
}

impl Binary {
    /// Whether it works on numbers with fractions, too.
    fn is_arithmetic(self) -> bool {
        use Binary::{Add, Divide, Equal, Less, LessOrEqual, Multiply, NotEqual, Remainder, Subtract};
        matches!(self, Add | Subtract | Multiply | Divide | Remainder | Less | LessOrEqual | Equal | NotEqual)
    }
}

fn integers(operator: Binary, left: i64, right: i64) -> Result<Datum, String> {
    let checked = |result: Option<i64>, sign: &str| {
        result.map(Datum::Int).ok_or_else(|| format!("{left} {sign} {right} is out of the range of bigint"))
    };
    if right == 0 && matches!(operator, Binary::Divide | Binary::Remainder) {
        return Err("division by zero".to_owned());
    }
    match operator {
        Binary::Add => checked(left.checked_add(right), "+"),
        Binary::Subtract => checked(left.checked_sub(right), "-"),
        Binary::Multiply => checked(left.checked_mul(right), "*"),
        Binary::Divide => checked(left.checked_div(right), "/"),
        // For the least integer and -1 the remainder is 0, though the quotient overflows.
        Binary::Remainder => Ok(Datum::Int(left.wrapping_rem(right))),
        Binary::Less => Ok(Datum::Bool(left < right)),
        Binary::LessOrEqual => Ok(Datum::Bool(left <= right)),
        Binary::Equal => Ok(Datum::Bool(left == right)),
        Binary::NotEqual => Ok(Datum::Bool(left != right)),
        Binary::BitOr => Ok(Datum::Int(left | right)),
        Binary::BitXor => Ok(Datum::Int(left ^ right)),
        Binary::BitAnd => Ok(Datum::Int(left & right)),
        // As processors do: of the distance its lowest six bits.
        Binary::ShiftLeft => Ok(Datum::Int(left.wrapping_shl(right as u32))),
        Binary::ShiftRight => Ok(Datum::Int(left.wrapping_shr(right as u32))),
        Binary::And | Binary::Or => unreachable!("these look at their right side only where they must"),
    }
}

fn call(function: Function, operands: &[Datum], variables: &mut Variables<'_>) -> Result<Datum, String> {
    if operands.contains(&Datum::Null) && function != Function::Debug {
        return Ok(Datum::Null);
    }
    let double = |function: fn(f64) -> f64| Ok(Datum::Double(function(number(&operands[0])?)));
    // The seed is the last operand, if it is given.
    let seed = |at: usize| operands.get(at).map_or(Ok(variables.default_seed), integer);
    match function {
        Function::Pi => Ok(Datum::Double(std::f64::consts::PI)),
        Function::Abs => match &operands[0] {
            Datum::Double(number) => Ok(Datum::Double(number.abs())),
            other => {
                let number = integer(other)?;
                number
                    .checked_abs()
                    .map(Datum::Int)
                    .ok_or_else(|| format!("abs({number}) is out of the range of bigint"))
            }
        },
        // The text that pgbench would print is of no use among the results of a run.
        Function::Debug => Ok(operands[0].clone()),
        Function::Double => double(|number| number),
        Function::Exp => double(f64::exp),
        Function::Ln => double(f64::ln),
        Function::Sqrt => double(f64::sqrt),
        Function::Int => Ok(Datum::Int(integer(&operands[0])?)),
        Function::Power => Ok(Datum::Double(number(&operands[0])?.powf(number(&operands[1])?))),
        Function::Mod => binary(Binary::Remainder, &operands[0], &operands[1]),
        Function::Greatest => extreme(operands, false),
        Function::Least => extreme(operands, true),
        Function::HashFnv1a => Ok(Datum::Int(hash_fnv1a(integer(&operands[0])?, seed(1)? as u64))),
        Function::HashMurmur2 => Ok(Datum::Int(hash_murmur2(integer(&operands[0])?, seed(1)? as u64))),
        Function::Permute => permute(integer(&operands[0])?, integer(&operands[1])?, seed(2)?).map(Datum::Int),
        Function::Random | Function::RandomExponential | Function::RandomGaussian | Function::RandomZipfian => {
            random(function, operands, variables.random)
        }
    }
}
