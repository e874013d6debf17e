//! The exports that a run makes: one after loading, and further ones while transactions go on.
//!
//! A query reads the newest export that was complete when it began. An export removes the files of the one before the last, so
//! it begins only when no query reads that one any more.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use plimsoll_export::{ExportOptions, FolderStorage, KnownChunks, Source, export};
use plimsoll_machine::facts::cores_usable;
use plimsoll_machine::thread_share::ThreadShare;
use plimsoll_workload::database::{Database, DatabaseError};
use plimsoll_workload::freshness::{CopyState, CopyWatch};
use plimsoll_workload::schema::Schema;
use tempfile::TempDir;

use crate::coordinator::{Coordinator, Tables};
use crate::data::{Export, folder_of};
use crate::error::{ClusterError, failed};

/// How often it is looked whether queries still read old files.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A database that a workload's data are loaded into, to export them for the workers.
pub trait Loader: Send + Sync {
    /// The database.
    fn database(&self) -> &dyn Database;

    /// The state of a schema's tables; `None` if loading has made the only export ([`folder_of`]).
    fn source(&self, schema: &Schema) -> Result<Option<Box<dyn Source + '_>>, DatabaseError>;
}

/// The tables of the newest export of a schema.
pub type Newest = Arc<RwLock<Arc<Tables>>>;

/// The chunks of the last export of each schema, by the schema's name.
type Known = BTreeMap<String, KnownChunks>;

/// The exports of a run.
pub struct Exports {
    loader: Box<dyn Loader>,
    /// Before the folder, which its workers read.
    coordinator: Arc<Coordinator>,
    schemas: Mutex<BTreeMap<String, Exported>>,
    /// The chunks of the last exports. Locked while tables are exported or dropped.
    round: Mutex<Known>,
    progress: Mutex<Progress>,
    /// Set to end a round that a run waits for.
    is_unwanted: AtomicBool,
    /// Removed at the end.
    folder: TempDir,
}

/// A schema and those of its exports that queries may read.
struct Exported {
    schema: Schema,
    newest: Newest,
    /// The one before.
    last: Weak<Tables>,
    /// Whether a newer one is complete and could not be opened.
    is_unopened: bool,
}

/// How far the exports are.
#[derive(Debug, Default)]
struct Progress {
    /// The changes that had been published when the last complete round began: its exports have them.
    applied: u64,
    /// When the current round began; `None` between rounds.
    began: Option<Instant>,
    /// The time of all rounds that have ended.
    spent: Duration,
}

impl Exports {
    pub fn new(loader: Box<dyn Loader>, coordinator: Arc<Coordinator>, folder: TempDir) -> Exports {
        let (schemas, round, progress, is_unwanted) = Default::default();
        Exports { loader, coordinator, schemas, round, progress, is_unwanted, folder }
    }

    /// The database whose tables are exported.
    pub fn database(&self) -> &dyn Database {
        self.loader.database()
    }

    /// The tables of the newest export of a schema.
    pub fn newest(&self, schema: &Schema) -> Result<Newest, DatabaseError> {
        let newest = self.schemas.lock().get(&*schema.name).map(|exported| Arc::clone(&exported.newest));
        newest.ok_or_else(|| failed(format!("the tables of {} do not exist; load them first", schema.name)))
    }

    /// Makes the first export of a schema that was loaded.
    pub fn begin(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.is_unwanted.store(false, Ordering::Relaxed);
        let mut round = self.round.lock();
        self.write(schema, &mut round, &self.is_unwanted)?;
        let newest = Arc::new(RwLock::new(self.open(schema)?));
        let exported = Exported { schema: schema.clone(), newest, last: Weak::new(), is_unopened: false };
        self.schemas.lock().insert(schema.name.to_string(), exported);
        Ok(())
    }

