//! A workload's file at a scale, as a benchmark.

use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use super::client::FileClient;
use super::generator::{ClientCount, Values};
use super::native::{Native, NativeProgram};
use super::problem::{FileError, SourceFile};
use super::program::{Definition, PlacedSql, ProgramStep, Tables};
use super::sql::{self, Trial};
use super::{WorkloadFile, check, check_bounds, load, scale_datum, toml_form};
use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError, Session};
use crate::driver::PriorityRule;
use crate::schema::Schema;

/// A workload at a scale.
pub(crate) struct FileBenchmark {
    pub(super) definition: Arc<Definition>,
    pub(super) scale: f64,
    pub(super) seed: u64,
    /// Which data it loads.
    data: String,
    /// The values that parameters are drawn from, as read when the clients of a run began.
    values: RwLock<Arc<Values>>,
    /// How many clients draw from its sequences in a run.
    pub(super) clients: ClientCount,
    /// Its tables as they are declared on targets that run row operations, or why they cannot be.
    native: OnceLock<Result<Native, String>>,
    /// The native form of the transactions on the target that was prepared for last; `None` if they run as SQL.
    compiled: RwLock<Option<Arc<Vec<NativeProgram>>>>,
}

/// The largest scale; more rows than this makes are not loaded by SQL in a lifetime.
const SCALE_MAX: f64 = 1e6;

/// The prefix with which a statement is tried.
const PREPARE: &str = "PREPARE plimsoll_check AS ";

/// The suffix with which a statement is tried.
const FORGET: &str = "; DEALLOCATE plimsoll_check";

impl FileBenchmark {
    /// The workload of a TOML file that has this text; `name` is its place in messages.
    pub(crate) fn of_text(name: &str, text: String, seed: u64) -> Result<Self, FileError> {
        let definition = toml_form::parse(&SourceFile { path: name.into(), text })?;
        FileBenchmark::new(Arc::new(definition), 1.0, seed)
    }

    pub(super) fn new(definition: Arc<Definition>, scale: f64, seed: u64) -> Result<Self, FileError> {
        let file = &definition.files[0];
        let wrong = |what: &str| {
            FileError::of_file(&file.path, format!("it has no scale {scale}; give a {what} above 0, up to {SCALE_MAX}"))
        };
        if !(scale.is_finite() && scale > 0.0 && scale <= SCALE_MAX) {
            return Err(wrong("number"));
        }
        // The tables of pgbench have 100000 accounts a branch.
        if definition.tables == Tables::Pgbench && scale.fract() != 0.0 {
            return Err(wrong("whole number"));
        }
        let source = SourceFile { path: file.path.clone(), text: file.text.clone() };
        check_bounds(&definition, &source, scale)?;
        let data = data(&definition, scale, seed);
        let (values, native, compiled) = (RwLock::default(), OnceLock::new(), RwLock::default());
        let clients = ClientCount::default();
        Ok(FileBenchmark { definition, scale, seed, data, values, clients, native, compiled })
    }

    /// Its tables for targets that run row operations.
    pub(super) fn native(&self) -> Result<&Native, DatabaseError> {
        let native = self.native.get_or_init(|| Native::read(self));
        native.as_ref().map_err(|why| DatabaseError::Unsupported(why.clone()))
    }

    /// Declares the tables to a target that runs row operations, and makes all changes visible to queries.
    fn look_at_rows(&self, database: &dyn Database) -> Result<(), DatabaseError> {
        self.native()?.declare(self, database)?;
        database.refresh(self.schema())
    }

    /// SQL of the file with the values of `:scale` and `:seed`.
    pub(super) fn sql(&self, text: &str) -> String {
        let constants = [("scale", scale_datum(self.scale).text().into_owned()), ("seed", self.seed.to_string())];
        sql::inline(text, &constants).expect("names were checked when the file was read")
    }

