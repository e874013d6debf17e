//! Where a partition of a scan gets its chunks from: memory, at once, or the disk, read ahead by other threads.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use futures::Future;
use tokio::task::JoinHandle;

use crate::columns::ColumnTable;
use crate::columns::table::LoadedColumns;
use crate::query::scan::stream::filters::Filters;
use crate::query::usage::UsageMeter;

/// Chunks that are being read while one is worked on: the second keeps the disk busy when the first has just arrived.
const READ_AHEAD: usize = 2;

/// The chunks of one partition.
pub struct Supply {
    table: Arc<ColumnTable>,
    /// The columns that are read.
    columns: Arc<[usize]>,
    queue: ChunkQueue,
    /// Chunks on their way from the disk, the next one first.
    reading: VecDeque<Reading>,
    meter: Option<Arc<UsageMeter>>,
}

/// Where a partition gets its next chunk's number from.
pub enum ChunkQueue {
    /// All partitions take the next one.
    Shared(Arc<AtomicUsize>),
    /// Each has every n-th.
    Strided {
        /// The next one.
        next: usize,
        /// How many partitions there are.
        step: usize,
    },
}

struct Reading {
    chunk: usize,
    columns: JoinHandle<Result<LoadedColumns, ArrowError>>,
}

/// A chunk to be worked on.
pub struct Supplied {
    /// How many rows it has.
    pub rows: usize,
    /// Its columns.
    pub columns: Arc<LoadedColumns>,
}

impl ChunkQueue {
    fn next(&mut self) -> usize {
        match self {
            // Relaxed: the number is all that is exchanged; the chunks themselves never change.
            ChunkQueue::Shared(next) => next.fetch_add(1, Ordering::Relaxed),
            ChunkQueue::Strided { next, step } => {
                *next += *step;
                *next - *step
            }
        }
    }
}

impl Supply {
    /// Takes chunks from a queue and loads these columns of them.
    pub fn new(
        table: Arc<ColumnTable>,
        columns: impl IntoIterator<Item = usize>,
        queue: ChunkQueue,
        meter: Option<Arc<UsageMeter>>,
    ) -> Self {
        Supply { table, columns: columns.into_iter().collect(), queue, reading: VecDeque::new(), meter }
    }

    /// The next chunk that can hold rows satisfying the conditions; `None` after the last.
    pub fn poll_next(&mut self, context: &mut Context<'_>, filters: &mut Filters) -> Poll<Result<Option<Supplied>>> {
        loop {
            let (chunk, columns) = if self.table.file().is_none() {
                let Some(chunk) = self.next_possible(filters)? else { return Poll::Ready(Ok(None)) };
                (chunk, self.table.load(chunk, &self.columns)?)
            } else {
                self.read_ahead(filters)?;
                let Some(first) = self.reading.front_mut() else { return Poll::Ready(Ok(None)) };
                let columns = ready!(Pin::new(&mut first.columns).poll(context));
                let chunk = first.chunk;
                self.reading.pop_front();
                filters.refresh()?;
                (chunk, columns.map_err(|error| DataFusionError::External(error.into()))??)
            };
            // Another operator may have learnt meanwhile that the chunk was read for nothing.
            if filters.may_match(chunk) {
                let rows = self.table.chunks()[chunk].rows();
                return Poll::Ready(Ok(Some(Supplied { rows, columns: Arc::new(columns) })));
            }
        }
    }

    /// The next chunk that can hold such rows by its statistics.
    fn next_possible(&mut self, filters: &mut Filters) -> Result<Option<usize>> {
        loop {
            filters.refresh()?;
            let chunk = self.queue.next();
            if chunk >= self.table.chunks().len() {
                return Ok(None);
            }
            if filters.may_match(chunk) {
                return Ok(Some(chunk));
            }
        }
    }

    fn read_ahead(&mut self, filters: &mut Filters) -> Result<()> {
        while self.reading.len() < READ_AHEAD {
            let Some(chunk) = self.next_possible(filters)? else { return Ok(()) };
            let (table, columns, meter) = (Arc::clone(&self.table), Arc::clone(&self.columns), self.meter.clone());
            // Threads for waiting on the disk: the workers go on computing.
            let columns = tokio::task::spawn_blocking(move || {
                let loaded = table.load(chunk, &columns)?;
                if let Some(meter) = meter {
                    meter.read_columns(loaded.bytes_read());
                }
                Ok(loaded)
            });
            self.reading.push_back(Reading { chunk, columns });
        }
        Ok(())
    }
}
