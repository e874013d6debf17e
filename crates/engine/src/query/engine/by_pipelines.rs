//! Queries whose pipelines have separate degrees.

use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use plimsoll_policy::{Decision, query_template};

use super::{Degrees, Planner, QueryEngine, rows_of};
use crate::columns::ColumnSnapshot;
use crate::query::QueryError;
use crate::query::pipelines::learner::Learner;
use crate::query::pipelines::meter::PipelineMeters;
use crate::query::pipelines::parallelize::{ChooseDegrees, Request};
use crate::query::usage::UsageMeter;

/// A plan with a degree for each pipeline, and the data for learning from its run.
struct ParallelPlan {
    plan: Arc<dyn ExecutionPlan>,
    decision: Decision,
    meters: Arc<PipelineMeters>,
}

impl QueryEngine {
    /// Runs a query with the degrees that the policy chooses, and reports its times to the learner. A plan that cannot
    /// be made parallel by pipelines runs with one degree.
    pub(super) fn run_by_pipelines(
        &self,
        learner: &Arc<Learner>,
        snapshot: &Arc<ColumnSnapshot>,
        sql: &str,
        meter: &Arc<UsageMeter>,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let _active = learner.begin();
        let template: Arc<str> = query_template(sql).into();
        if learner.known().is_unknown(&template) {
            return self.run_at(self.options.dop, snapshot, sql, meter);
        }
        let planner = self.planner(snapshot, Degrees::OfPipelines)?;
        let threads = self.threads.lease()?;
        let context = self.task_context(planner.state(), meter, &threads).map_err(|error| self.execute_error(error))?;
        let planned = threads.run(plan(planner, sql.to_owned(), Arc::clone(learner), Arc::clone(&template)));
        let Some(ParallelPlan { plan, decision, meters }) = planned.map_err(QueryError::Panicked)?? else {
            drop(threads);
            return self.run_at(self.options.dop, snapshot, sql, meter);
        };
        let began = Instant::now();
        let (sql, jobs) = (sql.to_owned(), self.jobs.clone());
        let task = async move { rows_of(plan, context, jobs, &sql).await };
        let answer = threads.run(task).map_err(QueryError::Panicked)?;
        let batches = answer.map_err(|error| self.execute_error(error))?;
        let pipelines = decision.assigned.degrees.len();
        learner.known().ran(&template, &decision, began.elapsed(), &meters.costs(pipelines));
        Ok(batches)
    }

    /// The plan that the next run of a query would have; `None` if it cannot be cut into pipelines. Nothing is learned from the question.
    pub(super) fn next_plan(
        &self,
        learner: &Arc<Learner>,
        snapshot: &Arc<ColumnSnapshot>,
        sql: &str,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>, QueryError> {
        let planner = self.planner(snapshot, Degrees::OfPipelines)?;
        let (learner, sql) = (Arc::clone(learner), sql.to_owned());
        let planning = async move {
            let template = query_template(&sql);
            let choose: ChooseDegrees =
                Box::new(move |pipelines| learner.known().would_decide(&template, &pipelines.shape, &pipelines.facts));
            planner.plan_by_pipelines(&sql, choose).await
        };
        let (plan, request) = self.threads.lease()?.run(planning).map_err(QueryError::Panicked)??;
        Ok(matches!(request, Request::Done(_)).then_some(plan))
    }
}

/// Plans a query by pipelines; `None` if that cannot be done, which the learner then knows.
async fn plan(
    planner: Planner,
    sql: String,
    learner: Arc<Learner>,
    template: Arc<str>,
) -> Result<Option<ParallelPlan>, QueryError> {
    let decided = Arc::new(Mutex::new(None));
    let choose: ChooseDegrees = {
        let (decided, learner, template) = (Arc::clone(&decided), Arc::clone(&learner), Arc::clone(&template));
        Box::new(move |pipelines| {
            let decision = learner.decide(&template, pipelines);
            let degrees = decision.assigned.degrees.clone();
            *decided.lock() = Some(decision);
            degrees
        })
    };
    let (plan, request) = planner.plan_by_pipelines(&sql, choose).await?;
    let decision = decided.lock().take();
    match (request, decision) {
        (Request::Done(meters), Some(decision)) => Ok(Some(ParallelPlan { plan, decision, meters })),
        (request, _) => {
            // Otherwise the statement has no physical plan that the rule would see.
            let operator = if let Request::Unknown(operator) = &request { operator } else { plan.name() };
            learner.known().note_unknown(&template, operator);
            Ok(None)
        }
    }
}
