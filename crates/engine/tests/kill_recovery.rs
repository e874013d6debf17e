//! A database is killed repeatedly while threads move money, and recovered each time. All acknowledged transactions are
//! there, whole, and at most those that were in progress besides.
//!
//! The child is this very test binary, run again on the same folder. Checkpoints and segments are tiny, so that kills
//! come in the middle of checkpoints, of their publication and of the reuse of segments, and some while the database is
//! being recovered. The bounded form kills some hundred times, `PLIMSOLL_LONG=1` some thousand times.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use plimsoll_engine::table::layout::TableSpec;
use plimsoll_engine::transaction::{Purpose, TransactionError};
use plimsoll_engine::value::{ColumnSpec, ColumnType, Value};
use plimsoll_engine::{Connection, Durability, Engine, EngineOptions, LogOptions};
use plimsoll_policy::Priority;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// The folder of the database; its presence makes the child.
const FOLDER: &str = "PLIMSOLL_KILL_RECOVERY_FOLDER";
/// The child's report of a thread's transaction: `acknowledged THREAD COUNT`.
const ACKNOWLEDGED: &str = "acknowledged ";
const THREADS: i64 = 4;

/// The counters: how many transactions each thread has committed.
const COUNTERS: u32 = 0;
/// The accounts, with a primary key; the sum of their balances is 0.
const ACCOUNTS: u32 = 1;
/// A journal of the transactions, without a primary key: the newest entries of each thread.
const JOURNAL: u32 = 2;
const ACCOUNT_COUNT: i64 = 64;
/// Entries of a thread that are kept.
const KEPT: i64 = 20;
/// Keys of accounts that are inserted and deleted in pairs, one pair per thread at a time.
const PAIRS: i64 = 1_000_000;

fn options(folder: &Path) -> LogOptions {
    LogOptions {
        durability: Durability::Sync,
        data_folder: Some(folder.to_owned()),
        checkpoint_bytes: 48 << 10,
        segment_bytes: 8 << 10,
        ..LogOptions::default()
    }
}

fn create(engine: &Arc<Engine>) {
    let column = |name: &str| ColumnSpec { name: name.to_owned(), kind: ColumnType::Int64, nullable: false };
    let spec = |name: &str, columns: &[&str], primary_key: Vec<usize>, secondary: Vec<Vec<usize>>| TableSpec {
        name: name.to_owned(),
        columns: columns.iter().map(|name| column(name)).collect(),
        primary_key,
        secondary,
    };
    let counters = engine.create_table(spec("counters", &["thread", "count"], vec![0], vec![])).unwrap();
    let accounts = engine.create_table(spec("accounts", &["account", "balance"], vec![0], vec![])).unwrap();
    let journal =
        engine.create_table(spec("journal", &["thread", "count", "amount"], vec![], vec![vec![0, 1]])).unwrap();
    assert_eq!([counters.number, accounts.number, journal.number], [COUNTERS, ACCOUNTS, JOURNAL]);
    for (table, rows) in [(&counters, THREADS), (&accounts, ACCOUNT_COUNT)] {
        for key in 0..rows {
            table.load(&[Value::Int(key), Value::Int(0)]).unwrap();
        }
    }
    engine.keep_set("bank", vec![COUNTERS, ACCOUNTS, JOURNAL]).unwrap();
}

fn step(connection: &mut Connection, thread: i64, random: &mut Pcg64) -> Result<i64, TransactionError> {
    let (from, to) = (random.random_range(0..ACCOUNT_COUNT), random.random_range(0..ACCOUNT_COUNT));
    let amount = random.random_range(1..1_000);
    connection.transact(Priority::LOW, |connection| {
        let counter = connection.find(COUNTERS, &[Value::Int(thread)], Purpose::Write)?.expect("it was loaded");
        let count = connection.int(COUNTERS, counter, 1) + 1;
        connection.set(COUNTERS, counter, 1, Value::Int(count))?;
        for (account, change) in [(from, -amount), (to, amount)] {
            let row = connection.find(ACCOUNTS, &[Value::Int(account)], Purpose::Write)?.expect("it was loaded");
            let balance = connection.int(ACCOUNTS, row, 1);
            connection.set(ACCOUNTS, row, 1, Value::Int(balance + change))?;
        }
        // The pair of the previous transaction is deleted, and the next one inserted: two keys, or none.
        for (count, is_new) in [(count - 1, false), (count, true)] {
            for (side, sign) in [(0, 1), (1, -1)] {
                let key = Value::Int(PAIRS * (thread + 1) + 2 * count + side);
                if is_new {
                    connection.insert(ACCOUNTS, &[key, Value::Int(sign * count)])?;
                } else if let Some(row) = connection.find(ACCOUNTS, &[key], Purpose::Write)? {
                    connection.delete(ACCOUNTS, row)?;
                }
            }
        }
        connection.insert(JOURNAL, &[Value::Int(thread), Value::Int(count), Value::Int(amount)])?;
        let old = [Value::Int(thread), Value::Int(count - KEPT)];
        let mut rows = Vec::new();
        connection.find_all((JOURNAL, 0), &old, &old, Purpose::Write, &mut rows)?;
        rows.iter().try_for_each(|&row| connection.delete(JOURNAL, row))?;
        Ok(count)
    })
}

