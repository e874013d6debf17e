//! Random transactions on several threads beside readers: every snapshot is the replay of a prefix, and stays so.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::columns::table::CHUNK_ROWS;
use crate::log::tests::storage::MemoryStorage;
use crate::log::{Durability, Log, LogOptions};

/// The number of histories, each with its own seed; can be raised for a longer search.
fn seeds() -> u64 {
    std::env::var("PLIMSOLL_DELTA_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(24)
}

struct Setting {
    options: DeltaOptions,
    early_lock_release: bool,
    writers: u64,
    /// Row numbers are skipped, so that new rows lie in several chunks.
    spreads: bool,
}

impl Setting {
    fn of(random: &mut Pcg64, seed: u64) -> Setting {
        let propagation =
            [Propagation::Background, Propagation::BeforeQuery, Propagation::Blocking, Propagation::Paused]
                [seed as usize % 4];
        let mut recencies = vec![Recency::Latest, Recency::Bounded(Duration::from_millis(2))];
        if propagation == Propagation::Background {
            recencies.push(Recency::Snapshot);
        }
        let options = DeltaOptions {
            propagation,
            recency: recencies[random.random_range(0..recencies.len())],
            threads: random.random_range(1..4),
            age_max: Duration::from_millis(random.random_range(1..6)),
            chunk_changes: random.random_range(1..50),
            bytes_max: 1 << random.random_range(11..22),
            when_full: WhenFull::ALL[random.random_range(0..2)],
        };
        let (early_lock_release, spreads) = (random.random_bool(0.5), random.random_bool(0.3));
        Setting { options, early_lock_release, writers: random.random_range(2..6), spreads }
    }

    fn engine(&self) -> Arc<Engine> {
        let options = EngineOptions { early_lock_release: self.early_lock_release, ..EngineOptions::default() };
        let log = LogOptions { durability: Durability::Sync, ..LogOptions::default() };
        let clock = Arc::clone(&options.clock);
        let log = Log::start(Box::new(MemoryStorage::default()), &log, clock).unwrap();
        Engine::with_log(options, self.early_lock_release.then_some(log))
    }
}

/// One transaction that changes something.
fn change(
    connection: &mut Connection,
    set: &TableSet,
    random: &mut Pcg64,
    serial: i64,
) -> Result<(), TransactionError> {
    let (account, entry) = (number(set, ACCOUNT), number(set, ENTRY));
    for _ in 0..random.random_range(1..4) {
        match random.random_range(0..6) {
            0 | 1 => {
                let (from, to) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
                transfer(connection, account, from, to, random.random_range(1..100))?;
            }
            2 => {
                let row = connection.find(account, &[Value::Int(random.random_range(0..ACCOUNTS))], Purpose::Write)?;
                let note = format!("note {}", serial % 500);
                let note = if serial % 5 == 0 { Value::Null } else { Value::Text(&note) };
                connection.set(account, row.expect("no account goes for good"), NOTE, note)?;
            }
            // An account that is deleted and inserted again in the same transaction, in another slot, with the same
            // values.
            3 => {
                let id = random.random_range(0..ACCOUNTS);
                let row = connection.find(account, &[Value::Int(id)], Purpose::Write)?.expect("it is there");
                let balance = connection.int(account, row, BALANCE);
                connection.delete(account, row)?;
                let values = [Value::Int(id), Value::Int(id % 4), Value::Int(balance), Value::Text("again")];
                connection.insert(account, &values)?;
            }
            _ => {
                let id = random.random_range(0..60);
                match connection.find(entry, &[Value::Int(id)], Purpose::Write)? {
                    Some(row) => connection.delete(entry, row)?,
                    None => {
                        connection.insert(entry, &[Value::Int(id), Value::Text("new")])?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn write(engine: &Arc<Engine>, set: &TableSet, mut random: Pcg64, published: &AtomicU64) {
    let mut connection = engine.connect();
    for serial in 0..60 {
        loop {
            connection.begin(Priority::LOW, 0);
            let outcome = change(&mut connection, set, &mut random, serial);
            if outcome.is_ok() && random.random_bool(0.9) {
                match connection.commit() {
                    Ok(()) => {
                        published.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            } else {
                connection.rollback();
                match outcome {
                    Ok(()) => break,
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
        }
    }
}

/// A snapshot and its contents, read at once.
type Seen = (Arc<ColumnSnapshot>, Vec<Rows>);

/// Takes snapshots until all writers have ended, and holds them.
fn read(set: &TableSet, recency: Recency, published: &AtomicU64, is_over: &AtomicBool) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    while !is_over.load(Ordering::SeqCst) && seen.len() < 40 {
        let before = published.load(Ordering::SeqCst);
        let reading = set.read().unwrap();
        let snapshot = Arc::clone(reading.snapshot());
        reading.settle().unwrap();
        assert!(recency != Recency::Latest || snapshot.seq() >= before, "{} commits, of {before}", snapshot.seq());
        let contents = all_contents(&snapshot);
        seen.push((snapshot, contents));
        std::thread::sleep(Duration::from_micros(300));
    }
    seen
}

fn run(seed: u64) {
    let mut random = Pcg64::seed_from_u64(seed);
    let setting = Setting::of(&mut random, seed);
    let engine = setting.engine();
    let set = loaded(&engine, &setting.options);
    let before = rows_by_number(&set);
    let entry = number(&set, ENTRY);
    // Enough of them that freed slots are reused.
    commit(&engine, |connection| {
        (60..ENTRIES).try_for_each(|id| {
            let row = connection.find(entry, &[Value::Int(id)], Purpose::Write)?.expect("loaded");
            connection.delete(entry, row)
        })
    });
    if setting.spreads {
        let heap = &set.rows(ACCOUNT).unwrap().heap;
        heap.allocate_run((2 * CHUNK_ROWS - 20) as u64 - heap.slot_count());
    }
    let (published, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
    let recency = setting.options.recency;
    let mut seen = std::thread::scope(|scope| {
        let (engine, set, published, is_over) = (&engine, &set, &published, &is_over);
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(move || read(set, recency, published, is_over))).collect();
        let writers = (0..setting.writers).map(|writer| Pcg64::seed_from_u64(seed << 8 | writer));
        let writers: Vec<_> =
            writers.map(|random| scope.spawn(move || write(engine, set, random, published))).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::SeqCst);
        readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect::<Vec<Seen>>()
    });
    let (last, commits) = (set.snapshot(), published.load(Ordering::SeqCst));
    assert_eq!(last.seq(), commits, "whoever has committed has published once");
    seen.push((Arc::clone(&last), all_contents(&last)));
    set.refresh().unwrap();
    let folded = set.snapshot();
    assert!(folded.versions().all(|table| table.overlay().is_none()), "a refresh has left something");
    seen.push((Arc::clone(&folded), all_contents(&folded)));
    check(&set, &before, seen, seed);
    let freshness = set.freshness().unwrap();
    assert_eq!((freshness.commits, freshness.lag_tuples, freshness.delta_bytes), (commits, 0, 0));
    assert_eq!(freshness.folded, freshness.published);
}

/// Compares the contents read with the replay, at once and again later, and the last of them with the rows.
fn check(set: &TableSet, before: &[RowWords], mut seen: Vec<Seen>, seed: u64) {
    seen.sort_by_key(|(snapshot, _)| snapshot.seq());
    let mut replay = Replay::new(set, before);
    for (snapshot, contents) in &seen {
        let expect = replay.at(snapshot.seq());
        for (table, (found, expect)) in contents.iter().zip(&expect).enumerate() {
            assert!(found == expect, "seed {seed}, commit {}, table {table}", snapshot.seq());
        }
        assert!(all_contents(snapshot) == expect, "seed {seed}: snapshot {} has changed since", snapshot.seq());
        let sum: i64 = expect[ACCOUNT].iter().map(|row| row[BALANCE].parse::<i64>().unwrap()).sum();
        assert_eq!((expect[ACCOUNT].len() as i64, sum), (ACCOUNTS, ACCOUNTS * 1000), "no serial order has this state");
    }
    let rows = rows_by_number(set);
    let last = replay.at(seen.last().unwrap().0.seq());
    for table in [ACCOUNT, ENTRY] {
        let rows = shown(&rows[table], &layouts()[table]);
        assert!(rows == last[table], "seed {seed}: the row copy of table {table} is another one");
    }
}

#[test]
fn every_snapshot_is_the_replay_of_a_prefix() {
    (0..seeds()).for_each(run);
}
