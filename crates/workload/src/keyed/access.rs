//! How the rows of a statement are found: by the whole primary key, or as a range of an index.

use sqlparser::tokenizer::Location;

use super::SqlError;
use super::analysis::{INSTEAD, refused};
use super::expression::{Comparison, Expression, first_given};
use super::scalar::Type;
use crate::schema::{ColumnId, ColumnKind, DeclaredTable, Index};

/// The rows of a table that a statement works on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowSource {
    pub(super) access: Access,
    /// Further conditions on each row found.
    pub(super) filter: Vec<Expression>,
    /// Whether they are read from the last one backwards.
    pub(super) is_descending: bool,
}

/// A way to rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Access {
    /// The one row with that primary key. If the key consists of parameters only, [the
    /// first](super::expression::first_given) is known.
    Row { index: Index, key: Vec<KeyPart>, first_given: Option<usize> },
    /// Those whose keys begin with `equal`, and whose next column lies between the bounds.
    Range { index: Index, equal: Vec<KeyPart>, low: Option<Bound>, high: Option<Bound> },
}

/// One column of a key. The expression does not depend on rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeyPart {
    pub(super) kind: ColumnKind,
    pub(super) value: Expression,
}

/// One end of a range.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bound {
    pub(super) part: KeyPart,
    pub(super) is_inclusive: bool,
}

/// The order in which a statement requires its rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Requirement<'a> {
    /// The columns of ORDER BY, and whether each is descending.
    pub(super) order: &'a [(ColumnId, bool)],
    /// Whether the number of rows is limited, so that the whole index may be the range.
    pub(super) is_limited: bool,
}

/// A condition on a column that an index can use, by its position among all conditions.
#[derive(Debug, Clone, Copy)]
struct IndexCondition<'a> {
    position: usize,
    column: ColumnId,
    kind: ColumnKind,
    comparison: Comparison,
    value: &'a Expression,
}

impl IndexCondition<'_> {
    fn part(&self) -> KeyPart {
        KeyPart { kind: self.kind, value: self.value.clone() }
    }

    fn bound(&self) -> Bound {
        let is_inclusive = matches!(self.comparison, Comparison::LessOrEqual | Comparison::GreaterOrEqual);
        Bound { part: self.part(), is_inclusive }
    }
}

/// The use of an index for a statement.
#[derive(Debug)]
struct Candidate<'a> {
    number: usize,
    equal: Vec<IndexCondition<'a>>,
    low: Option<IndexCondition<'a>>,
    high: Option<IndexCondition<'a>>,
    is_whole_key: bool,
    /// Whether rows are read from the last one backwards; `None` if the index has another order.
    is_descending: Option<bool>,
}

impl Candidate<'_> {
    fn has_bound(&self) -> bool {
        self.low.is_some() || self.high.is_some()
    }

    /// Whether it finds fewer than all rows. If only the first rows are needed, the range can be the whole index.
    fn is_selective(&self, takes_first: bool) -> bool {
        !self.equal.is_empty() || self.has_bound() || (takes_first && self.is_descending.is_some())
    }

    /// The more of a key is given, the fewer rows it finds.
    fn rank(&self, takes_first: bool) -> (bool, bool, bool, usize, bool) {
        let is_in_order = self.is_descending.is_some();
        (self.is_whole_key, self.is_selective(takes_first), is_in_order, self.equal.len(), self.has_bound())
    }
}

/// Chooses an access for the rows that satisfy all conditions. `at` is the place for errors about the choice.
pub(super) fn choose(
    table: &DeclaredTable,
    number: usize,
    condition: Option<Expression>,
    wanted: Requirement<'_>,
    at: Location,
) -> Result<RowSource, SqlError> {
    let mut conditions = Vec::new();
    condition.into_iter().for_each(|condition| split(condition, &mut conditions));
    let usable: Vec<IndexCondition<'_>> =
        conditions.iter().enumerate().filter_map(|(position, condition)| usable(position, condition)).collect();
    let indexes = (0..=table.secondary.len()).filter(|&index| !table.index_columns(index).is_empty());
    let takes_first = wanted.is_limited && conditions.is_empty();
    let best = indexes.map(|index| candidate(table, index, &usable, wanted)).max_by_key(|candidate| {
        // Of equals the first, which is the primary key or was declared first.
        (candidate.rank(takes_first), std::cmp::Reverse(candidate.number))
    });
    let Some(best) = best.filter(|best| best.is_selective(takes_first)) else {
        return refused(
            at,
            format!("every row of `{}` would be looked at; {}", table.name, advice(table, &conditions)),
        );
    };
    let Some(is_descending) = best.is_descending else {
        let columns: Vec<&str> = wanted.order.iter().map(|(column, _)| table.columns[*column].name.as_str()).collect();
        return refused(
            at,
            format!(
                "no index gives the rows in the order of {}; make one with the columns that WHERE compares for equality, then \
                 those of ORDER BY, all in one direction",
                columns.join(", ")
            ),
        );
    };
    let index = Index { table: number, number: best.number };
    let key: Vec<KeyPart> = best.equal.iter().map(IndexCondition::part).collect();
    let access = if best.is_whole_key {
        let first_given = first_given(key.iter().map(|part| &part.value));
        Access::Row { index, key, first_given }
    } else {
        let bound = |usable: &Option<IndexCondition<'_>>| usable.as_ref().map(IndexCondition::bound);
        Access::Range { index, equal: key, low: bound(&best.low), high: bound(&best.high) }
    };
    // A range's bounds on texts are not exact: the filter excludes the bound itself, and handles texts too long for the
    // column.
    let is_exact = |usable: &&IndexCondition<'_>| !matches!(usable.kind, ColumnKind::Text(_));
    let bounds = best.low.iter().chain(&best.high).filter(is_exact);
    let used: Vec<usize> = best.equal.iter().chain(bounds).map(|usable| usable.position).collect();
    let mut position = 0;
    conditions.retain(|_| {
        position += 1;
        !used.contains(&(position - 1))
    });
    Ok(RowSource { access, filter: conditions, is_descending })
}

