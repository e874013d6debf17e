//! Lines of the log that clients can cause at will: a limited number of each kind is written per second, the rest is
//! counted.
//!
//! Only the kinds of [`Repeated`] are limited. Errors of the governor, commands on the console and changes of state
//! (reloads, the control connection, draining) are not among them, and so are always written.

use parking_lot::Mutex;

/// The number of lines of each kind that are written per second.
pub(super) const LINES_PER_SECOND: u32 = 10;

/// A kind of line that clients can cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeated {
    /// A client was refused, or its session was ended.
    ClientRefused,
    /// A client or the server violates the protocol.
    SessionEnded,
    /// The server could not be reached for a client.
    ServerUnreachable,
    /// A cancel names a session that does not exist.
    UnknownCancelKey,
    /// A cancel did not reach the server.
    CancelNotDelivered,
    /// A transaction was admitted beyond the limits.
    AdmittedBeyond,
    /// A guard has seen work that holds up others, or takes too much.
    Guarded,
    /// A user logged in to the console.
    ConsoleLogin,
    /// A login to the console was refused.
    ConsoleRefused,
    /// A session keeps its connection of a pool.
    SessionPinned,
}

impl Repeated {
    /// Every kind, and how its line begins.
    const ALL: [(Repeated, &str); 10] = [
        (Repeated::ClientRefused, "client refused"),
        (Repeated::SessionEnded, "session ended"),
        (Repeated::ServerUnreachable, "server cannot be reached"),
        (Repeated::UnknownCancelKey, "cancel with an unknown key"),
        (Repeated::CancelNotDelivered, "cancel not delivered"),
        (Repeated::AdmittedBeyond, "admitted beyond the limits"),
        (Repeated::Guarded, "guards"),
        (Repeated::ConsoleLogin, "console: a user has come"),
        (Repeated::ConsoleRefused, "console: a login was refused"),
        (Repeated::SessionPinned, "a session keeps its server connection"),
    ];
}

/// The number of lines written of each kind.
#[derive(Debug, Default)]
pub(super) struct Lines {
    limits: Mutex<[LineLimit; Repeated::ALL.len()]>,
}

impl Lines {
    /// Whether another line of that kind may be written in that second.
    pub(super) fn takes(&self, kind: Repeated, second: u64) -> bool {
        let (takes, left_out) = {
            let limit = &mut self.limits.lock()[kind as usize];
            let left_out = limit.begin(second);
            (limit.takes(second), left_out)
        };
        tell(kind, left_out);
        takes
    }

    /// Logs how many lines of an earlier second were left out.
    pub(super) fn tell_left_out(&self, second: u64) {
        for (kind, left_out) in self.left_out(second) {
            tell(kind, left_out);
        }
    }

    fn left_out(&self, second: u64) -> [(Repeated, u64); Repeated::ALL.len()] {
        let mut limits = self.limits.lock();
        Repeated::ALL.map(|(kind, _)| (kind, limits[kind as usize].begin(second)))
    }
}

fn tell(kind: Repeated, left_out: u64) {
    if left_out > 0 {
        let (_, line) = Repeated::ALL[kind as usize];
        tracing::warn!(left_out, "more lines in the last second than are logged: {line}");
    }
}

/// Limits how many lines are written per second.
#[derive(Debug, Default)]
pub(super) struct LineLimit {
    /// The current second.
    pub(super) second: u64,
    /// The number of lines requested in it.
    lines: u32,
}

impl LineLimit {
    /// Whether another line may be written in that second.
    pub(super) fn takes(&mut self, second: u64) -> bool {
        self.begin(second);
        self.lines = self.lines.saturating_add(1);
        self.lines <= LINES_PER_SECOND
    }

    /// Begins that second, unless it has begun; returns how many lines of the one before were left out.
    pub(super) fn begin(&mut self, second: u64) -> u64 {
        if self.second >= second {
            return 0;
        }
        let unwritten = self.lines.saturating_sub(LINES_PER_SECOND);
        *self = LineLimit { second, lines: 0 };
        unwritten.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pooler with a wrong password retried thousands of times per second, and the log filled the disk.
    #[test]
    fn a_flood_of_one_kind_is_counted_and_hides_no_other() {
        let lines = Lines::default();
        let written = (0..25).filter(|_| lines.takes(Repeated::ClientRefused, 4)).count();
        assert_eq!(written, LINES_PER_SECOND as usize);
        assert!(lines.takes(Repeated::ConsoleRefused, 4), "another kind has lines of its own");
        assert!(lines.left_out(4).iter().all(|(_, left_out)| *left_out == 0), "the second has not ended");
        let left_out = lines.left_out(5);
        assert_eq!(left_out.iter().map(|(_, left_out)| left_out).sum::<u64>(), 15);
        assert_eq!(left_out[0], (Repeated::ClientRefused, 15));
        assert!(lines.left_out(6).iter().all(|(_, left_out)| *left_out == 0), "it is said once");
        assert!(lines.takes(Repeated::ClientRefused, 6));
    }

    #[test]
    fn kinds_have_places_of_their_own() {
        for (place, (kind, _)) in Repeated::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place, "{kind:?}");
        }
    }
}
