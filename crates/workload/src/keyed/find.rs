//! Finds the rows of a statement.

use std::ops::RangeInclusive;

use smallvec::SmallVec;

use super::access::{Access, Bound, Part, Source};
use super::expression::{Expression, Input, Row};
use super::run::Scalars;
use super::scalar::{Scalar, Type};
use crate::database::DatabaseError;
use crate::schema::{Index, Kind};
use crate::statement::{End, Intent, RowAccess, RowRef, Value};

/// What is done with each row that is found.
type Visit<'v> = dyn FnMut(&mut dyn RowAccess, RowRef) -> Result<(), DatabaseError> + 'v;

impl Source {
    /// Finds the rows, up to a limit, and calls `visit` with each.
    pub(super) fn visit(
        &self,
        intent: Intent,
        limit: Option<usize>,
        input: &Input<'_>,
        access: &mut dyn RowAccess,
        visit: &mut Visit<'_>,
    ) -> Result<(), DatabaseError> {
        match &self.access {
            Access::Row { index, key } => {
                if limit == Some(0) {
                    return Ok(());
                }
                let found = match given(key, input) {
                    Some(key) => access.find(*index, key, intent)?,
                    None => {
                        let Some(key) = scalars(key, input)? else { return Ok(()) };
                        access.find(*index, &keys(&key), intent)?
                    }
                };
                match found {
                    Some(row) if self.passes(input, access, row)? => visit(access, row),
                    _ => Ok(()),
                }
            }
            Access::Range { index, equal, low, high } => {
                let Some((low, high)) = range(equal, low.as_ref(), high.as_ref(), input)? else { return Ok(()) };
                let (low, high) = (keys(&low), keys(&high));
                let found = match limit {
                    None => self.all(*index, (&low, &high), intent, input, access)?,
                    Some(limit) => self.some(*index, (&low, &high), limit, intent, input, access)?,
                };
                found.into_iter().try_for_each(|row| visit(access, row))
            }
        }
    }

    fn all(
        &self,
        index: Index,
        (low, high): Ends<'_>,
        intent: Intent,
        input: &Input<'_>,
        access: &mut dyn RowAccess,
    ) -> Result<Vec<RowRef>, DatabaseError> {
        let mut found = Vec::new();
        access.find_all(index, low, high, intent, &mut found)?;
        if self.is_descending {
            found.reverse();
        }
        self.filtered(found, input, access)
    }

    /// The first rows that pass the filter. As many as are wanted are looked at first, then more, until enough have passed.
    fn some(
        &self,
        index: Index,
        ends: Ends<'_>,
        limit: usize,
        intent: Intent,
        input: &Input<'_>,
        access: &mut dyn RowAccess,
    ) -> Result<Vec<RowRef>, DatabaseError> {
        let end = if self.is_descending { End::Last } else { End::First };
        let mut looked_at = limit;
        loop {
            let mut found = Vec::new();
            access.find_some(index, ends, (end, looked_at), intent, &mut found)?;
            let is_all = found.len() < looked_at;
            let mut passed = self.filtered(found, input, access)?;
            if is_all || passed.len() >= limit {
                passed.truncate(limit);
                return Ok(passed);
            }
            looked_at = looked_at.saturating_mul(4);
        }
    }

    fn filtered(
        &self,
        mut found: Vec<RowRef>,
        input: &Input<'_>,
        access: &dyn RowAccess,
    ) -> Result<Vec<RowRef>, DatabaseError> {
        if !self.filter.is_empty() {
            let mut outcome = Ok(());
            found.retain(|&row| {
                outcome.is_ok()
                    && self.passes(input, access, row).unwrap_or_else(|error| {
                        outcome = Err(error);
                        false
                    })
            });
            outcome?;
        }
        Ok(found)
    }

    /// The row at one end of the range.
    pub(super) fn end(
        &self,
        end: End,
        input: &Input<'_>,
        access: &mut dyn RowAccess,
    ) -> Result<Option<RowRef>, DatabaseError> {
        let Access::Range { index, equal, low, high } = &self.access else { unreachable!("it was made for a range") };
        let Some((low, high)) = range(equal, low.as_ref(), high.as_ref(), input)? else { return Ok(None) };
        access.find_end(*index, &keys(&low), &keys(&high), end, Intent::Read)
    }

