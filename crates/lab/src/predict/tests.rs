//! Predictions for machines whose truth is known: each is a queueing network, whose solutions replace measurements.

mod models;
mod open;
mod thesis;
mod told;

use plimsoll_machine::disk_speed::{DepthPoint, DiskSpeed};
use plimsoll_machine::memory_speed::Figure;
use plimsoll_model::mva;
use plimsoll_model::network::{Class, Network, Service, Station};

use super::*;
use crate::analysis::made_up::{Noise, measure, plan, results};
use crate::plan::PlannedWorkload;
use crate::predict::window::DiskModel;
use crate::results::{Counters, Device, LockWait, Results, TimeShare, WorkloadResult};

/// Short transactions and long ones, without pauses, and the demands of each at the cores, seconds.
pub(crate) const EXPERIMENT: &str = r#"
name = "mix"
arms = ["alone:short", "alone:long", "together"]
[[workload]]
name = "short"
kind = "tpcw"
clients = 40
[[workload]]
name = "long"
kind = "tpcc"
clients = 30
[sweep]
"long.clients" = [10, 30, 60]
[run]
repeats = 4
"#;
const DEMANDS_S: [(&str, f64); 2] = [("short", 0.002), ("long", 0.010)];

/// The throughputs of these workloads together, if each needs `slowed` times its CPU seconds beside others; of one with
/// a rate, one over its mean response.
fn truth(members: &[&PlannedWorkload], cores: u32, slowed: f64) -> Vec<f64> {
    let demand = |name: &str| DEMANDS_S.iter().find(|(of, _)| *of == name).expect("one of the two").1;
    let factor = if members.len() > 1 { slowed } else { 1.0 };
    let class = |workload: &&PlannedWorkload| Class {
        name: workload.name.clone(),
        arrivals_per_s: workload.clients.rate,
        population: if workload.clients.rate.is_some() { 0 } else { workload.clients.clients as u32 },
        think_s: 0.0,
        demands_s: vec![demand(&workload.name) * factor, round_trip_s(workload)],
    };
    let station = |name: &str, service| Station { name: name.to_owned(), service };
    let stations = vec![station("cpu", Service::Processors { servers: cores }), station("wire", Service::Delay)];
    let network = Network::new(stations, members.iter().map(class).collect()).expect("sound");
    let solved = mva::solve(&network).expect("small").classes;
    let figure = |(class, workload): (&mva::ClassFigures, &&PlannedWorkload)| match workload.clients.rate {
        Some(_) => 1.0 / class.response_s.expect("it has requests"),
        None => class.throughput,
    };
    solved.iter().zip(members).map(figure).collect()
}

/// Seconds that a request of a workload travels, as if it had one round trip.
fn round_trip_s(workload: &PlannedWorkload) -> f64 {
    workload.clients.round_trip.mean().as_secs_f64()
}

/// A run on a machine where each workload slows the other's requests down by `slowed`.
pub(crate) fn run(text: &str, slowed: f64, noise: f64, change: impl Fn(&str, &mut WorkloadResult)) -> Results {
    let plan = plan(text);
    let cores = crate::report::fixture::study().machine.cores_usable as u32;
    let mut noise = Noise::new(3, noise);
    let arms: Vec<Vec<usize>> = plan.arms.iter().map(|arm| arm.members.clone()).collect();
    let mut records = measure(&plan, |id, setting, name| {
        let members: Vec<&PlannedWorkload> = arms[id.arm].iter().map(|member| &setting.workloads[*member]).collect();
        let at = members.iter().position(|member| member.name == name).expect("in the arm");
        truth(&members, cores, slowed)[at] * noise.factor()
    });
    for record in &mut records {
        let factor = if record.point.workloads.len() > 1 { slowed } else { 1.0 };
        let mut busy = 0.0;
        let arm = record.point.arm.clone();
        for one in &mut record.point.workloads {
            let demand = DEMANDS_S.iter().find(|(of, _)| *of == one.name).expect("one of the two").1 * factor;
            busy += one.all.throughput_per_s * demand;
            let response_s = one.all.latency_us.expect("it answers").mean * 1e-6;
            let workload = plan.base.workloads.iter().find(|workload| workload.name == one.name);
            let round_trip_s = round_trip_s(workload.expect("of the plan"));
            one.all.time_share = Some(TimeShare {
                cpu_run: Some(demand / response_s),
                cpu_wait: Some(1.0 - (demand + round_trip_s) / response_s),
                io: Some(0.0),
                io_latch: None,
                lock: Some(0.0),
                client: None,
                other: round_trip_s / response_s,
            });
            one.lock_wait = Some(LockWait::default());
            one.round_trip_share = Some(round_trip_s / response_s);
            change(&arm, one);
        }
        record.point.device.cpu_busy = Some((busy / f64::from(cores)).min(1.0));
        record.point.device.io_busy = Some(0.0);
    }
    results(&plan, &records)
}

