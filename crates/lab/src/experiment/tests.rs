//! Experiment files that can be run, and the plans that they become. Those that cannot are in [`refused`].

mod machine;
mod refused;
mod targets;

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_policy::Priority;
use plimsoll_workload::database::Database;
use plimsoll_workload::driver::{Delay, PriorityRule};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::plan::{Plan, Reload, Search, SweepTarget};
use crate::targets::{Target, Targets};
use plimsoll_workload::driver::WarmUp;

/// A target that only answers questions about its options.
struct Paper;

const POLICIES: [&str; 5] = ["standard", "nprio", "nprio-inherit", "pabort", "pow"];

impl Targets for Paper {
    fn target(&self, url: &str, options: &BTreeMap<String, String>) -> Result<Box<dyn Target>, String> {
        if !["embedded:", "other:", "postgres:"].contains(&url) {
            return Err(format!("target `{url}` is not available; use `embedded:`"));
        }
        for (name, value) in options {
            let is_possible = match name.as_str() {
                "governor_config" if url == "postgres:" => value == "none" || std::path::Path::new(value).is_relative(),
                "buffers" if url == "other:" => value.parse::<u32>().is_ok(),
                "lock_policy" if url == "other:" => return Err("`other:` has no option `lock_policy`".to_owned()),
                "dop" => value.parse().is_ok_and(|dop: u32| (1..=1024).contains(&dop)),
                "lock_policy" => POLICIES.contains(&value.as_str()),
                "propagation" => value == "background",
                "transaction_cores" | "query_cores" | "propagation_cores" => value.parse::<u32>().is_ok(),
                _ => return Err(format!("`embedded:` has no option `{name}`; it has `dop`, `lock_policy`")),
            };
            if !is_possible {
                return Err(format!("option `{name}` cannot be `{value}`"));
            }
        }
        Ok(Box::new(Paper))
    }

    fn option_names(&self, url: &str) -> Vec<&'static str> {
        match url {
            "other:" => vec!["dop", "buffers"],
            "postgres:" => vec!["governor_config"],
            _ => vec!["dop", "lock_policy"],
        }
    }

    fn has_users(&self, url: &str) -> bool {
        url == "postgres:"
    }
}

impl Target for Paper {
    fn open(&self) -> Result<Box<dyn Database>, String> {
        Err("paper holds no rows".to_owned())
    }
}

fn plan(text: &str, quick: bool) -> Plan {
    let experiment = parse(text, "x.toml").unwrap_or_else(|error| panic!("{error}"));
    resolve(&experiment, &Terms::here(&Paper, quick)).unwrap_or_else(|error| panic!("{error}"))
}

