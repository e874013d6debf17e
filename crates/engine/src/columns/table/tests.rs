//! Column tables: rows are returned as they were stored, and statistics are correct.

use arrow::array::{Int64Array, StringArray, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use super::*;
use crate::columns::statistics::DistinctCount;

fn ships(rows: usize, batch_rows: usize) -> ColumnTable {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("flag", DataType::Utf8, true),
        Field::new("name", DataType::Utf8, false),
    ]));
    let ids: Vec<i64> = (0..rows as i64).collect();
    let batch = |ids: &[i64]| {
        let flag = |id: &i64| (id % 10 != 0).then_some(["panama", "liberia", "malta"][*id as usize % 3]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids.to_vec())),
            Arc::new(StringArray::from_iter(ids.iter().map(flag))),
            Arc::new(StringArray::from_iter_values(ids.iter().map(|id| format!("ship number {id}")))),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    let batches = ids.chunks(batch_rows).map(batch).collect();
    ColumnTable::build("ship", Arc::clone(&schema), vec![vec![0]], batches).unwrap()
}

#[test]
fn rows_come_back_in_order_whatever_the_batches_were() {
    for batch_rows in [1000, CHUNK_ROWS, 3 * CHUNK_ROWS] {
        let rows = 2 * CHUNK_ROWS + 1234;
        let table = ships(rows, batch_rows);
        assert_eq!(table.chunks().iter().map(|chunk| chunk.rows()).collect::<Vec<_>>(), [CHUNK_ROWS, CHUNK_ROWS, 1234]);
        let all = concat_batches(table.schema(), &table.to_batches().unwrap()).unwrap();
        assert_eq!(all.column(0).as_ref(), &Int64Array::from_iter_values(0..rows as i64));
        let names: &StringViewArray = all.column(2).as_any().downcast_ref().unwrap();
        assert_eq!(names.value(CHUNK_ROWS + 5), format!("ship number {}", CHUNK_ROWS + 5));
        let flags: &StringViewArray = all.column(1).as_any().downcast_ref().unwrap();
        assert!(flags.is_null(20) && flags.value(23) == "malta");
    }
}

#[test]
fn statistics_state_what_is_in_the_columns() {
    let rows = CHUNK_ROWS + 100;
    let table = ships(rows, 5000);
    let [id, flag, name] = &table.statistics().columns[..] else { panic!("three columns") };
    assert_eq!((&id.min, &id.max), (&ScalarValue::from(0i64), &ScalarValue::from(rows as i64 - 1)));
    assert_eq!((id.distinct, id.null_count, id.ascending), (DistinctCount::Exact(rows), 0, true));
    assert_eq!(flag.null_count, rows.div_ceil(10));
    assert_eq!((flag.distinct, flag.ascending), (DistinctCount::Exact(3), false));
    assert_eq!(flag.max, ScalarValue::Utf8View(Some("panama".to_string())));
    let estimate = name.distinct.value() as f64 / rows as f64;
    assert!((0.95..1.05).contains(&estimate), "{:?} of {rows}", name.distinct);
    assert_eq!(id.zones.min.as_ref(), &Int64Array::from(vec![0, CHUNK_ROWS as i64]));
    assert_eq!(id.zones.max.as_ref(), &Int64Array::from(vec![CHUNK_ROWS as i64 - 1, rows as i64 - 1]));
    assert!(table.has_codes(1) && !table.has_codes(2));
}

#[test]
fn the_sample_spreads_over_the_whole_table() {
    let sample = ships(100_000, 777).statistics().sample.clone();
    let ids: &Int64Array = sample.column(0).as_any().downcast_ref().unwrap();
    // One of each 25 rows, and not always the same one.
    assert_eq!(ids.values().iter().map(|id| id / 25).collect::<Vec<_>>(), (0..4000).collect::<Vec<_>>());
    assert!((0..25).all(|place| ids.values().iter().any(|id| id % 25 == place)));
    assert_eq!(ships(10, 3).statistics().sample.num_rows(), 10);
}

#[test]
fn a_table_without_rows_has_a_schema_and_statistics() {
    let table = ships(0, 1);
    assert_eq!((table.rows(), table.chunks().len()), (0, 0));
    assert!(table.statistics().columns[0].min.is_null());
    assert_eq!(table.schema().field(1).data_type(), &DataType::Utf8View);
}

#[test]
fn wrong_batches_and_keys_are_refused() {
    let table = ships(3, 3);
    let batches = table.to_batches().unwrap();
    let other = Arc::new(Schema::new(vec![Field::new("id", DataType::Int32, false)]));
    let error = ColumnTable::build("ship", other, vec![], batches.clone()).unwrap_err();
    assert!(matches!(error, ColumnError::SchemaMismatch { .. }), "{error}");
    let error = ColumnTable::build("ship", Arc::clone(table.schema()), vec![vec![7]], batches).unwrap_err();
    assert!(matches!(error, ColumnError::NoSuchColumn { column: 7, columns: 3, .. }), "{error}");
}

