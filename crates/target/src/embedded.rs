//! The embedded engine as a database under test: `embedded:`.

mod access;
mod admission;
mod cache;
mod columns;
mod declaration;
mod engines;
mod freshness;
pub(crate) mod option_checks;
pub(crate) mod options;
mod parallelism;
pub(crate) mod placement;
mod session;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use parking_lot::RwLock;
use plimsoll_engine::columns::ColumnFiles;
use plimsoll_engine::columns::folder::{DEFAULT_FOLDER, FolderError};
use plimsoll_engine::delta::{DeltaOptions, Propagation};
use plimsoll_engine::query::jobs::{CacheSwitch, JobFigures};
use plimsoll_engine::query::pipelines::LoadProbe;
use plimsoll_engine::query::{QueryError, QueryOptions};
use plimsoll_engine::table::IndexKind;
use plimsoll_engine::table_set::{TableDeclaration, TableSet, TableSetError};
use plimsoll_engine::{Engine, EngineOptions, Log, LogOptions, LogStatistics, RecoveryReport};
use plimsoll_machine::host::Host;
use plimsoll_machine::run_queue::runnable_threads;
use plimsoll_machine::thread_share::ThreadShare;
use plimsoll_policy::StarvationBound;
use plimsoll_postgres::cache_classes::CacheBinding;
use plimsoll_workload::database::{
    CacheSwitches, ColumnReads, Database, DatabaseError, Footprint, OptionChange, Session,
};
use plimsoll_workload::freshness::CopyWatch;
use plimsoll_workload::parallelism::Parallelism;
use plimsoll_workload::schema::{DeclaredTable, Schema, TableId};

use crate::open::TargetError;
use admission::QueryGate;
use declaration::{declaration, index_kinds};
pub use engines::HighParallelism;
use engines::QueryEngines;
use freshness::DeltaWatch;
use options::set;
pub use placement::Placement;
use session::{EmbeddedSession, SessionTerms};

/// How the embedded engine is to behave.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// Transactions and locks.
    pub engine: EngineOptions,
    /// The index of a primary key of which statements read no ranges; other indexes are trees.
    pub index: IndexKind,
    /// Queries.
    pub queries: QueryOptions,
    /// Whether the number of query threads is that of `workers`; otherwise it is the degree of parallelism.
    pub has_own_workers: bool,
    /// The policy of parallelism for queries of high priority, with their own engine; `None` if they are treated like
    /// all others.
    pub high_queries: Option<HighParallelism>,
    /// Whether operators of queries run on threads of their cache class.
    pub cache_classes: bool,
    /// When these threads are bound to their class.
    pub cache_switch: CacheSwitch,
    /// Whether the column copy is kept in files instead of in memory.
    pub columns_in_files: bool,
    /// How much of these files stays in memory, in MiB; `None` for nothing, so that every scan reads the disk.
    pub column_memory_mib: Option<u64>,
    /// Where these files are.
    pub column_folder: PathBuf,
    /// The durability of commits, the place of the log, and whether the database outlives the process.
    pub log: LogOptions,
    /// How transactions' changes reach the columns.
    pub delta: DeltaOptions,
    /// Whether there may be more threads of propagation than cores.
    pub propagation_oversubscribe: bool,
    /// Which cores threads run on.
    pub placement: Placement,
    /// The CPU share of threads of queries.
    pub query_share: ThreadShare,
    /// The most queries that run at once; `None` for any number.
    pub queries_max: Option<usize>,
    /// For how long a client that runs transactions keeps a core while others wait for it; `None` for the kernel's own
    /// slice.
    pub transaction_slice: Option<Duration>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        EmbeddedOptions {
            engine: EngineOptions::default(),
            index: IndexKind::default(),
            queries: QueryOptions {
                load: LoadProbe::new(|| runnable_threads(&Host::real())),
                ..QueryOptions::default()
            },
            has_own_workers: false,
            high_queries: None,
            cache_classes: false,
            cache_switch: CacheSwitch::default(),
            columns_in_files: false,
            column_memory_mib: None,
            column_folder: DEFAULT_FOLDER.into(),
            log: LogOptions::default(),
            delta: DeltaOptions::default(),
            propagation_oversubscribe: false,
            placement: Placement::default(),
            query_share: ThreadShare::default(),
            queries_max: None,
            transaction_slice: None,
        }
    }
}

