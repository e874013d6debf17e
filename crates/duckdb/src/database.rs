//! DuckDB as a database under test.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use parking_lot::{Mutex, RwLock};
use plimsoll_workload::database::{Database, DatabaseError, Footprint, OptionChange, QueryAnswer, Session};
use plimsoll_workload::schema::{Column, ColumnKind, Schema, Table, TableId};
use plimsoll_workload::statement::{Rows, Statement, Value};

use crate::connection::{Connection, KEPT};
use crate::error::{DuckDbError, tested_version};
use crate::options::DuckDbOptions;
use crate::process::Process;

/// A DuckDB of our own, in memory. Dropping it ends its process once the last session is dropped.
#[derive(Debug)]
pub struct DuckDb {
    process: Arc<Process>,
    options: RwLock<DuckDbOptions>,
    /// Connections that no loading thread uses at present.
    idle: Mutex<Vec<Connection>>,
}

impl DuckDb {
    /// Starts one, empty.
    pub fn open(options: DuckDbOptions) -> Result<DuckDb, DuckDbError> {
        let process = Arc::new(Process::start(&options)?);
        let settings = options.sql();
        let database = DuckDb { process, options: options.into(), idle: Mutex::default() };
        database.execute(&settings).map_err(DuckDbError::Setting)?;
        Ok(database)
    }

    fn execute(&self, sql: &str) -> Result<(), DatabaseError> {
        self.with_connection(|connection| connection.execute(sql))
    }

    /// Runs `act` on a connection that is not a session's.
    fn with_connection(
        &self,
        act: impl FnOnce(&mut Connection) -> Result<(), DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let idle = self.idle.lock().pop();
        let mut connection = idle.map_or_else(|| Connection::open(&self.process), Ok)?;
        act(&mut connection)?;
        self.idle.lock().push(connection);
        Ok(())
    }
}

/// The statement that makes a table. It has no keys: DuckDB's indexes serve look-ups and checks, which no query here needs.
fn create_table(schema: &Schema, table: &Table) -> String {
    let columns: Vec<String> = table.columns.iter().map(column_definition).collect();
    format!("CREATE TABLE {} ({});", name(schema, table), columns.join(", "))
}

fn name(schema: &Schema, table: &Table) -> String {
    format!("\"{}\".\"{}\"", schema.name, table.name)
}

fn column_definition(column: &Column) -> String {
    let kind = match column.kind {
        ColumnKind::Int => "INTEGER".to_owned(),
        ColumnKind::BigInt => "BIGINT".to_owned(),
        ColumnKind::Decimal { precision, scale } => format!("DECIMAL({precision}, {scale})"),
        ColumnKind::Text(_) => "VARCHAR".to_owned(),
        ColumnKind::Date => "DATE".to_owned(),
        ColumnKind::Timestamp => "TIMESTAMP".to_owned(),
    };
    format!("\"{}\" {kind}{}", column.name, if column.nullable { "" } else { " NOT NULL" })
}

fn no_writes<T>() -> Result<T, DatabaseError> {
    let why = "`duckdb:` answers queries only; run transactions on `embedded:` or `postgres:`, or the queries alone (of \
               `ch` by `--parameter mix=queries`)";
    Err(DatabaseError::Unsupported(why.to_owned()))
}

impl Database for DuckDb {
    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let tables: String = schema.tables.iter().map(|table| create_table(schema, table)).collect();
        self.execute(&format!("CREATE SCHEMA \"{}\"; {tables}", schema.name))
    }

    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.execute(&format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", schema.name))
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        let table = name(schema, &schema.tables[table]);
        self.with_connection(|connection| {
            connection.keep(&batch)?;
            connection.execute(&format!("INSERT INTO {table} SELECT * FROM {KEPT}"))
        })
    }

    /// Closes the connections of loading threads, with which the last rows of each go. DuckDB keeps its statistics as rows
    /// arrive.
    fn finish_load(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        self.idle.lock().clear();
        Ok(())
    }

    fn session(&self, schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        let mut connection = Connection::open(&self.process)?;
        connection.execute(&format!("USE \"{}\"", schema.name))?;
        Ok(Box::new(DuckDbSession { connection }))
    }

    fn refresh(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn footprint(&self) -> Footprint {
        Footprint { processes: vec![self.process.id], folder: None }
    }

    fn warnings(&self) -> Vec<String> {
        let (version, tested) = (&self.process.version, tested_version());
        let warning = || format!("DuckDB is {version}; `duckdb:` is tested with {tested}");
        (version != tested).then(warning).into_iter().collect()
    }

    fn cancel_statements(&self) {
        self.process.cancel();
    }

    /// Threads and memory are changed in place.
    fn set_option(&self, name: &str, value: &str) -> Result<OptionChange, DatabaseError> {
        let mut options = self.options.write();
        let mut changed = options.clone();
        changed.set(name, value).map_err(|error| DatabaseError::Failed(error.to_string()))?;
        if changed.python != options.python {
            return Ok(OptionChange::NeedsReopening);
        }
        self.execute(&changed.sql())?;
        *options = changed;
        Ok(OptionChange::Applied)
    }
}

/// A client's connection.
#[derive(Debug)]
struct DuckDbSession {
    connection: Connection,
}

impl Session for DuckDbSession {
    fn begin(&mut self) -> Result<(), DatabaseError> {
        no_writes()
    }

    fn execute(
        &mut self,
        _statement: &Statement<'_>,
        _parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        rows.clear();
        no_writes()
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        no_writes()
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        Ok(QueryAnswer { batches: self.connection.query(sql)?, snapshot: "as loaded".to_owned() })
    }
}
