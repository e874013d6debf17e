//! Histories of random small transactions over few rows, run by several threads, must be those of some serial order.
//!
//! Under strict two-phase locking the order of commits is such an order. So each transaction takes a number while it
//! still holds all of its locks, and afterwards its whole program is run again, one transaction after the other in that
//! order, against an ordered map: every row it had seen, and everything it had not seen, must come out the same. That
//! finds lost updates, dirty and unrepeatable reads, phantoms and write skew alike. A deadlock left standing shows as a
//! thread that does not end.
//!
//! Every scheduler has its turn, alone and with the CPU schedulers, and priorities are random: victims, preempted while
//! they wait or while they run, must leave nothing behind, and run again until they get through.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use plimsoll_engine::engine::{Engine, EngineOptions};
use plimsoll_engine::lock::LockStatistics;
use plimsoll_engine::table::layout::TableSpec;
use plimsoll_engine::transaction::{Connection, End, Purpose, TransactionError};
use plimsoll_engine::value::{ColumnSpec, ColumnType, Value};
use plimsoll_policy::{
    CpuScheduler, CpuVerdict, LOCK_SCHEDULERS, Priority, Requester, Stance, StarvationBound, cpu_scheduler,
    lock_scheduler,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Few keys make transactions meet; more of them make the index grow and shrink under them, node by node.
const KEYS: [i64; 2] = [8, 80];
/// Widest range of keys that is scanned.
const SPAN: i64 = 8;
const TAGS: i64 = 3;
const PRIMARY: (u32, usize) = (0, 0);
const BY_TAG: (u32, usize) = (0, 1);

/// Key, tag, value.
type Row = (i64, i64, i64);

#[derive(Debug, Clone)]
enum Step {
    Read(i64),
    Scan(i64, i64),
    ScanTag(i64),
    Edge(i64, i64, End),
    Write(i64, i64),
    ReadThenWrite(i64, i64),
    InsertIfAbsent(Row),
    Delete(i64),
    /// Delete and insert the same key.
    Replace(Row),
}

#[derive(Debug, Clone)]
struct Program {
    priority: Priority,
    steps: Vec<Step>,
    rolls_back: bool,
}

/// What a transaction saw, a list of rows for each step.
type Seen = Vec<Vec<Row>>;

fn program(random: &mut Pcg64, keys: i64, serial: i64) -> Program {
    let steps = (0..random.random_range(1..6))
        .map(|at| {
            let key = random.random_range(0..keys);
            let other = (key + random.random_range(0..SPAN)).min(keys - 1);
            let tag = random.random_range(0..TAGS);
            let value = serial * 10 + at;
            match random.random_range(0..10) {
                0 => Step::Read(key),
                1 | 2 => Step::Scan(key, other),
                3 => Step::ScanTag(tag),
                4 => Step::Edge(key, other, if value % 2 == 0 { End::First } else { End::Last }),
                5 => Step::Write(key, value),
                6 => Step::ReadThenWrite(key, value),
                7 => Step::InsertIfAbsent((key, tag, value)),
                8 => Step::Delete(key),
                _ => Step::Replace((key, tag, value)),
            }
        })
        .collect();
    let level = [0, 0, 0, 1, 1, 2][random.random_range(0..6)];
    let priority = Priority::of_level(level).expect("a level");
    Program { priority, steps, rolls_back: random.random_bool(0.1) }
}

/// Runs a step on the model.
fn replay(model: &mut BTreeMap<i64, (i64, i64)>, step: &Step) -> Vec<Row> {
    let row = |(&key, &(tag, value)): (&i64, &(i64, i64))| (key, tag, value);
    match *step {
        Step::Read(key) => model.range(key..=key).map(row).collect(),
        Step::Scan(low, high) => model.range(low..=high).map(row).collect(),
        Step::ScanTag(tag) => {
            let mut rows: Vec<_> = model.iter().map(row).filter(|row| row.1 == tag).collect();
            rows.sort_unstable();
            rows
        }
        Step::Edge(low, high, End::First) => model.range(low..=high).next().map(row).into_iter().collect(),
        Step::Edge(low, high, End::Last) => model.range(low..=high).next_back().map(row).into_iter().collect(),
        Step::Write(key, value) | Step::ReadThenWrite(key, value) => {
            let before = model.range(key..=key).map(row).collect();
            if let Some(stored) = model.get_mut(&key) {
                stored.1 = value;
            }
            before
        }
        Step::InsertIfAbsent((key, tag, value)) => {
            let before: Vec<_> = model.range(key..=key).map(row).collect();
            model.entry(key).or_insert((tag, value));
            before
        }
        Step::Delete(key) => model.remove(&key).map(|(tag, value)| (key, tag, value)).into_iter().collect(),
        Step::Replace((key, tag, value)) => {
            let before = model.remove(&key).map(|(tag, value)| (key, tag, value)).into_iter().collect();
            model.insert(key, (tag, value));
            before
        }
    }
}

/// Runs a step on the engine.
fn perform(connection: &mut Connection, step: &Step) -> Result<Vec<Row>, TransactionError> {
    let int = |number: i64| [Value::Int(number)];
    let one = |connection: &mut Connection, key: i64, purpose: Purpose| {
        let found = connection.find(0, &int(key), purpose)?;
        Ok::<_, TransactionError>((found, found.map(|row| read(connection, row)).into_iter().collect::<Vec<_>>()))
    };
    match *step {
        Step::Read(key) => Ok(one(connection, key, Purpose::Read)?.1),
        Step::Scan(low, high) => scan(connection, PRIMARY, low, high),
        Step::ScanTag(tag) => {
            // Equal tags come in order of row number; the model has them in order of key.
            let mut rows = scan(connection, BY_TAG, tag, tag)?;
            rows.sort_unstable();
            Ok(rows)
        }
        Step::Edge(low, high, end) => {
            let found = connection.find_end(PRIMARY, &int(low), &int(high), end, Purpose::Read)?;
            Ok(found.map(|row| read(connection, row)).into_iter().collect())
        }
        Step::Write(key, value) | Step::ReadThenWrite(key, value) => {
            let purpose = if matches!(step, Step::Write(..)) { Purpose::Write } else { Purpose::Update };
            let (found, seen) = one(connection, key, purpose)?;
            if let Some(row) = found {
                connection.set(0, row, 2, Value::Int(value))?;
            }
            Ok(seen)
        }
        Step::InsertIfAbsent((key, tag, value)) => {
            let (found, seen) = one(connection, key, Purpose::Read)?;
            if found.is_none() {
                connection.insert(0, &[Value::Int(key), Value::Int(tag), Value::Int(value)])?;
            }
            Ok(seen)
        }
        Step::Delete(key) => {
            let (found, seen) = one(connection, key, Purpose::Write)?;
            if let Some(row) = found {
                connection.delete(0, row)?;
            }
            Ok(seen)
        }
        Step::Replace((key, tag, value)) => {
            let seen = perform(connection, &Step::Delete(key))?;
            connection.insert(0, &[Value::Int(key), Value::Int(tag), Value::Int(value)])?;
            Ok(seen)
        }
    }
}

fn scan(connection: &mut Connection, index: (u32, usize), low: i64, high: i64) -> Result<Vec<Row>, TransactionError> {
    let mut rows = Vec::new();
    connection.find_all(index, &[Value::Int(low)], &[Value::Int(high)], Purpose::Read, &mut rows)?;
    Ok(rows.into_iter().map(|row| read(connection, row)).collect())
}

fn read(connection: &Connection, row: u64) -> Row {
    let [key, tag, value] = [0, 1, 2].map(|column| connection.int(0, row, column));
    (key, tag, value)
}

/// The lock scheduler whose turn it is. Reprieves are as short as transactions are here.
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

fn options(seed: u64) -> EngineOptions {
    let bounds = [1, 2, 5].map(|count| StarvationBound::after(count.try_into().expect("not zero")));
    EngineOptions {
        lock_scheduler: lock_scheduler(scheduler_name(seed)).expect("listed"),
        cpu_scheduler: cpu_scheduler_of(seed),
        starvation_bound: bounds[seed as usize % bounds.len()],
        retry_max: 10_000,
        ..EngineOptions::default()
    }
}

fn engine(seed: u64, keys: i64) -> Arc<Engine> {
    let engine = Engine::new(options(seed));
    let column = |name: &str| ColumnSpec { name: name.to_owned(), kind: ColumnType::Int64, nullable: false };
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: vec![column("key"), column("tag"), column("value")],
        primary_key: vec![0],
        secondary: vec![vec![1]],
    };
    let table = engine.create_table(spec).expect("a small table");
    for key in (0..keys).step_by(2) {
        table.load(&[key, key % TAGS, -key].map(Value::Int)).expect("distinct keys");
    }
    engine
}

