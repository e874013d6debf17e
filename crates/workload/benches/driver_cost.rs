//! The cost of the driver itself: processor time of a request whose benchmark and database do nothing.
//!
//! The limit is 1 µs per request. Processor time of the client threads is measured, not elapsed time, so that a busy
//! machine does not look like a slow driver.

use std::borrow::Cow;
use std::fs;
use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use criterion::{Criterion, criterion_group, criterion_main};
use plimsoll_policy::Priority;
use plimsoll_workload::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Outcome, Writes};
use plimsoll_workload::database::{Database, DatabaseError, QueryAnswer, Session, SessionUsage};
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, WindowObserver, WorkloadThreads, drive};
use plimsoll_workload::schema::{Schema, TableId};
use plimsoll_workload::statement::{Rows, Statement, Value};

/// What a request may cost.
const LIMIT: Duration = Duration::from_micros(1);

static SCHEMA: Schema = Schema { name: Cow::Borrowed("nothing"), tables: &[] };

/// A benchmark, a database, a client and a session that do nothing.
struct Nothing;

impl Benchmark for Nothing {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn data(&self) -> String {
        "nothing".to_owned()
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn estimated_bytes(&self) -> u64 {
        0
    }

    fn load(&self, _database: &dyn Database, _progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        Ok(())
    }

    fn client(&self, _number: usize, _seed: u64) -> Box<dyn Client> {
        Box::new(Nothing)
    }

    fn check(&self, _database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        Ok(Vec::new())
    }
}

impl Client for Nothing {
    fn draw(&mut self) -> usize {
        black_box(0)
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        session.begin()?;
        session.commit()?;
        Ok(Outcome::Committed)
    }
}

impl Database for Nothing {
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
        Ok(Box::new(Nothing))
    }

    fn refresh(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }
}

impl Session for Nothing {
    fn set_priority(&mut self, priority: Priority) {
        black_box(priority);
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn execute(
        &mut self,
        _statement: &Statement<'_>,
        _parameters: &[Value<'_>],
        _rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn query(&mut self, _sql: &str) -> Result<QueryAnswer, DatabaseError> {
        Err(DatabaseError::Unsupported("queries".to_owned()))
    }

    fn usage(&self) -> SessionUsage {
        SessionUsage { lock_wait: Some(Duration::ZERO), io_wait: Some(Duration::ZERO), ..SessionUsage::default() }
    }
}

/// Reads the processor time of the client threads at both ends of the window.
#[derive(Default)]
struct ProcessorTime {
    threads: Vec<i32>,
    opened: Duration,
    used: Duration,
}

impl ProcessorTime {
    fn now(&self) -> Duration {
        let used = |thread: &i32| {
            let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).expect("the thread lives");
            text.split_whitespace()
                .next()
                .and_then(|word| word.parse().ok())
                .map(Duration::from_nanos)
                .expect("a number")
        };
        self.threads.iter().map(used).sum()
    }
}

impl WindowObserver for ProcessorTime {
    fn opened(&mut self, threads: &[WorkloadThreads]) {
        self.threads = threads.iter().flat_map(|threads| threads.clients.clone()).collect();
        self.opened = self.now();
    }

    fn closed(&mut self) {
        self.used = self.now() - self.opened;
    }
}

/// Processor time of one request, from a window of that length.
fn cost_of_one(options: &ClientOptions, measure: Duration) -> Duration {
    let drives = [Drive { name: "nothing", benchmark: &Nothing, database: &Nothing, options }];
    let mut time = ProcessorTime::default();
    let window = Window { warmup: WarmUp::For(Duration::from_millis(20)), measure };
    let measured = drive(&drives, window, &mut time, &AtomicBool::new(false)).expect("nothing can fail");
    let completed = measured.workloads[0].measured.all.completed.max(1);
    Duration::from_secs_f64(time.used.as_secs_f64() / completed as f64)
}

fn driver_cost(criterion: &mut Criterion) {
    let shares = ClientOptions { priority: "high:0.1".parse().expect("a rule"), ..ClientOptions::default() };
    // So fast a rate that a client is always late: every request draws an arrival, none sleeps.
    let open = ClientOptions { rate: Some(1e9), ..ClientOptions::default() };
    let cases = [("closed loop", ClientOptions::default()), ("priority by share", shares), ("open loop", open)];
    for (name, options) in &cases {
        let mut costs = Vec::new();
        criterion.bench_function(&format!("driver cost, {name}"), |bencher| {
            bencher.iter_custom(|count| {
                let cost = cost_of_one(options, Duration::from_millis(50));
                costs.push(cost);
                Duration::from_secs_f64(cost.as_secs_f64() * count as f64)
            });
        });
        costs.sort_unstable();
        if let Some(median) = costs.get(costs.len() / 2) {
            let ratio = median.as_secs_f64() / LIMIT.as_secs_f64();
            println!("driver cost, {name}: {median:?} a request, {ratio:.2} of the limit of {LIMIT:?}");
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(50)).measurement_time(Duration::from_millis(500));
    targets = driver_cost
}
criterion_main!(benches);