#[test]
fn a_table_in_a_file_gives_the_same_rows_and_reads_only_what_is_asked_for() {
    let rows = CHUNK_ROWS + 1234;
    let folder =
        crate::columns::DiskFolder::open(std::path::Path::new(crate::columns::folder::DEFAULT_FOLDER)).unwrap();
    let (memory, file) = (ships(rows, 5000), ships(rows, 5000).into_file(&folder.into()).unwrap());
    assert_eq!(file.to_batches().unwrap(), memory.to_batches().unwrap());
    assert!(file.memory_bytes() < memory.memory_bytes() / 10, "only dictionaries stay in memory");
    let (id, flag) = (file.load(0, &[0]).unwrap(), file.load(0, &[0, 1]).unwrap());
    // Two bytes a row, for the numbers of a chunk are near each other, and one, in whole pages, and no text.
    assert!((2 * CHUNK_ROWS..2 * CHUNK_ROWS + 8192).contains(&id.bytes_read()), "{}", id.bytes_read());
    assert!((3 * CHUNK_ROWS..4 * CHUNK_ROWS).contains(&flag.bytes_read()), "{}", flag.bytes_read());
    assert_eq!(file.disk_bytes(0, &[0, 1]), flag.bytes_read());
    assert_eq!((memory.load(0, &[0, 1]).unwrap().bytes_read(), memory.disk_bytes(0, &[0, 1])), (0, 0));
    let all: usize = (0..2).map(|chunk| file.disk_bytes(chunk, &[0, 1, 2])).sum();
    assert_eq!(file.file().unwrap().bytes(), all as u64);
}

#[test]
fn the_next_version_shares_what_has_not_changed_and_its_statistics_hold() {
    let first = ships(2 * CHUNK_ROWS, CHUNK_ROWS);
    let changed = ships(100, 100);
    let (added, live) = (changed.chunks()[0].to_arrays().unwrap(), BooleanBuffer::collect_bool(100, |row| row >= 50));
    let added = Chunk::encode(first.schema(), &added, Some(live), Some(&first.chunks()[0])).unwrap();
    let second = first.with_chunks(&[(1, Arc::clone(&changed.chunks()[0])), (4, Arc::new(added))]).unwrap();
    assert!(Arc::ptr_eq(&first.chunks()[0], &second.chunks()[0]));
    assert!(Arc::ptr_eq(first.chunks()[0].dictionary(1).unwrap(), second.chunks()[4].dictionary(1).unwrap()));
    assert_eq!((first.rows(), first.chunks().len()), (2 * CHUNK_ROWS, 2), "the version before is as it was");
    let rows: Vec<usize> = second.chunks().iter().map(|chunk| chunk.live_rows()).collect();
    assert_eq!((rows, second.rows()), (vec![CHUNK_ROWS, 100, 0, 0, 50], CHUNK_ROWS + 150));
    let [id, flag, _] = &second.statistics().columns[..] else { panic!("three columns") };
    assert_eq!((&id.min, &id.max), (&ScalarValue::from(0i64), &ScalarValue::from(CHUNK_ROWS as i64 - 1)));
    assert_eq!((id.ascending, id.distinct), (false, DistinctCount::Exact(CHUNK_ROWS + 150)));
    assert_eq!((flag.null_count, flag.distinct), (CHUNK_ROWS.div_ceil(10) + 10 + 5, DistinctCount::Estimate(3)));
    assert_eq!(id.zones.max.len(), 5);
    assert_eq!(second.to_batches().unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), second.rows());
}

#[test]
fn a_table_that_grows_is_sampled_anew() {
    let full = ships(10_000, 10_000);
    let grown = ships(0, 1).with_chunks(&[(0, Arc::clone(&full.chunks()[0]))]).unwrap();
    assert_eq!(grown.statistics().sample, full.statistics().sample);
    let same = grown.with_chunks(&[(1, Arc::clone(&full.chunks()[0]))]).unwrap();
    assert_eq!(same.statistics().sample, full.statistics().sample, "twice as many is near enough");
    assert_eq!(same.statistics().columns[2].distinct.value().div_ceil(10_000), 2, "each row has a name of its own");
}

#[test]
fn holes_are_in_no_statistics_and_in_no_sample() {
    let all = ships(2 * CHUNK_ROWS, 999);
    let live = BooleanBuffer::collect_bool(2 * CHUNK_ROWS, |row| row % 2 == 1 || row > CHUNK_ROWS);
    let batches = all.to_batches().unwrap();
    let table =
        ColumnTable::build_with_holes("ship", Arc::clone(all.schema()), vec![vec![0]], batches, Some(&live)).unwrap();
    assert_eq!((table.rows(), table.statistics().columns[0].min.clone()), (live.count_set_bits(), 1i64.into()));
    assert_eq!(table.statistics().columns[0].distinct, DistinctCount::Exact(table.rows()));
    assert_eq!(table.chunks()[1].rows(), CHUNK_ROWS);
    let sample = &table.statistics().sample;
    let ids: &Int64Array = sample.column(0).as_any().downcast_ref().unwrap();
    assert!(ids.values().iter().all(|id| live.value(*id as usize)) && ids.len() > SAMPLE_ROWS / 2);
}
