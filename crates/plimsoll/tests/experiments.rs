//! Experiments as a user runs them: from the file to the results and their evaluation.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;
#[path = "common/trial.rs"]
mod trial;

use std::fs;

use program::{assert_ended, items, json, names, printed, run, said};
use serde_json::Value;
use trial::{FILES, MIXED, SIMULATED, SMALL, TRAVELLING, all_runs, finished, folder, refused, runs};

/// Every null in a document, by its path.
fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Null => found.push(path.to_owned()),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| nulls(value, &format!("{path}.{name}"), found)),
        Value::Array(items) => items.iter().for_each(|item| nulls(item, path, found)),
        _ => {}
    }
}

/// Nulls among the figures of a document for which no warning says why.
fn unexplained(results: &Value) -> Vec<String> {
    let mut gaps = Vec::new();
    ["points", "estimates", "interference"].iter().for_each(|part| nulls(&results[*part], part, &mut gaps));
    let reasons = [
        (".counters", "hardware counters"),
        (".dram_read_gb_s", "memory traffic"),
        (".io", "(io)"),
        (".io_busy", "disk"),
        (".read_mb_s", "disk"),
        (".write_mb_s", "disk"),
        (".top_down", "top-down"),
        (".cache_misses", "cache misses"),
    ];
    let is_told = |gap: &String| {
        // A valid point has no reason not to be; a kind of transaction that did not run has no latency; a percentile needs ten
        // requests beyond it, and how many there were stands beside it (on a busy machine too few for the highest); how often
        // requests met at locks, if at all, stands beside the figures of it.
        let by_nature = gap.ends_with(".why_invalid")
            || gap.contains(".latency_us.p")
            || gap.contains(".transactions.") && gap.ends_with(".latency_us")
            || gap.contains(".locks.");
        let warned =
            |word: &str| items(&results["warnings"]).iter().any(|warning| warning.as_str().unwrap().contains(word));
        by_nature || reasons.iter().any(|(end, word)| gap.ends_with(end) && warned(word))
    };
    gaps.retain(|gap| !is_told(gap));
    gaps
}

#[test]
fn an_experiment_goes_from_its_file_to_its_results() {
    let folder = folder(MIXED);
    let output = run(&["run", "experiment.toml", "--out", "out", "--json"], folder.path());
    let results = json(&output);
    assert_eq!(runs(&results), all_runs());
    assert_eq!(items(&results["estimates"]).len(), 2 * 4, "each workload in each arm at each setting");
    for estimate in items(&results["estimates"]) {
        let throughput = &estimate["throughput_per_s"];
        let [low, value, high] = ["low", "value", "high"].map(|name| throughput[name].as_f64().unwrap());
        assert!(0.0 < low && low <= value && value <= high, "{estimate}");
    }
    assert_eq!(items(&results["interference"]).len(), 2 * 2);
    for entry in items(&results["interference"]) {
        assert_eq!(entry["arm"], "together");
        assert!(entry["ratio"]["value"].as_f64().unwrap() > 0.0, "{entry}");
        assert!(["faster", "slower", "no_difference"].contains(&entry["finding"].as_str().unwrap()), "{entry}");
    }
    let claim = &results["claims"][0];
    assert_eq!((&claim["verdict"], &claim["published"]), (&"holds".into(), &"never".into()));
    assert_eq!(unexplained(&results), [""; 0], "nulls without a reason: {}", results["warnings"]);

    let told = said(&output);
    let before = told.lines().next().unwrap();
    assert!(before.starts_with("mixed: 18 runs, about 2 s"), "{told}");
    assert!(told.contains("\nloading reads\n") && told.contains("\nrun 18 of 18: "), "{told}");
    assert!(!told.contains('\r') && !told.contains('\u{1b}'), "lines, no bar: {told:?}");
    assert_eq!(names(&folder.path().join("out")), FILES);
    let written: Value = serde_json::from_slice(&fs::read(folder.path().join("out/results.json")).unwrap()).unwrap();
    assert_eq!(written, results, "what is printed is what is written");

    let compared = printed(&run(&["compare", "out", "out"], folder.path()));
    assert!(compared.lines().all(|line| line.chars().count() <= 80), "{compared}");
    for point in ["reads in together, reads.clients=1\n", "reads in together, reads.clients=2\n"] {
        assert!(compared.contains(point), "each point by its whole name: {compared}");
    }
}

