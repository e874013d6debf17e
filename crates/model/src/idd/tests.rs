//! Predictions against their parts and experiments with known truth.

mod intervals;
mod isolated;
mod open;

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::demand::Block;
use crate::demand::tests::block;
use crate::des;
use crate::mva;
use crate::network::Service;
use crate::network::tests::{class, station};
use crate::statistics::student::normal;

fn assert_near(found: f64, expect: f64) {
    assert!((found - expect).abs() <= 1e-6 * expect.abs(), "{found} is not {expect}");
}

pub(super) fn member(name: &str, population: u32, think_s: f64, blocks: Vec<Block>) -> Member {
    let blocks = blocks.into_iter().map(Some).collect();
    let alone = Alone { name: name.to_owned(), population, blocks };
    Member { alone, population, think_s, arrivals_per_s: None, needs_thread: false }
}

pub(super) fn mix(slowdown: Slowdown, members: Vec<Member>) -> Mix {
    Mix { members, tables_shared: false, slowdown, turns: Turns::default(), noise: None, doublings_beyond: 0.0 }
}

fn machine(cores: u32) -> Machine {
    Machine { cores, disk: Disk::Busy, query_threads: None, workers_max: None }
}

fn pair() -> Vec<Member> {
    vec![
        member("oltp", 8, 0.1, vec![block(1_000, 0.01, 0.002); 3]),
        member("olap", 2, 0.0, vec![block(100, 0.5, 0.1); 3]),
    ]
}

pub(super) const ONE_CORE: Machine = Machine { cores: 1, disk: Disk::Busy, query_threads: None, workers_max: None };

/// The mixed demands of McWherter's thesis (4.6.2) are then those alone, and its model (4.6.3) is one server for each device.
#[test]
fn on_one_core_without_slowdown_it_is_the_model_of_the_thesis() {
    let members = vec![
        member("loc", 50, 5.0, vec![block(1_000, 0.05, 0.01)]),
        member("fed", 50, 0.0, vec![block(200, 0.5, 0.25)]),
    ];
    let server = |name: &str| station(name, Service::Processors { servers: 1 });
    let classes = vec![class(50, 5.0, &[0.05, 0.01]), class(50, 0.0, &[0.5, 0.25])];
    let thesis = mva::solve(&Network::new(vec![server("cpu"), server("disk")], classes).unwrap()).unwrap();
    let found = predict(&mix(Slowdown::None, members), &ONE_CORE).unwrap();
    for (found, expect) in found.classes.iter().zip(&thesis.classes) {
        assert_near(found.response_s.unwrap().value, expect.response_s.unwrap());
    }
    assert_eq!((found.bottleneck, found.method, &found.cautions[..]), (Some("cpu"), Method::Exact, &[][..]));
    let throughput = found.classes[0].throughput;
    assert!(
        throughput.low.is_some_and(|low| low < throughput.value),
        "one block has no spread, and the model has an error"
    );
}

#[test]
fn more_cores_and_a_deeper_disk_help() {
    let response_s = |machine: &Machine| {
        predict(&mix(Slowdown::None, pair()), machine).unwrap().classes[0].response_s.unwrap().value
    };
    let one = response_s(&ONE_CORE);
    let two = response_s(&machine(2));
    let disk = Disk::Curve { rates: vec![1.0, 1.8, 2.4] };
    let deep = response_s(&Machine { disk, ..machine(2) });
    assert!(deep < two && two < one, "{deep} {two} {one}");
    let single = Disk::Curve { rates: vec![1.0] };
    assert_near(response_s(&Machine { disk: single, ..machine(2) }), two);
}

