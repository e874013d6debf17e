//! Experiment files that cannot be run: each fault with its place and its remedy.

use serde_json::json;

use super::{faults, plan, with};

/// A fault at a place, and part of its message.
pub(super) fn check(text: &str, place: &str, expect: &str) {
    check_fault(&faults(text), place, expect);
}

/// The same for faults that were already found.
pub(super) fn check_fault(found: &str, place: &str, expect: &str) {
    let line = found.lines().find(|line| line.starts_with(&format!("x.toml:{place}: ")));
    assert!(line.is_some_and(|line| line.contains(expect)), "expected {place}: {expect}\nfound {found}");
}

#[test]
fn files_that_are_no_toml_or_have_wrong_types_are_refused() {
    check("name = \n", "1:8", "");
    check("name = \"x\"\nname = \"y\"", "2:1", "duplicate key");
    check("name = \"x\"\n[[workload]]\nkind = tpcc", "3:8", "write texts in quotes");
    check("name = \"x\"\n[workload]\nkind = \"tpcc\"", "2:2", "write [[workload]], with two brackets");
    check(&with("[[run]]\nrepeats = 2"), "4:3", "`run` is a table; write [run]");
    check("name = \"x\"\ntarget = \"embedded:\"", "2:1", "`target` is a table; write [target]");
    check(&with("[sweep]\ntpcc.clients = [1, 2]"), "5:1", "needs quotes; write \"tpcc.clients\"");
    check(&with("[[claim]]\ntext = \"t\""), "4:1", "the key `holds` is missing here");
    check("name = 5\n[[workload]]\nkind = \"tpcc\"", "1:8", "expected a string");
    check("[[workload]]\nkind = \"tpcc\"", "1:1", "the key `name` is missing here; add it");
    check(&with("[run]\nrepeats = -1"), "5:11", "expected a whole number");
    check(&with("[run]\nsearch = \"gird\""), "5:10", "expected one of `grid`, `knee`, `size`");
    check(&with("[sweep]\ndop = 3"), "5:7", "a list of values, or a range");
    check("name = \"x\"\nstudy = \"XX\"\n", "2:9", "unknown variant");
}

#[test]
fn unknown_keys_are_all_told_with_the_nearest_or_their_home() {
    let text = "name = \"x\"\ntitel = \"y\"\n[[workload]]\nkind = \"tpcc\"\nclinets = 3\n[run]\nthink = \"none\"\n";
    check(text, "2:1", "there is no key `titel` at the top (did you mean `title`?)");
    check(text, "5:1", "there is no key `clinets` in [[workload]] (did you mean `clients`?)");
    check(text, "7:1", "there is no key `think` in [run]; it belongs into [[workload]]");
    check(&with("mpl = 3"), "4:1", "`mpl` is not available in this version");
    check(&with("round_tripp = \"exp 1ms\""), "4:1", "(did you mean `round_trip`?)");
    check(&with("[target]\nname = \"y\""), "5:1", "it belongs to the top, before the first table or into [[workload]]");
    check("name = \"x\"\n[[workloads]]\nkind = \"tpcc\"", "2:3", "did you mean `workload`?");
    check(&with("[frobnicate]"), "4:2", "there is no key `frobnicate` at the top; there are `name`, `title`");
}

#[test]
fn workloads_that_cannot_be_are_refused() {
    check("name = \"x\"", "1:1", "there is no [[workload]]");
    check("name = \"x\"\n[[workload]]\nkind = \"tpc-c\"", "3:8", "did you mean `tpcc`?");
    check(&with("scale = 0"), "4:9", "tpcc");
    check(&with("scale = \"big\""), "4:9", "`scale` is a number; this is \"big\"");
    check(&with("clients = 0"), "4:11", "`clients` is a whole number from 1 to");
    check(&with("clients = 2.5"), "4:11", "this is 2.5");
    check(&with("think = \"exp\""), "4:9", "the length after `exp` is missing");
    check(&with("think = 5"), "4:9", "`think` is a text, as in \"exp 10ms\"; this is 5");
    check(&with("round_trip = \"exp -1ms\""), "4:14", "`-1` is not a number above 0; write digits, as in `exp 10ms`");
    check(&with("round_trip = \"expo 1ms\""), "4:14", "it begins with `expo`; write `none`, `exp 10ms` or `const 5ms`");
    check(&with("round_trip = 1"), "4:14", "`round_trip` is a text, as in \"exp 1ms\"; this is 1");
    check(&with("[sweep]\nround_trip = [\"none\", \"const 0ms\"]"), "5:23", "`0` is not a number above 0");
    check(&with("[sweep]\nround_tripp = [\"none\"]"), "5:1", "did you mean `round_trip`?");
    let queries = |rest: &str| format!("name = \"x\"\n[[workload]]\nkind = \"tpch\"\n{rest}");
    check(&queries("round_trip = \"exp 1ms\""), "4:14", "each of its requests is one query; leave it out");
    check(&queries("[sweep]\nround_trip = [\"none\", \"exp 1ms\"]"), "5:1", "each of its requests is one query");
    check(&with("priority = \"urgent\""), "4:12", "`urgent` is unknown");
    check(&with("priority = \"high:0.6, level2:0.6\""), "4:12", "the shares add up to 1.2");
    check(&with("rate = 0"), "4:8", "above 0; this is 0");
    check(&with("rate = inf"), "4:8", "above 0");
    check(&with("rate = 10\nthink = \"exp 1ms\""), "4:8", "both a rate and a think time");
    check(&with("rate = 10\n[sweep]\nthink = [\"none\", \"exp 1ms\"]"), "6:1", "both a rate and a think time");
    check(&with("parameters = { speed = 3 }"), "4:16", "`tpcc` has no parameter `speed`");
    check(&with("[[workload]]\nkind = \"tpcc\""), "5:8", "two workloads are called `tpcc`");
    check(&with("name = \"together\""), "4:8", "has a meaning of its own");
    check(&with("name = \"a.b\""), "4:8", "is not a valid name");
    check("name = \"a/b\"\n[[workload]]\nkind = \"tpcc\"", "1:8", "cannot name a run directory");
    let shared = "name = \"w\"\n[[workload]]\nname = \"v\"\nkind = \"tpcc\"\nscale = 2";
    check(&with(shared), "8:9", "`w` and `v` use the same tables of tpcc but not the same data");
    assert_eq!(faults(&with(&shared.replace("scale = 2", "scale = 1"))), "nothing");
}

