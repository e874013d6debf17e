//! The machine in experiment files: `[machine]`, its keys in sweeps, keys joined by `+`, and the word `cores`.

use plimsoll_machine::host::Host;

use super::{Paper, refused, with};
use crate::experiment::{Cores, Terms, parse, resolve};
use crate::plan::{Plan, Setting};

/// The plan of a text on a machine of 16 cores.
fn resolved(text: &str, cores: Cores, quick: bool) -> Result<Plan, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder above")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    file("sys/devices/system/cpu/online", "0-15\n");
    file("proc/meminfo", "MemTotal: 1048576 kB\n");
    let terms = Terms { targets: &Paper, host: Host::at(folder.path()), cores, quick, others_max: None };
    parse(text, "x.toml").and_then(|experiment| resolve(&experiment, &terms)).map_err(|error| error.to_string())
}

/// A machine of 16 cores, and an experiment of the default size.
fn usual() -> Cores {
    Cores::usual(16)
}

/// Limits of a setting and then its degree of parallelism and its clients, if they are not the default.
fn told(setting: &Setting) -> String {
    let limits = setting.limits.iter().map(|(name, amount)| format!("{name}={amount}"));
    let dop = setting.options.get("dop").map(|dop| format!("dop={dop}"));
    let clients = setting.workloads[0].clients.clients;
    let clients = (clients != 1).then(|| format!("clients={clients}"));
    limits.chain(dop).chain(clients).collect::<Vec<_>>().join(" ")
}

/// Each setting of an experiment, in order.
fn check(more: &str, cores: Cores, expect: &[&str]) {
    let plan = resolved(&with(more), cores, false).unwrap_or_else(|error| panic!("{more}\n{error}"));
    assert_eq!(plan.settings().map(|setting| told(&setting)).collect::<Vec<_>>(), expect, "{more}");
}

#[test]
fn limits_hold_at_every_setting_and_can_be_swept() {
    let check = |more: &str, expect: &[&str]| check(more, usual(), expect);
    check("", &[""]);
    check("[machine]\ncores = 4", &["cores=4"]);
    check("[machine]\ncores = \"0-3,8\"\nnice = -5\nhog = \"cpu:1\"", &["cores=0-3,8 hog=cpu:1 nice=-5"]);
    check("[machine]\nllc_mib = 2.5\nmemory_mib = 512", &["llc_mib=2.5 memory_mib=512"]);
    check("[machine]\nwrite_mb_s = \"unlimited\"", &[""]);
    check(
        "[machine]\nhuge_pages = \"never\"\n[sweep]\ncores = [1, 2]",
        &["cores=1 huge_pages=never", "cores=2 huge_pages=never"],
    );
    // A swept value overrides a fixed one, and may lift it.
    check("[machine]\nwrite_mb_s = 10\n[sweep]\nwrite_mb_s = [5, \"unlimited\"]", &["write_mb_s=5", ""]);
    check("[sweep]\n\"machine.cores\" = [1, 2]", &["cores=1", "cores=2"]);
    check("[sweep]\nhog = [\"none\", \"disk:50\"]", &["hog=none", "hog=disk:50"]);
}

#[test]
fn keys_joined_by_plus_get_the_same_value() {
    let check = |more: &str, expect: &[&str]| check(more, usual(), expect);
    check("[sweep]\n\"cores+dop\" = [1, 4]", &["cores=1 dop=1", "cores=4 dop=4"]);
    check("[sweep]\n\"machine.cores + target.dop + tpcc.clients\" = [2]", &["cores=2 dop=2 clients=2"]);
    check(
        "[sweep]\n\"cores+dop\" = \"1..2\"\nclients = [3, 5]",
        &["cores=1 dop=1 clients=3", "cores=1 dop=1 clients=5", "cores=2 dop=2 clients=3", "cores=2 dop=2 clients=5"],
    );
    check(
        "[machine]\ncpu_weight = 50\n[sweep]\n\"read_mb_s+write_mb_s\" = [10, \"unlimited\"]",
        &["cpu_weight=50 read_mb_s=10 write_mb_s=10", "cpu_weight=50"],
    );
}

