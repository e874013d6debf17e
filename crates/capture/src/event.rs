//! What a capture holds: sessions, the units that their clients sent, and a summary of each answer.

use serde::{Deserialize, Serialize};

/// The number of a session in a capture. It is never used for a second session.
pub type SessionId = u64;

/// One entry of a capture. Events of one session are in the order in which they happened; events of different sessions
/// are ordered by when they were recorded, which is when they ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A client has logged in.
    Opened(Opened),
    /// A client has sent a unit, and the server has answered it.
    Unit(Unit),
    /// A client has left, or the server has closed the connection.
    Closed(Closed),
    /// Units are missing here.
    Lost(Lost),
}

/// A session as it begins. A password is never part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Its number.
    pub session: SessionId,
    /// When, in microseconds since the capture began.
    pub at_us: u64,
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Further parameters of the startup message, such as `application_name` and `options`, in the client's order.
    pub parameters: Vec<(String, String)>,
}

/// A client's messages up to a `Sync`, `Query` or `FunctionCall`, and the answer to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The session that it belongs to.
    pub session: SessionId,
    /// When its first message reached us, in microseconds since the capture began.
    pub at_us: u64,
    /// Microseconds from then until the answer was complete.
    pub took_us: u64,
    /// The client's messages as they were sent: a byte for the kind, the length, the body. With redacted values, a value
    /// is replaced by its hash in the same type.
    pub request: Vec<u8>,
    /// What the server answered.
    pub answer: Answer,
}

/// The answer to a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The state of the transaction afterwards, as `ReadyForQuery` has it: `I`, `T` or `E`; 0 if the connection ended
    /// before.
    pub state: u8,
    /// The tags of the commands that completed, such as `UPDATE 3`, in order.
    pub tags: Vec<String>,
    /// The SQLSTATE of the first error.
    pub error: Option<String>,
    /// All rows that were returned.
    pub rows: u64,
    /// All bytes of the answer.
    pub bytes: u64,
    /// The wrapping sum of the [checksums](crate::RowChecksum) of the bodies of all `DataRow` messages: it does not depend on the
    /// order of rows.
    pub checksum: u64,
    /// The first `RowDescription`, `ParameterDescription` and `DataRow` messages, up to [`ANSWER_BEGIN_MAX`] bytes in
    /// whole messages, so that a later use of a returned value, such as an identity, can be recognised.
    pub begin: Vec<u8>,
}

/// As much of an answer as is kept.
pub const ANSWER_BEGIN_MAX: usize = 1024;

/// A session as it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The session.
    pub session: SessionId,
    /// When, in microseconds since the capture began.
    pub at_us: u64,
}

/// A place where units are missing: traffic goes on where they could not be written soon enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// When the first was lost, in microseconds since the capture began.
    pub at_us: u64,
    /// How many were.
    pub units: u64,
    /// Why.
    pub why: WhyLost,
}

impl Event {
    /// When it happened, or the first of the units that were lost, in microseconds since the capture began.
    pub fn at_us(&self) -> u64 {
        match self {
            Event::Opened(opened) => opened.at_us,
            Event::Unit(unit) => unit.at_us,
            Event::Closed(closed) => closed.at_us,
            Event::Lost(lost) => lost.at_us,
        }
    }
}

/// Why units are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WhyLost {
    /// They arrived faster than they could be compressed and written.
    TooFast,
    /// The disk was full, or could not be written.
    Disk,
    /// The capture had reached the size that was allowed.
    Size,
    /// The unit was too large to be kept, such as a long COPY.
    TooLarge,
}

impl WhyLost {
    /// Every reason, in the order of their codes in a segment.
    pub const ALL: [WhyLost; 4] = [WhyLost::TooFast, WhyLost::Disk, WhyLost::Size, WhyLost::TooLarge];

    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            WhyLost::TooFast => "arrived faster than they could be written",
            WhyLost::Disk => "could not be written to the disk",
            WhyLost::Size => "came after the capture had reached its size",
            WhyLost::TooLarge => "were too large to be kept",
        }
    }
}
