//! Time shares: the parts of each workload's response time and, on a server, of its classes and kinds of transaction.

use maud::{Markup, html};

use super::chart::{Chart, ShareBar, figure, numbers, short};
use super::numbers::{key_cells, keyed};
use super::page::{Page, arm_label, setting_label};
use crate::results::{Estimate, Part, TimeShare, most_urgent_first};
use crate::sections::time_share::{DisplayedPart, told};
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::{count, percent};

/// Bars that are drawn.
const BARS_MAX: usize = 40;

/// The shares of a class or kind of transaction, and the looks behind them.
struct Row<'a> {
    estimate: &'a Estimate,
    part: &'a str,
    share: Option<TimeShare>,
    samples: u64,
}

/// The section; nothing if no share is known.
pub(super) fn section_of(page: &Page) -> Markup {
    let estimates = page.all_estimates().into_iter();
    let shares = estimates.filter_map(|e| Some((e, e.measured.all.time_share?))).collect::<Vec<_>>();
    if shares.is_empty() {
        return html! {};
    }
    let told = told(shares.iter().map(|(_, share)| share));
    let bars = shares.iter().map(|(estimate, share)| (estimate.workload.clone(), name_of(page, estimate), *share));
    section(
        &page.id("time-share"),
        "Where time goes",
        html! {
            p class="lead" { "Parts of response time, mean over repeats. What could not be measured is within the last part." }
            (drawn(page, "Parts of response time", &told, bars.collect(), numbers_table(page, &told, &shares)))
            dl class="terms" { @for part in &told { dt { (part.name) } dd { (part.meaning) } } }
            @for workload in page.workloads() { (by_part(page, workload)) }
        },
    )
}

/// Bars by group and name, with their numbers.
fn drawn(
    page: &Page,
    title: &str,
    told: &[&DisplayedPart],
    bars: Vec<(String, String, TimeShare)>,
    table: Markup,
) -> Markup {
    let left_out = bars.len().saturating_sub(BARS_MAX);
    let bar = |(group, name, share): (String, String, TimeShare)| ShareBar {
        group,
        name,
        values: told.iter().map(|part| (part.of)(&share).filter(|part| part.is_finite()).map(short)).collect(),
    };
    let chart = Chart::Shares {
        label: title.to_owned(),
        whole: "response time".to_owned(),
        parts: told.iter().map(|part| part.name.to_owned()).collect(),
        tones: told.iter().map(|part| part.tone).collect(),
        bars: bars.into_iter().take(BARS_MAX).map(bar).collect(),
    };
    let note = if left_out > 0 { format!("{left_out} more bars are in the table only") } else { String::new() };
    figure(&page.run(), title, &note, &chart, numbers("The numbers of time shares", table))
}

fn name_of(page: &Page, estimate: &Estimate) -> String {
    let arm = arm_label(&estimate.arm, &estimate.workload);
    let set = setting_label(&estimate.setting, &page.keys(), None);
    if set.is_empty() { arm } else { format!("{set}, {arm}") }
}

fn numbers_table(page: &Page, told: &[&DisplayedPart], shares: &[(&Estimate, TimeShare)]) -> Markup {
    let has_round_trips =
        shares.iter().any(|(estimate, _)| estimate.measured.round_trip_share.is_some_and(|share| share > 0.0));
    let mut names: Vec<&str> = told.iter().map(|part| part.name).collect();
    names.extend(has_round_trips.then_some("of it round trips"));
    let columns = keyed(page, &names);
    table(
        "Parts of response time, mean over repeats",
        &columns,
        html! {
            @for (estimate, share) in shares {
                tr {
                    (key_cells(page, estimate))
                    @for part in told { (figure_cell((part.of)(share).map(percent))) }
                    @if has_round_trips { (figure_cell(estimate.measured.round_trip_share.map(percent))) }
                    (page.run_links(estimate))
                }
            }
        },
    )
}

/// The classes and kinds of transaction of a workload on a server, with the parts that looks found.
fn by_part(page: &Page, workload: &str) -> Markup {
    let rows: Vec<Row<'_>> = page.estimates(workload).into_iter().flat_map(rows_of).collect();
    if rows.iter().all(|row| row.share.is_none()) {
        return html! {};
    }
    let told = told(rows.iter().filter_map(|row| row.share.as_ref()));
    let bars = rows.iter().filter_map(|row| Some((row.part.to_owned(), name_of(page, row.estimate), row.share?)));
    let mut bars: Vec<_> = bars.collect();
    // One group for each part, across all settings.
    bars.sort_by_key(|(part, ..)| rows.iter().position(|row| row.part == part));
    let title = format!("{workload} by class and kind of transaction");
    let mut columns = vec![text("setting and arm"), text("part"), number("looks")];
    columns.extend(told.iter().map(|part| number(part.name)));
    let table = table(
        &format!("Parts of response time of {title}"),
        &columns,
        html! {
            @for row in &rows {
                tr {
                    td { (name_of(page, row.estimate)) }
                    td { (row.part) }
                    td class="n" { (count(row.samples)) }
                    @for part in &told { (figure_cell(row.share.as_ref().and_then(part.of).map(percent))) }
                }
            }
        },
    );
    drawn(page, &title, &told, bars, table)
}

/// A single class is the workload itself.
fn rows_of(estimate: &Estimate) -> Vec<Row<'_>> {
    let of = |name: &'_ str, parts: &'_ std::collections::BTreeMap<String, Part>| {
        let (part, samples) = parts.get(name).and_then(|part| Some((part, part.samples?)))?;
        Some((part.time_share, samples))
    };
    let classes = most_urgent_first(estimate.measured.classes.keys());
    let classes = classes
        .into_iter()
        .filter(|_| estimate.measured.classes.len() > 1)
        .map(|name| (name, &estimate.measured.classes));
    let kinds = estimate.measured.transactions.keys().map(|name| (name.as_str(), &estimate.measured.transactions));
    let rows = classes.chain(kinds).filter_map(|(part, parts)| {
        let (share, samples) = of(part, parts)?;
        Some(Row { estimate, part, share, samples })
    });
    rows.collect()
}