/// Commits until it is killed.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let engine_options = EngineOptions { retry_max: 1_000_000, ..EngineOptions::default() };
    let engine = Engine::open(engine_options, &options(Path::new(&folder))).unwrap();
    if engine.set("bank").is_none() {
        engine.drop_tables_outside_sets();
        // Numbers are never reused, so after an interrupted load the tables would have other numbers.
        assert!(engine.row_tables().is_empty());
        create(&engine);
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = &engine;
            scope.spawn(move || {
                let mut connection = engine.connect();
                let mut random = Pcg64::seed_from_u64(u64::from(std::process::id()) * 10 + thread as u64);
                loop {
                    let count = step(&mut connection, thread, &mut random).unwrap();
                    // One write, which is whole in the pipe or not there at all.
                    let line = format!("{ACKNOWLEDGED}{thread} {count}\n");
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

/// Runs a child, kills it some time after its start, or after its first commit, and returns the last count acknowledged
/// for each thread.
fn run_and_kill(folder: &Path, is_after_commit: bool, life: Duration) -> Vec<Option<i64>> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        // libtest begins the first line with the test's name.
        for line in output.lines().map_while(Result::ok) {
            let Some((_, said)) = line.split_once(ACKNOWLEDGED) else { continue };
            let (thread, count) = said.split_once(' ').unwrap();
            sender.send((thread.parse::<usize>().unwrap(), count.parse().unwrap())).unwrap();
        }
    });
    let mut counts = vec![None; THREADS as usize];
    if is_after_commit {
        let (thread, count): (usize, i64) = receiver.recv().expect("the child committed nothing");
        counts[thread] = Some(count);
    }
    std::thread::sleep(life);
    assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    receiver.into_iter().for_each(|(thread, count)| counts[thread] = Some(count));
    counts
}

/// Checks the invariants of a recovered database. Returns the count of each thread.
fn check(engine: &Engine) -> Vec<i64> {
    let rows = |number: u32| {
        let table = engine.row_table(number);
        let columns = table.spec.columns.len();
        for index in &table.indexes {
            assert_eq!(index.key_count(), table.heap.live_rows().count(), "{}", table.spec.name);
        }
        let row = |row| (0..columns).map(|column| table.heap.int(row, column)).collect::<Vec<_>>();
        let mut rows: Vec<_> = table.heap.live_rows().map(row).collect();
        rows.sort_unstable();
        rows
    };
    let (counters, accounts, journal) = (rows(COUNTERS), rows(ACCOUNTS), rows(JOURNAL));
    let counts: Vec<i64> = counters.iter().map(|row| row[1]).collect();
    assert_eq!(accounts.iter().map(|row| row[1]).sum::<i64>(), 0, "money came or went");
    let mut pairs = Vec::new();
    let mut entries = Vec::new();
    for (thread, &count) in (0..).zip(&counts) {
        let pair = [0, 1].map(|side| vec![PAIRS * (thread + 1) + 2 * count + side, [count, -count][side as usize]]);
        pairs.extend(pair.into_iter().filter(|_| count > 0));
        entries.extend(((count - KEPT + 1).max(1)..=count).map(|count| (thread, count)));
    }
    assert_eq!(accounts[ACCOUNT_COUNT as usize..], pairs, "half a transaction");
    let found: Vec<_> = journal.iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(found, entries, "half a transaction");
    counts
}

#[test]
fn everything_acknowledged_survives_kills_upon_kills() {
    let is_long = std::env::var_os("PLIMSOLL_LONG").is_some();
    let (kills_max, time_max) =
        if is_long { (5_000, Duration::from_secs(900)) } else { (300, Duration::from_secs(40)) };
    // Beside the build, which is on a disk where the system's temporary folder need not be.
    let parent = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = parent.path().join("bank");
    let mut random = Pcg64::seed_from_u64(8);
    let (began, mut kills, mut transactions, mut checkpoints) = (Instant::now(), 0, 0, 0);
    let mut before: Vec<i64> = vec![0; THREADS as usize];
    while kills < kills_max && began.elapsed() < time_max {
        // Some die before they have recovered the database, some during transactions.
        let is_after_commit = kills % 2 == 0;
        let life = Duration::from_millis(random.random_range(if is_after_commit { 0..80 } else { 5..100 }));
        let told = run_and_kill(&folder, is_after_commit, life);
        kills += 1;
        let copy = match Engine::open_copy(EngineOptions::default(), &folder) {
            Ok(copy) => copy,
            Err(error) => panic!("kill {kills}: {error}"),
        };
        let counts = check(&copy);
        for ((&before, told), &count) in before.iter().zip(told).zip(&counts) {
            let told = told.unwrap_or(before);
            // One more transaction may be found, the one that the thread was about to acknowledge.
            assert!((told..=told + 1).contains(&count), "kill {kills}: {told} acknowledged, {count} found");
        }
        transactions += counts.iter().zip(&before).map(|(now, before)| now - before).sum::<i64>();
        let report = copy.recovery().unwrap();
        checkpoints = report.checkpoint.unwrap();
        before = counts;
    }
    println!("{kills} kills, {transactions} transactions, {checkpoints} checkpoints");
    assert!(kills >= 20 && transactions > kills / 2, "{kills} kills, {transactions} transactions");
    assert!(checkpoints > 1, "{checkpoints} checkpoints");
    // The database still works.
    let engine = Engine::open(EngineOptions::default(), &options(&folder)).unwrap();
    step(&mut engine.connect(), 0, &mut random).unwrap();
    assert_eq!(check(&engine)[0], before[0] + 1);
}
