//! Claims as they were when they had their first results.
//!
//! A claim comes from a study and is written before its result is known. A claim that is changed afterwards may have been fitted
//! to the result, so readers are shown that it changed. For this purpose the [hash](super::Claim::hash) of each claim is kept: in
//! the journal of a run directory from its beginning, and in `experiments/claims.lock` for the experiments that the program
//! carries.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plimsoll_notation::toml_string;
use serde::Deserialize;

use crate::results::{ClaimResult, Results};

/// The hash of each claim of an experiment, by the claim's text.
pub type Hashes = BTreeMap<String, String>;

/// The claims of several experiments, by the experiment's name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct FirstResults(BTreeMap<String, BTreeMap<String, FirstResult>>);

/// A claim as it was when it had its first result.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct FirstResult {
    /// The day of the result, as `2026-11-22`, UTC.
    date: String,
    /// Its hash.
    hash: String,
}

/// Whether a claim of hash `now` differs from that of hash `first`. Adding a published figure does not change a claim,
/// because it was not graded before.
pub fn is_changed(first: &str, now: &str) -> bool {
    let parts =
        |hash: &str| hash.split_once('+').map_or((hash.to_owned(), None), |(a, b)| (a.to_owned(), Some(b.to_owned())));
    let ((first_holds, first_near), (holds, near)) = (parts(first), parts(now));
    first_holds != holds || (first_near.is_some() && first_near != near)
}

/// Marks the claims whose hashes have changed since. A claim without a hash is new.
pub fn mark(claims: &mut [ClaimResult], first: &Hashes) {
    for claim in claims {
        claim.is_changed = first.get(&claim.text).is_some_and(|first| is_changed(first, &claim.hash));
    }
}

impl FirstResults {
    /// Reads the output of [`render`](Self::render).
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The hashes of one experiment's claims.
    pub fn of(&self, experiment: &str) -> Hashes {
        let claims = self.0.get(experiment).into_iter().flatten();
        claims.map(|(text, first)| (text.clone(), first.hash.clone())).collect()
    }

    /// Adds the claims of an experiment that have their first results now.
    pub fn add(&mut self, results: &Results) {
        let known = self.0.entry(results.experiment.name.clone()).or_default();
        let date = results.started.get(..10).unwrap_or(&results.started);
        for claim in results.claims.iter().filter(|claim| claim.why_not.is_none()) {
            let first = || FirstResult { date: date.to_owned(), hash: claim.hash.clone() };
            known.entry(claim.text.clone()).or_insert_with(first);
        }
    }

    /// Adds claims that had their first results elsewhere; known claims stay as they are.
    pub fn add_all(&mut self, other: FirstResults) {
        for (experiment, claims) in other.0 {
            let known = self.0.entry(experiment).or_default();
            for (text, first) in claims {
                known.entry(text).or_insert(first);
            }
        }
    }

    /// The texts of an experiment's claims that once had a result and are no longer among `texts`.
    pub fn withdrawn<'a>(&'a self, experiment: &str, texts: &[&str]) -> Vec<&'a str> {
        let known = self.0.get(experiment).into_iter().flatten();
        known.map(|(text, _)| text.as_str()).filter(|text| !texts.contains(text)).collect()
    }

    /// As TOML.
    pub fn render(&self) -> String {
        let mut out =
            "# Claims as they were when they had their first results; written by `plimsoll reproduce`.\n".to_owned();
        for (experiment, claims) in self.0.iter().filter(|(_, claims)| !claims.is_empty()) {
            let _ = writeln!(out, "\n[{}]", toml_string(experiment));
            for (text, FirstResult { date, hash }) in claims {
                let _ = writeln!(
                    out,
                    "{} = {{ date = {}, hash = {} }}",
                    toml_string(text),
                    toml_string(date),
                    toml_string(hash)
                );
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_claim_is_changed_if_what_must_hold_or_its_published_figure_is() {
        assert!(!is_changed("a", "a") && !is_changed("a+1", "a+1"));
        assert!(!is_changed("a", "a+1"), "a figure was added");
        assert!(is_changed("a", "b") && is_changed("a+1", "a+2") && is_changed("a+1", "a"));
    }

    #[test]
    fn first_results_are_kept_read_and_never_replaced() {
        let mut results = fixture::study();
        let claim = |text: &str, hash: &str, why_not: Option<&str>| ClaimResult {
            text: text.to_owned(),
            hash: hash.to_owned(),
            why_not: why_not.map(str::to_owned),
            ..fixture::poor_study().claims[0].clone()
        };
        results.claims = vec![claim("it \"is\" \\ so", "1", None), claim("not known", "2", Some("no run"))];
        let name = results.experiment.name.clone();
        let mut first = FirstResults::default();
        first.add(&results);
        results.claims[0].hash = "3".to_owned();
        first.add(&results);
        let read = FirstResults::parse(&first.render()).expect("it was written");
        assert_eq!(read, first);
        assert_eq!(read.of(&name), Hashes::from([("it \"is\" \\ so".to_owned(), "1".to_owned())]));
        mark(&mut results.claims, &read.of(&name));
        assert_eq!(results.claims.iter().map(|claim| claim.is_changed).collect::<Vec<_>>(), [true, false]);
        assert_eq!(read.withdrawn(&name, &["not known"]), ["it \"is\" \\ so"]);
        assert_eq!(read.withdrawn("another", &[]), [""; 0]);
    }
}