#[test]
fn a_shared_rate_conserves_busy_seconds_and_adds_spinning() {
    let with = |spins: f64| {
        let counted = |block: Block, instructions: f64, spins: f64| Block {
            instructions: Ok(instructions * block.requests as f64),
            spin_instructions: Ok(spins * block.requests as f64),
            ..block
        };
        let oltp = member("oltp", 8, 0.1, vec![counted(block(1_000, 0.01, 0.0), 3e7, 0.0)]);
        let olap = member("olap", 2, 0.0, vec![counted(block(100, 0.5, 0.0), 5e8, spins)]);
        predict(&mix(Slowdown::SharedRate, vec![oltp, olap]), &ONE_CORE).unwrap()
    };
    let found = with(0.0);
    let busy = |found: &Prediction| {
        let [oltp, olap] = [0, 1].map(|class| (found.classes[class].throughput.value, found.classes[class].cpu_factor));
        (oltp.0 * 0.01 + olap.0 * 0.5, oltp.0 * 0.01 * oltp.1 + olap.0 * 0.5 * olap.1)
    };
    let (alone, together) = busy(&found);
    assert_near(alone, together);
    assert!(found.classes[0].cpu_factor > 1.0 && found.classes[1].cpu_factor < 1.0, "rates meet: {found:?}");
    let spinning = with(1e7);
    assert!(spinning.classes[0].cpu_factor > 1.1 * found.classes[0].cpu_factor, "{spinning:?}");
}

#[test]
fn calibrated_factors_grow_with_what_others_use() {
    let points = |factor| {
        vec![Calibration { others: 0.4, factor: 1.0 + factor / 2.0 }, Calibration { others: 0.8, factor: 1.0 + factor }]
    };
    let found = predict(&mix(Slowdown::Calibrated(vec![points(0.8), points(0.0)]), pair()), &ONE_CORE).unwrap();
    // The line has slope 1; the share of the others is that of olap.
    let olap = found.classes[1].throughput.value * 0.5;
    assert_near(found.classes[0].cpu_factor, 1.0 + olap);
    assert_near(found.classes[1].cpu_factor, 1.0);
    assert!(found.cautions.contains(&Caution::Calibrated));
    assert!(!found.cautions.contains(&Caution::BeyondCalibration { class: "oltp".to_owned() }));
    let narrow = vec![Calibration { others: 0.1, factor: 1.1 }];
    let found = predict(&mix(Slowdown::Calibrated(vec![narrow, vec![]]), pair()), &ONE_CORE).unwrap();
    assert!(found.cautions.contains(&Caution::BeyondCalibration { class: "oltp".to_owned() }));
}

#[test]
fn what_the_model_cannot_know_is_refused_with_the_reason() {
    let refuse = |change: &dyn Fn(&mut Mix)| {
        let mut mix = mix(Slowdown::None, pair());
        change(&mut mix);
        predict(&mix, &ONE_CORE).unwrap_err().to_string()
    };
    fn each(mix: &mut Mix, change: impl Fn(&mut Block)) {
        mix.members[0].alone.blocks.iter_mut().flatten().for_each(change);
    }
    let missing = || Err("no permission".to_owned());
    assert_eq!(
        refuse(&|mix| each(mix, |block| block.cpu_s = missing())),
        "CPU seconds of `oltp` alone are missing: no permission"
    );
    assert_eq!(
        refuse(&|mix| mix.slowdown = Slowdown::SharedRate),
        "instructions of `oltp` alone are missing: no counters"
    );
    assert_eq!(
        refuse(&|mix| {
            mix.tables_shared = true;
            each(mix, |block| block.lock_s = Ok(0.4 * block.response_s));
        }),
        "`oltp` waits for locks for 40 % of its response time alone, and tables are shared: demands do not say how long locks \
         will be held"
    );
    assert!(
        refuse(&|mix| {
            mix.tables_shared = true;
            each(mix, |block| block.lock_s = missing());
        })
        .starts_with("seconds waiting for locks of `oltp`")
    );
    assert_eq!(
        refuse(&|mix| each(mix, |block| block.requests = 2)),
        "`oltp` alone answered 6 requests in valid runs; at least 20 are needed"
    );
    assert!(matches!(
        predict(&mix(Slowdown::Calibrated(vec![vec![]]), pair()), &ONE_CORE),
        Err(Refused::Slowdown { found: 1, expect: 2 })
    ));
}

