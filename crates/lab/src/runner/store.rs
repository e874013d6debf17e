//! The database under test and the data in it: opened, loaded and loaded again only if necessary.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_workload::benchmark::{Benchmark, LoadError, LoadProgress, Writes, load_anew};
use plimsoll_workload::cancelling::cancelling;
use plimsoll_workload::database::{Database, DatabaseError, Footprint, LoadedData, OptionChange};
use plimsoll_workload::schema::Schema;

use super::{RunProgress, Watch};
use crate::plan::{Reload, Setting};
use crate::targets::{Targets, own_options};

/// Why data cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Ctrl-C.
    #[error("stopped while loading")]
    Stopped,
    /// The target cannot be opened.
    #[error("cannot open `{url}`: {error}")]
    Open {
        /// The target.
        url: String,
        /// The error of the target.
        error: String,
    },
    /// An option cannot be changed.
    #[error("cannot set {name} to {value}: {error}")]
    Option {
        /// The option.
        name: String,
        /// Its new value.
        value: String,
        /// The error of the database.
        error: DatabaseError,
    },
    /// The database refused data.
    #[error("loading {workload}: {error}")]
    Load {
        /// The workload.
        workload: String,
        /// The error of the database.
        error: DatabaseError,
    },
}

/// A target, open or not, and its data.
pub(super) struct Store<'a> {
    targets: &'a dyn Targets,
    open: Option<OpenDatabase>,
    /// How often a database was opened or data was loaded into it. A count.
    generation: u64,
}

/// An open target and its data.
pub(super) struct OpenDatabase {
    url: String,
    options: BTreeMap<String, String>,
    database: Box<dyn Database>,
    /// The loaded data, by the name of its schema.
    loaded: BTreeMap<String, Loaded>,
}

struct Loaded {
    schema: Schema,
    /// [`Benchmark::data`].
    data: String,
    /// How runs have changed it since.
    written: Writes,
}

impl fmt::Debug for OpenDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the URL, which may have a password in it.
        f.debug_struct("Open").field("loaded", &self.loaded.keys()).finish_non_exhaustive()
    }
}

impl<'a> Store<'a> {
    pub(super) fn new(targets: &'a dyn Targets) -> Self {
        Store { targets, open: None, generation: 0 }
    }

    pub(super) fn into_open(self) -> Option<OpenDatabase> {
        self.open
    }

    /// Continues with a database that is already open.
    pub(super) fn adopt(&mut self, open: Option<OpenDatabase>) {
        self.open = open;
    }

    /// The databases that it can open.
    pub(super) fn targets(&self) -> &'a dyn Targets {
        self.targets
    }

    /// Changes whenever the database is opened again or data is loaded into it.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The database.
    ///
    /// # Panics
    /// If nothing was prepared yet.
    pub(super) fn database(&self) -> &dyn Database {
        self.open.as_ref().expect("something was prepared").database.as_ref()
    }

    /// Prepares the database for a run: open with these options, with the data of the members in it.
    pub(super) fn prepare(
        &mut self,
        setting: &Setting,
        benchmarks: &[Arc<dyn Benchmark>],
        members: &[usize],
        reload: Reload,
        watch: &mut Watch<'_>,
    ) -> Result<(), StoreError> {
        self.open(setting)?;
        let open = self.open.as_mut().expect("it was just opened");
        open.drop_unwanted(benchmarks)?;
        for member in members {
            let benchmark = benchmarks[*member].as_ref();
            let name = &setting.workloads[*member].name;
            if open.lacks(benchmark, reload)? {
                self.generation += 1;
                open.load(name, benchmark, watch)?;
            }
        }
        // Before the first client connects, so that a process that finds the data after a kill knows of the writes.
        members.iter().try_for_each(|member| open.note_writes(benchmarks[*member].as_ref()))
    }

    /// Whether data of any member must be loaded before it can run.
    pub(super) fn must_load(
        &mut self,
        benchmarks: &[Arc<dyn Benchmark>],
        members: &[usize],
        reload: Reload,
    ) -> Result<bool, StoreError> {
        let Some(open) = &mut self.open else { return Ok(true) };
        let mut must = false;
        for member in members {
            must |= open.lacks(benchmarks[*member].as_ref(), reload)?;
        }
        Ok(must)
    }

    /// The use of this machine by the open database; empty if none is open.
    pub(super) fn footprint(&self) -> Footprint {
        self.open.as_ref().map(|open| open.database.footprint()).unwrap_or_default()
    }

    /// Closes the database, which forgets its data and gives its memory back.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Opens the target, or changes the options of the open one; opens it again if they cannot be changed.
    pub(super) fn open(&mut self, setting: &Setting) -> Result<(), StoreError> {
        let options = own_options(self.targets, setting);
        if let Some(open) = self.open.as_mut().filter(|open| open.url == setting.url) {
            let mut in_place = open.options.keys().all(|name| options.contains_key(name));
            for (name, value) in options.iter().filter(|(name, value)| open.options.get(*name) != Some(value)) {
                let change = open.database.set_option(name, value).map_err(|error| StoreError::Option {
                    name: name.clone(),
                    value: value.clone(),
                    error,
                })?;
                in_place &= change == OptionChange::Applied;
            }
            if in_place {
                open.options = options;
                return Ok(());
            }
        }
        // The old database must release its memory first.
        self.open = None;
        let url = setting.url.clone();
        let database = self.targets.target(&url, &options).and_then(|target| target.open());
        let database = database.map_err(|error| StoreError::Open { url: self.targets.shown(&url), error })?;
        self.generation += 1;
        self.open = Some(OpenDatabase { url, options, database, loaded: BTreeMap::new() });
        Ok(())
    }

    /// Records the changes that a run of this benchmark makes to its data.
    pub(super) fn has_run(&mut self, benchmark: &dyn Benchmark) {
        let loaded = self.open.as_mut().and_then(|open| open.loaded.get_mut(&*benchmark.schema().name));
        if let Some(loaded) = loaded {
            loaded.written = loaded.written.max(benchmark.writes());
        }
    }
}

