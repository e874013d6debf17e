//! The crates of a governor do without the lab: no benchmark, no engine, and none of the large crates below them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

/// What `plimsoll-governor` is made of.
const WING: [&str; 7] = [
    "plimsoll-capture",
    "plimsoll-commands",
    "plimsoll-governor",
    "plimsoll-observe",
    "plimsoll-pg",
    "plimsoll-policy",
    "plimsoll-settings",
];

/// The beginnings of the names of crates that none of these may reach.
const LAB: [&str; 11] = [
    "arrow",
    "datafusion",
    "object_store",
    "parquet",
    "plimsoll-engine",
    "plimsoll-export",
    "plimsoll-lab",
    "plimsoll-model",
    "plimsoll-workload",
    "sqlparser",
    "tpchgen",
];

/// Which crates of the lab a crate links.
fn reached(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--package",
            package,
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with(package) && told.lines().count() > 10, "{told}");
    let is_of_lab = |name: &&str| LAB.iter().any(|beginning| name.starts_with(beginning));
    told.lines().filter_map(|line| line.split(' ').next()).filter(is_of_lab).map(str::to_owned).collect()
}

#[test]
fn a_governor_links_nothing_of_the_lab() {
    for package in WING {
        assert_eq!(reached(package), Vec::<String>::new(), "{package}");
    }
    // The names are right: the large program links a crate of each.
    let all = reached("plimsoll");
    for beginning in LAB {
        assert!(all.iter().any(|name| name.starts_with(beginning)), "{beginning}: {all:?}");
    }
}
