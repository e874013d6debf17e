//! Makes and fills the tables of a workload.

use super::benchmark::FileBenchmark;
use super::check;
use super::program::{PlacedSql, Tables};
use crate::benchmark::{LoadError, LoadProgress};
use crate::database::{Database, DatabaseError};

/// Loads the tables as the file declares.
pub(super) fn load(
    benchmark: &FileBenchmark,
    database: &dyn Database,
    progress: &LoadProgress<'_>,
) -> Result<(), LoadError> {
    if !database.runs_sql() {
        return benchmark.native()?.load(benchmark, database, progress);
    }
    let schema = &benchmark.definition.schema;
    match &benchmark.definition.tables {
        Tables::Given => {
            // No tables are made. If the server does not answer, it is better reported now than by each client.
            database.run_script(schema, "SELECT 1")?;
            progress.step(0, 0, "the tables that are there")
        }
        Tables::Setup(statements) => {
            database.create(schema)?;
            setup(benchmark, statements, database, progress)?;
            finish(benchmark, database)
        }
        Tables::Pgbench => {
            if has_pgbench_tables(benchmark, database)? {
                return progress.step(0, 0, "the pgbench tables that are there");
            }
            database.create(schema)?;
            pgbench(benchmark, database, progress)?;
            finish(benchmark, database)
        }
    }
}

fn setup(
    benchmark: &FileBenchmark,
    statements: &[PlacedSql],
    database: &dyn Database,
    progress: &LoadProgress<'_>,
) -> Result<(), LoadError> {
    for (done, statement) in statements.iter().enumerate() {
        progress.step(done as u64, statements.len() as u64, "statements of the setup")?;
        let sql = benchmark.sql(&statement.sql);
        database.run_script(&benchmark.definition.schema, &sql).map_err(|error| match error {
            DatabaseError::Failed(_) | DatabaseError::Refused(_) => {
                let why = error.to_string();
                let line = sql.lines().next().unwrap_or_default();
                DatabaseError::Failed(format!("{}: the setup failed: {why}; it was `{line}`", statement.place))
            }
            other => other,
        })?;
    }
    progress.step(statements.len() as u64, statements.len() as u64, "statements of the setup")
}

/// Gives the planner its statistics, and later runs pages without old versions.
fn finish(benchmark: &FileBenchmark, database: &dyn Database) -> Result<(), LoadError> {
    let schema = &benchmark.definition.schema;
    database.finish_load(schema)?;
    let mut session = database.session(schema)?;
    let tables = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename";
    let answer = session.query(tables)?;
    for table in check::column(&answer.batches).map_err(DatabaseError::Failed)? {
        database.run_script(schema, &format!("VACUUM ANALYZE {}", table.text()))?;
    }
    Ok(())
}

/// Whether sessions find tables of pgbench, which then are the user's own.
fn has_pgbench_tables(benchmark: &FileBenchmark, database: &dyn Database) -> Result<bool, DatabaseError> {
    // If the workload's own schema does not exist yet and cannot be opened, there are no tables.
    let Ok(mut session) = database.session(&benchmark.definition.schema) else { return Ok(false) };
    let answer = session.query("SELECT count(*) FROM pg_class WHERE oid = to_regclass('pgbench_accounts')")?;
    let found = check::column(&answer.batches).map_err(DatabaseError::Failed)?;
    Ok(found.iter().any(|count| *count.text() == *"1"))
}

/// Branches that are filled by one statement, so that progress is seen.
const BRANCHES_AT_ONCE: u64 = 5;

/// Accounts and tellers of a branch.
const ACCOUNTS: u64 = 100_000;
const TELLERS: u64 = 10;

/// From this scale on the numbers of accounts exceed `integer`.
const SCALE_32_BIT: u64 = 20_000;

/// The name in messages of the statements that make these tables.
pub(super) const PGBENCH_MARK: &str = "the tables of pgbench";

pub(super) fn pgbench_account_type(scale: u64) -> &'static str {
    if scale >= SCALE_32_BIT { "bigint" } else { "int" }
}

pub(super) fn branches_sql(scale: u64) -> String {
    format!("INSERT INTO pgbench_branches(bid, bbalance) SELECT bid, 0 FROM generate_series(1, {scale}) AS bid")
}

pub(super) fn tellers_sql(scale: u64) -> String {
    format!(
        "INSERT INTO pgbench_tellers(tid, bid, tbalance)
         SELECT tid, (tid - 1) / {TELLERS} + 1, 0 FROM generate_series(1, {}) AS tid",
        scale * TELLERS
    )
}

/// The rows of the accounts of branches `first` (included) to `last` (excluded), counted from 0.
pub(super) fn accounts_sql(first: u64, last: u64) -> String {
    format!(
        "INSERT INTO pgbench_accounts(aid, bid, abalance, filler)
         SELECT aid, (aid - 1) / {ACCOUNTS} + 1, 0, '' FROM generate_series({}, {}) AS aid",
        first * ACCOUNTS + 1,
        last * ACCOUNTS
    )
}

/// The tables and rows of `pgbench -i -s SCALE`.
fn pgbench(benchmark: &FileBenchmark, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
    let schema = &benchmark.definition.schema;
    let scale = benchmark.scale as u64;
    let run = |sql: &str| database.run_script(schema, sql);
    let account = pgbench_account_type(scale);
    run(&format!(
        "CREATE TABLE pgbench_history(tid int, bid int, aid {account}, delta int, mtime timestamp, filler char(22));
         CREATE TABLE pgbench_tellers(tid int NOT NULL, bid int, tbalance int, filler char(84)) WITH (fillfactor=100);
         CREATE TABLE pgbench_accounts(aid {account} NOT NULL, bid int, abalance int, filler char(84)) WITH (fillfactor=100);
         CREATE TABLE pgbench_branches(bid int NOT NULL, bbalance int, filler char(88)) WITH (fillfactor=100)"
    ))?;
    run(&branches_sql(scale))?;
    run(&tellers_sql(scale))?;
    let all = scale * ACCOUNTS;
    for first in (0..scale).step_by(BRANCHES_AT_ONCE as usize) {
        let last = (first + BRANCHES_AT_ONCE).min(scale);
        progress.step(first * ACCOUNTS, all, "pgbench_accounts")?;
        run(&accounts_sql(first, last))?;
    }
    progress.step(all, all, "pgbench_accounts")?;
    run("ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid);
         ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid);
         ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)")?;
    Ok(())
}
