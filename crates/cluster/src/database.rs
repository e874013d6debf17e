//! A cluster as a database under test, which answers queries and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::arrow::record_batch::RecordBatch;
use parking_lot::RwLock;
use plimsoll_export::{ExportError, ExportOptions, FolderStorage, Source, export};
use plimsoll_machine::facts::cores_usable;
use plimsoll_workload::benchmark::Writes;
use plimsoll_workload::database::{Database, DatabaseError, Footprint, LoadedData, QueryAnswer, Session};
use plimsoll_workload::schema::{DeclaredTable, Schema, TableId};
use plimsoll_workload::statement::{Rows, Statement, Value};
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::connection::Channels;
use crate::coordinator::{Coordinator, Tables};
use crate::data::{Export, ExportStore, folder_of};
use crate::error::ClusterError;
use crate::members::Members;
use crate::options::ClusterOptions;
use crate::processes::Starter;
use crate::secret::Secret;
use crate::statement::{put_rows, with_values};

/// The threads that talk to workers and put the last rows together.
const THREADS: usize = 2;

/// A database that a workload's data are loaded into, to export them for the workers.
pub trait Loader: Send + Sync {
    /// The database.
    fn database(&self) -> &dyn Database;

    /// The state of a schema's tables.
    fn source(&self, schema: &Schema) -> Result<Box<dyn Source + '_>, DatabaseError>;
}

/// A cluster. Dropping it ends the workers that were started for it, and removes what the run has written.
pub struct ClusterDatabase {
    /// Before the folder, which its workers read.
    coordinator: Arc<Coordinator>,
    data: Data,
    loaded: RwLock<BTreeMap<String, LoadedData>>,
    schemas: RwLock<BTreeMap<String, Arc<Tables>>>,
}

/// Where the data are.
enum Data {
    /// An export of the user's.
    Given { export: Export, folder: PathBuf },
    /// Exports that the run makes, by schema, below a folder that it removes.
    Made { folder: TempDir, loader: Box<dyn Loader> },
}

impl ClusterDatabase {
    /// Starts the workers, which are processes of `program`, or connects to the user's. `loader` is for data of the run's own.
    pub fn open(
        options: &ClusterOptions,
        program: &Path,
        loader: impl FnOnce() -> Result<Box<dyn Loader>, ClusterError>,
    ) -> Result<ClusterDatabase, ClusterError> {
        let data = match &options.data {
            Some(folder) => Data::Given { export: Export::open(folder, "")?, folder: folder.clone() },
            None => Data::Made { folder: temporary(&options.folder)?, loader: loader()? },
        };
        let threads =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("coordinator").enable_all().build();
        let threads = threads.map_err(ClusterError::Threads)?;
        let (store, channels, members) = match &data {
            Data::Given { export, folder } if !options.is_private() => {
                let channels = Channels::new(Secret::find(options.secret_file.as_deref())?);
                let members = Members::connect(&options.hosts, channels.clone(), &export.digest);
                (folder.as_path(), channels.clone(), threads.block_on(members)?)
            }
            Data::Given { folder, .. } => started(program, options, folder, None)?,
            Data::Made { folder, .. } => started(program, options, folder.path(), Some(folder.path()))?,
        };
        let coordinator = Coordinator::new(options, members, channels, ExportStore::new(store)?, threads)?;
        let (loaded, schemas) = (RwLock::default(), RwLock::default());
        Ok(ClusterDatabase { coordinator: Arc::new(coordinator), data, loaded, schemas })
    }

    /// The plan of a query with its stages, as text for people.
    pub fn explain(&self, schema: &Schema, sql: &str) -> Result<String, DatabaseError> {
        self.coordinator.explain(&*self.tables(schema)?, sql)
    }

    /// The tables that a session of this schema sees.
    fn tables(&self, schema: &Schema) -> Result<Arc<Tables>, DatabaseError> {
        let mut schemas = self.schemas.write();
        if let Some(tables) = schemas.get(&*schema.name) {
            return Ok(Arc::clone(tables));
        }
        let made;
        let export = match &self.data {
            Data::Given { export, .. } => export,
            Data::Made { folder, .. } => {
                made = Export::open(folder.path(), &schema.name).map_err(failed)?;
                &made
            }
        };
        let tables = Arc::new(self.coordinator.tables(export, &schema.name)?);
        schemas.insert(schema.name.to_string(), Arc::clone(&tables));
        Ok(tables)
    }

