//! The reference database as a target, which records all operations on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use arrow::record_batch::RecordBatch;
use plimsoll_policy::Doing;
use plimsoll_policy::Priority;
use plimsoll_workload::activity::{Activity, ActivityWatch};
use plimsoll_workload::database::{
    Database, DatabaseError, OptionChange, QueryAnswer, QueryPlan, Refusal, Session, SessionUsage,
};
use plimsoll_workload::freshness::CopyWatch;
use plimsoll_workload::memory::MemoryDatabase;
use plimsoll_workload::schema::{Schema, TableId};
use plimsoll_workload::statement::{Rows, Statement, Value as StatementValue};

use crate::copy_sampling::tests::Copy;
use crate::targets::{Target, Targets};

/// The target. It has the options `dop`, which can be changed in place, and `policy`, which cannot. Under the policy
/// `broken` no client can connect, under `refusing` every statement fails, under `dying` the first database that is opened
/// fails, and under `dying-in-load` that database fails while data is loaded. With the option `watch`
/// its sessions are served by processes, as on a server, here all by this one. The option determines the fate of the
/// watch: `sound`, `dying` after two looks, or `refused`; or the copy for queries: `copied`, `stuck`, `unseen`.
#[derive(Default)]
pub(in crate::runner) struct Watched {
    /// Whether it does not open.
    pub closed: bool,
    /// How often it does not open again, once it was open.
    pub away: usize,
    pub seen: Arc<Mutex<Operations>>,
}

/// The operations on a target.
#[derive(Debug, Clone, Default)]
pub(in crate::runner) struct Operations {
    pub opened: usize,
    /// How often opening it failed.
    pub refused: usize,
    /// How often tables were loaded, by schema.
    pub loaded: BTreeMap<String, usize>,
    /// Each session, in the order in which they were opened.
    pub sessions: Vec<SessionRecord>,
    /// How many plans of queries were requested.
    pub plans: usize,
}

/// The state that a session found.
#[derive(Debug, Clone)]
pub(in crate::runner) struct SessionRecord {
    pub schema: String,
    /// Rows in the table that shows how much data there is: orders or pairs.
    pub rows: u64,
    pub present: BTreeSet<String>,
    pub options: BTreeMap<String, String>,
    /// The parameters of its first statements.
    pub inputs: Vec<String>,
}

/// Always finds the session waiting for a lock.
struct LockWatch {
    looks: usize,
    dies_at: usize,
}

fn own_process() -> i32 {
    std::process::id().cast_signed()
}

impl ActivityWatch for LockWatch {
    fn look(&mut self, seen: &mut Vec<Activity>) -> Result<(), DatabaseError> {
        self.looks += 1;
        if self.looks > self.dies_at {
            return Err(DatabaseError::ConnectionLost("terminating connection".to_owned()));
        }
        seen.push(Activity { process: own_process(), leader: None, doing: Doing::Lock });
        Ok(())
    }

    fn server_process(&self) -> Option<i32> {
        Some(own_process())
    }
}

/// How many statements of a session are noted.
const INPUTS_NOTED: usize = 5;

impl Watched {
    pub(in crate::runner) fn seen(&self) -> Operations {
        self.seen.lock().expect("nobody panicked").clone()
    }
}

impl Targets for Watched {
    fn target<'a>(&'a self, _: &str, options: &BTreeMap<String, String>) -> Result<Box<dyn Target + 'a>, String> {
        Ok(Box::new(WatchedTarget { targets: self, options: options.clone() }))
    }

    fn option_names(&self, _: &str) -> Vec<&'static str> {
        vec!["dop", "policy", "watch"]
    }
}

/// A target that is not open.
struct WatchedTarget<'a> {
    targets: &'a Watched,
    options: BTreeMap<String, String>,
}

impl Target for WatchedTarget<'_> {
    fn open(&self) -> Result<Box<dyn Database>, String> {
        let WatchedTarget { targets, options } = self;
        if targets.closed {
            return Err("the door is locked".to_owned());
        }
        let mut seen = targets.seen.lock().expect("nobody panicked");
        if seen.opened > 0 && seen.refused < targets.away {
            seen.refused += 1;
            return Err("the database system is starting up".to_owned());
        }
        seen.opened += 1;
        let policy = options.get("policy").map(String::as_str).filter(|_| seen.opened == 1);
        let opened = OpenState { options: options.clone(), present: BTreeSet::new() };
        Ok(Box::new(WatchedDatabase {
            database: MemoryDatabase::new(),
            seen: Arc::clone(&targets.seen),
            opened: Mutex::new(opened),
            dies: policy == Some("dying"),
            dies_in_load: policy == Some("dying-in-load"),
        }))
    }
}

struct WatchedDatabase {
    database: MemoryDatabase,
    seen: Arc<Mutex<Operations>>,
    opened: Mutex<OpenState>,
    dies: bool,
    dies_in_load: bool,
}

struct OpenState {
    options: BTreeMap<String, String>,
    present: BTreeSet<String>,
}

impl WatchedDatabase {
    /// The value of the option `watch`.
    fn watch(&self) -> Option<String> {
        self.opened.lock().expect("nobody panicked").options.get("watch").cloned()
    }

