//! The behaviour of each mode, and its counts.

use plimsoll_testing::until;

use super::*;

fn add(engine: &Arc<Engine>, set: &TableSet, id: i64) {
    let entry = number(set, ENTRY);
    commit(engine, |connection| connection.insert(entry, &[Value::Int(id), Value::Text("more")]).map(|_| ()));
}

fn options(propagation: Propagation) -> DeltaOptions {
    DeltaOptions { propagation, age_max: Duration::from_millis(1), ..DeltaOptions::default() }
}

fn entry_count(snapshot: &ColumnSnapshot) -> usize {
    contents(snapshot, "entry").len()
}

#[test]
fn loading_in_several_threads_gives_rows_the_numbers_of_their_positions() {
    let engine = Engine::new(EngineOptions::default());
    let set = loaded(&engine, &options(Propagation::Off));
    let rows = rows_by_number(&set);
    let snapshot = set.snapshot();
    let batch = snapshot.table("entry").unwrap().to_batches().unwrap().remove(0);
    for (&number, words) in &rows[ENTRY] {
        let row = shown(&BTreeMap::from([(number, words.clone())]), &layouts()[ENTRY]);
        assert_eq!(sorted_rows(&[batch.slice(number as usize, 1)]), row);
    }
    assert!(set.freshness().is_none() && set.delta().is_none(), "nothing is published where nobody asked for it");
    add(&engine, &set, 5000);
    assert!(Arc::ptr_eq(&set.snapshot(), &snapshot), "nothing new");
}

#[test]
fn a_query_sees_what_was_committed_before_it_and_folding_changes_nothing() {
    let engine = Engine::new(EngineOptions::default());
    for propagation in [Propagation::Paused, Propagation::Background, Propagation::BeforeQuery, Propagation::Blocking] {
        let set = loaded(&engine, &options(propagation));
        assert_eq!(set.read().unwrap().snapshot().label(), "as loaded");
        add(&engine, &set, 5000);
        let snapshot = Arc::clone(set.read().unwrap().snapshot());
        assert_eq!((snapshot.label(), entry_count(&snapshot)), ("commit 1", ENTRIES as usize + 1), "{propagation:?}");
        let has_overlay = snapshot.version("entry").unwrap().overlay().is_some();
        match propagation {
            Propagation::Paused => assert!(has_overlay && set.freshness().unwrap().folded == 0),
            Propagation::Background => until("it is folded", || set.freshness().unwrap().lag_tuples == 0),
            _ => assert!(!has_overlay, "{propagation:?}"),
        }
        set.refresh().unwrap();
        let folded = set.snapshot();
        assert_eq!((folded.label(), folded.version("entry").unwrap().overlay().is_some()), ("refresh 1", false));
        assert_eq!(all_contents(&folded), all_contents(&snapshot), "{propagation:?}");
        let again = set.read().unwrap();
        assert!(Arc::ptr_eq(again.snapshot(), &folded), "nothing has changed, so that the snapshot can be the same");
    }
}

#[test]
fn a_bounded_age_shares_a_snapshot_and_a_snapshot_waits_for_a_round() {
    let engine = Engine::new(EngineOptions::default());
    let bounded = |age| DeltaOptions { recency: Recency::Bounded(age), ..options(Propagation::Paused) };
    let set = loaded(&engine, &bounded(Duration::from_secs(3600)));
    let first = Arc::clone(set.read().unwrap().snapshot());
    add(&engine, &set, 5000);
    assert!(Arc::ptr_eq(set.read().unwrap().snapshot(), &first));
    let set = loaded(&engine, &bounded(Duration::ZERO));
    add(&engine, &set, 5000);
    assert_eq!(set.read().unwrap().snapshot().seq(), 1);

    let rounds = DeltaOptions {
        recency: Recency::Snapshot,
        age_max: Duration::from_secs(3600),
        ..options(Propagation::Background)
    };
    let set = loaded(&engine, &rounds);
    let first = set.read().unwrap().snapshot().seq();
    add(&engine, &set, 5000);
    assert_eq!((first, set.read().unwrap().snapshot().seq()), (0, 0));
    set.refresh().unwrap();
    assert_eq!(set.read().unwrap().snapshot().seq(), 1);
}

