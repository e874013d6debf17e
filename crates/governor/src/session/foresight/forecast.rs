//! What a transaction's texts let expect, text by text.

use plimsoll_policy::{Foreseen, Unsafe};

use crate::effects::{Outlook, Safe};

/// What a transaction's texts let expect of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::session) struct Forecast {
    /// A text was run that no session has asked about.
    is_unknown: bool,
    /// Why a text must not be run twice.
    pub unsafe_because: Option<Unsafe>,
    /// A statement has generated values that differ in another run.
    generates: bool,
    /// Since then its client may have received rows.
    shows_values: bool,
    /// A text has written rows, or may have.
    writes: bool,
    /// A text that has run may have read rows in an order that another run would change: after a write, or with parallel
    /// workers.
    order_varies: bool,
    /// Code that it runs may catch errors or set timeouts, or that is not known.
    pub may_catch: bool,
}

impl Forecast {
    /// Why a replay would fail, apart from [`unsafe_because`](Self::unsafe_because).
    pub(in crate::session) fn foreseen(self) -> Option<Foreseen> {
        match self {
            Forecast { shows_values: true, .. } => Some(Foreseen::Values),
            Forecast { is_unknown: true, .. } => Some(Foreseen::Unknown),
            _ => None,
        }
    }

    /// Whether a text has run, or may have, whose effects are not known to end with its transaction.
    pub(in crate::session) fn may_act_outside(self) -> bool {
        self.is_unknown || self.unsafe_because.is_some_and(Unsafe::may_act_outside)
    }

    /// A text with that outlook is prepared; `None` if it is not known.
    pub(super) fn prepares(&mut self, outlook: Option<Outlook>) {
        match outlook {
            None => self.is_unknown = true,
            Some(Outlook::Unsafe(because)) => _ = self.unsafe_because.get_or_insert(because),
            Some(Outlook::Safe(..)) => {}
        }
    }

    /// A text with that outlook is run; `None` if it is not known.
    pub(super) fn runs(&mut self, outlook: Option<Outlook>, is_in_block: bool) {
        self.prepares(outlook);
        self.may_catch |= !matches!(outlook, Some(Outlook::Safe(Safe { catches: false, .. }, _)));
        if let Some(Outlook::Safe(Safe { generates, writes, reads_own, arranges, reads_much, .. }, returns)) = outlook {
            // A replay may find other places for the rows that it writes, and so read them in another order.
            self.order_varies |= self.writes || reads_own || reads_much;
            self.writes |= writes;
            self.generates |= generates || arranges && self.order_varies;
            // A cancel may come between any two rows, so it is too late as soon as there may be one. What commits by
            // itself is withheld from its client.
            self.shows_values |= self.generates && returns && is_in_block;
        }
    }

    /// The client has received rows.
    pub(in crate::session) fn shows_rows(&mut self) {
        self.shows_values |= self.generates;
    }

    /// The client has received more than one row, or a portal may have more. Their order is a value, too: ORDER BY may leave it
    /// open.
    pub(in crate::session) fn shows_order(&mut self) {
        self.shows_values |= self.order_varies;
    }
}
