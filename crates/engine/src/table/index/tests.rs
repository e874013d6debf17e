//! Indexes compared with an ordered map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::table::layout::TableSpec;
use crate::value::{ColumnSpec, ColumnType, Value};

#[derive(Debug, Clone)]
enum IndexStep {
    Insert(i64, i64),
    Remove(i64, i64),
    Range(i64, i64),
}

fn step() -> impl Strategy<Value = IndexStep> {
    let number = -3_i64..60;
    prop_oneof![
        3 => (number.clone(), 0_i64..3).prop_map(|(a, b)| IndexStep::Insert(a, b)),
        2 => (number.clone(), 0_i64..3).prop_map(|(a, b)| IndexStep::Remove(a, b)),
        2 => (number.clone(), number).prop_map(|(a, b)| IndexStep::Range(a, b)),
    ]
}

/// An index over three columns, the last one a text.
fn index(text_width: u16, kind: IndexKind) -> Index {
    let column = |name: &str, kind| ColumnSpec { name: name.to_owned(), kind, nullable: false };
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: vec![
            column("a", ColumnType::Int32),
            column("b", ColumnType::Int64),
            column("c", ColumnType::Text(text_width)),
        ],
        primary_key: vec![0, 1, 2],
        secondary: vec![],
    };
    Index::new(0, KeyLayout::new(&spec, &[0, 1, 2], true).expect("short"), true, kind)
}

/// The gap of an entry, or that above the last one.
fn gap_of(row: Option<RowId>) -> Gap {
    row.map_or(Gap::End, Gap::Below)
}

proptest! {
    #[test]
    fn an_index_does_what_an_ordered_map_does(
        steps in prop::collection::vec(step(), 1..200),
        width in 0_u16..20,
        kind in prop::sample::select(&IndexKind::ALL[..]),
    ) {
        let index = index(width, kind);
        let mut map = BTreeMap::new();
        let key = |a: i64, b: i64| index.keys.low(&[Value::Int(a), Value::Int(b), Value::Text("")]);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                IndexStep::Insert(a, b) => {
                    let inserted = index.insert_latched(&index.place(&key(a, b)), &key(a, b), number as RowId);
                    prop_assert_eq!(inserted, !map.contains_key(&(a, b)));
                    map.entry((a, b)).or_insert(number as RowId);
                }
                IndexStep::Remove(a, b) => {
                    let row = map.remove(&(a, b));
                    prop_assert_eq!(index.get(&key(a, b)), row);
                    let place = index.place(&key(a, b));
                    prop_assert_eq!(place.present, row);
                    prop_assert_eq!(index.remove_latched(&place, &key(a, b), row.unwrap_or(0)), row.is_some());
                }
                IndexStep::Range(a, b) if kind == IndexKind::Hash => {
                    for key_of in [(a, b), (b, 0), (a, 1)] {
                        let (key, row) = (key(key_of.0, key_of.1), map.get(&key_of).copied());
                        prop_assert_eq!(index.get(&key), row);
                        prop_assert_eq!(index.at_and_after(&key), (row, index.after(&key)));
                        prop_assert!(matches!(index.after(&key).gap, Gap::Hash(_)));
                    }
                }
                IndexStep::Range(a, b) if a <= b => {
                    let (low, high) = (index.keys.low(&[Value::Int(a)]), index.keys.high(&[Value::Int(b)]));
                    let mut rows = Vec::new();
                    let next = index.collect(&low, &high, &mut rows);
                    let expected: Vec<_> = map.range((a, i64::MIN)..=(b, i64::MAX)).map(|(_, row)| *row).collect();
                    prop_assert_eq!(&rows, &expected);
                    prop_assert_eq!(next.gap, gap_of(map.range((b + 1, i64::MIN)..).next().map(|(_, row)| *row)));
                    prop_assert_eq!(next, index.after(&high));
                    let (first, above) = index.first_and_above(&low, &high);
                    prop_assert_eq!(first, expected.first().copied());
                    prop_assert_eq!(above.gap, first.map_or(next.gap, Gap::Below));
                    prop_assert_eq!(index.first(&low, &high), expected.first().copied());
                    prop_assert_eq!(index.last(&low, &high), expected.last().copied());
                }
                IndexStep::Range(..) => {}
            }
        }
        prop_assert_eq!(index.key_count(), map.len());
    }
}

