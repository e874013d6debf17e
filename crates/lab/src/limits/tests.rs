//! The table of limits in the guide matches the existing limits.

use std::collections::BTreeSet;

use plimsoll_machine::hog::HOGS;

use super::*;

/// The rows of the guide's table of limits, without its head.
fn rows() -> Vec<&'static str> {
    let guide = include_str!("../../../../docs/experiments.md");
    let section = guide.split("\n### `machine`").nth(1).expect("a section on the machine");
    let section = section.split("\n### ").next().expect("what comes before the next section");
    section.lines().filter(|line| line.starts_with("| `")).collect()
}

#[test]
fn the_guide_tells_every_limit_as_it_is() {
    let rows = rows();
    for control in CONTROLS {
        let row = format!("| `{}` | {} | {} |", control.key(), control.unit(), control.meaning());
        assert!(rows.contains(&row.as_str()), "docs/experiments.md lacks the row\n{row}");
    }
    let told: BTreeSet<&str> = rows.iter().filter_map(|row| row.split('`').nth(1)).collect();
    assert_eq!(told, names().collect(), "limits of the guide and of the program");
    assert_eq!(rows.len(), told.len(), "a limit is told twice");
}

#[test]
fn the_guide_tells_every_hog() {
    let row = *rows().iter().find(|row| row.starts_with("| `hog`")).expect("checked above");
    let cell = row.split(" | ").nth(1).expect("a unit");
    let told: BTreeSet<String> = cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let kinds = HOGS.iter().map(|kind| format!("{}:{}", kind.key(), kind.unit()));
    assert_eq!(told, kinds.chain(["none".to_owned()]).collect());
}

#[test]
fn amounts_that_make_no_sense_are_refused() {
    let host = Host::at("/no/such/machine");
    let check = |name: &str, value: Value, expect: Option<&str>| {
        let checked = check(&host, name, &amount(&value)).err();
        match (&checked, expect) {
            (None, None) => {}
            (Some(why), Some(expect)) if why.contains(expect) => {}
            _ => panic!("{name} = {value}: expected {expect:?}, found {checked:?}"),
        }
    };
    for name in names() {
        check(name, "unlimited".into(), None);
    }
    check(LLC_MIB, 2.5.into(), None);
    check(LLC_MIB, 0.into(), Some("a number of MiB above 0; this is 0"));
    check(LLC_MIB, "much".into(), Some("this is much"));
    check(HOG, "cpu:1".into(), None);
    check(HOG, "none".into(), None);
    check(HOG, 3.into(), Some("a text as \"cpu:1\""));
    check(HOG, "cow:3".into(), Some("`cow:3` is not a hog: there are cpu:threads, "));
    check(HOG, "cpu:0.5".into(), Some("a whole number of threads"));
    check("write_mb_s", 0.into(), Some("at least 0.1 MB/s"));
    check("nice", 20.into(), Some("at most 19"));
    check("huge_pages", "sometimes".into(), Some("`always`, `madvise` or `never`"));
}
