//! A whole study, of benchmarks that only burn a little processor time.

use std::hint::black_box;
use std::time::Duration;

use plimsoll_policy::Priority;
use plimsoll_workload::benchmark::{CheckLine, Client, LoadError, LoadProgress, Outcome};
use plimsoll_workload::database::{QueryAnswer, Session, SessionUsage};
use plimsoll_workload::driver::Phase;
use plimsoll_workload::schema::{Schema, TableId};
use plimsoll_workload::statement::{Rows, Statement, Value};

use super::*;

static SCHEMA: Schema = Schema { name: "burn", tables: &[] };

/// Benchmark, client, database and session: each transaction counts to a few thousand.
struct Burn {
    is_analytical: bool,
    works: bool,
}

const OLTP: Burn = Burn { is_analytical: false, works: true };
const OLAP: Burn = Burn { is_analytical: true, works: true };
const BROKEN: Burn = Burn { is_analytical: false, works: false };

impl Benchmark for Burn {
    fn name(&self) -> &'static str {
        "burn"
    }

    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn transactions(&self) -> &'static [&'static str] {
        &["count", "count_down"]
    }

    fn is_analytical(&self) -> bool {
        self.is_analytical
    }

    fn estimated_bytes(&self) -> u64 {
        0
    }

    fn load(&self, _database: &dyn Database, _progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        Ok(())
    }

    fn client(&self, _number: usize) -> Box<dyn Client> {
        Box::new(BurnClient { kind: 0, works: self.works })
    }

    fn check(&self, _database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        Ok(Vec::new())
    }
}

struct BurnClient {
    kind: usize,
    works: bool,
}

impl Client for BurnClient {
    fn draw(&mut self) -> usize {
        self.kind = 1 - self.kind;
        self.kind
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        if !self.works {
            return Err(DatabaseError::Failed("no such table".to_owned()));
        }
        (0..5_000_u64).for_each(|number| {
            black_box(number);
        });
        session.commit()?;
        Ok(Outcome::Committed)
    }
}

struct BurnDatabase;

impl Database for BurnDatabase {
    fn create(&self, _schema: &'static Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn load(
        &self,
        _schema: &'static Schema,
        _table: TableId,
        _batch: arrow::record_batch::RecordBatch,
    ) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn finish_load(&self, _schema: &'static Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn session(&self, _schema: &'static Schema) -> Result<Box<dyn Session>, DatabaseError> {
        Ok(Box::new(BurnDatabase))
    }

    fn refresh(&self, _schema: &'static Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn query_threads(&self) -> Vec<i32> {
        Vec::new()
    }
}

impl Session for BurnDatabase {
    fn set_priority(&mut self, _priority: Priority) {}

    fn begin(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn execute(
        &mut self,
        _statement: &'static Statement,
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
        SessionUsage { lock_wait: Some(Duration::ZERO), lock_waits: 0 }
    }
}

const PLAN: StudyPlan = StudyPlan {
    window: Window { warmup: Duration::from_millis(2), measure: Duration::from_millis(100) },
    blocks: 2,
    seed: 7,
};

fn workloads<'a>(oltp: &'a Burn, options: &'a ClientOptions) -> [StudyWorkload<'a>; 2] {
    [
        StudyWorkload { name: "oltp", benchmark: oltp, options },
        StudyWorkload { name: "olap", benchmark: &OLAP, options },
    ]
}

#[test]
fn a_study_leaves_a_point_for_each_arm_and_repeat() {
    let options = ClientOptions { clients: 2, ..ClientOptions::default() };
    let stop = AtomicBool::new(false);
    let mut phases = Vec::new();
    let mut progress = |progress: StudyProgress<'_>| phases.push((progress.done, progress.all, progress.run.phase));
    let study = measure(&BurnDatabase, &workloads(&OLTP, &options), &PLAN, &mut progress, &stop).expect("it runs");

    assert!(!study.stopped);
    assert!(phases.contains(&(5, 6, Phase::Measure)), "{phases:?}");
    let mut arms: Vec<(&str, u32)> = study.points.iter().map(|point| (point.arm.as_str(), point.repeat)).collect();
    arms.sort_unstable();
    let expect =
        [("alone:olap", 1), ("alone:olap", 2), ("alone:oltp", 1), ("alone:oltp", 2), ("together", 1), ("together", 2)];
    assert_eq!(arms, expect);
    for point in &study.points {
        assert!(point.valid, "{:?}", point.why_invalid);
        assert_eq!(point.window_s, 0.1);
        assert_eq!(point.workloads.len(), if point.arm == "together" { 2 } else { 1 });
        for workload in &point.workloads {
            assert_eq!(workload.completed, workload.transactions.values().map(|part| part.completed).sum::<u64>());
            assert_eq!(workload.completed, workload.classes["low"].completed);
            let Some(share) = workload.time_share else {
                assert_eq!(workload.name, "olap", "its queries have no threads in this process");
                continue;
            };
            let known = [share.cpu_run, share.cpu_wait, share.io, share.lock].into_iter().flatten().sum::<f64>();
            assert!(share.other >= 0.0 && (known + share.other - 1.0).abs() < 1e-9, "{share:?}");
        }
    }
    let once: std::collections::BTreeSet<&String> = study.warnings.iter().collect();
    assert_eq!(once.len(), study.warnings.len(), "{:#?}", study.warnings);
    assert!(once.contains(&"olap: no time shares, for its queries run in another process".to_owned()));
}

#[test]
fn ctrl_c_keeps_the_points_that_are_done() {
    let options = ClientOptions::default();
    let stop = AtomicBool::new(false);
    let mut progress = |progress: StudyProgress<'_>| {
        if progress.done == 2 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let study = measure(&BurnDatabase, &workloads(&OLTP, &options), &PLAN, &mut progress, &stop).expect("it stops");
    assert!(study.stopped);
    assert_eq!(study.points.len(), 2);
}

#[test]
fn a_run_that_fails_names_its_arm() {
    let options = ClientOptions::default();
    let (workloads, stop) = (workloads(&BROKEN, &options), AtomicBool::new(false));
    let error = measure(&BurnDatabase, &workloads[..1], &PLAN, &mut |_| {}, &stop).expect_err("it is broken");
    assert_eq!(
        error.to_string(),
        "alone:oltp, repeat 1: workload oltp: the first request of every client failed, the last one with: no such table"
    );
}
