//! The governor's benefit for important work, and its cost, when clients in closed loops keep every core busy: TPC-B of
//! pgbench, 4 sessions of priority high and 12 of priority low, without think time, over TCP, on the cores of the
//! server.
//!
//! Alternating rounds measure: directly to the server (`direct`), through a governor that uses no lever (`off`),
//! through one with the defaults and a policy that acts (`on`), with one beside the server (`beside`), and with one
//! through which only sessions of priority low come, while those of priority high stay at the server (`split`).
//! `--way NAME`, repeated, measures others of [`WAYS`] instead: through pgbouncer, or `on` without one of its levers. Each run has a governor of
//! its own, which learns during the warm-up, before the window opens.
//!
//! ```text
//! cargo bench -p plimsoll-governor --bench saturated -- --rounds 3 --seconds 5 --warmup 30 --metrics
//! ```
//!
//! `--tags` has 16 sessions, each of whose transactions is high with a probability of a quarter, by a tag; a governor
//! beside a server sees no tags. `--metrics` prints the governor's counts in the windows, per second.
//!
//! Goals: the 95th percentile of high at most half of `direct`'s, and the throughput of both together at least 0.9 of
//! its. Under `cargo test` it runs briefly and checks that all figures are measured.
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

#[path = "../against_pgbouncer/load.rs"]
#[allow(dead_code, reason = "shared with another bench")]
mod load;
#[path = "../against_pgbouncer/proxy.rs"]
#[allow(dead_code, reason = "shared with another bench")]
mod proxy;
#[path = "../against_pgbouncer/report.rs"]
mod report;
#[path = "../against_pgbouncer/server.rs"]
#[allow(dead_code, reason = "shared with another bench")]
mod server;
mod trial;

use std::collections::BTreeMap;
use std::process::ExitCode;

use report::{Table, spread};
use server::Server;
use trial::{Ran, Trial};

/// The paths to the server, and each governor's settings beyond the classes; `None` without a governor. The first five
/// are measured by default.
const WAYS: [(&str, Option<&str>); 10] = [
    ("direct", None),
    ("off", Some(OFF)),
    ("on", Some(ON)),
    ("beside", Some("[mode]\nproxy = false\n[preemption]\npolicy = \"pow\"\n")),
    (SPLIT, Some("[mode]\ndirect_sessions = true\n[preemption]\npolicy = \"pow\"\n")),
    (PGBOUNCER, None),
    ("without-mpl", Some("[preemption]\npolicy = \"pow\"\n[admission]\nauto_mpl = false\n")),
    ("without-shares", Some("[preemption]\npolicy = \"pow\"\n[cpu]\nshares = false\ninheritance = false\n")),
    ("only-shares", Some("[preemption]\npolicy = \"never\"\n")),
    ("only-mpl", Some("[preemption]\npolicy = \"after(60s)\"\n[cpu]\nshares = false\ninheritance = false\n")),
];

/// The path on which sessions of priority high are connected to the server itself.
const SPLIT: &str = "split";

/// The path through pgbouncer, the best peer as a proxy.
const PGBOUNCER: &str = "pgbouncer";

/// The defaults, and a policy that acts.
const ON: &str = "[preemption]\npolicy = \"pow\"\n";

/// No lever.
const OFF: &str = "[preemption]\npolicy = \"never\"\n[admission]\nauto_mpl = false\n[cpu]\nshares = false\ninheritance = false\n\
                   [disk]\nlimits = false\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(ended) = proxy::govern_if_asked(&arguments) {
        return ended;
    }
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let number = |name: &str, otherwise: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(otherwise)
    };
    let trial = Trial {
        warmup_s: number("--warmup", if is_bench { 30 } else { 0 }),
        seconds: number("--seconds", if is_bench { 5 } else { 1 }),
        has_tags: has("--tags"),
    };
    let (rounds, scale) = (number("--rounds", if is_bench { 3 } else { 1 }), number("--scale", 10));
    let asked: Vec<&str> =
        arguments.windows(2).filter(|pair| pair[0] == "--way").map(|pair| pair[1].as_str()).collect();
    let is_wanted = |at: usize, name: &str| if asked.is_empty() { at < 5 } else { at == 0 || asked.contains(&name) };
    let ways: Vec<_> = WAYS.into_iter().enumerate().filter(|(at, way)| is_wanted(*at, way.0)).map(|it| it.1).collect();

    let server = Server::start(50, scale as u32);
    report::print_place();
    let mut ran: Vec<Vec<Ran>> = ways.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds as usize {
        for place in 0..ways.len() {
            // The order changes from round to round, so that a drift of the machine affects all paths equally.
            let way = (place + round) % ways.len();
            let way = if round % 2 == 0 { way } else { ways.len() - 1 - way };
            let (name, settings) = ways[way];
            eprintln!("round {} of {rounds}: {name}", round + 1);
            ran[way].push(trial.run(&server, name, settings));
        }
    }
    print(&trial, &ways, &ran);
    if has("--metrics") {
        print_metrics(&ways, &ran);
    }
    ExitCode::SUCCESS
}

/// Prints every path, and its figures relative to the first path's within rounds.
fn print(trial: &Trial, ways: &[(&str, Option<&str>)], ran: &[Vec<Ran>]) {
    println!(
        "\n{}, {} s after {} s of warm-up, {} rounds, median (least-most):",
        if trial.has_tags { "16 sessions, a quarter of transactions high" } else { "4 sessions high, 12 low" },
        trial.seconds,
        trial.warmup_s,
        ran[0].len()
    );
    let head =
        ["", "both, per s", "high, per s", "p95 of high, ms", "mean of high, ms", "governor, cores", "mpl of low"];
    let mut table = Table::new(head);
    for ((name, _), ran) in ways.iter().zip(ran) {
        let of = |figure: fn(&Ran) -> f64, decimals| spread(ran.iter().map(figure), decimals);
        table.row([
            (*name).to_owned(),
            of(Ran::both_per_s, 0),
            of(|ran| ran.high_per_s, 0),
            of(|ran| ran.high_p95_ms, 1),
            of(|ran| ran.high_mean_ms, 1),
            of(|ran| ran.governor_cores, 2),
            ran.iter()
                .map(|ran| ran.low_mpl.map_or_else(|| "-".to_owned(), |mpl| mpl.to_string()))
                .collect::<Vec<_>>()
                .join(" "),
        ]);
    }
    table.print();
    println!();
    let mut table = Table::new(["of direct's", "both", "p95 of high", "mean of high", "low"]);
    for ((name, _), own) in ways.iter().zip(ran).skip(1) {
        let of = |figure: fn(&Ran) -> f64| spread(own.iter().zip(&ran[0]).map(|(a, b)| figure(a) / figure(b)), 2);
        let low = of(|ran| ran.low_per_s);
        table.row([
            (*name).to_owned(),
            of(Ran::both_per_s),
            of(|ran| ran.high_p95_ms),
            of(|ran| ran.high_mean_ms),
            low,
        ]);
    }
    table.print();
}

/// The governors' counts per second of a window, means over rounds.
fn print_metrics(ways: &[(&str, Option<&str>)], ran: &[Vec<Ran>]) {
    for ((name, _), ran) in ways.iter().zip(ran) {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for (metric, per_s) in ran.iter().flat_map(|ran| &ran.counted) {
            *sums.entry(metric).or_default() += per_s / ran.len() as f64;
        }
        println!("\n{name}, counted per second:");
        for (metric, per_s) in sums.iter().filter(|(_, per_s)| per_s.abs() > 5e-4) {
            println!("  {metric:<60}{per_s:>12.3}");
        }
    }
}
