//! Supplies the chunks of a scan's partition: from memory at once, or from the disk, read ahead by other threads. The
//! changes of a chunk follow it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arrow::buffer::BooleanBuffer;
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use futures::Future;
use futures::future::{Either, Ready, ready};
use tokio::task::{JoinError, JoinHandle};

use crate::columns::chunk::LoadedColumns;
use crate::columns::{ColumnTable, SnapshotTable};
use crate::query::scan::stream::filters::Filters;
use crate::query::scan::stream::merge::{ChunkMerge, Merge};
use crate::query::usage::UsageMeter;

/// Chunks that are being read while one is worked on: the second keeps the disk busy when the first has just arrived.
const READ_AHEAD: usize = 2;

pub struct Supply {
    table: Arc<ColumnTable>,
    columns: Arc<[usize]>,
    queue: ChunkQueue,
    chunk_count: usize,
    /// Chunks on their way from the disk, the next one first.
    reading: VecDeque<Reading>,
    meter: Option<Arc<UsageMeter>>,
    /// `None` if the chunks have no changes.
    merge: Option<Merge>,
    /// The changes of the last chunk supplied, if they have images.
    images: Option<Arc<ChunkMerge>>,
}

/// Where a partition gets its next chunk's number from.
pub enum ChunkQueue {
    /// All partitions take the next one.
    Shared(Arc<AtomicUsize>),
    /// Each has every n-th.
    Strided {
        /// The next one.
        next: usize,
        step: usize,
    },
}

struct Reading {
    chunk: usize,
    /// `None` if only the chunk's changes can match.
    columns: Option<ComingColumns>,
    changes: Option<Arc<ChunkMerge>>,
}

/// Columns that were found in memory, or are on their way from the disk.
type ComingColumns = Either<Ready<Result<Loading, JoinError>>, JoinHandle<Loading>>;
type Loading = Result<LoadedColumns, ArrowError>;

struct Next {
    chunk: usize,
    /// Whether the chunk itself, with new values in their places, can match.
    may_match: bool,
    changes: Option<Arc<ChunkMerge>>,
}

/// Rows to be worked on.
pub struct Supplied {
    pub rows: usize,
    pub columns: Arc<LoadedColumns>,
    /// Which of them to show; `None` for all.
    pub visible: Option<BooleanBuffer>,
    /// Whether these are images that are laid over a chunk.
    pub are_images: bool,
    /// The changes of the chunk to which these rows or images belong.
    pub changes: Option<Arc<ChunkMerge>>,
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
    /// Takes chunks of a table from a queue, loads these columns of them, and merges their changes.
    pub fn new(
        version: &SnapshotTable,
        columns: impl IntoIterator<Item = usize>,
        queue: ChunkQueue,
        meter: Option<Arc<UsageMeter>>,
        merge: Option<Merge>,
    ) -> Self {
        Supply {
            table: Arc::clone(version.columns()),
            columns: columns.into_iter().collect(),
            queue,
            chunk_count: version.chunk_count(),
            reading: VecDeque::new(),
            meter,
            merge,
            images: None,
        }
    }

    /// The cost of merging changes, if there are any.
    pub fn merge(&self) -> Option<&Merge> {
        self.merge.as_ref()
    }

    /// The next rows that may satisfy the conditions: those of a chunk, or images. `None` after the last.
    pub fn poll_next(&mut self, context: &mut Context<'_>, filters: &mut Filters) -> Poll<Result<Option<Supplied>>> {
        loop {
            if let Some(images) = self.images.take() {
                return Poll::Ready(Ok(Some(Supplied::images(images))));
            }
            let (chunk, columns, changes) = if self.table.file().is_none() {
                let Some(next) = self.next_possible(filters)? else { return Poll::Ready(Ok(None)) };
                let columns = next.may_match.then(|| self.table.load(next.chunk, &self.columns)).transpose()?;
                (next.chunk, columns, next.changes)
            } else {
                self.read_ahead(filters)?;
                let Some(first) = self.reading.front_mut() else { return Poll::Ready(Ok(None)) };
                let columns = match &mut first.columns {
                    Some(columns) => Some(std::task::ready!(Pin::new(columns).poll(context))),
                    None => None,
                };
                let read = self.reading.pop_front().expect("it was looked at");
                filters.refresh()?;
                let columns = columns.transpose().map_err(|error| DataFusionError::External(error.into()))?;
                (read.chunk, columns.transpose()?, read.changes)
            };
            // Conditions from other operators may now rule out the chunk that was read.
            let columns = columns.filter(|_| may_match(filters, chunk, changes.as_ref()));
            let base = columns.map(|columns| self.base(chunk, columns, changes.clone(), filters));
            self.images = changes.filter(|changes| changes.overlay.images.rows > 0);
            if base.is_some() {
                return Poll::Ready(Ok(base));
            }
        }
    }

