//! The governor's benefit for important reads on a slow disk: point reads of a table that exceeds memory, beside scans
//! of the same table.
//!
//! The server has 400 MiB of memory for 1.3 GB of table, and a disk of 125 MB/s, like many rented volumes; control
//! groups set both limits. High priority reads 200 rows per second, each by its key, with 4 clients on a fixed schedule
//! (`pgbench --rate`, response time from the moment at which a read was due). Low priority scans 32 MB at a time with 4
//! clients. Alternating rounds measure: reads alone and with scans, without a governor; the same through a governor
//! with CPU shares and one scan at a time; and with control groups for scans, which may read 65 of the 125 MB/s and get
//! only otherwise idle cores (`cpu.idle`). The kernel's version 1 limits groups independently of each other, so all
//! other processes then have 60 MB/s. The last run has a governor that creates a group itself and limits scans by its
//! own policy (`disk = "yields"`, the default, which the other runs turn off).
//!
//! `cargo bench -p plimsoll-governor --bench slow_disk`, with `-- --rounds 5 --seconds 15` to change the defaults. It
//! needs root and version 1 of control groups with `blkio`, `cpu` and `memory`.
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

#[path = "slow_disk/groups.rs"]
mod groups;
#[path = "slow_disk/stage.rs"]
mod stage;

use std::path::Path;

use stage::{Measured, Stage};

/// The path to the server, and the means to help high priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Direct,
    Governed,
    WithGroups,
    Limiting,
}

/// The runs to compare, with their names.
const RUNS: [(&str, Way, bool); 6] = [
    ("reads alone", Way::Direct, false),
    ("reads alone, governed", Way::Governed, false),
    ("with scans", Way::Direct, true),
    ("with scans, governed", Way::Governed, true),
    ("with scans, governed, scans in groups", Way::WithGroups, true),
    ("with scans, governed, limited by it", Way::Limiting, true),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--govern") {
        stage::end_with_parent();
        plimsoll_governor::run::govern(Path::new(&arguments[at + 1]), false).unwrap();
        return;
    }
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<usize>().ok()
    };
    let (rounds, seconds) = (number("--rounds").unwrap_or(3), number("--seconds").unwrap_or(15));
    let stage = match Stage::set() {
        Ok(stage) => stage,
        Err(why) => return println!("not measured: {why}"),
    };
    let mut measured: Vec<Vec<Measured>> = vec![Vec::new(); RUNS.len()];
    for round in 0..rounds {
        for place in 0..RUNS.len() {
            // Each run takes each place in turn, so that none always follows the same other run.
            let place = (place + round) % RUNS.len();
            let (name, way, has_scans) = RUNS[place];
            eprintln!("round {} of {rounds}: {name}", round + 1);
            measured[place].push(stage.measure(way, has_scans, seconds));
        }
    }
    println!("{:40} {:>26} {:>9} {:>22}", "", "p95 of reads, ms", "p50, ms", "scans, MB/s");
    for ((name, _, _), rounds) in RUNS.iter().zip(&measured) {
        let of = |value: fn(&Measured) -> f64| middle(rounds.iter().map(value).collect());
        let range = |(least, median, most): (f64, f64, f64)| format!("{median:.1} ({least:.1} to {most:.1})");
        let (p95, p50, scans) = (of(|m| m.p95_ms), of(|m| m.p50_ms), of(|m| m.scans_mb_s));
        println!("{name:40} {:>26} {:>9.1} {:>22}", range(p95), p50.1, range(scans));
    }
}

/// The minimum, the median and the maximum.
fn middle(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[0], values[values.len() / 2], values[values.len() - 1])
}
