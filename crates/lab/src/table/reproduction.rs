//! Published against ours, as text.

use serde::Serialize;

use super::{claims, wrap};
use crate::results::{ClaimResult, ClaimVerdict};

/// One published exhibit and what came of reproducing it.
#[derive(Debug, Clone, Serialize)]
pub struct Exhibit {
    /// Its name, as in `SR-fig6-dop`.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// The experiment file.
    pub file: String,
    /// The folder with everything that was measured, if it was run.
    pub directory: String,
    /// What must come out, judged.
    pub claims: Vec<ClaimResult>,
    /// Why it was not run.
    pub why_not_run: Option<String>,
}

impl Exhibit {
    /// Whether a claim fails, or it could not be run at all.
    pub fn has_failed(&self) -> bool {
        self.why_not_run.is_some() || self.claims.iter().any(|claim| claim.verdict == ClaimVerdict::Fails)
    }
}

/// The whole text, ending in a line break.
pub fn render(exhibits: &[Exhibit]) -> String {
    let mut out = Vec::new();
    for exhibit in exhibits {
        out.extend(wrap(&format!("{}: {}", exhibit.id, exhibit.title), "", "  "));
        out.extend(exhibit.claims.iter().flat_map(claims::lines));
        out.extend(exhibit.why_not_run.iter().flat_map(|why| wrap(why, "  not run     ", "              ")));
        if exhibit.why_not_run.is_none() {
            out.push(format!("  {}", exhibit.directory));
        }
        out.push(String::new());
    }
    let all: Vec<&ClaimResult> = exhibits.iter().flat_map(|exhibit| &exhibit.claims).collect();
    let [hold, fail, undecided, not_judged] =
        ClaimVerdict::ALL.map(|verdict| all.iter().filter(|claim| claim.verdict == verdict).count());
    let count = all.len();
    out.push(format!("{count} claims: {hold} hold, {fail} fail, {undecided} undecided, {not_judged} not judged"));
    out.push(String::new());
    out.join("\n")
}
