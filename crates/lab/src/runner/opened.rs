//! Passes a database from one runner to the next.

use plimsoll_machine::control::Limits;

use super::Runner;
use super::store::OpenDatabase;

/// The database that a runner has opened and loaded, if any, for another runner to continue with.
#[derive(Debug, Default)]
pub struct OpenedDatabase {
    pub(super) store: Option<OpenDatabase>,
    pub(super) loaded_under: Limits,
}

impl Runner<'_> {
    /// The open database.
    pub fn into_opened(self) -> OpenedDatabase {
        OpenedDatabase { store: self.store.into_open(), loaded_under: self.loaded_under }
    }

    /// Continues with the database that another runner has opened. If its target or data differ from those that a run
    /// needs, it is opened or loaded again, as after any other run.
    pub fn with_opened(mut self, opened: OpenedDatabase) -> Self {
        self.store.adopt(opened.store);
        self.loaded_under = opened.loaded_under;
        self
    }
}
