//! A workload on a target that runs row operations: its tables are declared as its setup makes them, its statements compiled.
//!
//! A query that is not a keyed statement, in a transaction of queries only, runs over the copy of the data that queries
//! read, like an analytical benchmark's, and without a transaction.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use super::benchmark::FileBenchmark;
use super::lexer::{TokenKind, tokens};
use super::load::{PGBENCH_MARK, accounts_sql, branches_sql, pgbench_account_type, tellers_sql};
use super::program::{self, Execute, KeptColumns, PlacedSql, ProgramStep, Tables};
use super::sql;
use crate::benchmark::{LoadError, LoadProgress};
use crate::database::{Database, DatabaseError, Refusal, Session};
use crate::keyed::{Catalog, Filling, Program, SqlError};
use crate::statement::{RowAccess, Rows, Statement, Value};

/// The tables of a workload and the statements that fill them.
pub(super) struct Native {
    catalog: Catalog,
    fillings: Vec<(Filling, String)>,
}

/// The steps of a transaction in native form.
pub(super) struct NativeProgram {
    pub(super) steps: Vec<Option<NativeStep>>,
    /// Whether its statements run without a transaction, because some are queries over the copy.
    pub(super) is_queries: bool,
}

/// The native form of a statement.
#[derive(Debug)]
pub(super) enum NativeStep {
    /// Row operations.
    Rows(Box<Program>),
    /// A query over the copy that queries read.
    Query,
    /// A statement about its transaction that requires no action.
    Nothing,
}

/// Rows that are made before they are loaded.
const ROWS_AT_ONCE: u64 = 32 * 1024;

/// The current time, in microseconds since 1970. Servers stamp rows by their own clock; here statements run in the
/// client.
pub(super) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

impl Native {
    /// Reads the setup at the benchmark's scale. The error names the statement and the place in it.
    pub(super) fn read(benchmark: &FileBenchmark) -> Result<Native, String> {
        let statements = match &benchmark.definition.tables {
            Tables::Given => {
                return Err(
                    "the workload uses tables that a server has; give it a `setup`, or use `--target postgres:`"
                        .to_owned(),
                );
            }
            Tables::Setup(statements) => statements
                .iter()
                .map(|placed| PlacedSql { sql: benchmark.sql(&placed.sql), place: placed.place.clone() })
                .collect(),
            Tables::Pgbench => pgbench(benchmark.scale as u64),
        };
        let told = |placed: &PlacedSql, error: SqlError| {
            let rest = placed.sql.chars().skip(error.characters_before(&placed.sql)).collect::<String>();
            format!("{}: the setup: {}, at `{}`", placed.place, error.message, program::beginning(&rest))
        };
        let mut catalog = Catalog::default();
        let mut others = Vec::new();
        for placed in statements {
            if !catalog.declare(&placed.sql).map_err(|error| told(&placed, error))? {
                others.push(placed);
            }
        }
        let filling = |placed: PlacedSql| match Filling::compile(&catalog, &placed.sql) {
            Ok(filling) => Ok((filling, placed.place)),
            Err(error) => Err(told(&placed, error)),
        };
        let fillings = others.into_iter().map(filling).collect::<Result<_, _>>()?;
        note_key_ranges(benchmark, &mut catalog);
        Ok(Native { catalog, fillings })
    }

    /// Says to a database which tables the workload has.
    pub(super) fn declare(&self, benchmark: &FileBenchmark, database: &dyn Database) -> Result<(), DatabaseError> {
        database.declare(&benchmark.definition.schema, self.catalog.tables())
    }