fn request(vary: Option<&str>, model: Model) -> Request {
    Request { vary: vary.map(|text| text.parse().expect(text)), workloads: Vec::new(), model }
}

pub(crate) fn alone_only(text: &str) -> String {
    text.replace(r#", "together"]"#, "]")
}

#[test]
fn settings_are_held_out() {
    let whole = run(EXPERIMENT, 1.2, 0.0, |_, _| {});
    let hold = |text: &str| hold_out(&whole, &text.parse().expect(text));
    let (taught, judges) = hold("long.clients=30").expect("swept");
    let predicted = predict(&taught, Some(&judges), &request(None, Model::Idd)).expect("all is there");
    assert_eq!(predicted.mixes.len(), 1, "the other two teach");
    let mix = &predicted.mixes[0];
    assert!(!mix.is_calibration && mix.workloads[1].clients == 30, "{mix:?}");
    assert!(mix.workloads.iter().all(|one| (one.cpu_factor - 1.2).abs() < 0.05), "learned from the others: {mix:?}");
    let idd = predicted.accuracy.iter().find(|one| one.model == "taught" && one.of == ALL).expect("judged");
    assert!(idd.count == 2 && idd.is_calibrated && idd.mean_absolute < 0.05, "{idd:?}");
    for (text, part) in [
        ("long.clients=20", "20 was not measured; the run has swept `10`, `30`"),
        ("long.clients=10,30,60", "none is left"),
        ("long.client=10", "did you mean `long.clients`"),
    ] {
        let told = hold(text).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(told.contains(part), "{text}: {told}");
    }
}

#[test]
fn a_mix_is_predicted_from_workloads_alone() {
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {});
    let together = run(EXPERIMENT, 1.0, 0.0, |_, _| {});
    let predicted = predict(&alone, Some(&together), &request(None, Model::Mva)).expect("all is there");
    assert_eq!(predicted.mixes.len(), 3);
    for mix in &predicted.mixes {
        assert_eq!((mix.bottleneck, mix.is_calibration, mix.is_extrapolated), (Some("cpu"), false, false), "{mix:?}");
        for one in &mix.workloads {
            let measured = one.measured.expect("it was").response_ms.expect("answered").value;
            let response = one.response_ms.expect("has clients").value;
            assert!((response / measured - 1.0).abs() < 0.02, "{one:?}");
        }
    }
    let of = |model: &str, of: &str| {
        let found = predicted.accuracy.iter().find(|one| one.model == model && one.of == of);
        found.unwrap_or_else(|| panic!("{model} of {of}: {:?}", predicted.accuracy))
    };
    let (mva, unchanged, bounds) = (of("mva", ALL), of("no change", ALL), of("asymptotic bounds", ALL));
    assert_eq!((mva.count, mva.is_calibrated, of("mva", "short").count, of("mva", MIX).count), (6, false, 3, 3));
    assert!(mva.mean_absolute < 0.02 && of("mva", MIX).mean_absolute < 0.02, "{mva:?}");
    assert!(unchanged.mean_absolute > 0.2 && unchanged.bias < 0.0, "alone is faster: {unchanged:?}");
    // Cores are saturated here: responses lie at the upper bound, and predictions that take the lower one are far too short.
    assert!(bounds.covered.is_some() && bounds.bias < 0.0 && bounds.largest > 0.5, "{bounds:?}");
    assert!(predicted.accuracy.iter().all(|one| one.model != "linear interference"), "no pair was measured before");
}

