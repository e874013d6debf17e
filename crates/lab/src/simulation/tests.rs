//! Simulated experiments from the file to the claims, on caches of a 32nd of the study's size.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::analysis::made_up::{Paper, plan, results};
use crate::experiment::{Terms, parse, resolve};
use crate::journal::JournalHeader;
use crate::limits::NoLimits;
use crate::predict::{Model, Request, predict};
use crate::record::RunRecord;
use crate::report;
use crate::results::{ClaimVerdict, Mode};
use crate::run_directory::{RunDirectory, read_results};
use crate::runner::{Outcome, RunProgress, Runner, Selection, Watch};
use crate::table;

/// An aggregation whose dictionary nearly fills the cache, beside a scan in all ways or two.
const PAIR: &str = r#"
name = "pair"
arms = ["alone", "together"]

[target]
url     = "simulated:"
options = { cache_mib = 1.71875, private_kib = 8, sampling = 1, warm_up = 200_000, references = 100_000 }

[[workload]]
name       = "group"
kind       = "aggregation"
parameters = { rows = 31_250_000, values = 312_500, groups = 3_125, cores = 4 }

[[workload]]
name       = "scan"
kind       = "packed_scan"
parameters = { cores = 4 }

[sweep]
"scan.mask" = ["all", "0x3", "class"]

[run]
repeats = 3

[[claim]]
text  = "A scan in a corner leaves the aggregation faster"
holds = 'throughput(together, group, "scan.mask"="0x3") > 1.05 * throughput(together, group, "scan.mask"=all)'
near  = { ours = 'throughput(together, group, "scan.mask"="0x3") / throughput(together, group, "scan.mask"=all) - 1', published = 0.2, no_effect = 0 }

[[claim]]
text  = "It costs the scan nothing"
holds = 'throughput(together, scan, "scan.mask"="0x3") > 0.98 * throughput(together, scan, "scan.mask"=all)'

[[claim]]
text  = "The class of a scan is that corner"
holds = 'throughput(together, scan, "scan.mask"=class) == throughput(together, scan, "scan.mask"="0x3")'

[[claim]]
text  = "A scan hits nothing"
holds = 'llc_hit_ratio("alone:scan") < 0.08'
"#;

fn simulate(plan: &Plan, done: Vec<RunRecord>, stop_after: usize) -> (Outcome, Vec<f64>) {
    let (stop, mut shares) = (AtomicBool::new(false), Vec::new());
    let mut kept = done.len();
    let mut limits = NoLimits;
    let outcome = {
        let mut progress = |step: RunProgress<'_>| match step {
            RunProgress::Simulating { done, all, share, .. } => shares.push((done as f64 + share) / all as f64),
            _ => panic!("nothing is loaded or measured"),
        };
        let mut keep = |_: &RunRecord| {
            kept += 1;
            stop.store(kept == stop_after, Ordering::Relaxed);
            Ok(())
        };
        let mut watch = Watch { progress: &mut progress, keep: &mut keep, stop: &stop, elapsed_s: &|| 1.0 };
        Runner::new(plan, &Paper, &mut limits).run(&Selection::default(), done, &mut watch)
    };
    (outcome.unwrap_or_else(|error| panic!("{error}")), shares)
}

#[test]
fn an_experiment_is_simulated_from_its_file_to_its_claims() {
    let plan = plan(PAIR);
    let (outcome, shares) = simulate(&plan, Vec::new(), usize::MAX);
    // Three settings of three arms in three blocks, those of the first setting twice.
    assert_eq!((outcome.records.len(), outcome.stopped, plan.run_count()), (36, false, 36));
    assert!(shares.is_sorted() && shares.len() >= 36 && shares[0] == 0.0, "{shares:?}");
    let results = results(&plan, &outcome.records);
    assert_eq!(results.mode, Mode::Simulated);
    assert!(results.warnings[0].starts_with("simulated, not measured"), "{:?}", results.warnings);
    for claim in &results.claims {
        // Equal simulations have equal results, which no interval can prove.
        let expect = if claim.expression.contains("==") { ClaimVerdict::Undecided } else { ClaimVerdict::Holds };
        assert!(claim.verdict == expect || claim.verdict == ClaimVerdict::Holds, "{claim:?}");
    }
    let near = results.claims[0].near.as_ref().and_then(|near| near.grade());
    assert!(near.is_some(), "{:?}", results.claims[0].near);
    let cell = results.cell(&plan.setting(0).swept, "together", "group").expect("it ran");
    assert!(cell.throughput_per_s.low.is_some() && cell.measured.all.latency_us.is_none());
    assert_eq!(cell.measured.clients, 4);
    let floor = results.noise_floor["group"];
    assert!(floor.repeated_setting.is_some_and(|difference| difference > 0.0 && difference < 0.02), "{floor:?}");
    let page = report::render(report::ReportInput::owned(results.clone(), outcome.records.clone()));
    assert!(page.contains("Simulated, not measured"));
    let text = table::render(&results, &[]);
    assert!(text.contains("simulated, not measured") && text.contains("4 cores"), "{text}");
}

