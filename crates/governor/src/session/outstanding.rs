//! Messages that have been sent and not answered, and so the number of `ReadyForQuery` still to come.

use std::collections::VecDeque;

/// One message that a `ReadyForQuery` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AwaitedMessage {
    /// The unit that it ends.
    unit: u64,
    /// Whether it is a `Sync`; otherwise a `Query` or a `FunctionCall`.
    is_sync: bool,
    /// How many messages of the extended protocol came before it in its unit.
    extended: u64,
    /// How many `CopyDone` and `CopyFail` the client had sent before its unit, and before itself.
    copy_ends_before: u64,
    copy_ends: u64,
}

/// At most this many messages that end units are passed on unanswered; the client's next wait. A server works on one of
/// them, and 5 bytes of a client must not take up 50 here without end.
const ASKED_MAX: usize = 10_000;

/// The messages that have been sent and not answered.
///
/// A server that takes in a copy ignores every `Sync` until the copy ends (protocol, "COPY Operations"), in both
/// protocols (`CopyGetData`), so those that a client sent beforehand, as libpq does with each `Execute`, are never
/// answered. A `CopyDone` or `CopyFail` without a copy is ignored.
///
/// After an error in the extended protocol a server ignores everything up to the next `Sync`, including a `Query`
/// ("Extended Query"). Whether a client receives an answer to a `Query` behind messages without a `Sync` depends on
/// where the error was.
#[derive(Debug, Default)]
pub struct Outstanding {
    asked: VecDeque<AwaitedMessage>,
    /// Messages of the extended protocol in the open unit, and how many messages of the first outstanding unit were
    /// answered.
    extended_sent: u64,
    extended_done: u64,
    /// The server ignores messages until a `Sync`.
    is_skipping: bool,
    copy_ends_sent: u64,
    copy_ends_used: u64,
    /// How many had been sent before the open unit.
    copy_ends_before: u64,
    /// A copy has begun and the client has not ended it.
    is_copying_in: bool,
    /// How many `Sync` the client has sent during the copy. If the copy fails, the server answers those that follow the
    /// failure; only the server knows how many.
    syncs_in_copy: u64,
}

impl Outstanding {
    /// How many answers are still to come.
    pub fn count(&self) -> usize {
        self.asked.len()
    }

    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// The unit that the server is working on; `None` if all have been answered.
    pub fn oldest(&self) -> Option<u64> {
        self.asked.front().map(|asked| asked.unit)
    }

    /// Whether the client must wait for an answer before it may send more.
    pub fn is_full(&self) -> bool {
        self.asked.len() >= ASKED_MAX
    }

    /// Whether the server takes in a copy that the client has not ended.
    pub fn is_copying_in(&self) -> bool {
        self.is_copying_in
    }

    /// The client sent a message that ends the given unit and that a `ReadyForQuery` answers.
    pub fn sent(&mut self, unit: u64, is_sync: bool) {
        if self.is_skipping && !is_sync {
            return;
        }
        self.is_skipping = false;
        let copy_ends = self.copy_ends_sent;
        let extended = std::mem::take(&mut self.extended_sent);
        let copy_ends_before = if extended > 0 { self.copy_ends_before } else { copy_ends };
        self.asked.push_back(AwaitedMessage { unit, is_sync, extended, copy_ends_before, copy_ends });
    }

    /// The client sent a `Sync` in the middle of a copy.
    pub(crate) fn sent_sync_in_copy(&mut self) {
        self.syncs_in_copy += 1;
    }

    /// A `CopyDone` or `CopyFail` was sent.
    pub(crate) fn sent_copy_end(&mut self) {
        self.copy_ends_sent += 1;
        self.is_copying_in = false;
    }

    /// The server begins to receive a copy: every `Sync` before the copy's end is lost. Returns whether there was one,
    /// so that the unit is open again.
    pub(crate) fn copy_in_begins(&mut self) -> bool {
        // Those sent before its unit have met no copy.
        let before = self.asked.front().map_or(self.copy_ends_before, |asked| asked.copy_ends_before);
        let used = self.copy_ends_used.max(before);
        let asked = self.asked.len();
        self.asked.retain(|asked| !(asked.is_sync && asked.copy_ends <= used));
        // If the copy fails, the server answers those that follow the failure.
        self.syncs_in_copy += (asked - self.asked.len()) as u64;
        self.copy_ends_used = used + 1;
        self.is_copying_in = self.copy_ends_used > self.copy_ends_sent;
        self.asked.is_empty()
    }

    /// A `ReadyForQuery` arrived. Returns the unit that it answers, or `None` if none was due.
    pub fn answered(&mut self) -> Option<u64> {
        self.extended_done = 0;
        let late = self.syncs_in_copy > 0;
        let answered = self.asked.pop_front();
        if answered.is_none() && late {
            self.syncs_in_copy -= 1;
            return Some(0);
        }
        if self.asked.is_empty() {
            // Copies that failed may have left unused ends, or counted ends that were never sent.
            self.copy_ends_used = self.copy_ends_sent;
        }
        answered.map(|asked| asked.unit)
    }

    /// A statement has failed, and with it a copy that it had begun: the next `Sync` is answered.
    pub fn failed(&mut self) {
        self.is_copying_in = false;
        let Some(front) = self.asked.front() else {
            self.is_skipping = self.extended_sent > 0;
            return;
        };
        if front.is_sync || self.extended_done >= front.extended {
            return;
        }
        while self.asked.front().is_some_and(|asked| !asked.is_sync) {
            self.asked.pop_front();
        }
        self.is_skipping = self.asked.is_empty();
    }

