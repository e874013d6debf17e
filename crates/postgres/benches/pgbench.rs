//! Our clients against `pgbench`: the same scripts (`-M prepared`, select-only and TPC-B-like), tables, server and
//! numbers of clients, in alternating rounds.
//!
//! The bench prints ratios, ours to pgbench's, of throughput and of the client side's processor time per transaction.
//! The goal is at least 0.95 of the throughput with at most 1.15 of the processor time.
//!
//! pgbench runs twice, with one thread for all clients (`-j 1`) and with one for each. The second run is the fair
//! comparison: it has as many threads as we do, so the difference is in the work of clients, and not in the number of
//! context switches. The first shows the cost of one thread per client.
//!
//! Nothing waits for the disk (`fsync=off`), whose times would hide the clients'. pgbench's processor time is that of
//! the process less that of a run with one transaction per client; ours is that of the clients' threads in the window.
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_pg::connection::Connection;
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_workload::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Outcome, Writes};
use plimsoll_workload::database::{Database, DatabaseError, Session};
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, WindowObserver, WorkloadThreads, drive};
use plimsoll_workload::schema::Schema;
use plimsoll_workload::statement::{Rows, Statement, Value, sql_only};
use rand::RngExt;
use rand_pcg::Pcg64;

static SCHEMA: Schema = Schema { name: Cow::Borrowed("pgbench"), tables: &[] };

macro_rules! statements {
    ($($name:ident: $sql:expr;)*) => {
        $(static $name: Statement = Statement { name: stringify!($name), sql: $sql, native: &sql_only };)*
    };
}

statements! {
    READ_ACCOUNT: "SELECT abalance FROM pgbench_accounts WHERE aid = $1";
    CHANGE_ACCOUNT: "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2";
    CHANGE_TELLER: "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2";
    CHANGE_BRANCH: "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2";
    ADD_HISTORY: "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)";
}

/// pgbench's own scripts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Script {
    SelectOnly,
    TpcbLike,
}

impl Script {
    fn name(self) -> &'static str {
        match self {
            Script::SelectOnly => "select-only",
            Script::TpcbLike => "tpcb-like",
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Pgbench {
    script: Script,
    scale: i64,
}

impl Benchmark for Pgbench {
    fn name(&self) -> &'static str {
        "pgbench"
    }
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }
    fn data(&self) -> String {
        format!("pgbench:{}", self.scale)
    }
    fn writes(&self) -> Writes {
        Writes::Grows
    }
    fn transactions(&self) -> Vec<&str> {
        vec!["transaction"]
    }
    fn is_analytical(&self) -> bool {
        false
    }
    fn estimated_bytes(&self) -> u64 {
        0
    }
    fn load(&self, _database: &dyn Database, _progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        Ok(())
    }
    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        let random = Pcg64::new(u128::from(seed), number as u128);
        Box::new(Teller { of: *self, random, account: 0, teller: 0, branch: 0, delta: 0, rows: Rows::new() })
    }
    fn check(&self, _database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        Ok(Vec::new())
    }
}

struct Teller {
    of: Pgbench,
    random: Pcg64,
    account: i64,
    teller: i64,
    branch: i64,
    delta: i64,
    rows: Rows,
}

impl Client for Teller {
    fn draw(&mut self) -> usize {
        let scale = self.of.scale;
        self.account = self.random.random_range(1..=100_000 * scale);
        if self.of.script == Script::TpcbLike {
            self.branch = self.random.random_range(1..=scale);
            self.teller = self.random.random_range(1..=10 * scale);
            self.delta = self.random.random_range(-5_000..=5_000);
        }
        0
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        let [account, teller, branch, delta] = [self.account, self.teller, self.branch, self.delta].map(Value::Int);
        let rows = &mut self.rows;
        if self.of.script == Script::SelectOnly {
            session.execute(&READ_ACCOUNT, &[account], rows)?;
            return Ok(Outcome::Committed);
        }
        session.begin()?;
        session.execute(&CHANGE_ACCOUNT, &[delta, account], rows)?;
        session.execute(&READ_ACCOUNT, &[account], rows)?;
        session.execute(&CHANGE_TELLER, &[delta, teller], rows)?;
        session.execute(&CHANGE_BRANCH, &[delta, branch], rows)?;
        session.execute(&ADD_HISTORY, &[teller, branch, account, delta], rows)?;
        session.commit()?;
        Ok(Outcome::Committed)
    }
}

