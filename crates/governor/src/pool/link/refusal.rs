//! Answers a unit with an error in place of a connection.

use super::client::head;
use super::{IDLE, Link};

/// An error that answers a unit.
#[derive(Debug)]
pub(super) struct Refused {
    error: Vec<u8>,
    is_sent: bool,
}

impl Link {
    /// The session has waited in vain: its unit is answered with that error, a whole message.
    pub fn refuse(&mut self, error: Vec<u8>) {
        if self.connection.is_none() {
            self.refusal = Some(Refused { error, is_sent: false });
            self.pump(&mut |_| {});
        }
    }

    /// Drops the session's messages up to the end of the unit, which is answered; returns how many bytes were dropped.
    pub(super) fn drop_unit(&mut self, bytes: &[u8]) -> usize {
        let mut at = self.drop_rest(bytes);
        while let Some(refused) = &mut self.refusal {
            let Some((tag, length)) = head(&bytes[at..]) else { break };
            if !std::mem::replace(&mut refused.is_sent, true) {
                self.answers.extend_from_slice(&refused.error);
            }
            self.has_left |= tag == b'X';
            self.dropping = length;
            at += self.drop_rest(&bytes[at..]);
            if matches!(tag, b'Q' | b'F' | b'S') {
                self.answers.extend_from_slice(&ready(IDLE));
                self.refusal = None;
            }
        }
        at
    }

    /// Drops the rest of a message.
    pub(super) fn drop_rest(&mut self, bytes: &[u8]) -> usize {
        let dropped = self.dropping.min(bytes.len());
        self.dropping -= dropped;
        dropped
    }
}

/// A `ReadyForQuery`.
pub(super) fn ready(status: u8) -> [u8; 6] {
    [b'Z', 0, 0, 0, 5, status]
}
