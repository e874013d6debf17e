//! The axes of a sweep: keys, and values that were all checked.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use plimsoll_notation::{At, Problem, Problems};
use serde_json::Value;

use super::sweep_key::SweepKeys;
use super::typed::TypedValues;
use crate::plan::{Axis, SweepTarget};

/// More values are taken for a typing error.
const VALUES_MAX: usize = 1_000_000;

/// An axis with the places of its values in the file.
#[derive(Debug, Clone)]
pub(super) struct PlacedAxis {
    /// The key as written.
    pub key: String,
    pub span: Range<usize>,
    pub place: SweepTarget,
    pub values: Vec<(Value, Range<usize>)>,
}

impl PlacedAxis {
    /// The axis without places in the file.
    pub(super) fn axis(&self) -> Axis {
        let values = self.values.iter().map(|(value, _)| value.clone()).collect();
        Axis { key: self.key.clone(), place: self.place.clone(), values }
    }
}

/// Keys in the order of the file.
fn in_order<V>(table: &BTreeMap<At<String>, V>) -> Vec<(&At<String>, &V)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// The axes of a sweep, in the order of the file. `replaced` has other values for some of them.
pub(super) fn axes(
    sweep: &BTreeMap<At<String>, At<TypedValues>>,
    replaced: Option<&BTreeMap<At<String>, At<TypedValues>>>,
    keys: &SweepKeys<'_>,
    problems: &mut Problems,
) -> Vec<PlacedAxis> {
    let mut axes: Vec<PlacedAxis> = Vec::new();
    for (key, values) in in_order(sweep) {
        let place = problems.note_at(key.span(), keys.place(key.value()));
        let values = problems.note(listed(key.value(), values));
        let (Some(place), Some(values)) = (place, values) else { continue };
        if let Some(other) = axes.iter().find(|axis| axis.place.parts().iter().any(|part| place.parts().contains(part)))
        {
            problems
                .add(key.span(), format!("`{}` is the same as `{}`; leave one of them out", key.value(), other.key));
            continue;
        }
        axes.push(PlacedAxis { key: key.value().clone(), span: key.span(), place, values });
    }
    for (key, values) in in_order(replaced.unwrap_or(&BTreeMap::new())) {
        let place = problems.note_at(key.span(), keys.place(key.value()));
        let values = problems.note(listed(key.value(), values));
        let (Some(place), Some(values)) = (place, values) else { continue };
        match axes.iter_mut().find(|axis| axis.place == place) {
            Some(axis) => axis.values = values,
            None => {
                let key_text = key.value();
                let message =
                    format!("`{key_text}` is not swept, so there is no list to replace; put it under [quick.set]");
                problems.add(key.span(), message);
            }
        }
    }
    axes
}

/// The values of a list or range, each once.
fn listed(key: &str, values: &At<TypedValues>) -> Result<Vec<(Value, Range<usize>)>, Problem> {
    let wrong = |message: String| Problem::new(values.span(), message);
    let listed: Vec<(Value, Range<usize>)> = match values.value() {
        TypedValues::List(list) => list.iter().map(|value| (value.value().json(), value.span())).collect(),
        TypedValues::Range(text) => {
            let numbers = range(text).map_err(|why| wrong(format!("`{key}`: {why}")))?;
            numbers.into_iter().map(|number| (number.into(), values.span())).collect()
        }
    };
    if listed.is_empty() {
        return Err(wrong(format!("`{key}` is swept over no value; give one at least, or leave it out")));
    }
    let mut seen = BTreeSet::new();
    for (value, span) in &listed {
        if value.is_null() {
            return Err(Problem::new(span.clone(), format!("`{key}` can only be swept to finite numbers")));
        }
        // 2 and 2.0 are equal.
        let worth = value.as_f64().map_or_else(|| value.to_string(), |number| number.to_string());
        if !seen.insert(worth) {
            return Err(Problem::new(
                span.clone(),
                format!("`{key}` is swept to {value} twice; leave one of them out"),
            ));
        }
    }
    Ok(listed)
}

/// The numbers of a range, both ends included: `1..32`, `0..50 by 10`, `1..64 by x2`.
pub(crate) fn range(text: &str) -> Result<Vec<i64>, String> {
    let wrong =
        || format!("`{text}` is not a range; write \"1..32\", \"0..50 by 10\" or \"1..64 by x2\", or a list in [ ]");
    let (ends, step) = text.split_once(" by ").map_or((text, None), |(ends, step)| (ends, Some(step.trim())));
    let (first, last) = ends.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| wrong());
    let (first, last) = (number(first)?, number(last)?);
    let (factor, step) = match step.map(|step| (step, step.strip_prefix('x'))) {
        None => (1, 1),
        Some((_, Some(factor))) => (number(factor)?, 0),
        Some((step, None)) => (1, number(step)?),
    };
    if factor < 1 || step < 0 || (factor == 1 && step == 0) || (factor > 1 && first < 1) || first > last {
        return Err(format!(
            "`{text}` does not lead from its first number to its last; write for example \"1..64 by x2\""
        ));
    }
    let mut numbers = Vec::new();
    let mut next = Some(first);
    while let Some(number) = next.filter(|number| *number <= last) {
        if numbers.len() == VALUES_MAX {
            return Err(format!("`{text}` has more than {VALUES_MAX} values; take a wider step"));
        }
        numbers.push(number);
        next = number.checked_mul(factor).and_then(|number| number.checked_add(step));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends() {
        let check = |text, expect: &[i64]| assert_eq!(range(text).expect(text), expect, "{text}");
        check("1..4", &[1, 2, 3, 4]);
        check("3 .. 3", &[3]);
        check("0..50 by 20", &[0, 20, 40]);
        check("1..64 by x2", &[1, 2, 4, 8, 16, 32, 64]);
        check("-2..2 by 2", &[-2, 0, 2]);
        check("9223372036854775806..9223372036854775807", &[i64::MAX - 1, i64::MAX]);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["fast", "1..", "1..x", "1..4 by", "1..4 by two", "1.5..2"] {
            assert!(range(text).expect_err(text).contains("is not a range; write"), "{text}");
        }
        for text in ["4..1", "1..4 by 0", "1..4 by -1", "1..4 by x1", "1..4 by x0", "0..8 by x2"] {
            assert!(range(text).expect_err(text).contains("does not lead"), "{text}");
        }
        assert!(range("1..1000001").expect_err("many").contains("more than 1000000 values"));
    }
}
