//! All conditions of a running scan: the query's own, and those that other operators supply and sharpen as they run.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};

use crate::columns::ColumnTable;
use crate::query::key_bitmap::KeyBits;
use crate::query::morsel::Morsel;
use crate::query::predicate::Predicate;
use crate::query::prune::possible_chunks;
use crate::query::scan::stream::is_dynamic;

/// A supplied condition that lets more than this share of rows pass is dropped: it is redundant by construction, since its
/// operator checks again.
const USELESS_PASS_SHARE: f64 = 0.8;

/// Rows after which a supplied condition is judged.
const TRIAL_ROWS: usize = 32 * 1024;

pub struct Filters {
    table: Arc<ColumnTable>,
    own_expressions: Vec<Arc<dyn PhysicalExpr>>,
    /// The query's own conditions, prepared when the first rows are wanted: a condition may hold the result of a subquery
    /// that is not there before.
    own: Option<Vec<Predicate>>,
    supplied: Vec<Supplied>,
    /// Which chunks can hold rows that satisfy the query's own conditions.
    possible: Vec<bool>,
    /// The columns that conditions name.
    tested: HashSet<usize>,
}

/// A condition that another operator supplies.
struct Supplied {
    source: Arc<dyn PhysicalExpr>,
    /// The same as bits.
    bits: Option<Arc<KeyBits>>,
    /// Its version that `parts` and `possible` were made from.
    generation: u64,
    parts: Vec<Trial>,
    possible: Option<Vec<bool>>,
}

/// A part of a supplied condition, and how well it does.
struct Trial {
    predicate: Predicate,
    seen: usize,
    passed: usize,
}

impl Trial {
    fn is_useful(&self) -> bool {
        self.seen < TRIAL_ROWS || self.passed as f64 <= USELESS_PASS_SHARE * self.seen as f64
    }
}

impl Filters {
    /// Takes conditions whose columns are numbered as in the table, and bits that say the same as some of them.
    pub fn new(table: Arc<ColumnTable>, filters: &[Arc<dyn PhysicalExpr>], key_bits: &[Arc<KeyBits>]) -> Self {
        let parts = filters.iter().flat_map(split_conjunction).cloned();
        let (dynamic, own_expressions): (Vec<_>, Vec<_>) = parts.partition(is_dynamic);
        let supply = |source| {
            let bits = key_bits.iter().find(|bits| bits.says(&source)).cloned();
            Supplied { source, bits, generation: 0, parts: Vec::new(), possible: None }
        };
        let supplied = dynamic.into_iter().map(supply).collect();
        let tested = filters.iter().flat_map(collect_columns).map(|column| column.index()).collect();
        Filters { table, own_expressions, own: None, supplied, possible: Vec::new(), tested }
    }

    /// Whether there is nothing to evaluate at present.
    pub fn are_empty(&self) -> bool {
        self.own_expressions.is_empty() && self.supplied.iter().all(|supplied| supplied.parts.is_empty())
    }

    /// Looks whether other operators know more by now. Called before each chunk.
    pub fn refresh(&mut self) -> Result<()> {
        if self.own.is_none() {
            let own = self.own_expressions.iter().map(|part| Predicate::new(&self.table, part));
            self.own = Some(cheapest_first(own.collect::<Result<_>>()?));
            self.possible = possible_chunks(&self.table, &self.own_expressions);
        }
        for supplied in &mut self.supplied {
            supplied.refresh(&self.table)?;
        }
        Ok(())
    }

    /// Whether a chunk's own rows can satisfy all conditions. Changes to it may satisfy them even if its own rows
    /// cannot.
    pub fn may_match(&self, chunk: usize) -> bool {
        let by_supplied = |supplied: &Supplied| supplied.possible.as_ref().is_none_or(|possible| possible[chunk]);
        self.possible.get(chunk) == Some(&true) && self.supplied.iter().all(by_supplied)
    }

    /// Whether a condition names a column.
    pub fn tests(&self, column: usize) -> bool {
        self.tested.contains(&column)
    }

    /// The existing rows of a morsel (all if `visible` is `None`) that satisfy all conditions; `None` for all of them.
    pub fn select(&mut self, morsel: &Morsel<'_>, visible: Option<BooleanBuffer>) -> Result<Option<BooleanBuffer>> {
        let mut selected = visible;
        for predicate in self.own.iter_mut().flatten() {
            if selected.as_ref().is_some_and(|selected| selected.count_set_bits() == 0) {
                return Ok(selected);
            }
            selected = Some(predicate.select(morsel, selected.as_ref())?);
        }
        for supplied in &mut self.supplied {
            for trial in &mut supplied.parts {
                let before = selected.as_ref().map_or(morsel.rows, BooleanBuffer::count_set_bits);
                if before == 0 {
                    return Ok(selected);
                }
                let passing = trial.predicate.select(morsel, selected.as_ref())?;
                trial.seen += before;
                trial.passed += passing.count_set_bits();
                selected = Some(passing);
            }
            supplied.parts.retain(Trial::is_useful);
        }
        Ok(selected)
    }
}

impl Supplied {
    fn refresh(&mut self, table: &ColumnTable) -> Result<()> {
        let generation = snapshot_generation(&self.source);
        if generation == self.generation {
            return Ok(());
        }
        self.generation = generation;
        let current = snapshot_physical_expr(Arc::clone(&self.source))?;
        let parts: Vec<_> = split_conjunction(&current).into_iter().filter(|part| !is_true(part)).cloned().collect();
        self.possible = (!parts.is_empty()).then(|| possible_chunks(table, &parts));
        let bits = self.bits.as_ref().and_then(|bits| Some((bits.first, bits.get()?)));
        let tabulated = match bits {
            Some((first, bits)) if !parts.is_empty() => {
                vec![Predicate::of_numbers(table, &current, first, bits.clone())?]
            }
            _ => parts.iter().map(|part| Predicate::tabulated(table, part)).collect::<Result<_>>()?,
        };
        let trial = |predicate| Trial { predicate, seen: 0, passed: 0 };
        self.parts = cheapest_first(tabulated).into_iter().map(trial).collect();
        Ok(())
    }
}

/// Expensive conditions see fewer rows after cheap ones.
fn cheapest_first(mut predicates: Vec<Predicate>) -> Vec<Predicate> {
    predicates.sort_by_key(Predicate::cost);
    predicates
}

fn is_true(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let literal = expression.downcast_ref::<Literal>();
    literal.is_some_and(|literal| *literal.value() == ScalarValue::Boolean(Some(true)))
}
