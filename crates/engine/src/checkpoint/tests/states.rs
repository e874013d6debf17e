//! A database in a folder, crashed between any two calls of the file system: each possible state opens and has all
//! acknowledged changes. The same holds after failed calls and after processes were killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::disk::{Disk, DiskFiles, Dropped, Fault, Image, UNAWAITED};
use super::*;
use crate::log::data_folder::take_identity;
use crate::log::files::Files;
use crate::log::storage::FolderStorage;

/// Neither the folder nor its parent exists at first.
const FOLDER: &str = "/new/base";
/// The key of a loaded row; loading is not logged.
const LOADED: i64 = 1_000;

/// Small segments, so that a few commits fill several.
fn bounds() -> LogOptions {
    LogOptions { segment_bytes: 420, ..options(Durability::Sync) }
}

fn storage(files: &DiskFiles) -> Result<(Arc<dyn LogStorage>, u64), String> {
    let database = take_identity(files, Path::new(FOLDER)).map_err(|error| error.to_string())?;
    Ok((Arc::new(FolderStorage::over(Arc::new(files.clone()), Path::new(FOLDER))), database))
}

/// A process: opens the database, makes its tables if they do not exist, and puts these keys, with a checkpoint now and
/// then. After errors it continues as far as it can, and closes the database.
fn work(files: &DiskFiles, keys: std::ops::Range<i64>) -> Result<(), String> {
    files.make_folders(Path::new(FOLDER)).map_err(|error| error.to_string())?;
    let (storage, database) = storage(files)?;
    let engine = open_in(storage, database, &bounds(), EngineOptions::default()).map_err(|error| error.to_string())?;
    if engine.row_tables().is_empty() {
        try_add_tables(&engine).map_err(|error| error.to_string())?;
        engine.row_table(KEYED).load(&[Value::Int(LOADED), Value::Int(1), Value::Null]).unwrap();
        if engine.keep_set("both", vec![KEYED, LIST]).is_ok() {
            files.acknowledge(LOADED);
        }
    }
    let mut connection = engine.connect();
    for key in keys {
        if put(&mut connection, key, "a note of some length").is_ok() {
            files.acknowledge(key);
        }
        if key % 5 == 4 {
            // The result does not matter in these tests.
            let _ = engine.checkpoint();
        }
    }
    Ok(())
}

/// The keys that a process finds.
fn found(disk: &Disk) -> Result<BTreeSet<i64>, String> {
    let files = DiskFiles::of(disk.clone(), Vec::new());
    if files.names(Path::new(FOLDER)).is_err() {
        return Ok(BTreeSet::new());
    }
    let (storage, database) = storage(&files)?;
    let clock = MonotonicClock::default();
    let catalog = recover(&*storage, database, &clock).map_err(|error| error.to_string())?.catalog;
    let rows = catalog.get(KEYED).map_or_else(Vec::new, |table| rows(&table));
    Ok(rows.iter().map(|row| row.split('|').next().unwrap().parse().unwrap()).collect())
}

/// Checks the states that crashes leave, each once.
#[derive(Default)]
struct Checker {
    found: BTreeMap<Image, Result<BTreeSet<i64>, String>>,
    states: usize,
}

impl Checker {
    /// Every state in which a crash may leave this disk has all acknowledged keys, and at most `others_max` other keys.
    fn check(&mut self, disk: &Disk, acknowledged: &[i64], others_max: usize) -> Result<(), String> {
        let seed = self.states as u64;
        for state in disk.crash_states(seed) {
            self.states += 1;
            let found = self.found.entry(state.image()).or_insert_with(|| found(&state)).clone()?;
            let lost: Vec<_> = acknowledged.iter().filter(|key| !found.contains(key)).collect();
            if !lost.is_empty() {
                return Err(format!("acknowledged and lost: {lost:?}; found {found:?}"));
            }
            assert!(found.len() <= acknowledged.len() + others_max, "{acknowledged:?} {found:?}");
        }
        Ok(())
    }

    /// Checks every state at any time of a history.
    fn check_history(&mut self, files: &DiskFiles, others_max: usize) -> Result<(), String> {
        let all = files.history();
        let check = |(call, (disk, acknowledged)): (usize, &(Disk, Vec<i64>))| {
            self.check(disk, acknowledged, others_max).map_err(|error| format!("after call {call}: {error}"))
        };
        all.iter().enumerate().try_for_each(check)
    }
}

#[test]
fn every_state_that_a_crash_may_leave_has_what_was_acknowledged() {
    let files = DiskFiles::default();
    work(&files, 0..12).unwrap();
    work(&files, 12..16).unwrap();
    assert_eq!(files.acknowledged().len(), 17);
    let mut checker = Checker::default();
    checker.check_history(&files, 1).unwrap();
    let (states, images) = (checker.states, checker.found.len());
    assert!(states > 500 && images > 150, "{states} states, {images} different ones");
}

