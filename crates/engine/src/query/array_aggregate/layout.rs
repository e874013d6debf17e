//! The computations of an array aggregation, and the test whether an aggregation can be one.

use std::ops::{AddAssign, Range};
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, UInt64Array};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::aggregates::AggregateExec;
use itertools::Itertools;

use crate::columns::SnapshotTable;
use crate::columns::encode::ChunkColumn;
use crate::query::array_aggregate::keys::Key;
use crate::query::array_aggregate::narrow::{Program, Scope};
use crate::query::array_aggregate::totals::{Sum, Totals};
use crate::query::scan::ColumnScan;

/// Groups that arrays may always have, however few rows there are.
const GROUPS_FREE: usize = 64 * 1024;

/// The ratio of groups to rows that arrays may have beyond that: places without a row cost time and memory, too.
const GROUPS_PER_ROW_MAX: usize = 2;

/// Groups for each partition that reads them: fewer are read before another thread has woken up.
const GROUPS_PER_PARTITION: usize = 32 * 1024;

/// Bytes that the arrays of all threads may take.
const BYTES_MAX: usize = 1 << 30;

#[derive(Debug)]
pub struct Layout {
    pub keys: Vec<Key>,
    pub groups: usize,
    pub program: Program,
    pub sums: Vec<Sum>,
    aggregates: Vec<Aggregate>,
    pub columns: Vec<usize>,
    pub thread_bytes: usize,
}

#[derive(Debug)]
struct Aggregate {
    function: Arc<AggregateFunctionExpr>,
    /// Its state in DataFusion's form.
    states: Vec<(DataType, StateSource)>,
}

/// The source of a state.
#[derive(Debug, Clone, Copy)]
enum StateSource {
    Count,
    Sum(usize),
}

/// Resolves an expression over the aggregation's input to one over the scan's columns.
pub type Resolve<'a> = dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> + 'a;

impl Layout {
    /// The layout of an aggregation's first phase over a scan; `None` if it cannot be done in arrays, or should not.
    pub fn new(partial: &AggregateExec, scan: &ColumnScan, resolve: &Resolve<'_>) -> Option<Layout> {
        let version = scan.whole_table()?;
        let (table, changes) = (version.columns(), version.overlay().map(|overlay| overlay.entries()));
        let rows_max = table.rows() + changes.unwrap_or(0);
        let groups = partial.group_expr();
        let is_plain = groups.is_single() && !groups.is_empty() && partial.filter_expr().iter().all(Option::is_none);
        if !is_plain || partial.limit_options().is_some() || u32::try_from(rows_max).is_err() {
            return None;
        }
        let keys = groups.expr().iter().map(|(key, _)| {
            let key = resolve(key).ok()?;
            Key::new(table, scan.projection()[key.downcast_ref::<Column>()?.index()], changes.is_some())
        });
        let keys = keys.collect::<Option<Vec<Key>>>()?;
        let groups = keys.iter().try_fold(1usize, |groups, key| groups.checked_mul(key.span))?;
        let groups_max = GROUPS_FREE.max(scan.expected_rows().saturating_mul(GROUPS_PER_ROW_MAX));
        if groups == 0 || groups > groups_max.min(u32::MAX as usize - 1) {
            return None;
        }
        let (projection, schema) = (scan.projection(), scan.schema());
        let scope = Scope { table, projection, schema, has_changes: changes.is_some(), rows_max };
        let mut layout = Layout {
            columns: keys.iter().map(|key| key.column).collect(),
            keys,
            groups,
            program: Program::default(),
            sums: Vec::new(),
            aggregates: Vec::new(),
            thread_bytes: 0,
        };
        partial.aggr_expr().iter().try_for_each(|function| layout.add_aggregate(function, &scope, resolve))?;
        layout.columns = layout.columns.iter().copied().chain(layout.program.columns()).sorted().dedup().collect();
        let positions: usize = table.chunks().iter().map(|chunk| chunk.rows()).sum();
        layout.thread_bytes = Totals::bytes(groups, &layout.sums, positions + changes.unwrap_or(0));
        (layout.thread_bytes.checked_mul(scan.partitions())? <= BYTES_MAX).then_some(layout)
    }

    fn add_aggregate(
        &mut self,
        function: &Arc<AggregateFunctionExpr>,
        scope: &Scope<'_>,
        resolve: &Resolve<'_>,
    ) -> Option<()> {
        if function.is_distinct() || !function.order_bys().is_empty() || !function.groups_accumulator_supported() {
            return None;
        }
        let [argument] = &function.expressions()[..] else { return None };
        let argument = resolve(argument).ok()?;
        let source = match function.fun().name() {
            "count" => never_null(&argument, scope).then_some(StateSource::Count)?,
            "sum" | "avg" => StateSource::Sum(self.add_sum(&argument, scope)?),
            _ => return None,
        };
        let state = |of_type: &DataType| match (of_type, source) {
            (DataType::Int64 | DataType::UInt64, StateSource::Count) => Some(StateSource::Count),
            (DataType::UInt64, StateSource::Sum(_)) => Some(StateSource::Count),
            // DataFusion wraps what does not fit; here it must be impossible.
            (DataType::Int64, StateSource::Sum(sum)) => {
                let magnitude = u128::from(self.sums[sum].magnitude);
                (magnitude * scope.rows_max as u128 <= i64::MAX as u128).then_some(source)
            }
            (DataType::Decimal128(_, scale), StateSource::Sum(_)) => {
                let DataType::Decimal128(_, kept) = argument.data_type(scope.schema).ok()? else { return None };
                (*scale == kept).then_some(source)
            }
            _ => None,
        };
        let fields = function.state_fields().ok()?;
        let states = fields.iter().map(|field| Some((field.data_type().clone(), state(field.data_type())?)));
        let states = states.collect::<Option<Vec<_>>>()?;
        self.aggregates.push(Aggregate { function: Arc::clone(function), states });
        Some(())
    }

