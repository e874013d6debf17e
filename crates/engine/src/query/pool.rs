//! The memory pool of a query: which operators are counted, how much they have at most, and how much they had.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};

use crate::query::usage::UsageMeter;

/// How the consumers of an exchange between partitions are named.
const EXCHANGE: &str = "RepartitionExec[";

/// Counts the memory of a query's operators, except that batches held by an exchange are not counted.
///
/// Under a grant, the operators that can spill have equal parts of it. An exchange holds batches that are on their way;
/// its senders wait when every receiver has some, so there are few of them. It can spill as well, but up to DataFusion
/// 55.2 its receiver then waits forever if two senders spill at the same time: it reads their files in the order of
/// their beginning while its batch is in the second one (<https://github.com/apache/datafusion/issues/24883>).
///
/// The part that an exchange would have had is left, as long as the query runs, to those that cannot spill. A sort that
/// merges spilled data needs memory that no other sort may take.
#[derive(Debug)]
pub struct QueryPool<P> {
    pool: P,
    kept: AtomicUsize,
    meter: Arc<UsageMeter>,
}

impl QueryPool<FairSpillPool> {
    /// A pool of that many bytes.
    pub fn granted(bytes: usize, meter: Arc<UsageMeter>) -> Self {
        QueryPool { pool: FairSpillPool::new(bytes), kept: AtomicUsize::new(0), meter }
    }
}

impl QueryPool<UnboundedMemoryPool> {
    /// A pool without a bound.
    pub fn unlimited(meter: Arc<UsageMeter>) -> Self {
        QueryPool { pool: UnboundedMemoryPool::default(), kept: AtomicUsize::new(0), meter }
    }
}

impl<P> QueryPool<P> {
    fn note_grown(&self, additional: usize) {
        let kept = (self.kept.fetch_add(additional, Ordering::Relaxed) + additional) as u64;
        self.meter.add(|usage| usage.peak_memory_bytes = usage.peak_memory_bytes.max(kept));
    }
}

fn is_counted(consumer: &MemoryConsumer) -> bool {
    !(consumer.can_spill() && consumer.name().starts_with(EXCHANGE))
}

impl<P: MemoryPool> MemoryPool for QueryPool<P> {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if is_counted(consumer) {
            self.pool.unregister(consumer);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if is_counted(reservation.consumer()) {
            self.pool.grow(reservation, additional);
            self.note_grown(additional);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if is_counted(reservation.consumer()) {
            self.pool.shrink(reservation, shrink);
            self.kept.fetch_sub(shrink, Ordering::Relaxed);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if is_counted(reservation.consumer()) {
            self.pool.try_grow(reservation, additional)?;
            self.note_grown(additional);
        }
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

impl<P: fmt::Display> fmt::Display for QueryPool<P> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(to)
    }
}