    fn passes(&self, input: &Input<'_>, access: &dyn RowAccess, row: RowRef) -> Result<bool, DatabaseError> {
        for condition in &self.filter {
            if !condition.holds(input, Row::Stored(access, row))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Both ends of a range of keys.
type Ends<'e> = (&'e [Value<'e>], &'e [Value<'e>]);

fn keys<'v>(scalars: &'v Scalars<'_>) -> SmallVec<[Value<'v>; 3]> {
    let key = |scalar: &'v Scalar<'_>| match scalar {
        Scalar::Int(number) => Value::Int(*number),
        Scalar::Text(text) => Value::Text(text),
        other => unreachable!("no part of a key is {other:?}"),
    };
    scalars.iter().map(key).collect()
}

/// A key that is numbers of which each was given as a parameter, one after the other, as most keys are: it need not be computed.
fn given<'a>(parts: &[Part], input: &Input<'a>) -> Option<&'a [Value<'a>]> {
    let Some(Part { value: Expression::Parameter(first), .. }) = parts.first() else { return None };
    let key = input.parameters.get(*first..first + parts.len())?;
    let mut each = parts.iter().zip(key).enumerate();
    let is_given = each.all(|(place, (part, value))| match (&part.value, value) {
        (Expression::Parameter(at), Value::Int(number)) => {
            *at == first + place
                && matches!(input.types[*at], Type::Int | Type::BigInt)
                && matches!(part.kind, Kind::Int | Kind::BigInt)
                && limits(part.kind).contains(number)
        }
        _ => false,
    });
    is_given.then_some(key)
}

/// The values of parts of a key; `None` if no row can have them: null is equal to nothing, and a column holds no more than fits.
fn scalars<'a>(parts: &'a [Part], input: &Input<'a>) -> Result<Option<Scalars<'a>>, DatabaseError> {
    let mut scalars = Scalars::new();
    for Part { kind, value } in parts {
        let scalar = value.evaluate(input, Row::None)?;
        let is_possible = match (&scalar, kind) {
            (Scalar::Null, _) => false,
            (Scalar::Int(number), kind) => limits(*kind).contains(number),
            (Scalar::Text(text), Kind::Text(bytes_max)) => text.len() <= *bytes_max,
            _ => true,
        };
        if !is_possible {
            return Ok(None);
        }
        scalars.push(scalar);
    }
    Ok(Some(scalars))
}

/// The whole numbers that a column can hold.
fn limits(kind: Kind) -> RangeInclusive<i64> {
    match kind {
        Kind::Int | Kind::Date => i32::MIN.into()..=i32::MAX.into(),
        _ => i64::MIN..=i64::MAX,
    }
}

/// The least and the greatest key of a range, both included; `None` if nothing lies between.
fn range<'a>(
    equal: &'a [Part],
    low: Option<&'a Bound>,
    high: Option<&'a Bound>,
    input: &Input<'a>,
) -> Result<Option<(Scalars<'a>, Scalars<'a>)>, DatabaseError> {
    let Some(mut low_key) = scalars(equal, input)? else { return Ok(None) };
    let mut high_key = low_key.clone();
    let bounds = (edge(low, true, input)?, edge(high, false, input)?);
    match &bounds {
        (Edge::Nothing, _) | (_, Edge::Nothing) => return Ok(None),
        (Edge::At(low), Edge::At(high)) if low.compare(high).is_gt() => return Ok(None),
        _ => {}
    }
    let (low, high) = bounds;
    low.push_to(&mut low_key);
    high.push_to(&mut high_key);
    Ok(Some((low_key, high_key)))
}

/// One end of a range, included.
enum Edge<'a> {
    Open,
    At(Scalar<'a>),
    /// No value lies within.
    Nothing,
}

impl<'a> Edge<'a> {
    fn push_to(self, key: &mut Scalars<'a>) {
        if let Edge::At(scalar) = self {
            key.push(scalar);
        }
    }
}

fn edge<'a>(bound: Option<&'a Bound>, is_low: bool, input: &Input<'a>) -> Result<Edge<'a>, DatabaseError> {
    let Some(Bound { part, is_inclusive }) = bound else { return Ok(Edge::Open) };
    Ok(match (part.value.evaluate(input, Row::None)?, part.kind) {
        (Scalar::Int(number), kind) => {
            let step = i64::from(!is_inclusive);
            let inner = if is_low { number.checked_add(step) } else { number.checked_sub(step) };
            let limits = limits(kind);
            match inner {
                Some(inner) if limits.contains(&inner) => Edge::At(Scalar::Int(inner)),
                // Beyond the limit on its own side, every value lies within.
                Some(inner) if (inner < *limits.start()) == is_low => Edge::Open,
                _ => Edge::Nothing,
            }
        }
        // The filter sees to what is excluded. A text that is too long lies between two that are not.
        (Scalar::Text(text), Kind::Text(bytes_max)) if text.len() > bytes_max => match is_low {
            true => {
                let end = (0..=bytes_max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
                Edge::At(Scalar::Text(text[..end].to_owned().into()))
            }
            false => Edge::Open,
        },
        (text @ Scalar::Text(_), _) => Edge::At(text),
        (_, _) => Edge::Nothing,
    })
}
