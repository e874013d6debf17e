//! Fig. 4.5 of McWherter's thesis: beside a second workload that changes from one bound by the processor to one bound by
//! the disk, a queueing network predicts a dip of the first workload's response time, where the database has a hump (MW
//! 4.5.3).
//!
//! The network is the study's (fig. 4.4). 50 local queries think, compute and sometimes read; the federator's queries
//! only compute and read. The processor is shared evenly, and the disk serves in order of arrival. With service times
//! that differ by class this is not of product form, so the Markov chain is simulated, as in the study. Where the disk
//! is shared evenly, too, the network has product form, and `mva` solves it.

use std::collections::VecDeque;

use plimsoll_model::mva;
use plimsoll_model::network::{Class, Network, Service, Station};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const LOCALS: usize = 50;

/// Of all local queries.
const THINK_MS: f64 = 50.0;

/// Mean time of a visit to the processor, of either class.
const CPU_MS: f64 = 1.0;

const LOCAL_READ_MS: f64 = 2.0;

/// The probability that a visit to the processor ends with a read, of local and of federator queries.
const READS: [f64; 2] = [0.1, 0.9];

/// Transitions of the chain; the first tenth is left out.
const STEPS: usize = 400_000;

/// The state of the chain. Classes: 0 is local, 1 the federator's.
struct Chain {
    thinking: usize,
    at_cpu: [usize; 2],
    /// Classes in order of arrival.
    at_disk: VecDeque<usize>,
    random: Pcg64,
}

impl Chain {
    /// One transition of a chain whose federator needs `read_ms` for a read: the time until it, and whether it completed
    /// a local query.
    fn step(&mut self, read_ms: f64) -> (f64, bool) {
        let present = self.at_cpu.iter().sum::<usize>().max(1) as f64;
        let [local, federator] = self.at_cpu.map(|count| count as f64 / present / CPU_MS);
        let disk = self.at_disk.front().map_or(0.0, |class| 1.0 / [LOCAL_READ_MS, read_ms][*class]);
        let rates = [self.thinking as f64 / THINK_MS, local, federator, disk];
        let total: f64 = rates.iter().sum();
        let waited = -(1.0 - self.random.random::<f64>()).ln() / total;
        let mut drawn = self.random.random::<f64>() * total;
        let event = rates.iter().position(|rate| {
            drawn -= rate;
            drawn < 0.0
        });
        match event.expect("the draw is below the total") {
            0 => {
                self.thinking -= 1;
                self.at_cpu[0] += 1;
            }
            3 => {
                let class = self.at_disk.pop_front().expect("an empty disk has no rate");
                self.at_cpu[class] += 1;
            }
            event => return (waited, self.leave_cpu(event - 1)),
        }
        (waited, false)
    }

    /// Returns whether a local query is done. A federator's query that is done is followed by the next one at once.
    fn leave_cpu(&mut self, class: usize) -> bool {
        if self.random.random_bool(READS[class]) {
            self.at_cpu[class] -= 1;
            self.at_disk.push_back(class);
            return false;
        }
        if class == 0 {
            self.at_cpu[0] -= 1;
            self.thinking += 1;
        }
        class == 0
    }
}

/// Mean response of local queries beside `mpl` of the federator's, by Little's law, milliseconds.
fn response_in_order(mpl: usize, read_ms: f64) -> f64 {
    let random = Pcg64::seed_from_u64(7);
    let mut chain = Chain { thinking: LOCALS, at_cpu: [0, mpl], at_disk: VecDeque::new(), random };
    let (mut spent, mut completed) = (0.0, 0);
    for step in 0..STEPS {
        let present = LOCALS - chain.thinking;
        let (waited, is_done) = chain.step(read_ms);
        if step >= STEPS / 10 {
            spent += waited * present as f64;
            completed += u32::from(is_done);
        }
    }
    spent / f64::from(completed)
}

/// The same where the disk is shared evenly.
fn response_shared(mpl: u32, read_ms: f64) -> f64 {
    let station = |name: &str| Station { name: name.to_owned(), service: Service::Processors { servers: 1 } };
    let class = |name: &str, population, think_ms: f64, reads: f64, read_ms: f64| Class {
        name: name.to_owned(),
        arrivals_per_s: None,
        population,
        think_s: think_ms / 1e3,
        demands_s: vec![CPU_MS / (1.0 - reads) / 1e3, reads / (1.0 - reads) * read_ms / 1e3],
    };
    let classes = vec![
        class("local", LOCALS as u32, THINK_MS, READS[0], LOCAL_READ_MS),
        class("federator", mpl, 0.0, READS[1], read_ms),
    ];
    let network = Network::new(vec![station("cpu"), station("disk")], classes).expect("it is sound");
    mva::solve_exactly(&network).expect("it is closed").classes[0].response_s.expect("there are clients") * 1e3
}

#[test]
fn slower_reads_of_the_others_first_leave_the_response_as_it_is_then_shorten_and_then_lengthen_it() {
    let [level, still, dip, rise, end] = [0.1, 0.6, 3.0, 10.0, 20.0].map(|read_ms| response_in_order(50, read_ms));
    let told = format!("{level:.1} {still:.1} {dip:.1} {rise:.1} {end:.1}");
    assert!((still / level - 1.0).abs() < 0.05, "a plateau: {told}");
    assert!(dip < level / 2.0, "a dip: {told}");
    assert!(rise > 1.5 * dip && end > 1.2 * level, "a rise: {told}");
}

/// The study finds this at any size of the federator's database, in the model and in the database (MW 4.5.2, 4.5.3).
#[test]
fn the_more_of_the_others_the_longer_the_response() {
    for read_ms in [0.1, 3.0, 20.0] {
        let [few, many] = [5, 50].map(|mpl| response_in_order(mpl, read_ms));
        assert!(few < many, "{read_ms}: {few} {many}");
    }
}

/// A local read then takes as many turns as there are others, however long theirs are.
#[test]
fn where_the_disk_is_shared_evenly_the_response_falls_and_does_not_rise_again() {
    let responses = [0.1, 0.6, 3.0, 10.0, 20.0, 200.0].map(|read_ms| response_shared(50, read_ms));
    assert!(responses.is_sorted_by(|longer, shorter| longer > shorter), "{responses:?}");
}