#[test]
fn what_weakens_a_prediction_is_said() {
    let mut mix = mix(Slowdown::None, pair());
    mix.members[1].population = 5;
    for block in mix.members[0].alone.blocks.iter_mut().flatten() {
        block.lock_s = Ok(0.2 * block.response_s);
        block.log_s = Err("not asked".to_owned());
        block.cpu_s = Ok(2.0 * block.response_s);
    }
    let cautions = predict(&mix, &ONE_CORE).unwrap().cautions;
    let class = || "oltp".to_owned();
    let population = Caution::Population { class: "olap".to_owned(), measured: 2, predicted: 5 };
    assert!(cautions.contains(&population) && cautions.contains(&Caution::LogUnknown { class: class() }));
    assert!(cautions.contains(&Caution::Parallel { class: class() }), "{cautions:?}");
    assert!(matches!(&cautions[0], Caution::Locks { share: Some(share), .. } if (share - 0.2).abs() < 1e-9));
    // Upkeep and clients make up a few percent.
    for block in mix.members[0].alone.blocks.iter_mut().flatten() {
        block.cpu_s = Ok(1.08 * block.response_s);
    }
    let cautions = predict(&mix, &ONE_CORE).unwrap().cautions;
    assert!(!cautions.contains(&Caution::Parallel { class: class() }), "{cautions:?}");
}

/// Experiments with known truth: blocks drift, and predictions carry the noise of their inputs. With a single class there is no error
/// of sharing beside it.
#[test]
fn intervals_of_predictions_cover_the_truth() {
    let members = |mut noise: Box<dyn FnMut() -> f64>| {
        let blocks = (0..5).map(|_| block(1_000, 0.1 * noise(), 0.02 * noise())).collect();
        vec![member("oltp", 8, 0.1, blocks)]
    };
    let machine = machine(2);
    let response_s = |members| predict(&mix(Slowdown::None, members), &machine).unwrap().classes[0].response_s.unwrap();
    let truth = response_s(members(Box::new(|| 1.0))).value;
    let covered = (0..300).filter(|seed| {
        let mut random = Pcg64::seed_from_u64(*seed);
        response_s(members(Box::new(move || (0.08 * normal(&mut random)).exp()))).contains(truth)
    });
    let covered = covered.count();
    assert!((270..=297).contains(&covered), "{covered} of 300");
}

/// Where the bound of the thesis (formula 4.5) is far too low.
#[test]
fn between_light_load_and_saturation_a_mix_is_as_simulated() {
    let members = vec![
        member("loc", 4, 1.0, vec![block(1_000, 0.05, 0.05)]),
        member("fed", 2, 0.0, vec![block(1_000, 0.35, 0.35)]),
    ];
    let found = predict(&mix(Slowdown::None, members), &ONE_CORE).unwrap();
    let simulated = des::simulate(&found.network, &des::Settings::plain(&found.network, 1)).unwrap();
    let truth = simulated[0].response_s.unwrap();
    assert!(truth.contains(found.classes[0].response_s.unwrap().value), "{truth:?}");
}

