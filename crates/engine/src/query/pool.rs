//! The memory pool of a query: which operators its grant binds, and by how much.

use std::fmt;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// How the consumers of an exchange between partitions are named.
const EXCHANGE: &str = "RepartitionExec[";

/// Equal parts for the operators that can spill, except that batches held by an exchange are not counted.
///
/// An exchange holds batches that are on their way; its senders wait when every receiver has some, so there are few of
/// them. It can spill as well, but up to DataFusion 55.2 its receiver then waits forever if two senders spill at the
/// same time: it reads their files in the order of their beginning while its batch is in the second one
/// (<https://github.com/apache/datafusion/issues/24883>).
///
/// The part that an exchange would have had is left, as long as the query runs, to those that cannot spill. A sort that
/// merges spilled data needs memory that no other sort may take.
#[derive(Debug)]
pub struct GrantPool(FairSpillPool);

impl GrantPool {
    pub fn new(bytes: usize) -> Self {
        GrantPool(FairSpillPool::new(bytes))
    }
}

fn is_counted(consumer: &MemoryConsumer) -> bool {
    !(consumer.can_spill() && consumer.name().starts_with(EXCHANGE))
}

impl MemoryPool for GrantPool {
    fn name(&self) -> &str {
        "grant"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.0.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if is_counted(consumer) {
            self.0.unregister(consumer);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if is_counted(reservation.consumer()) {
            self.0.grow(reservation, additional);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if is_counted(reservation.consumer()) {
            self.0.shrink(reservation, shrink);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if is_counted(reservation.consumer()) { self.0.try_grow(reservation, additional) } else { Ok(()) }
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.0.memory_limit()
    }
}

impl fmt::Display for GrantPool {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}
