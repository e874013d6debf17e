//! Queries read exactly the state after the first commits of one order, at all times.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod histories;
mod modes;
mod overlays;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use plimsoll_policy::Priority;

use super::*;
use crate::columns::{ColumnSnapshot, SnapshotTable};
use crate::engine::{Engine, EngineOptions};
use crate::query::printed::sorted_rows;
use crate::table::IndexKind;
use crate::table::column::column_of;
use crate::table::heap::RowId;
use crate::table::layout::{ColumnSet, TableSpec};
use crate::table::stored::{ImageColumn, apply_image};
use crate::table_set::{TableDeclaration, TableSet};
use crate::transaction::{Connection, Purpose, TransactionError};
use crate::value::{ColumnSpec, ColumnType, Value};

/// Positions of the tables in the set.
const ACCOUNT: usize = 0;
const ENTRY: usize = 1;
/// A table that is not kept as rows.
const PLACE: usize = 2;

/// Columns of an account.
const BALANCE: usize = 2;
const NOTE: usize = 3;

const ACCOUNTS: i64 = 40;
/// Rows that are deleted at the start: freed slots are reused only if there are many.
const ENTRIES: i64 = 1300;

fn declaration(name: &str, columns: &[(&str, ColumnType, DataType, bool)], keeps_rows: bool) -> TableDeclaration {
    let spec = |&(name, kind, _, nullable): &(&str, ColumnType, DataType, bool)| ColumnSpec {
        name: name.to_owned(),
        kind,
        nullable,
    };
    let columns: Vec<_> = columns.to_vec();
    let fields: Vec<Field> =
        columns.iter().map(|(name, _, kind, nullable)| Field::new(*name, kind.clone(), *nullable)).collect();
    let spec = TableSpec {
        name: name.to_owned(),
        columns: columns.iter().map(spec).collect(),
        primary_key: vec![0],
        secondary: vec![],
    };
    TableDeclaration { spec, primary: IndexKind::Tree, arrow: Arc::new(Schema::new(fields)), keeps_rows }
}

fn declarations() -> Vec<TableDeclaration> {
    let int = |name| (name, ColumnType::Int64, DataType::Int64, false);
    let note = ("note", ColumnType::Text(40), DataType::Utf8View, true);
    let branch = ("branch", ColumnType::Int32, DataType::Int32, false);
    vec![
        declaration("account", &[int("id"), branch, int("balance"), note.clone()], true),
        declaration("entry", &[int("id"), note], true),
        declaration("place", &[int("id")], false),
    ]
}

fn accounts(ids: std::ops::Range<i64>) -> RecordBatch {
    let notes = ids.clone().map(|id| (id % 3 > 0).then_some(["red", "blue"][id as usize % 2]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(Int32Array::from_iter_values(ids.clone().map(|id| id as i32 % 4))),
        Arc::new(Int64Array::from_iter_values(ids.map(|_| 1000))),
        Arc::new(StringViewArray::from_iter(notes)),
    ];
    RecordBatch::try_new(Arc::clone(&declarations()[ACCOUNT].arrow), columns).unwrap()
}

fn entries(ids: std::ops::Range<i64>) -> RecordBatch {
    let notes = ids.clone().map(|id| Some(format!("entry {id}")));
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(StringViewArray::from_iter(notes))];
    RecordBatch::try_new(Arc::clone(&declarations()[ENTRY].arrow), columns).unwrap()
}

/// Tables that several threads have loaded.
fn loaded(engine: &Arc<Engine>, options: &DeltaOptions) -> TableSet {
    let set = TableSet::create(engine, declarations()).unwrap().with_propagation(options.clone());
    load(&set);
    set
}

