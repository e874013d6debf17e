//! Texts in memory of their own on the way to hash joins, if batches are very small.
//!
//! A batch of texts points into memory that it shares with others. The rows that a join keeps point into that of all of their
//! batches, and so does every batch that the join makes. With batches of a few rows, that is a list as long as the build side
//! in each of them, and the next join would keep as many of these lists as rows: memory that grows with the product.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use crate::query::pass_through::{PassThrough, PassThroughExec};

/// Batches of fewer rows are very small. A memory grant makes none of them.
const FEW_ROWS: usize = 128;

/// Puts an operator that copies texts on the build sides of hash joins.
#[derive(Debug)]
pub struct OwnTexts;

impl PhysicalOptimizerRule for OwnTexts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if config.execution.batch_size.get() >= FEW_ROWS {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>().filter(|join| has_texts(join.left())) else {
                return Ok(Transformed::no(node));
            };
            let build = Arc::new(PassThroughExec::new(Arc::clone(join.left()), Copying));
            let children = vec![build as _, Arc::clone(join.right())];
            replace_children_if_necessary(Arc::clone(&node), children).map(Transformed::yes)
        })
        .data()
    }

    fn name(&self) -> &str {
        "own_texts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn has_texts(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.schema().fields().iter().any(|field| *field.data_type() == DataType::Utf8View)
}

/// Copies texts.
#[derive(Debug, Clone)]
struct Copying;

impl PassThrough for Copying {
    const NAME: &'static str = "OwnTextsExec";

    fn describe(&self, _input: &Arc<dyn ExecutionPlan>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows={FEW_ROWS}")
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let input = input.execute(partition, context)?;
        let schema = input.schema();
        let own = input.map(|batch| batch.and_then(|batch| with_own_texts(&batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, own)))
    }
}

fn with_own_texts(batch: &RecordBatch) -> Result<RecordBatch> {
    let own = |column: &ArrayRef| match column.as_string_view_opt() {
        Some(texts) => Arc::new(texts.gc()) as ArrayRef,
        None => Arc::clone(column),
    };
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().iter().map(own).collect();
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}
