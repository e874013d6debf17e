//! Plans a query and runs it on the workers, again if one was lost.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt, display_plan_ascii};
use parking_lot::Mutex;
use plimsoll_engine::query::{QueryError, remote};
use plimsoll_workload::database::{DatabaseError, NetworkBytes};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::connection::Channels;
use crate::data::{Export, ExportStore};
use crate::error::ClusterError;
use crate::members::Members;
use crate::options::ClusterOptions;
use crate::traffic::{COUNTS_WITHIN, received};

/// How often a query is run again because a worker was lost.
const REPEATS_MAX: u32 = 2;

/// With fewer partitions DataFusion plans no exchange of rows, and without one a query has nothing to distribute: it would run
/// in the coordinator.
const PARTITIONS_MIN: usize = 2;

/// The coordinator of a cluster.
#[derive(Debug)]
pub struct Coordinator {
    /// Before the threads that talk to them.
    pub members: Members,
    options: ClusterOptions,
    channels: Channels,
    files: Arc<RuntimeEnv>,
    /// What happened to workers and queries, for readers of the figures.
    notes: Mutex<Vec<String>>,
    /// Counts the requests to cancel what is under way.
    cancelled: watch::Sender<u64>,
    pub threads: Runtime,
}

/// The tables that a session sees.
#[derive(Debug)]
pub struct Tables {
    state: SessionState,
    names: Vec<String>,
    /// Which state of the data they have.
    pub snapshot: String,
}

/// What a query has found.
#[derive(Debug)]
pub struct Answer {
    pub batches: Vec<RecordBatch>,
    /// What its processes received from each other in the run that answered; `None` if that was not asked for, or a worker
    /// has not told its part.
    pub network_bytes: Option<NetworkBytes>,
}

/// Why a query failed.
enum Fault {
    /// It is no query, or none that is understood.
    Query(QueryError),
    /// It ended while it was planned or ran.
    Run(DataFusionError),
    /// It was cancelled.
    Cancelled,
}

/// Whether a connection broke, as when a worker that has too little of the cores does not answer in time. A worker that lost
/// its connection to another one tells so as text.
fn is_disconnected(error: &DataFusionError) -> bool {
    let text = error.strip_backtrace();
    let broken = ["h2 protocol error", "transport error", "error reading a body from connection", "does not answer ("];
    broken.iter().any(|words| text.contains(words))
}

