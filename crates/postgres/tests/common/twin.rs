//! Every statement in both of its forms: natively on the reference database and as SQL on a private PostgreSQL server.

use std::sync::atomic::AtomicBool;

use plimsoll_policy::Priority;
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::{Database, DatabaseError, QueryAnswer, Session, SessionUsage};
use plimsoll_workload::memory::MemoryDatabase;
use plimsoll_workload::schema::{ColumnKind, TableId};
use plimsoll_workload::statement::{Rows, Statement, Value};
use plimsoll_workload::tpch::cells::text_rows;

/// The same data in both databases.
pub struct Twin {
    native: MemoryDatabase,
    sql: PostgresDatabase,
}

impl Twin {
    /// Loads a benchmark's data into both.
    pub fn loaded(benchmark: &dyn Benchmark) -> Twin {
        let server = PrivateServer::start(ServerSettings::for_this_machine())
            .unwrap_or_else(|error| panic!("no PostgreSQL server to test on ({error}); install `postgresql`"));
        let sql = PostgresDatabase::private(server);
        let native = MemoryDatabase::new();
        let (report, stop) = (|_, _, _: &str| {}, AtomicBool::new(false));
        for database in [&native as &dyn Database, &sql] {
            benchmark.load(database, &LoadProgress { report: &report, stop: &stop }).unwrap();
        }
        Twin { native, sql }
    }

    /// The server's side.
    pub fn sql(&self) -> &PostgresDatabase {
        &self.sql
    }

    /// Runs that many requests of each of the given clients in turn, each statement on both sides, and fails if the
    /// sides return different rows.
    pub fn run(&self, benchmark: &dyn Benchmark, clients: &[usize], requests: usize) {
        let schema = benchmark.schema();
        let mut session = TwinSession {
            native: self.native.session(schema).unwrap(),
            sql: self.sql.session(schema).unwrap(),
            sql_rows: Rows::new(),
        };
        let mut clients = clients.iter().map(|&number| benchmark.client(number, 7)).collect::<Vec<_>>();
        for request in 0..requests {
            let count = clients.len();
            let client = &mut clients[request % count];
            client.draw();
            client.run(&mut session).unwrap();
        }
    }

    /// Fails if a table has different rows on the two sides.
    pub fn assert_equal_tables(&self, benchmark: &dyn Benchmark) {
        for (table, declared) in benchmark.schema().tables.iter().enumerate() {
            let (native, sql) = (self.native_rows(benchmark, table), self.sql_rows(benchmark, table));
            assert_eq!(native.len(), sql.len(), "rows of {}", declared.name);
            let differ = native.iter().zip(&sql).find(|(native, sql)| native != sql);
            assert_eq!(differ, None, "native and SQL rows of {}", declared.name);
        }
    }

    fn native_rows(&self, benchmark: &dyn Benchmark, table: TableId) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let visit = &mut |row: &[Value<'_>]| rows.push(row.iter().copied().map(shown).collect());
        self.native.scan(benchmark.schema(), table, visit).unwrap();
        rows.sort_unstable();
        rows
    }

    fn sql_rows(&self, benchmark: &dyn Benchmark, table: TableId) -> Vec<Vec<String>> {
        let declared = &benchmark.schema().tables[table];
        let columns = declared.columns.iter().map(|column| match column.kind {
            ColumnKind::Timestamp => format!("(extract(epoch from {}) * 1000000)::bigint", column.name),
            ColumnKind::Decimal { scale, .. } => format!("({} * {})::bigint", column.name, 10_i64.pow(scale as u32)),
            ColumnKind::Date => format!("({} - date '1970-01-01')", column.name),
            ColumnKind::Int | ColumnKind::BigInt | ColumnKind::Text(_) => column.name.to_owned(),
        });
        let sql = format!("SELECT {} FROM {}", columns.collect::<Vec<_>>().join(", "), declared.name);
        let answer = self.sql.session(benchmark.schema()).unwrap().query(&sql).unwrap();
        let text = |cell: Option<String>| cell.unwrap_or_else(|| "null".to_owned());
        let rows = text_rows(&answer.batches).unwrap().into_iter().map(|row| row.into_iter().map(text).collect());
        let mut rows = rows.collect::<Vec<_>>();
        rows.sort_unstable();
        rows
    }
}

fn shown(value: Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Text(text) => text.trim().to_owned(),
    }
}

struct TwinSession {
    native: Box<dyn Session>,
    sql: Box<dyn Session>,
    sql_rows: Rows,
}

impl Session for TwinSession {
    fn set_priority(&mut self, priority: Priority) {
        self.native.set_priority(priority);
        self.sql.set_priority(priority);
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.native.begin()?;
        self.sql.begin()
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        self.native.execute(statement, parameters, rows)?;
        self.sql.execute(statement, parameters, &mut self.sql_rows)?;
        let cells = |rows: &Rows| {
            let cell = |row, column| shown(rows.value(row, column));
            (0..rows.len()).map(|row| (0..rows.columns()).map(|column| cell(row, column)).collect()).collect()
        };
        let (native, sql): (Vec<Vec<String>>, Vec<Vec<String>>) = (cells(rows), cells(&self.sql_rows));
        assert_eq!(native, sql, "native and SQL rows of {} with {parameters:?}", statement.name);
        if native.is_empty() && !statement.sql.contains("RETURNING") && !statement.sql.starts_with("SELECT") {
            assert_eq!(rows.affected(), self.sql_rows.affected(), "{} with {parameters:?}", statement.name);
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.native.commit()?;
        self.sql.commit()
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.native.rollback()?;
        self.sql.rollback()
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.sql.query(sql)
    }

    fn usage(&self) -> SessionUsage {
        self.sql.usage()
    }
}
