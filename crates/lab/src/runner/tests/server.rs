//! Runs on a database whose sessions are served by processes, as on a server: here all by this one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arrow::record_batch::RecordBatch;
use plimsoll_policy::Priority;
use plimsoll_workload::activity::{Activity, ActivityWatch, Doing};
use plimsoll_workload::database::{QueryAnswer, QueryPlan, Session, SessionUsage};
use plimsoll_workload::driver::ClientOptions;
use plimsoll_workload::freshness::{ChangeUnit, CopyState, CopyWatch};
use plimsoll_workload::memory::MemoryDatabase;
use plimsoll_workload::registry::make;
use plimsoll_workload::schema::{Schema, TableId};
use plimsoll_workload::statement::{Rows, Statement, Value};

use super::*;

/// The target. Its option `watch` says what becomes of who looks: `sound`, `dying` after two looks, or `refused`; or what there is
/// of a copy for queries: `copied`, `stuck`, `unseen`.
struct ServerTargets;

struct ServerDatabase {
    database: MemoryDatabase,
    watch: String,
    /// How many plans were asked for.
    plans: Arc<AtomicUsize>,
}

struct ServerSession {
    session: Box<dyn Session>,
    plans: Arc<AtomicUsize>,
}

/// A copy to which changes are applied two looks after they were published, or never.
struct Copy {
    looks: u64,
    stands_still: bool,
}

impl CopyWatch for Copy {
    fn look(&mut self) -> Result<CopyState, DatabaseError> {
        self.looks += 1;
        let applied = if self.stands_still { 0 } else { self.looks.saturating_sub(2) };
        Ok(CopyState {
            unit: ChangeUnit::LogBytes,
            published: self.looks * 1000,
            applied: applied * 1000,
            readable: applied * 1000,
            applying: None,
            merged: None,
            delta_bytes: None,
            versions: None,
            blocked: None,
        })
    }
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

impl Targets for ServerTargets {
    fn check(&self, _: &str, _: &BTreeMap<String, String>) -> Result<(), String> {
        Ok(())
    }

    fn option_names(&self, _: &str) -> Vec<&'static str> {
        vec!["watch"]
    }

    fn settings(&self, _: &str, _: &BTreeMap<String, String>) -> BTreeMap<String, serde_json::Value> {
        BTreeMap::new()
    }

    fn open(&self, _: &str, options: &BTreeMap<String, String>) -> Result<Box<dyn Database>, String> {
        let watch = options["watch"].clone();
        Ok(Box::new(ServerDatabase { database: MemoryDatabase::new(), watch, plans: Arc::default() }))
    }
}

impl Database for ServerDatabase {
    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.database.create(schema)
    }

    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.database.drop_tables(schema)
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        self.database.load(schema, table, batch)
    }

    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.database.finish_load(schema)
    }

    fn session(&self, schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        Ok(Box::new(ServerSession { session: self.database.session(schema)?, plans: self.plans.clone() }))
    }

    fn refresh(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.database.refresh(schema)
    }

    fn query_threads(&self) -> Vec<i32> {
        Vec::new()
    }

    fn warnings(&self) -> Vec<String> {
        vec!["no statistics of statements".to_owned()]
    }

    fn activity(&self) -> Result<Option<Box<dyn ActivityWatch>>, DatabaseError> {
        let dies_at = match self.watch.as_str() {
            "refused" => return Err(DatabaseError::Failed("too many connections".to_owned())),
            "dying" => 2,
            _ => usize::MAX,
        };
        Ok(Some(Box::new(LockWatch { looks: 0, dies_at })))
    }

    fn freshness(&self) -> Result<Option<Box<dyn CopyWatch>>, DatabaseError> {
        Ok(match self.watch.as_str() {
            "copied" => Some(Box::new(Copy { looks: 0, stands_still: false })),
            "stuck" => Some(Box::new(Copy { looks: 0, stands_still: true })),
            "unseen" => return Err(DatabaseError::Failed("too many connections".to_owned())),
            _ => None,
        })
    }
}

impl Session for ServerSession {
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
        self.plans.fetch_add(1, Ordering::Relaxed);
        if sql.contains("lineitem") {
            Ok(Some(QueryPlan { hash: "0011223344556677".to_owned(), shape: "Seq Scan lineitem".to_owned() }))
        } else {
            Err(DatabaseError::Failed("relation does not exist".to_owned()))
        }
    }

    fn server_process(&self) -> Option<i32> {
        Some(own_process())
    }

    fn usage(&self) -> SessionUsage {
        self.session.usage()
    }
}

fn record(watch: &str, measure: &str) -> RunRecord {
    let text = format!(
        "name = \"server\"\n[target]\nurl = \"memory:\"\noptions = {{ watch = \"{watch}\" }}\n[[workload]]\nname = \"shop\"\n\
         kind = \"rows\"\nscale = 0.001\n[run]\nothers_max = 1000\nwarmup = \"0s\"\nmeasure = \"{measure}\"\nrepeats = 1\n"
    );
    let resolved = parse(&text, "x.toml").and_then(|one| resolve(&one, &Terms::here(&ServerTargets, false)));
    let plan = resolved.unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    let mut limits = NoLimits;
    let outcome = Runner::new(&plan, &ServerTargets, &mut limits).run(&Selection::default(), Vec::new(), &mut watch);
    outcome.unwrap_or_else(|error| panic!("{error}")).records.remove(0)
}