/// Nearly all of the response of `short` alone is a round trip, during which the others compute.
#[test]
fn round_trips_are_no_work() {
    let text = EXPERIMENT.replace("clients = 40", "clients = 40\nround_trip = \"const 50ms\"");
    let (alone, together) = (run(&alone_only(&text), 1.0, 0.0, |_, _| {}), run(&text, 1.0, 0.0, |_, _| {}));
    let predicted = predict(&alone, Some(&together), &request(None, Model::Mva)).expect("all is there");
    assert_eq!(predicted.mixes.len(), 3);
    for one in predicted.mixes.iter().flat_map(|mix| &mix.workloads) {
        let measured = one.measured.expect("it was").response_ms.expect("answered").value;
        let response = one.response_ms.expect("has clients").value;
        assert!((response / measured - 1.0).abs() < 0.02, "{one:?}");
    }
}

/// If the response grows by the same time for each client of the other workload, the linear model is exact.
#[test]
fn what_each_client_adds_is_a_baseline_where_pairs_were_measured() {
    let calibrated = run(&EXPERIMENT.replace("[10, 30, 60]", "[10, 60]"), 1.0, 0.0, |_, _| {});
    let held_out = run(&EXPERIMENT.replace("[10, 30, 60]", "[30]"), 1.0, 0.0, |_, _| {});
    let predicted = predict(&calibrated, Some(&held_out), &request(None, Model::Idd)).expect("all is there");
    let linear = predicted.accuracy.iter().find(|one| one.model == "linear interference" && one.of == "short");
    let linear = linear.expect("two pairs were measured");
    assert!(linear.is_calibrated && linear.count == 1 && linear.mean_absolute < 0.05, "{linear:?}");
}

#[test]
fn mixes_that_were_measured_teach_how_requests_slow_each_other_down() {
    // Each request needs 1.4 times its CPU seconds beside others, at any load.
    let one_mix = EXPERIMENT.replace("[10, 30, 60]", "[30]");
    let calibrated = run(&one_mix, 1.4, 0.0, |_, _| {});
    let held_out = run(&EXPERIMENT.replace("[10, 30, 60]", "[20, 40]"), 1.4, 0.0, |_, _| {});
    let predicted = predict(&calibrated, Some(&held_out), &request(None, Model::Idd)).expect("all is there");
    let of = |model: &str| predicted.accuracy.iter().find(|one| one.model == model).expect(model);
    assert!(of("taught").mean_absolute < 0.08, "{:?}", predicted.accuracy);
    assert!(of("mva").mean_absolute > 2.0 * of("taught").mean_absolute, "{:?}", predicted.accuracy);
    // The model is not judged by its own mixes, because it was adjusted by them.
    let own = predict(&calibrated, None, &request(None, Model::Idd)).expect("all is there");
    assert!(own.mixes[0].is_calibration && own.accuracy.iter().all(|one| !one.is_calibrated), "{own:?}");
    assert!(own.mixes[0].cautions.iter().any(|caution| caution.starts_with("calibrated: adjusted by mixes")));
}

#[test]
fn intervals_come_from_blocks_and_cover_what_is_measured_later() {
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.02, |_, _| {});
    let together = run(EXPERIMENT, 1.0, 0.0, |_, _| {});
    let predicted = predict(&alone, Some(&together), &request(None, Model::Mva)).expect("all is there");
    let has_interval = |one: &PredictedWorkload| one.response_ms.is_some_and(|response| response.low.is_some());
    assert!(predicted.mixes.iter().flat_map(|mix| &mix.workloads).all(has_interval));
    assert!(predicted.accuracy[0].covered.expect("intervals") > 0.5, "{:?}", predicted.accuracy);
}

#[test]
fn what_was_not_measured_is_marked() {
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {});
    let predicted = predict(&alone, None, &request(Some("long.clients=0,30,400"), Model::Des)).expect("known key");
    let extrapolated: Vec<bool> = predicted.mixes.iter().map(|mix| mix.is_extrapolated).collect();
    assert_eq!(extrapolated, [false, false, true]);
    assert!(predicted.mixes[0].workloads[1].response_ms.is_none(), "nobody waits for an answer");
    let short = &predicted.mixes[2].workloads[0];
    let percentiles = short.percentiles_ms.as_ref().expect("simulated");
    let (p50, p95) = (percentiles["p50"].expect("enough"), percentiles["p95"].expect("enough"));
    assert!(p50.value < short.response_ms.expect("has clients").value && p95.value > p50.value, "{percentiles:?}");
    assert!(predicted.mixes[2].cautions.iter().any(|caution| caution.contains("demands are as alone")));
}

