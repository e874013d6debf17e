//! From SQL text and a snapshot to rows.

mod by_pipelines;

use std::path::PathBuf;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionState;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::optimizer::{PhysicalOptimizer, PhysicalOptimizerRule};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;
use plimsoll_policy::{ParallelismFigures, ParallelismPolicy, query_template};

use crate::columns::folder::DEFAULT_FOLDER;
use crate::columns::{ColumnSnapshot, DiskFolder};
use crate::query::QueryError;
use crate::query::array_aggregate::ArrayAggregation;
use crate::query::dependencies::Dependencies;
use crate::query::grant::{MemoryGrant, exhausted};
use crate::query::jobs::{CacheJobs, JobFigures, JobPlanner};
use crate::query::join_order::JoinOrder;
use crate::query::key_bitmap::KeyBitmaps;
use crate::query::own_texts::OwnTexts;
use crate::query::pipelines::parallelize::{ChooseDegrees, Parallelize, Request, RequestSlot};
use crate::query::pipelines::{Learner, LoadProbe};
use crate::query::pool::QueryPool;
use crate::query::postgresql;
use crate::query::provider::SnapshotSchema;
use crate::query::push_filters::PushFilters;
use crate::query::remote;
use crate::query::threads::{Pool, QueryThreads, ThreadPools, ThreadStart};
use crate::query::usage::{QueryUsage, UsageMeter};

/// How many idle planners are kept: more clients than this rarely plan at the same time.
const PLANNERS_MAX: usize = 64;

/// Bytes of a hash join's build side up to which all partitions share it, divided by the degree of parallelism.
const SHARED_BUILD_BYTES: usize = 512 << 20;

/// The same in rows, where the size in bytes is not known.
const SHARED_BUILD_ROWS: usize = 16 << 20;

/// The share of numbers between smallest and largest build key that must be keys for a join to use an array instead of a hash
/// table: the array takes four bytes per number, at most 100 per key.
const KEY_DENSITY_MIN: f64 = 0.04;

/// The default of [`QueryOptions::batch_rows`].
pub const BATCH_ROWS: usize = 16 * 1024;

/// The options of a [`QueryEngine`].
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// The degree of parallelism of a query that does not request another one. With `parallelism`, the most partitions
    /// of a pipeline.
    pub dop: usize,
    /// The number of worker threads: of all queries together, or of each query.
    pub workers: usize,
    /// Which threads a query runs on.
    pub query_threads: QueryThreads,
    /// Chooses the degree of each pipeline; `None` if the planner makes all of a query's plan for `dop` partitions.
    pub parallelism: Option<Arc<dyn ParallelismPolicy>>,
    /// How busy the machine is, for `parallelism`.
    pub load: LoadProbe,
    /// How queries are divided into jobs by their use of the cache; `None` if they are not.
    pub cache: Option<CacheJobs>,
    /// The name of the worker threads.
    pub thread_name: String,
    /// What each worker thread does first.
    pub thread_start: ThreadStart,
    /// The rows that an operator passes on at a time. With fewer than [`BATCH_ROWS`], scans, conditions and aggregation in arrays
    /// do not handle more at a time, either.
    pub batch_rows: usize,
    /// The memory that each query may keep, in MiB; `None` for no limit.
    pub memory_grant_mib: Option<usize>,
    /// The folder for data beyond that.
    pub spill_folder: PathBuf,
}

impl Default for QueryOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        QueryOptions {
            dop: cores,
            workers: cores,
            query_threads: QueryThreads::default(),
            parallelism: None,
            load: LoadProbe::blind(),
            cache: None,
            thread_name: "query".to_string(),
            thread_start: ThreadStart::default(),
            batch_rows: BATCH_ROWS,
            memory_grant_mib: None,
            spill_folder: DEFAULT_FOLDER.into(),
        }
    }
}

/// The rows of a query and their origin.
#[derive(Debug, Clone)]
pub struct QueryOutput {
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// The label of the snapshot.
    pub snapshot: String,
    /// The query's disk accesses and memory.
    pub usage: QueryUsage,
}

