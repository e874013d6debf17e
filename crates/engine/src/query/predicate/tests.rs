//! Predicates that a scan evaluates, against what DataFusion makes of them.

use arrow::array::{Int32Array, StringArray};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_expr::execution_props::ExecutionProps;

use super::*;
use crate::columns::chunk::LoadedColumns;
use crate::columns::{ChunkOverlay, Images, Patch};
use crate::query::morsel::PatchedColumn;

const ROWS: i32 = 1000;

fn table() -> ColumnTable {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int32, false),
        Field::new("kind", DataType::Utf8, true),
        Field::new("note", DataType::Utf8, false),
    ]));
    let kind = |id: i32| (id % 5 != 0).then(|| format!("kind {}", id % 4));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(0..ROWS)),
        Arc::new(StringArray::from_iter((0..ROWS).map(kind))),
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|id| format!("note {id}")))),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    ColumnTable::build("t", schema, vec![], vec![batch]).unwrap()
}

fn predicate(table: &ColumnTable, condition: &Expr) -> Predicate {
    let schema = DFSchema::try_from(table.schema().as_ref().clone()).unwrap();
    let condition = create_physical_expr(condition, &schema, &ExecutionProps::new(), &Default::default()).unwrap();
    Predicate::new(table, &condition).unwrap()
}

fn check(condition: Expr, expect: fn(i32) -> bool) {
    let table = table();
    let mut predicate = predicate(&table, &condition);
    let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
    let columns = table.load(0, &columns).unwrap();
    let morsel = Morsel { columns: &columns, offset: 100, rows: 700, are_images: false, patched: &[] };
    // All rows, most rows and a few rows selected beforehand take the three different ways through `select`.
    let selections: [fn(i32) -> bool; 3] = [|_| true, |id| id % 2 == 0, |id| id % 50 == 1];
    for (number, before) in selections.into_iter().enumerate() {
        let selected = BooleanBuffer::collect_bool(700, |row| before(row as i32 + 100));
        let kept = predicate.select(&morsel, (number > 0).then_some(&selected)).unwrap();
        let expected = BooleanBuffer::collect_bool(700, |row| before(row as i32 + 100) && expect(row as i32 + 100));
        assert_eq!(kept, expected, "{condition} after selection {number}");
    }
}

fn text(value: &str) -> Expr {
    lit(ScalarValue::Utf8View(Some(value.to_string())))
}

#[test]
fn conditions_keep_the_rows_that_satisfy_them() {
    check(col("id").lt(lit(500)), |id| id < 500);
    check(col("kind").eq(text("kind 3")), |id| id % 5 != 0 && id % 4 == 3);
    check(col("kind").not_eq(text("kind 3")), |id| id % 5 != 0 && id % 4 != 3);
    check(col("kind").is_null(), |id| id % 5 == 0);
    check(col("note").like(text("%7")), |id| id % 10 == 7);
    check(col("kind").eq(text("kind 1")).or(col("id").gt(lit(600))), |id| id > 600 || (id % 5 != 0 && id % 4 == 1));
}