    /// A message of the extended protocol was sent that has its own answer.
    pub(crate) fn sent_extended(&mut self) {
        if self.extended_sent == 0 {
            self.copy_ends_before = self.copy_ends_sent;
        }
        self.extended_sent += 1;
    }

    /// The server sent an answer with the given tag.
    pub fn heard(&mut self, tag: u8) {
        // The last or only answer to Parse, Bind, Close, Execute (three ways) and Describe (two).
        if tag == b'C' {
            // A copy that ends well has swallowed them.
            self.syncs_in_copy = 0;
        }
        self.extended_done += u64::from(matches!(tag, b'1' | b'2' | b'3' | b'C' | b'I' | b's' | b'T' | b'n'));
    }

    pub fn is_skipping(&self) -> bool {
        self.is_skipping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Client messages in lower case as on the wire (`Q`, `S`, `c`), `G` for the server's CopyInResponse, `Z` for
    /// ReadyForQuery; after each the count is compared.
    fn check(story: &str) {
        let mut outstanding = Outstanding::default();
        for step in story.split_whitespace() {
            let (what, count) = step.split_at(1);
            match what {
                "Q" => outstanding.sent(0, false),
                "S" if outstanding.is_copying_in() => outstanding.sent_sync_in_copy(),
                "S" => outstanding.sent(0, true),
                "c" => outstanding.sent_copy_end(),
                "G" => drop(outstanding.copy_in_begins()),
                "Z" => assert!(outstanding.answered().is_some(), "{story}"),
                "E" => outstanding.failed(),
                "x" => outstanding.sent_extended(),
                "1" => outstanding.heard(b'1'),
                "C" => outstanding.heard(b'C'),
                _ => unreachable!("{step}"),
            }
            assert_eq!(outstanding.count().to_string(), count, "{story} at {step}");
        }
    }

    #[test]
    fn each_query_and_each_sync_has_one_answer() {
        check("Q1 Z0 S1 S2 Z1 Z0");
    }

    #[test]
    fn a_sync_before_the_end_of_a_copy_is_lost() {
        // libpq: Execute, Sync; the copy begins; data, CopyDone, Sync.
        check("S1 G0 c0 S1 Z0");
        // Everything sent ahead.
        check("S1 c1 S2 G1 Z0");
        // Two copies in a row, sent ahead.
        check("S1 c1 S2 S3 c3 S4 G3 Z2 G1 Z0");
        // Without the first Sync.
        check("x0 c0 S1 G1 Z0");
    }

    /// The governor once remembered every Sync of a client that sent one after each row of a copy.
    #[test]
    fn syncs_in_the_middle_of_a_copy_are_not_remembered() {
        check("S1 G0 S0 S0 S0 c0 S1 Z0");
        // A copy that fails in the middle: the next Sync is answered.
        check("S1 G0 S0 E0 S1 Z0");
    }

    /// A client sent an Execute that failed, and a Query behind it without a Sync. The server ignores that Query; the
    /// session once waited for its answer, and a later statement waited forever for everything before it.
    #[test]
    fn what_comes_between_an_error_and_its_sync_is_not_answered() {
        check("x0 Q1 Q2 S3 E1 Z0");
        check("x0 E0 Q0 Q0 S1 Z0 Q1 Z0");
        check("x0 Q1 E0 Q0 S1 Z0");
        // The error is the Query's own.
        check("x0 Q1 11 E1 Z0");
        check("S1 x1 Q2 Z1 E0 S1 Z0");
    }

    /// The session once waited forever for the answers to them, with its place within the limit of its class.
    #[test]
    fn a_copy_by_simple_query_loses_syncs_too() {
        check("Q1 G1 c1 Z0");
        // In the middle, and ahead.
        check("Q1 G1 S1 S1 c1 S2 C2 Z1 Z0");
        check("Q1 S2 S3 c3 S4 G2 C2 Z1 Z0");
        // Two copies in one text.
        check("Q1 G1 S1 c1 S2 C2 G1 S1 c1 C1 Z0");
        // A copy that fails: a Sync after the failure is answered, also if the end of the copy has been sent.
        check("Q1 G1 S1 S1 c1 E1 Z0 Z0 Z0");
    }

    /// A server ignores the end of a copy where there is none; it was once taken for that of the next copy, whose lost
    /// Sync was waited for.
    #[test]
    fn the_end_of_no_copy_ends_none() {
        check("c0 Q1 S2 G1 c1 C1 Z0");
        check("Q1 c1 Q2 S3 Z2 G1 c1 C1 Z0");
        check("Q1 c1 x1 S2 Z1 G0 c0 S1 C1 Z0");
    }

    #[test]
    fn a_client_that_asks_without_end_has_to_wait() {
        let mut outstanding = Outstanding::default();
        (0..ASKED_MAX).for_each(|_| outstanding.sent(0, true));
        assert!(outstanding.is_full());
        outstanding.answered();
        assert!(!outstanding.is_full());
    }

    /// A client sent a Query that copies, a row that fails and a Sync at once. The server answers the Sync after the copy has
    /// failed; that answer once ended governing, and with it the limit of the session's class.
    #[test]
    fn a_sync_behind_a_copy_that_fails_is_answered() {
        check("Q1 S2 G1 E1 Z0 Z0 Q1 Z0");
        check("Q1 S2 G1 c1 C1 Z0");
    }

    #[test]
    fn a_copy_that_failed_before_it_began_does_not_confuse_the_next() {
        check("S1 c1 S2 Z1 Z0 S1 G0 c0 S1 Z0");
    }
}
