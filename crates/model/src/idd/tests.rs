//! The thesis' procedure against numbers worked by hand, ours against its parts and experiments with known truth.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::*;
use crate::demand::Block;
use crate::demand::tests::block;
use crate::des;
use crate::stack::Locality;
use crate::statistics::student::normal;

const LOC: thesis::Isolated = thesis::Isolated {
    population: 50,
    cpu_utilisation: 0.5,
    disk_utilisation: 0.1,
    throughput: 10.0,
    instructions_per_s: 2e9,
    instructions: 1e8,
    spin_instructions: 0.0,
};

const FED: thesis::Isolated = thesis::Isolated {
    population: 50,
    cpu_utilisation: 1.0,
    disk_utilisation: 0.5,
    throughput: 2.0,
    instructions_per_s: 1e9,
    instructions: 5e8,
    spin_instructions: 5e7,
};

fn assert_near(found: f64, expect: f64) {
    assert!((found - expect).abs() <= 1e-6 * expect.abs(), "{found} is not {expect}");
}

#[test]
fn the_thesis_is_followed_to_the_letter() {
    let found = thesis::predict(&LOC, 5.0, &FED).unwrap();
    assert_near(found.instructions_per_s, 1.5e9);
    // D_cpu of loc is 0.05 s, of fed 0.5 s, of which a tenth is spinning.
    assert_near(found.cpu_loc_s, 0.05 * 2.0 / 1.5 + 0.05 * 1.0 / 1.5);
    assert_near(found.cpu_fed_s, 0.5 * 1.0 / 1.5);
    let cpu_s = found.loc_share * found.cpu_loc_s + (1.0 - found.loc_share) * found.cpu_fed_s;
    assert_near(found.response_s, 100.0 * cpu_s - found.loc_share * 5.0);
    assert_near(found.loc_s / found.fed_s, found.model_loc_s / found.model_fed_s);
    assert_near(found.response_s, found.loc_share * found.loc_s + (1.0 - found.loc_share) * found.fed_s);
}

/// Without stalls and spinning the mixed demands are those alone; with few clients the sum of demands is the bound.
#[test]
fn equal_rates_leave_demands_as_they_are() {
    let loc = thesis::Isolated { population: 1, ..LOC };
    let fed = thesis::Isolated { population: 1, instructions_per_s: 2e9, spin_instructions: 0.0, ..FED };
    let found = thesis::predict(&loc, 1e6, &fed).unwrap();
    assert_near(found.cpu_loc_s, 0.05);
    assert_near(found.cpu_fed_s, 0.5);
    assert!((found.response_s / 0.75 - 1.0).abs() < 1e-3, "fed alone: {found:?}");
    let nothing = thesis::Isolated { throughput: 0.0, ..LOC };
    assert_eq!(thesis::predict(&LOC, 5.0, &nothing), Err(thesis::Failed::Nothing("fed")));
}

fn member(name: &str, population: u32, think_s: f64, blocks: Vec<Block>) -> Member {
    let blocks = blocks.into_iter().map(Some).collect();
    Member { alone: Alone { name: name.to_owned(), population, blocks }, population, think_s }
}

fn mix(slowdown: Slowdown, members: Vec<Member>) -> Mix {
    Mix { members, tables_shared: false, slowdown }
}

fn pair() -> Vec<Member> {
    vec![
        member("oltp", 8, 0.1, vec![block(1_000, 0.01, 0.002); 3]),
        member("olap", 2, 0.0, vec![block(100, 0.5, 0.1); 3]),
    ]
}

const ONE_CORE: Machine = Machine { cores: 1, disk: Disk::Busy };

#[test]
fn on_one_core_without_slowdown_it_is_the_model_of_the_thesis() {
    let members = vec![
        member("loc", 50, 5.0, vec![block(1_000, 0.05, 0.01)]),
        member("fed", 50, 0.0, vec![block(200, 0.5, 0.25)]),
    ];
    let fed = thesis::Isolated { instructions_per_s: 2e9, spin_instructions: 0.0, ..FED };
    let thesis = thesis::predict(&LOC, 5.0, &fed).unwrap();
    let found = predict(&mix(Slowdown::None, members), &ONE_CORE).unwrap();
    assert_near(found.classes[0].response_s.unwrap().value, thesis.model_loc_s);
    assert_near(found.classes[1].response_s.unwrap().value, thesis.model_fed_s);
    assert_eq!((found.bottleneck, found.method, &found.cautions[..]), (Some("cpu"), Method::Exact, &[][..]));
    assert_eq!(found.classes[0].throughput.low, None, "one block has no spread");
}