    fn loader(&self) -> Result<&dyn Loader, DatabaseError> {
        match &self.data {
            Data::Made { loader, .. } => Ok(loader.as_ref()),
            Data::Given { folder, .. } => Err(not_loaded(folder)),
        }
    }
}

/// A folder of the run's own.
fn temporary(below: &Path) -> Result<TempDir, ClusterError> {
    let made = tempfile::Builder::new().prefix("plimsoll-cluster-").tempdir_in(below);
    made.map_err(|error| ClusterError::Path { path: below.to_owned(), error })
}

/// Workers that are started for the run and read below `store`.
fn started<'a>(
    program: &Path,
    options: &ClusterOptions,
    store: &'a Path,
    remove: Option<&Path>,
) -> Result<(&'a Path, Channels, Members), ClusterError> {
    let secret = Secret::random()?;
    let channels = Channels::new(secret.clone());
    let starter = Starter::new(program, options, store, remove, secret);
    let members = Members::start(starter, options.workers, channels.clone())?;
    Ok((store, channels, members))
}

fn failed(error: ClusterError) -> DatabaseError {
    DatabaseError::Failed(error.to_string())
}

fn not_loaded(folder: &Path) -> DatabaseError {
    let folder = folder.display();
    DatabaseError::Failed(format!(
        "the export in {folder} is not changed, and it is not known to have this workload's data; export the workload \
         (`plimsoll export DIR --workload …`), or leave data={folder} out"
    ))
}

/// A query that failed before it ran.
fn unreadable(why: impl std::fmt::Display) -> DatabaseError {
    DatabaseError::Failed(why.to_string())
}

fn no_writes<T>() -> Result<T, DatabaseError> {
    let why = "a cluster answers queries only; run transactions on `embedded:` or `postgres:`, or the queries alone (of \
               `ch` by `--parameter mix=queries`)";
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
            Data::Made { loader, .. } => loader.database().declare(schema, tables),
            Data::Given { .. } => Ok(()),
        }
    }

    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.loader()?.database().create(schema)
    }

    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let Data::Made { folder, loader } = &self.data else { return Ok(()) };
        self.schemas.write().remove(&*schema.name);
        self.loaded.write().remove(&*schema.name);
        let folder = folder_of(folder.path(), &schema.name);
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .map_err(|error| DatabaseError::Failed(format!("cannot remove {}: {error}", folder.display())))?;
        }
        loader.database().drop_tables(schema)
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        self.loader()?.database().load(schema, table, batch)
    }

    /// Exports the tables. They are then in files only.
    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let Data::Made { folder, loader } = &self.data else { return self.loader().map(drop) };
        loader.database().finish_load(schema)?;
        let told = |error: ExportError| DatabaseError::Failed(error.to_string());
        let storage = FolderStorage::open(&folder_of(folder.path(), &schema.name));
        let storage = storage.map_err(|error| told(error.into()))?;
        let options = ExportOptions {
            threads: cores_usable(),
            made_by: format!("plimsoll {}", env!("CARGO_PKG_VERSION")),
            progress: &|_, _| {},
            stop: &AtomicBool::new(false),
        };
        export(loader.source(schema)?.as_ref(), &storage, &options).map_err(told)?;
        loader.database().drop_tables(schema)
    }

    fn session(&self, schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        let (coordinator, tables) = (Arc::clone(&self.coordinator), self.tables(schema)?);
        // The transactions of a workload that the export was made by would write; those of a file are the user's queries.
        let is_own = self.runs_sql() && self.data(schema)?.is_none();
        Ok(Box::new(ClusterSession { coordinator, tables, runs_sql: is_own }))
    }

    fn refresh(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn footprint(&self) -> Footprint {
        Footprint { processes: self.coordinator.members.process_ids(), folder: None }
    }

    fn data(&self, schema: &Schema) -> Result<Option<LoadedData>, DatabaseError> {
        match &self.data {
            Data::Made { .. } => Ok(self.loaded.read().get(&*schema.name).cloned()),
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
        self.coordinator.notes()
    }

    fn cancel_statements(&self) {
        self.coordinator.cancel();
    }
}

/// A client's connection.
struct ClusterSession {
    coordinator: Arc<Coordinator>,
    tables: Arc<Tables>,
    /// Whether statements run as their SQL.
    runs_sql: bool,
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
        let sql = with_values(statement.sql, values).map_err(unreadable)?;
        put_rows(&self.coordinator.query(&self.tables, &sql)?, rows).map_err(unreadable)
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        let batches = self.coordinator.query(&self.tables, sql)?;
        Ok(QueryAnswer { batches, snapshot: self.tables.snapshot.clone() })
    }
}
