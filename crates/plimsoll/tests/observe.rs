//! `plimsoll observe` as a user runs it, where no server is needed; `crates/observe/tests` has those with one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use program::{assert_ended, names, output, run, said};

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("plimsoll.toml");
    std::fs::write(&settings, "").unwrap();
    let check = |arguments: &[&str], expect: &str| {
        let arguments = [&["observe"], arguments].concat();
        let output = run(&arguments, folder.path());
        assert_ended(&output, 2);
        assert!(said(&output).contains(expect), "{}", said(&output));
        assert_eq!(names(folder.path()), ["plimsoll.toml"], "{arguments:?}");
    };
    check(&["mysql://db/shop"], "postgres://");
    check(&["postgres://ann@db/shop", "--seconds", "0"], "--seconds is more than 0");
    check(&["postgres://ann@db/shop", "--write", "plimsoll.toml"], "plimsoll.toml is there already");
    check(&["postgres://ann@db/shop", "--write", "none/plimsoll.toml"], "there is no folder none");
}

/// That the settings could not be written was found after five minutes of observing.
#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_is_observed() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["observe", "postgres://ann@db/shop", "--write", "/proc/plimsoll.toml"], folder.path());
    assert_ended(&output, 3);
    assert!(said(&output).contains("cannot write /proc/plimsoll.toml"), "{}", said(&output));
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_server_that_is_not_there_is_the_worlds_fault_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["observe", "postgres://ann@/shop?host=/nowhere", "--out", "result"], folder.path());
    assert_ended(&output, 3);
    assert!(said(&output).contains("is a server running here"), "{}", said(&output));
    assert!(names(folder.path()).is_empty());
}

#[test]
fn its_help_says_what_it_needs() {
    let output = output(&["observe", "--help"]);
    assert_ended(&output, 0);
    let help = program::printed(&output);
    assert!(help.contains("pg_monitor") && help.lines().all(|line| line.chars().count() <= 80), "{help}");
}
