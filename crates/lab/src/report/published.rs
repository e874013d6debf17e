//! Published figures and ours, exhibit by exhibit.

use maud::{Markup, html};

use super::chart::{Chart, Figure, IntervalPanel, IntervalRow, Reference, Unit, figure, numbers};
use super::layout::interval_cell;
use super::page::Page;
use crate::claim::grade::{Grade, Published};
use crate::claim::shown;
use crate::results::{ClaimResult, Interval, NearResult};
use plimsoll_display::list;
use plimsoll_display::page::{figure_cell, number, section, table, text};

/// Rows of one chart; the table has all.
const ROWS_MAX: usize = 60;

/// A claim with a published figure.
struct Row<'a> {
    exhibit: &'a str,
    claim: &'a ClaimResult,
    near: &'a NearResult,
}

/// The section of one document or of several; nothing if no claim has a published figure.
pub(super) fn section_of(id: &str, pages: &[Page]) -> Markup {
    let rows: Vec<Row<'_>> = pages.iter().flat_map(|page| rows_of(page)).collect();
    let [first, ..] = pages else { return html! {} };
    if rows.is_empty() {
        return html! {};
    }
    section(
        id,
        "Published and ours",
        html! {
            p class="lead" {
                "Our figure over the published one, or over the nearer end of what was published, with the 95 % interval of ours. \
                 On the dashed line both are equal. "
                (counted(&rows)) "."
            }
            (drawn(first, &rows))
            (numbers("The published figures and ours", numbers_table(&rows)))
        },
    )
}

fn rows_of<'a>(page: &Page<'a>) -> Vec<Row<'a>> {
    let experiment = &page.results.experiment;
    let row = |claim: &'a ClaimResult| Some(Row { exhibit: &experiment.name, claim, near: claim.near.as_ref()? });
    page.results.claims.iter().filter_map(row).collect()
}

/// `match: 3; direction: 1; contrary: 0; not graded: 1`.
fn counted(rows: &[Row]) -> String {
    let count = |grade| rows.iter().filter(|row| row.near.grade() == grade).count();
    let told = |grade: Grade| format!("{}: {}", grade.name(), count(Some(grade)));
    let mut parts: Vec<String> = Grade::ALL.map(told).into();
    parts.push(format!("not graded: {}", count(None)));
    list(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Our figure over the published one; `None` if either has no logarithm.
fn times(near: &NearResult) -> Option<Interval> {
    let ours = near.ours.filter(|ours| *ours > 0.0)?;
    let published = nearest(near.published, ours);
    let times = |figure: f64| figure / published;
    let end = |end: usize| near.interval.map(|ends| ends[end]).filter(|end| *end > 0.0).map(times);
    (published > 0.0).then(|| Interval { value: times(ours), low: end(0), high: end(1) })
}

/// The nearest published figure: ours itself if it lies within a published range.
fn nearest(published: Published, ours: f64) -> f64 {
    ours.clamp(published.low, published.high.unwrap_or(f64::INFINITY).max(published.low))
}

fn drawn<'a>(page: &Page, rows: &[Row<'a>]) -> Markup {
    let row = |row: &Row<'a>| {
        let grade = row.near.grade()?;
        let colour = match grade {
            Grade::Match => 3,
            Grade::Direction => 2,
            Grade::Contrary => 1,
        };
        let detail = format!("{}: {} beside {}", grade.name(), shown(row.near.ours?, 3), row.near.published.told());
        let figure = Figure::new(times(row.near)?, Vec::new())?;
        Some((row.exhibit, IntervalRow { name: row.claim.text.clone(), detail, colour, floor: None, figure }))
    };
    let drawn: Vec<(&str, IntervalRow)> = rows.iter().filter_map(row).take(ROWS_MAX).collect();
    if drawn.is_empty() {
        return html! {};
    }
    let panels = drawn.chunk_by(|one, next| one.0 == next.0).map(|group| IntervalPanel {
        row: group[0].0.to_owned(),
        title: String::new(),
        rows: group.iter().map(|(_, row)| row.clone()).collect(),
    });
    let chart = Chart::Intervals {
        label: "Our figures over the published ones".to_owned(),
        x: "times as large as published".to_owned(),
        unit: Unit::Times,
        reference: Some(Reference { value: 1.0, floor: None, label: "dashed: as published".to_owned() }),
        panels: panels.collect(),
    };
    let left_out = rows.len() - drawn.len();
    let note = if left_out > 0 { format!("{left_out} more are in the table only") } else { String::new() };
    figure(&page.run(), "Ours over the published", &note, &chart, html! {})
}

fn numbers_table(rows: &[Row]) -> Markup {
    let columns = [
        text("Exhibit"),
        text("Claim"),
        text("Of ours"),
        number("Ours"),
        number("Published"),
        number("Ours over published"),
        text("Grade"),
    ];
    let three_digits = |figure: f64| shown(figure, 3);
    table(
        "Our figures with 95 % intervals beside the published ones",
        &columns,
        html! {
            @for row in rows {
                @let near = row.near;
                @let [low, high] = near.interval.map_or([None; 2], |ends| ends.map(Some));
                tr {
                    th scope="row" { (row.exhibit) }
                    td class="words" { (row.claim.text) }
                    td class="words" { code { (near.expression) } }
                    (interval_cell(near.ours.map(|value| Interval { value, low, high }), three_digits))
                    td class="n" { (near.published.told()) }
                    (figure_cell(times(near).map(|times| three_digits(times.value))))
                    td class="words" {
                        @match near.grade() {
                            Some(grade) => (grade.name()),
                            None => { "not graded: " (near.why_not.as_deref().unwrap_or("ours was not measured")) }
                        }
                    }
                }
            }
        },
    )
}