#[test]
fn more_cores_and_a_deeper_disk_help() {
    let response_s = |machine: &Machine| {
        predict(&mix(Slowdown::None, pair()), machine).unwrap().classes[0].response_s.unwrap().value
    };
    let one = response_s(&ONE_CORE);
    let two = response_s(&Machine { cores: 2, disk: Disk::Busy });
    // The blocks have an operation for each millisecond of a busy disk.
    let disk = Disk::Probed { operation_s: 0.001, rates: vec![1.0, 1.8, 2.4] };
    let deep = response_s(&Machine { cores: 2, disk });
    assert!(deep < two && two < one, "{deep} {two} {one}");
    let single = Disk::Probed { operation_s: 0.001, rates: vec![1.0] };
    assert_near(response_s(&Machine { cores: 2, disk: single }), two);
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
    // The line has slope 1; others are what olap uses.
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
fn a_shared_cache_slows_what_it_served_well() {
    let locality = |hit_rate| Locality::with_hit_rate(hit_rate, 1e5, 1e3).unwrap();
    let uses = vec![
        CacheUse { locality: locality(0.95), accesses: 1e5, miss_s: 1e-7 },
        CacheUse { locality: locality(0.2), accesses: 1e7, miss_s: 1e-7 },
    ];
    let cache = |turn_s| Slowdown::Cache { lines: 1e5, turn_s, uses: uses.clone() };
    let factor = |turn_s| predict(&mix(cache(turn_s), pair()), &ONE_CORE).unwrap().classes[0].cpu_factor;
    let (fine, coarse) = (factor(1e-6), factor(10.0));
    assert!(fine > 1.05 && coarse < fine && coarse >= 1.0, "{fine} {coarse}");
    let mut alone = pair();
    alone[1].population = 0;
    let found = predict(&mix(cache(1e-6), alone), &ONE_CORE).unwrap();
    assert_near(found.classes[0].cpu_factor, 1.0);
    assert_eq!(found.classes[1].response_s, None);
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

/// Experiments with known truth: blocks drift, classes share the drift, and predictions carry the noise of their inputs.
#[test]
fn intervals_of_predictions_cover_the_truth() {
    let members = |mut noise: Box<dyn FnMut() -> f64>| {
        let factors: Vec<f64> = (0..5).map(|_| noise()).collect();
        let blocks = |requests: u64, cpu_s: f64, disk_s: f64, own: &mut dyn FnMut() -> f64| {
            factors.iter().map(|shared| block(requests, cpu_s * shared * own(), disk_s * own())).collect::<Vec<_>>()
        };
        vec![
            member("oltp", 8, 0.1, blocks(1_000, 0.01, 0.002, &mut noise)),
            member("olap", 2, 0.0, blocks(100, 0.5, 0.1, &mut noise)),
        ]
    };
    let machine = Machine { cores: 2, disk: Disk::Busy };
    let response_s = |members| predict(&mix(Slowdown::None, members), &machine).unwrap().classes[0].response_s.unwrap();
    let truth = response_s(members(Box::new(|| 1.0))).value;
    let covered = (0..300).filter(|seed| {
        let mut random = Pcg64::seed_from_u64(*seed);
        response_s(members(Box::new(move || (0.08 * normal(&mut random)).exp()))).contains(truth)
    });
    let covered = covered.count();
    assert!((270..=297).contains(&covered), "{covered} of 300");
}

/// A mix between light load and saturation, against its simulation: the thesis' bound is far too low there, the network is not.
#[test]
fn between_light_load_and_saturation_the_bound_is_too_low() {
    let members = vec![
        member("loc", 4, 1.0, vec![block(1_000, 0.05, 0.05)]),
        member("fed", 2, 0.0, vec![block(1_000, 0.35, 0.35)]),
    ];
    let found = predict(&mix(Slowdown::None, members), &ONE_CORE).unwrap();
    let simulated = des::simulate(&found.network, &des::Settings::plain(&found.network, 1)).unwrap();
    let truth = simulated[0].response_s.unwrap();
    assert!(truth.contains(found.classes[0].response_s.unwrap().value), "{truth:?}");
    let alone = |population, cpu_s: f64, disk_s: f64| thesis::Isolated {
        population,
        cpu_utilisation: cpu_s,
        disk_utilisation: disk_s,
        throughput: 1.0,
        instructions_per_s: 1e9,
        instructions: 1e9,
        spin_instructions: 0.0,
    };
    let bound = thesis::predict(&alone(4, 0.05, 0.05), 1.0, &alone(2, 0.35, 0.35)).unwrap();
    assert_near(bound.model_loc_s, found.classes[0].response_s.unwrap().value);
    assert!(bound.loc_s < 0.8 * truth.value, "{bound:?}");
}