impl EmbeddedOptions {
    /// Understands `KEY=VALUE` options.
    pub fn parse<'a>(said: impl IntoIterator<Item = &'a str>) -> Result<Self, TargetError> {
        let mut options = EmbeddedOptions::default();
        for option in said {
            let (name, value) = option.split_once('=').ok_or_else(|| TargetError::NoValue(option.to_owned()))?;
            set(&mut options, name, value)?;
        }
        option_checks::conflict(&options).map_or(Ok(options), |conflict| Err(TargetError::Conflict(conflict)))
    }
}

/// Why the embedded engine cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Its query side.
    #[error(transparent)]
    Queries(#[from] QueryError),
    /// The folder of its columns.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its log, or the contents of its data folder.
    #[error(transparent)]
    Engine(#[from] plimsoll_engine::OpenError),
    /// This machine lacks something that the options require.
    #[error("{0}")]
    Lacking(String),
}

/// The embedded engine, with the tables of any number of schemas. Without a data folder its data live as long as this value.
#[derive(Debug)]
pub struct Embedded {
    engine: Arc<Engine>,
    /// The data folder of which it is a copy in memory, if it is one.
    copied_from: Option<PathBuf>,
    /// The options as they are now.
    options: RwLock<EmbeddedOptions>,
    queries: RwLock<QueryEngines>,
    /// The binding of query threads to their cache class; `None` if they have none.
    cache: RwLock<Option<Arc<CacheBinding>>>,
    /// Where the column copy is kept; `None` for in memory.
    column_files: Option<ColumnFiles>,
    schemas: RwLock<HashMap<String, Arc<TableSet>>>,
    /// The tables of schemas that list none themselves.
    declared: RwLock<HashMap<String, Vec<DeclaredTable>>>,
    /// Whether threads were ever placed: every session then places its own.
    is_placed: AtomicBool,
    /// The gate before queries; `None` if any number may run at once.
    gate: RwLock<Option<Arc<QueryGate>>>,
}

impl Embedded {
    /// An empty database, or the one in the data folder.
    pub fn new(options: EmbeddedOptions) -> Result<Self, OpenError> {
        if let Some(lacking) = option_checks::lacking(&options) {
            return Err(OpenError::Lacking(lacking));
        }
        let engine = Engine::open(options.engine.clone(), &options.log)?;
        // An interrupted load leaves tables that belong to no set.
        if engine.is_durable() {
            engine.drop_tables_outside_sets();
        }
        Embedded::with_engine(engine, options)
    }

    /// A copy in memory of the database in a data folder that no process has open. The folder is only read.
    pub fn stored(folder: &Path) -> Result<Self, OpenError> {
        // With propagation a row keeps its position in the columns, whatever rows before it are deleted. Nothing is
        // committed to the copy, so nothing is to be propagated.
        let delta = DeltaOptions { propagation: Propagation::Paused, ..DeltaOptions::default() };
        let engine = Engine::open_copy(EngineOptions::default(), folder)?;
        let stored = Embedded::with_engine(engine, EmbeddedOptions { delta, ..EmbeddedOptions::default() })?;
        Ok(Embedded { copied_from: Some(folder.to_owned()), ..stored })
    }

    fn with_engine(engine: Arc<Engine>, options: EmbeddedOptions) -> Result<Self, OpenError> {
        let cache = cache::binding(&options, None);
        let queries = RwLock::new(QueryEngines::start(&options, cache.as_ref())?);
        let column_files = columns::files(&options)?;
        let is_placed = AtomicBool::new(options.placement != Placement::default());
        let gate = RwLock::new(options.queries_max.map(QueryGate::new));
        let (options, cache, schemas) = (RwLock::new(options), RwLock::new(cache), RwLock::default());
        let declared = RwLock::default();
        let copied_from = None;
        Ok(Embedded { engine, copied_from, options, queries, cache, column_files, schemas, declared, is_placed, gate })
    }

    /// The data folder of which it is a [copy](Self::stored), and the end of that folder's log.
    pub(crate) fn stored_at(&self) -> Option<(&Path, u64)> {
        Some((self.copied_from.as_deref()?, self.engine.recovery()?.end_lsn))
    }

    /// The names of the schemas that a data folder keeps.
    pub fn kept_schemas(&self) -> Vec<String> {
        self.engine.set_names()
    }

    /// The figures of queries' jobs since the last change of an option; `None` without `cache_classes`.
    pub fn cache_jobs(&self) -> Option<JobFigures> {
        self.queries.read().common.jobs()
    }

    /// The work of the log so far; `None` without a log.
    pub fn log_statistics(&self) -> Option<LogStatistics> {
        self.engine.log_statistics()
    }

    /// The result of recovery when it was opened; `None` without a data folder.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.engine.recovery()
    }

    /// The tables of a schema, for direct access to the engine.
    pub fn tables(&self, schema: &Schema) -> Result<Arc<TableSet>, DatabaseError> {
        if let Some(set) = self.schemas.read().get(&*schema.name) {
            return Ok(Arc::clone(set));
        }
        self.adopt(schema)?.ok_or_else(|| {
            DatabaseError::Failed(format!("the tables of {} do not exist; load them first", schema.name))
        })
    }

    /// The tables of a schema that the data folder has kept.
    fn adopt(&self, schema: &Schema) -> Result<Option<Arc<TableSet>>, DatabaseError> {
        let mut schemas = self.schemas.write();
        if let Some(set) = schemas.get(&*schema.name) {
            return Ok(Some(Arc::clone(set)));
        }
        let Some(set) = TableSet::adopt(&self.engine, &schema.name, self.declarations(schema)).map_err(failed)? else {
            return Ok(None);
        };
        let set = Arc::new(self.place_columns(set));
        set.fill_columns().map_err(failed)?;
        schemas.insert(schema.name.to_string(), Arc::clone(&set));
        Ok(Some(set))
    }

    /// The tables of a schema as the engine declares them.
    fn declarations(&self, schema: &Schema) -> Vec<TableDeclaration> {
        let index = self.options.read().index;
        match self.declared.read().get(&*schema.name) {
            Some(declared) if schema.tables.is_empty() => {
                declared.iter().map(|table| declaration(table, index)).collect()
            }
            _ => schema.tables.iter().map(|table| declaration(&table.into(), index)).collect(),
        }
    }

    fn place_columns(&self, set: TableSet) -> TableSet {
        let set = set.with_propagation(self.options.read().delta.clone());
        match &self.column_files {
            Some(files) => set.with_columns_in(files.clone()),
            None => set,
        }
    }
}

