//! The amounts that the values of a sweep stand for: they put words such as `64MB` and `unlimited` in order.
//!
//! A number is an amount, and so is a number of bytes with its unit. `unlimited` is the full amount, the end of its axis.
//! Any other word is a category: it is compared with others, but has no place on a curve.

use plimsoll_notation::quantity::scaled;
use serde_json::Value;

use crate::limits::UNLIMITED;

/// Units of memory as PostgreSQL and we write them, powers of 1024.
const BYTE_UNITS: [(&str, u64); 9] = [
    ("TB", 1 << 40),
    ("TiB", 1 << 40),
    ("GB", 1 << 30),
    ("GiB", 1 << 30),
    ("MB", 1 << 20),
    ("MiB", 1 << 20),
    ("kB", 1 << 10),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// What the amounts of an axis count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AmountKind {
    /// Numbers in the unit of their key.
    Number,
    /// Bytes.
    Bytes,
}

/// The values of an axis that are amounts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Amounts {
    /// `None` if no value is an amount, or if they count different things.
    kind: Option<AmountKind>,
    /// The amounts, ascending, with the value as written; the full amount is infinite.
    ascending: Vec<(f64, Value)>,
    /// How many values are not among them.
    categories: usize,
}

impl Amounts {
    /// Of the values of an axis.
    pub(crate) fn of(values: &[Value]) -> Self {
        let kinds: Vec<AmountKind> = values.iter().filter_map(|value| read(value)?.0).collect();
        let kind = kinds.first().copied().filter(|first| kinds.iter().all(|kind| kind == first));
        let mut amounts = Amounts { kind, ascending: Vec::new(), categories: 0 };
        amounts.ascending = values.iter().filter_map(|value| Some((amounts.amount(value)?, value.clone()))).collect();
        amounts.ascending.sort_by(|a, b| a.0.total_cmp(&b.0));
        amounts.categories = values.len() - amounts.ascending.len();
        amounts
    }

    /// What they count; `None` without amounts.
    pub(crate) fn kind(&self) -> Option<AmountKind> {
        self.kind
    }

    /// The amount of a value; `None` for a category. Infinite if it is the full amount.
    pub(crate) fn amount(&self, value: &Value) -> Option<f64> {
        let (kind, amount) = read(value)?;
        (self.kind.is_some() && (kind.is_none() || kind == self.kind)).then_some(amount)
    }

    /// The value that stands for an amount, as it was written.
    pub(crate) fn written(&self, amount: f64) -> Value {
        let found = self.ascending.iter().find(|(one, _)| *one == amount);
        found.map_or_else(|| amount.into(), |(_, value)| value.clone())
    }

    /// Where a value stands on a drawn axis: the full amount one step beyond the others.
    pub(crate) fn position(&self, value: &Value) -> Option<f64> {
        self.amount(value).map(|amount| if amount.is_finite() { amount } else { self.end() })
    }

    fn end(&self) -> f64 {
        let finite: Vec<f64> = self.ascending.iter().map(|(amount, _)| *amount).filter(|one| one.is_finite()).collect();
        match finite[..] {
            [.., before, last] if before > 0.0 => last * (last / before),
            [.., last] if last > 0.0 => 2.0 * last,
            _ => 1.0,
        }
    }

    /// The number of amounts.
    pub(crate) fn len(&self) -> usize {
        self.ascending.len()
    }

    /// Whether every value is an amount, so that the axis can be drawn and searched.
    pub(crate) fn are_all(&self) -> bool {
        self.kind.is_some() && self.categories == 0
    }

    /// Whether one of them is the full amount.
    pub(crate) fn has_end(&self) -> bool {
        self.ascending.last().is_some_and(|(amount, _)| amount.is_infinite())
    }

    /// The amounts, ascending.
    pub(crate) fn ascending(&self) -> &[(f64, Value)] {
        &self.ascending
    }
}

/// What a value counts, and how much; `unlimited` counts anything.
fn read(value: &Value) -> Option<(Option<AmountKind>, f64)> {
    match value {
        Value::Number(number) => Some((Some(AmountKind::Number), number.as_f64()?)),
        Value::String(text) if text.trim() == UNLIMITED => Some((None, f64::INFINITY)),
        Value::String(text) => scaled(text, &BYTE_UNITS).map(|bytes| (Some(AmountKind::Bytes), bytes as f64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ascending(values: Value) -> Vec<String> {
        let values = values.as_array().expect("a list").clone();
        Amounts::of(&values).ascending.iter().map(|(_, value)| plimsoll_display::value(value)).collect()
    }

    #[test]
    fn words_with_an_amount_have_an_order() {
        assert_eq!(ascending(json!([8, 0.5, 2])), ["0.5", "2", "8"]);
        assert_eq!(ascending(json!(["unlimited", 4, 100])), ["4", "100", "unlimited"]);
        assert_eq!(ascending(json!(["1GB", "64kB", "256MB", "unlimited"])), ["64kB", "256MB", "1GB", "unlimited"]);
        assert_eq!(ascending(json!(["auto", "64MB", "4MB"])), ["4MB", "64MB"], "a category has no place");
        for none in [json!(["on", "off"]), json!(["pow", "standard"]), json!([1, "64MB"]), json!(["unlimited"])] {
            assert_eq!(ascending(none.clone()), [""; 0], "{none}");
        }
    }

    #[test]
    fn the_full_amount_is_drawn_one_step_beyond() {
        let values = [json!(50), json!(100), json!("unlimited")];
        let amounts = Amounts::of(&values);
        assert_eq!(values.each_ref().map(|value| amounts.position(value)), [Some(50.0), Some(100.0), Some(200.0)]);
        assert_eq!((amounts.written(f64::INFINITY), amounts.written(50.0)), (json!("unlimited"), json!(50)));
        assert!(amounts.are_all() && amounts.has_end());
        assert_eq!(amounts.position(&json!("on")), None);
    }
}
