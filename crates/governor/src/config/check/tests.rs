//! What the check says of valid files and of others.

use super::*;
use crate::testing::settings_file;

const START: &str = "server = \"postgres://db.example:5433\"\n";

#[test]
fn a_file_for_the_path_can_be_checked_for_beside() {
    let text = "server = \"postgres://u@db.example\"\ncontrol = \"postgres://plimsoll@db.example\"\n";
    let (_folder, file) = settings_file(text);
    let told = |is_beside| check(&file, false, is_beside).unwrap().to_string();
    assert!(!told(false).contains("beside the server"));
    let beside = told(true);
    assert!(beside.contains("none: the governor works beside the server"), "{beside}");
    assert!(beside.contains("console at") && beside.contains("counted only"), "{beside}");
}

#[test]
fn the_check_tells_which_class_is_confined() {
    let told = |low: &str| {
        let (_folder, path) = settings_file(&format!(
            "{START}control = \"postgres://plimsoll@db\"\n[[class]]\nname = \"high\"\npriority = \"high\"\n\
             [[class]]\nname = \"low\"\npriority = \"low\"\n{low}\n"
        ));
        let levers = check(&path, false, false).unwrap().levers;
        levers.into_iter().find(|(name, _)| *name == "cache").expect("a lever").1
    };
    assert_eq!(told(""), "off: every class may fill all of it");
    assert_eq!(told("cache = \"polluting\""), "confines low to polluting, where the processor shares out its cache");
}

/// The connection was not tried while the file had any fault, so a second round was needed.
#[test]
fn the_server_is_tried_although_the_file_has_faults() {
    let text = "server = \"postgres://a@127.0.0.1:1?sslmode=disable\"\n[admission]\nmpl = \"many\"\n";
    let (_folder, file) = settings_file(text);
    let error = check(&file, true, false).expect_err("the file is wrong");
    let probes = error.connection.as_deref().unwrap_or_default();
    assert!(probes.iter().any(|probe| probe.what == "server" && !probe.is_good), "{error}");
    let told = error.to_string();
    assert!(told.contains("plimsoll.toml:3:7: ") && told.contains("\nFAILED: server: "), "{told}");
    assert!(check(&file, false, false).expect_err("the file is wrong").connection.is_none());
}

#[test]
fn control_groups_that_are_not_there_are_a_warning_of_the_check() {
    let class = "[[class]]\nname = \"low\"\npriority = \"low\"\ncontrol_groups = [\"/none/reports\"]\n";
    let (_folder, file) = settings_file(&format!("{START}{class}"));
    let report = check(&file, false, false).unwrap_or_else(|error| panic!("{error}"));
    let expect = "class `low`: /none/reports is not a control group";
    assert!(report.warnings.iter().any(|warning| warning.starts_with(expect)), "{:?}", report.warnings);
    assert!(
        report.levers.iter().any(|(name, what)| *name == "control groups" && what.starts_with("off: no `control`"))
    );
}

#[test]
fn rules_that_one_session_can_match_both_are_shown() {
    let rules = "[[rule]]\nclass = \"high\"\nuser = \"shop\"\n[[rule]]\nclass = \"low\"\napplication_name = \"report*\"\n\
                 [[rule]]\nclass = \"low\"\nuser = \"batch\"\n";
    let (_folder, file) = settings_file(&format!("{START}{rules}"));
    let report = check(&file, false, false).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.overlaps, ["sessions that match rules 1 and 2 get high, the class of rule 1"]);
}

#[test]
fn a_check_fits_a_terminal() {
    let report =
        check(Path::new("../../docs/examples/plimsoll.toml"), false, false).unwrap_or_else(|error| panic!("{error}"));
    let text = report.to_string();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for part in [
        "plimsoll.toml: no problems found",
        "user shop -> high",
        "all others -> low",
        "counts only (policy track)",
        "if replayed",
        "sessions that match rules 1 and 2 get high",
        "control groups off: no class has `control_groups`",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    assert!(report.is_good() && serde_json::to_value(&report).is_ok_and(|json| json["connection"].is_null()));
}
