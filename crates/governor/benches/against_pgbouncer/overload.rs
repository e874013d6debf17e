//! More work than the server can do, by tenants of different sizes, beside a few important clients who are paced.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use plimsoll_model::fairness::jain_index;

use crate::load::{TENANTS, figure, latencies_us};
use crate::proxy::Proxy;
use crate::report::{Table, spread};
use crate::server::Server;

/// The clients of each tenant, as shares of all: one has sixteen times the clients of another.
const SHARES: [f64; 5] = [1.0 / 31.0, 2.0 / 31.0, 4.0 / 31.0, 8.0 / 31.0, 16.0 / 31.0];

/// A tenant's transaction: some milliseconds of one core, without locks.
const TENANTS_SCRIPT: &str = "SELECT sum(number) FROM generate_series(1, 20000) AS number;\n";

/// Important clients, and the transactions per second that they are paced to: a small part of what the server can do, and so
/// few for each client that all keep the pace if each transaction waits for two seconds.
const IMPORTANT: (u32, u32) = (40, 20);

/// How long the tenants have been there when the important clients come, and by how much they outstay them.
const MARGIN: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
struct Ran {
    /// The 95th percentile of the important clients' latency behind their pace, their wait for a connection included; ms.
    important_p95_ms: f64,
    /// The tenants' transactions per second, together.
    tenants_per_s: f64,
    /// Jain's index of the tenants' throughputs: 1 if all are equal, a fifth if one has all.
    jain: f64,
}

/// Compares the proxies by turns, and prints the figures.
pub fn compare(server: &Server, proxies: &[Proxy], clients: u32, seconds: u32, rounds: usize) {
    let mut ran: Vec<Vec<Ran>> = vec![Vec::new(); proxies.len()];
    for round in 0..rounds {
        for place in 0..proxies.len() {
            let way = (place + round) % proxies.len();
            ran[way].push(run(server, &proxies[way], clients, seconds));
        }
    }
    let (important, pace) = IMPORTANT;
    println!(
        "\noverload: {} tenants with {clients} clients, {important} important ones with {pace} transactions per second; \
         {seconds} s, {rounds} rounds, median (least-most):",
        SHARES.len()
    );
    let mut table = Table::new(["", "important p95, ms", "tenants' transactions/s", "Jain's index"]);
    for (proxy, ran) in proxies.iter().zip(&ran) {
        let of = |figure: fn(&Ran) -> f64, digits| spread(ran.iter().map(figure), digits);
        let name = proxy.name.to_owned();
        table.row([name, of(|ran| ran.important_p95_ms, 1), of(|ran| ran.tenants_per_s, 1), of(|ran| ran.jain, 4)]);
    }
    table.print();
    if let [base, own] = &ran[..] {
        let ratio = |figure: fn(&Ran) -> f64| spread(own.iter().zip(base).map(|(a, b)| figure(a) / figure(b)), 3);
        let (p95, throughput) = (ratio(|ran| ran.important_p95_ms), ratio(|ran| ran.tenants_per_s));
        println!("{} / {}: important p95 {p95}, tenants' throughput {throughput}", proxies[1].name, proxies[0].name);
    }
}

fn run(server: &Server, proxy: &Proxy, clients: u32, seconds: u32) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("tenant.sql");
    fs::write(&script, TENANTS_SCRIPT).unwrap();
    let length = u64::from(seconds) + 2 * MARGIN.as_secs();
    let tenants: Vec<Child> = (SHARES.iter().enumerate())
        .map(|(tenant, share)| {
            let clients = ((f64::from(clients) * share) as u32).max(1);
            let mut command = server.pgbench(proxy.port);
            command.args(["-n", "-c", &clients.to_string(), "-T", &length.to_string(), "-f"]).arg(&script);
            command.arg(server.private.database()).env("PGAPPNAME", format!("{TENANTS}{tenant}"));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    std::thread::sleep(MARGIN);
    let important_p95_ms = important(server, proxy, seconds, folder.path());
    let rates: Vec<f64> = tenants.into_iter().map(rate).collect();
    let jain = jain_index(&rates).expect("a tenant has had an answer");
    Ran { important_p95_ms, tenants_per_s: rates.iter().sum(), jain }
}

/// The important clients' 95th percentile, ms.
fn important(server: &Server, proxy: &Proxy, seconds: u32, folder: &Path) -> f64 {
    let (clients, pace) = IMPORTANT;
    let mut command = server.pgbench(proxy.port);
    command.args(["-n", "-S", "-c", &clients.to_string(), "-R", &pace.to_string(), "-T", &seconds.to_string()]);
    command.args(["-l", "--log-prefix", "important", server.private.database()]).current_dir(folder);
    let output = command.env("PGAPPNAME", "important").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let latencies = latencies_us(folder);
    latencies[(latencies.len() * 95 / 100).min(latencies.len() - 1)] / 1e3
}

/// A tenant's throughput, once it has ended. One that has failed has none that could be compared.
fn rate(tenant: Child) -> f64 {
    let output = tenant.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    figure(&String::from_utf8_lossy(&output.stdout), "tps = ")
}