    /// The chunk's own rows. If its statistics rule out all others, only those with new values that conditions test.
    fn base(
        &self,
        number: usize,
        columns: LoadedColumns,
        changes: Option<Arc<ChunkMerge>>,
        filters: &Filters,
    ) -> Supplied {
        let chunk = &self.table.chunks()[number];
        let visible = match (&changes, &self.merge) {
            (Some(changes), _) if !filters.may_match(number) => {
                Some(changes.overlay.rewritten(chunk.rows(), |column| filters.tests(column)))
            }
            (Some(changes), Some(merge)) => merge.visible(chunk, changes),
            _ => chunk.live().cloned(),
        };
        Supplied { rows: chunk.rows(), columns: Arc::new(columns), visible, are_images: false, changes }
    }

    /// The next chunk that can hold such rows by its statistics, or has changes, which its statistics say nothing about.
    fn next_possible(&mut self, filters: &mut Filters) -> Result<Option<Next>> {
        loop {
            filters.refresh()?;
            let chunk = self.queue.next();
            if chunk >= self.chunk_count {
                return Ok(None);
            }
            let changes = self.merge.as_ref().map(|merge| merge.chunk(chunk, &self.columns)).transpose()?.flatten();
            let changes = changes.map(Arc::new);
            let may_match = may_match(filters, chunk, changes.as_ref());
            if may_match || changes.is_some() {
                return Ok(Some(Next { chunk, may_match, changes }));
            }
        }
    }

    fn read_ahead(&mut self, filters: &mut Filters) -> Result<()> {
        while self.reading.len() < READ_AHEAD {
            let Some(Next { chunk, may_match, changes }) = self.next_possible(filters)? else { return Ok(()) };
            let columns = may_match.then(|| self.begin_loading(chunk));
            self.reading.push_back(Reading { chunk, columns, changes });
        }
        Ok(())
    }

    fn begin_loading(&self, chunk: usize) -> ComingColumns {
        if let Some(found) = self.table.find(chunk, &self.columns) {
            return Either::Left(ready(Ok(Ok(found))));
        }
        let (table, columns, meter) = (Arc::clone(&self.table), Arc::clone(&self.columns), self.meter.clone());
        // Separate threads wait for the disk, so that the workers continue to compute.
        Either::Right(tokio::task::spawn_blocking(move || {
            let loaded = table.load(chunk, &columns)?;
            if let Some(meter) = meter {
                meter.add(|usage| usage.column_bytes_read += loaded.bytes_read() as u64);
            }
            Ok(loaded)
        }))
    }
}

impl Supplied {
    fn images(changes: Arc<ChunkMerge>) -> Self {
        let images = &changes.overlay.images;
        let (rows, columns) = (images.rows, Arc::new(LoadedColumns::of_images(images)));
        Supplied { rows, columns, visible: None, are_images: true, changes: Some(changes) }
    }
}

/// Whether a chunk can hold rows that satisfy the conditions. Its statistics say nothing about new values of its rows.
fn may_match(filters: &Filters, chunk: usize, changes: Option<&Arc<ChunkMerge>>) -> bool {
    let patches = changes.iter().flat_map(|changes| &changes.overlay.patches);
    filters.may_match(chunk) || patches.map(|patch| patch.column).any(|column| filters.tests(column))
}