fn load(set: &TableSet) {
    std::thread::scope(|scope| {
        for at in 0..4 {
            let quarter = move |all: i64| all / 4 * at..all / 4 * (at + 1);
            scope.spawn(move || {
                set.load(ENTRY, entries(quarter(ENTRIES))).unwrap();
                set.load(ACCOUNT, accounts(quarter(ACCOUNTS))).unwrap();
            });
        }
    });
    let places = Arc::new(Int64Array::from(vec![7, 8]));
    set.load(PLACE, RecordBatch::try_new(Arc::clone(&declarations()[PLACE].arrow), vec![places]).unwrap()).unwrap();
    set.finish_load().unwrap();
}

type Rows = Vec<Vec<String>>;

/// The rows that a query which reads these columns of this snapshot sees of a table: the chunks, and the overlay over
/// them.
fn read(version: &SnapshotTable, read: &[usize]) -> Vec<RecordBatch> {
    let columns = version.columns();
    let schema = Arc::new(columns.schema().project(read).unwrap());
    let batch = |arrays: Vec<ArrayRef>, rows: usize| {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options).unwrap()
    };
    let mut batches = Vec::new();
    for number in 0..version.chunk_count() {
        let overlay = version.overlay().and_then(|overlay| overlay.chunk(number, read).unwrap());
        if let Some(chunk) = columns.chunks().get(number) {
            let loaded = chunk.load(read).unwrap();
            let patches = || overlay.iter().flat_map(|overlay| &overlay.patches);
            let value = |&column: &usize| {
                let own = loaded.column(column).values().unwrap();
                match patches().find(|patch| patch.column == column) {
                    Some(patch) => patch.over(own, 0),
                    None => own,
                }
            };
            let all = read.iter().map(value).collect();
            let shown = overlay.as_ref().map_or_else(|| chunk.live().cloned(), |overlay| overlay.visible(chunk));
            let shown = shown.unwrap_or_else(|| arrow::buffer::BooleanBuffer::new_set(chunk.rows()));
            batches.push(arrow::compute::filter_record_batch(&batch(all, chunk.rows()), &shown.into()).unwrap());
        }
        batches.extend(overlay.map(|overlay| {
            let images = read.iter().map(|column| Arc::clone(overlay.images.columns[*column].as_ref().unwrap()));
            batch(images.collect(), overlay.images.rows)
        }));
    }
    batches
}

/// All columns of a table. Checks that a query that reads a single column sees the same values, that one that reads no
/// column sees the same number of rows, and that whole chunks have the same rows.
fn contents(snapshot: &ColumnSnapshot, table: &str) -> Rows {
    let version = snapshot.version(table).unwrap();
    let all: Vec<usize> = (0..version.columns().schema().fields().len()).collect();
    let mut sets: Vec<Vec<usize>> = all.iter().map(|&column| vec![column]).collect();
    sets.extend([vec![], all.clone()]);
    // The next snapshot should reuse the last overlay of this one.
    if snapshot.seq() % 2 == 1 {
        sets.reverse();
    }
    let found: Vec<Vec<RecordBatch>> = sets.iter().map(|set| read(version, set)).collect();
    let of = |columns: &[usize]| &found[sets.iter().position(|set| set == columns).unwrap()];
    let rows = sorted_rows(of(&all));
    for &column in &all {
        let mut values: Rows = rows.iter().map(|row| vec![row[column].clone()]).collect();
        values.sort();
        assert_eq!(sorted_rows(of(&[column])), values, "column {column} of {table}");
    }
    assert_eq!(of(&[]).iter().map(RecordBatch::num_rows).sum::<usize>(), rows.len(), "rows of {table}");
    let chunks: Vec<RecordBatch> = (0..version.chunk_count()).map(|chunk| version.chunk_rows(chunk).unwrap()).collect();
    assert_eq!(sorted_rows(&chunks), rows, "whole chunks of {table}");
    rows
}

fn all_contents(snapshot: &ColumnSnapshot) -> Vec<Rows> {
    declarations().iter().map(|table| contents(snapshot, &table.spec.name)).collect()
}