impl OpenDatabase {
    /// Whether the data of a benchmark is missing or not as required. Data that an earlier process has left counts,
    /// too.
    fn lacks(&mut self, benchmark: &dyn Benchmark, reload: Reload) -> Result<bool, StoreError> {
        let schema = benchmark.schema();
        if !self.loaded.contains_key(&*schema.name) {
            let found = self.database.data(schema);
            let found = found.map_err(|error| StoreError::Load { workload: schema.name.to_string(), error })?;
            if let Some(LoadedData { data, written }) = found.filter(|found| found.data == benchmark.data()) {
                let schema = schema.clone();
                self.loaded.insert(schema.name.to_string(), Loaded { schema, data, written });
            }
        }
        let fits = |loaded: &Loaded| loaded.data == benchmark.data() && !reload.is_due(loaded.written);
        Ok(!self.loaded.get(&*schema.name).is_some_and(fits))
    }

    /// Records in the database the changes that a run is about to make to its data.
    fn note_writes(&self, benchmark: &dyn Benchmark) -> Result<(), StoreError> {
        let schema = benchmark.schema();
        let Some(loaded) = self.loaded.get(&*schema.name).filter(|loaded| loaded.written < benchmark.writes()) else {
            return Ok(());
        };
        let written = LoadedData { data: loaded.data.clone(), written: benchmark.writes() };
        let noted = self.database.note_data(schema, &written);
        noted.map_err(|error| StoreError::Load { workload: schema.name.to_string(), error })
    }

    /// Drops data that no workload of the present setting reads, to free its memory.
    fn drop_unwanted(&mut self, benchmarks: &[Arc<dyn Benchmark>]) -> Result<(), StoreError> {
        let is_wanted = |loaded: &Loaded| {
            benchmarks
                .iter()
                .any(|benchmark| benchmark.schema().name == loaded.schema.name && benchmark.data() == loaded.data)
        };
        let unwanted = self.loaded.values().filter(|loaded| !is_wanted(loaded)).map(|loaded| loaded.schema.clone());
        for schema in unwanted.collect::<Vec<_>>() {
            self.drop_tables(&schema)?;
        }
        Ok(())
    }

    fn drop_tables(&mut self, schema: &Schema) -> Result<(), StoreError> {
        self.loaded.remove(&*schema.name);
        let dropped = self.database.drop_tables(schema);
        dropped.map_err(|error| StoreError::Load { workload: schema.name.to_string(), error })
    }

    fn load(&mut self, workload: &str, benchmark: &dyn Benchmark, watch: &mut Watch<'_>) -> Result<(), StoreError> {
        let schema = benchmark.schema();
        self.loaded.remove(&*schema.name);
        // Loading may report from several threads.
        let progress = std::sync::Mutex::new(&mut watch.progress);
        let report = |done: u64, all: u64, _table: &str| {
            let mut progress = progress.lock().expect("no thread panics while reporting");
            progress(RunProgress::Loading { workload, done, all });
        };
        let progress = LoadProgress { report: &report, stop: watch.stop };
        let database = self.database.as_ref();
        let outcome = cancelling(database, watch.stop, || load_anew(benchmark, database, &progress));
        outcome.map_err(|error| match error {
            LoadError::Database(error) if !watch.stop.load(Ordering::Relaxed) => {
                StoreError::Load { workload: workload.to_owned(), error }
            }
            _ => StoreError::Stopped,
        })?;
        let loaded = Loaded { schema: schema.clone(), data: benchmark.data(), written: Writes::Nothing };
        self.loaded.insert(schema.name.to_string(), loaded);
        Ok(())
    }
}

impl Reload {
    /// Whether data that runs have changed in this way must be loaded again.
    fn is_due(self, written: Writes) -> bool {
        match self {
            Reload::WhenGrown => written == Writes::Grows,
            Reload::WhenWritten => written != Writes::Nothing,
            Reload::Never => false,
        }
    }
}

#[cfg(test)]
mod tests;
