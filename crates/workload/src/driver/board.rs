//! The current activity of each client, which other threads can read while it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_policy::Priority;

/// The clients of one workload, each with an entry for its current activity. Clones show the same clients.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<[ClientEntry]>);

/// A client's entry, written by that client only.
///
/// It has its own cache line and its own pair of lines that is fetched at once, so that only its readers slow its
/// writer down. Relaxed: each word is complete, and no other data depend on it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ClientEntry {
    /// Requests completed since the client began. A count.
    completed: AtomicU64,
    /// The request under way, as [`RunningRequest::word`]; 0 while there is none.
    under_way: AtomicU64,
}

/// A request that a client is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningRequest {
    /// Position in the benchmark's list of transactions.
    pub transaction: u16,
    /// Its priority.
    pub priority: Priority,
    /// Counts the client's requests, so that two samples show whether it is still the same request; wraps around.
    pub number: u32,
}

impl RunningRequest {
    /// In one word that is never 0: the request's number, 8 bits of priority, and the transaction's position from 1.
    fn word(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.priority.level()) << 24 | (u64::from(self.transaction) + 1)
    }

    fn from_word(word: u64) -> Option<RunningRequest> {
        let transaction = u16::try_from((word & 0xff_ffff).checked_sub(1)?).ok()?;
        let priority = Priority::of_level((word >> 24) as u8).unwrap_or(Priority::PROMOTED);
        Some(RunningRequest { transaction, priority, number: (word >> 32) as u32 })
    }
}

impl Board {
    /// A board for `clients` clients, none of which has a request.
    pub fn new(clients: usize) -> Self {
        Board((0..clients).map(|_| ClientEntry::default()).collect())
    }

    /// The request that a client has under way; `None` while it thinks, or if there is no such client.
    pub fn under_way(&self, client: usize) -> Option<RunningRequest> {
        RunningRequest::from_word(self.0.get(client)?.under_way.load(Ordering::Relaxed))
    }

    /// Records that a client begins a request. Called by the client itself.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn begin(&self, client: usize, request: RunningRequest) {
        self.0[client].under_way.store(request.word(), Ordering::Relaxed);
    }

    /// Records that a client's request has ended. Called by the client itself.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn end(&self, client: usize) {
        self.0[client].under_way.store(0, Ordering::Relaxed);
    }

    /// Counts a completed request. Called by the client itself, so that no other write can come between its read and
    /// its write.
    pub(super) fn complete(&self, client: usize) {
        let count = &self.0[client].completed;
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Requests that all clients have completed so far. A count.
    pub(super) fn completed(&self) -> u64 {
        self.0.iter().map(|place| place.completed.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let board = Board::new(2);
        assert_eq!((board.under_way(0), board.under_way(1), board.under_way(2)), (None, None, None));
        for transaction in [0, 7, u16::MAX] {
            for priority in [Priority::LOW, Priority::HIGH, Priority::PROMOTED] {
                for number in [0, 1, u32::MAX] {
                    let request = RunningRequest { transaction, priority, number };
                    board.begin(1, request);
                    assert_eq!((board.under_way(0), board.under_way(1)), (None, Some(request)));
                }
            }
        }
        board.clone().end(1);
        assert_eq!(board.under_way(1), None, "clones show the same clients");
    }
}