/// A model of crashes proves something only if it detects a missing sync: each single sync is needed.
#[test]
fn without_any_one_sync_something_is_lost() {
    let whole = DiskFiles::default();
    work(&whole, 0..12).unwrap();
    let kinds = whole.syncs();
    for (at, &kind) in kinds.iter().enumerate() {
        let number = kinds[..at].iter().filter(|other| **other == kind).count();
        let dropped = if kind == UNAWAITED { Dropped::Kind(kind) } else { Dropped::One(kind, number) };
        let files = DiskFiles::default().without(Some(dropped));
        let outcome = work(&files, 0..12).and_then(|()| Checker::default().check_history(&files, 1));
        assert!(outcome.is_err(), "{dropped:?} of {kinds:?}");
    }
    let expect = [
        "a checkpoint",
        "a checkpoint's name",
        "a folder's name",
        "a new segment's name",
        "a segment",
        UNAWAITED,
        "an identity",
        "an identity's name",
        "the name of a segment used again",
    ];
    assert_eq!(kinds.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(expect));
}

/// Kills a process after each call, lets another one continue with the data that the kernel still has, and crashes the
/// machine after each of its calls.
fn kill_then_crash(dropped: Option<Dropped>) -> Result<BTreeSet<&'static str>, String> {
    let files = DiskFiles::default();
    work(&files, 0..12).unwrap();
    let (mut checker, mut syncs) = (Checker::default(), BTreeSet::new());
    for (call, (disk, acknowledged)) in files.history().into_iter().enumerate() {
        let again = DiskFiles::of(disk, acknowledged).without(dropped);
        // The keys that both were about to acknowledge may be there, too.
        let outcome = work(&again, 20..22).and_then(|()| checker.check_history(&again, 2));
        outcome.map_err(|error| format!("killed after call {call}: {error}"))?;
        syncs.extend(again.syncs());
    }
    Ok(syncs)
}

#[test]
fn a_process_that_goes_on_after_a_kill_makes_durable_what_it_has_read() {
    let syncs = kill_then_crash(None).unwrap();
    // Without these syncs it builds upon data that only the kernel has.
    for found in ["names that were found", "the end of a log that was found"] {
        assert!(syncs.contains(found), "{syncs:?}");
        let error = kill_then_crash(Some(Dropped::Kind(found))).expect_err(found);
        println!("{found}: {error}");
    }
}

#[test]
fn after_any_fault_nothing_acknowledged_is_lost_and_the_database_opens_again() {
    let files = DiskFiles::default();
    work(&files, 0..8).unwrap();
    let calls = files.calls();
    assert!(calls > 60, "{calls}");
    let mut checker = Checker::default();
    for call in 0..calls {
        for fault in [Fault::Refused(call), Fault::AfterEffect(call), Fault::Full(call)] {
            let files = DiskFiles::default().with_fault(Some(fault));
            // An error that opening reports, or no error.
            let _ = work(&files, 0..8);
            let context = |error| format!("{fault:?}: {error}");
            // The loaded row may come with a later checkpoint, and the key that failed may be there.
            checker.check(&files.disk(), &files.acknowledged(), 2).map_err(context).unwrap();
            // Another process, with the disk in order again or still full.
            let is_full = matches!(fault, Fault::Full(_));
            let again = DiskFiles::of(files.disk(), files.acknowledged()).with_fault(is_full.then_some(Fault::Full(0)));
            let outcome = work(&again, 20..22);
            assert!(is_full || outcome.is_ok(), "{fault:?}: {outcome:?}");
            assert!(is_full || again.acknowledged().ends_with(&[20, 21]), "{fault:?}: {:?}", again.acknowledged());
            checker.check(&again.disk(), &again.acknowledged(), 3).map_err(context).unwrap();
            // With room again it continues.
            let last = DiskFiles::of(again.disk(), again.acknowledged());
            work(&last, 30..31).map_err(context).unwrap();
            assert!(last.acknowledged().ends_with(&[30]), "{fault:?}");
            checker.check(&last.disk(), &last.acknowledged(), 3).map_err(context).unwrap();
        }
    }
}

#[test]
fn an_error_in_reading_is_told_and_never_taken_for_the_end_of_the_log() {
    let files = DiskFiles::default();
    work(&files, 0..8).unwrap();
    let disk = files.history().into_iter().rev().find(|(disk, _)| found(disk).is_ok_and(|found| found.len() == 9));
    let (disk, acknowledged) = disk.unwrap();
    let open = |fault| {
        let files = DiskFiles::of(disk.clone(), acknowledged.clone()).with_fault(fault);
        let (storage, database) = storage(&files)?;
        let recovered = recover(&*storage, database, &MonotonicClock::default()).map_err(|error| error.to_string())?;
        Ok((rows(&recovered.catalog.get(KEYED).unwrap()).len(), files.reads()))
    };
    let (rows, reads) = open(None).unwrap();
    assert!(rows == 9 && reads > 10, "{rows} {reads}");
    for read in 0..reads {
        let error: String = open(Some(Fault::Read(read))).expect_err("a call to read has failed");
        assert!(error.contains("it cannot be read"), "read {read}: {error}");
    }
}