impl Coordinator {
    pub fn new(
        options: &ClusterOptions,
        members: Members,
        channels: Channels,
        store: ExportStore,
        threads: Runtime,
    ) -> Result<Coordinator, ClusterError> {
        let files = RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(store)).build_arc();
        let files = files.map_err(|error| ClusterError::Engine(error.strip_backtrace()))?;
        let (notes, cancelled) = (Mutex::default(), watch::Sender::new(0));
        Ok(Coordinator { members, options: options.clone(), channels, files, notes, cancelled, threads })
    }

    /// The tables of a schema in an export.
    pub fn tables(&self, export: &Export, schema: &str) -> Result<Tables, DatabaseError> {
        let open = async {
            let state = self.session()?;
            let mut names = Vec::new();
            for table in export.tables_of(schema) {
                let provider: Arc<dyn TableProvider> = export.provider(table, &state).await?;
                let reference = TableReference::bare(table.name.as_str());
                state.schema_for_ref(reference)?.register_table(table.name.clone(), provider)?;
                names.push(table.name.clone());
            }
            Ok::<_, DataFusionError>((state, names))
        };
        let (state, names) =
            self.threads.block_on(open).map_err(|error| DatabaseError::Failed(error.strip_backtrace()))?;
        Ok(Tables { state, names, snapshot: export.manifest.as_of.to_string() })
    }

    /// A session that plans for the workers.
    fn session(&self) -> Result<SessionState, DataFusionError> {
        let ClusterOptions { dop, partition_kib, broadcast_joins, adaptive_stages, .. } = self.options;
        let mut config = SessionConfig::new()
            .with_target_partitions(dop.max(PARTITIONS_MIN))
            .with_distributed_worker_resolver(self.members.addresses())
            .with_distributed_channel_resolver(self.channels.clone())
            .with_distributed_file_scan_config_bytes_per_partition(partition_kib << 10)?
            .with_distributed_dynamic_task_count(adaptive_stages)?
            .with_distributed_broadcast_joins(broadcast_joins)?;
        if !broadcast_joins {
            // A join that collects its smaller side would run on one worker.
            let optimizer = &mut config.options_mut().optimizer;
            optimizer.hash_join_single_partition_threshold = 0;
            optimizer.hash_join_single_partition_threshold_rows = 0;
        }
        let builder = remote::session(config).with_runtime_env(Arc::clone(&self.files));
        Ok(builder.with_distributed_planner().build())
    }

    /// Runs a query. If a worker or a connection to one was lost meanwhile, the query runs again as a whole. `counts` asks the
    /// workers what they received.
    pub fn query(&self, tables: &Tables, sql: &str, counts: bool) -> Result<Answer, DatabaseError> {
        let (mut repeats, mut cancelled) = (0, self.cancelled.subscribe());
        loop {
            let losses = self.members.losses();
            let fault = match self.threads.block_on(self.run_or_cancel(tables, sql, counts, &mut cancelled)) {
                Ok(answer) => return Ok(answer),
                Err(Fault::Run(error)) if remote::lacking_memory(&error).is_none() => error,
                Err(fault) => return Err(self.told(tables, fault)),
            };
            let lost = self.threads.block_on(self.members.find_lost());
            let lost = lost.map_err(|error| DatabaseError::ConnectionLost(error.to_string()))?;
            self.notes.lock().extend(lost);
            let what = match self.members.losses() == losses {
                false => "worker",
                true if is_disconnected(&fault) => "connection to a worker",
                true => return Err(self.told(tables, Fault::Run(fault))),
            };
            if repeats == REPEATS_MAX {
                return Err(self.told(tables, Fault::Run(fault)));
            }
            repeats += 1;
            self.note(format!("a query was run again because a {what} was lost; its time has both runs"));
        }
    }

    async fn run_or_cancel(
        &self,
        tables: &Tables,
        sql: &str,
        counts: bool,
        cancelled: &mut watch::Receiver<u64>,
    ) -> Result<Answer, Fault> {
        tokio::select! {
            outcome = self.run(tables, sql, counts) => outcome,
            _ = cancelled.changed() => Err(Fault::Cancelled),
        }
    }

    async fn run(&self, tables: &Tables, sql: &str, counts: bool) -> Result<Answer, Fault> {
        let state = &tables.state;
        let logical = remote::plan(state, sql).await.map_err(Fault::Query)?;
        let plan = state.create_physical_plan(&logical).await.map_err(Fault::Run)?;
        let batches = collect(Arc::clone(&plan), state.task_ctx()).await.map_err(Fault::Run)?;
        let network_bytes = if counts { received(plan).await } else { None };
        if counts && network_bytes.is_none() {
            self.note(format!(
                "the bytes between processes are unknown of a client: a worker did not send its counts within \
                 {COUNTS_WITHIN:?} of a query's end, as after a limit; that query's time has the wait"
            ));
        }
        Ok(Answer { batches, network_bytes })
    }

    /// The plan of a query with its stages, as text for people.
    pub fn explain(&self, tables: &Tables, sql: &str) -> Result<String, DatabaseError> {
        let planned = async {
            let logical = remote::plan(&tables.state, sql).await.map_err(Fault::Query)?;
            tables.state.create_physical_plan(&logical).await.map_err(Fault::Run)
        };
        let plan = self.threads.block_on(planned).map_err(|fault| self.told(tables, fault))?;
        Ok(display_plan_ascii(plan.as_ref(), false))
    }

    /// Makes the queries that are under way fail.
    pub fn cancel(&self) {
        self.cancelled.send_modify(|count| *count += 1);
    }

    /// Keeps something for readers of the figures.
    pub fn note(&self, note: String) {
        self.notes.lock().push(note);
    }

    /// What happened so far, each once, with how often.
    pub fn notes(&self) -> Vec<String> {
        let notes = self.notes.lock();
        let mut told: Vec<(&str, usize)> = Vec::new();
        for note in notes.iter() {
            match told.iter_mut().find(|(known, _)| known == note) {
                Some((_, times)) => *times += 1,
                None => told.push((note, 1)),
            }
        }
        let with_count =
            |(note, times)| if times == 1 { str::to_owned(note) } else { format!("{note} ({times} times)") };
        told.into_iter().map(with_count).collect()
    }

    /// An error in words, with the remedy.
    fn told(&self, tables: &Tables, fault: Fault) -> DatabaseError {
        match fault {
            Fault::Cancelled => DatabaseError::Failed("the query was cancelled".to_owned()),
            Fault::Query(QueryError::Plan(why)) if why.contains("table") && why.contains("not found") => {
                let names = tables.names.join(", ");
                DatabaseError::Failed(format!("cannot plan the query: {why}; the export has the tables {names}"))
            }
            Fault::Query(error) => DatabaseError::Failed(error.to_string()),
            Fault::Run(error) => DatabaseError::Failed(match remote::lacking_memory(&error) {
                Some(reason) => {
                    let limit = self.options.memory_mib.map_or_else(String::new, |mib| format!(" (memory_mib={mib})"));
                    format!(
                        "the query needs more memory than a worker has{limit}, even with what can be spilled on disk: \
                         {reason}; raise memory_mib, lower dop or add workers"
                    )
                }
                None => format!("the query failed: {}", error.strip_backtrace()),
            }),
        }
    }
}