/// A round folds the chunks that are due. The snapshot at its end has the other changes, too: its queries merge them.
#[test]
fn a_snapshot_merges_the_changes_that_were_not_due_in_its_round() {
    let engine = Engine::new(EngineOptions::default());
    let rounds = DeltaOptions {
        recency: Recency::Snapshot,
        age_max: Duration::from_secs(3600),
        chunk_changes: 3,
        ..options(Propagation::Background)
    };
    let set = loaded(&engine, &rounds);
    assert_eq!(set.read().unwrap().snapshot().seq(), 0);
    let (account, entry) = (number(&set, ACCOUNT), number(&set, ENTRY));
    commit(&engine, |connection| {
        connection.insert(account, &[Value::Int(5000), Value::Int(1), Value::Int(1), Value::Text("red")])?;
        (5000..5003).try_for_each(|id| connection.insert(entry, &[Value::Int(id), Value::Text("more")]).map(|_| ()))
    });
    until("the entries are folded", || set.read().unwrap().snapshot().seq() == 1);
    let snapshot = Arc::clone(set.read().unwrap().snapshot());
    let has_overlay = |table: &str| snapshot.version(table).unwrap().overlay().is_some();
    assert_eq!((has_overlay("entry"), has_overlay("account")), (false, true));
    let before = set.freshness().unwrap();
    assert_eq!((before.folded, before.merged, before.lag_tuples), (3, 0, 1));
    assert_eq!(contents(&snapshot, "account").len(), ACCOUNTS as usize + 1);
    assert!(set.freshness().unwrap().merged > 0);
}

#[test]
fn a_snapshot_that_is_held_keeps_its_state_and_its_cost_is_told() {
    let engine = Engine::new(EngineOptions::default());
    let set = loaded(&engine, &options(Propagation::Paused));
    add(&engine, &set, 5000);
    let held = set.snapshot();
    let expect = all_contents(&held);
    for id in 5001..5020 {
        add(&engine, &set, id);
        set.refresh().unwrap();
    }
    let freshness = set.freshness().unwrap();
    assert_eq!((freshness.lag_tuples, freshness.delta_bytes, freshness.lag), (0, 0, Duration::ZERO));
    assert_eq!(freshness.old_versions, 1, "of nineteen versions that were replaced only the held one is alive");
    assert!(freshness.retained_bytes > 0 && freshness.retained_bytes < 200, "{freshness:?}");
    assert_eq!(all_contents(&held), expect);
    drop(held);
    let freshness = set.freshness().unwrap();
    assert_eq!((freshness.old_versions, freshness.retained_bytes), (0, 0));
    assert_eq!((freshness.published, freshness.folded, freshness.commits), (20, 20, 20));
    assert!(freshness.folded_per_s(&Freshness::default()).unwrap() > 0.0);
}

