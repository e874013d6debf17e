//! The governor as a proxy, compared with pgbouncer and with no proxy: `pgbench -S -M prepared` with 16 clients over
//! TCP, in alternating rounds, and the memory for 2,000 idle connections.
//!
//! pgbouncer pools sessions, so there, too, each client connection has one server connection. The governor has its
//! levers enabled: its only clients are of high priority, so each statement is watched and none is held back. Both
//! connect to the server over TCP on this machine, as the clients connect to them, and share its cores with clients and
//! server. Each is also measured with the server's Unix socket instead of TCP.
//!
//! The report shows medians over rounds with minimum and maximum, and ratios within rounds. Goals: at least 0.9 of
//! pgbouncer's throughput with at most 1.1 of its CPU time per transaction, at most 40 us more than direct in the
//! median of latency, and at most 150 MB for the connections. A single client shows the latency of a proxy, because no
//! process waits for a core; with 16 clients on few cores latency is the inverse of throughput.
//!
//! A chain of 50 statements in a transaction shows the cost of a hop if cores go to sleep in between; there the
//! governor is measured with cores that sleep and with cores that it keeps awake.
//! `-- --only chain --rounds 9 --seconds 3` measures only that. `beside-reports` is the same chain beside four clients
//! that compute endlessly, which belong to a class with `cpu = "idle"` if the path has classes.
//!
//! `--pooled` compares both as poolers: 1,000 clients on 20 server connections, transaction by transaction. Goals: at
//! least pgbouncer's throughput with at most its CPU time per transaction and its memory. Its load `overload` is more
//! than the server can do, by tenants of different sizes, beside a few important clients. Goals: they wait for at most a
//! tenth of the time that they wait for at pgbouncer (95th percentile), and Jain's index over the tenants is at least 0.99.
//!
//! Under `cargo test` it runs briefly and checks that all figures are measured. If pgbouncer is missing, the rest is
//! measured.
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod load;
mod overload;
mod proxy;
mod report;
mod server;

use std::process::ExitCode;
use std::time::Instant;

use load::{Idle, Load, Ran};
use proxy::Proxy;
use report::{Table, spread};
use server::{Link, Server};

struct Extent {
    rounds: usize,
    seconds: u32,
    scale: u32,
    idle_connections: usize,
    /// The loads to measure, by name; all if empty.
    only: Vec<String>,
    /// Whether many clients share few server connections, transaction by transaction.
    is_pooled: bool,
}

/// The loads by name: clients, threads of pgbench, statements of a transaction, computing clients beside them.
const LOADS: [(&str, u32, u32, usize, u32); 4] =
    [("saturated", 16, 2, 1, 0), ("single", 1, 1, 1, 0), ("chain", 1, 1, 50, 0), ("beside-reports", 1, 1, 50, 4)];

/// The loads of `--pooled`, by name: clients, protocol, whether they write. `prepared` needs pgbouncer 1.21.
const POOLED_LOADS: [(&str, u32, &str, bool); 4] = [
    ("simple", 1000, "simple", false),
    ("extended", 1000, "extended", false),
    ("prepared", 1000, "prepared", false),
    ("tpcb", 1000, "simple", true),
];

/// How many server connections the clients share there.
const POOL_SIZE: usize = 20;

/// Governors with their settings: the default, whose cores sleep; one that keeps them awake; one that records all traffic;
/// and one that connects to the server's socket.
const GOVERNORS: [(&str, Link, &str); 4] = [
    ("governor", Link::Tcp, ""),
    ("awake cores", Link::Tcp, "\n[cpu]\nawake = true"),
    ("recording", Link::Tcp, "\n[capture]\nto = \"traffic\""),
    ("governor, socket", Link::Socket, ""),
];

