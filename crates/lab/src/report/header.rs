//! The top of a document: the workloads, the place and time, the results, and warnings.

use maud::{Markup, html};
use plimsoll_machine::describe;

use super::page::{Page, arm_label};
use crate::results::{ClaimVerdict, Finding, Mode, Results};
use plimsoll_display::{counted, list, seconds};

/// The number of warnings that are shown unfolded.
const WARNINGS_OPEN: usize = 3;

/// Ratios that the verdict names.
const RATIOS_MAX: usize = 4;

/// Workloads that are described one by one.
const NAMES_MAX: usize = 4;

/// The title of a document.
pub(super) fn title(results: &Results) -> String {
    match (&results.experiment.title, results.experiment.workloads.as_slice()) {
        (Some(title), _) => title.clone(),
        (None, []) => results.experiment.name.clone(),
        (None, [only]) => format!("{only} alone"),
        (None, names) => {
            let names = names.iter().map(String::as_str).collect::<Vec<_>>();
            format!("{}, alone and together", list(&names))
        }
    }
}

/// Name, machine, time and verdict.
pub(super) fn header(page: &Page, is_only: bool) -> Markup {
    let results = page.results;
    html! {
        header {
            p class="eyebrow" {
                "Plimsoll · " (results.experiment.name)
                @if let Some(study) = &results.experiment.study { " · study " (study) }
            }
            @if is_only { h1 { (title(results)) } } @else { h2 { (title(results)) } }
            p class="meta" { (who(results)) ". " (place_and_time(results)) }
            (verdict_list(page))
        }
    }
}

/// `oltp (tpcc, 100 clients) and olap (tpch, 1 client)`.
fn who(results: &Results) -> String {
    let names = &results.experiment.workloads;
    if names.len() > NAMES_MAX {
        let names = names.iter().map(String::as_str).collect::<Vec<_>>();
        return format!("{} workloads: {}", names.len(), list(&names));
    }
    let mut told: Vec<String> = Vec::new();
    for name in names {
        let ran = results.points.iter().flat_map(|point| &point.workloads).filter(|w| w.name == *name);
        let ran = ran.collect::<Vec<_>>();
        let Some(first) = ran.first() else {
            told.push(name.clone());
            continue;
        };
        let (least, most) =
            ran.iter().fold((first.clients, first.clients), |(a, b), w| (a.min(w.clients), b.max(w.clients)));
        let who = results.mode.who();
        let clients = match (least, most) {
            (least, most) if least == most => counted(most, who),
            (least, most) => format!("{least} to {most} {who}s"),
        };
        told.push(format!("{name} ({}, {clients})", first.kind));
    }
    if told.is_empty() { "No workload".to_owned() } else { list(&told.iter().map(String::as_str).collect::<Vec<_>>()) }
}

/// A time as people read it.
pub(super) fn time(iso: &str) -> String {
    iso.replace('T', " ").replace('Z', " UTC")
}

fn place_and_time(results: &Results) -> Markup {
    let machine = &results.machine;
    let invalid = results.points.iter().filter(|point| !point.valid).count();
    let runs = results.points.len();
    html! {
        @if results.mode == Mode::Simulated { "Simulated, not measured. The simulator ran on " }
        @if results.mode == Mode::SimulatedProcessor { "Counted on a simulated processor, whose speeds mean nothing. It ran on " }
        (machine.cpu_model) ", " (describe::usable_cores(machine))
        @if let Some(host) = &machine.virtualised { ", " (host) }
        ". " (runs) @if runs == 1 { " run" } @else { " runs" }
        @if invalid > 0 { ", " (invalid) " invalid and left out" }
        ", " (seconds(results.elapsed_s)) " in all, begun "
        time datetime=(results.started) { (time(&results.started)) }
        ". Plimsoll " (results.plimsoll)
        @if let Some(commit) = &results.commit { ", commit " code { (commit) } }
        "."
    }
}

/// The verdict as a list; nothing if no claim was judged.
pub(super) fn verdict_list(page: &Page) -> Markup {
    let verdict = verdict(page);
    if verdict.is_empty() {
        return html! {};
    }
    html! { ul class="verdict" { @for (class, words) in verdict { li class=(class) { (words) } } } }
}

/// The results, in a few words each, with the class that colours them.
fn verdict(page: &Page) -> Vec<(&'static str, String)> {
    let results = page.results;
    let mut out = Vec::new();
    let [held, failed, undecided, open] = ClaimVerdict::ALL.map(|verdict| results.count_claims(verdict));
    if held > 0 {
        out.push(("good", format!("{held} of {} claims hold", results.claims.len())));
    }
    if failed > 0 {
        out.push(("bad", format!("{failed} {}", if failed == 1 { "fails" } else { "fail" })));
    }
    if undecided > 0 {
        out.push(("", format!("{undecided} undecided")));
    }
    if open > 0 {
        out.push(("", format!("{open} not judged")));
    }
    if let Some(checks) = &results.checks {
        let bad = checks.iter().filter(|check| check.holds == Some(false)).count();
        let good = checks.iter().filter(|check| check.holds == Some(true)).count();
        let class = if bad > 0 { "bad" } else { "good" };
        out.push((class, format!("{good} of {} checks of the data passed", checks.len())));
    }
    if results.experiment.sweep.is_empty() && results.interference.len() <= RATIOS_MAX {
        for found in results.interference.iter().filter(|found| found.ratio.value.is_finite()) {
            let class = if found.finding == Finding::Slower { "bad" } else { "" };
            let arm = arm_label(&found.arm, &found.workload);
            let words = found.finding.words();
            out.push((class, format!("{} {arm}: {:.2} of alone, {words}", found.workload, found.ratio.value)));
        }
    }
    out
}

/// Warnings, folded if there are many.
pub(super) fn warnings(page: &Page) -> Markup {
    let warnings = &page.results.warnings;
    if warnings.is_empty() {
        return html! {};
    }
    let told = html! { ul { @for warning in warnings { li { (warning) } } } };
    html! {
        section id=(page.id("warnings")) class="warnings" {
            @if warnings.len() <= WARNINGS_OPEN {
                h2 { "Read with care" }
                (told)
            } @else {
                details { summary { h2 { "Read with care: " (warnings.len()) " warnings" } } (told) }
            }
        }
    }
}

/// The advice; the first sentence is the headline.
pub(super) fn advice(page: &Page) -> Markup {
    let Some((headline, more)) = page.results.advice.split_first() else { return html! {} };
    html! {
        section id=(page.id("findings")) class="findings" {
            h2 { "What it means" }
            p class="headline" { (headline) }
            @if !more.is_empty() { ul class="advice" { @for sentence in more { li { (sentence) } } } }
        }
    }
}
