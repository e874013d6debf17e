//! Captures that were cut or damaged, at every byte.

use std::fs;
use std::time::SystemTime;

use plimsoll_notation::sql::TextRules;
use proptest::prelude::*;

use super::*;
use crate::description::{Description, Values};
use crate::format::{head, segment_name};
use crate::redact::{Key, Redactor};
use crate::testing::{Disk, any_event, query};
use crate::writer::{Entry, Limits, Writer};

/// A capture of these batches.
fn written(batches: &[Vec<Event>], limits: Limits) -> Disk {
    let disk = Disk::default();
    let redactor = Redactor::new(Key::new(&[1; 32]), Values::Kept);
    let description = Description::new(SystemTime::UNIX_EPOCH, Values::Kept);
    let mut writer = Writer::begin(Box::new(disk.clone()), description, limits, redactor).expect("described");
    for batch in batches {
        let entries = batch.iter().cloned().map(|event| Entry { event, rules: TextRules::default() });
        writer.write(entries, 0);
    }
    writer.finish(0);
    disk
}

fn read(folder: &Path) -> (Vec<Event>, Vec<Fault>) {
    let mut reader = Capture::open(folder).expect("a capture").events();
    let events = reader.by_ref().collect::<Result<_, _>>().expect("read");
    (events, reader.faults().to_vec())
}

fn three_blocks() -> Vec<Vec<Event>> {
    (0..3).map(|block| (0..4).map(|at| query(1, block * 4 + at, "select some_column from t")).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn what_was_written_is_read(batches in proptest::collection::vec(proptest::collection::vec(any_event(), 1..30), 0..6)) {
        // Requests here are random bytes, and no messages: nothing in them is a secret.
        let folder = tempfile::tempdir().expect("a folder");
        written(&batches, Limits { segment_bytes: 2_000, ..Limits::default() }).save(folder.path());
        let (events, faults) = read(folder.path());
        prop_assert_eq!(events, batches.concat());
        prop_assert_eq!(faults, vec![]);
    }
}

#[test]
fn wherever_a_segment_is_cut_all_blocks_before_are_read_and_the_place_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = written(&three_blocks(), Limits::default());
    disk.save(folder.path());
    let file = folder.path().join(segment_name(1));
    let whole = fs::read(&file).expect("read");
    let (all, _) = read(folder.path());
    let mut ends = vec![HEAD_BYTES];
    while *ends.last().expect("one") < whole.len() {
        let at = *ends.last().expect("one");
        let packed = u32::from_le_bytes(whole[at..at + 4].try_into().expect("four bytes"));
        ends.push(at + BLOCK_HEAD_BYTES + packed as usize);
    }
    assert_eq!(ends.len(), 4);
    for length in 0..=whole.len() {
        fs::write(&file, &whole[..length]).expect("written");
        let (events, faults) = read(folder.path());
        let blocks = ends.iter().filter(|end| **end <= length).count().saturating_sub(1);
        assert_eq!(events, all[..blocks * 4], "cut at {length}");
        let last = ends.iter().copied().filter(|end| *end <= length).max().unwrap_or(0);
        let expect = (last != length || length == 0).then_some((last as u64, FaultKind::Cut));
        assert_eq!(faults.first().map(|fault| (fault.at, fault.kind)), expect, "cut at {length}");
    }
    fs::write(&file, &whole[..whole.len() - 1]).expect("written");
    let (_, faults) = read(folder.path());
    let told = format!("000001.plimsoll-capture was cut at byte {}: the events until then are used", ends[2]);
    assert_eq!(faults[0].to_string(), told);
}

#[test]
fn every_byte_that_has_changed_is_found_and_costs_no_earlier_event() {
    let folder = tempfile::tempdir().expect("a folder");
    written(&three_blocks(), Limits::default()).save(folder.path());
    let (all, _) = read(folder.path());
    let file = folder.path().join(segment_name(1));
    let whole = fs::read(&file).expect("read");
    for at in 0..whole.len() {
        for bit in [0x01, 0x80] {
            let mut flipped = whole.clone();
            flipped[at] ^= bit;
            fs::write(&file, flipped).expect("written");
            let (events, faults) = read(folder.path());
            assert_eq!(faults.len(), 1, "byte {at}, bit {bit:x}");
            assert!(faults[0].at <= at as u64, "{:?}", faults[0]);
            assert_eq!(events, all[..events.len()], "byte {at}, bit {bit:x}");
            assert!(events.len() < all.len());
        }
    }
}

#[test]
fn the_segments_after_a_damaged_or_missing_one_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let batches = three_blocks();
    written(&batches, Limits { segment_bytes: 50, ..Limits::default() }).save(folder.path());
    let second = folder.path().join(segment_name(2));
    let whole = fs::read(&second).expect("read");
    let others = [batches[0].clone(), batches[2].clone()].concat();
    fs::write(&second, &whole[..whole.len() - 3]).expect("written");
    let (events, faults) = read(folder.path());
    assert_eq!((events, faults[0].kind), (others.clone(), FaultKind::Cut));
    fs::remove_file(&second).expect("removed");
    let (events, faults) = read(folder.path());
    assert_eq!((events, faults[0].kind), (others, FaultKind::Missing(2)));
    assert_eq!(faults[0].to_string(), "segment 2 is missing before 000003.plimsoll-capture: the others are used");
}

#[test]
fn a_segment_of_another_version_is_refused_with_both_versions() {
    let folder = tempfile::tempdir().expect("a folder");
    written(&three_blocks(), Limits::default()).save(folder.path());
    let mut newer = head(1);
    newer[8] = 7;
    let sum = crc32fast::hash(&newer[..16]).to_le_bytes();
    newer[16..].copy_from_slice(&sum);
    fs::write(folder.path().join(segment_name(1)), newer).expect("written");
    let mut reader = Capture::open(folder.path()).expect("a capture").events();
    let refusal = reader.next().expect("something").expect_err("refused").to_string();
    let told = "has version 7 of the format, and this program reads version 1; use a newer plimsoll";
    assert!(refusal.ends_with(told), "{refusal}");
    assert!(reader.next().is_none());
}

#[test]
fn a_capture_without_segments_is_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    written(&[], Limits::default()).save(folder.path());
    let (events, faults) = read(folder.path());
    assert!(events.is_empty() && faults.is_empty());
}
