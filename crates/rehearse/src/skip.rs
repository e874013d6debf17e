//! Why a unit of a capture is not sent again.

use std::fmt;

/// The reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Its messages are cut or make no sense.
    Malformed,
    /// It calls a function by the protocol's old way.
    FunctionCall,
    /// LISTEN, UNLISTEN or NOTIFY.
    Notification,
    /// A part of a two-phase commit.
    TwoPhase,
    /// It had a password, which is not recorded.
    Secret,
    /// It changes the server rather than a database: roles, databases, settings, other sessions.
    Administration,
    /// COPY from or to a file or program of the server.
    ServerFile,
    /// COPY FROM STDIN whose data was not kept.
    CopyData,
    /// It runs a statement that was prepared before the capture began.
    UnknownStatement,
    /// Its transaction began before the part of the capture that is replayed.
    CutTransaction,
    /// Its session streams the server's log.
    Replication,
    /// Its session uses another database.
    OtherDatabase,
    /// The target cannot prepare its statement.
    CannotRun,
    /// It uses a value that was made by a unit that is skipped.
    ValueOfSkipped,
    /// It uses a value that did not come: the unit that makes it failed, or took too long.
    ValueMissing,
    /// An earlier unit of its transaction failed, which it had not in the recording.
    TransactionGivenUp,
    /// Its session could not be opened, or was lost.
    SessionLost,
    /// The replay ended before its turn.
    Ended,
}

impl Reason {
    /// The reason in words, after "12 units: ".
    pub fn words(self) -> &'static str {
        match self {
            Reason::Malformed => "their messages are cut or make no sense",
            Reason::FunctionCall => "they call functions by the protocol's FunctionCall",
            Reason::Notification => "LISTEN, UNLISTEN and NOTIFY are not replayed",
            Reason::TwoPhase => "two-phase commits are not replayed",
            Reason::Secret => "they had a password, which is not recorded",
            Reason::Administration => "they change the server itself: roles, databases, settings, other sessions",
            Reason::ServerFile => "they copy from or to a file or program of the server",
            Reason::CopyData => "the data of their COPY FROM STDIN was not kept",
            Reason::UnknownStatement => "their statements were prepared before the capture began",
            Reason::CutTransaction => "their transactions began before the part that is replayed",
            Reason::Replication => "their sessions stream the server's log",
            Reason::OtherDatabase => "their sessions use another database",
            Reason::CannotRun => "the target cannot prepare their statements",
            Reason::ValueOfSkipped => "they use values that were made by skipped units",
            Reason::ValueMissing => "the values that they use did not come",
            Reason::TransactionGivenUp => "an earlier unit of their transaction failed",
            Reason::SessionLost => "their sessions could not be opened, or were lost",
            Reason::Ended => "the replay ended before their turn",
        }
    }

    /// The reason as a key of JSON.
    pub fn key(self) -> &'static str {
        match self {
            Reason::Malformed => "malformed",
            Reason::FunctionCall => "function_call",
            Reason::Notification => "notification",
            Reason::TwoPhase => "two_phase",
            Reason::Secret => "secret",
            Reason::Administration => "administration",
            Reason::ServerFile => "server_file",
            Reason::CopyData => "copy_data",
            Reason::UnknownStatement => "unknown_statement",
            Reason::CutTransaction => "cut_transaction",
            Reason::Replication => "replication",
            Reason::OtherDatabase => "other_database",
            Reason::CannotRun => "cannot_run",
            Reason::ValueOfSkipped => "value_of_skipped",
            Reason::ValueMissing => "value_missing",
            Reason::TransactionGivenUp => "transaction_given_up",
            Reason::SessionLost => "session_lost",
            Reason::Ended => "ended",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.words())
    }
}