#[test]
fn a_tabulated_condition_keeps_the_same_rows() {
    let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, true)]));
    let keys = || (0..5000i64).map(|row| (row % 7 != 0).then_some(100 + row % 300));
    let column: ArrayRef = Arc::new(Int64Array::from_iter(keys()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
    let table = ColumnTable::build("t", Arc::clone(&schema), vec![], vec![batch]).unwrap();
    let df_schema = DFSchema::try_from(schema.as_ref().clone()).unwrap();
    let condition = col("key").in_list(vec![lit(100i64), lit(250i64), lit(399i64), lit(400i64)], false);
    let condition = create_physical_expr(&condition, &df_schema, &ExecutionProps::new(), &Default::default()).unwrap();
    let mut tabulated = Predicate::tabulated(&table, &condition).unwrap();
    assert_eq!(tabulated.domain.as_ref().map(|(first, numbers)| (*first, numbers.len())), Some((100, 300)));
    let columns = table.load(0, &[0]).unwrap();
    let morsel = Morsel { columns: &columns, offset: 0, rows: 5000, are_images: false, patched: &[] };
    let expected = BooleanBuffer::from_iter(keys().map(|key| matches!(key, Some(100 | 250 | 399))));
    assert_eq!(tabulated.select(&morsel, None).unwrap(), expected);

    let image: ArrayRef = Arc::new(Int64Array::from(vec![Some(400), Some(99), None, Some(250)]));
    let images = LoadedColumns::of_images(&RecordBatch::try_new(schema, vec![image]).unwrap().into());
    let morsel = Morsel { columns: &images, offset: 0, rows: 4, are_images: true, patched: &[] };
    let expected = BooleanBuffer::from(vec![true, false, false, true]);
    assert_eq!(tabulated.select(&morsel, None).unwrap(), expected, "an image may lie outside of the table's range");
}

/// New values of the first column.
fn overlay(new: &[(u32, i64)], kept: &DataType) -> Arc<ChunkOverlay> {
    let values = cast(&Int64Array::from_iter_values(new.iter().map(|(_, value)| *value)), kept).unwrap();
    let patch = Patch { column: 0, positions: new.iter().map(|(position, _)| *position).collect(), values };
    let images = Images { rows: 0, columns: vec![] };
    Arc::new(ChunkOverlay { masked: vec![].into(), images, patches: vec![patch], entries: new.len() })
}

#[test]
fn conditions_see_new_values_in_their_places() {
    let table = table();
    // Before, in and behind the morsel; some words of bits have several new values.
    let new = [(5, 600), (100, -7), (163, 2000), (164, 499), (165, 501), (700, 0), (799, 120), (900, 1)];
    let overlay = overlay(&new, &DataType::Int32);
    let value = |id: usize| new.iter().find(|(position, _)| *position as usize == id).map_or(id as i64, |new| new.1);
    let columns = table.load(0, &[0, 1]).unwrap();
    type Holds = fn(i64) -> bool;
    let conditions: [(Expr, Holds); 4] = [
        (col("id").lt(lit(500)), |id| id < 500),
        (col("id").gt_eq(lit(-3)), |id| id >= -3),
        ((col("id") % lit(3)).eq(lit(0)), |id| id % 3 == 0),
        (col("id").gt(lit(700)).or(col("kind").eq(text("none"))), |id| id > 700),
    ];
    for (condition, expect) in conditions {
        let mut predicate = predicate(&table, &condition);
        let selections: [fn(usize) -> bool; 4] =
            [|_| true, |row| row % 2 == 0, |row| row % 50 == 13, |row| [0, 63, 65, 699].contains(&row)];
        for (number, before) in selections.into_iter().enumerate() {
            let patched = PatchedColumn::within(&overlay, 100..800);
            let morsel = Morsel { columns: &columns, offset: 100, rows: 700, are_images: false, patched: &patched };
            let selected = BooleanBuffer::collect_bool(700, before);
            let kept = predicate.select(&morsel, (number > 0).then_some(&selected)).unwrap();
            let expected = BooleanBuffer::collect_bool(700, |row| before(row) && expect(value(row + 100)));
            assert_eq!(kept, expected, "{condition} after selection {number}");
        }
    }
}

/// The condition divides by what a key is above 1000; the chunk's keys are from 100 to 399.
#[test]
fn a_tabulated_condition_is_evaluated_on_new_values_that_no_chunk_has() {
    let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)]));
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..5000).map(|row| 100 + row % 300)));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
    let table = ColumnTable::build("t", Arc::clone(&schema), vec![], vec![batch]).unwrap();
    let df_schema = DFSchema::try_from(schema.as_ref().clone()).unwrap();
    let condition = (lit(1000i64) / (col("key") - lit(1000i64))).gt(lit(0i64));
    let condition = create_physical_expr(&condition, &df_schema, &ExecutionProps::new(), &Default::default()).unwrap();
    let mut tabulated = Predicate::tabulated(&table, &condition).unwrap();
    assert!(tabulated.domain.is_some());
    let columns = table.load(0, &[0]).unwrap();
    let mut select = |new: &[(u32, i64)], selected: Option<&BooleanBuffer>| {
        let patched = PatchedColumn::within(&overlay(new, &DataType::Int64), 0..5000);
        let morsel = Morsel { columns: &columns, offset: 0, rows: 5000, are_images: false, patched: &patched };
        tabulated.select(&morsel, selected)
    };
    let only = |row: usize| BooleanBuffer::collect_bool(5000, |at| at == row);
    assert_eq!(select(&[], None).unwrap(), BooleanBuffer::new_unset(5000));
    assert_eq!(select(&[(64, 1500), (70, 2500), (4000, 400)], None).unwrap(), only(64));
    // It fails on a new value, which counts only if its row is still asked for.
    let failing = [(64, 1500), (65, 1000)];
    assert!(select(&failing, None).is_err());
    let shown = BooleanBuffer::collect_bool(5000, |row| row != 65);
    assert_eq!(select(&failing, Some(&shown)).unwrap(), only(64));
}

#[test]
fn a_condition_that_fails_on_a_row_that_is_gone_is_evaluated_on_the_others() {
    let table = table();
    let columns = table.load(0, &[0]).unwrap();
    let mut predicate = predicate(&table, &(lit(1000) / col("id")).gt(lit(3)));
    let morsel = Morsel { columns: &columns, offset: 0, rows: 500, are_images: false, patched: &[] };
    assert!(predicate.select(&morsel, None).is_err(), "a thousand cannot be divided by the first row's zero");
    let shown = BooleanBuffer::collect_bool(500, |row| row > 0);
    let expected = BooleanBuffer::collect_bool(500, |row| row > 0 && 1000 / row > 3);
    assert_eq!(predicate.select(&morsel, Some(&shown)).unwrap(), expected);
}

#[test]
fn a_condition_is_evaluated_once_on_each_dictionary() {
    let table = table();
    let mut predicate = predicate(&table, &col("kind").eq(text("kind 3")));
    let other: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(0..16)),
        Arc::new(StringArray::from_iter_values((0..16).map(|id| ["kind 3", "sail"][id % 2]))),
        Arc::new(StringArray::from_iter_values((0..16).map(|id| id.to_string()))),
    ];
    let other = Arc::new(crate::columns::Chunk::encode(table.schema(), &other, None, None).unwrap());
    let table = table.with_chunks(&[(1, other)]).unwrap();
    for _ in 0..2 {
        for (chunk, passing) in [(0, 200), (1, 8)] {
            let columns = table.load(chunk, &[1]).unwrap();
            let rows = table.chunks()[chunk].rows();
            let morsel = Morsel { columns: &columns, offset: 0, rows, are_images: false, patched: &[] };
            assert_eq!(predicate.select(&morsel, None).unwrap().count_set_bits(), passing);
        }
    }
    assert_eq!(predicate.entries.len(), 2);
}

#[test]
fn a_condition_on_dictionary_text_is_cheapest_and_on_plain_text_dearest() {
    let table = table();
    let costs = [col("kind").eq(text("kind 3")), col("id").lt(lit(5)), col("note").eq(text("note 1"))]
        .map(|condition| predicate(&table, &condition).cost());
    assert!(costs.is_sorted() && costs[0] < costs[1] && costs[1] < costs[2], "{costs:?}");
}
