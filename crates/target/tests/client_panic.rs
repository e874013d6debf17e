//! A client that panics in the middle of a transaction: its locks are released, and the error names the client.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_policy::Priority;
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Outcome, Writes};
use plimsoll_workload::database::{Database, DatabaseError, LockWait, QueryAnswer, Session, SessionUsage};
use plimsoll_workload::driver::{ClientOptions, Drive, DriveError, DriveMeasurement, WarmUp, Window, drive};
use plimsoll_workload::schema::Schema;
use plimsoll_workload::statement::{Rows, Statement, Value};
use plimsoll_workload::tpcc::Tpcc;

/// TPC-C, whose client number 3 panics when it is about to commit its twentieth new order or payment.
struct Mortal<'a>(&'a Tpcc);

impl Benchmark for Mortal<'_> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn data(&self) -> String {
        self.0.data()
    }

    fn writes(&self) -> Writes {
        self.0.writes()
    }

    fn transactions(&self) -> Vec<&str> {
        self.0.transactions()
    }

    fn is_analytical(&self) -> bool {
        self.0.is_analytical()
    }

    fn estimated_bytes(&self) -> u64 {
        self.0.estimated_bytes()
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        self.0.load(database, progress)
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        let client = self.0.client(number, seed);
        if number == 3 { Box::new(MortalClient { client, kind: 0, left: 20 }) } else { client }
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        self.0.check(database)
    }
}

struct MortalClient {
    client: Box<dyn Client>,
    kind: usize,
    /// Transactions that write until the one it dies in.
    left: u32,
}

impl Client for MortalClient {
    fn draw(&mut self) -> usize {
        self.kind = self.client.draw();
        self.kind
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        // New orders and payments come first in the list of transactions.
        self.left = self.left.saturating_sub(u32::from(self.kind < 2));
        if self.left > 0 { self.client.run(session) } else { self.client.run(&mut LastSession(session)) }
    }
}

/// The session of the client's last transaction.
struct LastSession<'a>(&'a mut dyn Session);

impl Session for LastSession<'_> {
    fn set_priority(&mut self, priority: Priority) {
        self.0.set_priority(priority);
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.0.begin()
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        self.0.execute(statement, parameters, rows)
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        panic!("died holding locks");
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.0.rollback()
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.0.query(sql)
    }

    fn usage(&self) -> SessionUsage {
        self.0.usage()
    }

    fn take_lock_waits(&mut self, waits: &mut Vec<LockWait>) {
        self.0.take_lock_waits(waits);
    }
}

/// Eight clients of one warehouse, each of whose transactions holds its row for milliseconds.
fn run(benchmark: &dyn Benchmark, database: &Embedded, window: Window) -> Result<DriveMeasurement, DriveError> {
    let round_trip = "const 0.2ms".parse().unwrap();
    let options = ClientOptions { clients: 8, round_trip, ..ClientOptions::default() };
    drive(&[Drive { name: "tpcc", benchmark, database, options: &options }], window, &mut (), &AtomicBool::new(false))
}

#[test]
fn locks_of_a_client_that_panics_are_released_and_the_run_says_so() {
    let tpcc = Tpcc::new(1, 7);
    for policy in ["lock_policy=standard", "lock_policy=pow"] {
        let database = Embedded::new(EmbeddedOptions::parse([policy]).unwrap()).unwrap();
        let loaded = AtomicU64::new(0);
        let count = |done, _, _: &str| loaded.store(done, Ordering::Relaxed);
        tpcc.load(&database, &LoadProgress { report: &count, stop: &AtomicBool::new(false) }).unwrap();

        // The run would last ten minutes if the panic did not end it. Its end shows that no request waits for the dead
        // client: requests in flight run to their end, and most of them need the row of the warehouse.
        let minutes = Duration::from_secs(600);
        let error =
            run(&Mortal(&tpcc), &database, Window { warmup: WarmUp::For(minutes), measure: minutes }).unwrap_err();
        let DriveError::ClientPanicked { workload, client, message } = error else { panic!("{error}") };
        assert_eq!((workload.as_str(), client), ("tpcc", 3));
        assert!(message.starts_with("died holding locks at "), "{message}");

        let short = Window { warmup: WarmUp::For(Duration::ZERO), measure: Duration::from_millis(300) };
        let measured = run(&tpcc, &database, short).unwrap();
        assert!(measured.workloads[0].measured.all.completed > 0, "{policy}");
        assert_eq!(measured.workloads[0].measured.aborted.error, 0, "{policy}");
        let broken: Vec<_> =
            tpcc.check(&database).unwrap().into_iter().filter(|line| line.holds == Some(false)).collect();
        assert!(broken.is_empty(), "{policy}: {broken:?}");
    }
}