    fn add_sum(&mut self, argument: &Arc<dyn PhysicalExpr>, scope: &Scope<'_>) -> Option<usize> {
        let (step, _) = self.program.add(argument, scope)?;
        let sum = Sum { step, magnitude: self.program.magnitude(step) };
        if let Some(same) = self.sums.iter().position(|earlier| earlier.step == step) {
            return Some(same);
        }
        Totals::can_add(sum).then(|| self.sums.push(sum))?;
        Some(self.sums.len() - 1)
    }

    /// Whether all changes that are laid over the table have values for which there is room. Minima and maxima do not say.
    pub fn holds_changes(&self, scan: &ColumnScan) -> Result<bool> {
        let Some(overlay) = scan.whole_table().and_then(SnapshotTable::overlay) else { return Ok(true) };
        let read = scan.columns_read(&self.columns);
        for chunk in 0..overlay.chunk_count() {
            let Some(changes) = overlay.chunk(chunk, &read)? else { continue };
            let patches = changes.patches.iter().map(|patch| (patch.column, &patch.values));
            let images = changes.images.columns.iter().enumerate();
            let images = images.filter_map(|(column, values)| Some((column, values.as_ref()?)));
            if !patches.chain(images).all(|(column, values)| self.holds(column, values)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn holds(&self, column: usize, values: &ArrayRef) -> bool {
        let mut keys = self.keys.iter().filter(|key| key.column == column);
        keys.all(|key| key.holds(values)) && self.program.holds(column, values)
    }

    /// A column in the form in which rows are added up: texts of images get codes.
    pub fn coded(&self, column: usize, kept: ChunkColumn) -> ChunkColumn {
        let ChunkColumn::Plain(values) = &kept else { return kept };
        let key = self.keys.iter().find(|key| key.column == column);
        key.and_then(|key| key.codes(values)).unwrap_or(kept)
    }

    /// The number of partitions among which reading groups is worthwhile.
    pub fn partitions_max(&self) -> usize {
        (self.groups / GROUPS_PER_PARTITION).max(1)
    }

    /// The groups that one of some partitions reads off: whole blocks of places.
    pub fn groups_of(&self, partition: usize, partitions: usize) -> Range<usize> {
        let blocks = self.groups.div_ceil(Totals::BLOCK);
        let first = |partition: usize| (blocks * partition / partitions * Totals::BLOCK).min(self.groups);
        first(partition)..first(partition + 1)
    }

    /// The results of some groups, from what the threads that have rows of them have added up.
    pub fn results(&self, schema: &SchemaRef, groups: &[usize], totals: &[&Totals]) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        let mut below = self.groups;
        for key in &self.keys {
            below /= key.span;
            let numbers = groups.iter().map(|group| (group / below % key.span) as u32);
            columns.push(key.values(numbers.collect())?);
        }
        let each_its_own: Vec<usize> = (0..groups.len()).collect();
        for Aggregate { function, states } in &self.aggregates {
            let states = states.iter().map(|(of_type, source)| state(of_type, *source, groups, totals));
            // DataFusion's own last phase, because only the function can interpret its state.
            let mut accumulator = function.create_groups_accumulator()?;
            accumulator.merge_batch(&states.collect::<Result<Vec<_>>>()?, &each_its_own, groups.len())?;
            columns.push(accumulator.evaluate(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    }
}

fn state(of_type: &DataType, source: StateSource, groups: &[usize], totals: &[&Totals]) -> Result<ArrayRef> {
    Ok(match (of_type, source) {
        (DataType::UInt64, StateSource::Count) => Arc::new(UInt64Array::from(added(groups, totals, Totals::count))),
        (DataType::Int64, StateSource::Count) => {
            Arc::new(Int64Array::from(added(groups, totals, |totals, group| totals.count(group) as i64)))
        }
        (DataType::Int64, StateSource::Sum(sum)) => {
            let sums = added(groups, totals, |totals, group| totals.sum(sum, group));
            Arc::new(Int64Array::from_iter_values(sums.into_iter().map(|sum| sum as i64)))
        }
        (DataType::Decimal128(precision, scale), StateSource::Sum(sum)) => {
            let sums = Decimal128Array::from(added(groups, totals, |totals, group| totals.sum(sum, group)));
            Arc::new(sums.with_precision_and_scale(*precision, *scale)?)
        }
        _ => return internal_err!("an array aggregation has no state of type {of_type}"),
    })
}

/// The sum of what threads have of each group.
fn added<T: Default + Clone + AddAssign>(
    groups: &[usize],
    totals: &[&Totals],
    of: impl Fn(&Totals, usize) -> T,
) -> Vec<T> {
    let mut sums = vec![T::default(); groups.len()];
    for totals in totals {
        sums.iter_mut().zip(groups).for_each(|(sum, group)| *sum += of(totals, *group));
    }
    sums
}

fn never_null(expression: &Arc<dyn PhysicalExpr>, scope: &Scope<'_>) -> bool {
    if let Some(column) = expression.downcast_ref::<Column>() {
        let column = scope.projection[column.index()];
        let may_become_null = scope.has_changes && scope.table.schema().field(column).is_nullable();
        return !may_become_null && scope.table.statistics().columns[column].null_count == 0;
    }
    expression.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
}
