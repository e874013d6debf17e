//! The load that runs through a proxy, and its measurements.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use plimsoll_pg::connection::Connection;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::proxy::Proxy;
use crate::report::median;
use crate::server::Server;

/// The share of transactions whose latency is logged: enough of them, at negligible cost.
const SAMPLED: &str = "0.02";

/// One run of `pgbench`.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub clients: u32,
    /// The protocol, as pgbench names it.
    pub mode: &'static str,
    /// Whether each transaction is pgbench's own, which writes (TPC-B), and not a read.
    pub writes: bool,
    pub threads: u32,
    pub seconds: u32,
    /// Statements of a transaction, each sent after the answer to the one before, between BEGIN and END; 1 for a
    /// statement without a block.
    pub chain: usize,
    /// Clients that compute endlessly during the run, on the same path.
    pub reports: u32,
}

/// The application name of those clients.
pub const REPORTS: &str = "reports";

/// How the application names of the tenants of a pool begin.
pub const TENANTS: &str = "tenant-";

/// How long before the others they start, so that their class is known and their processes are in place.
const REPORTS_BEFORE: Duration = Duration::from_millis(500);

/// Their statement: a twentieth of a second of one core, without locks.
const REPORT: &str = "SELECT sum(number::numeric) FROM generate_series(1, 200000) AS number;\n";

/// One statement of a chain, as a pgbench script.
const STATEMENT: &str = "\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";

#[derive(Debug, Clone, Copy)]
pub struct Ran {
    pub per_s: f64,
    /// The median of latency, microseconds.
    pub p50_us: f64,
    /// The proxy's CPU time per transaction, microseconds; 0 without a proxy.
    pub proxy_us: f64,
    /// The server's and pgbench's CPU time per transaction, microseconds.
    pub others_us: f64,
}

impl Load {
    /// Runs the load on a path to the server: through a proxy, or directly.
    pub fn run(self, server: &Server, way: Option<&Proxy>) -> Ran {
        let folder = tempfile::tempdir().unwrap();
        let mut command = server.pgbench(way.map_or(server.port, |proxy| proxy.port));
        let script = folder.path().join("chain.sql");
        if self.writes {
            command.args(["-b", "tpcb-like"]);
        } else if self.chain == 1 {
            command.arg("-S");
        } else {
            fs::write(&script, format!("BEGIN;\n{}END;\n", STATEMENT.repeat(self.chain))).unwrap();
            command.arg("-f").arg(&script);
        }
        command.args(["-n", "-M", self.mode, "-c", &self.clients.to_string(), "-j", &self.threads.to_string()]);
        command.args(["-T", &self.seconds.to_string(), "-l", "--log-prefix", "log"]);
        command.args(["--sampling-rate", if self.chain == 1 { SAMPLED } else { "1" }]).current_dir(folder.path());
        command.arg(server.private.database());
        let reports = self.start_reports(server, way, folder.path());
        let used = || (way.and_then(|proxy| processor_us(proxy.process())).unwrap_or(0.0), server.processor_us());
        let (proxy_before, server_before, clients_before) = (used().0, used().1, children_us());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let reports = reports.map(|reports| reports.wait_with_output().unwrap());
        assert!(reports.is_none_or(|reports| reports.status.success()));
        let (proxy_after, server_after) = used();
        let said = String::from_utf8(output.stdout).unwrap();
        let figure = |before: &str| figure(&said, before);
        assert_eq!(figure("number of failed transactions: "), 0.0, "{said}");
        let transactions = figure("number of transactions actually processed: ");
        // Ended sessions of the run are included: the server's first process has their times in its sum for children.
        let others = server_after - server_before + children_us() - clients_before;
        Ran {
            per_s: figure("tps = "),
            p50_us: median(&latencies_us(folder.path())),
            proxy_us: (proxy_after - proxy_before) / transactions,
            others_us: others / transactions,
        }
    }

    fn start_reports(self, server: &Server, way: Option<&Proxy>, folder: &std::path::Path) -> Option<Child> {
        if self.reports == 0 {
            return None;
        }
        let script = folder.join("report.sql");
        fs::write(&script, REPORT).unwrap();
        let mut command = server.pgbench(way.map_or(server.port, |proxy| proxy.port));
        command.args(["-n", "-c", &self.reports.to_string(), "-T", &self.seconds.to_string(), "-f"]).arg(&script);
        command.arg(server.private.database()).env("PGAPPNAME", REPORTS).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        std::thread::sleep(REPORTS_BEFORE);
        Some(child)
    }
}

/// The number behind these words of pgbench.
pub fn figure(said: &str, before: &str) -> f64 {
    let rest = said.split(before).nth(1).unwrap_or_else(|| panic!("no `{before}` in {said}"));
    rest.split(|c: char| !c.is_ascii_digit() && c != '.').next().and_then(|word| word.parse().ok()).unwrap()
}

/// The latencies that pgbench has logged in a directory, microseconds, in order.
pub fn latencies_us(folder: &std::path::Path) -> Vec<f64> {
    let mut latencies = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        latencies
            .extend(text.lines().map(|line| line.split(' ').nth(2).and_then(|word| word.parse::<f64>().ok()).unwrap()));
    }
    assert!(!latencies.is_empty(), "pgbench has written no latencies");
    latencies.sort_by(f64::total_cmp);
    latencies
}

/// The memory that idle connections occupy in a proxy.
pub struct Idle {
    pub before_mb: f64,
    pub with_mb: f64,
}

/// Opens the given number of connections through a proxy, and runs a statement on each, so that each has a connection
/// to the server.
pub fn idle(server: &Server, proxy: &Proxy, connections: usize) -> Idle {
    let before_mb = resident_mb(proxy.process());
    let url = server.url(proxy.port);
    let open = |_| {
        let mut connection = Connection::open(&url).unwrap();
        connection.run("select 1").unwrap();
        connection
    };
    let open: Vec<Connection> = (0..connections).map(open).collect();
    let with_mb = resident_mb(proxy.process());
    assert!(open.iter().all(|connection| connection.lost().is_none()));
    Idle { before_mb, with_mb }
}

/// The CPU time of a process and of its children that have ended, microseconds; `None` if the process does not exist.
pub fn processor_us(process: i32) -> Option<f64> {
    times_us(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?, 11..=14)
}

/// The CPU time of all processes that we have started and waited for, microseconds.
fn children_us() -> f64 {
    times_us(&fs::read_to_string("/proc/self/stat").unwrap(), 13..=14).unwrap()
}

/// The sum of some of the times in proc(5)'s stat, fields 14 to 17: counted from 0 after the name, 11 to 14; in
/// hundredths of a second.
fn times_us(stat: &str, places: std::ops::RangeInclusive<usize>) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    places.map(|place| fields.get(place)?.parse::<f64>().ok()).sum::<Option<f64>>().map(|ticks| ticks * 1e4)
}

/// Resident memory of a process, MB (10^6 bytes).
pub fn resident_mb(process: i32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0 / 1e6
}

/// A connection is one file here and two in a proxy, which inherits the limit.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
}
