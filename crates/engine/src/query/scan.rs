//! The scan of a column table: the leaf of every query plan.
//!
//! Conditions are evaluated here, on compressed columns, and rows that fail are never assembled. Besides the query's own
//! conditions these are the ones that other operators make up while the query runs: a hash join tells the scan on its probe
//! side which keys its build side holds, a top-k which values can no longer matter. Chunks whose minimum and maximum cannot
//! satisfy a condition are skipped whole.
//!
//! The partitions of one scan take chunks from a common queue, so none of them idles while another has work, and each
//! partition still sees its chunks in ascending order.
//!
//! If the chunks are in a file, only the columns that are returned or tested are read, and only of chunks that are not skipped.
//!
//! The partition that scans a chunk merges the changes that the snapshot has for it. Deleted rows are hidden. So are
//! rows with changes to a text column that is read; their new images, and those of new rows, pass through the same
//! conditions. Other changed values are put in their places. A chunk's minima and maxima say nothing about images,
//! which are never skipped, and new values, for which the chunk is read if a condition tests their column. Nor do the
//! table's, so a scan with an overlay promises no exact statistics and no order.

pub mod stream;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{ColumnStatistics, Constraint, Constraints, Result, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use itertools::Itertools;

use crate::columns::SnapshotTable;
use crate::columns::statistics::DistinctCount;
use crate::query::key_bitmap::KeyBits;
use crate::query::predicate::integer_span;
use crate::query::scan::stream::ScanStream;
use crate::query::selectivity::sample_selectivity;

/// A scan of some columns and rows of a table.
#[derive(Debug, Clone)]
pub struct ColumnScan {
    version: SnapshotTable,
    /// The table columns to return, in order.
    projection: Vec<usize>,
    schema: SchemaRef,
    /// Conditions that all returned rows satisfy; their columns are numbered as in the table.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The share of rows expected to satisfy the conditions.
    selectivity: f64,
    /// Bits that other operators supply, besides their conditions.
    key_bits: Vec<Arc<KeyBits>>,
    partitions: usize,
    /// Whether it declares the order of its rows if they come in order.
    tells_order: bool,
    fetch: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
}

impl ColumnScan {
    /// A scan by at most `partitions` partitions that returns the rows satisfying all `filters`, whose columns are numbered as
    /// in the table.
    pub fn new(
        version: SnapshotTable,
        projection: Vec<usize>,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        partitions: usize,
        fetch: Option<usize>,
    ) -> Result<Self> {
        let schema = Arc::new(version.columns().schema().project(&projection)?);
        let selectivity = sample_selectivity(version.columns(), &filters);
        let partitions = partitions.clamp(1, version.chunk_count().max(1));
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(ColumnScan {
            version,
            key_bits: Vec::new(),
            projection,
            schema,
            filters,
            selectivity,
            partitions,
            tells_order: true,
            fetch,
            metrics,
        })
    }

    /// The scan that a plan is, if it is one of ours.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<&ColumnScan> {
        plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<ColumnScan>()
    }

    /// The same scan, which does not report the order of its rows: a plan for it is right for any number of partitions.
    #[must_use]
    pub fn without_order(self) -> Self {
        ColumnScan { tells_order: false, ..self }
    }

    /// The same scan by at most this many partitions; with one, it reports the order of its rows.
    #[must_use]
    pub fn with_partitions(&self, partitions: usize) -> Self {
        let partitions = partitions.clamp(1, self.chunk_count().max(1));
        ColumnScan { partitions, tells_order: true, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() }
    }

    /// The number of chunks, which is the largest useful number of partitions.
    pub fn chunk_count(&self) -> usize {
        self.version.chunk_count()
    }

    /// The table's name.
    pub fn table_name(&self) -> &str {
        self.version.columns().name()
    }

    /// The table, over which changes may be laid, as long as no limit cuts the scan short.
    pub fn whole_table(&self) -> Option<&SnapshotTable> {
        self.fetch.is_none().then_some(&self.version)
    }

    /// These columns of the table and those that conditions name, in ascending order: all that is read for them.
    pub fn columns_read(&self, columns: &[usize]) -> Vec<usize> {
        let tested = self.filters.iter().flat_map(collect_columns).map(|column| column.index());
        columns.iter().copied().chain(tested).sorted().dedup().collect()
    }

