//! The difference that two settings must exceed to be significant.

use maud::{Markup, html};

use super::page::Page;
use plimsoll_display::fine_percent;
use plimsoll_display::page::{figure_cell, number, section, table, text};

/// The section; nothing if noise was not estimated.
pub(super) fn section_of(page: &Page) -> Markup {
    let noise = &page.results.noise_floor;
    if noise.is_empty() {
        return html! {};
    }
    let columns = [
        text("Workload"),
        number("Noise floor"),
        number("Deviation of one run"),
        number("Degrees of freedom"),
        number("Same setting run twice"),
    ];
    section(
        &page.id("noise"),
        "Noise floor",
        html! {
            p class="lead" {
                "Two settings whose mean throughputs differ by less than the noise floor cannot be told apart. It follows from how \
                 repeats of the same setting differ; the last column is what running one setting twice in each block showed."
            }
            (table("Relative differences of throughput", &columns, html! {
                @for (workload, noise) in noise {
                    tr {
                        th scope="row" { (workload) }
                        (figure_cell(noise.floor.map(fine_percent)))
                        (figure_cell(noise.deviation.map(fine_percent)))
                        td class="n" { (noise.degrees_of_freedom) }
                        (figure_cell(noise.repeated_setting.map(fine_percent)))
                    }
                }
            }))
            @if noise.values().any(|noise| noise.floor.is_none()) {
                p class="note" { "A dash is what fewer than two repeats cannot tell." }
            }
        },
    )
}