/// Clients alone were measured at one number, mixes at three, and the model uses more of the cores in a mix than it did when it was
/// measured. A mix that was measured itself is nevertheless not beyond what was measured.
#[test]
fn a_mix_that_was_measured_is_not_beyond_what_was_measured() {
    let results = run(EXPERIMENT, 1.4, 0.0, |arm, one| {
        if arm.starts_with("alone:") {
            one.clients = one.clients.min(10);
        }
    });
    let predicted = predict(&results, None, &request(None, Model::Idd)).expect("all is there");
    assert_eq!(predicted.mixes.len(), 3);
    for mix in &predicted.mixes {
        assert!(!mix.is_extrapolated, "{mix:?}");
        assert!(!mix.cautions.iter().any(|caution| caution.contains("than in any mix")), "{mix:?}");
    }
    // The same mix asked for by its number of clients.
    let varied = predict(&results, None, &request(Some("long.clients=60,240"), Model::Idd)).expect("known key");
    let extrapolated: Vec<bool> = varied.mixes.iter().map(|mix| mix.is_extrapolated).collect();
    assert_eq!(extrapolated, [false, true]);
}

/// The thesis' basis for adjusting demands: a mix executes instructions at one rate, which slows the faster workload
/// down.
#[test]
fn counters_adjust_demands_where_no_mix_has_taught() {
    let count = |kernel: Option<f64>| {
        run(&alone_only(EXPERIMENT), 1.0, 0.0, move |_, one| {
            let per_s = if one.name == "short" { 2e9 } else { 1e9 };
            let demand = DEMANDS_S.iter().find(|(of, _)| *of == one.name).expect("one of the two").1;
            let instructions = per_s * demand * one.all.completed as f64;
            let part = |share: f64| (instructions * share) as u64;
            one.counters = Some(Counters {
                instructions: Some(part(1.0 - kernel.unwrap_or(0.0))),
                kernel_instructions: kernel.map(part),
                spin_instructions: Some(0),
                ..Counters::default()
            });
        })
    };
    let mix = |results: &Results| {
        let predicted = predict(results, None, &request(Some("long.clients=30"), Model::Idd)).expect("known key");
        let mix = predicted.mixes.into_iter().next().expect("one");
        (mix.workloads.iter().map(|one| one.cpu_factor).collect::<Vec<_>>(), mix.cautions.join("; "))
    };
    let (factors, cautions) = mix(&count(Some(0.25)));
    assert!(factors[0] > 1.05 && factors[1] < 0.95, "{factors:?}");
    assert!(cautions.contains("adjusted by instructions and spinning"), "{cautions}");
    // A part of the instructions would pass for the whole.
    let (factors, cautions) = mix(&count(None));
    assert_eq!(factors, [1.0, 1.0]);
    assert!(cautions.contains("demands are as alone"), "{cautions}");
}

/// If the target has CPU priorities and workloads have different ones, the simulation serves the higher one first.
#[test]
fn the_simulation_knows_cpu_priorities() {
    let target =
        "[target]\nurl = \"postgres:\"\noptions = { cpu_policy = \"cpu-prio\" }\n[[workload]]\nname = \"short\"";
    let equal = alone_only(EXPERIMENT).replace("clients = 40", "clients = 2");
    let ranked = equal.replace("[[workload]]\nname = \"short\"", &format!("{target}\npriority = \"high\""));
    let of = |text: &str, model: Model| {
        let predicted = predict(&run(text, 1.0, 0.0, |_, _| {}), None, &request(Some("long.clients=60"), model));
        predicted.expect("known key").mixes.remove(0)
    };
    let (high, equal) = (of(&ranked, Model::Des), of(&equal, Model::Des));
    let response = |mix: &PredictedMix, at: usize| mix.workloads[at].response_ms.expect("has clients").value;
    assert!(response(&high, 0) < 0.6 * response(&equal, 0), "{high:?}");
    assert!(response(&high, 1) > 1.03 * response(&equal, 1), "the other pays: {high:?}");
    assert!(high.cautions.iter().any(|caution| caution.contains("simulated as strict")), "{high:?}");
    let unranked = of(&ranked, Model::Idd);
    assert!(unranked.cautions.iter().any(|caution| caution.contains("only --model des")), "{unranked:?}");
    let shares = ranked.replace("priority = \"high\"", "priority = \"high:0.1\"");
    assert!(of(&shares, Model::Des).cautions.iter().any(|caution| caution.contains("several CPU priorities")));
}

