//! Failures: of the log after early lock release, of propagation, of a process.

use plimsoll_testing::until;

use super::*;
use crate::log::tests::storage::{Fault, MemoryStorage};
use crate::log::{Durability, Log, LogOptions};

fn paused() -> DeltaOptions {
    DeltaOptions { propagation: Propagation::Paused, ..DeltaOptions::default() }
}

#[test]
fn no_answer_is_told_that_shows_what_the_log_has_lost() {
    let storage = MemoryStorage::default();
    let log_options = LogOptions { durability: Durability::Sync, ..LogOptions::default() };
    let options = EngineOptions { early_lock_release: true, ..EngineOptions::default() };
    let log = Log::start(Box::new(storage.clone()), &log_options, Arc::clone(&options.clock)).unwrap();
    let engine = Engine::with_log(options, Some(log));
    let set = loaded(&engine, &paused());
    let account = number(&set, ACCOUNT);
    commit(&engine, |connection| transfer(connection, account, 0, 1, 5));
    let reading = set.read().unwrap();
    assert_eq!((reading.snapshot().seq(), reading.settle()), (1, Ok(())));

    storage.close_gate();
    std::thread::scope(|scope| {
        let engine = &engine;
        let work = move |connection: &mut Connection| transfer(connection, account, 0, 1, 7);
        let writer = scope.spawn(move || engine.connect().transact(Priority::LOW, work));
        storage.wait_for_sync();
        until("it is published", || set.snapshot().seq() == 2);
        let reading = set.read().unwrap();
        assert_eq!(reading.snapshot().seq(), 2);
        let opener = scope.spawn(|| storage.open_gate());
        // The sync that is held at the gate succeeds, and the commit whose data was read becomes durable.
        assert_eq!(reading.settle(), Ok(()));
        writer.join().unwrap().unwrap();
        opener.join().unwrap();
    });
    storage.set_fault(Fault::Any(storage.calls()));
    let error = engine.connect().transact(Priority::LOW, |connection| transfer(connection, account, 0, 1, 9));
    assert!(error.is_err());
    let reading = set.read().unwrap();
    assert_eq!(reading.snapshot().seq(), 3, "locks were given up before the log failed");
    assert!(reading.settle().is_err(), "what the log has lost was told");
}

#[test]
fn propagation_that_has_failed_answers_nothing_and_holds_nobody_up() {
    let engine = Engine::new(EngineOptions::default());
    let options = DeltaOptions { propagation: Propagation::BeforeQuery, bytes_max: 1, ..DeltaOptions::default() };
    let set = loaded(&engine, &options);
    let delta = set.delta().unwrap();
    // An image without a table: reading it is a bug, and panics.
    let mut batch = batch::CommitBatch::default();
    batch.push_image(0, 3, &[1]);
    delta.shared.inbox.publish(batch);
    until("the thread has ended", || delta.check().is_err());
    let error = set.read().unwrap_err().to_string();
    assert_eq!(
        error,
        "changes cannot be propagated to the columns (a propagation thread panicked); load the tables again"
    );
    assert!(set.refresh().is_err());
    let account = number(&set, ACCOUNT);
    for _ in 0..3 {
        commit(&engine, |connection| transfer(connection, account, 0, 1, 5));
    }
}

#[test]
fn a_recovered_database_begins_with_its_rows_and_an_empty_delta() {
    let parent = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
    let data_folder = Some(parent.path().join("data"));
    let log = LogOptions { durability: Durability::Sync, data_folder, ..LogOptions::default() };
    let open = || Engine::open(EngineOptions::default(), &log).unwrap();
    // A table that is not kept as rows does not outlive the process.
    let kept = || declarations().into_iter().take(PLACE).collect::<Vec<_>>();
    let engine = open();
    let set = TableSet::create(&engine, kept()).unwrap().named("bank").with_propagation(paused());
    set.load(ACCOUNT, accounts(0..ACCOUNTS)).unwrap();
    set.load(ENTRY, entries(0..100)).unwrap();
    set.finish_load().unwrap();
    let (account, entry) = (number(&set, ACCOUNT), number(&set, ENTRY));
    let delete = |connection: &mut Connection, id: i64| {
        let row = connection.find(entry, &[Value::Int(id)], Purpose::Write)?.expect("loaded");
        connection.delete(entry, row)
    };
    commit(&engine, |connection| (3..50).try_for_each(|id| delete(connection, id)));
    commit(&engine, |connection| transfer(connection, account, 3, 4, 5));
    let expect = ["account", "entry"].map(|table| contents(&set.snapshot(), table));
    drop((set, engine));

    let engine = open();
    let set = TableSet::adopt(&engine, "bank", kept()).unwrap().unwrap();
    let set = set.with_propagation(paused());
    set.fill_columns().unwrap();
    let reading = set.read().unwrap();
    assert_eq!((reading.snapshot().label(), reading.snapshot().seq()), ("as recovered", 0));
    assert!(reading.snapshot().versions().all(|table| table.overlay().is_none()));
    assert_eq!(["account", "entry"].map(|table| contents(reading.snapshot(), table)), expect);
    commit(&engine, |connection| delete(connection, 60));
    commit(&engine, |connection| connection.insert(entry, &[Value::Int(3), Value::Null]).map(|_| ()));
    let count = |set: &TableSet| contents(&set.snapshot(), "entry").len();
    assert_eq!(count(&set), expect[1].len());
    set.refresh().unwrap();
    assert_eq!(count(&set), expect[1].len());
}
