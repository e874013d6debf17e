//! Histories of random small transactions over few rows, run by several threads, must be those of some serial order.
//!
//! Under strict two-phase locking the order of commits is such an order. So each transaction takes a number while it
//! still holds all of its locks, and afterwards its whole program is run again, one transaction after the other in that
//! order, against an ordered map: every row that it had seen must be seen again, and no other rows. That finds lost
//! updates, dirty and unrepeatable reads, phantoms and write skew alike. A deadlock left standing shows as a thread
//! that does not end.
//!
//! A transaction takes a number after each step, too, so that transactions that did not commit are checked, too: a
//! victim must have seen the rows that it would have seen there if it had run alone.
//!
//! Every scheduler is tested, alone and with the CPU schedulers, and priorities are random: victims, preempted while
//! they wait or while they run, must leave nothing behind, and run again until they commit. Logs are tested with and
//! without early release of locks, and so are tables that reuse the slots of deleted rows at once.

#[path = "serializability/memory.rs"]
mod memory;
#[path = "serializability/steps.rs"]
mod steps;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use memory::MemoryFiles;
use plimsoll_engine::clock::MonotonicClock;
use plimsoll_engine::lock::LockStatistics;
use plimsoll_engine::log::reader::LogReader;
use plimsoll_engine::log::replay;
use plimsoll_engine::table::IndexKind;
use plimsoll_engine::transaction::TransactionError;
use plimsoll_engine::{Durability, Engine, EngineOptions, Log, LogOptions};
use plimsoll_policy::{
    CpuScheduler, CpuVerdict, LOCK_SCHEDULERS, Priority, Requester, Stance, StarvationBound, cpu_scheduler,
    lock_scheduler,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use steps::{Client, Model, Program, ProgramStep, Row, TABLES, add_tables, initial_model, program};

/// Few keys make transactions meet; more of them make the index grow and shrink under them, node by node.
const KEYS: [i64; 2] = [8, 80];

/// The lock scheduler under test. Reprieves are as short as the transactions of this test.
fn scheduler_name(seed: u64) -> &'static str {
    let kind = &LOCK_SCHEDULERS[seed as usize % LOCK_SCHEDULERS.len()];
    if kind.name == "cr(d)" { "cr(20us)" } else { kind.example }
}

/// A CPU scheduler that leaves threads alone and does all else: on a busy machine, threads of low priority would get too
/// little to end in time.
#[derive(Debug)]
struct VerdictsOnly(&'static str);

impl VerdictsOnly {
    fn like(&self) -> &'static dyn CpuScheduler {
        cpu_scheduler(self.0).expect("listed")
    }
}

impl CpuScheduler for VerdictsOnly {
    fn name(&self) -> &'static str {
        self.0
    }

    fn about(&self) -> &'static str {
        self.like().about()
    }

    fn nice(&self, _priority: Priority) -> i32 {
        0
    }

    fn verdict(&self, requester: &Requester, holder: &Stance) -> CpuVerdict {
        self.like().verdict(requester, holder)
    }

    fn leaves_holders_alone(&self) -> bool {
        self.like().leaves_holders_alone()
    }
}

/// Most histories have none, so that each lock scheduler is seen alone.
static CPU_SCHEDULERS: [VerdictsOnly; 4] =
    [VerdictsOnly("none"), VerdictsOnly("none"), VerdictsOnly("cpu-prio-inherit"), VerdictsOnly("p-cpu")];

fn cpu_scheduler_of(seed: u64) -> &'static VerdictsOnly {
    &CPU_SCHEDULERS[seed as usize / LOCK_SCHEDULERS.len() % CPU_SCHEDULERS.len()]
}

/// The environment of a history, besides its schedulers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct World {
    durability: Durability,
    early_lock_release: bool,
    /// Whether the slots of deleted rows are reused at once.
    reuses_slots: bool,
    key_range_locks: bool,
    /// The index of the primary keys.
    index: IndexKind,
}