#[derive(Debug, Clone, Copy)]
struct Ran {
    throughput_per_s: f64,
    /// Processor time of the client side per transaction, microseconds.
    processor_us: f64,
}

/// Reads the processor time of the clients' threads at both ends of the window.
#[derive(Default)]
struct ProcessorTime {
    threads: Vec<i32>,
    opened: f64,
    used_us: f64,
}

impl ProcessorTime {
    fn now_us(&self) -> f64 {
        let used = |thread: &i32| -> f64 {
            let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap();
            text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap()
        };
        self.threads.iter().map(used).sum::<f64>() / 1e3
    }
}

impl WindowObserver for ProcessorTime {
    fn opened(&mut self, threads: &[WorkloadThreads]) {
        self.threads = threads.iter().flat_map(|threads| threads.clients.clone()).collect();
        self.opened = self.now_us();
    }

    fn closed(&mut self) {
        self.used_us = self.now_us() - self.opened;
    }
}

fn ours(database: &PostgresDatabase, pgbench: Pgbench, clients: usize, measure: Duration) -> Ran {
    let options = ClientOptions { clients, ..ClientOptions::default() };
    let drives = [Drive { name: "pgbench", benchmark: &pgbench, database, options: &options }];
    let mut time = ProcessorTime::default();
    let window = Window { warmup: WarmUp::For(Duration::from_millis(200)), measure };
    let measured = drive(&drives, window, &mut time, &AtomicBool::new(false)).unwrap();
    let measured = &measured.workloads[0].measured;
    assert_eq!(measured.aborted.error, 0);
    let all = &measured.all;
    Ran { throughput_per_s: all.throughput_per_s, processor_us: time.used_us / all.completed.max(1) as f64 }
}

/// `pgbench` against the same server.
struct Theirs<'a> {
    program: &'a Path,
    socket_folder: &'a Path,
    user: &'a str,
    database: &'a str,
}

impl Theirs<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.arg("-h").arg(self.socket_folder).args(["-U", self.user]);
        command
    }

    fn make_tables(&self, scale: i64) {
        let scale = scale.to_string();
        let output = self.command().args(["-i", "-q", "-I", "dtGvp", "-s", &scale, self.database]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs it for the time or, for `None`, for one transaction per client; returns its output and processor time.
    fn run(&self, script: Script, clients: usize, threads: usize, measure: Option<Duration>) -> (String, f64) {
        let mut command = self.command();
        command.args(["-n", "-M", "prepared", "-b", script.name()]);
        command.args(["-c", &clients.to_string(), "-j", &threads.to_string()]);
        match measure {
            Some(measure) => command.args(["-T", &measure.as_secs().max(1).to_string()]),
            None => command.args(["-t", "1"]),
        };
        let before = children_us();
        let output = command.arg(self.database).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), children_us() - before)
    }

    fn measure(&self, script: Script, clients: usize, threads: usize, measure: Duration) -> Ran {
        let (_, start_us) = self.run(script, clients, threads, None);
        let (said, used_us) = self.run(script, clients, threads, Some(measure));
        let figure = |before: &str| -> f64 {
            let rest = said.split(before).nth(1).unwrap_or_else(|| panic!("no `{before}` in {said}"));
            rest.split(|c: char| !c.is_ascii_digit() && c != '.').next().and_then(|word| word.parse().ok()).unwrap()
        };
        let transactions = figure("number of transactions actually processed: ");
        Ran { throughput_per_s: figure("tps = "), processor_us: (used_us - start_us).max(0.0) / transactions }
    }
}