/// Runs SQL over column snapshots on its own worker threads. Many clients may ask at once.
#[derive(Debug)]
pub struct QueryEngine {
    options: QueryOptions,
    threads: ThreadPools,
    learner: Option<Arc<Learner>>,
    jobs: Option<Arc<JobPlanner>>,
    runtime: Arc<RuntimeEnv>,
    grant: Option<MemoryGrant>,
    idle: Arc<IdlePlanners>,
    usage: Mutex<QueryUsage>,
}

/// A session of DataFusion that plans one query at a time. It knows no tables but those of the query's snapshot, so that all
/// scans of a query read the same; the rest depends on nothing but the degrees of parallelism.
#[derive(Debug)]
struct Session {
    degrees: Degrees,
    state: SessionState,
    tables: Arc<SnapshotSchema>,
    /// The request for the rule that makes plans parallel; empty between queries.
    request: RequestSlot,
}

/// The degrees of parallelism of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Degrees {
    /// One for all of it.
    Same(usize),
    /// One for each pipeline.
    OfPipelines,
}

/// Sessions that plan nothing now, the one used last at the end.
type IdlePlanners = Mutex<Vec<Session>>;

#[derive(Debug)]
struct Planner {
    /// `None` only while it is dropped.
    session: Option<Session>,
    idle: Arc<IdlePlanners>,
}

impl Planner {
    fn state(&self) -> &SessionState {
        &self.session.as_ref().expect("the session is only taken when the planner is dropped").state
    }

    /// Plans one query. The plan holds the data that it reads; the planner is idle again.
    async fn plan(self, sql: &str) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
        self.physical_plan(sql).await
    }

    async fn physical_plan(&self, sql: &str) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
        let plan = postgresql::plan(self.state(), sql).await?;
        self.state().create_physical_plan(&plan).await.map_err(plan_error)
    }

    /// Plans one query with the degrees chosen for its pipelines, and reports the outcome.
    async fn plan_by_pipelines(
        self,
        sql: &str,
        choose: ChooseDegrees,
    ) -> Result<(Arc<dyn ExecutionPlan>, Request), QueryError> {
        let session = self.session.as_ref().expect("the session is only taken when the planner is dropped");
        let slot = Arc::clone(&session.request);
        *slot.lock() = Request::Asked(choose);
        let plan = self.physical_plan(sql).await?;
        let request = std::mem::take(&mut *slot.lock());
        Ok((plan, request))
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        session.tables.show(None);
        *session.request.lock() = Request::None;
        let mut idle = self.idle.lock();
        if idle.len() < PLANNERS_MAX {
            idle.push(session);
        }
    }
}

impl QueryEngine {
    /// Starts the workers.
    pub fn new(options: QueryOptions) -> Result<Self, QueryError> {
        let granted =
            |mebibytes| DiskFolder::open(&options.spill_folder).map(|folder| MemoryGrant::new(mebibytes, folder));
        let grant = options.memory_grant_mib.map(granted).transpose()?;
        let jobs = options.cache.clone().map(JobPlanner::new).map(Arc::new);
        let of_jobs = jobs.as_ref().map(|jobs| (jobs.options.clone(), Arc::clone(&jobs.counts)));
        let QueryOptions { query_threads, workers, thread_name, thread_start, .. } = &options;
        let threads = ThreadPools::start(*query_threads, *workers, thread_name, thread_start.clone(), of_jobs)?;
        let learner = |policy: &Arc<dyn ParallelismPolicy>| {
            Arc::new(Learner::new(Arc::clone(policy), options.dop, options.workers, options.load.clone()))
        };
        let learner = options.parallelism.as_ref().map(learner);
        let runtime = Arc::default();
        Ok(QueryEngine {
            options,
            threads,
            learner,
            jobs,
            runtime,
            grant,
            idle: Arc::default(),
            usage: Mutex::default(),
        })
    }

    /// Figures of jobs; `None` if queries are not divided into jobs.
    pub fn jobs(&self) -> Option<JobFigures> {
        self.jobs.as_ref().map(|jobs| jobs.figures())
    }

    /// What was learned about degrees of parallelism; `None` without a policy for pipelines.
    pub fn parallelism(&self) -> Option<ParallelismFigures> {
        self.learner.as_ref().map(|learner| learner.known().figures())
    }

    /// Usage of all queries that have ended, including failed ones. Chunks that were still being read when a query
    /// ended are missing.
    pub fn usage(&self) -> QueryUsage {
        *self.usage.lock()
    }