#[test]
fn a_run_predicts_mixes_and_advises_a_load() {
    let folder = folder(TRAVELLING);
    finished(TRAVELLING, folder.path(), "out");
    let predict = |vary: &[&str]| json(&run(&[&["predict", "out", "--json"], vary].concat(), folder.path()));
    let varied = predict(&["--vary", "writes.clients=0,2,4"]);
    assert_eq!(items(&varied["mixes"]).len(), 3);
    for mix in items(&varied["mixes"]) {
        let reads = &mix["workloads"][0];
        let value = |figure: &str| reads[figure]["value"].as_f64().unwrap_or_else(|| panic!("no {figure}: {mix}"));
        let [per_s, ms] = ["throughput_per_s", "response_ms"].map(value);
        assert!(ms >= 5.0, "a request travels for 5 ms: {mix}");
        let clients = per_s * ms / 1e3;
        assert!((7.0..8.2).contains(&clients), "its eight clients wait for answers nearly always: {mix}");
    }
    let measured = predict(&[]);
    assert_eq!(items(&measured["mixes"]).len(), 2);
    for one in items(&measured["mixes"]).iter().flat_map(|mix| items(&mix["workloads"])) {
        let of = |one: &Value| one["response_ms"]["value"].as_f64().unwrap();
        let ratio = of(one) / of(&one["measured"]);
        assert!((0.33..3.0).contains(&ratio), "{one}");
    }
    let text = printed(&run(&["predict", "out", "--model", "des"], folder.path()));
    assert!(text.contains("used to adjust the model"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    let advise = ["advise", "out", "--slo", "reads.p95 < 100s", "--vary", "writes.clients=1..4"];
    let text = printed(&run(&[&advise[..], &["--write", "plimsoll.toml"]].concat(), folder.path()));
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("writes.clients=4 keeps reads.p95 < 100s"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with(['>', '+'])).collect();
    let rates: Vec<f64> = rows.iter().map(|row| per_s(row)).collect();
    assert!(rates.len() == 4 && rates.is_sorted() && rows[3].starts_with('>'), "{text}");
    let checked = run(&["govern", "--check", "--config", "plimsoll.toml"], folder.path());
    assert_ended(&checked, 0);
    refused(&[&advise[..], &["--write", "plimsoll.toml"]].concat(), folder.path(), "name a file that does not exist");
    // No request is faster than a fiftieth of its round trip.
    let broken = run(&["advise", "out", "--slo", "reads.p95 < 100us", "--vary", "writes.clients=1..4"], folder.path());
    assert_ended(&broken, 1);
    assert!(printed(&broken).contains("4 break it"), "{}", printed(&broken));
    refused(&["advise", "out", "--slo", "readers.p95 < 1s"], folder.path(), "did you mean `reads`?");
    refused(&["predict", "out", "--vary", "mpl=0..50"], folder.path(), "these can be varied: `reads.clients`");
}

/// The rate with which a row of a table ends, as in `3.55 M/s`.
fn per_s(row: &str) -> f64 {
    let words: Vec<&str> = row.split_whitespace().collect();
    let [.., value, unit] = words[..] else { panic!("{row}") };
    let factor = match unit {
        "/s" => 1.0,
        "k/s" => 1e3,
        "M/s" => 1e6,
        _ => panic!("{row}"),
    };
    value.parse::<f64>().unwrap() * factor
}

/// The advised value is measured on the same target, in a separate folder, and kept with the run.
#[test]
fn advice_is_verified_by_an_experiment_of_its_own() {
    let folder = folder(TRAVELLING);
    finished(TRAVELLING, folder.path(), "out");
    let advise = ["advise", "out", "--slo", "reads.p95 < 100s", "--vary", "writes.clients=1..2", "--verify"];
    let output = run(&advise, folder.path());
    let text = printed(&output);
    let (advised, _) = text.split_once(' ').unwrap();
    let [one, two] = ["writes.clients=1", "writes.clients=2"];
    let neighbour = if advised == one { two } else { one };
    let measured = format!("Measured, {advised} keeps reads.p95 < 100s; its neighbour {neighbour} keeps");
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(&measured), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(said(&output).contains(&format!("verifying {advised} and {neighbour}")), "{}", said(&output));
    let read = |file: &str| -> Value { serde_json::from_slice(&fs::read(folder.path().join(file)).unwrap()).unwrap() };
    let results = read("out/results.json");
    assert_eq!(results["verified"]["settings"][0]["verdict"], "holds", "{}", results["verified"]);
    assert_eq!(items(&read("out/verify/results.json")["claims"]).len(), 2);
    assert!(fs::read_to_string(folder.path().join("out/report.html")).unwrap().contains("Advice, measured"));
    refused(&advise, folder.path(), "move that folder away first");
    // A workload whose file is gone since.
    fs::rename(folder.path().join("out/verify"), folder.path().join("verified")).unwrap();
    let mut lost = results;
    let text = lost["experiment"]["text"].as_str().unwrap().replacen("kind = \"rows\"", "kind = \"file:gone.toml\"", 1);
    lost["experiment"]["text"] = text.into();
    fs::write(folder.path().join("out/results.json"), lost.to_string()).unwrap();
    refused(&advise, folder.path(), "the run cannot be made again");
}

#[test]
fn a_claim_that_fails_ends_with_1() {
    let claims = r#"
[[claim]]
text = "Something is served"
holds = "throughput(rows) > 0"

[[claim]]
text = "A request takes no time at all"
holds = "mean(rows) < 0"
published = "0 (SI 1.1)"
"#;
    let folder = folder(&format!("{SMALL}{claims}"));
    let output = run(&["run", "experiment.toml"], folder.path());
    assert_ended(&output, 1);
    let text = printed(&output);
    assert!(text.contains("holds       Something is served"), "{text}");
    assert!(text.contains("FAILS       A request takes no time at all") && text.contains("0 (SI 1.1)"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let places = names(&folder.path().join("runs"));
    assert!(places.len() == 1 && places[0].starts_with("small-2"), "a folder by name and time: {places:?}");
}

/// A claim that is clear on the noisiest machine is decided at the first look; one at the exact mean of the previous run
/// continues up to the limit. If it is undecided then, that is reported, but is not a failure.
#[test]
fn it_runs_on_until_its_claims_are_decided_or_a_limit_is_reached() {
    let with = |holds: &str| folder(&format!("{SMALL}[[claim]]\ntext = \"t\"\nholds = \"{holds}\"\n"));
    let until = ["run", "experiment.toml", "--out", "out", "--json", "--until-decided", "--blocks-max", "4"];
    let clear = json(&run(&until, with("throughput(rows) > -1000000000").path()));
    assert_eq!((items(&clear["points"]).len(), &clear["claims"][0]["verdict"]), (2, &"holds".into()));

    let mean = clear["estimates"][0]["throughput_per_s"]["value"].as_f64().unwrap();
    let close = with(&format!("throughput(rows) > {mean}"));
    let output = run(&until, close.path());
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!((2..=4).contains(&items(&results["points"]).len()), "{}", results["points"]);
    let verdict = results["claims"][0]["verdict"].as_str().unwrap();
    assert_ended(&output, i32::from(verdict == "fails"));
    assert_eq!(said(&output).contains("1 claim is undecided"), verdict == "undecided", "{}", said(&output));

    let refused = run(&["run", "experiment.toml", "--until-decided", "--blocks-max", "1"], close.path());
    assert_ended(&refused, 2);
    assert!(said(&refused).contains("--until-decided: 1 blocks are fewer than the 2"), "{}", said(&refused));
}

#[test]
fn a_part_of_it_can_be_run() {
    let folder = folder(MIXED);
    let only = "reads.clients=2,together";
    let results = json(&run(&["run", "experiment.toml", "--out", "out", "--only", only, "--json"], folder.path()));
    let expect = [("2 \"together\" 1 false".to_owned(), 1), ("2 \"together\" 2 false".to_owned(), 1)];
    assert_eq!(runs(&results), expect.into());
    assert_eq!(results["claims"][0]["verdict"], "not_judged", "what was not run decides nothing");
    let resumed = json(&run(&["run", "--resume", "out", "--json"], folder.path()));
    assert_eq!(runs(&resumed), runs(&results), "still the same part");
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    let folder = folder(MIXED);
    fs::create_dir(folder.path().join("full")).unwrap();
    fs::write(folder.path().join("full/thesis.tex"), "").unwrap();
    let many = MIXED.replace("[1, 2]", "\"1..100000\"").replace("repeats = 2", "repeats = 10");
    let before = names(folder.path());
    for (text, arguments, expect) in [
        (MIXED.replace("[[claim]]", "[[claim]"), "", "experiment.toml:24:9: unclosed array table, expected `]`"),
        (
            MIXED.replace("measure", "mesure"),
            "",
            "experiment.toml:21:1: there is no key `mesure` in [run] (did you mean `measure`?)",
        ),
        (
            MIXED.replace("\"reads.clients\"", "mpl"),
            "",
            "experiment.toml:17:1: there is no control for `mpl` in this version; the following can be swept",
        ),
        (MIXED.replace("together)", "toghether)"), "", "experiment.toml:26:28: `toghether`"),
        (MIXED.replace("repeats = 2", "repeats = 0"), "", "experiment.toml:22:11: 0 repeats run nothing; write 1 or"),
        (many, "", "3000030 runs, about 4 days without loading; use --yes to run it anyway"),
        (MIXED.to_owned(), "--out full", "full exists and is not empty; name another folder with --out"),
        (MIXED.to_owned(), "--only nonsense", "--only nonsense: there is no such point; the arms are `alone:reads`"),
        (MIXED.to_owned(), "--only reads.clients=3", "`reads.clients` is one of 1, 2"),
    ] {
        fs::write(folder.path().join("experiment.toml"), text).unwrap();
        let arguments: Vec<&str> = ["run", "experiment.toml"].into_iter().chain(arguments.split_whitespace()).collect();
        refused(&arguments, folder.path(), expect);
        assert_eq!(names(folder.path()), before, "{expect}");
    }
    refused(&["run", "nothing.toml"], folder.path(), "nothing.toml: No such file or directory (os error 2); name an");
    refused(&["run"], folder.path(), "EXPERIMENT.toml");
    refused(&["run", "experiment.toml", "--resume", "full"], folder.path(), "cannot be used with");
    assert_eq!(names(&folder.path().join("full")), ["thesis.tex"]);
}

#[test]
fn two_runs_are_compared_if_they_ran_the_same() {
    let folder = folder(SMALL);
    for (place, text) in [
        ("base", SMALL.to_owned()),
        ("other", SMALL.replace("[run]", "[target]\noptions = { lock_policy = \"nprio\" }\n\n[run]")),
        ("larger", SMALL.replace("0.001", "0.002")),
    ] {
        finished(&text, folder.path(), place);
    }
    let compared = json(&run(&["compare", "base", "other", "--json"], folder.path()));
    assert_eq!(items(&compared["points"]).len(), 1);
    assert!(compared["points"][0]["throughput"]["value"].as_f64().unwrap() > 0.0, "{compared}");
    assert_eq!(compared["differences"][0], "target.lock_policy: \"standard\" -> \"nprio\"");
    let text = printed(&run(&["compare", "base", "other"], folder.path()));
    assert!(text.contains("1 point") && text.contains("settings differ: target.lock_policy"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    refused(&["compare", "base", "larger"], folder.path(), "rows.scale: 0.001 -> 0.002");
    refused(&["compare", "base", "larger"], folder.path(), "use --anyway");
    assert_ended(&run(&["compare", "base", "larger", "--anyway"], folder.path()), 0);
    refused(&["compare", "base", "nowhere"], folder.path(), "nowhere is not a run directory");
}

#[test]
fn a_cache_is_simulated_from_its_file_to_its_results() {
    let folder = folder(SIMULATED);
    let output = run(&["simulate", "experiment.toml", "--out", "out", "--json"], folder.path());
    let results = json(&output);
    assert_eq!(results["mode"], "simulated");
    assert_eq!(items(&results["points"]).len(), 18);
    assert_eq!(results["claims"][0]["verdict"], "holds", "{}", results["claims"]);
    assert!(said(&output).contains("corner: 18 runs, about 0 s simulated by one core"), "{}", said(&output));
    assert_eq!(names(&folder.path().join("out")), FILES);
    // Equal files have equal results, whichever command makes them.
    let again = json(&run(&["run", "experiment.toml", "--out", "again", "--json"], folder.path()));
    assert_eq!(again["estimates"], results["estimates"]);
    assert_ended(&run(&["compare", "out", "again"], folder.path()), 0);

    let write = |text: &str| fs::write(folder.path().join("experiment.toml"), text).unwrap();
    write(&SIMULATED.replace("\"0x3\"]", "\"0x5\"]"));
    refused(&["simulate", "experiment.toml"], folder.path(), "experiment.toml:18:23: the mask 0x5 of scan has holes");
    write(&SIMULATED.replace("references = 50_000", "references = 1_000_000_000_000"));
    refused(&["simulate", "experiment.toml"], folder.path(), "references take longer than an hour");
    write(SMALL);
    refused(&["simulate", "experiment.toml"], folder.path(), "its target is a database; run it by `plimsoll run`");
    finished(SMALL, folder.path(), "measured");
    refused(&["compare", "out", "measured", "--anyway"], folder.path(), "one of the two was measured");
}

#[test]
fn reports_are_written_anew() {
    let folder = folder(SMALL);
    let report = folder.path().join("a/report.html");
    let title = |name: &str| SMALL.replace("name = \"small\"", &format!("name = \"{name}\""));
    finished(&title("first"), folder.path(), "a");
    finished(&title("second"), folder.path(), "b");
    let whole = fs::read_to_string(&report).unwrap();
    assert!(whole.starts_with("<!DOCTYPE html>") && whole.contains("first"), "{whole}");
    fs::write(&report, "").unwrap();
    let output = run(&["report", "a"], folder.path());
    assert_ended(&output, 0);
    assert_eq!(printed(&output), "a/report.html\n");
    assert_eq!(fs::read_to_string(&report).unwrap(), whole);

    refused(&["report", "a", "b"], folder.path(), "several runs need --out FILE");
    assert_ended(&run(&["report", "a", "b", "--out", "both.html"], folder.path()), 0);
    let both = fs::read_to_string(folder.path().join("both.html")).unwrap();
    assert!(both.contains("first") && both.contains("second"), "{both}");
    refused(&["report", "nowhere"], folder.path(), "nowhere is not a run directory");
}

/// The plan of a sitting is told before it begins, and stands in the document; what does not fit is left.
#[test]
fn a_sitting_tells_its_plan_and_leaves_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let sit = ["reproduce", "--undecided", "--budget", "0s", "--json"];
    let output = run(&sit, folder.path());
    assert_ended(&output, 0);
    let document = json(&output);
    assert_eq!((&document["plan"]["minutes"], items(&document["ran"]).len()), (&0.0.into(), 0));
    let left = items(&document["left"]);
    assert!(!left.is_empty() && items(&document["plan"]["leaves"]).len() == left.len(), "{document}");
    for candidate in left {
        assert!(candidate["claims"].as_u64() > Some(0) && candidate["minutes"].as_f64() > Some(0.0), "{candidate}");
    }
    let told = said(&output);
    assert!(told.contains(&format!("0 of {} exhibits in 0 min:", left.len())), "{told}");
    assert!(told.contains("written: runs/reproduce/reproduction.md"), "a folder that the next sitting finds: {told}");
    let page = fs::read_to_string(folder.path().join("runs/reproduce/reproduction.md")).unwrap();
    assert!(page.contains("### SR-fig2-cores: "), "it begins with the runs of the page");
    refused(&["reproduce", "--budget", "5"], folder.path(), "`5` is not a length of time");
    refused(&["reproduce", "--budget", "5m", "--page", "out"], folder.path(), "cannot be used with");
}

#[test]
fn an_exhibit_is_put_beside_what_was_published_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let reproduce = ["reproduce", "SI-5.3-projection", "--quick", "--out", "out"];
    let output = run(&reproduce, folder.path());
    assert!([Some(0), Some(1)].contains(&output.status.code()), "its claims hold or not: {}", said(&output));
    let text = printed(&output);
    for expect in ["SI-5.3-projection: ", "published: ", "out/SI-5.3-projection", " hold, ", "1 published figures: "] {
        assert!(text.contains(expect), "{text}");
    }
    let failed = text.contains("  FAILS ");
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{text}");
    assert_eq!(names(&folder.path().join("out/SI-5.3-projection")), FILES);
    let lock = fs::read_to_string(folder.path().join("out/claims.lock")).unwrap();
    assert!(lock.contains("\"A second core helps the widest projection\" = "), "{lock}");

    let page = folder.path().join("out/reproduction.md");
    let whole = fs::read_to_string(&page).unwrap();
    assert!(whole.contains("### SI-5.3-projection: ") && whole.contains(", scale 0.1, 5 x "), "{whole}");
    fs::remove_file(&page).unwrap();
    assert_ended(&run(&["reproduce", "--page", "out"], folder.path()), 0);
    assert_eq!(fs::read_to_string(&page).unwrap(), whole);

    // Finished exhibits are not run again, and show the same results.
    let results = fs::read(folder.path().join("out/SI-5.3-projection/results.json")).unwrap();
    let output = run(&reproduce, folder.path());
    assert!(said(&output).contains("SI-5.3-projection: was run before, kept"), "{}", said(&output));
    assert_eq!(printed(&output), text);
    assert_eq!(fs::read(folder.path().join("out/SI-5.3-projection/results.json")).unwrap(), results);

    refused(&["reproduce", "SI-5.3-projection", "--out", "out"], folder.path(), "it was run with other settings");
    refused(&["reproduce", "--page", "nowhere"], folder.path(), "it has no runs of exhibits");
    refused(&["reproduce", "SI-9.9"], folder.path(), "there is no study or experiment `SI-9.9`; that study has SI-");
    refused(&["reproduce", "SI-9.9"], folder.path(), "SI-5.3-projection");
}
