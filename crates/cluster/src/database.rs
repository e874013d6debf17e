//! A cluster as a database under test, which answers queries and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use parking_lot::RwLock;
use plimsoll_workload::benchmark::Writes;
use plimsoll_workload::database::{
    Database, DatabaseError, Footprint, LoadedData, Login, NetworkBytes, QueryAnswer, Session, SessionUsage,
};
use plimsoll_workload::freshness::CopyWatch;
use plimsoll_workload::schema::{DeclaredTable, Schema, TableId};
use plimsoll_workload::statement::{Rows, Statement, Value};
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::connection::Channels;
use crate::coordinator::Coordinator;
use crate::data::{Export, ExportStore};
use crate::error::{ClusterError, failed};
use crate::exports::{ExportWatch, Exporter, Exports, Loader, Newest};
use crate::members::Members;
use crate::options::ClusterOptions;
use crate::processes::Starter;
use crate::secret::Secret;
use crate::statement::{put_rows, with_values};
use crate::tls::Authorities;

/// The threads that talk to workers and put the last rows together.
const THREADS: usize = 2;

/// A cluster. Dropping it ends the workers that were started for it, and removes what the run has written.
pub struct ClusterDatabase {
    /// Exports while transactions go on; `None` if queries read what was loaded. Before all that it uses.
    exporter: Option<Exporter>,
    coordinator: Arc<Coordinator>,
    data: Data,
    loaded: RwLock<BTreeMap<String, LoadedData>>,
}

/// Where the data are.
enum Data {
    /// An export of the user's, with the tables of the schemas that were asked for.
    Given { export: Box<Export>, folder: PathBuf, schemas: RwLock<BTreeMap<String, Newest>> },
    /// Exports that the run makes.
    Made(Arc<Exports>),
}

impl ClusterDatabase {
    /// Starts the workers, which are processes of `program`, or connects to the user's. `loader` is for data of the run's own: the
    /// folder of their exports, and whether there are transactions.
    pub fn open(
        options: &ClusterOptions,
        program: &Path,
        loader: impl FnOnce(&Path, bool) -> Result<Box<dyn Loader>, ClusterError>,
    ) -> Result<ClusterDatabase, ClusterError> {
        let threads =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("coordinator").enable_all().build();
        let threads = threads.map_err(ClusterError::Threads)?;
        let coordinator = |store: &Path, (channels, members), threads| {
            Coordinator::new(options, members, channels, ExportStore::new(store)?, threads).map(Arc::new)
        };
        let loaded = RwLock::default();
        let Some(folder) = &options.data else {
            let folder = temporary(&options.folder)?;
            let workers = started(program, options, folder.path(), Some(folder.path()))?;
            let coordinator = coordinator(folder.path(), workers, threads)?;
            let loader = loader(folder.path(), options.export_every.is_some())?;
            let exports = Arc::new(Exports::new(loader, Arc::clone(&coordinator), folder));
            let exporter =
                options.export_every.map(|every| Exporter::start(Arc::clone(&exports), every, options.query_share));
            let (exporter, data) = (exporter.transpose()?, Data::Made(exports));
            return Ok(ClusterDatabase { exporter, coordinator, data, loaded });
        };
        let export = Export::open(folder, "")?;
        let workers = if options.is_private() {
            started(program, options, folder, None)?
        } else {
            let authorities = options.tls_ca.as_deref().map(Authorities::read).transpose()?;
            let channels = Channels::new(Secret::find(options.secret_file.as_deref())?, authorities);
            let members = Members::connect(&options.hosts, channels.clone(), &export.digest);
            (channels.clone(), threads.block_on(members)?)
        };
        let coordinator = coordinator(folder, workers, threads)?;
        let data = Data::Given { export: Box::new(export), folder: folder.clone(), schemas: RwLock::default() };
        Ok(ClusterDatabase { exporter: None, coordinator, data, loaded })
    }

