//! Clients of the driver on a server with a standby.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_workload::benchmark::LoadProgress;
use plimsoll_workload::database::Database;
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, WindowObserver, WorkloadThreads, drive};
use plimsoll_workload::registry;

use super::common::Pair;

/// Notes the parents of the processes that serve each workload.
#[derive(Default)]
struct Parents(Vec<Vec<i32>>);

impl WindowObserver for Parents {
    fn opened(&mut self, threads: &[WorkloadThreads]) {
        let parent = |process: &i32| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
            stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        self.0 = threads.iter().map(|one| one.servers.iter().flatten().map(parent).collect()).collect();
    }

    fn closed(&mut self) {}
}

#[test]
fn those_that_only_query_are_served_by_the_standby_and_others_by_the_primary() {
    let pair = Pair::new(&[]);
    let (queries, _) = registry::benchmark("tpch:0.01", 1).unwrap();
    let (report, stop) = (|_, _, _: &str| {}, AtomicBool::new(false));
    queries.load(&pair.database, &LoadProgress { report: &report, stop: &stop }).unwrap();
    pair.refresh();
    let options = ClientOptions { clients: 2, ..ClientOptions::default() };
    let drives = [("oltp", pair.benchmark.as_ref()), ("olap", queries.as_ref())].map(|(name, benchmark)| Drive {
        name,
        benchmark,
        database: &pair.database,
        options: &options,
    });
    let window = Window { warmup: WarmUp::For(Duration::from_millis(100)), measure: Duration::from_secs(1) };
    let mut parents = Parents::default();
    let measured = drive(&drives, window, &mut parents, &stop).unwrap();
    assert!(measured.workloads.iter().all(|workload| workload.all.work_done > 0.0));
    let primary = pair.database.footprint().processes[0];
    assert_eq!(parents.0, [vec![primary; 2], vec![pair.standby.id; 2]]);
}
