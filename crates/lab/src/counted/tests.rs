//! Plans that can be counted, the process that counts, and the record that is made of its report.

use plimsoll_machine::simulated_counters::{CacheShape, SimulatedCaches};

use super::child::difference;
use super::*;
use crate::analysis::made_up::Paper;
use crate::experiment::{Terms, parse, resolve};

const EXPERIMENT: &str = r#"
name = "x"
[[workload]]
kind = "rows"
[run]
simulated_requests = 100
"#;

fn plan(text: &str) -> Plan {
    let resolved = parse(text, "x.toml").and_then(|experiment| resolve(&experiment, &Terms::here(&Paper, false)));
    resolved.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn one_client_of_one_workload_in_a_program_of_ours_is_counted() {
    let check = |text: &str, expect: Option<&str>| {
        let found = fault(&plan(text));
        match expect {
            None => assert_eq!(found, None, "{text}"),
            Some(why) => assert!(found.as_ref().is_some_and(|found| found.contains(why)), "{text}: {found:?}"),
        }
    };
    check(EXPERIMENT, None);
    check(&format!("{EXPERIMENT}[machine]\ncores = 1\n"), Some("leave out [machine]"));
    check(&EXPERIMENT.replace("\"rows\"", "\"rows\"\nclients = 2"), Some("rows: requests are counted of one client"));
    check(&format!("{EXPERIMENT}[target]\nurl = \"postgres:\"\n"), None);
    check(&format!("{EXPERIMENT}[target]\nurl = \"postgres://localhost/a\"\n"), Some("use the target `embedded:`"));
    let two = format!("{EXPERIMENT}[[workload]]\nkind = \"tpcb\"\n");
    check(&two, Some("cannot be told apart"));
    check(&two.replace("name = \"x\"", "name = \"x\"\narms = [\"alone\"]"), None);
    // What is measured may be anything.
    check(&two.replace("simulated_requests = 100", "repeats = 2"), None);
}

#[test]
fn the_least_work_is_taken_off_the_most() {
    let counts = |instructions: u64, read_misses: u64| SimulatedCounts {
        instructions,
        read_misses,
        ..SimulatedCounts::default()
    };
    assert_eq!(difference(&counts(10, 5), &counts(4, 2)), Some(counts(6, 3)));
    assert_eq!(difference(&counts(10, 1), &counts(4, 2)), Some(counts(6, 0)), "misses of nearly none are noise");
    assert_eq!(difference(&counts(3, 5), &counts(4, 2)), None);
}

fn simulator() -> Simulator {
    let shape = CacheShape { size_bytes: 32 << 10, ways: 8 };
    let caches = SimulatedCaches { code: shape, data: shape, last: shape, notes: vec!["small".to_owned()] };
    Simulator { version: "valgrind-0".to_owned(), caches }
}

fn request() -> CountRequest {
    CountRequest {
        simulator: simulator(),
        folder: "/nowhere".into(),
        url: "embedded:".to_owned(),
        options: BTreeMap::new(),
        kind: "rows".to_owned(),
        scale: 1.0,
        parameters: BTreeMap::new(),
        data_seed: 7,
        seed: 8,
        requests: 100,
    }
}

/// What comes of a process that runs this script, which is asked on its input.
fn converse_with(script: &str, stop: bool) -> Result<Option<CountReport>, String> {
    let stop = AtomicBool::new(stop);
    converse(Command::new("sh").args(["-c", script]), &request(), &stop, &mut || {})
}

fn report() -> CountReport {
    let counts =
        SimulatedCounts { instructions: 5_000, read_misses: 70, conditional_branches: 90, ..Default::default() };
    let completed = BTreeMap::from([("read".to_owned(), 100)]);
    CountReport { counts, completed, elapsed_s: 2.0, notes: vec!["as asked".to_owned()] }
}

#[test]
fn a_process_reports_or_says_why_not() {
    let good = serde_json::to_string(&Ok::<_, String>(report())).unwrap();
    assert_eq!(converse_with(&format!("cat >/dev/null; echo '{good}'"), false), Ok(Some(report())));
    assert_eq!(converse_with("echo '{\"Err\":\"no rows\"}'", false), Err("no rows".to_owned()));
    assert_eq!(converse_with("echo first >&2; echo 'last words' >&2; exit 3", false), Err("last words".to_owned()));
    let silent = converse_with("exit 3", false).unwrap_err();
    assert!(silent.starts_with("the process that counts ended with exit status: 3"), "{silent}");
    assert_eq!(converse_with("exec sleep 100", true), Ok(None), "it is ended");
    let missing = converse(&mut Command::new("/no/such/program"), &request(), &AtomicBool::new(false), &mut || {});
    assert!(missing.is_err_and(|why| why.starts_with("the process that counts does not start: ")));
}

#[test]
fn counts_are_figures_and_speeds_are_not() {
    let plan = plan(EXPERIMENT);
    let (setting, id) = (plan.setting(0), RunId { setting: 0, arm: 0, repeat: 1, is_again: false });
    let run = CountedRun { id, setting: &setting, arm: &plan.arms[0], at_s: 1.0, program: &[] };
    let record = record(&run, &setting.workloads[0], &simulator(), &report());
    assert_eq!(record.notes, ["small", "as asked"]);
    assert_eq!((record.point.valid, record.point.window_s), (true, 2.0));
    let result = &record.point.workloads[0];
    let reading = crate::figures::Reading::of_run(&record.point, result);
    let read = |key: &str| crate::figures::figure(key).read(&reading, crate::figures::FigureArgument::Nothing);
    assert_eq!(read("counters.instructions"), Ok(50.0));
    assert_eq!(read("counters.l1d_mpki"), Ok(14.0));
    assert_eq!(read("throughput_per_s"), Err(format!("no throughput_per_s: {NO_SPEED}")));
    assert!(read("latency_us.mean").is_err() && read("counters.cycles").is_err() && read("top_down.memory").is_err());
}