    /// The plan of a query with its stages, as text for people.
    pub fn explain(&self, schema: &Schema, sql: &str) -> Result<String, DatabaseError> {
        let tables = Arc::clone(&*self.newest(schema)?.read());
        self.coordinator.explain(&tables, sql)
    }

    /// The tables that queries on this schema read.
    fn newest(&self, schema: &Schema) -> Result<Newest, DatabaseError> {
        let (export, schemas) = match &self.data {
            Data::Given { export, schemas, .. } => (export, schemas),
            Data::Made(exports) => return exports.newest(schema),
        };
        let mut schemas = schemas.write();
        if let Some(tables) = schemas.get(&*schema.name) {
            return Ok(Arc::clone(tables));
        }
        let tables = Arc::new(RwLock::new(Arc::new(self.coordinator.tables(export, &schema.name)?)));
        schemas.insert(schema.name.to_string(), Arc::clone(&tables));
        Ok(tables)
    }

    fn exports(&self) -> Result<&Arc<Exports>, DatabaseError> {
        match &self.data {
            Data::Made(exports) => Ok(exports),
            Data::Given { folder, .. } => Err(not_loaded(folder)),
        }
    }

    /// The database that transactions run on; `None` if they are refused.
    fn writable(&self) -> Option<&dyn Database> {
        self.exporter.as_ref().map(|exporter| exporter.exports().database())
    }
}

/// A folder of the run's own.
fn temporary(below: &Path) -> Result<TempDir, ClusterError> {
    let made = tempfile::Builder::new().prefix("plimsoll-cluster-").tempdir_in(below);
    made.map_err(|error| ClusterError::Path { path: below.to_owned(), error })
}

/// Workers that are started for the run and read below `store`.
fn started(
    program: &Path,
    options: &ClusterOptions,
    store: &Path,
    remove: Option<&Path>,
) -> Result<(Channels, Members), ClusterError> {
    let secret = Secret::random()?;
    let channels = Channels::new(secret.clone(), None);
    let starter = Starter::new(program, options, store, remove, secret);
    let members = Members::start(starter, options.workers, channels.clone())?;
    Ok((channels, members))
}

fn not_loaded(folder: &Path) -> DatabaseError {
    let folder = folder.display();
    DatabaseError::Failed(format!(
        "the export in {folder} is not changed, and it is not known to have this workload's data; export the workload \
         (`plimsoll export DIR --workload …`), or leave data={folder} out"
    ))
}

fn no_writes<T>() -> Result<T, DatabaseError> {
    let why = "a cluster answers queries only; with export_every=1s transactions run on an engine beside it, or run them on \
               `embedded:` or `postgres:`, or the queries alone (of `ch` by `--parameter mix=queries`)";
    Err(DatabaseError::Unsupported(why.to_owned()))
}

impl Database for ClusterDatabase {
    /// Statements over an export that is given are queries of the user's own, with its tables.
    fn runs_sql(&self) -> bool {
        matches!(self.data, Data::Given { .. })
    }

    /// Takes no script. A workload tries its statements by one, which each client then does by its first query.
    fn run_script(&self, _schema: &Schema, sql: &str) -> Result<(), DatabaseError> {
        let is_trial = sql == "SELECT 1" || sql.starts_with("PREPARE ");
        if is_trial && self.runs_sql() { Ok(()) } else { no_writes() }
    }

