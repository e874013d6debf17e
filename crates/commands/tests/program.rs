//! `plimsoll-governor` as a user runs it. What its commands do is tested with those of `plimsoll`, which are the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll-governor")).args(arguments).current_dir(folder).output().unwrap()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn it_has_the_commands_for_a_live_server_and_describes_itself() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        printed(&run(&["man", "pages"], folder.path())),
        "pages: read them with `man -l pages/plimsoll-governor.1`\n"
    );
    let pages = std::fs::read_dir(folder.path().join("pages")).unwrap();
    let mut pages: Vec<String> = pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    pages.sort_unstable();
    let page = |command: &str| format!("plimsoll-governor{command}.1");
    assert_eq!(pages, ["-completions", "-govern", "-man", "-observe", "-top", ""].map(page));
    assert!(printed(&run(&["completions", "bash"], folder.path())).contains("plimsoll-governor"));
}

#[test]
fn its_exit_codes_are_those_of_plimsoll() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code, expect) in [
        (&["study"][..], 2, "unrecognized subcommand"),
        (&["govern", "--config", "none.toml"], 2, "none.toml"),
        (&["observe", "mysql://db/shop"], 2, "postgres://"),
        (&["top", "http://127.0.0.1:1", "--once"], 3, "no governor answers"),
    ] {
        let output = run(arguments, folder.path());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains(expect), "{told}");
    }
    assert!(folder.path().read_dir().unwrap().next().is_none());
}
