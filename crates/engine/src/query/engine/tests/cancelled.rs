//! A query that is cancelled at any moment leaves no task, no thread and no memory behind, and neither does one that fails.

use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryPool;
use plimsoll_policy::parallelism_policy;
use plimsoll_testing::until;

use super::*;
use crate::query::threads::Pool;

/// Joins with a shared and with a distributed build side, groups that are exchanged, sorts that spill and are merged.
const QUERIES: [&str; 4] = [
    "select count(*), sum(a.id) from ship a, ship b where a.id = b.id and b.id % 3 < 2",
    "select id % 50021 as part, count(*), sum(id) from ship group by 1 order by 2 desc, 1 limit 10",
    "select sum(place * id) from (select id, row_number() over (order by id % 1009, id) as place from ship)",
    "select count(*) from (select id from ship union all select id + 1 from ship) united where id % 7 = 1",
];

fn engine(query_threads: QueryThreads) -> QueryEngine {
    let parallelism = parallelism_policy("static(4)");
    let options =
        QueryOptions { dop: 4, workers: 3, memory_grant_mib: Some(16), query_threads, ..QueryOptions::default() };
    QueryEngine::new(QueryOptions { parallelism, ..options }).unwrap()
}

/// Runs a query for at most this long; `None` if that was too short. All its resources must be freed soon after.
fn run(
    engine: &QueryEngine,
    snapshot: &Arc<ColumnSnapshot>,
    sql: &'static str,
    limit: Duration,
) -> Option<Result<usize, DataFusionError>> {
    let meter = Arc::new(UsageMeter::default());
    let planner = engine.planner(snapshot, Degrees::OfPipelines).unwrap();
    let threads = engine.threads.lease().unwrap();
    let context = engine.task_context(planner.state(), &meter, &threads).unwrap();
    let pool = Arc::clone(context.memory_pool());
    let plan = threads.run(async move {
        let choose: ChooseDegrees = Box::new(|pipelines| vec![4; pipelines.facts.len()]);
        planner.plan_by_pipelines(sql, choose).await.unwrap().0
    });
    let plan = plan.unwrap();
    let task = async move { tokio::time::timeout(limit, collect(plan, context)).await.ok() };
    let answer = threads.run(task).unwrap().map(|answer| answer.map(|batches| batches.len()));
    nothing_is_left(&threads, &pool, sql);
    answer
}

fn nothing_is_left(threads: &Pool, pool: &Arc<dyn MemoryPool>, sql: &str) {
    let began = Instant::now();
    // A task that is cancelled while it works ends at its next wait.
    while threads.tasks() > 0 || pool.reserved() > 0 || Arc::strong_count(pool) > 1 {
        let (tasks, reserved, held) = (threads.tasks(), pool.reserved(), Arc::strong_count(pool) - 1);
        let left = format!("{tasks} tasks, {reserved} bytes, and {held} who hold the pool are left of {sql}");
        assert!(began.elapsed() < Duration::from_secs(20), "{left}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Threads that the runtime started for writing spilled rows end when they have been idle for ten seconds. Counted at once, they
/// were seen beside the workers on a busy machine.
fn only_workers_are_left(engine: &QueryEngine, workers: usize) {
    let began = Instant::now();
    while engine.thread_ids().len() > workers {
        assert!(began.elapsed() < Duration::from_secs(40), "{} threads are left", engine.thread_ids().len());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(engine.thread_ids().len(), workers, "no worker was lost");
}

#[test]
fn a_cancelled_query_leaves_no_task_thread_or_memory_at_any_parallelism() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table(400_000)]));
    let (mut seed, mut cancelled) = (1_u64, 0);
    for query_threads in QueryThreads::ALL {
        let engine = engine(query_threads);
        for sql in QUERIES {
            let began = Instant::now();
            assert!(
                run(&engine, &snapshot, sql, Duration::from_secs(60)).is_some_and(|answer| answer.is_ok()),
                "{sql}"
            );
            let whole = began.elapsed();
            for _ in 0..20 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let limit = whole.mul_f64((seed >> 40) as f64 / (1_u64 << 24) as f64);
                cancelled += usize::from(run(&engine, &snapshot, sql, limit).is_none());
            }
        }
        only_workers_are_left(&engine, 3);
        assert!(engine.idle.lock().len() <= 2, "planners are idle again");
        assert_eq!(number(&engine.query(&snapshot, "select count(*) from ship", None).unwrap()), 400_000);
    }
    assert!(cancelled > 20, "only {cancelled} of 160 queries were cancelled before they ended");
}

#[test]
fn a_query_that_fails_is_not_active_any_more_and_leaves_nothing() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table(400_000)]));
    let engine = engine(QueryThreads::Shared);
    for row in [0, 70_000, 250_000, 399_999] {
        let sql = format!("select id % 50021, sum(1 / (id - {row})) from ship group by 1 order by 2");
        assert!(matches!(engine.query(&snapshot, &sql, None), Err(QueryError::Execute(_))), "{sql}");
        assert_eq!(engine.learner.as_ref().unwrap().known().active(), 0);
        let threads = engine.threads.lease().unwrap();
        until(&format!("no task is left of {sql}"), || threads.tasks() == 0);
    }
}
