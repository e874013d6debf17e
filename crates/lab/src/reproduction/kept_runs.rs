//! The finished runs behind a page, a line of JSON for each exhibit: `runs.jsonl`.
//!
//! Run directories are large and come and go. This file keeps what the page says of each run, so that a page can be
//! written again, and continued on another day or in another folder, without the directories of all earlier runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ExhibitRun;
use crate::results::ClaimResult;

/// The last finished run of each exhibit, by the exhibit's name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeptRuns(BTreeMap<String, KeptRun>);

/// The last finished run of an exhibit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptRun {
    /// The exhibit.
    pub name: String,
    /// How it was measured; `None` if it could not be run.
    pub measured: Option<ExhibitRun>,
    /// Why it could not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not_run: Option<String>,
    /// Its claims, judged.
    #[serde(default)]
    pub claims: Vec<ClaimResult>,
}

impl KeptRun {
    /// When it was begun; empty if it was not run.
    fn started(&self) -> &str {
        self.measured.as_ref().map_or("", |measured| &measured.started)
    }

    /// Whether all of its runs were made.
    fn is_finished(&self) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.runs_left == 0)
    }

    /// Whether it is of the full form.
    fn is_full(&self) -> bool {
        self.measured.as_ref().is_some_and(|measured| !measured.quick)
    }

    /// Whether this run tells more of an exhibit than another: it is finished, of the full form, or begun later.
    fn replaces(&self, other: &KeptRun) -> bool {
        let rank = |run: &KeptRun| (run.is_finished(), run.is_full(), run.started().to_owned());
        rank(self) >= rank(other)
    }
}

impl KeptRuns {
    /// Reads the file. An error names the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut runs = KeptRuns::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let run: KeptRun = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))?;
            runs.add(run);
        }
        Ok(runs)
    }

    /// Adds a run, unless a known one tells more: it is finished, of the full form, or begun later.
    pub fn add(&mut self, run: KeptRun) {
        if self.0.get(&run.name).is_none_or(|known| run.replaces(known)) {
            self.0.insert(run.name.clone(), run);
        }
    }

    /// Adds all runs of another list.
    pub fn add_all(&mut self, other: KeptRuns) {
        other.0.into_values().for_each(|run| self.add(run));
    }

    /// The last finished run of an exhibit.
    pub fn of(&self, name: &str) -> Option<&KeptRun> {
        self.0.get(name)
    }

    /// Every run.
    pub fn all(&self) -> impl Iterator<Item = &KeptRun> {
        self.0.values()
    }

    /// The text of the file.
    pub fn render(&self) -> String {
        let line = |run: &KeptRun| serde_json::to_string(run).expect("plain data") + "\n";
        self.all().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn run(name: &str, started: &str, runs_left: usize) -> KeptRun {
        let results = fixture::study();
        let measured = ExhibitRun { started: started.to_owned(), runs_left, ..ExhibitRun::of(&results) };
        KeptRun { name: name.to_owned(), measured: Some(measured), why_not_run: None, claims: results.claims }
    }

    #[test]
    fn runs_are_kept_as_they_were() {
        let mut runs = KeptRuns::default();
        runs.add(run("b", "2026-01-02", 0));
        runs.add(run("a", "2026-01-01", 0));
        let text = runs.render();
        assert_eq!(text.lines().count(), 2);
        assert_eq!(KeptRuns::parse(&text), Ok(runs));
        assert!(KeptRuns::parse(&format!("{text}no JSON\n")).is_err_and(|error| error.starts_with("line 3: ")));
    }

    #[test]
    fn a_finished_run_is_replaced_by_a_later_finished_one_only() {
        let mut runs = KeptRuns::default();
        let check = |runs: &KeptRuns, expect: &str| {
            let measured = runs.of("a").and_then(|run| run.measured.as_ref());
            assert_eq!(measured.map(|measured| measured.started.as_str()), Some(expect));
        };
        runs.add(run("a", "2026-01-02", 3));
        runs.add(run("a", "2026-01-03", 2));
        check(&runs, "2026-01-03");
        runs.add(run("a", "2026-01-01", 0));
        check(&runs, "2026-01-01");
        runs.add(run("a", "2026-01-04", 1));
        let failed = KeptRun { measured: None, why_not_run: Some("no server".to_owned()), ..run("a", "", 0) };
        runs.add(failed);
        check(&runs, "2026-01-01");
        runs.add(run("a", "2026-01-05", 0));
        check(&runs, "2026-01-05");
    }
}
