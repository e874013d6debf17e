//! The answers of a transaction's first run, which [`Canary::SameAnswers`] gives again in its replay.

use super::Canary;
use super::link::Link;

impl Link {
    /// Records a unit's request; after a ROLLBACK, known requests are a replay. `place` is the position of the replay.
    pub fn note_request(&self, request: &[u8], place: &mut Option<usize>) {
        if !self.is(Canary::SameAnswers) {
            return;
        }
        let first_run = self.shared.first_run.lock().unwrap();
        // The governor rolls back with a statement of its own.
        let has = |word: &[u8]| request.windows(word.len()).any(|part| part == word);
        if has(b"\x01plimsoll\0ROLLBACK") {
            *place = Some(0);
        }
        // The governor's own requests belong to neither run.
        let is_own = has(b"\x01plimsoll");
        let known =
            place.filter(|_| !is_own).and_then(|from| (from..first_run.len()).find(|&at| first_run[at].0 == request));
        if let Some(at) = known {
            *place = Some(at + 1);
        }
        self.replayed.lock().unwrap().push_back((known, if is_own { Vec::new() } else { request.to_vec() }));
    }

    /// Whether the server's next answer belongs to a replay.
    pub fn is_replayed(&self) -> bool {
        self.replayed.lock().unwrap().front().is_some_and(|(known, _)| known.is_some())
    }

    /// Keeps an answer, or returns the first run's answer in place of a replay's. A unit that has failed is run again.
    pub fn end_answer(&self, answer: Vec<u8>, has_failed: bool) -> Option<Vec<u8>> {
        let (known, request) = self.replayed.lock().unwrap().pop_front()?;
        let mut first_run = self.shared.first_run.lock().unwrap();
        let first = known.and_then(|at| first_run.get(at)).map(|(_, first)| first.clone());
        if first.is_none() {
            if has_failed || request.is_empty() {
                return None;
            }
            first_run.push((request, answer));
            return None;
        }
        // The status, which ends an answer, is not an answer: a server that lies about it is another matter.
        first.filter(|first| first.last() == answer.last())
    }
}
