//! Whether a session passes through the governor, and what it asks for when its transaction wants room.

use plimsoll_policy::{Claim, ClassIndex, Ticket};

use super::{NO_WORKER, SessionCard};

impl SessionCard {
    /// Whether its client is connected to the server itself: the governor only observes it.
    pub fn is_direct(&self) -> bool {
        self.worker == NO_WORKER
    }

    /// Its request for room in a class.
    pub fn claim(&self, class: ClassIndex) -> Claim {
        Claim { ticket: Ticket(self.id.0), class, tenant: self.tenant }
    }
}