#[test]
fn more_cores_are_faster_and_beyond_what_was_measured() {
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {});
    let predicted = predict(&alone, None, &request(Some("cores=8,64"), Model::Mva)).expect("known key");
    let response = |mix: usize| predicted.mixes[mix].workloads[0].response_ms.expect("has clients").value;
    assert!(response(1) < response(0), "{predicted:?}");
    assert!(predicted.mixes.iter().all(|mix| mix.is_extrapolated), "{predicted:?}");
}

#[test]
fn waiting_for_locks_is_not_predicted() {
    let locked = |_: &str, one: &mut WorkloadResult| {
        if one.name == "long" {
            let response_s = one.all.latency_us.expect("answers").mean * 1e-6 * one.all.completed as f64;
            one.lock_wait = Some(LockWait { waits: one.all.completed, wait_s: 0.4 * response_s });
        }
    };
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, locked);
    let predicted = predict(&alone, None, &request(Some("long.clients=30,200"), Model::Mva)).expect("known key");
    assert!(predicted.mixes[0].refused.is_none(), "as many clients as were measured: {:?}", predicted.mixes[0]);
    let why = predicted.mixes[1].refused.as_deref().expect("more would wait longer");
    assert!(why.contains("`long` waits for locks for 40 %"), "{why}");
}

#[test]
fn what_is_missing_is_named_with_what_would_measure_it() {
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {});
    let refused = |results: &Results, vary: &str| {
        let error = predict(results, None, &request(Some(vary), Model::Mva)).expect_err(vary);
        error.to_string()
    };
    assert!(refused(&alone, "lnog.clients=1..3").contains("did you mean `long.clients`?"));
    assert!(refused(&alone, "long.dop=1..3").contains("sweep it in an experiment"));
    assert!(refused(&alone, "cores=0").contains("nothing runs on 0 cores"));
    let half = run(&EXPERIMENT.replace(r#""alone:short", "#, ""), 1.0, 0.0, |_, _| {});
    let why = refused(&half, "long.clients=1..3");
    assert!(why.contains("`short` was not measured alone: add \"alone:short\""), "{why}");
    let mut invalid = alone.clone();
    invalid.points.iter_mut().for_each(|point| point.valid = false);
    assert!(refused(&invalid, "long.clients=1..3").contains("is invalid"));
    let others = Request { workloads: vec!["lnog".to_owned()], ..request(Some("cores=2"), Model::Mva) };
    let error = predict(&alone, None, &others).expect_err("unknown").to_string();
    assert!(error.contains("no workload `lnog` (did you mean `long`?); it has `short` and `long`"), "{error}");
    let one = Request { workloads: vec!["long".to_owned()], ..request(Some("cores=2"), Model::Mva) };
    assert_eq!(predict(&alone, None, &one).expect("known").mixes[0].workloads.len(), 1);
    let error = predict(&alone, None, &request(None, Model::Mva)).expect_err("no mix");
    assert!(error.to_string().contains("--vary long.clients="), "{error}");
    let few = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, one| one.all.completed = 2);
    let predicted = predict(&few, None, &request(Some("long.clients=30"), Model::Mva)).expect("known key");
    assert!(predicted.mixes[0].refused.as_deref().is_some_and(|why| why.contains("at least 20")), "{predicted:?}");
}

/// A swept setting is varied over its values that were measured alone: here two degrees with equal demands.
#[test]
fn a_swept_setting_is_varied_over_its_measured_values() {
    let swept = alone_only(EXPERIMENT).replace("[sweep]", "[sweep]\ndop = [1, 2]");
    let alone = run(&swept, 1.0, 0.0, |_, _| {});
    let request = |vary| request(Some(vary), Model::Mva);
    let predicted = predict(&alone, None, &request("dop=2,1")).expect("both were measured");
    let degrees: Vec<_> = predicted.mixes.iter().map(|mix| mix.setting["dop"].as_u64()).collect();
    assert_eq!(degrees, [Some(2), Some(1)]);
    assert!(predicted.mixes.iter().all(|mix| mix.refused.is_none() && mix.workloads.len() == 2), "{predicted:?}");
    let refused = predict(&alone, None, &request("dop=3")).expect_err("it was not").to_string();
    assert!(refused.contains("3 was not measured; the run has swept `1` and `2`"), "{refused}");
    assert!(predict(&alone, None, &request("dpo=1")).expect_err("a slip").to_string().contains("did you mean `dop`?"));
}

