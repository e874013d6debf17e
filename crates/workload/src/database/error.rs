//! Why a statement or a transaction did not succeed.

/// The words of [`DatabaseError::Preempted`].
pub(crate) const PREEMPTED: &str = "preempted by a more important transaction";

/// Why a statement or transaction did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// Chosen as the victim of a deadlock: run the transaction again.
    #[error("deadlock detected")]
    Deadlock,
    /// Rolled back for the sake of a more important transaction: run it again.
    #[error("{PREEMPTED}")]
    Preempted,
    /// Another transaction changed what this one has read: run it again. The text is the server's.
    #[error("{0}")]
    Conflict(String),
    /// The server cannot be reached, or accepts no connections now. The text says which one.
    #[error("{0}")]
    Unreachable(String),
    /// The connection to the server is gone: it was shut down, it crashed, or this session was terminated.
    #[error("the connection was lost: {0}")]
    ConnectionLost(String),
    /// A row with that key exists already.
    #[error("duplicate key in {table}")]
    Duplicate {
        /// The table.
        table: String,
    },
    /// The database cannot do this at all.
    #[error("{0}")]
    Unsupported(String),
    /// A server refused a statement.
    #[error("{}", .0.told)]
    Refused(Box<Refusal>),
    /// Anything else, in the database's own words.
    #[error("{0}")]
    Failed(String),
}

/// A server's reason for refusing a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Everything that is known: which statement it was, where the mistake is, with which parameters.
    pub told: String,
    /// The server's words only, without the place, which is one in the text that it got.
    pub words: String,
    /// The SQLSTATE, if it gave one.
    pub code: Option<String>,
    /// The place of the mistake in the text that the server got, in characters from 1; `None` if it named none.
    pub position: Option<usize>,
}

impl From<Refusal> for DatabaseError {
    fn from(refusal: Refusal) -> Self {
        DatabaseError::Refused(Box::new(refusal))
    }
}

impl DatabaseError {
    /// Whether the server is out of reach: it cannot be connected to, or a connection was lost.
    pub fn is_server_lost(&self) -> bool {
        matches!(self, DatabaseError::Unreachable(_) | DatabaseError::ConnectionLost(_))
    }

    /// The SQLSTATE, where the kind of error has one or the server gave one.
    pub fn code(&self) -> Option<&str> {
        match self {
            DatabaseError::Deadlock => Some("40P01"),
            DatabaseError::Conflict(_) => Some("40001"),
            DatabaseError::Duplicate { .. } => Some("23505"),
            DatabaseError::Refused(refusal) => refusal.code.as_deref(),
            _ => None,
        }
    }

    /// What went wrong, without the code, and without the statement and its parameters where these are known apart.
    pub fn words(&self) -> String {
        let DatabaseError::Refused(refusal) = self else { return self.to_string() };
        let after_code = refusal.code.as_deref().and_then(|code| refusal.words.split_once(code));
        after_code.map_or(refusal.words.as_str(), |(_, words)| words.trim_start_matches([':', ' '])).to_owned()
    }

    /// Whether the same transaction may succeed when it is run again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, DatabaseError::Deadlock | DatabaseError::Preempted | DatabaseError::Conflict(_))
    }
}
