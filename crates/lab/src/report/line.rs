//! Isolation: the share of its speed alone that each workload keeps with every setting that a study has tried.

use maud::{Markup, html};

use super::chart::{Chart, Figure, IntervalPanel, IntervalRow, Reference, Unit, figure, numbers};
use super::layout::interval_cell;
use super::page::Page;
use crate::results::{Isolation, KeptShare, Line, LineStanding};
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::percent;
use plimsoll_display::ratio;

/// The section; nothing if no setting was tried.
pub(super) fn section_of(page: &Page) -> Markup {
    let Some(line) = &page.results.line else { return html! {} };
    let how = line.best.map(|at| &line.tried[at].how[..]).unwrap_or_default();
    section(
        &page.id("line"),
        "The line",
        html! {
            p class="lead" { (line.sentence) }
            @for one in how { p { code { (one) } } }
            (figure(&page.run(), "What is left of the speed alone", "", &drawn(line), html! {}))
            (numbers("The numbers of the line", numbers_table(line)))
        },
    )
}

/// A panel for each workload, a row for each setting that was measured.
fn drawn(line: &Line) -> Chart {
    let names = line.tried.first().map(|one| one.kept.iter().map(|kept| kept.workload.as_str()).collect::<Vec<_>>());
    let panel = |name: &str| {
        let row = |one: &Isolation| {
            let kept = one.kept.iter().find(|kept| kept.workload == name)?;
            Some(IntervalRow {
                name: one.words.clone(),
                detail: if name == line.protect { words(one.standing).to_owned() } else { String::new() },
                colour: if name == line.protect { 1 } else { 2 },
                floor: None,
                figure: Figure::new(kept.throughput, Vec::new())?,
            })
        };
        let rows = line.tried.iter().filter_map(row).collect();
        IntervalPanel { title: name.to_owned(), rows, ..IntervalPanel::default() }
    };
    Chart::Intervals {
        label: "Throughput over throughput alone, by what isolates".to_owned(),
        x: "of throughput alone".to_owned(),
        unit: Unit::Ratio,
        reference: Some(Reference {
            value: line.slo,
            floor: None,
            label: format!("dashed: the {} that {} is to keep", percent(line.slo), line.protect),
        }),
        panels: names.unwrap_or_default().into_iter().map(panel).collect(),
    }
}

fn words(standing: Option<LineStanding>) -> &'static str {
    match standing {
        Some(LineStanding::Kept) => "keeps it",
        Some(LineStanding::Broken) => "does not keep it",
        Some(LineStanding::Undecided) => "undecided",
        None => "not measured",
    }
}

fn numbers_table(line: &Line) -> Markup {
    let columns = [
        text("Setting"),
        text("Protected"),
        text("Workload"),
        number("Throughput, of alone"),
        number("1 / p95, of alone"),
        number("Throughput as predicted"),
    ];
    let predicted = |one: &Isolation, name: &str| figure_cell(one.predicted.get(name).map(|keeps| ratio(*keeps)));
    table(
        "What each workload keeps of its speed alone, with 95 % intervals over all settings that were measured",
        &columns,
        html! {
            @for one in &line.tried {
                @for kept in &one.kept { (row(one, kept, &predicted(one, &kept.workload))) }
                @if one.kept.is_empty() {
                    @for name in one.predicted.keys() {
                        tr {
                            th scope="row" { (one.words) }
                            td { (words(None)) }
                            td { (name) }
                            (interval_cell(None, ratio))
                            (interval_cell(None, ratio))
                            (predicted(one, name))
                        }
                    }
                }
            }
        },
    )
}

fn row(one: &Isolation, kept: &KeptShare, predicted: &Markup) -> Markup {
    html! {
        tr {
            th scope="row" { (one.words) }
            td { (words(one.standing)) }
            td { (kept.workload) }
            (interval_cell(Some(kept.throughput), ratio))
            (interval_cell(kept.p95, ratio))
            (predicted)
        }
    }
}