/// The faults of a refused file, one per line.
fn faults(text: &str) -> String {
    match parse(text, "x.toml").and_then(|experiment| resolve(&experiment, &Terms::here(&Paper, false))) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The smallest file that can be run, followed by `more`.
fn with(more: &str) -> String {
    format!("name = \"x\"\n[[workload]]\nkind = \"tpcc\"\n{more}")
}

const MW: &str = r#"
name  = "MW-tab3.3"
title = "Lock scheduling: who gains, who pays"
study = "MW"

[target]
options = { lock_policy = "standard", dop = 2 }

[[workload]]
name     = "oltp"
kind     = "tpcc"
scale    = 2
clients  = 100
think    = "exp 20ms"
round_trip = "exp 1ms"
priority = "high:0.1"

[sweep]
lock_policy  = ["standard", "nprio", "nprio-inherit", "pabort", "pow"]
"oltp.think" = ["exp 100ms", "exp 20ms", "exp 5ms"]

[run]
warmup  = "5s"
measure = "20s"
repeats = 3
seed    = 11

[[claim]]
text      = "POW helps high priority at least as much as PAbort"
holds     = "gain(pow, high) >= 0.95 * gain(pabort, high)"
published = "5.60 vs 5.45"
"#;

#[test]
fn an_experiment_becomes_a_plan() {
    let plan = plan(MW, false);
    assert_eq!(
        (plan.name.as_str(), plan.study.as_deref(), plan.base.url.as_str()),
        ("MW-tab3.3", Some("MW"), "embedded:")
    );
    assert_eq!(plan.text.as_deref(), Some(MW));
    let oltp = &plan.base.workloads[0];
    assert_eq!((oltp.name.as_str(), oltp.kind.as_str(), oltp.scale), ("oltp", "tpcc", 2.0));
    assert_eq!((oltp.clients.clients, oltp.clients.seed, oltp.clients.retry_max), (100, 11, 1000));
    assert_eq!(oltp.clients.think, Delay::Exponential(Duration::from_millis(20)));
    assert_eq!(oltp.clients.round_trip, Delay::Exponential(Duration::from_millis(1)));
    assert_eq!(oltp.clients.priority, PriorityRule::Shares(vec![(Priority::HIGH, 0.1)]));
    assert_eq!(plan.base.options["dop"], "2");
    let arms: Vec<_> = plan.arms.iter().map(|arm| (arm.name.as_str(), &arm.members[..])).collect();
    assert_eq!(arms, [("alone:oltp", &[0][..])]);
    // The order of the file, not of the alphabet.
    let axes: Vec<_> =
        plan.axes.iter().map(|axis| (axis.key.as_str(), axis.place.clone(), axis.values.len())).collect();
    let think = SweepTarget::Workload(0, "think".to_owned());
    assert_eq!(axes, [("lock_policy", SweepTarget::Option("lock_policy".to_owned()), 5), ("oltp.think", think, 3)]);
    assert_eq!(plan.run.warmup, WarmUp::For(Duration::from_secs(5)));
    assert_eq!((plan.run.measure, plan.run.repeats, plan.run.seed), (Duration::from_secs(20), 3, 11));
    assert_eq!((plan.run.reload, plan.run.search), (Reload::WhenGrown, Search::Grid));
    assert_eq!(plan.claims.len(), 1);
    assert_eq!(plan.claims[0].published.as_deref(), Some("5.60 vs 5.45"));
}

/// Pages of short forms said "TPC-H of 1 GB" of a tenth of that.
#[test]
fn words_about_size_are_those_of_the_form_that_runs() {
    let text = "name = \"x\"\ndiffers = [\"{olap.scale} GB beside {oltp.scale}; the study has {10 GB\"]\n\
        [[workload]]\nname = \"olap\"\nkind = \"tpch\"\nscale = 1\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n\
        [sweep]\n\"oltp.scale\" = [1, 3]\n[quick.set]\n\"olap.scale\" = 0.1\n";
    assert_eq!(plan(text, false).differs, ["1 GB beside 1 to 3; the study has {10 GB"]);
    assert_eq!(plan(text, true).differs, ["0.1 GB beside 1 to 3; the study has {10 GB"]);
    let wrong = faults(&text.replace("{olap.", "{olpa."));
    assert!(wrong.contains("`{olpa.scale}` stands for nothing") && wrong.contains("x.toml:2"), "{wrong}");
}

#[test]
fn settings_are_digits_of_their_number() {
    let plan = plan(MW, false);
    assert_eq!(plan.setting_count(), Some(15));
    let settings: Vec<_> = plan.settings().collect();
    assert_eq!(settings.len(), 15);
    assert_eq!(settings[5], plan.setting(5));
    // 5 = 1 * 3 + 2: the second policy, the third think time.
    assert_eq!(
        settings[5].swept,
        BTreeMap::from([("lock_policy".to_owned(), json!("nprio")), ("oltp.think".to_owned(), json!("exp 5ms")),])
    );
    assert_eq!(settings[5].options["lock_policy"], "nprio");
    assert_eq!(settings[5].workloads[0].clients.think, Delay::Exponential(Duration::from_millis(5)));
    assert_eq!(plan.setting_number(&[1, 2]), 5);
    // 15 settings and the first once more, one arm, 3 blocks, 25 s each.
    assert_eq!(plan.run_count(), 48);
    assert_eq!(plan.estimated_time(plan.run_count()), Duration::from_secs(48 * 25));
}

#[test]
fn a_million_settings_are_not_expanded() {
    let plan = plan(&with("[sweep]\nclients = \"1..1000\"\ndop = \"1..1000\"\n[run]\nrepeats = 1"), false);
    assert_eq!(plan.setting_count(), Some(1_000_000));
    assert_eq!(plan.run_count(), 1_000_001);
    let setting = plan.setting(999_998);
    assert_eq!((setting.workloads[0].clients.clients, setting.options["dop"].as_str()), (1000, "999"));
}

#[test]
fn a_knee_needs_few_of_many_values() {
    let plan = plan(&with("[sweep]\ndop = \"1..1000\"\n[run]\nrepeats = 2\nsearch = \"knee\""), false);
    assert_eq!(plan.run.search, Search::Knee);
    // A search may spend no more than a part of the grid of 2000 runs.
    assert!((20..1000).contains(&plan.run_count()), "{}", plan.run_count());
}

#[test]
fn arms_are_listed_by_groups_and_names() {
    let arms = |list: &str| {
        let text = format!(
            "name = \"x\"\n{list}\n[[workload]]\nname = \"a\"\nkind = \"tpcc\"\n[[workload]]\nname = \"b\"\nkind = \"tpch\"\n\
             [[workload]]\nname = \"c\"\nkind = \"tpch\""
        );
        plan(&text, false).arms.into_iter().map(|arm| arm.name).collect::<Vec<_>>()
    };
    assert_eq!(arms(""), ["alone:a", "alone:b", "alone:c", "together"]);
    assert_eq!(arms("arms = [\"together\"]"), ["together"]);
    assert_eq!(arms("arms = [\"alone\", \"alone:a\", \"b+a\"]"), ["alone:a", "alone:b", "alone:c", "a+b"]);
    assert_eq!(arms("arms = [\"pairs\", \"a+b+c\"]"), ["a+b", "a+c", "b+c", "together"]);
}

/// Story: payments matter in TPC-C and the rest does not; an experiment could only give a random share of all transactions
/// high priority.
#[test]
fn kinds_of_transactions_have_priorities() {
    let rule = |text: &str| text.parse::<PriorityRule>().expect("a rule");
    let workload = |priority: &str| format!("name = \"x\"\n[[workload]]\nkind = \"tpcc\"\n{priority}");
    let made = plan(
        &workload("priority = { payment = \"high\", delivery = \"level2:0.1, high:0.2\", \"*\" = \"high:0.05\" }"),
        false,
    );
    let expect = rule("delivery=level2:0.1, delivery=high:0.2, payment=high, high:0.05");
    assert_eq!(made.base.workloads[0].clients.priority, expect);
    let text = plan(&workload("priority = \"payment=high\""), false);
    assert_eq!(text.base.workloads[0].clients.priority, rule("payment=high"));
    let swept = "[sweep]\npriority = [\"low\", \"payment=high\"]\n[[claim]]\ntext = \"t\"\nholds = \"mean(high) > 0\"";
    assert_eq!(plan(&workload(swept), false).setting(1).workloads[0].clients.priority, rule("payment=high"));

    let error = faults(&workload("priority = { paiment = \"high\" }"));
    assert!(
        error.starts_with("x.toml:4:12: workload `tpcc`: a priority for `paiment`") && error.contains("`payment`?"),
        "{error}"
    );
    let error = faults(&workload("priority = { payment = \"urgent\" }"));
    assert!(error.starts_with("x.toml:4:12: ") && error.contains("`urgent` is unknown"), "{error}");
    let error = faults(&workload("priority = 5"));
    assert!(error.contains("{ payment = \"high\" }"), "{error}");
    let error = faults(&workload("[sweep]\npriority = [\"low\", \"paiment=high\"]"));
    assert!(error.starts_with("x.toml:5:20: workload `tpcc`"), "{error}");
    // No request is of that class, so that a claim of it is refused.
    let claim = "[[claim]]\ntext = \"t\"\nholds = \"mean(high) > 0\"";
    let error = faults(&workload(&format!("priority = {{ payment = \"low\" }}\n{claim}")));
    assert!(error.contains("no requests of class `high`"), "{error}");
}

/// Story: an operator tries the settings file that will run, beside the experiment, with the users that its rules name.
#[test]
fn a_governors_own_settings_lie_beside_the_experiment() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("plimsoll.toml"), "server = \"postgres://a\"\n").expect("it is written");
    let text = "name = \"own\"\n[target]\nurl = \"postgres:\"\n[[workload]]\nkind = \"tpcc\"\nuser = \"shop\"\n\
                [sweep]\ngovernor_config = [\"none\", \"plimsoll.toml\"]\n";
    let file = folder.path().join("x.toml").display().to_string();
    let experiment = parse(text, &file).unwrap_or_else(|error| panic!("{error}"));
    // This target refuses paths that were not resolved against the experiment's folder.
    struct Anchored;
    impl Targets for Anchored {
        fn target(&self, _: &str, options: &BTreeMap<String, String>) -> Result<Box<dyn Target>, String> {
            let wrong = options.values().find(|value| *value != "none" && !std::path::Path::new(value).is_file());
            wrong.map_or(Ok(Box::new(Paper)), |value| Err(format!("{value}:2:1: no such class")))
        }
        fn option_names(&self, _: &str) -> Vec<&'static str> {
            vec!["governor_config"]
        }
        fn has_users(&self, _: &str) -> bool {
            true
        }
    }
    let resolved = resolve(&experiment, &Terms::here(&Anchored, false)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(resolved.base.workloads[0].clients.user.as_deref(), Some("shop"));
    let setting = resolved.setting(1);
    assert_eq!(setting.swept["governor_config"], "plimsoll.toml", "results have the value as typed");
    let anchored = folder.path().join("plimsoll.toml").display().to_string();
    assert_eq!(crate::targets::own_options(&Anchored, &setting)["governor_config"], anchored);
    let files: Vec<_> = experiment.workload_files().into_iter().map(|file| file.path).collect();
    assert_eq!(files, [std::path::Path::new("plimsoll.toml")], "it is kept with the results");
    let hash =
        |plan: &Plan| crate::document::settings(plan, &Anchored)["target.governor_config.hash.plimsoll.toml"].clone();
    let before = hash(&resolved);
    std::fs::write(folder.path().join("plimsoll.toml"), "server = \"postgres://b\"\n").expect("it is written");
    assert_ne!(before, hash(&resolved), "another file is another setting");

    let missing = parse(&text.replace("plimsoll.toml", "other.toml"), &file).expect("well formed");
    let error = resolve(&missing, &Terms::here(&Anchored, false)).expect_err("there is no such file").to_string();
    assert!(
        error.contains("x.toml:8:28: `governor_config`: ") && error.contains("other.toml:2:1: no such class"),
        "{error}"
    );
    let error = faults("name = \"x\"\n[[workload]]\nkind = \"tpcc\"\nuser = \"shop\"\n");
    assert!(error.starts_with("x.toml:4:8: `embedded:` has no users to log in as"), "{error}");
}

