//! Advice as measured: the advised setting and its neighbour, each beside its prediction.

use maud::{Markup, html};

use super::chart::{Chart, Figure, IntervalPanel, IntervalRow, Unit, figure, numbers};
use super::layout::interval;
use super::page::Page;
use crate::results::{Interval, Verified, VerifiedSetting};
use plimsoll_display::page::{Cell, number, section, stacked_table, text};
use plimsoll_display::{duration_us, rate};

/// The section; nothing if no advice was measured.
pub(super) fn section_of(page: &Page) -> Markup {
    let Some(verified) = &page.results.verified else { return html! {} };
    section(
        &page.id("advice"),
        "Advice, measured",
        html! {
            p class="lead" { (verified.sentence) }
            (figure(&page.run(), "Predicted beside measured", "", &drawn(verified), html! {}))
            (numbers("The numbers of the advice", numbers_table(verified)))
        },
    )
}

fn drawn(verified: &Verified) -> Chart {
    let row = |one: &VerifiedSetting, name: &str, interval: Option<Interval>, colour: usize| {
        Some(IntervalRow {
            name: format!("{}={}, {name}", verified.key, one.value),
            detail: String::new(),
            colour,
            floor: None,
            figure: Figure::new(interval?.times(1e3), Vec::new())?,
        })
    };
    let both = |one: &VerifiedSetting| {
        let (predicted, measured) = (one.predicted_ms, one.measured_ms);
        [row(one, "predicted", predicted, 2), row(one, "measured", measured, 1)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
    };
    let rows = verified.settings.iter().flat_map(both).collect();
    Chart::Intervals {
        label: format!("The promised percentile of {}, predicted and measured", verified.slo),
        x: "response time".to_owned(),
        unit: Unit::Duration,
        reference: None,
        panels: vec![IntervalPanel { title: verified.slo.clone(), rows, ..IntervalPanel::default() }],
    }
}

fn numbers_table(verified: &Verified) -> Markup {
    let throughput = |what: &str| format!("{} per s, {what}", verified.maximise);
    let (predicted, measured) = (throughput("predicted"), throughput("measured"));
    let columns = [
        text("Setting"),
        text("Promise"),
        number("Predicted"),
        number("Measured"),
        number(&predicted),
        number(&measured),
    ];
    let time = |ms: f64| duration_us(ms * 1e3);
    let rows = verified.settings.iter().map(|one| {
        vec![
            Cell::text(html! { (verified.key) "=" (one.value) }),
            Cell::text(html! { (one.verdict.words()) @if let Some(why) = &one.why_not { ": " (why) } }),
            interval(one.predicted_ms, time),
            interval(one.measured_ms, time),
            interval(one.predicted_per_s, rate),
            interval(one.measured_per_s, rate),
        ]
    });
    let caption = "The promised percentile and the throughput of the other workload, with 95 % intervals";
    stacked_table(caption, &columns, rows)
}
