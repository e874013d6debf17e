//! A made-up target that fails as it is told to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use plimsoll_lab::targets::{Target, Targets};
use plimsoll_workload::database::{Database, DatabaseError, LoadedData, QueryAnswer, Refusal, Session};
use plimsoll_workload::memory::MemoryDatabase;
use plimsoll_workload::schema::{Schema, TableId};
use plimsoll_workload::statement::{Rows, Statement, Value};

/// A target whose option `fails` is a way to fail and how many percent of all requests, or of all connections, do.
#[derive(Default)]
pub struct Failing {
    /// The data, which outlive the opened databases as those of a server do.
    data: Arc<Data>,
    /// Connections that were asked for. A count.
    pub connections: Arc<AtomicU64>,
    /// How often a database was opened.
    pub opened: AtomicUsize,
}

/// Tables, and which data they hold.
#[derive(Default)]
struct Data {
    tables: MemoryDatabase,
    noted: Mutex<BTreeMap<String, LoadedData>>,
}

#[derive(Clone)]
struct FailureMode {
    name: String,
    percent: u64,
    connections: Arc<AtomicU64>,
}

impl FailureMode {
    /// Whether the event of this number fails: evenly spread, the first ones succeed.
    fn fails(&self, number: u64) -> bool {
        (number + 1) * self.percent / 100 > number * self.percent / 100
    }

    fn error(&self) -> DatabaseError {
        let refused = |code: &str, words: &str| {
            let (told, words) =
                (format!("statement of a test: ERROR {code}: {words}"), format!("ERROR {code}: {words}"));
            Refusal { told, words, code: Some(code.to_owned()), position: None }.into()
        };
        match self.name.as_str() {
            "error" => refused("22012", "division by zero"),
            "timeout" => refused("57014", "canceling statement due to statement timeout"),
            "deadlock" => DatabaseError::Deadlock,
            // A server takes a while to find one.
            "late-deadlock" => {
                std::thread::sleep(Duration::from_millis(1));
                DatabaseError::Deadlock
            }
            "restart" => DatabaseError::ConnectionLost("the server closed the connection".to_owned()),
            "killed" => DatabaseError::ConnectionLost("FATAL 57P01: terminating connection".to_owned()),
            other => panic!("{other} is not a way to fail"),
        }
    }
}

impl Targets for Failing {
    fn target<'a>(&'a self, _: &str, options: &BTreeMap<String, String>) -> Result<Box<dyn Target + 'a>, String> {
        Ok(Box::new(FailingTarget { server: self, fails: options.get("fails").cloned().unwrap_or_default() }))
    }

    fn option_names(&self, _: &str) -> Vec<&'static str> {
        vec!["fails"]
    }
}

struct FailingTarget<'a> {
    server: &'a Failing,
    /// The option.
    fails: String,
}

impl Target for FailingTarget<'_> {
    fn open(&self) -> Result<Box<dyn Database>, String> {
        let (name, percent) = self.fails.split_once(' ').unwrap();
        // A server that was restarted is back after one more attempt.
        if self.server.opened.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            return Err("the database system is starting up".to_owned());
        }
        let connections = Arc::clone(&self.server.connections);
        let way = FailureMode { name: name.to_owned(), percent: percent.parse().unwrap(), connections };
        Ok(Box::new(FailingDatabase { data: Arc::clone(&self.server.data), way }))
    }
}

struct FailingDatabase {
    data: Arc<Data>,
    way: FailureMode,
}

impl Database for FailingDatabase {
    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.data.tables.create(schema)
    }

    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.data.tables.drop_tables(schema)
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        self.data.tables.load(schema, table, batch)
    }

    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.data.tables.finish_load(schema)
    }

    fn session(&self, schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        let number = self.way.connections.fetch_add(1, Ordering::Relaxed);
        if self.way.name == "connection" && self.way.fails(number) {
            return Err(DatabaseError::Failed("FATAL 53300: too many clients already".to_owned()));
        }
        let session = self.data.tables.session(schema)?;
        Ok(Box::new(FailingSession { session, way: self.way.clone(), requests: 0 }))
    }

    fn refresh(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.data.tables.refresh(schema)
    }

    fn data(&self, schema: &Schema) -> Result<Option<LoadedData>, DatabaseError> {
        Ok(self.data.noted.lock().unwrap().get(&*schema.name).cloned())
    }

    fn note_data(&self, schema: &Schema, data: &LoadedData) -> Result<(), DatabaseError> {
        self.data.noted.lock().unwrap().insert(schema.name.to_string(), data.clone());
        Ok(())
    }
}

struct FailingSession {
    session: Box<dyn Session>,
    way: FailureMode,
    requests: u64,
}

impl FailingSession {
    /// Fails as the next request does.
    fn request(&mut self) -> Result<(), DatabaseError> {
        let number = self.requests;
        self.requests += 1;
        match self.way.name != "connection" && self.way.fails(number) {
            true => Err(self.way.error()),
            false => Ok(()),
        }
    }
}

impl Session for FailingSession {
    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.session.begin()
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        if let Err(error) = self.request() {
            self.session.rollback()?;
            return Err(error);
        }
        self.session.execute(statement, parameters, rows)
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.session.commit()
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.session.rollback()
    }

    /// Queries find nothing.
    fn query(&mut self, _: &str) -> Result<QueryAnswer, DatabaseError> {
        self.request()?;
        Ok(QueryAnswer { batches: Vec::new(), snapshot: "as loaded".to_owned() })
    }
}