#[test]
fn defaults_are_filled_in() {
    let plan = plan(&with(""), false);
    let workload = &plan.base.workloads[0];
    assert_eq!((workload.name.as_str(), workload.scale, workload.clients.clients), ("tpcc", 1.0, 1));
    assert_eq!(workload.clients.priority, PriorityRule::Always(Priority::LOW));
    assert_eq!((plan.run.warmup, plan.run.measure), (WarmUp::For(Duration::from_secs(2)), Duration::from_secs(10)));
    assert_eq!((plan.run.repeats, plan.run.seed, plan.run_count()), (5, 7, 5));
}

#[test]
fn quick_follows_its_rule_and_its_table() {
    let short = plan(&MW.replace("repeats = 3", "repeats = 8"), true);
    assert_eq!((short.run.warmup, short.run.measure), (WarmUp::For(Duration::from_secs(1)), Duration::from_secs(2)));
    assert_eq!((short.run.repeats, short.setting_count()), (5, Some(15)));
    let text = format!(
        "{MW}\n[quick]\nmeasure = \"500ms\"\nrepeats = 1\n[quick.set]\nscale = 1\ndop = 1\n[quick.sweep]\nlock_policy = [\"standard\", \"pow\"]\n"
    );
    let short = plan(&text, true);
    assert_eq!((short.run.measure, short.run.repeats, short.setting_count()), (Duration::from_millis(500), 1, Some(6)));
    assert_eq!((short.base.workloads[0].scale, short.base.options["dop"].as_str()), (1.0, "1"));
    let full = plan(&text, false);
    assert_eq!((full.run.measure, full.setting_count()), (Duration::from_secs(20), Some(15)));
    assert_eq!(full.base.workloads[0].scale, 2.0);
}

