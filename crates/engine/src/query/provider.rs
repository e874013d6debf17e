//! A table of a snapshot as DataFusion sees it, and the schema in which a planner finds it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Constraint, Constraints, DFSchema, Result, Statistics};
use datafusion::datasource::TableType;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use crate::columns::{ColumnSnapshot, ColumnTable, SnapshotTable};
use crate::query::scan::ColumnScan;

/// The tables that a planner finds: those of the snapshot that it plans for.
#[derive(Debug, Default)]
pub struct SnapshotSchema {
    /// `None` between queries, so that no snapshot outlives its readers here.
    snapshot: Mutex<Option<Arc<ColumnSnapshot>>>,
    /// Whether scans keep the order of their rows to themselves, so that they can be cut into partitions after planning.
    hides_order: bool,
}

impl SnapshotSchema {
    /// A schema whose scans can be cut into partitions after planning.
    pub fn without_order() -> Self {
        SnapshotSchema { hides_order: true, ..SnapshotSchema::default() }
    }

    /// Shows the tables of another snapshot, or none.
    pub fn show(&self, snapshot: Option<Arc<ColumnSnapshot>>) {
        *self.snapshot.lock() = snapshot;
    }

    fn version(&self, name: &str) -> Option<SnapshotTable> {
        self.snapshot.lock().as_ref()?.version(name).cloned()
    }
}

#[async_trait::async_trait]
impl SchemaProvider for SnapshotSchema {
    fn table_names(&self) -> Vec<String> {
        let snapshot = self.snapshot.lock();
        snapshot.iter().flat_map(|snapshot| snapshot.tables()).map(|table| table.name().to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let provider =
            |version| ColumnTableProvider { hides_order: self.hides_order, ..ColumnTableProvider::new(version) };
        Ok(self.version(name).map(|version| Arc::new(provider(version)) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.version(name).is_some()
    }
}

#[derive(Debug)]
pub struct ColumnTableProvider {
    version: SnapshotTable,
    constraints: Constraints,
    hides_order: bool,
}

impl ColumnTableProvider {
    pub fn new(version: SnapshotTable) -> Self {
        let table = version.columns();
        let nullable = |column: &usize| table.schema().field(*column).is_nullable();
        // If a key may be null, DataFusion would assume that only one row lacks it.
        let keys = table.unique_keys().iter().filter(|key| !key.iter().any(nullable));
        let constraints = Constraints::new_unverified(keys.cloned().map(Constraint::PrimaryKey).collect());
        ColumnTableProvider { version, constraints, hides_order: false }
    }

    pub fn table(&self) -> &Arc<ColumnTable> {
        self.version.columns()
    }

    /// The number of rows: exact without changes to the columns, otherwise an estimate.
    pub fn rows(&self) -> Precision<usize> {
        match self.version.overlay() {
            None => Precision::Exact(self.version.rows()),
            Some(_) => Precision::Inexact(self.version.rows()),
        }
    }
}

#[async_trait::async_trait]
impl TableProvider for ColumnTableProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table().schema())
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = DFSchema::try_from(self.schema())?;
        let physical = |filter: &Expr| state.create_physical_expr(filter.clone(), &schema);
        let filters = filters.iter().map(physical).collect::<Result<Vec<_>>>()?;
        let all = || (0..self.table().schema().fields().len()).collect();
        let columns = projection.cloned().unwrap_or_else(all);
        let partitions = state.config_options().execution.target_partitions;
        let scan = ColumnScan::new(self.version.clone(), columns, filters, partitions, limit)?;
        Ok(DataSourceExec::from_data_source(if self.hides_order { scan.without_order() } else { scan }))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| pushdown(filter)).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(self.table().schema());
        statistics.num_rows = self.rows();
        Some(statistics)
    }
}

/// The scan evaluates every condition itself, except those on subqueries, which have no value here, and volatile ones,
/// which must be evaluated exactly where the query says.
fn pushdown(filter: &Expr) -> TableProviderFilterPushDown {
    let unfit = filter.is_volatile() || contains_subquery(filter);
    if unfit { TableProviderFilterPushDown::Unsupported } else { TableProviderFilterPushDown::Exact }
}

fn contains_subquery(filter: &Expr) -> bool {
    use datafusion::common::tree_node::TreeNode;
    let is_subquery = |part: &Expr| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::OuterReferenceColumn(..)
        ))
    };
    filter.exists(is_subquery).unwrap_or(true)
}