    /// The kernel's ids of the worker threads.
    pub fn thread_ids(&self) -> Vec<i32> {
        self.threads.thread_ids()
    }

    /// Runs a query on the tables of a snapshot with the given degree of parallelism, or the default one, and waits for all
    /// of its rows.
    pub fn query(
        &self,
        snapshot: &Arc<ColumnSnapshot>,
        sql: &str,
        dop: Option<usize>,
    ) -> Result<QueryOutput, QueryError> {
        let meter = Arc::new(UsageMeter::default());
        let answer = match (&self.learner, dop) {
            (Some(learner), None) => self.run_by_pipelines(learner, snapshot, sql, &meter),
            _ => self.run_at(dop.unwrap_or(self.options.dop), snapshot, sql, &meter),
        };
        let usage = meter.usage();
        *self.usage.lock() += usage;
        Ok(QueryOutput { batches: answer?, snapshot: snapshot.label().to_string(), usage })
    }

    /// Runs a query with one degree for all of its plan.
    fn run_at(
        &self,
        dop: usize,
        snapshot: &Arc<ColumnSnapshot>,
        sql: &str,
        meter: &Arc<UsageMeter>,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let planner = self.planner(snapshot, Degrees::Same(dop.max(1)))?;
        let threads = self.threads.lease()?;
        let context = self.task_context(planner.state(), meter, &threads).map_err(|error| self.execute_error(error))?;
        let (sql, jobs) = (sql.to_string(), self.jobs.clone());
        let task = async move {
            let plan = planner.plan(&sql).await?;
            Ok::<_, QueryError>(rows_of(plan, context, jobs, &sql).await)
        };
        let answer = threads.run(task).map_err(QueryError::Panicked)??;
        answer.map_err(|error| self.execute_error(error))
    }

    /// The context for the operators in the run of one query.
    fn task_context(
        &self,
        state: &SessionState,
        meter: &Arc<UsageMeter>,
        threads: &Pool,
    ) -> Result<Arc<TaskContext>, DataFusionError> {
        let mut config = state.config().clone().with_extension(Arc::clone(meter));
        if let Some(jobs) = threads.jobs() {
            config = config.with_extension(Arc::clone(jobs));
        }
        let runtime = match &self.grant {
            Some(grant) => grant.runtime(&self.runtime, meter)?,
            None => RuntimeEnvBuilder::from_runtime_env(&self.runtime)
                .with_memory_pool(Arc::new(QueryPool::unlimited(Arc::clone(meter))))
                .build_arc()?,
        };
        Ok(Arc::new(TaskContext::from(state).with_session_config(config).with_runtime(runtime)))
    }

    fn execute_error(&self, error: DataFusionError) -> QueryError {
        match (&self.grant, exhausted(&error)) {
            (Some(grant), Some(reason)) => {
                QueryError::Grant { mebibytes: grant.mebibytes(), reason: reason.to_string() }
            }
            _ => QueryError::Execute(error.strip_backtrace()),
        }
    }

    /// The plan that the next run of a query would have, as text for people.
    pub fn explain(&self, snapshot: &Arc<ColumnSnapshot>, sql: &str, dop: Option<usize>) -> Result<String, QueryError> {
        let by_pipelines = match (&self.learner, dop) {
            (Some(learner), None) => self.next_plan(learner, snapshot, sql)?,
            _ => None,
        };
        let plan = by_pipelines.map_or_else(|| self.plan_at(dop.unwrap_or(self.options.dop), snapshot, sql), Ok)?;
        Ok(displayable(plan.as_ref()).set_show_statistics(true).indent(false).to_string())
    }