#[test]
fn a_claim_about_what_quick_leaves_out_is_not_judged() {
    struct Nothing;
    impl crate::claim::Figures for Nothing {
        fn figure(&self, _: &crate::claim::Cell, _: crate::claim::Metric) -> Result<f64, String> {
            Ok(1.0)
        }
        fn knee(&self, _: usize, _: f64, _: &crate::claim::Cell) -> Result<f64, String> {
            Err("none".to_owned())
        }
    }
    let text = with(
        "[sweep]\ndop = [1, 2, 8]\n[quick.sweep]\ndop = [1, 2]\n\
         [[claim]]\ntext = \"t\"\nholds = \"throughput(dop=8) >= 1\"\n[[claim]]\ntext = \"t\"\nholds = \"throughput(dop=2) >= 1\"",
    );
    let short = plan(&text, true);
    let judged = short.claims[0].evaluate(&short, &Nothing);
    assert_eq!(judged.holds, None);
    assert_eq!((short.claims[0].left_out(), short.claims[1].left_out()), (judged.why_not.as_deref(), None));
    assert!(judged.why_not.expect("a reason").starts_with("--quick leaves out what it speaks of: `dop`"));
    assert_eq!(short.claims[1].evaluate(&short, &Nothing).holds, Some(true));
    let full = plan(&text, false);
    assert_eq!(full.claims[0].evaluate(&full, &Nothing).holds, Some(true));
}