#[test]
fn a_run_directory_takes_what_is_simulated() {
    let plan = plan(PAIR);
    let (outcome, _) = simulate(&plan, Vec::new(), 4);
    let results = results(&plan, &outcome.records);
    let header = JournalHeader {
        format: results.format,
        plimsoll: results.plimsoll.clone(),
        settings_hash: results.experiment.settings_hash.clone(),
        machine_fingerprint: results.machine_fingerprint.clone(),
        started: results.started.clone(),
        ..JournalHeader::default()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("run");
    let mut directory = RunDirectory::create(&place, PAIR, &results.machine, &header).expect("it is new");
    outcome.records.iter().for_each(|record| directory.keep(record).expect("there is room"));
    directory.finish(&results, &outcome.records).expect("there is room");
    let kept = read_results(&place).expect("it was just written");
    assert_eq!((kept.mode, kept.points.len()), (Mode::Simulated, 4));
    assert_eq!(kept.points[0].workloads, results.points[0].workloads);
}

#[test]
fn blocks_differ_and_runs_can_be_had_again() {
    let plan = plan(PAIR);
    let (whole, _) = simulate(&plan, Vec::new(), usize::MAX);
    let (part, _) = simulate(&plan, Vec::new(), 5);
    assert_eq!((part.records.len(), part.stopped, part.left), (5, true, 31));
    let (resumed, _) = simulate(&plan, part.records, usize::MAX);
    let points = |records: &[RunRecord]| serde_json::to_value(records).expect("plain data");
    assert_eq!(points(&resumed.records), points(&whole.records));
    let of = |repeat: u32, is_again: bool| {
        let mut found = whole.records.iter().filter(|record| {
            let id = record.id;
            (id.setting, id.arm, id.repeat, id.is_again) == (0, 2, repeat, is_again)
        });
        found.next().expect("it ran").point.workloads[0].all.throughput_per_s
    };
    assert_ne!(of(1, false), of(2, false));
    assert_ne!(of(1, false), of(1, true));
}

#[test]
fn settings_have_every_default_and_no_window() {
    let plan = plan(PAIR);
    let settings = crate::document::settings(&plan, &Paper);
    let check = |name: &str, expect: serde_json::Value| assert_eq!(settings.get(name), Some(&expect), "{name}");
    check("target.url", URL.into());
    check("target.cache_mib", "1.71875".into());
    check("target.cache_ways", "20".into());
    check("target.llc_ways", "all".into());
    check("group.values", 312_500.0.into());
    check("group.mask", "all".into());
    check("scan.code_bits", 20.0.into());
    assert!(!settings.contains_key("run.measure_s") && !settings.contains_key("group.think"), "{settings:?}");
}

#[test]
fn fewer_ways_are_swept_as_a_limit_and_have_a_knee() {
    let text = PAIR.replace("\"scan.mask\" = [\"all\", \"0x3\", \"class\"]", "llc_ways = [2, 6, 10, 14, 20]");
    let text = text.split("[[claim]]").next().unwrap_or_default().replace("\"together\"", "\"alone:group\"");
    let plan = plan(&text.replace("arms = [\"alone\", ", "arms = ["));
    let (outcome, _) = simulate(&plan, Vec::new(), usize::MAX);
    let results = results(&plan, &outcome.records);
    let speed = |ways: usize| {
        let setting = plan.setting(ways).swept;
        results.cell(&setting, "alone:group", "group").expect("it ran").throughput_per_s.value
    };
    assert!(speed(0) < 0.9 * speed(4) && speed(1) < speed(3), "{} {}", speed(0), speed(4));
    assert_eq!(results.knees.len(), 1, "{:?}", results.knees);
}

/// Curves of each workload alone predict the pair; reads from memory are the fill rates.
#[test]
fn curves_of_the_cache_predict_a_pair() {
    let text = PAIR.replace("\"scan.mask\" = [\"all\", \"0x3\", \"class\"]", "llc_ways = [2, 4, 8, 12, 16, 20]");
    let text = text.replace("sampling = 1,", "sampling = 1, least_recently_used = true, machine_cores = 44,");
    let plan = plan(text.split("[[claim]]").next().unwrap_or_default());
    let (outcome, _) = simulate(&plan, Vec::new(), usize::MAX);
    let mut results = results(&plan, &outcome.records);
    let request = Request { vary: None, workloads: Vec::new(), model: Model::Mva };
    let predicted = predict(&results, None, &request).expect("there are curves");
    let [pair] = &predicted.cache[..] else { panic!("{:?}", predicted.cache) };
    let [group, scan] = &pair.workloads[..] else { panic!("{pair:?}") };
    assert_eq!((pair.has_fill_rates, group.class, scan.class), (true, "sensitive", "polluting"), "{pair:?}");
    let measured = group.measured.expect("it ran").value;
    assert!(measured < 0.95 && group.error.expect("it ran").abs() < 0.05, "{group:?}");
    assert!(scan.error.expect("it ran").abs() < 0.05, "{scan:?}");
    assert!(group.with_masks.value > 1.02 * group.shared.value, "{group:?}");
    let table = table::prediction::render(&predicted);
    assert!(table.contains("group + scan") && table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.contains("Error of 2: ") && table.contains("at most; "), "{table}");
    // Without reads from memory there are bounds, and they hold.
    results.points.iter_mut().for_each(|point| point.device.dram_read_gb_s = None);
    let predicted = predict(&results, None, &request).expect("there are curves");
    let group = &predicted.cache[0].workloads[0];
    let (low, high) = (group.shared.low.expect("a bound"), group.shared.high.expect("a bound"));
    assert!(group.share.is_none() && low < measured && measured < high && low < 0.8, "{group:?}");
    assert!(group.with_masks.low.expect("a bound") > low, "{group:?}");
    assert!(table::prediction::render(&predicted).contains("equal shares"));
}

#[test]
fn costs_are_told_and_objected_to() {
    let plan = plan(PAIR);
    let little = cost(&plan, plan.run_count());
    assert_eq!(little.references, 36.0 * 300_000.0);
    assert!(little.bytes > 1 << 18 && little.time() < Duration::from_secs(1), "{little:?}");
    assert_eq!(little.objection(None), None);
    assert_eq!(little.objection(Some(1 << 30)), None);
    let told = little.objection(Some(1_000)).unwrap_or_default();
    assert!(told.contains("1000 B are free") && told.contains("--yes"), "{told}");
    let long = cost(&plan, 1_000_000_000).objection(None).unwrap_or_default();
    assert!(long.contains("references take longer than an hour") && long.contains("--yes"), "{long}");
    assert_eq!(plan.estimated_time(36), little.time());
}

/// The scheme of classes gives no such mask, but the study tried one.
#[test]
fn a_mask_of_one_way_is_simulated() {
    let text = PAIR.replace("[\"all\", \"0x3\", \"class\"]", "[\"0x3\", \"0x1\", 1]");
    let plan = plan(text.split("[[claim]]").next().unwrap_or_default());
    let (outcome, _) = simulate(&plan, Vec::new(), usize::MAX);
    let results = results(&plan, &outcome.records);
    let speed = |value: usize| {
        let setting = plan.setting(value).swept;
        results.cell(&setting, "together", "scan").expect("it ran").throughput_per_s.value
    };
    assert_eq!(speed(1), speed(2), "0x1 and one way are the same");
}

#[test]
fn what_cannot_be_simulated_is_refused_with_its_place() {
    let check = |from: &str, to: &str, expect: &str| {
        assert!(PAIR.contains(from), "{from}");
        let text = PAIR.replacen(from, to, 1);
        let experiment = parse(&text, "x.toml");
        let error = experiment.and_then(|experiment| resolve(&experiment, &Terms::here(&Paper, false)).map(drop));
        let error = error.expect_err(to).to_string();
        assert!(error.contains(expect), "{to}: {error}");
    };
    let mask = |to: &str, expect: &str| check("[\"all\", \"0x3\", \"class\"]", to, expect);
    mask("[\"all\", \"0x0\"]", "x.toml:20:23: the mask of scan has no way; give it 2 at least, such as 0x3");
    mask(
        "[\"all\", \"0x5\"]",
        "x.toml:20:23: the mask 0x5 of scan has holes, and this processor takes neighbouring ways only; use 0x7",
    );
    mask(
        "[\"all\", \"0x300000\"]",
        "the mask 0x300000 of scan has the ways 0x300000 outside of llc_ways (0xfffff, 20 ways); leave them out",
    );
    mask("[\"all\", 21]", "has the ways 0x100000 outside of llc_ways");
    mask("[\"some\"]", "`some` says no ways; write \"all\"");
    check(
        "sampling = 1",
        "sampling = 1, llc_ways = 30",
        "the mask 0x3fffffff of llc_ways has the ways 0x3ff00000 outside of the cache",
    );
    check("sampling = 1", "sampling = 1, llc_ways = \"class\"", "`llc_ways` does not belong to an operator");
    check(
        "sampling = 1",
        "sampling = 1, closids = 1",
        "the workloads have 2 different masks (0x3, 0xfffff), and the processor has 1 classes of service; give workloads equal masks, or raise `closids`",
    );
    check("sampling = 1", "sampling = 3", "one set in 3 cannot be simulated of 1408 sets of the shared cache");
    check("sampling = 1", "sampling = 1.5", "`sampling` is a whole number from 1 to 65536; this is 1.5");
    check("sampling = 1", "line_bytes = 128", "`line_bytes` is a number from 64 to 64; this is 128");
    check("sampling = 1", "smapling = 1", "has no option `smapling` (did you mean `sampling`?)");
    check("cache_mib = 1.71875", "cache_mib = 1.7", "the shared cache has 1782579 bytes in 20 ways");
    check(
        "kind       = \"packed_scan\"",
        "kind = \"window\"",
        "x.toml:16:8: the operator `window` has no model; those that have one are packed_scan,",
    );
    check("{ cores = 4 }", "{ coers = 4 }", "`packed_scan` has no parameter `coers` (did you mean `cores`?)");
    check("{ cores = 4 }", "{ cores = 0.5 }", "`cores` is a whole number from 1 to 4096; this is 0.5");
    check("{ cores = 4 }", "{ code_bits = 65 }", "code_bits of packed_scan is 65, and must be a number from 1 to 64");
    check("{ cores = 4 }", "{ code_bits = \"few\" }", "`code_bits` is a number; this is \"few\"");
    check(
        "{ cores = 4 }",
        "{ rows = 1e11, code_bits = 64, cores = 1 }\nclients = 2",
        "a simulated operator has no `clients`",
    );
    check("repeats = 3", "repeats = 3\nmeasure = \"1s\"", "a simulation has no `measure`");
    check("[run]", "[machine]\ncores = 1\n[run]", "[machine] limits the machine that the simulator runs on");
    check("\"scan.mask\"", "\"scan.scale\"", "there is no `scan.scale` here");
    check("\"scan.mask\"", "target", "there is no `target` here");
    check("\"scan.mask\" =", "mask =", "several workloads have `mask`");
}

#[test]
fn the_experiments_of_the_study_can_be_simulated() {
    let folder = std::path::Path::new("../../experiments/NO");
    let files =
        std::fs::read_dir(folder).expect("it is in the source tree").map(|entry| entry.expect("readable").path());
    let simulated: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with("-simulated.toml")).collect();
    assert!(simulated.len() >= 8, "{simulated:?}");
    for path in simulated {
        let text = std::fs::read_to_string(&path).expect("readable");
        let experiment = parse(&text, &path.display().to_string()).unwrap_or_else(|error| panic!("{error}"));
        assert!(experiment.is_simulated(), "{}", path.display());
        for quick in [false, true] {
            let plan = resolve(&experiment, &Terms::here(&Paper, quick)).unwrap_or_else(|error| panic!("{error}"));
            let cost = cost(&plan, plan.run_count());
            assert_eq!(cost.objection(None), None, "{}: {cost:?}", plan.name);
            assert!(!plan.claims.is_empty() && path.ends_with(format!("{}.toml", &plan.name[3..])), "{}", plan.name);
        }
    }
}

#[test]
fn the_guide_lists_every_option_and_parameter() {
    let guide = std::fs::read_to_string("../../docs/simulate.md").expect("it is in the source tree");
    let told = |number: f64| if number.abs() >= 1e5 { format!("{number:e}") } else { number.to_string() };
    let option = |option: &SimulatorOption| {
        let default = option.default_text();
        let default = default.parse().map_or(default, told);
        format!("| `{}` | {} | {default} |", option.name, option.meaning)
    };
    let operators = OPERATORS.iter().flat_map(|operator| {
        let parameters = operator.parameters.iter();
        let parameters = parameters.map(|it| format!("| | `{}` | {} | {} |", it.name, it.meaning, told(it.default)));
        std::iter::once(format!("| `{}` | | {} | |", operator.name, operator.meaning)).chain(parameters)
    });
    let missing: Vec<String> = OPTIONS.iter().map(option).chain(operators).filter(|row| !guide.contains(row)).collect();
    assert!(missing.is_empty(), "docs/simulate.md lacks\n{}", missing.join("\n"));
}
