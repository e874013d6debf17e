//! What processes that answer queries together receive from each other.

use std::ops::Add;

use serde::{Deserialize, Serialize};

/// Rows that the processes which answer queries have received from each other, in bytes as they were sent: compressed,
/// without the headers of the network's protocols.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkBytes {
    /// Rows that each went to the process to which its key belongs.
    pub shuffle: u64,
    /// Rows of a join's smaller side, which went to every process.
    pub broadcast: u64,
    /// Rows of several processes that went to one, at last to the coordinator.
    pub gather: u64,
}

impl NetworkBytes {
    /// For any reason.
    pub fn all(&self) -> u64 {
        self.shuffle + self.broadcast + self.gather
    }

    /// What was received between two readings of growing amounts.
    pub(crate) fn since(self, before: NetworkBytes) -> NetworkBytes {
        NetworkBytes {
            shuffle: self.shuffle.saturating_sub(before.shuffle),
            broadcast: self.broadcast.saturating_sub(before.broadcast),
            gather: self.gather.saturating_sub(before.gather),
        }
    }
}

impl Add for NetworkBytes {
    type Output = NetworkBytes;

    fn add(self, other: NetworkBytes) -> NetworkBytes {
        NetworkBytes {
            shuffle: self.shuffle + other.shuffle,
            broadcast: self.broadcast + other.broadcast,
            gather: self.gather + other.gather,
        }
    }
}
