//! What is known of a server connection while it passes from client to client.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::settings::{APPLICATION_NAME, Reports, SessionSettings};
use crate::registry::BackendKey;
use crate::session::Reported;

/// A server connection of a pool, without its socket.
#[derive(Debug)]
pub struct PooledConnection {
    /// Its server process, and the secret that cancels its statements.
    pub key: Arc<BackendKey>,
    /// What it said of itself when it was made, for sessions that begin on it.
    pub reported: Reported,
    /// The parameters that the server has reported.
    pub reports: Arc<Reports>,
    /// The settings with which it began.
    pub base: Arc<SessionSettings>,
    /// The settings that are in force.
    pub settings: Arc<SessionSettings>,
    /// The prepared texts that it has.
    pub prepared: PreparedTexts,
    /// Whether it may have an unnamed statement of the last client.
    pub has_unnamed: bool,
    /// The session that has taken values of sequences on it last.
    pub sequences_of: Option<u64>,
    /// When it began to be opened.
    pub since: Instant,
    /// Something unexpected has happened: it serves no other client.
    pub is_spoilt: bool,
}

impl PooledConnection {
    /// A connection that has just been made, and began to be opened then.
    pub fn new(key: BackendKey, reported: Reported, reports: Arc<Reports>, began: Instant) -> Self {
        let application = reports.get(APPLICATION_NAME).cloned().unwrap_or_default();
        let base = Arc::new(SessionSettings::from([(Box::from(APPLICATION_NAME), application)]));
        PooledConnection {
            key: Arc::new(key),
            reported,
            reports,
            settings: Arc::clone(&base),
            base,
            prepared: PreparedTexts::default(),
            has_unnamed: false,
            sequences_of: None,
            since: began,
            is_spoilt: false,
        }
    }
}

/// The prepared texts of a connection, by number.
#[derive(Debug, Default)]
pub struct PreparedTexts {
    /// When each was used last, as a count of uses; `None` if it is not known whether the text is there.
    used: HashMap<u64, Option<u64>>,
    uses: u64,
}

/// Whether a connection has a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Has {
    /// It has.
    Yes,
    /// It has not.
    No,
    /// Not known, for a transaction with an error was given up on the way.
    Perhaps,
}

impl PreparedTexts {
    /// Whether the text is there.
    pub fn has(&self, text: u64) -> Has {
        match self.used.get(&text) {
            Some(Some(_)) => Has::Yes,
            Some(None) => Has::Perhaps,
            None => Has::No,
        }
    }

    /// The text is there, and is used now.
    pub fn uses(&mut self, text: u64) {
        self.uses += 1;
        self.used.insert(text, Some(self.uses));
    }

    /// A request that may have prepared or closed it was given up.
    pub fn doubts(&mut self, text: u64) {
        self.used.insert(text, None);
    }

    /// The text was closed.
    pub fn forget(&mut self, text: u64) {
        self.used.remove(&text);
    }

    /// All were closed.
    pub fn clear(&mut self) {
        self.used.clear();
    }

    /// The one that was not used for longest, if there are more than `most`.
    pub fn surplus(&self, most: usize) -> Option<u64> {
        if self.used.len() <= most {
            return None;
        }
        self.used.iter().min_by_key(|(_, used)| **used).map(|(text, _)| *text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_that_was_not_used_for_longest_goes() {
        let mut texts = PreparedTexts::default();
        [1, 2, 3, 1].into_iter().for_each(|text| texts.uses(text));
        assert_eq!((texts.surplus(3), texts.surplus(2)), (None, Some(2)));
        texts.doubts(3);
        assert_eq!((texts.surplus(2), texts.has(3), texts.has(4)), (Some(3), Has::Perhaps, Has::No));
        texts.forget(3);
        assert_eq!((texts.has(3), texts.has(1)), (Has::No, Has::Yes));
    }
}
