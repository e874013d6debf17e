//! Filling tables: rows by COPY, then indexes, then statistics.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow::record_batch::RecordBatch;
use bytes::BytesMut;
use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::schema::{Schema, Table, TableId};

use super::schema_sql::{self, quoted_table};
use crate::binary_copy::Encoder;
use crate::failure::database_error;
use crate::session::Warnings;

const PIECE_BYTES: usize = 128 << 10;

/// The most tables that are completed at the same time: each takes `maintenance_work_mem` on the server.
const TABLES_AT_ONCE_MAX: usize = 4;

/// Adds the rows of a batch to a table, all or none.
pub(super) fn load(
    connection: &mut Connection,
    schema: &Schema,
    table: TableId,
    batch: &RecordBatch,
) -> Result<(), DatabaseError> {
    let table = &schema.tables[table];
    let failed = |why: String| DatabaseError::Failed(format!("loading {}: {why}", table.name));
    let told = |error: WireError| match error {
        WireError::Lost(why) => DatabaseError::ConnectionLost(why),
        other => failed(other.to_string()),
    };
    let encoder = Encoder::new(batch).map_err(failed)?;
    let mut copy = connection.copy_in(&schema_sql::copy(schema, table)).map_err(told)?;
    let mut piece = BytesMut::with_capacity(PIECE_BYTES + (PIECE_BYTES >> 3));
    for row in 0..batch.num_rows() {
        encoder.write(row, &mut piece).map_err(failed)?;
        if piece.len() >= PIECE_BYTES {
            copy.write(&piece).map_err(told)?;
            piece.clear();
        }
    }
    if !piece.is_empty() {
        copy.write(&piece).map_err(told)?;
    }
    copy.finish().map_err(told)
}

/// Completes every table, several at once, and requests a checkpoint, if we may.
pub(super) fn finish(
    schema: &Schema,
    connect: &(dyn Fn() -> Result<Connection, WireError> + Sync),
    warnings: &Warnings,
) -> Result<(), DatabaseError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = cores.min(TABLES_AT_ONCE_MAX).min(schema.tables.len());
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), DatabaseError> {
        let mut connection = connect().map_err(database_error)?;
        // Relaxed: nothing else depends on this counter.
        while let Some(table) = schema.tables.get(next.fetch_add(1, Ordering::Relaxed)) {
            complete(&mut connection, schema, table)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(|thread| thread.join().expect("completing tables does not panic"));
        ends.collect::<Vec<_>>().into_iter().collect::<Result<(), _>>()
    })?;
    match connect().map_err(database_error)?.run("CHECKPOINT") {
        Err(error) if error.server().is_some_and(|error| error.code == "42501") => {
            warnings.tell(
                "the server was not made to write what was loaded to its files, so that it does so while it is measured; \
                 GRANT pg_checkpoint (PostgreSQL 15) or use a superuser"
                    .to_owned(),
            );
            Ok(())
        }
        done => Ok(done.map_err(database_error)?),
    }
}

/// Creates indexes, then statistics, with every row marked as visible to all, as in data loaded long ago.
fn complete(connection: &mut Connection, schema: &Schema, table: &Table) -> Result<(), DatabaseError> {
    let on = quoted_table(schema, table);
    let vacuum = format!("VACUUM (FREEZE, ANALYZE) {on}");
    for sql in schema_sql::indexes(schema, table).iter().chain([&vacuum]) {
        connection.run(sql).map_err(|error| match error {
            WireError::Lost(why) => DatabaseError::ConnectionLost(why),
            other => DatabaseError::Failed(format!("{sql}: {other}")),
        })?;
    }
    Ok(())
}
