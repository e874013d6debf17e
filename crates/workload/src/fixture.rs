//! Helpers for the tests of several benchmarks: loading, clients that run at once, a session that fails, and the rules
//! for every benchmark's statements.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicBool;

use plimsoll_policy::Priority;

use crate::benchmark::{Benchmark, LoadProgress, Outcome};
use crate::database::{Database, DatabaseError, QueryAnswer, Session, SessionUsage};
use crate::memory::MemoryDatabase;
use crate::schema::Schema;
use crate::statement::{Rows, Statement, Value};

/// Loads a benchmark's data and ignores progress.
pub(crate) fn load_into(benchmark: &dyn Benchmark, database: &dyn Database) {
    benchmark.load(database, &LoadProgress { report: &|_, _, _| (), stop: &AtomicBool::new(false) }).unwrap();
}

/// The reference database with a benchmark's data.
pub(crate) fn loaded(benchmark: &dyn Benchmark) -> MemoryDatabase {
    let database = MemoryDatabase::new();
    load_into(benchmark, &database);
    database
}

/// A digest of the first tables of a schema, independent of the order of rows, because loading threads race.
pub(crate) fn digest(database: &MemoryDatabase, schema: &Schema, tables: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    for table in 0..tables {
        let mut rows = Vec::new();
        database.scan(schema, table, &mut |row| rows.push(format!("{row:?}"))).unwrap();
        rows.sort_unstable();
        rows.hash(&mut hasher);
    }
    hasher.finish()
}

/// Runs clients at the same time, with a given number of transactions each; returns how many transactions rolled
/// themselves back.
pub(crate) fn run_clients(
    benchmark: &dyn Benchmark,
    database: &dyn Database,
    clients: usize,
    transactions: usize,
) -> usize {
    let run = |number| {
        let mut client = benchmark.client(number, 7);
        let mut session = database.session(benchmark.schema()).unwrap();
        let mut one = || {
            assert!(client.draw() < benchmark.transactions().len());
            client.run(session.as_mut()).unwrap()
        };
        (0..transactions).filter(|_| one() == Outcome::RolledBack).count()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|number| scope.spawn(move || run(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// A session that counts its statements, and fails one of them as the victim of a deadlock.
pub(crate) struct Interrupted<'a> {
    pub(crate) session: &'a mut dyn Session,
    pub(crate) statements: usize,
    pub(crate) interrupt_at: Option<usize>,
}

impl Session for Interrupted<'_> {
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
        self.statements += 1;
        if self.interrupt_at == Some(self.statements) {
            self.session.rollback()?;
            return Err(DatabaseError::Deadlock);
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

    fn usage(&self) -> SessionUsage {
        self.session.usage()
    }
}

/// Fails unless there are `expected` statements, each with a unique name and with parameters `$1`, `$2`, … that it
/// mentions.
pub(crate) fn check_statements(statements: impl Iterator<Item = &'static Statement<'static>>, expected: usize) {
    let mut names = BTreeSet::new();
    for statement in statements {
        assert!(names.insert(statement.name), "{} is there twice", statement.name);
        let numbers = statement.sql.split('$').skip(1);
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let mentioned: BTreeSet<usize> = numbers.map(|text| digits(text).parse().unwrap()).collect();
        assert!(mentioned.iter().copied().eq(1..=mentioned.len()), "{}", statement.sql);
    }
    assert_eq!(names.len(), expected);
}