    fn declare(&self, schema: &Schema, tables: &[DeclaredTable]) -> Result<(), DatabaseError> {
        match &self.data {
            Data::Made(exports) => exports.database().declare(schema, tables),
            Data::Given { .. } => Ok(()),
        }
    }

    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.exports()?.database().create(schema)
    }

    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let Data::Made(exports) = &self.data else { return Ok(()) };
        self.loaded.write().remove(&*schema.name);
        exports.remove(schema)
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        self.exports()?.database().load(schema, table, batch)
    }

    /// Completes the first export.
    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let exports = self.exports()?;
        exports.database().finish_load(schema)?;
        exports.begin(schema)
    }

    fn session(&self, schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        match self.writable() {
            Some(database) => database.session(schema),
            None => self.query_session(schema, Login::default()),
        }
    }

    fn query_session(&self, schema: &Schema, _login: Login<'_>) -> Result<Box<dyn Session>, DatabaseError> {
        let (coordinator, newest) = (Arc::clone(&self.coordinator), self.newest(schema)?);
        // The transactions of a workload that the export was made by would write; those of a file are the user's queries.
        let runs_sql = self.runs_sql() && self.data(schema)?.is_none();
        let network_bytes = Some(NetworkBytes::default());
        Ok(Box::new(ClusterSession { coordinator, newest, runs_sql, network_bytes }))
    }

    /// Makes another export, if transactions have changed anything.
    fn refresh(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        self.exporter.as_ref().map_or(Ok(()), |exporter| exporter.exports().refresh())
    }

    fn freshness(&self) -> Result<Option<Box<dyn CopyWatch>>, DatabaseError> {
        let Some(exporter) = &self.exporter else { return Ok(None) };
        let watch = ExportWatch::open(exporter.exports())?;
        Ok(watch.map(|watch| Box::new(watch) as Box<dyn CopyWatch>))
    }

    fn query_threads(&self) -> Vec<i32> {
        self.coordinator.members.threads()
    }

    fn footprint(&self) -> Footprint {
        let mut processes = self.coordinator.members.process_ids();
        // That of the engine.
        processes.extend(self.writable().map(|_| std::process::id().cast_signed()));
        Footprint { processes, folder: None }
    }

    fn data(&self, schema: &Schema) -> Result<Option<LoadedData>, DatabaseError> {
        match &self.data {
            Data::Made(_) => Ok(self.loaded.read().get(&*schema.name).cloned()),
            Data::Given { export, .. } => {
                let data = export.manifest.data.get(&*schema.name);
                Ok(data.map(|data| LoadedData { data: data.clone(), written: Writes::Nothing }))
            }
        }
    }

    fn note_data(&self, schema: &Schema, data: &LoadedData) -> Result<(), DatabaseError> {
        self.loaded.write().insert(schema.name.to_string(), data.clone());
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let of_engine = self.writable().map(Database::warnings).unwrap_or_default();
        self.coordinator.notes().into_iter().chain(of_engine).collect()
    }

    fn cancel_statements(&self) {
        self.coordinator.cancel();
        if let Some(exporter) = &self.exporter {
            exporter.exports().cancel();
        }
    }
}

/// A client's connection.
struct ClusterSession {
    coordinator: Arc<Coordinator>,
    newest: Newest,
    /// Whether statements run as their SQL.
    runs_sql: bool,
    /// What the processes that answered its queries received from each other; `None` if that is unknown of one of them.
    network_bytes: Option<NetworkBytes>,
}

impl Session for ClusterSession {
    /// Queries read the state of the export, within a transaction as without one.
    fn begin(&mut self) -> Result<(), DatabaseError> {
        if self.runs_sql { Ok(()) } else { no_writes() }
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        values: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        rows.clear();
        if !self.runs_sql {
            return no_writes();
        }
        let sql = with_values(statement.sql, values).map_err(failed)?;
        put_rows(&self.query(&sql)?.batches, rows).map_err(failed)
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        // Held until it is answered: the files of these tables stay so long.
        let tables = Arc::clone(&*self.newest.read());
        // Once the bytes are unknown, they stay so, and no further query waits for them.
        let answer = self.coordinator.query(&tables, sql, self.network_bytes.is_some())?;
        self.network_bytes = self.network_bytes.zip(answer.network_bytes).map(|(before, more)| before + more);
        Ok(QueryAnswer { batches: answer.batches, snapshot: tables.snapshot.clone() })
    }

    fn usage(&self) -> SessionUsage {
        SessionUsage { network_bytes: self.network_bytes, ..SessionUsage::default() }
    }
}
