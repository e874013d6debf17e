//! Popular drivers, each in its own language, through the governor.
//!
//! The programs are in `tests/drivers`. Each runs as a user of class low while others of class high update the same
//! rows. It is therefore queued, rolled back and replayed all the time, and may notice only an occasional error 40001.
//! The dependencies of a program are fetched once, by the ordinary tool of its language, into the build folder.

pub mod environment;
pub mod load;
mod shares;
mod tags;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use environment::{go_program, java_driver, node_folder, python, ruby_program, rust_program};
use load::Load;

use super::governed::Governed;
use super::server::{PASSWORD, Server};

/// The checks that every program passes, or explains why not.
pub const CHECKS: &str = "connect simple prepared pipeline copy cancel notify rollback large notice contended";

/// The programs take a few seconds; one that takes this long hangs.
const PROGRAM_MAX: Duration = Duration::from_secs(180);

/// Runs a program through a governor while others of a higher class are busy with the same rows.
fn check(mut program: Command, checks: &str) {
    // One at a time, because they count in the same rows.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for pool in POOLS {
        // An old transaction of another test would make their tables count as changed.
        check_before(&Server::start(), pool, &mut program, checks);
    }
}

/// A server connection for each client, and fewer connections than a program has contenders.
const POOLS: [Option<u32>; 2] = [None, Some(4)];

/// How often a program is run until it was queued: where processes start slowly, its contenders may miss each other.
const TRIES: usize = 3;

/// The same at a server where no other program counts.
pub fn check_before(server: &Server, pool: Option<u32>, program: &mut Command, checks: &str) {
    // Few places, so that six contenders wait for them, even if each is a program that must start first.
    let mut governed = Governed::start_sharing(server, pool, "mpl = 2");
    if pool.is_some() {
        // Its statements are then not the only ones of its connection.
        program.env("PLIMSOLL_SHARED", "yes");
    }
    let load = Load::start(governed.address, server.database(), 2);
    let mut was_queued = || {
        let said = run_once(program, governed.address, server.database());
        assert_told(&said, checks);
        governed.count(Some("low"), "queued") > 0
    };
    assert!((0..TRIES).any(|_| was_queued()), "nobody was queued: admission was not tested");
    load.stop();
    governed.assert_alive();
}

/// Checks that a program has reported each of these checks as passed, or as not applicable.
pub fn assert_told(said: &str, checks: &str) {
    for check in checks.split(' ') {
        let is_told = |line: &str| line == format!("ok {check}") || line.starts_with(&format!("none {check}: "));
        assert!(said.lines().any(is_told), "nothing is said of {check}:\n{said}");
    }
}

/// Has a program that uses libpq, or its variables, log in there as `low`.
pub fn connecting_to<'c>(program: &'c mut Command, address: SocketAddr, database: &str) -> &'c mut Command {
    program.env("PGHOST", address.ip().to_string()).env("PGPORT", address.port().to_string());
    program.env("PGUSER", "low").env("PGPASSWORD", PASSWORD).env("PGDATABASE", database)
}

/// Runs a program to its end and returns its output.
pub fn run(mut program: Command, address: SocketAddr, database: &str) -> String {
    run_once(&mut program, address, database)
}

fn run_once(program: &mut Command, address: SocketAddr, database: &str) -> String {
    let said = tempfile::NamedTempFile::new().unwrap();
    // Both append to one file; with separate positions one would overwrite the other.
    let output = || fs::File::options().append(true).open(said.path()).unwrap();
    connecting_to(program, address, database).stdin(Stdio::null()).stdout(output()).stderr(output());
    let mut child = program.spawn().unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let began = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if began.elapsed() > PROGRAM_MAX {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(20));
    };
    let said = fs::read_to_string(said.path()).unwrap();
    let ended = ended.unwrap_or_else(|| panic!("{program:?} hangs after\n{said}"));
    assert!(ended.success(), "{program:?}: {ended}\n{said}");
    said
}

pub fn programs() -> &'static Path {
    Path::new("tests/drivers")
}

/// Tests libpq through psql.
pub fn psql_program() -> Command {
    environment::tool("psql", "postgresql-client");
    let mut program = Command::new("bash");
    program.arg(programs().join("psql/checks.sh"));
    program
}

/// A program in Python, with the requirements in its folder.
pub fn python_program(folder: &str, file: &str) -> Command {
    let folder = programs().join(folder);
    let mut program = Command::new(python(&folder));
    program.arg(folder.join(file));
    program
}

fn node_program(file: &str) -> Command {
    let mut program = Command::new("node");
    program.arg(node_folder(&programs().join("node")).join(file));
    program
}

#[test]
fn psql() {
    check(psql_program(), CHECKS);
}

#[test]
fn psycopg() {
    check(python_program("python", "psycopg_checks.py"), CHECKS);
}

#[test]
fn asyncpg() {
    check(python_program("python", "asyncpg_checks.py"), CHECKS);
}

#[test]
fn node_postgres() {
    check(node_program("pg.js"), CHECKS);
}

#[test]
fn postgres_js() {
    check(node_program("postgres.js"), CHECKS);
}

#[test]
fn jdbc() {
    let mut program = Command::new("java");
    program.arg("-cp").arg(java_driver(&programs().join("java"))).arg(programs().join("java/Checks.java"));
    check(program, CHECKS);
}

#[test]
fn pgx() {
    check(Command::new(go_program(&programs().join("go"))), CHECKS);
}

#[test]
fn tokio_postgres() {
    check(Command::new(rust_program(&programs().join("rust"))), CHECKS);
}

/// Rails' own mapper, as Debian packages it.
#[test]
fn active_record() {
    check(ruby_program(&programs().join("orms/active_record.rb")), "migration contended rollback prepared");
}

#[test]
fn sqlalchemy() {
    check(python_program("orms", "patterns.py"), "sqlalchemy");
}