    /// The conditions; their columns are numbered as in the table.
    pub fn filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }

    /// The smallest value of a table's column of an integer type, and how many numbers there are up to the largest; `None` for
    /// other types.
    pub fn integer_span(&self, column: usize, kept: &DataType) -> Option<(i64, usize)> {
        let table = self.version.columns();
        (table.schema().field(column).data_type() == kept).then(|| integer_span(table, column))?
    }

    /// How many rows the table has.
    pub fn table_rows(&self) -> usize {
        self.version.rows()
    }

    /// The same scan with bits for one of its conditions.
    pub fn with_key_bits(&self, bits: Arc<KeyBits>) -> Self {
        let mut scan = self.clone();
        scan.key_bits.push(bits);
        scan
    }

    /// The table columns that it returns, in order.
    pub fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// The columns that it returns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows it is expected to return.
    pub fn expected_rows(&self) -> usize {
        self.kept(self.version.rows())
    }

    /// How many partitions read at the same time.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Whether the scan returns all rows of the table as its statistics describe them. DataFusion answers `count`, `min` and `max`
    /// from exact statistics, without a scan.
    fn is_exact(&self) -> bool {
        self.filters.is_empty() && self.version.overlay().is_none()
    }

    fn column_statistics(&self, column: usize) -> ColumnStatistics {
        let summary = &self.version.columns().statistics().columns[column];
        let count =
            |count: usize| if self.is_exact() { Precision::Exact(count) } else { Precision::Inexact(self.kept(count)) };
        let distinct = match summary.distinct {
            DistinctCount::Exact(count) if self.is_exact() => Precision::Exact(count),
            // Of n distinct values, those survive that have at least one surviving row.
            other => Precision::Inexact(other.value().min(self.kept(self.version.rows()).max(1))),
        };
        let bound = |value: &datafusion::common::ScalarValue| match self.is_exact() {
            true => Precision::Exact(value.clone()),
            false => Precision::Inexact(value.clone()),
        };
        ColumnStatistics {
            null_count: count(summary.null_count),
            max_value: bound(&summary.max),
            min_value: bound(&summary.min),
            sum_value: Precision::Absent,
            distinct_count: distinct,
            byte_size: Precision::Inexact(self.kept(summary.byte_size)),
        }
    }

    fn kept(&self, count: usize) -> usize {
        (count as f64 * self.selectivity).ceil() as usize
    }

    /// The columns of an expression over the output, numbered as in the table.
    fn onto_table(&self, expression: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let renumber = |node: Arc<dyn PhysicalExpr>| match node.downcast_ref::<Column>() {
            Some(column) => {
                let onto = Column::new(column.name(), self.projection[column.index()]);
                Ok(Transformed::yes(Arc::new(onto) as Arc<dyn PhysicalExpr>))
            }
            None => Ok(Transformed::no(node)),
        };
        Arc::clone(expression).transform_up(renumber).data()
    }
}

impl DataSource for ColumnScan {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn create_sibling_state(&self, _config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(AtomicUsize::new(0)))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let queue = args.sibling_state.and_then(|state| state.downcast::<AtomicUsize>().ok());
        let stream = ScanStream::new(self, args.partition, queue, &args.context);
        Ok(Box::pin(cooperative(stream)))
    }

    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "table={}, partitions={}", self.version.columns().name(), self.partitions)?;
        write!(f, ", columns=[{}]", self.schema.fields().iter().map(|field| field.name()).join(", "))?;
        if !self.filters.is_empty() {
            write!(f, ", filters=[{}]", self.filters.iter().join(", "))?;
        }
        self.fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let table = self.version.columns();
        // With several partitions, DataFusion would keep the order across its exchanges by merging row by row, which costs
        // more than the hash aggregation it saves.
        let is_one_piece = self.tells_order && self.partitions == 1 && self.version.overlay().is_none();
        let is_ordered = |column: usize| is_one_piece && table.statistics().columns[column].ascending;
        let ascending = self.projection.iter().enumerate().filter(|(_, column)| is_ordered(**column));
        let options = SortOptions { descending: false, nulls_first: false };
        let orderings = ascending.map(|(place, _)| {
            let column = Column::new(self.schema.field(place).name(), place);
            [PhysicalSortExpr::new(Arc::new(column), options)]
        });
        let place = |column: &usize| self.projection.iter().position(|projected| projected == column);
        let keys = table.unique_keys().iter();
        let keys = keys.filter_map(|key| key.iter().map(place).collect::<Option<Vec<_>>>()).map(Constraint::Unique);
        EquivalenceProperties::new_with_orderings(Arc::clone(&self.schema), orderings.collect_vec())
            .with_constraints(Constraints::new_unverified(keys.collect()))
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let rows = self.fetch.unwrap_or(usize::MAX).min(self.kept(self.version.rows()));
        let columns: Vec<ColumnStatistics> =
            self.projection.iter().map(|&column| self.column_statistics(column)).collect();
        let bytes = columns.iter().filter_map(|column| column.byte_size.get_value()).sum();
        let (num_rows, total_byte_size) = match partition {
            // Which partition gets which chunk is only known afterwards.
            Some(_) => (Precision::Inexact(rows / self.partitions), Precision::Inexact(bytes / self.partitions)),
            None if self.is_exact() => (Precision::Exact(rows), Precision::Inexact(bytes)),
            None => (Precision::Inexact(rows), Precision::Inexact(bytes)),
        };
        let statistics = Statistics { num_rows, total_byte_size, column_statistics: columns };
        Ok(Arc::new(if partition.is_some() || self.fetch.is_some() { statistics.to_inexact() } else { statistics }))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(ColumnScan { fetch: limit, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        let plain = projection.iter().map(|projected| {
            let column = projected.expr.downcast_ref::<Column>()?;
            (column.name() == projected.alias).then(|| self.projection[column.index()])
        });
        let Some(columns) = plain.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let schema = Arc::new(self.version.columns().schema().project(&columns)?);
        Ok(Some(Arc::new(ColumnScan { projection: columns, schema, ..self.clone() })))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        // A limit counts the rows of the scan as it is, so no condition may be added below it.
        if filters.is_empty() || self.fetch.is_some() {
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::No; filters.len()]));
        }
        let mut scan = self.clone();
        for filter in &filters {
            scan.filters.push(self.onto_table(filter)?);
        }
        scan.selectivity = sample_selectivity(scan.version.columns(), &scan.filters);
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::Yes; filters.len()]);
        Ok(propagation.with_updated_node(Arc::new(scan) as Arc<dyn DataSource>))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in &self.filters {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
