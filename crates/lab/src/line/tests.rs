//! The line of studies whose truth is known.

use super::*;
use crate::analysis::made_up::{Noise, measure, plan, results};
use crate::results::Isolation;
use crate::runner::Selection;
use crate::study::{Lengths, SIDES, SideRequest, Sides, Study};

const URL: &str = "postgres:";

fn options() -> BTreeMap<String, String> {
    [("dop", "2"), ("governor", "none"), ("governor_low_share", "nice-10")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// The requests per second of a workload: alone, and beside the other at a setting.
type Truth = fn(&str, bool, &BTreeMap<String, String>) -> f64;

fn run(text: &str, noise: f64, truth: Truth) -> Results {
    let plan = plan(text);
    let mut noise = Noise::new(5, noise);
    let alone: Vec<bool> = plan.arms.iter().map(|arm| arm.members.len() == 1).collect();
    let mut records = measure(&plan, |id, setting, name| {
        let swept = setting.swept.iter().map(|(key, value)| (key.clone(), crate::plan::option_text(value)));
        truth(name, alone[id.arm], &swept.collect()) * noise.factor()
    });
    records.iter_mut().for_each(|record| record.point.device.cpu_busy = Some(1.0));
    results(&plan, &records)
}

fn study(options: &BTreeMap<String, String>) -> Study<'_> {
    let (sides, line, budget) = (Sides::default(), None, None);
    Study { url: URL, options, cores: 2, free_memory: None, quick: false, seed: 7, sides, line, budget }
}

fn lengths() -> Lengths {
    study(&BTreeMap::new()).shortest()
}

/// The line of a study with this truth, and the experiment that measured it.
fn line(noise: f64, truth: Truth) -> (Line, Option<String>) {
    let options = options();
    let study = study(&options);
    let first = run(&study.experiment(lengths()), noise, truth);
    let wanted = LineRequest { protect: None, queries: None, slo: SLO, measured_max: 2 };
    let attempt = Attempt::consider(&first, &wanted).expect("both ran alone and together");
    if attempt.is_empty() {
        return (attempt.line(None), None);
    }
    let text = study.line_experiment(lengths(), &attempt);
    let resolved = plan(&text);
    let only = attempt.only(&SIDES);
    let selection = Selection::parse(&only, &resolved).expect("it names what is swept");
    // Both alone, and two settings.
    assert_eq!(selection.run_count(&resolved), 4 * REPEATS as usize, "{only}");
    assert_eq!(wanted.runs_max(SIDES.len()), 4 * REPEATS as usize);
    let second = run(&text, noise, truth);
    (attempt.line(Some(&second)), Some(text))
}

fn is(swept: &BTreeMap<String, String>, key: &str, value: &str) -> bool {
    swept.get(key).is_some_and(|own| own == value)
}

/// Each keeps half beside the other; with the others at low priority, the transactions keep nearly all.
fn helped(name: &str, is_alone: bool, swept: &BTreeMap<String, String>) -> f64 {
    match (name, is_alone, is(swept, "governor", "beside")) {
        ("oltp", true, _) => 1_000.0,
        ("oltp", _, true) => 970.0,
        ("oltp", ..) => 500.0,
        (_, true, _) => 40.0,
        (_, _, true) => 12.0,
        _ => 20.0,
    }
}

#[test]
fn what_isolates_is_found_and_told_with_its_cost() {
    let (line, text) = line(0.005, helped);
    let best = &line.tried[line.best.expect("measured")];
    assert_eq!((line.protect.as_str(), best.standing), ("oltp", Some(LineStanding::Kept)), "{line:#?}");
    assert!(best.options.contains_key("governor") && !best.how.is_empty(), "{best:?}");
    let (own, others) = (&best.kept[0].throughput, &best.kept[1].throughput);
    assert!((own.value - 0.97).abs() < 0.02 && own.low.is_some_and(|low| low > SLO), "{own:?}");
    assert!((others.value - 0.3).abs() < 0.02, "{others:?}");
    assert!(
        line.sentence.starts_with("With olap") && line.sentence.contains("oltp keeps 0.97 (0."),
        "{}",
        line.sentence
    );
    assert!(text.is_some_and(|text| text.contains("priority = \"high\"")));
    let measured = line.tried.iter().filter(|one| !one.kept.is_empty()).count();
    assert_eq!(measured, 3, "as they are, and two settings");
    let shown = crate::table::line_of(&line);
    assert!(shown.iter().all(|line| line.chars().count() <= 80), "{}", shown.join("\n"));
}

/// Queries that get idle cores only may complete nothing in a window, which has no logarithm.
#[test]
fn a_setting_that_starves_the_others_is_told_with_its_cost() {
    let (line, _) = line(0.005, |name, is_alone, swept| match (name, is_alone, is(swept, "governor", "beside")) {
        ("olap", false, true) => 0.0,
        _ => helped(name, is_alone, swept),
    });
    assert_eq!(line.tried[line.best.expect("measured")].standing, Some(LineStanding::Kept), "{line:#?}");
    assert!(line.sentence.ends_with("olap keeps 0.00 (spread unknown) of its throughput alone."), "{}", line.sentence);
}

#[test]
fn what_needs_no_isolation_is_left_alone() {
    let (line, text) = line(0.005, |name, is_alone, _| match (name, is_alone) {
        ("oltp", true) => 1_000.0,
        ("oltp", false) => 990.0,
        _ => 30.0,
    });
    assert_eq!((line.best, text), (Some(0), None));
    assert!(line.sentence.ends_with("nothing needs isolating."), "{}", line.sentence);
}

#[test]
fn where_nothing_helps_the_best_is_named_all_the_same() {
    let (line, _) = line(0.005, |name, is_alone, swept| match (name, is_alone, is(swept, "governor", "beside")) {
        (_, true, _) => 100.0,
        ("oltp", _, true) => 70.0,
        _ => 50.0,
    });
    let sentence = &line.sentence;
    assert!(
        sentence.starts_with("Nothing that was measured lets oltp keep 90 % of its speed alone. The best is olap"),
        "{sentence}"
    );
    assert!(sentence.contains("oltp keeps 0.7"), "{sentence}");
}

#[test]
fn noise_leaves_it_undecided() {
    let (line, _) = line(0.06, |name, is_alone, swept| match (name, is_alone, is(swept, "governor", "beside")) {
        (_, true, _) => 100.0,
        ("oltp", _, true) => 91.0,
        _ => 50.0,
    });
    assert!(
        line.sentence.starts_with("Whether oltp keeps 90 % of its speed alone is undecided. With olap"),
        "{}",
        line.sentence
    );
}

#[test]
fn a_line_that_could_not_be_measured_says_so() {
    let options = options();
    let first = run(&study(&options).experiment(lengths()), 0.005, helped);
    let wanted = LineRequest { protect: Some("oltp".to_owned()), queries: None, slo: SLO, measured_max: 1 };
    let line = Attempt::consider(&first, &wanted).expect("both ran").line(None);
    let unmeasured: Vec<&Isolation> = line.tried.iter().filter(|one| one.standing.is_none()).collect();
    assert!(unmeasured.len() > 1 && line.best == Some(0), "{line:?}");
    assert!(line.sentence.contains("nothing that would isolate it was measured"), "{}", line.sentence);
    let refused = |protect: &str, slo: f64| {
        LineRequest::of_study(protect, slo, &Sides::default()).expect_err("it makes no sense")
    };
    assert!(refused("oltq", 0.9).contains("did you mean `oltp`?"));
    assert!(refused("oltp", 0.0).contains("--slo 0: ") && refused("oltp", f64::NAN).contains("--slo NaN: "));
}

/// On two cores that both use up alone, nice 10 leaves the others a tenth of a share, and one of two threads a third.
#[test]
fn levers_are_ranked_by_what_dividing_cores_would_leave() {
    let options = options();
    let mut first = run(&study(&options).experiment(lengths()), 0.0, helped);
    first.machine.cores_usable = 2;
    let wanted = LineRequest { protect: None, queries: None, slo: SLO, measured_max: 1 };
    let attempt = Attempt::consider(&first, &wanted).expect("both ran");
    let predicted =
        |words: &str| attempt.line.tried.iter().find(|one| one.words == words).expect(words).predicted.clone();
    let nice = predicted("olap at nice 10");
    assert!((nice["oltp"] - 1.0 / (1.0 + 0.107)).abs() < 0.01 && nice["olap"] < 0.1, "{nice:?}");
    let serial = predicted("olap at dop 1");
    assert!((serial["oltp"] - 2.0 / 3.0).abs() < 0.01 && (serial["olap"] - 1.0 / 3.0).abs() < 0.01, "{serial:?}");
    // Nice 10 would be just enough. Nice 15 is with a margin, and leaves the others more than any stronger lever.
    assert_eq!(attempt.words(), ["olap at nice 15"]);
    // The strongest is next: still less would stop the others.
    assert_eq!(attempt.line.tried[2].words, "olap at nice 19");
}

/// Each keeps less than half of its speed, which dividing cores alone does not explain. Cache classes are candidates
/// only if the cache can be divided, and are then assumed to remove all of the rest.
#[test]
fn cache_classes_are_predicted_to_mend_what_dividing_cores_does_not_explain() {
    let options = options();
    let truth: Truth = |name, alone, swept| helped(name, alone, swept) * if alone { 1.0 } else { 0.8 };
    let mut first = run(&study(&options).experiment(lengths()), 0.0, truth);
    first.machine.cores_usable = 2;
    first.experiment.settings.insert("target.cache_classes".to_owned(), "off".into());
    let wanted = LineRequest { protect: None, queries: None, slo: SLO, measured_max: 1 };
    let considered = |results: &Results| {
        let attempt = Attempt::consider(results, &wanted).expect("both ran");
        attempt.line.tried.into_iter().find(|one| one.words == "cache classes").map(|one| one.predicted)
    };
    assert_eq!(considered(&first), None, "the cache cannot be divided here");
    let capability = plimsoll_machine::facts::Capability {
        name: "llc_ways".to_owned(),
        available: true,
        reason: String::new(),
        remedy: None,
    };
    first.machine.capabilities.push(capability);
    let predicted = considered(&first).expect("it can now");
    assert!((predicted["oltp"] - 0.5).abs() < 0.01, "{predicted:?}");
}

/// On the embedded engine, queries can bring their copy up to date themselves to protect transactions.
#[test]
fn who_folds_changes_is_a_lever_where_transactions_are_protected() {
    let options = options();
    let mut first = run(&study(&options).experiment(lengths()), 0.0, helped);
    first.machine.cores_usable = 2;
    first.experiment.settings.insert("target.url".to_owned(), "embedded:".into());
    first.experiment.settings.insert("target.propagation".to_owned(), "background".into());
    let considered = |protect: &str| {
        let wanted = LineRequest { protect: Some(protect.to_owned()), queries: None, slo: SLO, measured_max: 1 };
        let attempt = Attempt::consider(&first, &wanted).expect("both ran");
        attempt.line.tried.iter().any(|one| one.options.get("propagation").is_some_and(|how| how == "before_query"))
    };
    assert!(considered("oltp") && !considered("olap"), "transactions read no copy");
}

/// A file's queries count as transactions for the driver. Who asks for a line says that they are queries, and their
/// threads get smaller shares.
#[test]
fn shares_and_admission_of_queries_are_levers_of_the_embedded_engine() {
    let options = options();
    let mut first = run(&study(&options).experiment(lengths()), 0.0, helped);
    first.machine.cores_usable = 2;
    first.points.iter_mut().flat_map(|point| &mut point.workloads).for_each(|one| {
        (one.driven.analytical, one.driven.clients) = (false, 4);
    });
    for (key, value) in [("url", "embedded:"), ("query_share", "untouched"), ("query_mpl", "none")] {
        first.experiment.settings.insert(format!("target.{key}"), value.into());
    }
    let considered = |queries: Option<&str>| -> Vec<BTreeMap<String, String>> {
        let queries = queries.map(str::to_owned);
        let wanted = LineRequest { protect: Some("oltp".to_owned()), queries, slo: SLO, measured_max: 1 };
        let attempt = Attempt::consider(&first, &wanted).expect("both ran");
        attempt.line.tried.into_iter().map(|one| one.options).collect()
    };
    let has = |all: &[BTreeMap<String, String>], key: &str, value: &str| all.iter().any(|one| is(one, key, value));
    let of_queries = considered(Some("olap"));
    for share in ["nice-5", "nice-10", "nice-15", "nice-19", "idle"] {
        assert!(has(&of_queries, "query_share", share), "{share}: {of_queries:?}");
    }
    assert!(has(&of_queries, "query_mpl", "2"), "{of_queries:?}");
    let of_transactions = considered(None);
    assert!(!has(&of_transactions, "query_share", "idle"), "{of_transactions:?}");
}

/// Workers of a cluster get smaller shares, too; no option of a governor is among its levers.
#[test]
fn shares_of_queries_are_levers_of_a_cluster() {
    let options = options();
    let mut first = run(&study(&options).experiment(lengths()), 0.0, helped);
    for (key, value) in [("url", "cluster:"), ("query_share", "untouched")] {
        first.experiment.settings.insert(format!("target.{key}"), value.into());
    }
    first.points.iter_mut().flat_map(|point| &mut point.workloads).for_each(|one| {
        one.driven.analytical = one.name == "olap";
    });
    let wanted = LineRequest { protect: None, queries: None, slo: SLO, measured_max: 1 };
    let tried = Attempt::consider(&first, &wanted).expect("both ran").line.tried;
    let has = |key: &str, value: &str| tried.iter().any(|one| is(&one.options, key, value));
    assert!(has("query_share", "nice-19") && has("query_share", "idle"), "{tried:?}");
    assert!(!tried.iter().any(|one| one.options.keys().any(|key| key.starts_with("governor"))), "{tried:?}");
}

#[test]
fn the_workload_to_protect_has_its_name_or_that_of_its_side() {
    let file = |name: &str| SideRequest { kind: Some(format!("file:../../docs/examples/{name}.toml")), clients: None };
    let sides =
        Sides::read(&[file("shop"), file("reports")], 7, &plimsoll_workload::registry::NoKinds).expect("two files");
    let protects =
        |word: &str| LineRequest::of_study(word, SLO, &sides).map(|wanted| wanted.protect.unwrap_or_default());
    assert_eq!((protects("oltp"), protects("shop")), (Ok("shop".to_owned()), Ok("shop".to_owned())));
    assert_eq!(protects("olap"), Ok("reports".to_owned()));
    assert_eq!(LineRequest::of_study("shop", SLO, &sides).expect("known").queries.as_deref(), Some("reports"));
    let why = protects("shopp").expect_err("there is none");
    assert!(why.contains("did you mean `shop`?") && why.contains("reports"), "{why}");
}

/// Others take a core of two beside each workload alone, and half of one beside both together: what they leave explains
/// part of the loss, and the interval says so.
#[test]
fn a_line_beside_others_is_drawn_with_wider_intervals() {
    let options = options();
    let quiet = run(&study(&options).experiment(lengths()), 0.005, helped);
    let mut busy = quiet.clone();
    busy.machine.cores_usable = 2;
    for point in &mut busy.points {
        let took = if point.arm == TOGETHER { 0.5 } else { 1.0 };
        (point.disturbed, point.device.busy_cores_others) = (true, Some(took));
    }
    let wanted = LineRequest { protect: None, queries: None, slo: SLO, measured_max: 1 };
    let kept = |results: &Results| {
        let attempt = Attempt::consider(results, &wanted).expect("all runs count");
        attempt.line.tried[0].kept[0].throughput
    };
    let (quiet, busy) = (kept(&quiet), kept(&busy));
    assert_eq!(quiet.value, busy.value);
    assert!(quiet.low.unwrap() > 0.45 && busy.low.unwrap() < 0.34 && busy.high.unwrap() > 0.7, "{quiet:?} {busy:?}");
}