#[test]
fn the_word_cores_is_the_size_of_the_experiment() {
    let asked = |count| Cores::asked(count, 16).expect("there are as many");
    // Two by default; the experiment is then confined to them, because the others must not be used.
    check("clients = \"cores\"", usual(), &["cores=2 clients=2"]);
    check("[target]\noptions = { dop = \"cores\" }", usual(), &["cores=2 dop=2"]);
    check("[machine]\ncores = \"cores\"", asked(8), &["cores=8"]);
    check("[sweep]\ncores = \"1..cores by x2\"", asked(8), &["cores=1", "cores=2", "cores=4", "cores=8"]);
    check("[sweep]\n\"cores+dop\" = [1, \"cores\"]", asked(4), &["cores=1 dop=1", "cores=4 dop=4"]);
    check("[sweep]\nclients = [1, \"cores\"]", asked(4), &["cores=4", "cores=4 clients=4"]);
    // The file's own number of cores takes precedence.
    check("clients = \"cores\"\n[machine]\ncores = 1", asked(4), &["cores=1 clients=4"]);
    // A given number, without the word; with all cores nothing is confined.
    check("", asked(4), &["cores=4"]);
    check("clients = \"cores\"", asked(16), &["clients=16"]);
    check("clients = \"cores\"", Cores::usual(2), &["clients=2"]);
}

#[test]
fn the_short_form_has_limits_and_cores_too() {
    let text = with(
        "[machine]\nwrite_mb_s = 10\n[sweep]\n\"cores+dop\" = \"1..cores\"\n[quick.set]\n\"machine.write_mb_s\" = 5\n\
         [quick.sweep]\n\"cores+dop\" = [\"cores\"]",
    );
    let settings = |quick| {
        let plan = resolved(&text, Cores::asked(3, 16).expect("there are as many"), quick).expect("it can be run");
        plan.settings().map(|setting| told(&setting)).collect::<Vec<_>>()
    };
    assert_eq!(settings(true), ["cores=3 write_mb_s=5 dop=3"]);
    assert_eq!(
        settings(false),
        ["cores=1 write_mb_s=10 dop=1", "cores=2 write_mb_s=10 dop=2", "cores=3 write_mb_s=10 dop=3"]
    );
}

#[test]
fn limits_that_cannot_be_are_refused_with_their_place() {
    let check = |more: &str, place: &str, expect: &str| {
        refused::check_fault(&resolved(&with(more), usual(), false).expect_err(more), place, expect);
    };
    check("[machine]\ncors = 1", "5:1", "the machine has no limit `cors` (did you mean `cores`?)");
    check("[machine]\ncores = 17", "5:9", "at most 16 cores");
    check("[machine]\ncores = 1.5", "5:9", "a whole number");
    check("[machine]\ncores = \"0-\"", "5:9", "a number or a list such as 0-3,8");
    check("[machine]\ncores = \"15-16\"", "5:9", "core 16 is not usable; usable are 0-15");
    check("[machine]\ncores = \"kores\"", "5:9", "a number or a list");
    check("[machine]\nmemory_mib = 2048", "5:14", "at most 1024 MiB");
    check("[machine]\nhog = \"cow:3\"", "5:7", "`cow:3` is not a hog");
    check("[machine]\nllc_mib = 0", "5:11", "a number of MiB above 0");
    check("[sweep]\ncores = [1, 0]", "5:13", "`cores`: cores cannot be 0: it is at least 1");
    check("[sweep]\ncores = [2, \"cores\"]", "5:13", "swept to 2 twice");
    check("[sweep]\n\"machine.cors\" = [1]", "5:1", "there is no `machine.cors` here");
    check("[sweep]\n\"cores+cores\" = [1]", "5:1", "`cores+cores` names a key twice");
    check("[sweep]\n\"cores+machine.cores\" = [1]", "5:1", "names a key twice");
    check("[sweep]\n\"cores+dpo\" = [1]", "5:1", "there is no `dpo` here (did you mean `dop`?)");
    check("[sweep]\n\"cores+\" = [1]", "5:1", "there is no `` here");
    check("[sweep]\n\"cores+dop\" = [1, 17]", "5:19", "at most 16 cores");
    check("[sweep]\n\"cores+dop\" = [1]\ndop = [2]", "6:1", "`dop` is the same as `cores+dop`");
    check("[sweep]\n\"cores+dop\" = [1]\n[quick.set]\ndop = 1", "7:1", "`dop` is swept");
    check("[quick.set]\n\"cores+cores\" = 1", "5:1", "names a key twice");
}

#[test]
fn what_is_wrong_with_several_values_of_a_range_is_one_fault() {
    let error = resolved(&with("[sweep]\ncores = \"1..99\""), usual(), false).expect_err("16 cores");
    assert_eq!(error.matches("x.toml:").count(), 1, "{error}");
    assert!(
        error.contains("`cores`: ") && error.contains("17") && error.contains("(and 82 more of its values)"),
        "{error}"
    );
    let error = resolved(&with("[sweep]\ncores = [2, 17, 18]"), usual(), false).expect_err("16 cores");
    assert_eq!(error.matches("x.toml:").count(), 2, "each value of a list has its place: {error}");
}
