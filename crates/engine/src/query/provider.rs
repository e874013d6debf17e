//! A column table as DataFusion sees it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Constraint, Constraints, DFSchema, Result, Statistics};
use datafusion::datasource::TableType;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;

use crate::columns::ColumnTable;
use crate::query::scan::ColumnScan;

/// A [`ColumnTable`] in DataFusion's catalog.
#[derive(Debug)]
pub struct ColumnTableProvider {
    table: Arc<ColumnTable>,
    constraints: Constraints,
}

impl ColumnTableProvider {
    /// Makes a table known to DataFusion.
    pub fn new(table: Arc<ColumnTable>) -> Self {
        let nullable = |column: &usize| table.schema().field(*column).is_nullable();
        let constraint = |key: &Vec<usize>| match key.iter().any(nullable) {
            true => Constraint::Unique(key.clone()),
            false => Constraint::PrimaryKey(key.clone()),
        };
        let constraints = Constraints::new_unverified(table.unique_keys().iter().map(constraint).collect());
        ColumnTableProvider { table, constraints }
    }

    /// The table.
    pub fn table(&self) -> &Arc<ColumnTable> {
        &self.table
    }
}

#[async_trait::async_trait]
impl TableProvider for ColumnTableProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
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
        let schema = DFSchema::try_from(Arc::clone(self.table.schema()))?;
        let physical = |filter: &Expr| state.create_physical_expr(filter.clone(), &schema);
        let filters = filters.iter().map(physical).collect::<Result<Vec<_>>>()?;
        let all = || (0..self.table.schema().fields().len()).collect();
        let columns = projection.cloned().unwrap_or_else(all);
        let partitions = state.config_options().execution.target_partitions;
        let scan = ColumnScan::new(Arc::clone(&self.table), columns, filters, partitions, limit)?;
        Ok(DataSourceExec::from_data_source(scan))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| pushdown(filter)).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(self.table.schema());
        statistics.num_rows = Precision::Exact(self.table.rows());
        Some(statistics)
    }
}

/// The scan evaluates every condition itself, except those on subqueries, which have no value of their own, and those that
/// give another answer each time, which must be asked exactly where the query says.
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
