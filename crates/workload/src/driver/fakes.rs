//! A database that does nothing or follows a script, and a benchmark for it: ordinary implementations of the public
//! traits, for the tests of the driver.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use plimsoll_policy::Priority;

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Outcome, Writes};
use crate::database::{Database, DatabaseError, LockWait, QueryAnswer, Session, SessionUsage};
use crate::schema::{Schema, TableId};
use crate::statement::{Rows, Statement, Value};

static SCHEMA: Schema = Schema { name: Cow::Borrowed("fake"), tables: &[] };

/// The outcome of one attempt at a transaction: [`Session::commit`] applies it.
pub(crate) type Act = Arc<dyn Fn(u64) -> Result<(), DatabaseError> + Send + Sync>;

/// A database in which the script gives the outcome of each commit by its number.
pub(crate) struct FakeDatabase {
    act: Act,
    commits: Arc<AtomicU64>,
    refuse_sessions: bool,
    priorities: Arc<Mutex<Vec<Priority>>>,
    /// How often statements were cancelled.
    cancels: Arc<AtomicU64>,
    /// As [`Database::sessions_free`].
    free: Option<usize>,
}

impl FakeDatabase {
    /// One in which everything succeeds at once.
    pub(crate) fn quick() -> Self {
        FakeDatabase::scripted(|_| Ok(()))
    }

    /// A database in which `act` gives the outcome of each attempt by its number, from 0.
    pub(crate) fn scripted(act: impl Fn(u64) -> Result<(), DatabaseError> + Send + Sync + 'static) -> Self {
        FakeDatabase {
            act: Arc::new(act),
            commits: Arc::default(),
            refuse_sessions: false,
            priorities: Arc::default(),
            cancels: Arc::default(),
            free: None,
        }
    }

