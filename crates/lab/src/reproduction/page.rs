//! The reproduction page, as Markdown.

use std::fmt::Write as _;

use super::causes::{Cause, Causes};
use super::origin::Origin;
use super::tally::{self, Tally};
use super::{Exhibit, ExhibitRun};
use crate::claim::grade::Grade;
use crate::claim::shown;
use crate::results::{CHANGED, ClaimResult, NearResult};
use plimsoll_display::distinct;

/// The beginning of the page: the meaning of its columns.
const LEGEND: &str = "\
A *verdict* says whether what is claimed holds here; claims come from the studies and are written before their results. A *grade* says \
how near our figure is to the published one: a *match* is within the stated factor (1.5, unless there is a reason for another), \
and the effect, its distance from no effect, within 1.5 times; *direction* is on the same side of no effect with another size, *contrary* \
is neither. Grades are of the figure from all runs; its interval stands in brackets. What noise or the end of a sweep could have made has no \
grade, nor have claims without a published figure. *Published* is the study's figure on its hardware, and under each title \
stands in what the experiment differs from the study. A run is *stale* if its experiment, or code that it exercises, has changed \
since; hashes of both stand beside it.";

/// The heading over experiments that belong to no study.
const OWN: &str = "Without a study";

/// The whole page. `missing` are the names of exhibits that were never run.
pub fn page(exhibits: &[Exhibit], missing: &[&str], causes: &Causes) -> String {
    let mut out = String::from(
        "# Reproduction\n\n<!-- Written by `plimsoll reproduce`; change experiments or causes.toml, not this page. -->\n\n",
    );
    let _ = writeln!(out, "{LEGEND}\n");
    let run: Vec<&Exhibit> = exhibits.iter().filter(|exhibit| exhibit.measured.is_some()).collect();
    for machine in distinct(run.iter().filter_map(|exhibit| Some(exhibit.measured.as_ref()?.machine.as_str()))) {
        let _ = writeln!(out, "Machine: {}.\n", escaped(machine));
    }
    let studies = distinct(exhibits.iter().map(study_of));
    counts(&mut out, &studies, exhibits);
    without_cause(&mut out, &run, causes);
    let stale = run.iter().filter(|exhibit| exhibit.stale.is_some()).count();
    if stale > 0 {
        let _ = writeln!(
            out,
            "\n{stale} of {} runs are **stale**; `plimsoll reproduce --stale` runs them again.",
            run.len()
        );
    }
    for study in &studies {
        let _ = writeln!(out, "\n## {study}");
        for exhibit in exhibits.iter().filter(|exhibit| study_of(exhibit) == *study) {
            section(&mut out, exhibit, causes);
        }
    }
    if !missing.is_empty() {
        let _ = writeln!(out, "\nNot run yet: {}.", missing.join(", "));
    }
    out
}

fn study_of(exhibit: &Exhibit) -> &str {
    exhibit.study.as_deref().unwrap_or(OWN)
}

/// The table of verdicts and grades, a row for each study and one for all.
fn counts(out: &mut String, studies: &[&str], exhibits: &[Exhibit]) {
    let tally = |of: Option<&str>| {
        let chosen = exhibits.iter().filter(|exhibit| of.is_none_or(|study| study_of(exhibit) == study));
        Tally::of(chosen.flat_map(|exhibit| &exhibit.claims))
    };
    let mut rows: Vec<(&str, Tally)> = studies.iter().map(|study| (*study, tally(Some(study)))).collect();
    let all = tally(None);
    let heads: Vec<&str> = all.verdicts.iter().map(|(word, _)| *word).collect();
    let grades = Grade::ALL.map(Grade::name);
    let _ = writeln!(out, "| | claims | {} | {} | not graded |", heads.join(" | "), grades.join(" | "));
    let _ = writeln!(out, "|---{}|", "|---:".repeat(heads.len() + grades.len() + 2));
    rows.push(("all", all));
    for (name, tally) in rows {
        let verdicts = tally.verdicts.iter().map(|(_, count)| count.to_string());
        let grades = tally.grades.iter().map(|(_, count)| count.to_string());
        let cells: Vec<String> = verdicts.chain(grades).chain([tally.not_graded.to_string()]).collect();
        let _ = writeln!(out, "| {name} | {} | {} |", tally.claims, cells.join(" | "));
    }
}

/// The number of claims that need a cause and lack one.
fn without_cause(out: &mut String, exhibits: &[&Exhibit], causes: &Causes) {
    let claims = exhibits.iter().flat_map(|exhibit| exhibit.claims.iter().map(move |claim| (exhibit, claim)));
    let wanting: Vec<_> = claims.filter(|(_, claim)| wants_cause(claim)).collect();
    let found: Vec<&Cause> =
        wanting.iter().filter_map(|(exhibit, claim)| causes.of(&exhibit.id, &claim.text)).collect();
    let guesses = found.iter().filter(|cause| cause.guess).count();
    let unknown = wanting.len() - found.len();
    let _ = writeln!(
        out,
        "\nOf {} claims that fail or are not matched, the cause of {} is known, of {guesses} guessed, of {unknown} unknown.",
        wanting.len(),
        found.len() - guesses
    );
}

