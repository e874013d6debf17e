//! Makes the data and loads it.
//!
//! Parts of a table are made on several threads and loaded by the calling thread in order of key: a column copy then
//! has chunks with narrow ranges of keys, and equal scales give equal tables, independently of the threads' timing.

use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use super::tables::{CUSTOMER, LINEITEM, NATION, ORDERS, PART, PARTSUPP, REGION, SCHEMA, SUPPLIER};
use crate::benchmark::{LoadError, LoadProgress};
use crate::database::{Database, DatabaseError};
use crate::schema::TableId;

/// Rows in a batch; also the batch size of DataFusion's operators.
const BATCH_ROWS: usize = 8192;

/// Orders, or rows of another table, in a part. A part of `lineitem` is then some 12 MB. Each thread holds at most
/// three parts: one being made, one made, one being loaded.
const PART_ROWS: i64 = 16 * 1024;

/// More threads than this would only wait for the one that loads.
const THREADS_MAX: usize = 16;

type Batches = Result<Vec<RecordBatch>, ArrowError>;

/// How many rows each table has at a scale, by its position in the schema.
///
/// All are exact. The number of lines of an order is drawn, so they are drawn here as the generator draws them.
pub fn row_counts(scale: f64) -> Vec<u64> {
    (0..SCHEMA.tables.len()).map(|table| row_count(table, scale)).collect()
}

fn row_count(table: TableId, scale: f64) -> u64 {
    let rows = match table {
        REGION => 5,
        NATION => 25,
        LINEITEM => line_count(unit_count(ORDERS, scale)),
        PARTSUPP => 4 * unit_count(PART, scale),
        _ => unit_count(table, scale),
    };
    rows as u64
}

/// The total number of lines of the first `orders` orders.
fn line_count(orders: i64) -> i64 {
    let mut lines = OrderGenerator::create_line_count_random();
    let draw = |_| {
        let count = lines.next_value();
        lines.row_finished();
        i64::from(count)
    };
    (0..orders).map(draw).sum()
}

/// The number of units that the generator divides into parts: orders for `lineitem`, parts for `partsupp`, else rows.
fn unit_count(table: TableId, scale: f64) -> i64 {
    match table {
        SUPPLIER => SupplierGenerator::calculate_row_count(scale, 1, 1),
        CUSTOMER => CustomerGenerator::calculate_row_count(scale, 1, 1),
        PART | PARTSUPP => PartGenerator::calculate_row_count(scale, 1, 1),
        ORDERS | LINEITEM => OrderGenerator::calculate_row_count(scale, 1, 1),
        _ => 1,
    }
}

/// The batches of one part of a table; parts are numbered from 1.
pub fn batches(table: TableId, scale: f64, part: i32, part_count: i32) -> Batches {
    macro_rules! collect {
        ($arrow:ident, $generator:ident) => {
            $arrow::new($generator::new(scale, part, part_count)).with_batch_size(BATCH_ROWS).collect()
        };
    }
    match table {
        REGION => collect!(RegionArrow, RegionGenerator),
        NATION => collect!(NationArrow, NationGenerator),
        SUPPLIER => collect!(SupplierArrow, SupplierGenerator),
        CUSTOMER => collect!(CustomerArrow, CustomerGenerator),
        PART => collect!(PartArrow, PartGenerator),
        PARTSUPP => collect!(PartSuppArrow, PartSuppGenerator),
        ORDERS => collect!(OrderArrow, OrderGenerator),
        LINEITEM => collect!(LineItemArrow, LineItemGenerator),
        _ => unreachable!("the schema has eight tables"),
    }
}

/// Creates the tables and fills them.
pub fn load(scale: f64, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
    let expected = row_counts(scale).iter().sum();
    progress.step(0, expected, SCHEMA.tables[0].name)?;
    database.create(&SCHEMA)?;
    let mut loaded = 0;
    for table in 0..SCHEMA.tables.len() {
        each_batch(table, scale, &mut |batch| {
            let rows = batch.num_rows() as u64;
            database.load(&SCHEMA, table, batch)?;
            loaded += rows;
            progress.step(loaded, expected, SCHEMA.tables[table].name)
        })?;
    }
    database.finish_load(&SCHEMA)?;
    Ok(())
}

type Load<'a> = dyn FnMut(RecordBatch) -> Result<(), LoadError> + 'a;

/// Makes one table's parts on several threads and hands their batches to `load` in order.
pub(crate) fn each_batch(table: TableId, scale: f64, load: &mut Load<'_>) -> Result<(), LoadError> {
    let part_count = (unit_count(table, scale) / PART_ROWS + 1) as i32;
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX).min(part_count as usize);
    thread::scope(|scope| {
        // Thread i makes parts i + 1, i + 1 + threads, and so on, and sends them in that order.
        let makers = (0..threads).map(|maker| {
            let (sender, receiver) = sync_channel(1);
            let parts = (maker as i32 + 1..=part_count).step_by(threads);
            scope.spawn(move || make_parts(parts, &sender, |part| batches(table, scale, part, part_count)));
            receiver
        });
        let makers: Vec<Receiver<Batches>> = makers.collect();
        // Any early end of this loop drops the receivers, which ends every thread.
        for maker in (0..part_count as usize).map(|part| &makers[part % threads]) {
            let made = maker.recv().map_err(|_| failed(table, "a thread that makes data has panicked"))?;
            made.map_err(|error| failed(table, error))?.into_iter().try_for_each(&mut *load)?;
        }
        Ok(())
    })
}

fn make_parts(parts: impl Iterator<Item = i32>, sender: &SyncSender<Batches>, make: impl Fn(i32) -> Batches) {
    for part in parts {
        if sender.send(make(part)).is_err() {
            return;
        }
    }
}

fn failed(table: TableId, why: impl std::fmt::Display) -> LoadError {
    DatabaseError::Failed(format!("cannot make table {}: {why}", SCHEMA.tables[table].name)).into()
}
