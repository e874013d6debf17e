//! Messages that the server is still to answer.

use std::sync::Arc;

use super::super::statements::PreparedText;

/// A message that the server is still to answer, or that the link answers in its turn.
#[derive(Debug)]
pub(super) struct Expected {
    pub what: What,
    pub whose: Whose,
    pub then: Effect,
    /// The statement that the message names, as the client has named it: an error may have to name it.
    pub named: Option<Box<[u8]>>,
    /// An error has come.
    pub has_failed: bool,
    /// The session had sent rows of a copy before it.
    pub is_behind_rows: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The session sees the answer.
    Theirs,
    /// It does not.
    Ours,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Parse,
    Bind,
    Close,
    Describe,
    Execute,
    /// A `Query` or a `FunctionCall`: everything up to a `ReadyForQuery` answers it.
    Query,
    Sync,
    /// The end of copied data, which nothing answers.
    CopyEnd,
    /// Nothing was sent: the link answers `CloseComplete`.
    CloseHere,
}

/// What follows when the server has carried it out.
#[derive(Debug)]
pub(super) enum Effect {
    None,
    /// The client has a statement of that name.
    Prepares(Box<[u8]>, Arc<PreparedText>),
    /// The client's statement of that name is closed.
    Closes(Box<[u8]>),
    /// It is the unnamed statement.
    PreparesUnnamed,
    /// The connection has a text.
    Has(u64),
    /// The connection has a text no more.
    Lacks(u64),
    /// The client's statement of that name is closed, and with it the connection's text.
    Deallocates(Box<[u8]>, u64),
    /// The client's statement of that name is closed; the connection has its text by another name.
    ClosesByText(Box<[u8]>),
    /// All prepared statements are closed.
    DiscardsTexts,
    /// The session's settings are in force.
    Applies,
    /// The question for the values of settings is answered.
    Settles,
}

impl Expected {
    pub(super) fn theirs(what: What) -> Self {
        Expected {
            what,
            whose: Whose::Theirs,
            then: Effect::None,
            named: None,
            has_failed: false,
            is_behind_rows: false,
        }
    }

    pub(super) fn ours(what: What, then: Effect) -> Self {
        Expected { what, whose: Whose::Ours, then, named: None, has_failed: false, is_behind_rows: false }
    }

    pub(super) fn query(whose: Whose, then: Effect) -> Self {
        Expected { what: What::Query, whose, then, named: None, has_failed: false, is_behind_rows: false }
    }

    pub(super) fn then(self, then: Effect) -> Self {
        Expected { then, ..self }
    }

    pub(super) fn named(self, name: &[u8]) -> Self {
        Expected { named: Some(name.into()), ..self }
    }

    /// Whether a message with that tag is the last of its answer.
    pub(super) fn ends_with(&self, tag: u8) -> bool {
        match self.what {
            What::Parse => tag == b'1',
            What::Bind => tag == b'2',
            What::Close => tag == b'3',
            What::Describe => matches!(tag, b'T' | b'n'),
            What::Execute => matches!(tag, b'C' | b'I' | b's'),
            What::Query | What::Sync => tag == b'Z',
            What::CopyEnd | What::CloseHere => false,
        }
    }

    /// Whether it is answered without the server, or not at all.
    pub(super) fn is_ours_to_answer(&self) -> bool {
        matches!(self.what, What::CopyEnd | What::CloseHere)
    }
}
