//! A TPC-C run on a database with a data folder is killed, and the database opened again: the consistency conditions
//! hold, queries see the recovered rows, and the next run continues from there.
//!
//! The child is this test binary, run again on the same folder.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::Database;
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, drive};
use plimsoll_workload::tpcc::Tpcc;
use plimsoll_workload::tpch::tables::SCHEMA as TPCH;

/// The folder of the database; its presence makes the child.
const FOLDER: &str = "PLIMSOLL_TPCC_RECOVERY_FOLDER";
const RUNNING: &str = "the run is on its way";
/// Few enough for the slowest disk, but enough that some are newer than the last checkpoint.
const TRANSACTIONS: u64 = 200;
/// Longer than loading and these transactions take, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

fn tpcc() -> Tpcc {
    Tpcc::new(1, 7)
}

fn open(folder: &Path) -> Embedded {
    let folder = format!("data_folder={}", folder.display());
    let copied = ["propagation=background", "propagation_age=20ms"];
    let options = ["durability=sync", &folder, "checkpoint_mib=1", "dop=2"].into_iter().chain(copied);
    Embedded::new(EmbeddedOptions::parse(options).unwrap()).unwrap()
}

fn load(tpcc: &Tpcc, database: &Embedded) {
    tpcc.load(database, &LoadProgress { report: &|_, _, _| (), stop: &AtomicBool::new(false) }).unwrap();
}

/// Runs for ten minutes beside queries, and prints a line once that many transactions are on disk.
fn run(tpcc: &Tpcc, database: &Embedded, seed: u64) {
    let options = ClientOptions { clients: 4, seed, ..ClientOptions::default() };
    let drives = [Drive { name: "tpcc", benchmark: tpcc, database, options: &options }];
    let window = Window { warmup: WarmUp::For(Duration::ZERO), measure: Duration::from_secs(600) };
    let durable = || database.log_statistics().unwrap().durable_units;
    let before = durable();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while durable() < before + TRANSACTIONS {
                count(database, tpcc, "orders");
            }
            println!("{RUNNING}");
            while !is_over.load(Ordering::SeqCst) {
                count(database, tpcc, "orders");
            }
        });
        drive(&drives, window, &mut (), &AtomicBool::new(false)).unwrap();
        is_over.store(true, Ordering::SeqCst);
    });
}

fn count(database: &Embedded, tpcc: &Tpcc, table: &str) -> u64 {
    let answer = database.session(tpcc.schema()).unwrap().query(&format!("select * from {table}")).unwrap();
    answer.batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// Loads missing tables and runs until it is killed.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (database, tpcc) = (open(Path::new(&folder)), tpcc());
    if database.tables(tpcc.schema()).is_err() {
        load(&tpcc, &database);
    }
    run(&tpcc, &database, u64::from(std::process::id()));
}

fn run_and_kill(folder: &Path, life: Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(lines.any(|line| line.contains(RUNNING))));
    let is_running = told.recv_timeout(PATIENCE);
    if is_running.is_err() {
        child.kill().unwrap();
    }
    assert_eq!(is_running, Ok(true), "the child hangs, or ended by itself");
    // The kill comes at an arbitrary moment; the required work has been done before.
    thread::sleep(life);
    assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_conditions_of_tpcc_hold_after_a_kill_and_the_next_run_goes_on() {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recovery-{}", std::process::id()));
    let tpcc = tpcc();
    let mut orders = 0;
    for life in [300, 0] {
        run_and_kill(&parent, Duration::from_millis(life));
        let database = open(&parent);
        let report = database.recovery().unwrap().clone();
        assert!(report.transactions > 0 && report.checkpoint_rows > 400_000, "{report:?}");
        println!("{report:?}");
        let lines = tpcc.check(&database).unwrap();
        let broken: Vec<_> = lines.iter().filter(|line| line.holds == Some(false)).collect();
        assert!(broken.is_empty(), "{broken:?}");
        assert!(lines.iter().filter(|line| line.holds == Some(true)).count() >= 12, "{lines:?}");
        let copied = database.freshness().unwrap().unwrap().look().unwrap();
        assert_eq!((copied.published, copied.applied), (0, 0), "the column copy is that of the recovered rows");
        let now = count(&database, &tpcc, "orders");
        assert!(now > orders.max(30_000), "{now} orders after {orders}");
        orders = now;
    }
    // After a clean close there is nothing to replay; dropped tables stay away, and can be loaded again.
    let database = open(&parent);
    assert_eq!(database.recovery().unwrap().transactions, 0);
    assert_eq!(count(&database, &tpcc, "orders"), orders);
    let error = database.create(tpcc.schema()).unwrap_err().to_string();
    assert!(error.contains("exist already"), "{error}");
    database.drop_tables(tpcc.schema()).unwrap();
    drop(database);
    let database = open(&parent);
    assert!(database.tables(tpcc.schema()).is_err());
    load(&tpcc, &database);
    assert_eq!(count(&database, &tpcc, "orders"), 30_000);
    // Tables that are kept only as columns do not outlive the process, and do not prevent the next opening.
    database.create(&TPCH).unwrap();
    database.finish_load(&TPCH).unwrap();
    drop(database);
    assert!(open(&parent).tables(&TPCH).is_err());
    std::fs::remove_dir_all(&parent).unwrap();
}