/// A disk that was busy half of the time with four operations at once, which it serves three times as fast as one at a
/// time, has done one and a half seconds of work per second.
#[test]
fn a_disk_that_serves_several_at_once_has_done_more_than_it_was_busy() {
    let point = |(depth, rate): (u32, f64)| DepthPoint { depth, reads_per_s: Figure::of("1/s", &[rate]).expect("one") };
    let disk = DiskSpeed {
        folder: "/data".into(),
        device: Some("vda".to_owned()),
        is_only: true,
        file_mib: 256,
        points: [(1, 1_000.0), (4, 3_000.0)].map(point).into(),
    };
    let device = Device {
        io_busy: Some(0.5),
        reads_per_s: Some(900.0),
        read_ms: Some(2.0),
        writes_per_s: Some(100.0),
        write_ms: Some(2.0),
        ..Device::default()
    };
    assert_eq!(DiskModel::Busy.seconds_per_s(&device), Some(0.5));
    let probed = DiskModel::Probed(&disk);
    assert!((probed.seconds_per_s(&device).expect("measured") - 1.5).abs() < 1e-9);
    let idle = Device { io_busy: Some(0.0), reads_per_s: Some(0.0), read_ms: None, ..device };
    assert_eq!(probed.seconds_per_s(&idle), Some(0.0));
    assert_eq!(probed.seconds_per_s(&Device { reads_per_s: None, ..device }), None, "not measured is not 0");
    // The kernel delays requests, so the disk is busy for less time than the used part of the limit.
    let limited =
        DiskModel::Limited(vec![(1_000.0, |device| device.reads_per_s), (1_000.0, |device| device.writes_per_s)]);
    assert_eq!(limited.seconds_per_s(&device), Some(0.9));
}

#[test]
fn a_key_and_its_values_are_read() {
    let check = |text: &str, key: &str, values: &[u32]| {
        assert_eq!(text.parse::<Vary>(), Ok(Vary { key: key.to_owned(), values: values.to_vec() }), "{text}");
    };
    check("olap.clients=1..3", "olap.clients", &[1, 2, 3]);
    check("cores = 2,4, 8", "cores", &[2, 4, 8]);
    check("olap.clients=0..50 by 25", "olap.clients", &[0, 25, 50]);
    for text in ["", "olap.clients", "=3", "olap.clients=", "olap.clients=few", "cores=-1", "cores=1..100000"] {
        assert!(text.parse::<Vary>().is_err(), "{text}");
    }
}

#[test]
fn the_guide_names_the_factor_from_which_on_nothing_is_predicted() {
    let guide = include_str!("../../../../docs/predict.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(guide.contains(&format!("A response that is not known within a factor of {},", idd::FACTOR_MAX)));
}

/// Models are described, and the ratios behind intervals are there as they are used.
#[test]
fn the_guide_knows_every_model_and_the_errors_behind_intervals() {
    let guide = include_str!("../../../../docs/predict.md").split_whitespace().collect::<Vec<_>>().join(" ");
    for (model, _) in accuracy::MODELS {
        assert!(guide.contains(&format!("| `{model}`")), "{model}");
    }
    let ratios: Vec<String> = idd::ISOLATED_RATIOS.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let (last, others) = ratios.split_last().expect("six");
    let told = format!("{} and {last}", others.join(", "));
    assert!(guide.contains(&told), "{told}");
}

#[test]
fn the_table_fits_into_80_columns() {
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.02, |_, _| {});
    let together = run(EXPERIMENT, 1.0, 0.0, |_, _| {});
    for model in [Model::Mva, Model::Des] {
        let predicted = predict(&alone, Some(&together), &request(None, model)).expect("all is there");
        let text = crate::table::prediction::render(&predicted);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.contains("40 x short + 10 x long")
                && text.contains("no change (6)")
                && text.contains("Mean responses of any request"),
            "{text}"
        );
    }
}