/// The smallest and the largest key are always in the tree as fences; rows may still have these keys.
#[test]
fn rows_with_the_extreme_keys_come_and_go() {
    let index = index(0, IndexKind::Tree);
    let number = |a: i64, b: i64| index.keys.low(&[Value::Int(a), Value::Int(b), Value::Text("")]);
    let (min, max) = (number(i32::MIN.into(), i64::MIN), number(i32::MAX.into(), i64::MAX));
    assert_eq!((index.key_count(), index.first(&min, &max), index.last(&min, &max)), (0, None, None));
    for round in 0..3 {
        assert!(index.insert_latched(&index.place(&min), &min, round));
        assert!(!index.insert_latched(&index.place(&min), &min, 99));
        assert_eq!((index.get(&min), index.first(&min, &max), index.key_count()), (Some(round), Some(round), 1));
        assert!(!index.remove_latched(&index.place(&min), &min, 99));
        assert!(index.remove_latched(&index.place(&min), &min, round));
        assert_eq!((index.get(&min), index.after(&min).gap, index.key_count()), (None, Gap::End, 0));
    }
}

/// Each change of a gap changes the version of a range that was read with it, if there is a version.
#[test]
fn a_change_in_a_range_or_right_above_it_shows() {
    let index = &index(0, IndexKind::Tree);
    let key = |a: i64, b: i64| index.keys.low(&[Value::Int(a), Value::Int(b), Value::Text("")]);
    for (row, b) in (0..).zip((0..40).step_by(4)) {
        assert!(index.load(&key(7, b), row));
        assert!(index.load(&key(9, b), 100 + row));
    }
    let unchanged = |low: &Key, high: &Key, change: &dyn Fn()| {
        let version = index.version(low, high);
        let above = index.collect(low, high, &mut Vec::new());
        change();
        index.freeze(low, high, above).is_unchanged_since(version)
    };
    let put = |key: Key| move || assert!(index.insert_latched(&index.place(&key), &key, 1_000));
    let take = |key: Key| move || assert!(index.remove_latched(&index.place(&key), &key, 1_000));
    assert!(unchanged(&key(7, 8), &key(7, 16), &|| ()));
    // In the range, between its last key and the entry above, and away from both.
    for at in [key(7, 9), key(7, 17)] {
        assert!(!unchanged(&key(7, 8), &key(7, 16), &put(at)));
        assert!(!unchanged(&key(7, 8), &key(7, 16), &take(at)));
    }
    assert!(index.stripe(&key(7, 0)) != index.stripe(&key(9, 0)), "this is about stripes that differ");
    assert!(unchanged(&key(7, 8), &key(7, 16), &put(key(9, 17))));
    // The entry above is in another stripe: the range must be checked again, even if nothing has changed.
    assert!(!unchanged(&key(7, 8), &key(7, 36), &|| ()));
    assert!(!unchanged(&key(7, 8), &key(9, 0), &|| ()));
}

#[test]
fn the_entry_above_a_group_of_keys_is_looked_for_where_it_was_last() {
    let index = &index(0, IndexKind::Tree);
    let key = |a: i64, b: i64| index.keys.low(&[Value::Int(a), Value::Int(b), Value::Text("")]);
    let (own, next) = (index.stripe(&key(7, 0)), index.stripe(&key(9, 0)));
    assert!(own != next, "this is about stripes that differ");
    assert!(index.load(&key(9, 0), 9));
    assert_eq!(index.stripes.guess(key(7, 0).leading()), own);
    for b in [5, 6] {
        assert!(index.insert_latched(&index.place(&key(7, b)), &key(7, b), b as RowId));
        assert_eq!(index.stripes.guess(key(7, b).leading()), next);
    }
    // Inside the group the entry above belongs to the group; the guess still points to the end of the group.
    assert!(index.insert_latched(&index.place(&key(7, 2)), &key(7, 2), 2));
    assert_eq!(index.stripes.guess(key(7, 2).leading()), next);
}

/// A hash table moves its keys as it grows. No insertion may be lost for that, nor a key be missed that is to be inserted.
#[test]
fn a_hash_index_that_grows_loses_no_key() {
    const KEYS: i64 = 20_000;
    let index = &index(0, IndexKind::Hash);
    let key = |b: i64| index.keys.low(&[Value::Int(b % 7), Value::Int(b), Value::Text("")]);
    std::thread::scope(|scope| {
        for part in 0..2 {
            scope.spawn(move || {
                for b in (part..KEYS).step_by(2) {
                    assert!(index.insert_latched(&index.place(&key(b)), &key(b), b as RowId));
                    let earlier = key(b - 2 * (b % 50).min(b / 2));
                    let row = index.at_and_after(&earlier).0;
                    assert_eq!(row.map(|row| key(row as i64)), Some(earlier));
                }
            });
        }
    });
    assert_eq!(index.key_count(), KEYS as usize);
    for b in 0..KEYS {
        assert!(index.remove_latched(&index.place(&key(b)), &key(b), b as RowId));
        assert_eq!(index.get(&key(b)), None);
    }
    assert_eq!(index.key_count(), 0);
}