/// The states that a history of commits produces.
struct Replay {
    history: std::vec::IntoIter<batch::CommitBatch>,
    seq: u64,
    /// For each table its rows by number, as words of the heap.
    tables: Vec<RowWords>,
    layouts: Vec<(RowLayout, SchemaRef)>,
}

type RowWords = BTreeMap<RowId, Vec<u64>>;

/// The rows of each table by number, while no transaction changes them.
fn rows_by_number(set: &TableSet) -> Vec<RowWords> {
    let rows = |table: usize| {
        let Some(rows) = set.rows(table) else { return BTreeMap::new() };
        let row = |number: RowId| {
            let mut words = Vec::new();
            rows.heap.image(number, ColumnSet::ALL, &mut words);
            (number, words)
        };
        rows.heap.live_rows().map(row).collect()
    };
    (0..declarations().len()).map(rows).collect()
}

/// Rows of a table as a query shows them.
fn shown(rows: &RowWords, (layout, schema): &(RowLayout, SchemaRef)) -> Rows {
    let column = |(column, field): (usize, &FieldRef)| {
        let place = layout.place(column);
        let images = rows.values().map(|words| ImageColumn { place, words, offset: place.word as usize });
        column_of(&images.collect::<Vec<_>>(), column, field.data_type()).unwrap()
    };
    let columns = schema.fields().iter().enumerate().map(column).collect();
    sorted_rows(&[RecordBatch::try_new(Arc::clone(schema), columns).unwrap()])
}

fn layouts() -> Vec<(RowLayout, SchemaRef)> {
    declarations().into_iter().map(|table| (RowLayout::new(&table.spec.columns), table.arrow)).collect()
}

impl Replay {
    /// All batches published so far, on top of the tables' initial contents.
    fn new(set: &TableSet, before: &[RowWords]) -> Self {
        let history = set.delta().unwrap().history();
        assert!(history.iter().map(|batch| batch.seq).eq(1..=history.len() as u64), "the order has holes");
        Replay { history: history.into_iter(), seq: 0, tables: before.to_vec(), layouts: layouts() }
    }

    /// The state after the first `seq` commits; earlier states are not available afterwards.
    fn at(&mut self, seq: u64) -> Vec<Rows> {
        assert!(self.seq <= seq);
        while self.seq < seq {
            let batch = self.history.next().expect("a snapshot shows no more than was published");
            self.seq = batch.seq;
            for (table, row, image) in batch.changes() {
                let rows = &mut self.tables[table as usize];
                let Some(image) = image else {
                    rows.remove(&row);
                    continue;
                };
                let layout = &self.layouts[table as usize].0;
                if image.columns == ColumnSet::ALL {
                    rows.insert(row, image.words.to_vec());
                } else {
                    let words = rows.get_mut(&row).expect("what was written of it is not all of a row");
                    apply_image(layout, image.columns, image.words, words);
                }
            }
        }
        let mut tables: Vec<Rows> =
            self.tables.iter().zip(&self.layouts).map(|(rows, kind)| shown(rows, kind)).collect();
        tables[PLACE] = vec![vec!["7".to_owned()], vec!["8".to_owned()]];
        tables
    }
}

fn transfer(connection: &mut Connection, table: u32, from: i64, to: i64, amount: i64) -> Result<(), TransactionError> {
    for (id, amount) in [(from, -amount), (to, amount)] {
        if let Some(row) = connection.find(table, &[Value::Int(id)], Purpose::Write)? {
            let balance = connection.int(table, row, BALANCE);
            connection.set(table, row, BALANCE, Value::Int(balance + amount))?;
        }
    }
    Ok(())
}

fn number(set: &TableSet, table: usize) -> u32 {
    set.rows(table).unwrap().number
}

fn commit(engine: &Arc<Engine>, work: impl FnMut(&mut Connection) -> Result<(), TransactionError>) {
    engine.connect().transact(Priority::LOW, work).unwrap();
}