/// Runs until the warnings of the database are as expected.
fn run_until(tpcc: &Tpcc, database: &Embedded, is_expected: impl Fn(&[String]) -> bool) {
    let options = ClientOptions { clients: 4, ..ClientOptions::default() };
    let drives = [Drive { name: "tpcc", benchmark: tpcc, database, options: &options }];
    let window = Window { warmup: WarmUp::For(Duration::ZERO), measure: Duration::from_millis(200) };
    let began = Instant::now();
    while !is_expected(&database.warnings()) {
        assert!(began.elapsed() < PATIENCE, "{:?}", database.warnings());
        drive(&drives, window, &mut (), &AtomicBool::new(false)).unwrap();
    }
}

/// Transactions continue, so that without a warning the failure would go unnoticed until the disk is full.
#[test]
fn a_checkpoint_that_fails_is_warned_of_until_one_succeeds() {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recovery-warned-{}", std::process::id()));
    let (database, tpcc) = (open(&parent), tpcc());
    load(&tpcc, &database);
    run_until(&tpcc, &database, <[String]>::is_empty);
    // A folder occupies the path at which the next checkpoints create their file.
    let in_the_way: Vec<_> = (1..1000).map(|number| parent.join(format!("checkpoint-{number:010}.draft"))).collect();
    in_the_way.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    run_until(&tpcc, &database, |warnings| {
        warnings.iter().any(|warning| warning.starts_with("the last checkpoint failed: checkpoint-"))
    });
    in_the_way.iter().for_each(|folder| std::fs::remove_dir(folder).unwrap());
    run_until(&tpcc, &database, <[String]>::is_empty);
    drop(database);
    std::fs::remove_dir_all(&parent).unwrap();
}

#[test]
fn what_cannot_be_opened_says_why() {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recovery-refused-{}", std::process::id()));
    let open = |folder: &Path, durability: &str| {
        let options = [format!("durability={durability}"), format!("data_folder={}", folder.display())];
        let options = EmbeddedOptions::parse(options.iter().map(String::as_str)).unwrap();
        Embedded::new(options).map(drop).map_err(|error| error.to_string())
    };
    let (first, second) = (parent.join("first"), parent.join("second"));
    let error = open(&first, "none").unwrap_err();
    assert!(error.contains("set durability to `sync` or `async`"), "{error}");
    open(&first, "sync").unwrap();
    open(&second, "async").unwrap();
    // A folder with the segments of another database.
    let database = open_with_a_unit(&first);
    assert!(open(&first, "sync").unwrap_err().contains("is open in another process"));
    drop(database);
    for entry in first.read_dir().unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "plimsoll-database" {
            std::fs::copy(entry.path(), second.join(entry.file_name())).unwrap();
        }
    }
    let error = open(&second, "sync").unwrap_err();
    assert!(error.contains(&second.display().to_string()) && error.contains("belongs to database"), "{error}");
    assert!(error.contains("move it out of the folder") || error.contains("checkpoint"), "{error}");
    std::fs::remove_dir_all(&parent).unwrap();
}

/// Opens a database and changes its catalog.
fn open_with_a_unit(folder: &Path) -> Embedded {
    let database = open(folder);
    database.create(tpcc().schema()).unwrap();
    database
}