impl Database for Embedded {
    fn declare(&self, schema: &Schema, tables: &[DeclaredTable]) -> Result<(), DatabaseError> {
        self.declared.write().insert(schema.name.to_string(), tables.to_vec());
        Ok(())
    }

    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let mut schemas = self.schemas.write();
        if schemas.contains_key(&*schema.name) || self.engine.set(&schema.name).is_some() {
            return Err(DatabaseError::Failed(format!("the tables of {} exist already", schema.name)));
        }
        let set = TableSet::create(&self.engine, self.declarations(schema)).map_err(failed)?;
        schemas.insert(schema.name.to_string(), Arc::new(self.place_columns(set.named(&schema.name))));
        Ok(())
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        self.tables(schema)?.load(table, batch).map_err(failed)
    }

    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.tables(schema)?.finish_load().map_err(failed)
    }

    fn session(&self, schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        let tables = self.tables(schema)?;
        let queries = self.queries.read().clone();
        if let Some(cache) = &*self.cache.read() {
            cache.follow();
        }
        // Relaxed: the placement is read under the lock of the options.
        let placement = self.is_placed.load(Ordering::Relaxed).then(|| self.options.read().placement.clone());
        if let Some(placement) = &placement {
            placement.place_workers(&queries, self.schemas.read().values())?;
        }
        let (gate, slice) = (self.gate.read().clone(), self.options.read().transaction_slice);
        let terms = SessionTerms { placement, gate, slice };
        Ok(Box::new(EmbeddedSession::new(self.engine.connect(), tables, queries, terms)))
    }

    fn refresh(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.tables(schema)?.refresh().map_err(failed)
    }

    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        match self.schemas.write().remove(&*schema.name) {
            Some(set) => set.discard(),
            None => {
                for table in self.engine.set(&schema.name).unwrap_or_default() {
                    self.engine.drop_table(table);
                }
            }
        }
        Ok(())
    }

    fn set_option(&self, name: &str, value: &str) -> Result<OptionChange, DatabaseError> {
        let mut options = self.options.write();
        let mut changed = options.clone();
        set(&mut changed, name, value).map_err(|error| DatabaseError::Failed(error.to_string()))?;
        let columns = |options: &EmbeddedOptions| (options.columns_in_files, options.column_folder.clone());
        // The lock scheduler must order each queue from its first request on, and a log that began later would hold
        // changes of rows whose insertions it lacks.
        if locking(&changed.engine) != locking(&options.engine)
            || columns(&changed) != columns(&options)
            || changed.log != options.log
            || changed.delta != options.delta
            || changed.index != options.index
        {
            return Ok(OptionChange::NeedsReopening);
        }
        if let Some(conflict) = option_checks::conflict(&changed) {
            return Err(DatabaseError::Failed(conflict));
        }
        changed.placement.check().map_err(|error| DatabaseError::Failed(error.to_string()))?;
        if changed.placement != options.placement {
            self.is_placed.store(true, Ordering::Relaxed);
        }
        // Queries keep nothing between sessions but their threads and plans.
        let cache = cache::binding(&changed, self.cache.read().as_ref());
        let queries = QueryEngines::start(&changed, cache.as_ref());
        *self.cache.write() = cache;
        *self.queries.write() = queries.map_err(|error| DatabaseError::Failed(error.to_string()))?;
        if changed.queries_max != self.gate.read().as_ref().map(|gate| gate.most()) {
            *self.gate.write() = changed.queries_max.map(QueryGate::new);
        }
        columns::set_memory(self.column_files.as_ref(), &changed);
        *options = changed;
        Ok(OptionChange::Applied)
    }

    fn freshness(&self) -> Result<Option<Box<dyn CopyWatch>>, DatabaseError> {
        let dop = self.options.read().queries.dop;
        let queries = Arc::clone(&self.queries.read().common);
        let watch = DeltaWatch::open(self.schemas.read().values(), queries, dop);
        Ok(watch.map(|watch| Box::new(watch) as Box<dyn CopyWatch>))
    }

    fn query_threads(&self) -> Vec<i32> {
        self.queries.read().thread_ids()
    }

    fn parallelism(&self) -> Option<Parallelism> {
        self.queries.read().parallelism().map(Parallelism::from)
    }

    fn indexes(&self, schema: &Schema) -> BTreeMap<String, &'static str> {
        let is_default = self.options.read().index == IndexKind::default();
        let schemas = self.schemas.read();
        schemas.get(&*schema.name).filter(|_| !is_default).map(|set| index_kinds(set)).unwrap_or_default()
    }

    fn cache_switches(&self) -> Option<CacheSwitches> {
        let jobs = self.cache_jobs()?;
        let is_bound = self.cache.read().as_ref().is_some_and(|cache| cache.warning().is_none());
        Some(CacheSwitches { count: jobs.switches, time: jobs.switch_time, is_bound })
    }

    fn column_reads(&self) -> Option<ColumnReads> {
        self.column_files.as_ref().map(columns::reads)
    }

    fn warnings(&self) -> Vec<String> {
        let figures = self.queries.read().parallelism();
        let options = self.options.read();
        let unbound = self.cache.read().as_ref().and_then(|cache| cache.warning());
        let cautions = option_checks::caution(&options).into_iter().chain(unbound);
        let failed = self.engine.checkpoint_failure().map(|why| {
            format!("the last checkpoint failed: {why}; nothing is lost, but the log grows until one succeeds: make room on its disk")
        });
        let refused = self.engine.lock_statistics().nice_refused;
        let refused = (refused > 0).then(|| {
            format!(
                "{refused} times a thread could not be given the nice value of its transaction, so that priorities did not reach the \
                 processor; run as root, or allow negative nice values (`ulimit -e`)"
            )
        });
        let cautions = cautions.chain(failed).chain(refused);
        cautions.chain(parallelism::warnings(&options.queries, figures.as_ref())).collect()
    }

    fn footprint(&self) -> Footprint {
        let options = self.options.read();
        let columns = options.columns_in_files.then(|| options.column_folder.clone());
        let folder = columns.or_else(|| self.engine.log().and_then(Log::folder).map(Path::to_owned));
        Footprint { processes: vec![std::process::id().cast_signed()], folder }
    }
}

/// The options that decide how transactions wait for each other, for comparison.
fn locking(options: &EngineOptions) -> (String, &'static str, StarvationBound, bool, Duration) {
    let EngineOptions { lock_scheduler, cpu_scheduler, starvation_bound, early_lock_release, undo_delay, .. } = options;
    (lock_scheduler.name().into_owned(), cpu_scheduler.name(), *starvation_bound, *early_lock_release, *undo_delay)
}

fn failed(error: TableSetError) -> DatabaseError {
    DatabaseError::Failed(error.to_string())
}

#[cfg(test)]
mod tests;
