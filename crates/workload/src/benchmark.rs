//! The trait of benchmarks, by which they are loaded, driven and checked.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::database::{Database, DatabaseError, LoadedData, Session};
use crate::driver::PriorityRule;
use crate::file::WorkloadFile;
use crate::schema::Schema;

/// A benchmark at a scale. One value serves loading, running and checking, so that constants which must agree between
/// them, such as NURand's C, are drawn once, from the seed it was made with.
pub trait Benchmark: Send + Sync {
    /// Its name on the command line: `tpcc`, `tpch`. By default that of its schema.
    fn name(&self) -> &str {
        &self.schema().name
    }

    /// Its tables.
    fn schema(&self) -> &Schema;

    /// Identifies the data that [`load`](Benchmark::load) makes: the schema's name and everything else that the data
    /// depend on, as in `tpch:0.1` or `tpcc:2:seed=7`. Benchmarks with equal strings load equal data and may share
    /// them. Those with the same schema and different strings cannot be in one database. Settings that only change the
    /// clients' behaviour are left out.
    fn data(&self) -> String;

    /// Whether a run changes the data.
    fn writes(&self) -> Writes;

    /// The names of its kinds of transaction or query; a client's [`Client::draw`] returns positions in this list. By
    /// default it has one kind, with the benchmark's name.
    fn transactions(&self) -> Vec<&str> {
        vec![self.name()]
    }

    /// The priority that each of [`transactions`](Benchmark::transactions) has by the benchmark's own definition; empty
    /// if none has one. A user's rule overrides it only if that rule names the transaction.
    fn priorities(&self) -> Vec<Option<PriorityRule>> {
        Vec::new()
    }

    /// Whether its requests are queries that run on the database's query threads rather than on the client's own.
    fn is_analytical(&self) -> bool {
        false
    }

    /// Bytes that the loaded data is expected to take in an embedded database, all copies and indexes included.
    fn estimated_bytes(&self) -> u64;

    /// How many clients the benchmark can make useful, where its rules limit them; for TPC-C none.
    fn client_count_max(&self) -> Option<usize> {
        None
    }

    /// Creates the tables and fills them.
    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError>;

    /// Called after loading, before the clients of a run are made: a benchmark whose input comes from the data, or that
    /// can be wrong, reads the data here.
    fn prepare(&self, database: &dyn Database) -> Result<(), DatabaseError> {
        let _ = database;
        Ok(())
    }

    /// The client of that number, whose requests follow from the seed: equal numbers and seeds give equal sequences. The data
    /// follow from the seed that the benchmark was made with, so that the input can change while the data stay.
    fn client(&self, number: usize, seed: u64) -> Box<dyn Client>;

    /// How many clients a recording has, each with its own requests and pauses
    /// ([`recorded_client`](Benchmark::recorded_client)); `None` if this is no recording.
    fn recorded_clients(&self) -> Option<usize> {
        None
    }

    /// The client of that number as it was recorded. Only asked for if there are
    /// [`recorded_clients`](Benchmark::recorded_clients).
    fn recorded_client(&self, number: usize) -> Box<dyn Client> {
        self.client(number, 0)
    }

    /// What readers of figures must know of the clients that have run so far, such as requests that were left out.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Queries whose plans distinguish settings of a database, with their names: if a query has another plan at another
    /// setting, that is another reason for a different speed. None by default.
    fn queries(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The files that it was read from; none unless it is a user's own.
    fn files(&self) -> Vec<WorkloadFile> {
        Vec::new()
    }

    /// Checks the invariants of the data and, if clients of this value have run, their input.
    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError>;
}

/// The effect of a run on the loaded data, the least change first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writes {
    /// Nothing: any number of runs find the same data.
    Nothing,
    /// It changes only values: data keep their size and distribution, so runs can be compared without reloading.
    InPlace,
    /// It adds or removes rows: a later run finds other data than an earlier one.
    Grows,
}

impl Writes {
    /// Each of them.
    pub const ALL: [Writes; 3] = [Writes::Nothing, Writes::InPlace, Writes::Grows];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Writes::Nothing => "nothing",
            Writes::InPlace => "in-place",
            Writes::Grows => "grows",
        }
    }
}

/// One simulated user: draws a request, then runs it, perhaps several times.
pub trait Client: Send {
    /// Called before each [`draw`](Client::draw), for what belongs to no request, such as the beginning of a recorded session.
    fn between(&mut self, session: &mut dyn Session) -> Between {
        let _ = session;
        Between::Nothing
    }

    /// Draws the next request with all of its input, and returns its position in [`Benchmark::transactions`].
    fn draw(&mut self) -> usize;

    /// Runs the request drawn last, from `begin` to `commit`. Called again with the same input after a retryable error.
    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError>;
}

/// What a client did between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// Nothing: the pause before the next request is that of the [options](crate::driver::ClientOptions) of the run, and
    /// begins at the end of the previous one.
    Nothing,
    /// It worked: the same, but that pause begins now.
    Worked,
    /// The next request is due at this time after the end of the previous one, or now if that has passed.
    Paused(Duration),
}

/// How a request that met no error ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its work is done.
    Committed,
    /// It rolled itself back, as the benchmark prescribes for some of its input.
    RolledBack,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CheckLine {
    /// The condition, in a few words.
    pub what: String,
    /// Whether it holds; `None` if that could not be judged.
    pub holds: Option<bool>,
    /// The finding: the numbers compared, the first rows that differ, or why it could not be judged.
    pub found: String,
}

/// Reports the progress of loading, and signals it to stop.
pub struct LoadProgress<'a> {
    /// Called with the rows loaded so far, the rows expected in all, and the current table.
    pub report: &'a (dyn Fn(u64, u64, &str) + Sync),
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
}

impl LoadProgress<'_> {
    /// Reports, or fails where loading is to stop.
    pub fn step(&self, done: u64, all: u64, table: &str) -> Result<(), LoadError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(LoadError::Stopped);
        }
        (self.report)(done, all, table);
        Ok(())
    }
}

impl fmt::Debug for LoadProgress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadProgress").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// Replaces the data in a benchmark's tables by the benchmark's own, and records which data these are.
pub fn load_anew(
    benchmark: &dyn Benchmark,
    database: &dyn Database,
    progress: &LoadProgress<'_>,
) -> Result<(), LoadError> {
    let schema = benchmark.schema();
    database.drop_tables(schema)?;
    benchmark.load(database, progress)?;
    database.note_data(schema, &LoadedData { data: benchmark.data(), written: Writes::Nothing })?;
    Ok(())
}

/// Why loading did not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Ctrl-C.
    #[error("stopped while loading")]
    Stopped,
    /// The database refused.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}
