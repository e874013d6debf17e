//! Indexes against an ordered map that does the same.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::table::layout::TableSpec;
use crate::value::{ColumnSpec, ColumnType, Value};

#[derive(Debug, Clone)]
enum Step {
    Insert(i64, i64),
    Remove(i64, i64),
    Range(i64, i64),
}

fn step() -> impl Strategy<Value = Step> {
    let number = -3_i64..60;
    prop_oneof![
        3 => (number.clone(), 0_i64..3).prop_map(|(a, b)| Step::Insert(a, b)),
        2 => (number.clone(), 0_i64..3).prop_map(|(a, b)| Step::Remove(a, b)),
        2 => (number.clone(), number).prop_map(|(a, b)| Step::Range(a, b)),
    ]
}

fn index(text_width: u16) -> Index {
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
    Index::new(0, KeyLayout::new(&spec, &[0, 1, 2], true).expect("short"), true)
}

proptest! {
    #[test]
    fn an_index_does_what_an_ordered_map_does(steps in prop::collection::vec(step(), 1..200), width in 0_u16..20) {
        let index = index(width);
        let mut map = BTreeMap::new();
        let key = |a: i64, b: i64| index.keys.low(&[Value::Int(a), Value::Int(b), Value::Text("")]);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert(a, b) => {
                    let inserted = index.insert_latched(&index.latch(), &key(a, b), number as RowId);
                    prop_assert_eq!(inserted, !map.contains_key(&(a, b)));
                    map.entry((a, b)).or_insert(number as RowId);
                }
                Step::Remove(a, b) => {
                    let row = map.remove(&(a, b));
                    prop_assert_eq!(index.get(&key(a, b)), row);
                    prop_assert_eq!(index.remove_latched(&index.latch(), &key(a, b), row.unwrap_or(0)), row.is_some());
                }
                Step::Range(a, b) if a <= b => {
                    let (low, high) = (index.keys.low(&[Value::Int(a)]), index.keys.high(&[Value::Int(b)]));
                    let mut rows = Vec::new();
                    let next = index.collect(&low, &high, &mut rows);
                    let expected: Vec<_> = map.range((a, i64::MIN)..=(b, i64::MAX)).map(|(_, row)| *row).collect();
                    prop_assert_eq!(&rows, &expected);
                    prop_assert_eq!(next, map.range((b + 1, i64::MIN)..).next().map(|(_, row)| *row));
                    prop_assert_eq!(next, index.after(&high));
                    prop_assert_eq!(index.first(&low, &high), expected.first().copied());
                    prop_assert_eq!(index.last(&low, &high), expected.last().copied());
                }
                Step::Range(..) => {}
            }
        }
        prop_assert_eq!(index.key_count(), map.len());
    }
}

/// The smallest and the largest key are in the tree for its own sake; a row may have them all the same.
#[test]
fn rows_with_the_extreme_keys_come_and_go() {
    let index = index(0);
    let number = |a: i64, b: i64| index.keys.low(&[Value::Int(a), Value::Int(b), Value::Text("")]);
    let (min, max) = (number(i32::MIN.into(), i64::MIN), number(i32::MAX.into(), i64::MAX));
    assert_eq!((index.key_count(), index.first(&min, &max), index.last(&min, &max)), (0, None, None));
    for round in 0..3 {
        assert!(index.insert_latched(&index.latch(), &min, round));
        assert!(!index.insert_latched(&index.latch(), &min, 99));
        assert_eq!((index.get(&min), index.first(&min, &max), index.key_count()), (Some(round), Some(round), 1));
        assert!(!index.remove_latched(&index.latch(), &min, 99));
        assert!(index.remove_latched(&index.latch(), &min, round));
        assert_eq!((index.get(&min), index.after(&min), index.key_count()), (None, None, 0));
    }
}
