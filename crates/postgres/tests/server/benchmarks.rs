//! The benchmarks of the Transaction Processing Performance Council on a server: loaded, run, checked, and compared
//! with the reference database.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use plimsoll_policy::Priority;
use plimsoll_workload::benchmark::{Benchmark, CheckLine, LoadProgress};
use plimsoll_workload::database::{Database, DatabaseError, QueryAnswer, Session, SessionUsage};
use plimsoll_workload::memory::MemoryDatabase;
use plimsoll_workload::statement::{Rows, Statement, Value};
use plimsoll_workload::tpcc::Tpcc;
use plimsoll_workload::tpch::Tpch;

use super::shared::database;

fn load(benchmark: &dyn Benchmark, database: &dyn Database) {
    let stop = AtomicBool::new(false);
    benchmark.load(database, &LoadProgress { report: &|_, _, _| {}, stop: &stop }).unwrap();
}

fn assert_good(lines: &[CheckLine]) {
    let wrong: Vec<_> = lines.iter().filter(|line| line.holds == Some(false)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(lines.iter().any(|line| line.holds == Some(true)));
}

/// Records the answer to every statement.
struct Witness {
    session: Box<dyn Session>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Session for Witness {
    fn set_priority(&mut self, priority: Priority) {
        self.session.set_priority(priority);
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.session.begin()
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        let outcome = self.session.execute(statement, parameters, rows);
        // Cells, texts and the row count. The number of changed rows is not part of the contract if a statement returns
        // rows.
        let shown = format!("{rows:?}");
        let cells = shown.split(", affected: ").next().filter(|_| !rows.is_empty()).unwrap_or("no rows");
        let seen = format!("{} {parameters:?}: {outcome:?} {cells}", statement.name);
        self.seen.lock().unwrap().push(seen);
        outcome
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

    fn usage(&self) -> SessionUsage {
        self.session.usage()
    }
}

/// The answers to one client's requests, in order.
fn answers(benchmark: &dyn Benchmark, database: &dyn Database, requests: usize) -> Vec<String> {
    let seen = Arc::default();
    let session = database.session(benchmark.schema()).unwrap();
    let mut witness = Witness { session, seen: Arc::clone(&seen) };
    let mut client = benchmark.client(0, 7);
    for _ in 0..requests {
        client.draw();
        let outcome = client.run(&mut witness);
        seen.lock().unwrap().push(format!("{outcome:?}"));
    }
    std::mem::take(&mut *seen.lock().unwrap())
}

#[test]
fn tpcc_answers_as_the_reference_database_does_and_stays_consistent() {
    let (postgres, memory) = (database(), MemoryDatabase::new());
    let expected = {
        let tpcc = Tpcc::new(1, 42);
        load(&tpcc, &memory);
        answers(&tpcc, &memory, 400)
    };
    let tpcc = Tpcc::new(1, 42);
    load(&tpcc, &*postgres);
    assert_good(&tpcc.check_population(&*postgres).unwrap());
    let found = answers(&tpcc, &*postgres, 400);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
    for name in Tpcc::statements().map(|statement| statement.name) {
        assert!(found.iter().any(|seen| seen.starts_with(&format!("{name} "))), "{name} was not run");
    }
    std::thread::scope(|scope| {
        for number in 1..4 {
            let (tpcc, postgres) = (&tpcc, &postgres);
            scope.spawn(move || {
                let (mut client, mut session) = (tpcc.client(number, 7), postgres.session(tpcc.schema()).unwrap());
                for _ in 0..100 {
                    client.draw();
                    while let Err(error) = client.run(session.as_mut()) {
                        assert!(error.is_retryable(), "{error}");
                    }
                }
            });
        }
    });
    assert_good(&tpcc.check(&*postgres).unwrap());
    postgres.drop_tables(tpcc.schema()).unwrap();
}

#[test]
fn tpch_answers_its_queries() {
    let postgres = database();
    let tpch = Tpch::new(0.01).unwrap();
    load(&tpch, &*postgres);
    assert_good(&tpch.check(&*postgres).unwrap());
    let mut session = postgres.session(tpch.schema()).unwrap();
    let mut client = tpch.client(0, 7);
    let mut seen: Vec<usize> = (0..22)
        .map(|_| {
            let query = client.draw();
            client.run(session.as_mut()).unwrap_or_else(|error| panic!("query {query}: {error}"));
            query
        })
        .collect();
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..22), "{seen:?}");
    for (name, sql) in tpch.queries() {
        let plan = session.plan(&sql).unwrap().unwrap();
        assert!(plan.shape.contains('('), "{name}: {}", plan.shape);
    }
    drop(session);
    postgres.drop_tables(tpch.schema()).unwrap();
}