    fn rows(&self, schema: &Schema) -> Result<u64, DatabaseError> {
        let table = schema.tables.iter().position(|table| ["orders", "pairs"].contains(&table.name));
        let mut rows = 0;
        self.database.scan(schema, table.expect("a schema of these tests"), &mut |_| rows += 1)?;
        Ok(rows)
    }
}

impl Database for WatchedDatabase {
    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.opened.lock().expect("nobody panicked").present.insert(schema.name.to_string());
        self.database.create(schema)
    }

    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.opened.lock().expect("nobody panicked").present.remove(&*schema.name);
        self.database.drop_tables(schema)
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        if self.dies_in_load {
            return Err(DatabaseError::ConnectionLost("killed".to_owned()));
        }
        self.database.load(schema, table, batch)
    }

    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError> {
        *self.seen.lock().expect("nobody panicked").loaded.entry(schema.name.to_string()).or_default() += 1;
        self.database.finish_load(schema)
    }

    fn session(&self, schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        let (rows, is_served) = (self.rows(schema)?, self.watch().is_some());
        let opened = self.opened.lock().expect("nobody panicked");
        if opened.options.get("policy").is_some_and(|policy| policy == "broken") {
            return Err(DatabaseError::Failed("no such table".to_owned()));
        }
        if self.dies {
            return Err(DatabaseError::ConnectionLost("killed".to_owned()));
        }
        let (present, options) = (opened.present.clone(), opened.options.clone());
        let session = SessionRecord { schema: schema.name.to_string(), rows, present, options, inputs: Vec::new() };
        let mut seen = self.seen.lock().expect("nobody panicked");
        seen.sessions.push(session);
        let number = seen.sessions.len() - 1;
        Ok(Box::new(WatchedSession {
            session: self.database.session(schema)?,
            number,
            seen: Arc::clone(&self.seen),
            noted: 0,
            is_served,
            is_refusing: opened.options.get("policy").is_some_and(|policy| policy == "refusing"),
        }))
    }

    fn refresh(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.database.refresh(schema)
    }

    fn query_threads(&self) -> Vec<i32> {
        Vec::new()
    }

    fn warnings(&self) -> Vec<String> {
        self.watch().iter().map(|_| "no statistics of statements".to_owned()).collect()
    }

    fn activity(&self) -> Result<Option<Box<dyn ActivityWatch>>, DatabaseError> {
        let dies_at = match self.watch().as_deref() {
            None => return Ok(None),
            Some("refused") => return Err(DatabaseError::Failed("too many connections".to_owned())),
            Some("dying") => 2,
            Some(_) => usize::MAX,
        };
        Ok(Some(Box::new(LockWatch { looks: 0, dies_at })))
    }

    fn freshness(&self) -> Result<Option<Box<dyn CopyWatch>>, DatabaseError> {
        let applied: fn(u64) -> u64 = match self.watch().as_deref() {
            // Two looks after they were published, or never.
            Some("copied") => |published| published.saturating_sub(200),
            Some("stuck") => |_| 0,
            Some("unseen") => return Err(DatabaseError::Failed("too many connections".to_owned())),
            _ => return Ok(None),
        };
        Ok(Some(Box::new(Copy { looks: 0, applied, gone_after: u64::MAX })))
    }

    fn set_option(&self, name: &str, value: &str) -> Result<OptionChange, DatabaseError> {
        if name != "dop" {
            return Ok(OptionChange::NeedsReopening);
        }
        self.opened.lock().expect("nobody panicked").options.insert(name.to_owned(), value.to_owned());
        Ok(OptionChange::Applied)
    }
}

/// A session whose first statements are noted.
struct WatchedSession {
    session: Box<dyn Session>,
    number: usize,
    seen: Arc<Mutex<Operations>>,
    noted: usize,
    is_served: bool,
    is_refusing: bool,
}

impl Session for WatchedSession {
    fn set_priority(&mut self, priority: Priority) {
        self.session.set_priority(priority);
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.session.begin()
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[StatementValue<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        if self.noted < INPUTS_NOTED {
            self.noted += 1;
            let mut seen = self.seen.lock().expect("nobody panicked");
            seen.sessions[self.number].inputs.push(format!("{}{parameters:?}", statement.name));
        }
        if self.is_refusing {
            self.session.rollback()?;
            let (told, words) =
                (format!("statement {}: division by zero", statement.name), "division by zero".to_owned());
            return Err(Refusal { told, words, code: Some("22012".to_owned()), position: None }.into());
        }
        self.session.execute(statement, parameters, rows)
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.session.commit()
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.session.rollback()
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.session.query(sql)
    }

    fn plan(&mut self, sql: &str) -> Result<Option<QueryPlan>, DatabaseError> {
        if !self.is_served {
            return Ok(None);
        }
        self.seen.lock().expect("nobody panicked").plans += 1;
        if sql.contains("lineitem") {
            Ok(Some(QueryPlan { hash: "0011223344556677".to_owned(), shape: "Seq Scan lineitem".to_owned() }))
        } else {
            Err(DatabaseError::Failed("relation does not exist".to_owned()))
        }
    }

    fn server_process(&self) -> Option<i32> {
        self.is_served.then(own_process)
    }

    fn usage(&self) -> SessionUsage {
        self.session.usage()
    }
}