/// A committed transaction: its number, its program and what it saw.
type Committed = (u64, Program, Seen);

fn run_programs(engine: &Arc<Engine>, random: &mut Pcg64, keys: i64) -> Vec<Committed> {
    let commits = Arc::new(AtomicU64::new(0));
    let (send, receive) = mpsc::channel();
    let thread_count = random.random_range(2..=8);
    for thread in 0..thread_count {
        let programs: Vec<_> = (0..6).map(|at| program(random, keys, thread * 100 + at + 1)).collect();
        let mut pace = Pcg64::seed_from_u64(random.random());
        let (engine, commits, send) = (Arc::clone(engine), Arc::clone(&commits), send.clone());
        std::thread::spawn(move || {
            let mut connection = engine.connect();
            let committed: Vec<_> = programs
                .iter()
                .filter_map(|program| run_program(&mut connection, program, &commits, &mut pace))
                .collect();
            drop(connection);
            send.send(committed).expect("the test waits for every thread");
        });
    }
    let wait = || receive.recv_timeout(Duration::from_secs(60)).expect("a thread hangs: a deadlock was left standing");
    (0..thread_count).flat_map(|_| wait()).collect()
}

fn run_program(
    connection: &mut Connection,
    program: &Program,
    commits: &AtomicU64,
    pace: &mut Pcg64,
) -> Option<Committed> {
    let outcome = connection.transact(program.priority, |connection| {
        let mut seen = Seen::new();
        for step in &program.steps {
            if pace.random_bool(0.5) {
                // So that transactions meet even on one core.
                std::thread::yield_now();
            }
            seen.push(perform(connection, step)?);
        }
        if program.rolls_back {
            return Err(TransactionError::Failed);
        }
        Ok((commits.fetch_add(1, Ordering::SeqCst), seen))
    });
    match outcome {
        Ok((number, seen)) => Some((number, program.clone(), seen)),
        Err(TransactionError::Failed) if program.rolls_back => None,
        Err(error) => panic!("{error}: {program:?}"),
    }
}