impl World {
    fn of(seed: u64) -> Self {
        let (durability, early_lock_release) = [
            (Durability::None, false),
            (Durability::Sync, false),
            (Durability::Sync, true),
            (Durability::None, false),
            (Durability::Async, false),
        ][seed as usize % 5];
        World {
            durability,
            early_lock_release,
            reuses_slots: (seed / 5).is_multiple_of(2),
            key_range_locks: true,
            index: IndexKind::ALL[(seed / 40) as usize % IndexKind::ALL.len()],
        }
    }

    fn engine(self, seed: u64, files: &MemoryFiles) -> Arc<Engine> {
        let bounds = [1, 2, 5].map(|count| StarvationBound::after(count.try_into().expect("not zero")));
        let defaults = EngineOptions::default();
        let options = EngineOptions {
            lock_scheduler: lock_scheduler(scheduler_name(seed)).expect("listed"),
            cpu_scheduler: cpu_scheduler_of(seed),
            starvation_bound: bounds[seed as usize % bounds.len()],
            early_lock_release: self.early_lock_release,
            key_range_locks: self.key_range_locks,
            free_slots_min: if self.reuses_slots { 0 } else { defaults.free_slots_min },
            retry_max: 10_000,
            ..defaults
        };
        // Segments of a few dozen transactions; all of them are kept.
        let log = LogOptions { durability: self.durability, segment_bytes: 4_000, ..LogOptions::default() };
        let start = || Log::start(Box::new(files.clone()), &log, Arc::new(MonotonicClock::default()));
        let log = (self.durability != Durability::None).then(|| start().expect("memory is there"));
        Engine::with_log(options, log)
    }
}

/// A transaction that committed or did not: its number, the steps that it has done, and the rows that it saw in each.
#[derive(Debug, Clone)]
struct Attempt {
    number: u64,
    steps: Vec<ProgramStep>,
    seen: Vec<Vec<Row>>,
    has_committed: bool,
}

fn run_programs(engine: &Arc<Engine>, random: &mut Pcg64, keys: i64, index: IndexKind) -> Result<Vec<Attempt>, String> {
    let numbers = Arc::new(AtomicU64::new(0));
    let (send, receive) = mpsc::channel();
    let thread_count = random.random_range(2..=8);
    for thread in 0..thread_count {
        let programs: Vec<_> = (0..6).map(|at| program(random, keys, thread * 100 + at + 1, index)).collect();
        let mut pace = Pcg64::seed_from_u64(random.random());
        let (engine, numbers, send) = (Arc::clone(engine), Arc::clone(&numbers), send.clone());
        std::thread::spawn(move || {
            let mut client = Client { connection: engine.connect(), engine };
            let mut attempts = Vec::new();
            let mut run = |program| run_program(&mut client, program, &numbers, &mut pace, &mut attempts);
            let outcome = programs.iter().try_for_each(&mut run);
            drop(client);
            // The receiver is gone if another thread has met an error.
            let _ = send.send(outcome.map(|()| attempts));
        });
    }
    drop(send);
    let wait = || receive.recv_timeout(Duration::from_secs(60)).expect("a thread hangs or has panicked");
    let attempts: Result<Vec<_>, _> = (0..thread_count).map(|_| wait()).collect();
    Ok(attempts?.concat())
}

