//! Amounts that are numbers.

use super::{Amount, ControlError};

/// The amount as a number from `least` to `most`; errors name it in `unit`.
pub(super) fn number(control: &str, amount: &Amount, least: f64, most: f64, unit: &str) -> Result<f64, ControlError> {
    let number = match amount {
        Amount::Number(number) => Some(*number),
        Amount::Text(text) => text.trim().parse().ok(),
    };
    match number {
        Some(number) if number >= least && number <= most => Ok(number),
        Some(number) if number.is_finite() => {
            let bound = if number < least { format!("at least {least}") } else { format!("at most {most}") };
            Err(ControlError::amount(control, amount, format!("it is {bound} {unit}")))
        }
        _ => Err(ControlError::amount(
            control,
            amount,
            format!("it is a number from {least} to {most} ({unit}), or `unlimited`"),
        )),
    }
}

/// As [`number`], without a fraction.
pub(super) fn whole(control: &str, amount: &Amount, least: f64, most: f64, unit: &str) -> Result<i64, ControlError> {
    let number = number(control, amount, least, most, unit)?;
    if number.fract() != 0.0 {
        return Err(ControlError::amount(control, amount, format!("it is a whole number ({unit})")));
    }
    Ok(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_within_bounds() {
        let check = |amount: Amount, expect: Result<f64, &str>| {
            let found = number("x", &amount, 1.0, 9.0, "things").map_err(|error| error.to_string());
            assert_eq!(found.as_ref().map_err(String::as_str), expect.as_ref().map_err(|text| *text), "{amount:?}");
        };
        check(Amount::Number(1.0), Ok(1.0));
        check(Amount::Text(" 9 ".to_owned()), Ok(9.0));
        check(Amount::Number(0.5), Err("x cannot be 0.5: it is at least 1 things"));
        check(Amount::Number(10.0), Err("x cannot be 10: it is at most 9 things"));
        check(Amount::Number(-1.0), Err("x cannot be -1: it is at least 1 things"));
        let any = "it is a number from 1 to 9 (things), or `unlimited`";
        check(Amount::Text("much".to_owned()), Err(&format!("x cannot be much: {any}")));
        check(Amount::Number(f64::NAN), Err(&format!("x cannot be NaN: {any}")));
        check(Amount::Number(f64::INFINITY), Err(&format!("x cannot be inf: {any}")));
        assert!(whole("x", &Amount::Number(1.5), 1.0, 9.0, "things").is_err());
    }
}
