//! A process that commits under `sync` is killed; every commit that it reported is in the log that it leaves.
//!
//! The child is this very test binary, run again with a folder to log to.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use plimsoll_engine::clock::MonotonicClock;
use plimsoll_engine::log::reader::LogReader;
use plimsoll_engine::log::record::{LoggedValue, Record};
use plimsoll_engine::log::storage::FolderStorage;
use plimsoll_engine::table::layout::TableSpec;
use plimsoll_engine::value::{ColumnSpec, ColumnType, Value};
use plimsoll_engine::{Durability, Engine, EngineOptions, Log, LogOptions};
use plimsoll_policy::Priority;

/// The folder to log to; its presence makes the child.
const FOLDER: &str = "PLIMSOLL_LOG_CRASH_FOLDER";
/// The prefix of the line that the child prints when a commit has returned.
const COMMITTED: &str = "committed ";
const THREADS: i64 = 4;

fn options(folder: &Path) -> LogOptions {
    // Segments of a few hundred transactions, so that some kills come between two of them.
    let (durability, folder) = (Durability::Sync, Some(folder.to_owned()));
    LogOptions { durability, folder, segment_bytes: 16 << 10, ..LogOptions::default() }
}

/// Commits until it is killed.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let log = Log::open(&options(Path::new(&folder)), Arc::new(MonotonicClock::default())).unwrap();
    let engine = Engine::with_log(EngineOptions::default(), log);
    let column = ColumnSpec { name: "key".to_owned(), kind: ColumnType::Int64, nullable: false };
    let (columns, primary_key) = (vec![column], vec![0]);
    let spec = TableSpec { name: "t".to_owned(), columns, primary_key, secondary: vec![] };
    let table = engine.create_table(spec).unwrap().number;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = &engine;
            scope.spawn(move || {
                let mut connection = engine.connect();
                for key in (thread..).step_by(THREADS as usize) {
                    let insert = |connection: &mut plimsoll_engine::Connection| {
                        connection.insert(table, &[Value::Int(key)]).map(|_| ())
                    };
                    connection.transact(Priority::LOW, insert).unwrap();
                    // One write, which is whole in the pipe or not there at all.
                    std::io::stdout().write_all(format!("{COMMITTED}{key}\n").as_bytes()).unwrap();
                }
            });
        }
    });
}

/// Runs a child, kills it after `commits` commits, and returns the commits that it reported.
fn run_and_kill(folder: &Path, commits: usize) -> BTreeSet<i64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    // libtest begins the first line with the test's name.
    let number = |line: String| line.split_once(COMMITTED)?.1.parse().ok();
    let mut committed: BTreeSet<i64> = lines.by_ref().filter_map(number).take(commits).collect();
    child.kill().unwrap();
    // Lines that it printed before it died count, too.
    committed.extend(lines.filter_map(number));
    child.wait().unwrap();
    committed
}

#[test]
fn everything_acknowledged_before_a_kill_is_in_the_log() {
    // Beside the build, which is on a disk where the system's temporary folder need not be.
    let parent = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for commits in [1, 10, 200, 1_500] {
        let committed = run_and_kill(parent.path(), commits);
        assert!(committed.len() >= commits, "the child ended by itself");
        let folders: Vec<_> = parent.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(folders.len(), 1, "a start removes what a killed process has left: {folders:?}");
        let storage = FolderStorage::new(&folders[0]);
        let mut found = BTreeSet::new();
        for transaction in LogReader::new(&storage).unwrap() {
            for record in transaction.unwrap().records {
                let Record::Insert { values, .. } = record else { panic!("only insertions: {record:?}") };
                let [LoggedValue::Int(key)] = values[..] else { panic!("one integer: {values:?}") };
                assert!(found.insert(key), "{key} twice");
            }
        }
        let lost: Vec<_> = committed.difference(&found).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        // Each thread may have one more, the transaction that it was about to acknowledge.
        assert!(found.len() <= committed.len() + THREADS as usize, "{} {}", found.len(), committed.len());
    }
}