fn run_program(
    client: &mut Client,
    program: &Program,
    numbers: &AtomicU64,
    pace: &mut Pcg64,
    attempts: &mut Vec<Attempt>,
) -> Result<(), String> {
    let mut rollbacks = 0;
    loop {
        client.connection.begin(program.priority, rollbacks);
        let mut attempt = Attempt { number: 0, steps: Vec::new(), seen: Vec::new(), has_committed: false };
        let mut outcome = program.steps.iter().try_for_each(|&step| {
            if pace.random_bool(0.5) {
                // So that transactions conflict even on one core.
                std::thread::yield_now();
            }
            attempt.seen.push(client.perform(step)?);
            attempt.steps.push(step);
            // All locks that it has requested are held now.
            attempt.number = numbers.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        if outcome.is_ok() {
            outcome = if program.rolls_back { Err(TransactionError::Failed) } else { client.connection.commit() };
        }
        client.connection.rollback();
        attempt.has_committed = outcome.is_ok();
        attempts.push(attempt);
        match outcome {
            Ok(()) => return Ok(()),
            Err(TransactionError::Failed) if program.rolls_back => return Ok(()),
            Err(error) if error.is_retryable() && rollbacks < 10_000 => rollbacks += 1,
            Err(error) => return Err(format!("{error}: {program:?}")),
        }
    }
}

/// Replays the transactions in order; the first difference, if there is one. Transactions that did not commit see their
/// own changes; others do not.
fn first_difference(history: &mut [Attempt], model: &mut Model) -> Option<String> {
    history.sort_by_key(|attempt| attempt.number);
    for attempt in history.iter() {
        let mut own = (!attempt.has_committed).then(|| model.clone());
        let model = own.as_mut().unwrap_or(model);
        for (step, seen) in attempt.steps.iter().zip(&attempt.seen) {
            let expected = steps::replay(model, *step);
            if *seen != expected {
                let (number, how) = (attempt.number, if attempt.has_committed { "committed" } else { "rolled back" });
                return Some(format!("transaction {number}, {how}, {step:?}: saw {seen:?}, serially {expected:?}"));
            }
        }
    }
    None
}

/// The number of histories; more with `PLIMSOLL_LONG=1`.
fn seed_count() -> u64 {
    if std::env::var_os("PLIMSOLL_LONG").is_some() { 200_000 } else { 4_000 }
}

#[test]
fn every_history_is_serializable_and_nothing_is_left_behind() {
    let mut tally = BTreeMap::new();
    let (mut committed, mut rolled_back) = (0, 0);
    for seed in 0..seed_count() {
        let keys = KEYS[(seed / 2) as usize % KEYS.len()];
        let (world, files) = (World::of(seed), MemoryFiles::default());
        let (engine, mut model) = (world.engine(seed, &files), initial_model(keys));
        add_tables(&engine, &model, world.index);
        let history = run_programs(&engine, &mut Pcg64::seed_from_u64(seed), keys, world.index);
        let mut history = history.unwrap_or_else(|error| panic!("seed {seed}, {world:?}: {error}"));
        if let Some(difference) = first_difference(&mut history, &mut model) {
            panic!("seed {seed}, {world:?}: {difference}");
        }
        committed += history.iter().filter(|attempt| attempt.has_committed).count();
        rolled_back += history.iter().filter(|attempt| !attempt.has_committed && attempt.seen.len() > 1).count();
        check_what_is_left(&engine, &model, seed);
        if world.durability != Durability::None {
            check_log(&engine, &files, keys, &model, seed);
        }
        if cpu_scheduler_of(seed).name() == "none" {
            add(tally.entry(scheduler_name(seed)).or_default(), engine.locks().statistics());
        }
    }
    println!("{committed} committed, {rolled_back} rolled back after two steps or more");
    assert!(rolled_back * 20 > committed, "few victims were judged: {rolled_back} beside {committed}");
    check_that_every_rule_was_needed(&tally);
}

fn rows(model: &Model, table: usize) -> Vec<Row> {
    model[table].iter().map(|(&key, &(tag, value))| (key, tag, value)).collect()
}

fn check_what_is_left(engine: &Arc<Engine>, model: &Model, seed: u64) {
    assert_eq!(engine.locks().name_count(), 0, "seed {seed}: locks are left");
    let mut client = Client { connection: engine.connect(), engine: Arc::clone(engine) };
    client.connection.begin(Priority::LOW, 0);
    for table in 0..TABLES {
        let rows = rows(model, table);
        assert_eq!(client.perform(ProgramStep::ScanTable(table)), Ok(rows.clone()), "seed {seed}: final rows");
        let found = rows.iter().filter(|row| client.perform(ProgramStep::Read(table, row.0)) == Ok(vec![**row]));
        assert_eq!(found.count(), rows.len(), "seed {seed}: final rows by key");
        let stored = engine.row_table(table as u32);
        assert!(stored.indexes.iter().all(|index| index.key_count() == rows.len()), "seed {seed}: keys are left");
        assert_eq!(stored.heap.live_rows().count(), rows.len(), "seed {seed}: slots are left");
    }
}

/// Redo of the log, on the tables as they were loaded, gives the present tables.
fn check_log(engine: &Arc<Engine>, files: &MemoryFiles, keys: i64, model: &Model, seed: u64) {
    engine.log().expect("it has one").flush().expect("memory does not fail");
    let again = Engine::new(EngineOptions::default());
    add_tables(&again, &initial_model(keys), IndexKind::Tree);
    let reader = LogReader::new(files).expect("its headers are whole");
    replay::replay(reader, |number| Some(again.row_table(number))).expect("it fits the tables");
    check_what_is_left(&again, model, seed);
}

fn add(sum: &mut LockStatistics, one: LockStatistics) {
    sum.deadlocks += one.deadlocks;
    sum.preempted += one.preempted;
    sum.preempted_waiting += one.preempted_waiting;
    sum.preempted_late += one.preempted_late;
    sum.inheritances += one.inheritances;
    sum.promotions += one.promotions;
}

/// Histories without rollbacks or raised priorities would not test these.
fn check_that_every_rule_was_needed(tally: &BTreeMap<&str, LockStatistics>) {
    for (name, sum) in tally {
        println!("{name}: {sum:?}");
        let did = [sum.inheritances, sum.preempted, sum.preempted_waiting, sum.preempted_late].map(|count| count > 0);
        let expect = match *name {
            "standard" | "nprio" | "vats" | "ldsf" | "bldsf" => [false; 4],
            "nprio-inherit" => [true, false, false, false],
            "pabort" => [false, true, false, false],
            "pow" | "wdl" | "wdl-holders" => [false, false, true, false],
            "cr(20us)" => [false, false, false, true],
            _ => panic!("say what `{name}` does"),
        };
        assert_eq!(did, expect, "{name}: {sum:?}");
        assert!(sum.deadlocks > 0, "{name}: {sum:?}");
    }
}

/// A checker that accepts everything would prove nothing.
#[test]
fn the_checker_sees_a_lost_update() {
    let attempt = |number, value, has_committed| {
        let (steps, seen) = (vec![ProgramStep::ReadThenWrite(0, 0, Some(value))], vec![vec![(0, 0, Some(0))]]);
        Attempt { number, steps, seen, has_committed }
    };
    let stale = "saw [(0, 0, Some(0))], serially [(0, 0, Some(1))]";
    for has_committed in [true, false] {
        let mut history = vec![attempt(0, 1, true), attempt(1, 2, has_committed)];
        let difference = first_difference(&mut history, &mut initial_model(KEYS[0])).expect("the second read is stale");
        assert!(difference.contains(stale), "{difference}");
    }
    let mut history = vec![attempt(0, 1, false), attempt(1, 2, true)];
    assert_eq!(first_difference(&mut history, &mut initial_model(KEYS[0])), None, "what is rolled back is not seen");
}

/// Nor would histories in which nothing can go wrong.
#[test]
fn without_key_range_locks_a_phantom_is_seen() {
    let is_serializable = |seed: u64, index: IndexKind| {
        let world = World { key_range_locks: false, index, ..World::of(seed) };
        let (engine, mut model) = (world.engine(seed, &MemoryFiles::default()), initial_model(KEYS[0]));
        add_tables(&engine, &model, index);
        // A row that a read did not find may exist when it is inserted.
        let history = run_programs(&engine, &mut Pcg64::seed_from_u64(seed), KEYS[0], index);
        let Ok(mut history) = history else { return true };
        first_difference(&mut history, &mut model).inspect(|difference| println!("seed {seed}: {difference}")).is_none()
    };
    for index in IndexKind::ALL {
        assert!(!(0..4_000).all(|seed| is_serializable(seed, index)), "{index:?}: no phantom in any history");
    }
}
