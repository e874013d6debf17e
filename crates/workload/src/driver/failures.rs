//! Why requests failed: the reasons of those that were given up, and how often each occurred.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::database::{DatabaseError, PREEMPTED};

/// The reasons that are kept apart. Messages that contain keys or addresses could otherwise be a reason for each request.
const REASONS_MAX: usize = 20;

/// The message of the requests that failed for a reason beyond the first [`REASONS_MAX`].
const OTHERS: &str = "other reasons";

/// Requests of one workload that failed for the same reason, or attempts that were run again for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRequests {
    /// The SQLSTATE; `None` if the error has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What the database said about the first of them.
    pub message: String,
    /// The first of them in full: statement, place and parameters; `None` if nothing more is known than the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// How many failed. A count.
    pub count: u64,
}

impl FailedRequests {
    /// Adds up the reasons of several runs; the most frequent reason comes first.
    pub fn merged<'a>(runs: impl IntoIterator<Item = &'a FailedRequests>) -> Vec<FailedRequests> {
        let mut sum = Failures::default();
        runs.into_iter().for_each(|failed| sum.add(failed));
        sum.into_reasons()
    }

    /// Equal for requests that failed for the same reason: the code, or else the message without its numbers.
    fn reason(code: Option<&str>, message: &str) -> String {
        code.map_or_else(|| message.chars().filter(|c| !c.is_ascii_digit()).collect(), str::to_owned)
    }
}

/// The failed requests of a client or, after merging, of a workload.
#[derive(Debug, Clone, Default)]
pub(super) struct Failures(BTreeMap<String, FailedRequests>);

impl Failures {
    /// Records one failed request.
    pub(super) fn note(&mut self, error: &DatabaseError) {
        let code = error.code();
        // The common cases, of which there are many per second: the reason has a code or is a preemption, and is known.
        let reason = code.or_else(|| (*error == DatabaseError::Preempted).then_some(PREEMPTED));
        if let Some(known) = reason.and_then(|reason| self.0.get_mut(reason)) {
            known.count += 1;
            return;
        }
        let (message, all) = (error.words(), error.to_string());
        let first = (all != message).then_some(all);
        self.add(&FailedRequests { code: code.map(str::to_owned), message, first, count: 1 });
    }

    /// Adds the record of another client.
    pub(super) fn merge(&mut self, other: &Failures) {
        other.0.values().for_each(|failed| self.add(failed));
    }

    fn add(&mut self, failed: &FailedRequests) {
        let mut reason = FailedRequests::reason(failed.code.as_deref(), &failed.message);
        let mut new = failed.clone();
        let kept_apart = self.0.len() - usize::from(self.0.contains_key(OTHERS));
        if kept_apart >= REASONS_MAX && !self.0.contains_key(&reason) {
            OTHERS.clone_into(&mut reason);
            new = FailedRequests { code: None, message: OTHERS.to_owned(), first: None, count: failed.count };
        }
        self.0.entry(reason).and_modify(|known| known.count += failed.count).or_insert(new);
    }

    /// The reasons, the most frequent first.
    pub(super) fn into_reasons(self) -> Vec<FailedRequests> {
        let mut reasons: Vec<FailedRequests> = self.0.into_values().collect();
        reasons.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.message.cmp(&b.message)));
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Refusal;

    fn refused(code: &str, words: &str, told: &str) -> DatabaseError {
        let (code, words, told) = (Some(code.to_owned()), words.to_owned(), told.to_owned());
        DatabaseError::Refused(Box::new(Refusal { code, words, told, position: None }))
    }

    /// A third of the requests divide by zero, some are deadlock victims to the last attempt, and one finds no row.
    #[test]
    fn each_reason_is_counted_with_the_words_of_the_first() {
        let mut failures = Failures::default();
        for key in 0..3 {
            failures.note(&refused(
                "22012",
                "ERROR 22012: division by zero",
                &format!("statement half with :v = {key}"),
            ));
        }
        failures.note(&DatabaseError::Deadlock);
        failures.note(&DatabaseError::Failed("no row with key 17".to_owned()));
        failures.note(&DatabaseError::Failed("no row with key 4".to_owned()));
        let told: Vec<_> = failures
            .into_reasons()
            .into_iter()
            .map(|failed| (failed.count, failed.code, failed.message, failed.first))
            .collect();
        let some = |text: &str| Some(text.to_owned());
        let expect = [
            (3, some("22012"), "division by zero".to_owned(), some("statement half with :v = 0")),
            (2, None, "no row with key 17".to_owned(), None),
            (1, some("40P01"), "deadlock detected".to_owned(), None),
        ];
        assert_eq!(told, expect);
    }

    #[test]
    fn reasons_beyond_the_bound_are_counted_together() {
        let mut failures = Failures::default();
        for letter in 'a'..='z' {
            failures.note(&DatabaseError::Failed(format!("user {letter} is unknown")));
        }
        let reasons = failures.into_reasons();
        assert_eq!((reasons.len(), reasons[0].count, reasons[0].message.as_str()), (REASONS_MAX + 1, 6, OTHERS));
        let twice = FailedRequests::merged(reasons.iter().chain(&reasons));
        assert_eq!((twice.len(), twice[0].count), (REASONS_MAX + 1, 12));
        assert_eq!(twice.iter().map(|failed| failed.count).sum::<u64>(), 52);
    }
}