    /// Makes and fills the tables.
    pub(super) fn load(
        &self,
        benchmark: &FileBenchmark,
        database: &dyn Database,
        progress: &LoadProgress<'_>,
    ) -> Result<(), LoadError> {
        let schema = &benchmark.definition.schema;
        self.declare(benchmark, database)?;
        database.create(schema)?;
        let all: u64 = self.fillings.iter().map(|(filling, _)| filling.runs()).sum();
        let (mut done, now_us) = (0, now_us());
        for (filling, place) in &self.fillings {
            let table = &self.catalog.tables()[filling.table()];
            for runs in portions(filling.runs()) {
                progress.step(done, all, &table.name)?;
                done += runs.end - runs.start;
                let batch = filling.batch(table, runs, now_us);
                let batch =
                    batch.map_err(|error| DatabaseError::Failed(format!("{place}: the setup failed: {error}")))?;
                database.load(schema, filling.table(), batch)?;
            }
        }
        database.finish_load(schema)?;
        progress.step(done, all, "the tables")
    }

    /// Compiles every statement of the workload.
    pub(super) fn compile(&self, benchmark: &FileBenchmark) -> Result<Vec<NativeProgram>, DatabaseError> {
        benchmark.definition.programs.iter().map(|program| self.program(program)).collect()
    }

    fn program(&self, program: &program::Program) -> Result<NativeProgram, DatabaseError> {
        let executes = || program.steps.iter().filter_map(ProgramStep::statement);
        let only_queries = executes().all(|execute| may_be_analytical(&execute.sql));
        let (mut steps, mut is_read_only) = (Vec::new(), false);
        for step in &program.steps {
            let ProgramStep::Execute(execute) = step else {
                is_read_only &= !matches!(step, ProgramStep::Begin | ProgramStep::Commit | ProgramStep::Rollback);
                steps.push(None);
                continue;
            };
            let compiled = match set_transaction(&execute.sql) {
                Some(reads_only) => {
                    is_read_only |= reads_only;
                    NativeStep::Nothing
                }
                None => self.statement(execute, only_queries)?,
            };
            if let (NativeStep::Rows(program), true) = (&compiled, is_read_only)
                && let Some(change) = program.change()
            {
                let why = format!("cannot execute {change} in a read-only transaction");
                return Err(refused(execute, &SqlError { line: 1, column: 1, message: why }));
            }
            steps.push(Some(compiled));
        }
        let is_queries = steps.iter().flatten().any(|step| matches!(step, NativeStep::Query));
        Ok(NativeProgram { steps, is_queries })
    }

    fn statement(&self, execute: &Execute, only_queries: bool) -> Result<NativeStep, DatabaseError> {
        match Program::compile(&self.catalog, &execute.sql) {
            Ok(program) => Ok(NativeStep::Rows(Box::new(program))),
            Err(_) if only_queries && matches!(execute.keep, KeptColumns::Nothing) => Ok(NativeStep::Query),
            Err(error) => Err(refused(execute, &error)),
        }
    }
}

/// Declares of which primary keys statements read ranges. A statement that cannot be compiled is reported before a run.
fn note_key_ranges(benchmark: &FileBenchmark, catalog: &mut Catalog) {
    for program in &benchmark.definition.programs {
        for execute in program.steps.iter().filter_map(ProgramStep::statement) {
            if let Some(table) = Program::compile(catalog, &execute.sql).ok().and_then(|program| program.key_range()) {
                catalog.note_key_ranges(table);
            }
        }
    }
}

