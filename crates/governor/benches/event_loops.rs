//! Which event loop the relay should have: its own by io_uring and by epoll, and one on tokio that moves the bytes of the
//! same sessions, beside pgbouncer (pooling sessions) and no proxy at all.
//!
//! `pgbench -S -M prepared` with 16 clients over TCP, in rounds that take turns, each proxy a process of its own with one
//! thread. Told are throughput, the proxy's processor time for a transaction, and the median time of a transaction as pgbench
//! sees it; then ratios to pgbouncer, or to the first proxy where there is no pgbouncer: the median over the rounds, with the
//! least and the greatest.
//!
//! The loop that is not the relay's lives only here. It can do what this needs: no encryption, no passwords, no timers, no
//! cancels; so it is a little cheaper than it would be, and the comparison is to its advantage.
//!
//! `cargo bench -p plimsoll-governor --bench event_loops`, with `-- --rounds 9 --seconds 10` to change what is usual.
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

#[path = "event_loops/entrance.rs"]
mod entrance;
#[path = "event_loops/stage.rs"]
mod stage;
#[path = "event_loops/tokio_loop.rs"]
mod tokio_loop;

use std::net::SocketAddr;
use std::time::Duration;

use plimsoll_governor::settings::EventLoop;
use stage::{Measured, Stage};

/// Who stands between pgbench and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    /// Nobody.
    Direct,
    /// pgbouncer, pooling sessions.
    Pgbouncer,
    /// The governor's relay by io_uring.
    Ring,
    /// The governor's relay by epoll.
    Epoll,
    /// The same sessions on tokio.
    Tokio,
}

impl Contender {
    const ALL: [Contender; 5] =
        [Contender::Direct, Contender::Pgbouncer, Contender::Ring, Contender::Epoll, Contender::Tokio];

    fn name(self) -> &'static str {
        match self {
            Contender::Direct => "direct",
            Contender::Pgbouncer => "pgbouncer",
            Contender::Ring => "io_uring",
            Contender::Epoll => "epoll",
            Contender::Tokio => "tokio",
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--proxy") {
        let server: SocketAddr = arguments[at + 2].parse().unwrap();
        match arguments[at + 1].as_str() {
            "io_uring" => entrance::serve_with_the_relay(server, EventLoop::IoUring),
            "epoll" => entrance::serve_with_the_relay(server, EventLoop::Epoll),
            "tokio" => tokio_loop::serve(server),
            other => panic!("no proxy is called {other}"),
        }
        return;
    }
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    // Without `--bench`, as a test: small, to see that it works.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let (rounds, seconds) = if is_bench { (5, 6) } else { (1, 1) };
    run(number("--rounds").unwrap_or(rounds), Duration::from_secs(number("--seconds").unwrap_or(seconds)));
}

fn run(rounds: u64, window: Duration) {
    let stage = Stage::set();
    let contenders: Vec<Contender> = Contender::ALL.into_iter().filter(|who| stage.has(*who)).collect();
    let mut measured: Vec<Vec<Measured>> = vec![Vec::new(); contenders.len()];
    for round in 0..rounds as usize {
        for place in 0..contenders.len() {
            // Each comes first, second, … in turn, so that none always follows the same.
            let place = (place + round) % contenders.len();
            measured[place].push(stage.measure(contenders[place], window));
        }
    }
    println!("{:10} {:>12} {:>22} {:>14}", "", "tps", "proxy us/transaction", "median us");
    for (who, rounds) in contenders.iter().zip(&measured) {
        let median_of = |value: fn(&Measured) -> f64| middle(rounds.iter().map(value).collect()).1;
        let cpu = if *who == Contender::Direct { "-".to_owned() } else { format!("{:.1}", median_of(|m| m.proxy_us)) };
        println!("{:10} {:>12.0} {cpu:>22} {:>14.0}", who.name(), median_of(|m| m.tps), median_of(|m| m.median_us));
    }
    let base = contenders.iter().position(|who| *who == Contender::Pgbouncer).unwrap_or(1);
    println!("\nratios to {}: median (least to greatest of {rounds} rounds)", contenders[base].name());
    for (who, rounds) in contenders.iter().zip(&measured) {
        let ratio = |value: fn(&Measured) -> f64| {
            let ratios = rounds.iter().zip(&measured[base]).map(|(own, other)| value(own) / value(other)).collect();
            let (least, middle, greatest) = middle(ratios);
            format!("{middle:.2} ({least:.2} to {greatest:.2})")
        };
        let cpu = if *who == Contender::Direct { "-".to_owned() } else { ratio(|m| m.proxy_us) };
        println!(
            "{:10} throughput {:24} processor time {cpu:24} median {}",
            who.name(),
            ratio(|m| m.tps),
            ratio(|m| m.median_us)
        );
    }
}

/// The least, the median and the greatest.
fn middle(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[0], values[values.len() / 2], values[values.len() - 1])
}