/// Against a simulation of the truth, in which a request computes, and travels between its statements while others compute.
#[test]
fn round_trips_take_no_part_of_the_cores() {
    const ROUND_TRIP_S: f64 = 0.01;
    let oltp = |round_trip_s: f64| {
        let computes = block(1_000, 0.002, 0.0);
        let response_s = computes.response_s + 1_000.0 * ROUND_TRIP_S;
        member("oltp", 6, 0.0, vec![Block { response_s, round_trip_s: 1_000.0 * round_trip_s, ..computes }])
    };
    let members = |round_trip_s| vec![oltp(round_trip_s), member("olap", 2, 0.0, vec![block(100, 0.05, 0.0)])];
    let found = predict(&mix(Slowdown::None, members(ROUND_TRIP_S)), &machine(2)).unwrap();
    let simulated = des::simulate(&found.network, &found.simulation(1)).unwrap();

    let stations = vec![station("cpu", Service::Processors { servers: 2 }), station("wire", Service::Delay)];
    let classes = vec![class(6, 0.0, &[0.002, ROUND_TRIP_S]), class(2, 0.0, &[0.05, 0.0])];
    let network = Network::new(stations, classes).unwrap();
    let plain = des::Settings::plain(&network, 2);
    let settings = des::Settings { is_constant: vec![false, true], requests: 40_000, ..plain };
    let truth = des::simulate(&network, &settings).unwrap();
    for (at, truth) in truth.iter().enumerate() {
        let (found, measured) = (found.classes[at].response_s.unwrap().value, truth.response_s.unwrap().value);
        assert!((found / measured - 1.0).abs() < 0.03, "{found} is not {measured}");
    }
    let [p95, true_p95] = [&simulated, &truth].map(|classes| classes[0].percentiles_s[1].unwrap().value);
    assert!((p95 / true_p95 - 1.0).abs() < 0.05, "{p95} is not {true_p95}");
    let unaware =
        predict(&mix(Slowdown::None, members(0.0)), &machine(2)).unwrap().classes[0].response_s.unwrap().value;
    assert!(unaware < 0.6 * truth[0].response_s.unwrap().value, "{unaware}");
}

/// One core that gives every process a slice before the next one runs: mean responses of `shop` clients, beside
/// `reports` that always compute, 50 ms each. The `shop` clients think for 0.1 s on average, and their requests are
/// four statements of 0.2 ms that each wait for a turn.
fn sliced(shop: usize, reports: usize, seed: u64) -> Vec<f64> {
    const SLICE_S: f64 = 0.004;
    const NEEDS: [(u32, f64); 2] = [(4, 0.0002), (1, 0.05)];
    let mut random = Pcg64::seed_from_u64(seed);
    let mut think = move || -0.1 * (1.0 - random.random::<f64>()).ln();
    let mut waking: Vec<(f64, usize)> = (0..shop).map(|client| (think(), client)).collect();
    let mut queue: VecDeque<usize> = (shop..shop + reports).collect();
    let class = |client: usize| usize::from(client >= shop);
    let mut left: Vec<(u32, f64)> = (0..shop + reports).map(|client| NEEDS[class(client)]).collect();
    let mut began_s = vec![0.0; shop + reports];
    let (mut now_s, mut sums) = (0.0, [(0.0, 0.0); 2]);
    while sums.iter().any(|(_, count)| *count < 3_000.0) {
        let Some(client) = queue.pop_front() else {
            now_s = waking.iter().map(|(at, _)| *at).fold(f64::INFINITY, f64::min);
            wake(&mut waking, now_s, &mut queue, &mut began_s);
            continue;
        };
        let ran_s = left[client].1.min(SLICE_S);
        now_s += ran_s;
        left[client].1 -= ran_s;
        wake(&mut waking, now_s, &mut queue, &mut began_s);
        if left[client].1 > 1e-12 {
            queue.push_back(client);
        } else if left[client].0 > 1 {
            left[client] = (left[client].0 - 1, NEEDS[class(client)].1);
            queue.push_back(client);
        } else {
            let sum = &mut sums[class(client)];
            *sum = (sum.0 + now_s - began_s[client], sum.1 + 1.0);
            left[client] = NEEDS[class(client)];
            match class(client) {
                0 => waking.push((now_s + think(), client)),
                _ => {
                    began_s[client] = now_s;
                    queue.push_back(client);
                }
            }
        }
    }
    sums.iter().map(|(seconds, count)| seconds / count).collect()
}

/// Clients that have finished thinking send requests.
fn wake(waking: &mut Vec<(f64, usize)>, now_s: f64, queue: &mut VecDeque<usize>, began_s: &mut [f64]) {
    waking.sort_by(|a, b| a.0.total_cmp(&b.0));
    let due = waking.partition_point(|(at, _)| *at <= now_s);
    for (at, client) in waking.drain(..due) {
        began_s[client] = at;
        queue.push_back(client);
    }
}