#[test]
fn a_server_is_looked_at_while_the_window_is_open() {
    let record = record("sound", "1100ms");
    let point = &record.point;
    assert!(point.valid, "{:?}", point.why_invalid);
    let sampler = &point.server.as_ref().expect("somebody looked").sampler;
    assert!(sampler.looks > 0 && sampler.ended.is_none() && sampler.duty < 1.0, "{sampler:?}");
    let shop = &point.workloads[0];
    let on_server = shop.server.as_ref().expect("it is on a server");
    assert_eq!((on_server.seen.lock, on_server.seen.sum()), (sampler.looks, sampler.looks));
    let share = shop.all.time_share.expect("requests were under way");
    let sum: f64 = share.parts().iter().flatten().sum();
    assert!((sum - 1.0).abs() < 1e-9, "{share:?}");
    // A machine so busy that there are too few looks cannot tell.
    assert_eq!(share.lock.is_some(), sampler.looks >= 100, "{share:?} {sampler:?}");
    assert_eq!(share.io, share.lock.map(|_| 0.0));
    let samples: u64 = shop.transactions.values().filter_map(|part| part.samples).sum();
    assert_eq!(samples, on_server.under_way);
    assert!(record.warnings.iter().any(|warning| warning.starts_with("no statistics of statements")));
}

#[test]
fn a_watch_that_dies_makes_the_run_invalid_and_says_why() {
    let record = record("dying", "300ms");
    let expect =
        "the server could not be watched to the end of the window: the connection was lost: terminating connection";
    assert_eq!((record.point.valid, record.point.why_invalid.as_deref()), (false, Some(expect)));
    assert_eq!(record.point.server.expect("somebody looked").sampler.looks, 2);
    assert!(record.point.workloads[0].all.completed > 0, "what the clients did is known");
}

#[test]
fn without_a_watch_the_scheduler_s_books_are_what_there_is() {
    let record = record("refused", "50ms");
    assert!(record.point.valid && record.point.server.is_none());
    let share = record.point.workloads[0].all.time_share.expect("requests were under way");
    assert_eq!((share.lock, share.io, share.client), (None, None, None));
    for reason in ["what the server's processes do is not seen: too many connections", "no statistics of statements"] {
        assert!(record.warnings.iter().any(|warning| warning == reason), "{:?}", record.warnings);
    }
}

#[test]
fn a_copy_for_queries_is_looked_at_and_one_that_stands_still_makes_the_run_invalid() {
    let kept_up = record("copied", "1100ms");
    assert!(kept_up.point.valid, "{:?}", kept_up.point.why_invalid);
    let whole = kept_up.point.device.freshness.expect("somebody looked");
    let lag_us = whole.lag_us.and_then(|lag| lag.p50).expect("there were looks");
    assert!(whole.lambda > Some(0.0) && lag_us >= 20_000.0, "{whole:?}");
    assert!(kept_up.samples[0].device.freshness.is_some(), "and in its seconds");
    let why = record("stuck", "300ms").point.why_invalid.expect("it holds nothing of the window");
    assert!(why.starts_with("queries read none of the window's changes"), "{why}");
    let unseen = record("unseen", "50ms");
    assert!(unseen.point.valid && unseen.point.device.freshness.is_none());
    let reason = "how fresh the data are that queries read is not seen: too many connections";
    assert!(unseen.warnings.iter().any(|warning| warning == reason), "{:?}", unseen.warnings);
    let figure = crate::figures::figure("device.freshness.lag_us.p95");
    let reading = crate::figures::Reading::of_run(&unseen.point, &unseen.point.workloads[0]);
    let told = figure.read(&reading, crate::figures::Asking::Nothing).unwrap_err();
    assert!(told.contains("`standby=1` gives them one"), "{told}");
}

#[test]
fn plans_are_asked_for_once_for_each_setting_and_load() {
    let (benchmark, _) = make("tpch", Some(0.01), &BTreeMap::new(), 7).expect("there is TPC-H");
    let plans_asked = Arc::new(AtomicUsize::new(0));
    let database = ServerDatabase { database: MemoryDatabase::new(), watch: String::new(), plans: plans_asked.clone() };
    database.create(benchmark.schema()).expect("new");
    let options = ClientOptions::default();
    let drives = [Drive { name: "olap", benchmark: benchmark.as_ref(), database: &database, options: &options }];
    let mut plans = Plans::default();
    let mut asked = |setting, generation| {
        let (mut warnings, before) = (Vec::new(), plans_asked.load(Ordering::Relaxed));
        let found = plans.of(setting, &drives, generation, &mut warnings);
        (found.len(), plans_asked.load(Ordering::Relaxed) - before, warnings)
    };
    // The second query reads other tables, of which the fake knows nothing.
    let unknown = vec!["olap: not all plans of its queries are known: relation does not exist".to_owned()];
    assert_eq!(asked(0, 1), (1, 2, unknown.clone()));
    assert_eq!(asked(0, 1), (1, 0, Vec::new()));
    assert_eq!(asked(1, 1), (1, 2, unknown.clone()));
    assert_eq!(asked(0, 2), (1, 2, unknown));
}