/// One exhibit: how it was measured, its claims, and why the results differ from the published ones.
fn section(out: &mut String, exhibit: &Exhibit, causes: &Causes) {
    let _ = writeln!(out, "\n### {}: {}\n", exhibit.id, exhibit.title);
    let stale = exhibit.stale.as_ref().map(|why| format!(", **stale**: {}", escaped(why))).unwrap_or_default();
    let _ = writeln!(out, "`{}`{}{stale}", exhibit.file, exhibit.measured.as_ref().map(how).unwrap_or_default());
    if let Some(why) = &exhibit.why_not_run {
        let _ = writeln!(out, "\nNot run: {}", escaped(why));
    }
    if !exhibit.differs.is_empty() {
        let _ = writeln!(out, "\nDiffers from the study: {}.", escaped(&exhibit.differs.join("; ")));
    }
    if let Some(measured) = exhibit.measured.as_ref().filter(|_| !exhibit.claims.is_empty()) {
        let _ = writeln!(out, "\n| claim | published | ours | verdict | grade | measured |\n|---|---|---|---|---|---|");
        exhibit.claims.iter().for_each(|claim| row(out, claim, measured));
    }
    let caused = exhibit.claims.iter().filter(|claim| wants_cause(claim));
    let caused = caused.filter_map(|claim| Some((claim, causes.of(&exhibit.id, &claim.text)?)));
    for (number, (claim, Cause { cause, guess })) in caused.enumerate() {
        let guess = if *guess { " (a guess)" } else { "" };
        let _ = writeln!(
            out,
            "{}- *{}*: {}{guess}",
            if number == 0 { "\n" } else { "" },
            escaped(&claim.text),
            escaped(cause)
        );
    }
    if !exhibit.withdrawn.is_empty() {
        let withdrawn = exhibit.withdrawn.iter().map(|text| format!("*{}*", escaped(text))).collect::<Vec<_>>();
        let _ = writeln!(out, "\nClaims withdrawn after their first results: {}.", withdrawn.join("; "));
    }
}

fn how(measured: &ExhibitRun) -> String {
    let form = if measured.quick { "short form" } else { "full form" };
    let day = measured.started.get(..10).unwrap_or(&measured.started);
    let (runs, invalid) = measured.runs;
    let invalid = if invalid > 0 { format!(", {invalid} of them invalid") } else { String::new() };
    let left = if measured.runs_left > 0 { format!(", {} not made yet", measured.runs_left) } else { String::new() };
    format!(", {form}, {day}, {runs} runs{invalid}{left}{}", measured.origin.as_ref().map(hashes).unwrap_or_default())
}

/// `, experiment 5e1f0a2b, code 41c6d3e4`.
fn hashes(origin: &Origin) -> String {
    format!(", experiment {}, code {}", origin.experiment, origin.code_hash().as_deref().unwrap_or("not known"))
}

fn row(out: &mut String, claim: &ClaimResult, measured: &ExhibitRun) {
    let ours = claim.value.as_deref().or(claim.why_not.as_deref()).unwrap_or("–");
    let changed = if claim.is_changed { format!(" ({CHANGED})") } else { String::new() };
    let cells = [
        escaped(&claim.text) + &changed,
        escaped(claim.published.as_deref().unwrap_or("–")),
        escaped(ours),
        tally::verdict(claim),
        claim.near.as_ref().map_or_else(|| "–".to_owned(), grade),
        escaped(&measured.told()),
    ];
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// `match: 3.4 (3.1 to 3.8) beside 3.7`.
fn grade(near: &NearResult) -> String {
    let Some((ours, grade)) = near.ours.zip(near.grade()) else {
        return near
            .why_not
            .as_ref()
            .map_or_else(|| "not measured".to_owned(), |why| format!("none: {}", escaped(why)));
    };
    let interval = near.interval.map(|[low, high]| format!(" ({} to {})", shown(low, 3), shown(high, 3)));
    format!("{}: {}{} beside {}", grade.name(), shown(ours, 3), interval.unwrap_or_default(), near.published.told())
}

/// Whether a reader will ask for the cause.
fn wants_cause(claim: &ClaimResult) -> bool {
    tally::has_failed(claim) || matches!(claim.grade, Some(Grade::Direction | Grade::Contrary))
}

/// Text without Markdown of its own, on one line.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\n' => out.push(' '),
            '|' | '*' | '<' | '`' => out.extend(['\\', character]),
            _ => out.push(character),
        }
    }
    out
}