/// Splits a condition into the parts that must all hold.
fn split(condition: Expression, into: &mut Vec<Expression>) {
    match condition {
        Expression::And(sides) => (*sides).into_iter().for_each(|side| split(side, into)),
        other => into.push(other),
    }
}

fn usable(position: usize, condition: &Expression) -> Option<IndexCondition<'_>> {
    let Expression::Compare { comparison, kinds, sides } = condition else { return None };
    let (column, kind, comparison, value, value_kind) = match &**sides {
        [Expression::Column(of), value] => (of.column, of.kind, *comparison, value, kinds[1]),
        [value, Expression::Column(of)] => (of.column, of.kind, comparison.flipped(), value, kinds[0]),
        _ => return None,
    };
    let is_key = match kind {
        ColumnKind::Int | ColumnKind::BigInt => matches!(value_kind, Type::Int | Type::BigInt),
        // Numerics of any number of places are compared with it.
        ColumnKind::Decimal { .. } => false,
        ColumnKind::Text(_) | ColumnKind::Date | ColumnKind::Timestamp => value_kind == Type::from(kind),
    };
    let is_usable = is_key && comparison != Comparison::Unequal && !value.reads_row();
    is_usable.then_some(IndexCondition { position, column, kind, comparison, value })
}

fn candidate<'a>(
    table: &DeclaredTable,
    number: usize,
    usable: &[IndexCondition<'a>],
    wanted: Requirement<'_>,
) -> Candidate<'a> {
    let columns = table.index_columns(number);
    let on = |column: ColumnId, comparisons: &[Comparison]| {
        usable.iter().find(|usable| usable.column == column && comparisons.contains(&usable.comparison)).copied()
    };
    let equal: Vec<IndexCondition<'a>> = columns.iter().map_while(|&column| on(column, &[Comparison::Equal])).collect();
    let is_whole_key = number == 0 && equal.len() == columns.len();
    let next = columns.get(equal.len());
    let bound = |comparisons: &[Comparison]| next.and_then(|&column| on(column, comparisons));
    let low = bound(&[Comparison::Greater, Comparison::GreaterOrEqual]);
    let high = bound(&[Comparison::Less, Comparison::LessOrEqual]);
    let is_descending =
        if is_whole_key { Some(false) } else { direction(columns, equal.len(), number == 0, wanted.order) };
    Candidate { number, equal, low, high, is_whole_key, is_descending }
}

/// The end from which rows that are equal in an index's first columns come in the given order: whether from the last
/// one backwards. `None` if from neither.
fn direction(columns: &[ColumnId], equal: usize, is_unique: bool, order: &[(ColumnId, bool)]) -> Option<bool> {
    let mut rest = columns[equal..].iter();
    let mut direction = None;
    for (column, is_descending) in order.iter().filter(|(column, _)| !columns[..equal].contains(column)) {
        match rest.next() {
            Some(next) if next == column && direction.is_none_or(|direction| direction == *is_descending) => {
                direction = Some(*is_descending);
            }
            // No two rows are equal in all columns of the key.
            None if is_unique => break,
            _ => return None,
        }
    }
    Some(direction.unwrap_or(false))
}

/// The remedy if no index helps.
fn advice(table: &DeclaredTable, conditions: &[Expression]) -> String {
    let compared = conditions.iter().enumerate().filter_map(|(position, condition)| usable(position, condition));
    let names: Vec<&str> = compared.map(|usable| table.columns[usable.column].name.as_str()).collect();
    match names.is_empty() {
        true => format!("compare a column of an index with a value, or {INSTEAD}"),
        false => format!("make an index on {}, or {INSTEAD}", names.join(", ")),
    }
}