impl NativeStep {
    /// Runs the statement in a session.
    pub(super) fn run(
        &self,
        execute: &Execute,
        parameters: &[Value<'_>],
        now_us: i64,
        session: &mut dyn Session,
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        rows.clear();
        match self {
            NativeStep::Rows(program) => {
                let native = |access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows| {
                    program.run(access, parameters, now_us, rows)
                };
                let statement = Statement { name: &execute.name, sql: &execute.sql, native: &native };
                session.execute(&statement, parameters, rows)
            }
            NativeStep::Query => session.query(&with_literals(&execute.sql, parameters)).map(|_| ()),
            NativeStep::Nothing => Ok(()),
        }
    }
}

/// The error of a statement that cannot be compiled, in terms of its file.
fn refused(execute: &Execute, error: &SqlError) -> DatabaseError {
    let position = error.characters_before(&execute.sql);
    let (told, words) = (error.to_string(), error.message.clone());
    let refusal = Refusal { told, words, code: None, position: Some(position + 1) };
    let why = execute.written.refused(&refusal, 0);
    let (line, column) = execute.written.line_and_column(position);
    let (place, name, text) = (&execute.place, &execute.name, execute.written.line());
    DatabaseError::Failed(format!("{place}: statement `{name}`, line {line}, column {column}: {why}; it is `{text}`"))
}

/// The ranges of runs that are processed at once.
fn portions(runs: u64) -> impl Iterator<Item = Range<u64>> {
    (0..runs.div_ceil(ROWS_AT_ONCE)).map(move |at| at * ROWS_AT_ONCE..((at + 1) * ROWS_AT_ONCE).min(runs))
}

/// The tables of `pgbench -i`, and their rows.
fn pgbench(scale: u64) -> Vec<PlacedSql> {
    let account = pgbench_account_type(scale);
    let statements = [
        format!(
            "CREATE TABLE pgbench_history (tid int, bid int, aid {account}, delta int, mtime timestamp, filler varchar(22))"
        ),
        "CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler varchar(84))".to_owned(),
        format!("CREATE TABLE pgbench_accounts (aid {account} PRIMARY KEY, bid int, abalance int, filler varchar(84))"),
        "CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler varchar(88))".to_owned(),
        branches_sql(scale),
        tellers_sql(scale),
        accounts_sql(0, scale),
    ];
    statements.map(|sql| PlacedSql { sql, place: PGBENCH_MARK.to_owned() }).into()
}

/// Whether a statement may run as a query: it reads, and locks no rows.
fn may_be_analytical(text: &str) -> bool {
    let locks = || sql::first_words(text, usize::MAX).iter().any(|word| word == "for");
    set_transaction(text).is_some() || (sql::is_query(text) && !locks())
}

/// Whether `SET TRANSACTION …` makes it read-only; `None` for another statement. Every isolation level is fulfilled
/// here, because the strictest applies.
fn set_transaction(text: &str) -> Option<bool> {
    let words = sql::first_words(text, usize::MAX);
    let is_one =
        words.first().is_some_and(|word| word == "set") && words.get(1).is_some_and(|word| word == "transaction");
    is_one.then(|| words.windows(2).any(|pair| pair == ["read", "only"]))
}

/// A query with its parameters put in as literals.
fn with_literals(text: &str, parameters: &[Value<'_>]) -> String {
    let mut query = String::with_capacity(text.len());
    for token in tokens(text) {
        let word = &text[token.span];
        let number = word.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        match number
            .and_then(|number| parameters.get(number.checked_sub(1)?))
            .filter(|_| token.kind == TokenKind::Positional)
        {
            None => query += word,
            Some(Value::Null) => query += "NULL",
            Some(Value::Int(number)) => query += &format!("({number})"),
            Some(Value::Text(text)) => query += &format!("'{}'", text.replace('\'', "''")),
        }
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_queries_become_literals() {
        let parameters = [Value::Int(-5), Value::Text("it's"), Value::Null];
        let query = with_literals("SELECT $1, '$1', $2 -- $3\n, $3, $4", &parameters);
        assert_eq!(query, "SELECT (-5), '$1', 'it''s' -- $3\n, NULL, $4");
    }

    #[test]
    fn what_is_said_of_a_transaction_is_known() {
        for (text, expect) in [
            ("SET TRANSACTION READ ONLY", Some(true)),
            ("set transaction isolation level serializable", Some(false)),
            ("SET LOCAL work_mem = '1MB'", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(set_transaction(text), expect, "{text}");
        }
        assert!(may_be_analytical("SELECT 1") && !may_be_analytical("SELECT a FROM t FOR UPDATE"));
    }

    #[test]
    fn portions_are_all_of_them() {
        for runs in [0, 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1] {
            assert_eq!(portions(runs).map(|portion| portion.end - portion.start).sum::<u64>(), runs);
        }
    }
}
