//! Counts of claims by result.

use crate::claim::grade::Grade;
use crate::results::{ClaimResult, ClaimVerdict};

/// Claims counted by verdict and by grade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// The number of claims.
    pub claims: usize,
    /// The number of claims of each verdict, by the verdict's word, in the order in which they are shown.
    pub verdicts: Vec<(&'static str, usize)>,
    /// The number of claims of each grade, best first.
    pub grades: [(Grade, usize); 3],
    /// The number of claims with a published figure whose own figure was not measured.
    pub not_graded: usize,
    /// The number of claims that were changed after their first results.
    pub changed: usize,
}

/// Whether a claim fails.
pub(super) fn has_failed(claim: &ClaimResult) -> bool {
    claim.verdict == ClaimVerdict::Fails
}

/// The word for a claim's verdict; a failure stands out.
pub(super) fn verdict(claim: &ClaimResult) -> String {
    let word = claim.verdict.words();
    if has_failed(claim) { format!("**{word}**") } else { word.to_owned() }
}

/// The word for a verdict after a number.
fn counted(verdict: ClaimVerdict) -> &'static str {
    match verdict {
        ClaimVerdict::Holds => "hold",
        ClaimVerdict::Fails => "fail",
        other => other.words(),
    }
}

impl Tally {
    /// Counts claims.
    pub fn of<'a>(claims: impl Iterator<Item = &'a ClaimResult> + Clone) -> Self {
        let count = |is: &dyn Fn(&ClaimResult) -> bool| claims.clone().filter(|claim| is(claim)).count();
        Tally {
            claims: claims.clone().count(),
            verdicts: ClaimVerdict::ALL
                .map(|verdict| (counted(verdict), count(&|claim| claim.verdict == verdict)))
                .to_vec(),
            grades: Grade::ALL.map(|grade| (grade, count(&|claim| claim.grade == Some(grade)))),
            not_graded: count(&|claim| claim.near.is_some() && claim.grade.is_none()),
            changed: count(&|claim| claim.is_changed),
        }
    }

    /// `45 claims: 26 hold, 5 fail, 14 not judged`.
    pub fn verdicts(&self) -> String {
        let told: Vec<String> = self.verdicts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let changed = if self.changed > 0 {
            format!(" ({} changed after their first results)", self.changed)
        } else {
            String::new()
        };
        format!("{} claims: {}{changed}", self.claims, told.join(", "))
    }

    /// `20 published figures: 9 match, 5 direction, 1 contrary, 5 not graded`.
    pub fn grades(&self) -> String {
        let all = self.grades.iter().map(|(_, count)| count).sum::<usize>() + self.not_graded;
        let told: Vec<String> = self.grades.iter().map(|(grade, count)| format!("{count} {}", grade.name())).collect();
        format!("{all} published figures: {}, {} not graded", told.join(", "), self.not_graded)
    }
}