const PGBOUNCERS: [(&str, Link); 2] = [("pgbouncer", Link::Tcp), ("pgbouncer, socket", Link::Socket)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(ended) = proxy::govern_if_asked(&arguments) {
        return ended;
    }
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let extent = if is_bench {
        let number = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name)?;
            arguments.get(at + 1)?.parse().ok()
        };
        let (rounds, seconds) = (number("--rounds").unwrap_or(7), number("--seconds").unwrap_or(4));
        let only = arguments.windows(2).filter(|pair| pair[0] == "--only").map(|pair| pair[1].clone()).collect();
        let is_pooled = arguments.iter().any(|argument| argument == "--pooled");
        Extent { rounds, seconds: seconds as u32, scale: 20, idle_connections: 2_000, only, is_pooled }
    } else {
        Extent { rounds: 1, seconds: 1, scale: 1, idle_connections: 20, only: Vec::new(), is_pooled: false }
    };
    match extent.is_pooled {
        true => measure_pooled(&extent, 1000),
        false => measure(&extent),
    }
    if !is_bench {
        measure_pooled(&extent, 30);
    }
    ExitCode::SUCCESS
}

/// Both proxies as poolers: at most `clients_max` clients on [`POOL_SIZE`] server connections.
fn measure_pooled(extent: &Extent, clients_max: u32) {
    load::raise_descriptor_limit();
    let server = Server::start(clients_max as usize, extent.scale);
    let pooled =
        [Proxy::pgbouncer_pool(&server, clients_max, POOL_SIZE), Proxy::governor_pool(&server, clients_max, POOL_SIZE)];
    let (mut proxies, mut lacking) = (Vec::new(), Vec::new());
    for proxy in pooled {
        match proxy {
            Ok(proxy) => proxies.push(proxy),
            Err(why) => lacking.push(why),
        }
    }
    assert!(proxies.iter().any(|proxy| proxy.name == proxy::GOVERNOR_POOL), "{lacking:?}");
    lacking.iter().for_each(|why| println!("not measured: {why}"));
    report::print_place();
    let is_wanted = |name: &str| extent.only.is_empty() || extent.only.iter().any(|only| only == name);
    for (name, clients, mode, writes) in POOLED_LOADS.into_iter().filter(|(name, ..)| is_wanted(name)) {
        let clients = clients.min(clients_max);
        let load = Load { clients, mode, writes, threads: 2, seconds: extent.seconds, chain: 1, reports: 0 };
        if mode == "prepared" && !proxy::pgbouncer_follows_statements() {
            println!("\n{name}: pgbouncer before 1.21 does not follow prepared statements: the governor alone");
            let own: Vec<Proxy> = proxies.extract_if(.., |proxy| proxy.name == proxy::GOVERNOR_POOL).collect();
            compare(&server, &own, load, extent.rounds, false);
            proxies.extend(own);
            continue;
        }
        compare(&server, &proxies, load, extent.rounds, false);
    }
    if is_wanted("overload") {
        overload::compare(&server, &proxies, clients_max, extent.seconds, extent.rounds);
    }
    for proxy in &proxies {
        println!("{:<26}{:>8.1} MB after that", proxy.name, load::resident_mb(proxy.process()));
    }
}

fn measure(extent: &Extent) {
    load::raise_descriptor_limit();
    let server = Server::start(extent.idle_connections, extent.scale);
    let connections = extent.idle_connections;
    let pgbouncers = PGBOUNCERS.map(|(name, link)| Proxy::pgbouncer(&server, connections, name, link));
    let governors = GOVERNORS.map(|(name, link, listen)| Proxy::governor(&server, connections, name, link, listen));
    let (mut proxies, mut lacking) = (Vec::new(), Vec::new());
    for proxy in pgbouncers.into_iter().chain(governors) {
        match proxy {
            Ok(proxy) => proxies.push(proxy),
            Err(why) => lacking.push(why),
        }
    }
    assert!(proxies.iter().any(|proxy| proxy.name == GOVERNORS[0].0), "{lacking:?}");
    for why in lacking {
        println!("not measured: {why}");
    }
    report::print_place();
    let is_wanted = |name: &str| extent.only.is_empty() || extent.only.iter().any(|only| only == name);
    for (_, clients, threads, chain, reports) in LOADS.into_iter().filter(|(name, ..)| is_wanted(name)) {
        let load = Load { clients, mode: "prepared", writes: false, threads, seconds: extent.seconds, chain, reports };
        compare(&server, &proxies, load, extent.rounds, true);
    }
    if !is_wanted("idle") {
        return;
    }
    println!(
        "\n{} idle connections that have run one statement, resident memory of the proxy:",
        extent.idle_connections
    );
    for proxy in proxies {
        let Idle { before_mb, with_mb } = load::idle(&server, &proxy, extent.idle_connections);
        println!("{:<26}{with_mb:>8.1} MB ({before_mb:.1} MB without)", proxy.name);
        // A pool keeps its connections to the server until it ends.
        drop(proxy);
        server.wait_until_nearly_alone();
    }
}