/// Processor time of all processes that we have started and waited for.
fn children_us() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    // Fields 16 and 17 of proc(5), in ticks of 10 ms; the first field behind the name is the third.
    [13, 14].iter().map(|at| fields[*at].parse::<f64>().unwrap() * 1e4).sum()
}

/// Mean and range of the ratios of all rounds.
fn spread(ratios: &[f64]) -> String {
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let (least, most) = ratios.iter().fold((f64::MAX, f64::MIN), |(least, most), &r| (least.min(r), most.max(r)));
    format!("{mean:.2} ({least:.2}-{most:.2})")
}

fn main() {
    // `cargo test` runs benches, too, but only briefly, to check that they work.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (scale, rounds, measure, counts) = if is_bench {
        (20, 5, Duration::from_secs(3), &[1, 8, 64][..])
    } else {
        (1, 1, Duration::from_millis(200), &[2][..])
    };
    let settings = ServerSettings::for_this_machine().with(&[("fsync", "off")]).unwrap();
    let server = PrivateServer::start(settings).unwrap();
    let program = server.installation().bin_folder.join("pgbench");
    let [socket_folder, user, database] =
        [server.socket_folder().display().to_string(), server.user().to_owned(), server.database().to_owned()];
    let theirs =
        Theirs { program: &program, socket_folder: Path::new(&socket_folder), user: &user, database: &database };
    let database = PostgresDatabase::private(server);
    theirs.make_tables(scale);
    println!("load of the machine: {}", fs::read_to_string("/proc/loadavg").unwrap().trim());
    println!("ours / pgbench's, mean (least-most) of {rounds} rounds of {measure:?}; scale {scale}, fsync off\n");
    println!(
        "{:<12}{:>8}{:>13}{:>10}{:>10}{:>22}{:>22}",
        "script", "clients", "against", "ours/s", "theirs/s", "throughput", "processor time"
    );
    for script in [Script::SelectOnly, Script::TpcbLike] {
        for &clients in counts {
            let mut threads = vec![1, clients];
            threads.dedup();
            let mut rows: Vec<Vec<(Ran, Ran)>> = vec![Vec::new(); threads.len()];
            for round in 0..rounds {
                Connection::open(database.url()).unwrap().run("CHECKPOINT").unwrap();
                // The order alternates between rounds, so that a drift of the machine affects both alike.
                let pgbench = Pgbench { script, scale };
                let mut mine = (round % 2 == 0).then(|| ours(&database, pgbench, clients, measure));
                let found: Vec<Ran> =
                    threads.iter().map(|&threads| theirs.measure(script, clients, threads, measure)).collect();
                let mine = *mine.get_or_insert_with(|| ours(&database, pgbench, clients, measure));
                for (row, theirs) in rows.iter_mut().zip(found) {
                    row.push((mine, theirs));
                }
            }
            for (threads, row) in threads.iter().zip(&rows) {
                let mean = |of: fn(&(Ran, Ran)) -> f64| row.iter().map(of).sum::<f64>() / row.len() as f64;
                let ratios = |of: fn(&(Ran, Ran)) -> f64| spread(&row.iter().map(of).collect::<Vec<_>>());
                println!(
                    "{:<12}{:>8}{:>13}{:>10.0}{:>10.0}{:>22}{:>22}",
                    script.name(),
                    clients,
                    format!("-j {threads}"),
                    mean(|(ours, _)| ours.throughput_per_s),
                    mean(|(_, theirs)| theirs.throughput_per_s),
                    ratios(|(ours, theirs)| ours.throughput_per_s / theirs.throughput_per_s),
                    ratios(|(ours, theirs)| ours.processor_us / theirs.processor_us),
                );
            }
        }
    }
}
