//! Redo over an image taken while transactions ran gives the final state of the tables. Random histories run
//! transactions between the reading of one row and the next.

use proptest::prelude::*;

use super::*;
use crate::checkpoint::draft::Draft;

/// Few, so that keys move between slots while the image is taken.
const KEYS: i64 = 10;

/// The number of the image, beyond those that the engine gives to its own checkpoints.
const NUMBER: u64 = 1_000;

/// One step of a history.
#[derive(Debug, Clone)]
enum HistoryStep {
    /// The image reads the next row.
    Read,
    /// A transaction with these changes, rolled back if the flag is set.
    Transaction(Vec<Change>, bool),
}

#[derive(Debug, Clone)]
enum Change {
    /// Writes a key, inserting it if it does not exist.
    Put(i64, i32),
    /// Deletes a key; with the flag, inserts it again, in another slot.
    Delete(i64, bool),
    /// Adds a row to the list.
    Add(i64),
    /// Changes every row of the list with that number.
    Note(i64, i64),
    /// Removes every row of the list with that number.
    Remove(i64),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0..KEYS, any::<i32>()).prop_map(|(key, value)| Change::Put(key, value)),
        2 => (0..KEYS, any::<bool>()).prop_map(|(key, again)| Change::Delete(key, again)),
        2 => (0..KEYS).prop_map(Change::Add),
        1 => (0..KEYS, any::<i64>()).prop_map(|(number, value)| Change::Note(number, value)),
        1 => (0..KEYS).prop_map(Change::Remove),
    ]
}

fn step() -> impl Strategy<Value = HistoryStep> {
    prop_oneof![
        1 => Just(HistoryStep::Read),
        2 => (prop::collection::vec(change(), 1..5), prop::bool::weighted(0.15))
            .prop_map(|(changes, rolls_back)| HistoryStep::Transaction(changes, rolls_back)),
    ]
}

fn apply(connection: &mut Connection, change: &Change) -> Result<(), TransactionError> {
    let key = |key: &i64| [Value::Int(*key)];
    match change {
        Change::Put(at, value) => {
            let note = value.to_string();
            match connection.find(KEYED, &key(at), Purpose::Write)? {
                Some(row) => connection.set(KEYED, row, 2, Value::Text(&note)),
                None => {
                    let values = [Value::Int(*at), Value::Int(i64::from(value % 4)), Value::Text(&note)];
                    connection.insert(KEYED, &values).map(|_| ())
                }
            }
        }
        Change::Delete(at, again) => {
            if let Some(row) = connection.find(KEYED, &key(at), Purpose::Write)? {
                connection.delete(KEYED, row)?;
                if *again {
                    connection.insert(KEYED, &[Value::Int(*at), Value::Int(9), Value::Null])?;
                }
            }
            Ok(())
        }
        Change::Add(number) => connection.insert(LIST, &[Value::Int(*number), Value::Null]).map(|_| ()),
        Change::Note(number, value) => {
            let mut rows = Vec::new();
            connection.find_all((LIST, 0), &key(number), &key(number), Purpose::Write, &mut rows)?;
            rows.iter().try_for_each(|&row| connection.set(LIST, row, 1, Value::Int(*value)))
        }
        Change::Remove(number) => {
            let mut rows = Vec::new();
            connection.find_all((LIST, 0), &key(number), &key(number), Purpose::Write, &mut rows)?;
            rows.iter().try_for_each(|&row| connection.delete(LIST, row))
        }
    }
}

fn run(connection: &mut Connection, changes: &[Change], rolls_back: bool) {
    connection.begin(Priority::LOW, 0);
    changes.iter().for_each(|change| apply(connection, change).unwrap());
    if rolls_back { connection.rollback() } else { connection.commit().unwrap() }
}

/// Runs `before`, then begins an image and continues it as the steps say, then runs `after`.
fn check(before: &[HistoryStep], during: &[HistoryStep], after: &[HistoryStep]) {
    let storage = MemoryStorage::default();
    // Freed slots are reused at once only if there are more than a thousand; the log does not depend on the slots of
    // rows.
    let engine = open(&storage, &LogOptions { segment_bytes: 600, ..options(Durability::Sync) }).unwrap();
    add_tables(&engine);
    let mut connection = engine.connect();
    let mut run_all = |steps: &[HistoryStep], draft: &mut Option<Draft<'_>>| {
        for step in steps {
            match step {
                HistoryStep::Read => {
                    if let Some(draft) = draft {
                        draft.step().unwrap();
                    }
                }
                HistoryStep::Transaction(changes, rolls_back) => run(&mut connection, changes, *rolls_back),
            }
        }
    };
    run_all(before, &mut None);
    let (log, locks) = (engine.log().unwrap(), engine.locks());
    // Blocks of one byte: each step reads one row.
    let mut draft = Some(Draft::begin(log, locks, engine.catalog(), NUMBER, 1).unwrap());
    run_all(during, &mut draft);
    let mut draft = draft.unwrap();
    while draft.step().unwrap() {}
    let report = draft.finish().unwrap();
    run_all(after, &mut None);
    let expect = contents(&engine);
    let (found, recovery) = recovered(&storage.durable()).unwrap();
    assert_eq!(found, expect);
    assert_eq!((recovery.checkpoint, recovery.begin_lsn), (Some(NUMBER), report.begin_lsn));
    // Again, over a checkpoint of the recovered tables: recovery can itself be interrupted and repeated.
    let copy = storage.durable();
    let again = open(&copy, &options(Durability::Sync)).unwrap();
    again.checkpoint().unwrap();
    assert_eq!(recovered(&copy.durable()).unwrap().0, expect);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn redo_over_a_fuzzy_image_gives_the_final_state(
        before in prop::collection::vec(step(), 0..12),
        during in prop::collection::vec(step(), 0..40),
        after in prop::collection::vec(step(), 0..6),
    ) {
        check(&before, &during, &after);
    }
}

#[test]
fn a_key_that_moves_between_slots_while_the_image_is_taken_is_there_once() {
    let put = |key| HistoryStep::Transaction(vec![Change::Put(key, 1)], false);
    let moves = |key| HistoryStep::Transaction(vec![Change::Delete(key, true)], false);
    let before: Vec<_> = (0..5).map(put).collect();
    // Read in slot 0, then moved behind the others and read there again.
    check(&before, &[HistoryStep::Read, moves(0), HistoryStep::Read, moves(1), HistoryStep::Read], &[]);
    // Moved away, changed, deleted finally.
    let gone = HistoryStep::Transaction(vec![Change::Delete(0, false)], false);
    check(&before, &[HistoryStep::Read, moves(0), put(0), gone, HistoryStep::Read], &[put(0)]);
}
