//! References that one core simulates per second. The goal is 50 million where one set in 32 is simulated, as it is for machines of full size.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plimsoll_model::cache_simulator::{Machine, Simulation, Workload, program, run};

/// References of one simulation.
const REFERENCES: u64 = 4_000_000;

/// The study's aggregation beside its scan, on 22 cores each.
fn study(sampling: u32) -> Simulation {
    let workload = |name: &str, mask: u32| {
        let program = program(name, &BTreeMap::new()).expect("an operator of the list");
        Workload { name: name.to_owned(), program, cores: 22, mask }
    };
    let workloads = vec![workload("aggregation", 0xf_ffff), workload("packed_scan", 0x3)];
    Simulation { machine: Machine::STUDY, workloads, sampling, warm_up: 0, references: REFERENCES, seed: 1 }
}

fn references(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cache simulator");
    group.sample_size(10).throughput(Throughput::Elements(REFERENCES));
    for (name, sampling) in [("one set in 32", 32), ("all sets", 1)] {
        let simulation = study(sampling);
        group.bench_function(name, |bencher| bencher.iter(|| run(black_box(&simulation)).expect("a right simulation")));
    }
    group.finish();
}

criterion_group!(benches, references);
criterion_main!(benches);
