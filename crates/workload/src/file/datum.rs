//! The value of a variable of a script or a parameter of a statement.

use std::borrow::Cow;

use crate::statement::Value;

/// A value, of the types that pgbench has, and text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Datum {
    /// SQL null; also the value of a variable before it is set.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Double(f64),
    /// Text.
    Text(String),
}

impl Datum {
    /// Writes values other than text that go to a server as text: numbers with fractions and truth values, which the
    /// server reads as the type that it needs.
    pub(super) fn note(&self, text: &mut String) {
        if let Datum::Bool(_) | Datum::Double(_) = self {
            text.clear();
            text.push_str(&self.text());
        }
    }

    /// The parameter of a statement; `noted` is the text that [`note`](Datum::note) wrote.
    pub(super) fn value<'a>(&'a self, noted: &'a str) -> Value<'a> {
        match self {
            Datum::Null => Value::Null,
            Datum::Int(number) => Value::Int(*number),
            Datum::Text(text) => Value::Text(text),
            Datum::Bool(_) | Datum::Double(_) => Value::Text(noted),
        }
    }

    /// As people and servers read it.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Datum::Null => Cow::Borrowed("NULL"),
            Datum::Bool(true) => Cow::Borrowed("true"),
            Datum::Bool(false) => Cow::Borrowed("false"),
            Datum::Int(number) => Cow::Owned(number.to_string()),
            Datum::Double(number) => Cow::Owned(fifteen_digits(*number)),
            Datum::Text(text) => Cow::Borrowed(text),
        }
    }

    /// The form for messages: text in quotes, and only the beginning of a long text.
    pub(super) fn shown(&self) -> String {
        const SHOWN_MAX: usize = 60;
        match self {
            Datum::Text(text) => match text.char_indices().nth(SHOWN_MAX) {
                Some((end, _)) => format!("'{}…' ({} bytes)", &text[..end], text.len()),
                None => format!("'{text}'"),
            },
            other => other.text().into_owned(),
        }
    }

    /// Takes a value that a statement returned.
    pub(super) fn set(&mut self, value: Value<'_>) {
        match (value, &mut *self) {
            // Keeps the memory of the text before.
            (Value::Text(text), Datum::Text(kept)) => {
                kept.clear();
                kept.push_str(text);
            }
            (Value::Text(text), _) => *self = Datum::Text(text.to_owned()),
            (Value::Int(number), _) => *self = Datum::Int(number),
            (Value::Null, _) => *self = Datum::Null,
        }
    }

    /// The value as an operand of an expression: text from a database is read as the number or truth value that it
    /// looks like, as in pgbench.
    pub(super) fn operand(&self) -> Result<Datum, String> {
        let Datum::Text(text) = self else { return Ok(self.clone()) };
        let trimmed = text.trim();
        if let Ok(number) = trimmed.parse::<i64>() {
            return Ok(Datum::Int(number));
        }
        let lower = trimmed.to_ascii_lowercase();
        match lower.as_str() {
            "null" => return Ok(Datum::Null),
            "on" => return Ok(Datum::Bool(true)),
            "of" | "off" => return Ok(Datum::Bool(false)),
            "" => {}
            word if "true".starts_with(word) || "yes".starts_with(word) => return Ok(Datum::Bool(true)),
            word if "false".starts_with(word) || "no".starts_with(word) => return Ok(Datum::Bool(false)),
            _ => {}
        }
        let number = trimmed.parse::<f64>().ok();
        number.map(Datum::Double).ok_or_else(|| format!("{} is neither a number nor a truth value", self.shown()))
    }
}

/// A number as C prints it with `%.15g`, which is how pgbench sends it.
fn fifteen_digits(number: f64) -> String {
    const DIGITS: i32 = 15;
    if !number.is_finite() {
        return if number.is_nan() {
            "NaN".to_owned()
        } else {
            format!("{}Infinity", if number < 0.0 { "-" } else { "" })
        };
    }
    let scientific = format!("{number:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("that is how an exponent is written");
    let exponent: i32 = exponent.parse().expect("that is how an exponent is written");
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        short(&format!("{number:.*}", (DIGITS - 1 - exponent) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", short(mantissa), exponent.abs())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// The output of C's `printf("%.15g")`.
    #[test]
    fn numbers_are_written_as_pgbench_writes_them() {
        for (number, expect) in [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.333333333333333"),
            (1e15, "1e+15"),
            (123_456_789_012_345.6, "123456789012346"),
            (1.5e-5, "1.5e-05"),
            (0.00015, "0.00015"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(fifteen_digits(number), expect);
        }
    }

    #[test]
    fn text_from_a_database_is_what_it_looks_like() {
        for (text, expect) in [
            ("12", Ok(Datum::Int(12))),
            ("-1.5", Ok(Datum::Double(-1.5))),
            ("t", Ok(Datum::Bool(true))),
            ("FALSE", Ok(Datum::Bool(false))),
            ("off", Ok(Datum::Bool(false))),
            ("null", Ok(Datum::Null)),
            ("abc", Err(())),
            ("", Err(())),
        ] {
            assert_eq!(Datum::Text(text.to_owned()).operand().map_err(drop), expect, "{text}");
        }
    }
}