/// Two mixes teach how long requests wait for slices; others are then predicted where even sharing is far off.
#[test]
fn waits_for_slices_are_learned_from_two_mixes() {
    let members = |reports: u32| {
        vec![
            member("shop", 10, 0.1, vec![block(10_000, 0.0008, 0.0); 3]),
            Member { population: reports, ..member("reports", 1, 0.0, vec![block(1_000, 0.05, 0.0); 3]) },
        ]
    };
    let lesson = |reports: u32| {
        let blocks: Vec<Vec<f64>> = (0..3).map(|seed| sliced(10, reports as usize, seed)).collect();
        let of = |class: usize| blocks.iter().map(|block| Some((block[class] * 1_000.0, 1_000.0))).collect();
        Lesson { members: members(reports), slowdown: Slowdown::None, responses: vec![of(0), of(1)] }
    };
    let turns = Turns::learn(&[lesson(3), lesson(16)], &ONE_CORE, None);
    assert!(turns.of("shop", None).further_s > 0.004, "{turns:?}");
    assert_eq!(turns.of("reports", None), Turn::default());
    for reports in [2, 8, 30] {
        let truth = sliced(10, reports as usize, 99)[0];
        let predict = |turns: Turns| {
            let mix = Mix { turns, ..mix(Slowdown::None, members(reports)) };
            predict(&mix, &ONE_CORE).unwrap().classes[0].response_s.unwrap()
        };
        let (learned, even) = (predict(turns.clone()), predict(Turns::default()));
        assert!((learned.value / truth - 1.0).abs() < 0.1, "{reports}: {learned:?}, in truth {truth}");
        assert!(even.value < 0.6 * truth, "{reports}: {even:?}, in truth {truth}");
        assert!(learned.contains(truth), "{reports}: {learned:?}, in truth {truth}");
    }
}

#[test]
fn a_clients_own_work_is_no_part_of_the_response() {
    let work = |between_s: f64| {
        let own = Block { between_s: Ok(between_s * 1_000.0), ..block(1_000, 0.01, 0.0) };
        let own = Block { response_s: 1_000.0 * (0.01 - between_s), ..own };
        let found = predict(&mix(Slowdown::None, vec![member("oltp", 4, 0.0, vec![own; 3])]), &ONE_CORE).unwrap();
        (found.classes[0].throughput.value, found.classes[0].response_s.unwrap().value)
    };
    let ((whole_x, whole_s), (x, s)) = (work(0.0), work(0.004));
    assert_near(whole_x, x);
    assert_near(whole_s * 0.6, s);
}

/// Against the simulation, in which the only thread is a lock that queries hold.
#[test]
fn queries_wait_for_the_only_thread_on_idle_cores() {
    for (cores, clients) in [(4, 2), (4, 6), (1, 3), (2, 3)] {
        let members = |needs_thread| {
            let olap = member("olap", clients, 0.0, vec![block(1_000, 0.1, 0.0)]);
            vec![member("oltp", 3, 0.02, vec![block(1_000, 0.01, 0.0)]), Member { needs_thread, ..olap }]
        };
        let machine = Machine { query_threads: Some(1), ..machine(cores) };
        let found = predict(&mix(Slowdown::None, members(true)), &machine).unwrap();
        let plain = predict(&mix(Slowdown::None, members(false)), &machine).unwrap();
        let mut settings = des::Settings::plain(&plain.network, 3);
        settings.behaviours[1].holds_lock = true;
        let truth = des::simulate(&plain.network, &settings).unwrap();
        for class in [0, 1] {
            let (found, truth) = (found.classes[class].response_s.unwrap(), truth[class].response_s.unwrap());
            let error = found.value / truth.value - 1.0;
            assert!(
                error.abs() < 0.12,
                "{cores} cores, {clients} clients, class {class}: {found:?}, in truth {truth:?}"
            );
        }
        if cores == 4 {
            assert_eq!(found.bottleneck, Some("threads"));
        }
    }
}