#[test]
fn the_examples_of_the_guide_can_be_run() {
    let guide = include_str!("../../../../docs/experiments.md");
    let blocks: Vec<&str> = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 3, "the guide has {} examples", blocks.len());
    for block in blocks {
        // A part of a file needs the rest of one around it.
        let name = if block.contains("name  = ") { "" } else { "name = \"example\"\n" };
        let workload =
            if block.contains("[[workload]]") { "" } else { "[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n" };
        let text = format!("{name}{block}{workload}");
        let found = parse(&text, "guide").and_then(|experiment| {
            resolve(&experiment, &Terms::here(&Paper, true))?;
            resolve(&experiment, &Terms::here(&Paper, false))
        });
        assert!(found.is_ok(), "{text}\n{}", found.expect_err("checked"));
    }
}

#[test]
fn the_guide_has_every_key_and_function() {
    let guide = include_str!("../../../../docs/experiments.md");
    let schema = schema::schema();
    let tables = schema["$defs"].as_object().expect("tables").values().chain([&schema]);
    let keys =
        tables.flat_map(|table| table["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()));
    let functions = crate::claim::syntax::functions().into_iter().map(crate::claim::syntax::Function::usage);
    for word in keys.map(|key| format!("`{key}`")).chain(functions) {
        assert!(guide.contains(&word), "docs/experiments.md does not explain {word}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_reading_panic(text in "\\PC*") {
        let _ = faults(&text);
        let _ = faults(&with(&text));
    }

    #[test]
    fn no_change_of_a_file_makes_reading_panic(at in 0..MW.len(), text in "[\\[\\]\"=.a-z0-9 \n]{0,6}") {
        let _ = faults(&format!("{}{text}{}", &MW[..at], &MW[at..]));
    }
}

/// The path of a workload's own file is relative to the experiment's; the file's name is the workload's.
#[test]
fn workloads_from_files_lie_beside_the_experiment() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/look-up.sql"), "SELECT 1;").unwrap();
    let text = "name = \"own\"\n[[workload]]\nkind = \"file:sub/look-up.sql\"\n[sweep]\n\"look-up.scale\" = [1, 2]\n";
    let file = folder.path().join("x.toml").display().to_string();
    let experiment = parse(text, &file).unwrap();
    let plan = resolve(&experiment, &Terms::here(&Paper, false)).unwrap_or_else(|error| panic!("{error}"));
    let workload = &plan.base.workloads[0];
    assert_eq!((workload.name.as_str(), workload.scale), ("look-up", 1.0));
    assert_eq!(workload.kind, format!("file:{}", folder.path().join("sub/look-up.sql").display()));
    let files = experiment.workload_files();
    assert_eq!(files.len(), 1);
    assert_eq!((files[0].path.to_str(), files[0].text.as_str()), (Some("sub/look-up.sql"), "SELECT 1;"));
    // Settings are the same wherever the files are, and differ if the files do.
    let settings = |kind: &str| {
        let mut plan = plan.clone();
        plan.base.workloads[0].kind = kind.to_owned();
        crate::document::settings(&plan, &Paper)
    };
    let (as_it_is, elsewhere) = (settings(&workload.kind), folder.path().join("look-up.sql"));
    assert_eq!(as_it_is["look-up.kind"], "file:look-up.sql");
    std::fs::write(&elsewhere, "SELECT 1;").unwrap();
    assert_eq!(settings(&format!("file:{}", elsewhere.display())), as_it_is);
    std::fs::create_dir(folder.path().join("other")).unwrap();
    let other = folder.path().join("other/look-up.sql");
    std::fs::write(&other, "SELECT 2;").unwrap();
    assert_ne!(settings(&format!("file:{}", other.display()))["look-up.content"], as_it_is["look-up.content"]);
    let error = parse(&text.replace("sub/", "none/"), &file).unwrap();
    let error = resolve(&error, &Terms::here(&Paper, false)).unwrap_err().to_string();
    assert!(error.contains("x.toml:3:8: ") && error.contains("look-up.sql: No such file"), "{error}");
}