    /// Drops the tables of a schema, and removes its export.
    pub fn remove(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let mut round = self.round.lock();
        round.remove(&*schema.name);
        self.schemas.lock().remove(&*schema.name);
        let folder = folder_of(self.folder.path(), &schema.name);
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .map_err(|error| failed(format!("cannot remove {}: {error}", folder.display())))?;
        }
        self.database().drop_tables(schema)?;
        // Its changes are no longer among those that are counted.
        self.progress.lock().applied = 0;
        Ok(())
    }

    /// [Renews](Self::renew) the exports for a run that waits for it, until it is [cancelled](Self::cancel).
    pub fn refresh(&self) -> Result<(), DatabaseError> {
        self.is_unwanted.store(false, Ordering::Relaxed);
        self.renew(&self.is_unwanted)
    }

    /// Ends the first export or a refresh, if one is under way.
    pub fn cancel(&self) {
        self.is_unwanted.store(true, Ordering::Relaxed);
    }

    /// Exports what transactions have changed since the last export. Waits for queries that read the one before.
    /// It ends early with an error once `stop` is set.
    pub fn renew(&self, stop: &AtomicBool) -> Result<(), DatabaseError> {
        let mut round = loop {
            match self.round.try_lock_for(LOOK_EVERY) {
                Some(round) => break round,
                None if stop.load(Ordering::Relaxed) => {
                    return Err(failed("stopped while waiting for the end of another export"));
                }
                None => {}
            }
        };
        let Some(mut watch) = self.database().freshness()? else { return Ok(()) };
        if watch.look()?.published == self.progress.lock().applied {
            return Ok(());
        }
        let known: Vec<Schema> = self.schemas.lock().values().map(|exported| exported.schema.clone()).collect();
        known.iter().try_for_each(|schema| self.wait_for_readers(schema, stop))?;
        // Before any snapshot is taken, so that the exports have these changes, and perhaps more.
        let published = watch.look()?.published;
        self.progress.lock().began = Some(Instant::now());
        let replace = AssertUnwindSafe(|| known.iter().try_for_each(|schema| self.replace(schema, &mut round, stop)));
        let outcome = catch_unwind(replace).unwrap_or_else(|_| Err(failed("an export panicked")));
        self.progress.lock().end(outcome.is_ok().then_some(published));
        outcome
    }

    /// Waits until no query reads the export whose files the next one removes.
    fn wait_for_readers(&self, schema: &Schema, stop: &AtomicBool) -> Result<(), DatabaseError> {
        let is = |of: fn(&Exported) -> bool| self.schemas.lock().get(&*schema.name).is_some_and(of);
        if is(|exported| exported.is_unopened) {
            self.swap(schema)?;
        }
        while is(|exported| exported.last.strong_count() > 0) {
            if stop.load(Ordering::Relaxed) {
                let name = &schema.name;
                return Err(failed(format!("stopped while waiting for queries of {name} that read an earlier export")));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn replace(&self, schema: &Schema, known: &mut Known, stop: &AtomicBool) -> Result<(), DatabaseError> {
        self.write(schema, known, stop)?;
        self.change(schema, |exported| exported.is_unopened = true);
        self.swap(schema)
    }

    /// Lets queries that begin from now on read the export that is complete.
    fn swap(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let tables = self.open(schema)?;
        self.change(schema, |exported| {
            let last = std::mem::replace(&mut *exported.newest.write(), tables);
            (exported.last, exported.is_unopened) = (Arc::downgrade(&last), false);
        });
        Ok(())
    }

    fn change(&self, schema: &Schema, how: impl FnOnce(&mut Exported)) {
        if let Some(exported) = self.schemas.lock().get_mut(&*schema.name) {
            how(exported);
        }
    }

    fn write(&self, schema: &Schema, known: &mut Known, stop: &AtomicBool) -> Result<(), DatabaseError> {
        let Some(source) = self.loader.source(schema)? else { return Ok(()) };
        let storage = FolderStorage::open(&folder_of(self.folder.path(), &schema.name)).map_err(failed)?;
        let options = ExportOptions {
            threads: cores_usable(),
            progress: &|_, _| {},
            stop,
            known: Some(known.entry(schema.name.to_string()).or_default()),
        };
        export(source.as_ref(), &storage, &options).map(drop).map_err(failed)
    }

    fn open(&self, schema: &Schema) -> Result<Arc<Tables>, DatabaseError> {
        let export = Export::open(self.folder.path(), &schema.name).map_err(failed)?;
        self.coordinator.tables(&export, &schema.name).map(Arc::new)
    }
}

impl Progress {
    /// Ends a round, whose exports have the first `applied` changes; `None` if it failed.
    fn end(&mut self, applied: Option<u64>) {
        self.spent += self.began.take().map(|began| began.elapsed()).unwrap_or_default();
        self.applied = applied.unwrap_or(self.applied);
    }
}

/// Exports again and again, until it is dropped.
pub struct Exporter {
    exports: Arc<Exports>,
    /// The end of the pause between two rounds, and of the thread.
    stopped: Arc<(Mutex<bool>, Condvar)>,
    /// Set to end the round that is under way.
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Begins a round every so often, or when the one before has ended if that takes longer. Its threads have a share of
    /// the cores as queries do.
    pub fn start(exports: Arc<Exports>, every: Duration, share: ThreadShare) -> Result<Exporter, ClusterError> {
        let stopped = Arc::new((Mutex::new(false), Condvar::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (of_thread, until, stop_round) = (Arc::clone(&exports), Arc::clone(&stopped), Arc::clone(&stop));
        let run = move || {
            if let Err(error) = share.give_to_own_thread() {
                of_thread.coordinator.note(format!("exports have more of the cores than queries: {error}"));
            }
            let (is_stopped, woken) = &*until;
            let mut next = Instant::now() + every;
            let mut stopped = is_stopped.lock();
            while !*stopped {
                if !woken.wait_until(&mut stopped, next).timed_out() {
                    continue;
                }
                drop(stopped);
                next = Instant::now() + every;
                if let Err(error) = of_thread.renew(&stop_round) {
                    of_thread.coordinator.note(format!("an export failed, so queries read an older one: {error}"));
                }
                stopped = is_stopped.lock();
            }
        };
        let thread = thread::Builder::new().name("exporter".to_owned()).spawn(run).map_err(ClusterError::Threads)?;
        Ok(Exporter { exports, stopped, stop, thread: Some(thread) })
    }

    /// What it exports.
    pub fn exports(&self) -> &Arc<Exports> {
        &self.exports
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let (is_stopped, woken) = &*self.stopped;
        *is_stopped.lock() = true;
        woken.notify_all();
        if let Some(thread) = self.thread.take() {
            // It catches panics of exports, and has none of its own.
            let _ = thread.join();
        }
    }
}

/// How far the newest exports are behind the transactions.
pub struct ExportWatch {
    exports: Arc<Exports>,
    changes: Box<dyn CopyWatch>,
}

impl ExportWatch {
    /// `None` if nothing is loaded.
    pub fn open(exports: &Arc<Exports>) -> Result<Option<ExportWatch>, DatabaseError> {
        let changes = exports.database().freshness()?;
        Ok(changes.map(|changes| ExportWatch { exports: Arc::clone(exports), changes }))
    }
}

impl CopyWatch for ExportWatch {
    fn look(&mut self) -> Result<CopyState, DatabaseError> {
        let (applied, exporting) = {
            let progress = self.exports.progress.lock();
            let current = progress.began.map(|began| began.elapsed()).unwrap_or_default();
            (progress.applied, progress.spent + current)
        };
        // After it, since nothing is applied that was not published.
        let state = self.changes.look()?;
        Ok(CopyState {
            applied,
            readable: applied,
            applying: Some(exporting),
            merged: None,
            // The engine's own columns, which are another copy.
            delta_bytes: None,
            versions: None,
            ..state
        })
    }
}