    /// One in which every statement takes until it is cancelled.
    pub(crate) fn endless() -> Self {
        let cancels = Arc::new(AtomicU64::new(0));
        let seen = cancels.clone();
        let act = move |_| {
            let before = seen.load(Ordering::Relaxed);
            while seen.load(Ordering::Relaxed) == before {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(DatabaseError::Failed("canceling statement due to user request".to_owned()))
        };
        FakeDatabase { cancels, ..FakeDatabase::scripted(act) }
    }

    /// One that opens no session, although it says that it accepts this many more.
    pub(crate) fn with_room(free: usize) -> Self {
        FakeDatabase { free: Some(free), ..FakeDatabase::closed() }
    }

    /// One that opens no session.
    pub(crate) fn closed() -> Self {
        FakeDatabase { refuse_sessions: true, ..FakeDatabase::quick() }
    }

    /// Every priority that sessions were given, in order.
    pub(crate) fn priorities(&self) -> Vec<Priority> {
        self.priorities.lock().expect("no panic while held").clone()
    }
}

impl Database for FakeDatabase {
    fn create(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn drop_tables(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn load(&self, _schema: &Schema, _table: TableId, _batch: RecordBatch) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn finish_load(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn session(&self, _schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        if self.refuse_sessions {
            return Err(DatabaseError::Failed("too many connections".to_owned()));
        }
        Ok(Box::new(FakeSession {
            act: self.act.clone(),
            commits: self.commits.clone(),
            priorities: self.priorities.clone(),
            usage: SessionUsage {
                lock_wait: Some(Duration::ZERO),
                io_wait: Some(Duration::ZERO),
                rollback_time: Some(Duration::ZERO),
                ..SessionUsage::default()
            },
            waits: Vec::new(),
        }))
    }

    fn refresh(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn query_threads(&self) -> Vec<i32> {
        vec![41, 42]
    }

    fn cancel_statements(&self) {
        self.cancels.fetch_add(1, Ordering::Relaxed);
    }

    fn sessions_free(&self) -> Result<Option<usize>, DatabaseError> {
        Ok(self.free)
    }
}

struct FakeSession {
    act: Act,
    commits: Arc<AtomicU64>,
    priorities: Arc<Mutex<Vec<Priority>>>,
    usage: SessionUsage,
    waits: Vec<LockWait>,
}

/// The one statement that fails; all others succeed.
pub(crate) static PREEMPTED: Statement =
    Statement { name: "preempted", sql: "select 1", native: &|_, _, _| Err(DatabaseError::Preempted) };

/// How long a transaction waits for its one lock.
const WAIT: LockWait =
    LockWait { queue_time: Duration::from_micros(1), excess: Duration::from_nanos(600), preempted: false };

/// How long the rollback of a failed attempt takes.
pub(crate) const ROLLBACK: Duration = Duration::from_micros(50);

impl Session for FakeSession {
    fn set_priority(&mut self, priority: Priority) {
        self.priorities.lock().expect("no panic while held").push(priority);
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        _parameters: &[Value<'_>],
        _rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        if statement.name == PREEMPTED.name { Err(DatabaseError::Preempted) } else { Ok(()) }
    }

    /// Waits for one lock in every transaction; then follows the script.
    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.usage.lock_wait = self.usage.lock_wait.map(|wait| wait + WAIT.queue_time);
        self.usage.lock_waits += 1;
        self.waits.push(WAIT);
        let outcome = (self.act)(self.commits.fetch_add(1, Ordering::Relaxed));
        if outcome.is_err() {
            self.usage.rollback_time = self.usage.rollback_time.map(|time| time + ROLLBACK);
        }
        outcome
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn query(&mut self, _sql: &str) -> Result<QueryAnswer, DatabaseError> {
        Err(DatabaseError::Unsupported("queries".to_owned()))
    }

    fn usage(&self) -> SessionUsage {
        self.usage
    }

    fn take_lock_waits(&mut self, waits: &mut Vec<LockWait>) {
        waits.append(&mut self.waits);
    }
}

/// Three kinds of transaction in turn; the third rolls itself back.
pub(crate) struct FakeBenchmark {
    analytical: bool,
    /// How many requests have been drawn, by client number; clients beyond the list are not counted.
    pub(crate) drawn: Arc<[AtomicUsize; 4]>,
}

impl FakeBenchmark {
    /// A transactional one.
    pub(crate) fn new() -> Self {
        FakeBenchmark { analytical: false, drawn: Arc::default() }
    }

    /// A benchmark whose requests are queries.
    pub(crate) fn analytical() -> Self {
        FakeBenchmark { analytical: true, ..FakeBenchmark::new() }
    }
}

impl Benchmark for FakeBenchmark {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn data(&self) -> String {
        "fake".to_owned()
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn transactions(&self) -> Vec<&str> {
        vec!["first", "second", "rolled_back"]
    }

    fn is_analytical(&self) -> bool {
        self.analytical
    }

    fn estimated_bytes(&self) -> u64 {
        0
    }

    fn load(&self, _database: &dyn Database, _progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        Ok(())
    }

    fn client(&self, number: usize, _seed: u64) -> Box<dyn Client> {
        let kinds = VecDeque::from([0, 1, 2]);
        Box::new(FakeClient { number, kinds, kind: 0, drawn: self.drawn.clone() })
    }

    fn check(&self, _database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        Ok(Vec::new())
    }
}

struct FakeClient {
    number: usize,
    kinds: VecDeque<usize>,
    kind: usize,
    drawn: Arc<[AtomicUsize; 4]>,
}

impl Client for FakeClient {
    fn draw(&mut self) -> usize {
        self.kind = self.kinds[0];
        self.kinds.rotate_left(1);
        if let Some(drawn) = self.drawn.get(self.number) {
            drawn.fetch_add(1, Ordering::Relaxed);
        }
        self.kind
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        session.begin()?;
        session.commit()?;
        Ok(if self.kind == 2 { Outcome::RolledBack } else { Outcome::Committed })
    }
}