    /// The values that parameters are drawn from, in ascending order, so that they do not depend on how the database finds
    /// them.
    fn read_values(&self, session: &mut dyn Session) -> Result<Values, DatabaseError> {
        let read = |query: &PlacedSql| {
            let failed =
                |why: String| DatabaseError::Failed(format!("{}: the values of a parameter: {why}", query.place));
            let answer = session.query(&self.sql(&query.sql)).map_err(|error| failed(error.to_string()))?;
            let mut values = check::column(&answer.batches).map_err(failed)?;
            values.sort_by(check::order);
            Ok(values.into())
        };
        self.definition.queries.iter().map(read).collect()
    }

    /// Asks the server to prepare every statement once, so that a mistake in any of them is reported with its place
    /// before the measurement. Not done if the workload creates tables as it runs.
    fn check_statements(&self, database: &dyn Database) -> Result<(), DatabaseError> {
        let steps = || self.definition.programs.iter().flat_map(|program| &program.steps);
        let executes = || steps().filter_map(ProgramStep::statement);
        if executes().any(|execute| sql::trial(&execute.sql) == Trial::NoneOfAny) {
            return Ok(());
        }
        for execute in executes().filter(|execute| sql::trial(&execute.sql) == Trial::Prepare) {
            let sql = &execute.sql;
            let prepare = format!("{PREPARE}{sql}\n{FORGET}");
            database.run_script(&self.definition.schema, &prepare).map_err(|error| {
                let why = match &error {
                    DatabaseError::Refused(refusal) => execute.written.refused(refusal, PREPARE.chars().count()),
                    other => other.to_string(),
                };
                let (place, name, line) = (&execute.place, &execute.name, execute.written.line());
                DatabaseError::Failed(format!("{place}: statement `{name}`: {why}; it is `{line}`"))
            })?;
        }
        Ok(())
    }
}

/// Identifies the data: by the files' contents, and by the seed if the setup uses it.
fn data(definition: &Definition, scale: f64, seed: u64) -> String {
    let hash = &definition.data_hash;
    let uses_seed = match &definition.tables {
        Tables::Setup(statements) => statements.iter().any(|statement| statement.sql.contains(":seed")),
        Tables::Given | Tables::Pgbench => false,
    };
    let seed = if uses_seed { format!(":seed={seed}") } else { String::new() };
    format!("{}:{scale}:{hash}{seed}", definition.schema.name)
}

impl Benchmark for FileBenchmark {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn schema(&self) -> &Schema {
        &self.definition.schema
    }

    fn data(&self) -> String {
        self.data.clone()
    }

    fn writes(&self) -> Writes {
        self.definition.writes
    }

    fn transactions(&self) -> Vec<&str> {
        self.definition.names.iter().map(String::as_str).collect()
    }

    fn priorities(&self) -> Vec<Option<PriorityRule>> {
        self.definition.programs.iter().map(|program| program.priority.clone()).collect()
    }

    fn estimated_bytes(&self) -> u64 {
        (self.definition.mib_per_scale * self.scale * f64::from(1 << 20)) as u64
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        load::load(self, database, progress)
    }

    fn prepare(&self, database: &dyn Database) -> Result<(), DatabaseError> {
        if database.runs_sql() {
            self.check_statements(database)?;
            *self.compiled.write() = None;
        } else {
            self.look_at_rows(database)?;
            *self.compiled.write() = Some(Arc::new(self.native()?.compile(self)?));
        }
        let mut session = database.session(self.schema())?;
        *self.values.write() = Arc::new(self.read_values(&mut *session)?);
        self.clients.restart();
        Ok(())
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        Box::new(FileClient::new(self, &self.values.read(), self.compiled.read().clone(), number, seed))
    }

    fn files(&self) -> Vec<WorkloadFile> {
        self.definition.files.clone()
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        if !database.runs_sql() {
            self.look_at_rows(database)?;
        }
        let mut session = database.session(self.schema())?;
        Ok(check::check(self, &mut *session))
    }
}