fn initial_model(keys: i64) -> BTreeMap<i64, (i64, i64)> {
    (0..keys).step_by(2).map(|key| (key, (key % TAGS, -key))).collect()
}

/// Replays the committed transactions in order; the first difference, if there is one.
fn first_difference(history: &mut [Committed], model: &mut BTreeMap<i64, (i64, i64)>) -> Option<String> {
    history.sort_by_key(|(number, ..)| *number);
    for (number, program, seen) in history.iter() {
        for (step, seen) in program.steps.iter().zip(seen) {
            let expected = replay(model, step);
            if *seen != expected {
                return Some(format!("transaction {number}, {step:?}: saw {seen:?}, serially {expected:?}"));
            }
        }
    }
    None
}

/// How many histories are tried; more with `PLIMSOLL_LONG=1`.
fn seed_count() -> u64 {
    if std::env::var_os("PLIMSOLL_LONG").is_some() { 200_000 } else { 4_000 }
}

#[test]
fn every_history_is_serializable_and_nothing_is_left_behind() {
    let mut tally = BTreeMap::new();
    for seed in 0..seed_count() {
        let keys = KEYS[(seed / 2) as usize % KEYS.len()];
        let engine = engine(seed, keys);
        let mut history = run_programs(&engine, &mut Pcg64::seed_from_u64(seed), keys);
        let mut model = initial_model(keys);
        if let Some(difference) = first_difference(&mut history, &mut model) {
            panic!("seed {seed}: {difference}");
        }
        check_what_is_left(&engine, &model, seed);
        if cpu_scheduler_of(seed).name() == "none" {
            add(tally.entry(scheduler_name(seed)).or_default(), engine.locks().statistics());
        }
    }
    check_that_every_rule_was_needed(&tally);
}

fn check_what_is_left(engine: &Arc<Engine>, model: &BTreeMap<i64, (i64, i64)>, seed: u64) {
    assert_eq!(engine.locks().name_count(), 0, "seed {seed}: locks are left");
    let mut connection = engine.connect();
    connection.begin(Priority::LOW, 0);
    let rows = scan(&mut connection, PRIMARY, i64::MIN, i64::MAX).expect("alone");
    let expected: Vec<Row> = model.iter().map(|(&key, &(tag, value))| (key, tag, value)).collect();
    assert_eq!(rows, expected, "seed {seed}: final rows");
    let table = engine.row_table(0);
    assert!(table.indexes.iter().all(|index| index.key_count() == rows.len()), "seed {seed}: keys are left");
    assert_eq!(table.heap.live_rows().count(), rows.len(), "seed {seed}: slots are left");
}

fn add(sum: &mut LockStatistics, one: LockStatistics) {
    sum.deadlocks += one.deadlocks;
    sum.preempted += one.preempted;
    sum.preempted_waiting += one.preempted_waiting;
    sum.preempted_late += one.preempted_late;
    sum.inheritances += one.inheritances;
    sum.promotions += one.promotions;
}

/// Histories in which nobody was rolled back or raised would say nothing about it.
fn check_that_every_rule_was_needed(tally: &BTreeMap<&str, LockStatistics>) {
    for (name, sum) in tally {
        println!("{name}: {sum:?}");
        let did = [sum.inheritances, sum.preempted, sum.preempted_waiting, sum.preempted_late].map(|count| count > 0);
        let expect = match *name {
            "standard" | "nprio" => [false; 4],
            "nprio-inherit" => [true, false, false, false],
            "pabort" => [false, true, false, false],
            "pow" | "wdl" => [false, false, true, false],
            "cr(20us)" => [false, false, false, true],
            _ => panic!("say what `{name}` does"),
        };
        assert_eq!(did, expect, "{name}: {sum:?}");
        assert!(sum.deadlocks > 0, "{name}: {sum:?}");
    }
}

/// A checker that accepts everything would be worth nothing.
#[test]
fn the_checker_sees_a_lost_update() {
    let program =
        |value| Program { priority: Priority::LOW, steps: vec![Step::ReadThenWrite(0, value)], rolls_back: false };
    let mut history = vec![(0, program(1), vec![vec![(0, 0, 0)]]), (1, program(2), vec![vec![(0, 0, 0)]])];
    let difference = first_difference(&mut history, &mut initial_model(KEYS[0])).expect("the second read is stale");
    assert!(difference.contains("serially [(0, 0, 1)]"), "{difference}");
}
