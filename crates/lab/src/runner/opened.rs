//! Handing a database from one runner to the next.

use plimsoll_machine::control::Limits;

use super::Runner;
use super::store::Open;

/// What a runner has opened and loaded, for another to go on with: nothing, or a database.
#[derive(Debug, Default)]
pub struct Opened {
    pub(super) store: Option<Open>,
    pub(super) loaded_under: Limits,
}

impl Runner<'_> {
    /// What it has open.
    pub fn into_opened(self) -> Opened {
        Opened { store: self.store.into_open(), loaded_under: self.loaded_under }
    }

    /// Continues with what another has opened. If its target or data differ from what a run needs, they are opened or loaded
    /// again, as after any other run.
    pub fn with_opened(mut self, opened: Opened) -> Self {
        self.store.adopt(opened.store);
        self.loaded_under = opened.loaded_under;
        self
    }
}