/// Runs a load on every path to the server, round after round: the way without a proxy is one if that is possible.
fn compare(server: &Server, proxies: &[Proxy], load: Load, rounds: usize, is_direct_possible: bool) {
    let direct = is_direct_possible.then_some(None);
    let ways: Vec<Option<&Proxy>> = direct.into_iter().chain(proxies.iter().map(Some)).collect();
    let mut ran: Vec<Vec<Ran>> = vec![Vec::new(); ways.len()];
    // Each path runs once before the measurement, to fill caches and to open the connections of a pool.
    for way in &ways {
        load.run(server, *way);
    }
    let began = Instant::now();
    for round in 0..rounds {
        if let Some(left) = (began.elapsed() * (rounds - round) as u32).checked_div(round as u32) {
            eprintln!("{} clients: {round} of {rounds} rounds, about {} s left", load.clients, left.as_secs());
        }
        // The order and the neighbours change from round to round, so that a drift of the machine affects all paths
        // equally.
        for place in 0..ways.len() {
            let way = (place + round / 2) % ways.len();
            let way = if round % 2 == 0 { way } else { ways.len() - 1 - way };
            ran[way].push(load.run(server, ways[way]));
        }
    }
    let Load { clients, mode, writes, threads, seconds, chain, reports } = load;
    let script = if writes {
        "(tpcb-like)".to_owned()
    } else if chain == 1 {
        "-S".to_owned()
    } else {
        format!("(BEGIN, {chain} selects, END)")
    };
    println!(
        "\npgbench {script} -M {mode} -c {clients} -j {threads} -T {seconds}, {reports} clients with reports, {rounds} rounds, median (least-most):"
    );
    let mut table =
        Table::new(["", "transactions/s", "p50, us", "proxy's processor time, us", "server's and pgbench's, us"]);
    for (way, ran) in ways.iter().zip(&ran) {
        let of = |figure: fn(&Ran) -> f64| spread(ran.iter().map(figure), 1);
        let proxys = way.map_or_else(|| "-".to_owned(), |_| of(|ran| ran.proxy_us));
        let name = way.map_or("direct", |proxy| proxy.name);
        table.row([name.to_owned(), of(|ran| ran.per_s), of(|ran| ran.p50_us), proxys, of(|ran| ran.others_us)]);
    }
    table.print();
    print_ratios(&ways, &ran);
}

/// Each proxy compared with no proxy and with the earlier proxies, within rounds.
fn print_ratios(ways: &[Option<&Proxy>], ran: &[Vec<Ran>]) {
    let name = |at: usize| ways[at].map_or("direct", |proxy| proxy.name);
    for (at, own) in ran.iter().enumerate().skip(1) {
        if ways[0].is_none() {
            let added = own.iter().zip(&ran[0]).map(|(own, direct)| own.p50_us - direct.p50_us);
            println!("{}, added to direct's p50: {} us", name(at), spread(added, 1));
        }
        for (base, other) in ran.iter().enumerate().take(at) {
            let ratio = |figure: fn(&Ran) -> f64| spread(own.iter().zip(other).map(|(a, b)| figure(a) / figure(b)), 3);
            let cpu = if ways[base].is_none() {
                String::new()
            } else {
                format!(", processor time {}", ratio(|ran| ran.proxy_us))
            };
            println!(
                "{} / {}: throughput {}, p50 {}{cpu}",
                name(at),
                name(base),
                ratio(|ran| ran.per_s),
                ratio(|ran| ran.p50_us)
            );
        }
    }
}