#[test]
fn parameters_of_benchmarks_are_set_and_swept() {
    let reports =
        |more: &str| format!("name = \"x\"\n[[workload]]\nname = \"r\"\nkind = \"tpch\"\nscale = 0.01\n{more}");
    let text =
        reports("parameters = { queries = [\"q1\", \"q6\"] }\n[sweep]\n\"r.queries\" = [\"q1\", [\"q6\", \"q14\"]]");
    let plan = plan(&text, false);
    assert_eq!(plan.base.workloads[0].parameters["queries"], json!(["q1", "q6"]));
    assert_eq!(plan.setting(1).workloads[0].parameters["queries"], json!(["q6", "q14"]));
    check(&reports("parameters = { queries = \"q99\" }"), "6:26", "q99");
    check(&reports("parameters = { querys = \"q1\" }"), "6:16", "did you mean `queries`?");
    check(&reports("[sweep]\nqueries = [\"q1\", \"q99\"]"), "7:18", "q99");
    check(&reports("queries = \"q1\""), "6:1", "it is a parameter: write parameters = { queries = … }");
}

#[test]
fn limits_that_cannot_be_are_refused_in_the_short_form_too() {
    check(&with("[quick.set]\nwrite_mb_s = 0"), "5:14", "at least 0.1 MB/s");
    check(&with("[quick.set]\nhog = 3"), "5:7", "`hog` is a text");
}

#[test]
fn sweeps_that_cannot_be_are_refused() {
    let check = |sweep: &str, place: &str, expect: &str| check(&with(&format!("[sweep]\n{sweep}")), place, expect);
    check(
        "mpl = [1, 2]",
        "5:1",
        "there is no control for `mpl` in this version; the following can be swept: `tpcc.scale`",
    );
    for control in ["mpl", "parallelism", "cache_classes"] {
        check(&format!("{control} = [1]"), "5:1", &format!("no control for `{control}` in this version"));
    }
    check("\"tpc.clients\" = [1]", "5:1", "there is no workload `tpc` (did you mean `tpcc`?)");
    check("\"tpcc.clinets\" = [1]", "5:1", "did you mean `tpcc.clients`?");
    check("clinets = [1]", "5:1", "did you mean `clients`?");
    check("clients = []", "5:11", "swept over no value");
    check("clients = [1, 2, 1]", "5:18", "swept to 1 twice");
    check("clients = [1, 1.0]", "5:15", "twice");
    check("clients = [1, 0]", "5:15", "`clients`: `clients` is a whole number from 1");
    check("clients = \"1..\"", "5:11", "`1..` is not a range");
    check("dop = [1, 0]", "5:11", "`dop`: option `dop` cannot be `0`");
    check("scale = [1, 0.5]", "5:13", "tpcc");
    check("scale = [inf]", "5:10", "only be swept to finite numbers");
    check("clients = [1]\n\"tpcc.clients\" = [2]", "6:1", "is the same as `clients`");
    check("\"target.mpl\" = [2]", "5:1", "no control for `target.mpl`");
    check("dop = [1, 2]\n[run]\nsearch = \"knee\"", "7:10", "at least 3 values of `dop`; this sweep has 2");
    check("dop = [1, 4, 2]\n[run]\nsearch = \"knee\"", "7:10", "in ascending order");
    check("lock_policy = [\"pow\"]\n[run]\nsearch = \"knee\"", "7:10", "needs a sweep over amounts");
    check("dop = \"1..4\"\nclients = \"1..4\"\n[run]\nsearch = \"knee\"", "8:10", "these are 2: `dop` and `clients`");
    let two = with("[[workload]]\nkind = \"tpch\"\n[sweep]\nclients = [1]");
    self::check(&two, "7:1", "several workloads have `clients`; write `tpcc.clients` or `tpch.clients`");
}

