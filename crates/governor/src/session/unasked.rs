//! Messages of the server that answer nothing: notices, notifications, and new values of parameters.

use plimsoll_policy::{NoReplay, Unsafe};

use super::frames::text;
use super::rewind::Failure;
use super::{Flow, Outbox, Session, answers};
use crate::statistics::count;

/// How many bytes of notifications are kept for the end of a transaction that is being replayed.
const NOTIFICATIONS_MAX: usize = 1 << 20;

impl Session {
    /// A server sends notices at once, with everything before them, and so do we. A notice that the client has received
    /// before a rollback is not passed on again by the replay. While the client must not see that it was chosen, a notice
    /// waits with the answer.
    pub(super) fn on_notice(&mut self, out: &mut impl Outbox) -> bool {
        let is_known = self.unit.notices_known > 0;
        self.unit.notices_known = self.unit.notices_known.saturating_sub(1);
        let waits = !self.unit.is_seen() && self.must_be_unseen();
        if !is_known && !waits {
            self.unit.notices += 1;
            self.show(out);
        }
        !is_known
    }

    /// A server sends notifications only while no transaction is open. While it rolls back and replays one, that is not
    /// what the client sees: it receives them when its transaction has ended. Beyond a bound, the replay is abandoned.
    pub(super) fn on_notification(&mut self, body: &[u8], out: &mut impl Outbox) -> bool {
        let Flow::Rewinding(rewind) = &mut self.flow else { return true };
        self.notifications.extend_from_slice(&answers::message(b'A', &[body]));
        if self.notifications.len() > NOTIFICATIONS_MAX {
            rewind.failure.get_or_insert(Failure::NotReplayable(NoReplay::Unsafe(Unsafe::Listen)));
            self.release_notifications(out);
        }
        false
    }

    /// The client's transaction has ended.
    pub(super) fn release_notifications(&mut self, out: &mut impl Outbox) {
        if !self.notifications.is_empty() {
            out.to_client(&std::mem::take(&mut self.notifications));
        }
    }

    /// A cancel of ours that has met a commit ended its wait for a standby: the transaction is committed, but a failover
    /// may lose it. Such units are not cancelled; this reports it if a server has begun to wait in that very moment.
    pub(super) fn check_commit_wait(&self, body: &[u8]) {
        if answers::routine(body) == Some(b"SyncRepWaitForLSN") && self.cancelled_for() == (true, false) {
            count(&self.statistics(self.inside_index()).commit_waits_cancelled);
            tracing::warn!(
                session = self.card.id.0,
                "a rollback came when its victim was committed and waited for a standby, and has ended that wait"
            );
        }
    }

    /// An application may change its name, and with it its class, and how its texts are read.
    pub(super) fn on_parameter(&mut self, body: &[u8]) {
        self.reported.on_parameter(body);
        let parameter = text(body).and_then(|(name, rest)| Some((name, text(rest)?.0)));
        if let Some((b"application_name", name)) = parameter {
            self.on_application_name(name);
        }
    }
}
