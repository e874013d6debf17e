//! After any damage to the bytes of a log, it reads as a prefix of the units that were written.

use std::collections::BTreeMap;

use super::super::format::{FRAME_HEADER_BYTES, HEADER_BYTES, Magic, Stamp, measure_frame, stamp_frame};
use super::*;

/// A log of 12 transactions in several segments, and its transactions.
fn log() -> (BTreeMap<u64, Vec<u8>>, Vec<LoggedTransaction>) {
    let storage = MemoryStorage::default();
    let engine = logged_engine(&storage, &LogOptions { segment_bytes: 350, ..options(Durability::Sync) });
    let mut connection = engine.connect();
    for key in 0..12 {
        insert(&mut connection, key, &"note".repeat(key as usize % 4)).unwrap();
    }
    let (transactions, end) = read(&storage);
    assert_eq!((transactions.len(), end.unwrap().torn), (12, None));
    let segments = storage.bytes();
    assert!(segments.len() >= 3, "several segments");
    (segments, transactions)
}

/// Where each frame of a segment ends.
fn frame_ends(segment: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = HEADER_BYTES;
    while at < segment.len() {
        at += measure_frame(&segment[at..]).0;
        ends.push(at);
    }
    ends
}

#[test]
fn a_torn_tail_at_any_byte_leaves_the_whole_units_before_it() {
    let (segments, all) = log();
    let mut before = 0;
    for (&number, segment) in &segments {
        let ends = frame_ends(segment);
        for length in 0..=segment.len() {
            // Cut off, or followed by the zeros of a file that was allocated at full length.
            for zeros in [0, 100] {
                let mut torn: BTreeMap<_, _> =
                    segments.range(..=number).map(|(n, bytes)| (*n, bytes.clone())).collect();
                let last = torn.get_mut(&number).unwrap();
                last.truncate(length);
                last.resize(length + zeros, 0);
                let (found, end) = read(&MemoryStorage::of(torn));
                let whole = before + ends.iter().filter(|&&end| end <= length).count();
                // Nothing is lost if the bytes cut off were zeros.
                let with_zeros = found.len() - whole;
                assert!(with_zeros <= usize::from(zeros > 0), "segment {number} cut at {length}");
                assert_eq!(found, all[..whole + with_zeros], "segment {number} cut at {length}");
                let end = end.unwrap();
                if zeros == 0 {
                    let is_clean = length == HEADER_BYTES || ends.contains(&length);
                    assert_eq!(end.torn.is_none(), is_clean, "segment {number} cut at {length}: {end:?}");
                }
            }
        }
        before += ends.len();
    }
}

/// Reads a damaged log: the result must be a prefix of the units written, and complete up to the damaged segment.
fn check_damaged(segments: BTreeMap<u64, Vec<u8>>, damaged: u64, all: &[LoggedTransaction], what: &str) {
    let before: usize = segments.range(..damaged).map(|(_, bytes)| frame_ends(bytes).len()).sum();
    let is_last = segments.last_key_value().unwrap().0 == &damaged;
    let (found, end) = read(&MemoryStorage::of(segments));
    assert!(found.len() >= before && found == all[..found.len()], "{what}: {} of {before}", found.len());
    assert!(found.len() < all.len(), "{what}: not noticed");
    if is_last {
        assert!(end.is_ok(), "{what}: {end:?}");
    } else {
        let error = end.unwrap_err().to_string();
        assert!(error.contains("is damaged at byte"), "{what}: {error}");
    }
}

#[test]
fn no_changed_byte_passes() {
    let (segments, all) = log();
    for (&number, segment) in &segments {
        for at in 0..segment.len() {
            // The rest of a segment's header is not used.
            if (48..HEADER_BYTES).contains(&at) {
                continue;
            }
            let mut damaged = segments.clone();
            damaged.get_mut(&number).unwrap()[at] ^= 1 << (at % 8);
            check_damaged(damaged, number, &all, &format!("segment {number}, byte {at}"));
        }
    }
}

#[test]
fn zeroed_and_exchanged_blocks_do_not_pass() {
    let (segments, all) = log();
    for (&number, segment) in &segments {
        for (start, end) in (0..segment.len()).step_by(16).map(|start| (start, (start + 32).min(segment.len()))) {
            let mut damaged = segments.clone();
            damaged.get_mut(&number).unwrap()[start..end].fill(0);
            if damaged != segments && !(start >= 48 && end <= HEADER_BYTES) {
                check_damaged(damaged, number, &all, &format!("segment {number}, zeros at {start}"));
            }
        }
        // Two frames are exchanged.
        let starts = [&[HEADER_BYTES], &frame_ends(segment)[..]].concat();
        if let [a, b, c, ..] = starts[..] {
            let mut damaged = segments.clone();
            let swapped = [&segment[..a], &segment[b..c], &segment[a..b], &segment[c..]].concat();
            damaged.insert(number, swapped);
            let (found, _) = read(&MemoryStorage::of(damaged));
            assert!(found == all[..found.len()] && found.len() < all.len(), "segment {number}");
        }
    }
}

#[test]
fn a_missing_segment_is_an_older_log() {
    let (mut segments, all) = log();
    // The process died while it removed the log: the newest segments were already gone.
    let last = *segments.last_key_value().unwrap().0;
    segments.remove(&last);
    let (found, end) = read(&MemoryStorage::of(segments.clone()));
    assert_eq!(found, all[..found.len()]);
    assert_eq!(end.unwrap().torn, None);
    // After a gap, a segment begins the log that counts.
    let (whole, _) = log();
    let (found, _) = read(&MemoryStorage::of([(last, whole[&last].clone()), (1, whole[&1].clone())].into()));
    assert_eq!(found, all[all.len() - found.len()..]);
}

#[test]
fn a_good_checksum_of_nonsense_is_damage() {
    let (mut segments, _) = log();
    let (&last, segment) = segments.iter_mut().next_back().unwrap();
    let start = HEADER_BYTES;
    let (length, lsn) = measure_frame(&segment[start..]);
    let mut forged = Vec::new();
    let nonsense = vec![9; length - FRAME_HEADER_BYTES];
    super::super::format::append_frame(&mut forged, lsn, &nonsense, crc32fast::hash(&nonsense));
    stamp_frame(&mut forged, Stamp { magic: Magic::Segment, database: 0, number: last });
    segment[start..start + length].copy_from_slice(&forged);
    let (_, end) = read(&MemoryStorage::of(segments));
    assert!(matches!(end, Err(ReadError::Damaged { segment, .. }) if segment == last));
}
