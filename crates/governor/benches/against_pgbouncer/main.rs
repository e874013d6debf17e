//! The governor as a proxy, against pgbouncer and against no proxy: `pgbench -S -M prepared` with 16 clients over TCP, in rounds
//! that take turns, and what 2,000 idle connections take of memory.
//!
//! pgbouncer pools sessions, so that there, too, one connection of a client is one to the server. The governor has its levers: its
//! only clients are of high priority, with an eye on each statement and nobody to be kept back. Both reach the server as the
//! clients reach them, over TCP on this machine, and share its cores with clients and server. Each is measured with the server's Unix
//! socket in place of TCP, too.
//!
//! Told are medians over rounds with the least and the most, and ratios within rounds. Goals: at least 0.9 of pgbouncer's
//! throughput with at most 1.1 of its processor time for a transaction, at most 40 us more than direct in the median of
//! latency, and at most 150 MB for the connections. Where nobody waits for a core, one client at a time shows what a way
//! through a proxy takes; with 16 on few cores latency is the inverse of throughput.
//!
//! A chain of 50 statements in a transaction shows what a hop costs where cores go to sleep in between; there the governor is
//! measured with cores that sleep and with cores that it keeps awake. `-- --only chain --rounds 9 --seconds 3` measures that alone. `beside-reports` is the
//! same chain beside four clients that compute without end, which are of a class with `cpu = "idle"` where the way has classes.
//!
//! Under `cargo test` it runs for a moment and checks that everything is measured. Without pgbouncer the rest is measured.
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod load;
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
    /// The loads to measure, by name; all if there are none.
    only: Vec<String>,
}

/// What is run, by name: clients, threads of pgbench, statements of a transaction, clients that compute beside them.
const LOADS: [(&str, u32, u32, usize, u32); 4] =
    [("saturated", 16, 2, 1, 0), ("single", 1, 1, 1, 0), ("chain", 1, 1, 50, 0), ("beside-reports", 1, 1, 50, 4)];

/// Governors with the settings of each: with cores that sleep, the default; one that keeps them awake; and one that reaches the server by its socket.
const GOVERNORS: [(&str, Link, &str); 3] = [
    ("governor", Link::Tcp, ""),
    ("awake cores", Link::Tcp, "\n[cpu]\nawake = true"),
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
        Extent { rounds, seconds: seconds as u32, scale: 20, idle_connections: 2_000, only }
    } else {
        Extent { rounds: 1, seconds: 1, scale: 1, idle_connections: 20, only: Vec::new() }
    };
    measure(&extent);
    ExitCode::SUCCESS
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
        let load = Load { clients, threads, seconds: extent.seconds, chain, reports };
        compare(&server, &proxies, load, extent.rounds);
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
        // A pool keeps its connections to the server until its end.
        drop(proxy);
        server.wait_until_nearly_alone();
    }
}

/// Runs a load on every way to the server, round after round.
fn compare(server: &Server, proxies: &[Proxy], load: Load, rounds: usize) {
    let ways: Vec<Option<&Proxy>> = std::iter::once(None).chain(proxies.iter().map(Some)).collect();
    let mut ran: Vec<Vec<Ran>> = vec![Vec::new(); ways.len()];
    // Everybody once before it counts: caches are filled, and connections to a pool are made.
    for way in &ways {
        load.run(server, *way);
    }
    let began = Instant::now();
    for round in 0..rounds {
        if let Some(left) = (began.elapsed() * (rounds - round) as u32).checked_div(round as u32) {
            eprintln!("{} clients: {round} of {rounds} rounds, about {} s left", load.clients, left.as_secs());
        }
        // The order changes from round to round, and who comes after whom, so that a drift of the machine hits all alike.
        for place in 0..ways.len() {
            let way = (place + round / 2) % ways.len();
            let way = if round % 2 == 0 { way } else { ways.len() - 1 - way };
            ran[way].push(load.run(server, ways[way]));
        }
    }
    let Load { clients, threads, seconds, chain, reports } = load;
    let script = if chain == 1 { "-S".to_owned() } else { format!("(BEGIN, {chain} selects, END)") };
    println!(
        "\npgbench {script} -M prepared -c {clients} -j {threads} -T {seconds}, {reports} clients with reports, {rounds} rounds, median (least-most):"
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

/// Each proxy against no proxy and against those before it, within rounds.
fn print_ratios(ways: &[Option<&Proxy>], ran: &[Vec<Ran>]) {
    let name = |at: usize| ways[at].map_or("direct", |proxy| proxy.name);
    for (at, own) in ran.iter().enumerate().skip(1) {
        let added = own.iter().zip(&ran[0]).map(|(own, direct)| own.p50_us - direct.p50_us);
        println!("{}, added to direct's p50: {} us", name(at), spread(added, 1));
        for (base, other) in ran.iter().enumerate().take(at) {
            let ratio = |figure: fn(&Ran) -> f64| spread(own.iter().zip(other).map(|(a, b)| figure(a) / figure(b)), 3);
            let cpu = if base == 0 { String::new() } else { format!(", processor time {}", ratio(|ran| ran.proxy_us)) };
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
