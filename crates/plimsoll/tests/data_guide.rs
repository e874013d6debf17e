//! Compares the description of a run's files in `docs/data.md` with a run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_testing::python;
use program::{assert_ended, json, names, run};

fn root() -> PathBuf {
    Path::new("../..").canonicalize().unwrap()
}

/// The experiment that the guide's blocks are about.
fn experiment(guide: &str) -> &str {
    guide
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("the guide begins with an experiment")
}

#[test]
fn the_guide_to_the_data_works() {
    let guide = root().join("docs/data.md");
    let text = fs::read_to_string(&guide).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("readers.toml"), experiment(&text)).unwrap();
    json(&run(&["run", "readers.toml", "--quick", "--out", "out", "--json"], folder.path()));

    let out = folder.path().join("out");
    for name in names(&out) {
        assert!(text.contains(&format!("\n| `{name}` | ")), "the guide does not say what {name} is");
    }
    let script = Path::new("tests/data_guide.py");
    let output = Command::new(python()).args([script, &guide, &out]).arg("reads.clients").output().unwrap();
    assert_ended(&output, 0);
}