    fn plan_at(
        &self,
        dop: usize,
        snapshot: &Arc<ColumnSnapshot>,
        sql: &str,
    ) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
        let planner = self.planner(snapshot, Degrees::Same(dop.max(1)))?;
        let sql = sql.to_string();
        self.threads.lease()?.run(async move { planner.plan(&sql).await }).map_err(QueryError::Panicked)?
    }

    /// An idle planner, or a new one, that knows the tables of a snapshot.
    fn planner(&self, snapshot: &Arc<ColumnSnapshot>, degrees: Degrees) -> Result<Planner, QueryError> {
        let idle = {
            let mut idle = self.idle.lock();
            let place = idle.iter().rposition(|session| session.degrees == degrees);
            place.map(|place| idle.swap_remove(place))
        };
        let session = idle.map_or_else(|| self.new_session(degrees).map_err(plan_error), Ok)?;
        session.tables.show(Some(Arc::clone(snapshot)));
        Ok(Planner { session: Some(session), idle: Arc::clone(&self.idle) })
    }

    fn new_session(&self, degrees: Degrees) -> Result<Session, DataFusionError> {
        let request = RequestSlot::default();
        let (config, tables, rules) = match degrees {
            Degrees::Same(dop) => (self.configuration(dop, dop), SnapshotSchema::default(), rules_of_one_degree()),
            Degrees::OfPipelines => {
                // A grant is shared by as many partitions as there can be.
                let config = self.configuration(1, self.options.dop);
                (config, SnapshotSchema::without_order(), rules_of_pipelines(Parallelize::new(Arc::clone(&request))))
            }
        };
        let tables = Arc::new(tables);
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(&config.options().catalog.default_schema, Arc::clone(&tables) as _)?;
        let name = config.options().catalog.default_catalog.clone();
        let state = remote::dialect(config)
            .with_runtime_env(Arc::clone(&self.runtime))
            .with_optimizer_rules(logical_rules())
            .with_physical_optimizer_rules(rules)
            .build();
        state.catalog_list().register_catalog(name, Arc::new(catalog));
        Ok(Session { degrees, state, tables, request })
    }

    /// The settings of a session that plans for `dop` partitions, with at most `partitions` running at the same time.
    fn configuration(&self, dop: usize, partitions: usize) -> SessionConfig {
        let mut config = SessionConfig::new()
            .with_create_default_catalog_and_schema(false)
            .with_target_partitions(dop)
            .with_batch_size(self.options.batch_rows);
        let options = config.options_mut();
        // The build side of a hash table has been decided with the order of joins.
        options.optimizer.join_reordering = false;
        // A build side that is shared by all partitions spares both sides the exchange; it is built by one thread, so the
        // more threads there are, the smaller it should be.
        options.optimizer.hash_join_single_partition_threshold = SHARED_BUILD_BYTES / dop;
        options.optimizer.hash_join_single_partition_threshold_rows = SHARED_BUILD_ROWS / dop;
        // Integer keys that lie close together are found by their distance from the smallest instead of by a hash.
        options.execution.perfect_hash_join_min_key_density = KEY_DENSITY_MIN;
        match &self.grant {
            Some(grant) => grant.configure(config, partitions),
            None => config,
        }
    }
}

/// All rows of a plan, in jobs if it is to be divided.
async fn rows_of(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    jobs: Option<Arc<JobPlanner>>,
    sql: &str,
) -> Result<Vec<RecordBatch>, DataFusionError> {
    let Some(jobs) = jobs else { return collect(plan, context).await };
    let template = query_template(sql);
    let plan = jobs.split(&template, &plan)?;
    let batches = collect(Arc::clone(&plan), context).await?;
    jobs.ran(&template, &plan);
    Ok(batches)
}

/// DataFusion's rules, the order of joins, and dependencies that are known.
pub(super) fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    JoinOrder::insert(&mut rules);
    Dependencies::insert(&mut rules);
    rules
}

/// DataFusion's rules, except that conditions are pushed down by our rule, and our operators: aggregation in arrays
/// before exchanges are planned for the rest, and bitmaps of join keys at the end.
fn rules_of_one_degree() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    PushFilters::replace(&mut rules);
    let place = rules.iter().position(|rule| rule.name() == EnsureRequirements::new().name()).unwrap_or(rules.len());
    rules.insert(place, Arc::new(ArrayAggregation));
    rules.push(Arc::new(KeyBitmaps));
    rules.push(Arc::new(OwnTexts));
    rules
}

/// The same, and pipelines are made parallel before plans get the parts that depend on their final shape: yields to
/// other tasks, and the filters that operators make at run time.
fn rules_of_pipelines(parallelize: Parallelize) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = rules_of_one_degree();
    let place = rules.iter().position(|rule| rule.name() == "EnsureCooperative").expect("DataFusion has that rule");
    rules.insert(place, Arc::new(parallelize));
    rules
}

fn plan_error(error: DataFusionError) -> QueryError {
    QueryError::Plan(error.strip_backtrace())
}

#[cfg(test)]
mod tests;
