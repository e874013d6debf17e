//! The edge of a job: the plan below it runs on the pool of its class.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use futures::{StreamExt, stream};
use plimsoll_policy::cache_class::CacheClass;

use crate::query::jobs::JobRunner;
use crate::query::pass_through::{PassThrough, PassThroughExec};

/// Batches of a partition that may be on their way from one pool to the other.
const BATCHES_AHEAD: usize = 2;

/// Runs its input on the pool of a class, and passes on its batches. Without pools it only passes them on.
pub type JobExec = PassThroughExec<CacheClass>;

impl PassThrough for CacheClass {
    const NAME: &'static str = "JobExec";

    fn describe(&self, _: &Arc<dyn ExecutionPlan>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class={self}")
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
        _: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let Some(runner) = context.session_config().get_extension::<JobRunner>() else {
            return input.execute(partition, context);
        };
        let schema = input.schema();
        let (input, class, of_job) = (Arc::clone(input), *self, Arc::clone(&schema));
        // Begun when the first batch is wanted: the probe side of a join waits until the build side has reported to the
        // scan which rows it needs. The input is executed there, so that tasks that it starts at once are on the pool
        // of the class, too.
        let job = async move {
            let mut builder = RecordBatchReceiverStream::builder(of_job, BATCHES_AHEAD);
            let sender = builder.tx();
            let work = async move {
                let mut batches = input.execute(partition, context)?;
                while let Some(batch) = batches.next().await {
                    let is_last = batch.is_err();
                    // The receiver is gone if a limit above is satisfied.
                    if sender.send(batch).await.is_err() || is_last {
                        break;
                    }
                }
                Ok(())
            };
            builder.spawn_on(runner.stay(class, work), runner.begin(class));
            builder.build()
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(job).flatten())))
    }
}