#[test]
fn commits_wait_for_room_or_the_delta_grows() {
    let engine = Engine::new(EngineOptions::default());
    for when_full in WhenFull::ALL {
        let bound = DeltaOptions { bytes_max: 2000, when_full, ..options(Propagation::BeforeQuery) };
        let set = loaded(&engine, &bound);
        // No queries run; only a full delta makes propagation fold.
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (engine, set) = (&engine, &set);
                scope.spawn(move || (0..100).for_each(|id| add(engine, set, 5000 + thread * 100 + id)));
            }
        });
        let freshness = set.freshness().unwrap();
        assert_eq!(freshness.commits, 300);
        match when_full {
            // Each commit checks the bound, and can exceed it only by its own bytes.
            WhenFull::Stall => {
                assert!(freshness.delta_bytes_peak < 2000 + 200 && freshness.overruns == 0, "{freshness:?}")
            }
            WhenFull::Grow => assert_eq!(freshness.stalls, 0, "{freshness:?}"),
        }
        assert_eq!(entry_count(&set.snapshot()), ENTRIES as usize + 300);
    }
    let paused = DeltaOptions { bytes_max: 500, ..options(Propagation::Paused) };
    let set = loaded(&engine, &paused);
    (0..30).for_each(|id| add(&engine, &set, 5000 + id));
    let freshness = set.freshness().unwrap();
    assert!(freshness.overruns > 0 && freshness.stalls == 0, "nothing would ever make room: {freshness:?}");
}

#[test]
fn a_query_that_lasts_holds_up_no_commit_and_its_memory_is_bounded_and_told() {
    let engine = Engine::new(EngineOptions::default());
    for when_full in WhenFull::ALL {
        // A commit that changes every account fills the delta.
        let bound = DeltaOptions { bytes_max: 1000, when_full, ..options(Propagation::Background) };
        let set = loaded(&engine, &bound);
        let account = number(&set, ACCOUNT);
        let change_all = |connection: &mut Connection| {
            (0..ACCOUNTS / 2).try_for_each(|id| transfer(connection, account, id, ACCOUNTS - 1 - id, 1))
        };
        commit(&engine, change_all);
        let held = set.snapshot();
        let expect = all_contents(&held);
        let versions = held.versions().map(|table| table.columns().chunks().len()).sum::<usize>();
        // At most the changes that were not folded when the query began.
        let retained_max = ACCOUNTS as u64 * (batch::CHANGE_BYTES + 8 * layouts()[ACCOUNT].0.words() as u64);
        for _ in 0..20 {
            std::thread::scope(|scope| {
                (0..3).for_each(|_| drop(scope.spawn(|| (0..10).for_each(|_| commit(&engine, change_all)))));
            });
            assert!(
                all_contents(&set.snapshot())[ACCOUNT] != expect[ACCOUNT],
                "others see what has been committed since"
            );
            until("all is folded, and memory is that of the query", || {
                let freshness = set.freshness().unwrap();
                let is_bounded = freshness.retained_bytes <= retained_max && freshness.old_versions <= versions;
                freshness.lag_tuples == 0 && is_bounded
            });
        }
        assert!(all_contents(&held) == expect, "{when_full:?}: what the query reads has changed");
        let freshness = set.freshness().unwrap();
        assert_eq!(freshness.commits, 601);
        assert!(freshness.old_versions > 0, "its cost is reported: {freshness:?}");
        match when_full {
            WhenFull::Stall => assert!(freshness.stalls > 0 && freshness.overruns == 0, "{freshness:?}"),
            WhenFull::Grow => assert!(freshness.stalls == 0 && freshness.overruns > 0, "{freshness:?}"),
        }
        drop(held);
        until("its memory is free", || {
            let freshness = set.freshness().unwrap();
            (freshness.retained_bytes, freshness.old_versions, freshness.delta_bytes) == (0, 0, 0)
        });
    }
}

#[test]
fn a_blocking_propagation_lets_commits_wait_and_then_go() {
    let engine = Engine::new(EngineOptions::default());
    let set = loaded(&engine, &options(Propagation::Blocking));
    let held_back = set.delta().unwrap().shared.inbox.hold_back();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| add(&engine, &set, 5000));
        // Its changes are made and its locks are held, but its changes are not visible.
        until("the row is there", || set.rows(ENTRY).unwrap().heap.slot_count() > ENTRIES as u64);
        assert_eq!(set.snapshot().seq(), 0);
        assert!(!writer.is_finished());
        drop(held_back);
    });
    assert_eq!((set.snapshot().seq(), set.freshness().unwrap().stalls), (1, 1));
}
