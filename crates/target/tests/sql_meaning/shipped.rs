//! Every query and check of the benchmarks is among what the engine runs, and every check holds.

use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::Benchmark;
use plimsoll_workload::database::Database;
use plimsoll_workload::registry::{self, BENCHMARKS};

use crate::databases::load;

/// Requests of each benchmark: more than twice the queries that the largest has.
const REQUESTS: usize = 50;

/// A benchmark at the smallest scale of these that it has.
fn small(name: &str) -> Box<dyn Benchmark> {
    let scales = ["0.01", "0.1", "1", "2", "10"];
    let made = scales.iter().find_map(|scale| registry::benchmark(&format!("{name}:{scale}"), 7).ok());
    made.unwrap_or_else(|| registry::benchmark(name, 7).unwrap()).0
}

#[test]
fn benchmarks_run_and_their_checks_hold() {
    for (entry, index) in BENCHMARKS.iter().flat_map(|entry| ["index=tree", "index=hash"].map(|index| (entry, index))) {
        let benchmark = small(entry.name);
        let database = Embedded::new(EmbeddedOptions::parse(["dop=2", index]).unwrap()).unwrap();
        load(&*benchmark, &database);
        benchmark.prepare(&database).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let mut session = database.session(benchmark.schema()).unwrap();
        let mut client = benchmark.client(0, 7);
        for _ in 0..REQUESTS {
            client.draw();
            let ran = client.run(&mut *session);
            assert!(ran.is_ok(), "{}, {index}: {}", entry.name, ran.unwrap_err());
        }
        drop(client);
        let lines = benchmark.check(&database).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let failing: Vec<_> = lines.iter().filter(|line| line.holds == Some(false)).collect();
        assert!(failing.is_empty(), "{}, {index}: {failing:#?}", entry.name);
    }
}
