//! Finds the rows of a statement.

use std::ops::RangeInclusive;

use smallvec::SmallVec;

use super::access::{Access, Bound, KeyPart, RowSource};
use super::expression::{Input, Row};
use super::scalar::StoredValue;
use crate::database::DatabaseError;
use crate::schema::{ColumnKind, Index};
use crate::statement::{End, Intent, RowAccess, RowRef, Value};

/// Values of a key. Few keys have more values, so usually nothing is allocated.
type Key<'a> = SmallVec<[StoredValue<'a>; 3]>;

impl RowSource {
    /// Finds the rows, up to a limit, and calls `visit` with each.
    pub(super) fn visit(
        &self,
        intent: Intent,
        limit: Option<usize>,
        input: &Input<'_>,
        access: &mut dyn RowAccess,
        mut visit: impl FnMut(&mut dyn RowAccess, RowRef) -> Result<(), DatabaseError>,
    ) -> Result<(), DatabaseError> {
        match &self.access {
            Access::Row { index, key, first_given } => {
                if limit == Some(0) {
                    return Ok(());
                }
                let columns = key.iter().map(|part| (part.kind, false));
                let found = match first_given.and_then(|first| input.given(first, columns)) {
                    Some(key) => access.find(*index, key, intent)?,
                    None => {
                        let Some(key) = key_of(key, input)? else { return Ok(()) };
                        access.find(*index, &values(&key), intent)?
                    }
                };
                match found {
                    Some(row) if self.passes(input, access, row)? => visit(access, row),
                    _ => Ok(()),
                }
            }
            Access::Range { index, equal, low, high } => {
                let Some((low, high)) = range(equal, low.as_ref(), high.as_ref(), input)? else { return Ok(()) };
                let (low, high) = (values(&low), values(&high));
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
        (low, high): KeyRange<'_>,
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

    /// The first rows that pass the filter. As many rows as needed are read first, then more, until enough have passed.
    fn some(
        &self,
        index: Index,
        ends: KeyRange<'_>,
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
        access.find_end(*index, &values(&low), &values(&high), end, Intent::Read)
    }

    #[inline]
    fn passes(&self, input: &Input<'_>, access: &dyn RowAccess, row: RowRef) -> Result<bool, DatabaseError> {
        for condition in &self.filter {
            if !condition.holds(input, &Row::Stored(access, row))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Both ends of a range of keys.
type KeyRange<'e> = (&'e [Value<'e>], &'e [Value<'e>]);

fn values<'v>(key: &'v Key<'_>) -> SmallVec<[Value<'v>; 3]> {
    key.iter().map(StoredValue::value).collect()
}

/// The values of parts of a key; `None` if no row can have them: null equals nothing, and a column holds only values
/// that fit.
fn key_of<'a>(parts: &'a [KeyPart], input: &Input<'a>) -> Result<Option<Key<'a>>, DatabaseError> {
    let mut key = Key::new();
    for KeyPart { kind, value } in parts {
        let value = value.kept(*kind, input, &Row::None)?;
        let is_possible = match (&value, kind) {
            (StoredValue::Null, _) => false,
            (StoredValue::Int(number), kind) => limits(*kind).contains(number),
            (StoredValue::Text(text), ColumnKind::Text(bytes_max)) => text.len() <= *bytes_max,
            _ => true,
        };
        if !is_possible {
            return Ok(None);
        }
        key.push(value);
    }
    Ok(Some(key))
}

/// The whole numbers that a column can hold.
fn limits(kind: ColumnKind) -> RangeInclusive<i64> {
    match kind {
        ColumnKind::Int | ColumnKind::Date => i32::MIN.into()..=i32::MAX.into(),
        _ => i64::MIN..=i64::MAX,
    }
}

/// The least and the greatest key of a range, both included; `None` if nothing lies between.
fn range<'a>(
    equal: &'a [KeyPart],
    low: Option<&'a Bound>,
    high: Option<&'a Bound>,
    input: &Input<'a>,
) -> Result<Option<(Key<'a>, Key<'a>)>, DatabaseError> {
    let Some(mut low_key) = key_of(equal, input)? else { return Ok(None) };
    let mut high_key = low_key.clone();
    let bounds = (edge(low, true, input)?, edge(high, false, input)?);
    match &bounds {
        (Edge::Nothing, _) | (_, Edge::Nothing) => return Ok(None),
        (Edge::At(low), Edge::At(high)) if low > high => return Ok(None),
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
    At(StoredValue<'a>),
    /// No value lies within.
    Nothing,
}

impl<'a> Edge<'a> {
    fn push_to(self, key: &mut Key<'a>) {
        if let Edge::At(value) = self {
            key.push(value);
        }
    }
}

fn edge<'a>(bound: Option<&'a Bound>, is_low: bool, input: &Input<'a>) -> Result<Edge<'a>, DatabaseError> {
    let Some(Bound { part, is_inclusive }) = bound else { return Ok(Edge::Open) };
    Ok(match (part.value.kept(part.kind, input, &Row::None)?, part.kind) {
        (StoredValue::Int(number), kind) => {
            let step = i64::from(!is_inclusive);
            let inner = if is_low { number.checked_add(step) } else { number.checked_sub(step) };
            let limits = limits(kind);
            match inner {
                Some(inner) if limits.contains(&inner) => Edge::At(StoredValue::Int(inner)),
                // Beyond the limit on its own side, every value lies within.
                Some(inner) if (inner < *limits.start()) == is_low => Edge::Open,
                _ => Edge::Nothing,
            }
        }
        // The filter excludes the bound itself. A text that is too long lies between two shorter ones.
        (StoredValue::Text(text), ColumnKind::Text(bytes_max)) if text.len() > bytes_max => match is_low {
            true => {
                let end = (0..=bytes_max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
                Edge::At(StoredValue::Text(text[..end].to_owned().into()))
            }
            false => Edge::Open,
        },
        (text @ StoredValue::Text(_), _) => Edge::At(text),
        (StoredValue::Null, _) => Edge::Nothing,
    })
}