#[test]
fn runs_targets_and_arms_that_cannot_be_are_refused() {
    check(&with("[run]\nrepeats = 0"), "5:11", "0 repeats run nothing");
    check(&with("[run]\nothers_max = 0"), "5:14", "`others_max` is a number of cores above 0");
    check(&with("[run]\ntries = 0"), "5:9", "0 tries run nothing");
    check(&with("[run]\nmeasure = \"0s\""), "5:11", "a window of 0 s measures nothing");
    check(&with("[run]\nmeasure = \"long\""), "5:11", "`long` is not a length of time");
    check(&with("[run]\nwarmup = \"soon\""), "5:10", "or \"steady\"");
    check(&with("[target]\nurl = \"oracle:\""), "5:7", "target `oracle:` is not available");
    check(&with("[target]\noptions = { dpo = 3 }"), "5:13", "has no option `dpo`");
    check(&with("[target.options]\ndop = 0"), "5:1", "option `dop` cannot be `0`");
    let arms = |list: &str| {
        format!(
            "name = \"x\"\narms = [{list}]\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n[[workload]]\nname = \"olap\"\nkind = \"tpch\""
        )
    };
    check(&arms(""), "2:8", "`arms` is empty");
    check(
        &arms("\"alone:oltb\""),
        "2:9",
        "there is no workload `oltb` (did you mean `oltp`?); there are `oltp` and `olap`",
    );
    check(&arms("\"together\", \"oltp\""), "2:21", "write `alone:oltp`");
    check(&arms("\"togehter\""), "2:9", "did you mean `together`?");
    check(&arms("\"oltp+oltp\""), "2:9", "names a workload twice");
    check(&arms("\"everyone\""), "2:9", "write `alone:NAME`, `alone`, `A+B`");
    check("name = \"x\"\narms = [\"together\"]\n[[workload]]\nkind = \"tpcc\"", "2:9", "needs two workloads");
}

#[test]
fn the_quick_table_is_checked_even_when_it_is_not_used() {
    check(&with("[quick]\nmeasure = \"0s\""), "5:11", "a window of 0 s");
    check(&with("[quick.set]\nclinets = 1"), "5:1", "did you mean `clients`?");
    check(
        &with("[sweep]\ndop = [1, 2]\n[quick.set]\ndop = 1"),
        "7:1",
        "`dop` is swept; put a shorter list under [quick.sweep]",
    );
    check(&with("[quick.set]\n\"tpcc.scale\" = 1\nscale = 2"), "5:1", "`tpcc.scale` is set twice");
    check(&with("[quick.sweep]\ndop = [1]"), "5:1", "`dop` is not swept, so there is no list to replace");
    check(&with("[quick]\nscale = 1"), "5:1", "there is no key `scale` in [quick]; it belongs into [[workload]]");
}

#[test]
fn several_faults_are_told_at_once_in_the_order_of_the_file() {
    let found = faults(&with("clients = 0\nthink = \"x\"\n[run]\nrepeats = 0"));
    let places: Vec<&str> = found.lines().map(|line| line.split(": ").next().expect("a place")).collect();
    assert_eq!(places, ["x.toml:4:11", "x.toml:5:9", "x.toml:7:11"]);
}

#[test]
fn faults_of_claims_are_told_where_they_stand() {
    let claim = |holds: &str| with(&format!("[sweep]\ndop = [1, 2]\n[[claim]]\ntext = \"t\"\nholds = {holds}"));
    check(&claim("\"throughput(dop=3) > 1\""), "8:25", "`dop` is not swept to `3`; its values are `1` and `2`");
    check(&claim("'throughput(dop=2) >'"), "8:29", "found the end");
    check(&claim("'''throughput(dop=3) > 1'''"), "8:27", "`dop` is not swept to `3`");
    // Where escapes make places differ, the whole string is shown.
    check(&claim("\"throughput(\\\"3\\\") > 1\""), "8:9", "`3` is not a swept value");
}

#[test]
fn published_figures_that_nothing_can_be_graded_by_are_refused() {
    let near = |rest: &str| with(&format!("[[claim]]\ntext = \"t\"\nholds = \"mean() > 0\"\nnear = {{ {rest} }}"));
    check(&near("ours = \"meen()\", published = 2"), "7:18", "did you mean `mean`?");
    check(&near("ours = \"mean() > 1\", published = 2"), "7:18", "but a number is needed");
    check(&near("ours = \"mean()\", published = 1.2"), "7:39", "a match is 0.8 to 1.8, and 1 among it is no effect");
    check(&near("ours = \"mean()\", published = [3, 2]"), "7:39", "the lower one first");
    check(&near("ours = \"mean()\", published = \"2\""), "7:39", "expected a number, or two in brackets");
    check(&near("ours = \"mean()\", published = 2, factor = 0.5"), "7:39", "so it is above 1, not 0.5");
    check(&near("ours = \"mean()\", publisht = 2"), "7:27", "did you mean `published`?");
}
