//! The cost of each lever of a governor for each class.

use maud::{Markup, html};

use super::page::Page;
use crate::sections::levers::FIGURES;
use plimsoll_display::page::{section, table, text};
use plimsoll_display::{figure_cells, figure_columns, value};

/// The section; nothing without a governor.
pub(super) fn section_of(page: &Page) -> Markup {
    let levers = &page.results.levers;
    if levers.is_empty() {
        return html! {};
    }
    let mut columns = vec![text("Arm"), text("Setting"), text("Class")];
    columns.extend(figure_columns(&FIGURES));
    columns.push(text("Not known because"));
    section(
        &page.id("levers"),
        "Which lever took it",
        html! {
            p class="lead" {
                "What the governor did to each of its classes, per transaction: admission held it back, preemption rolled it back, and a \
                 lower share of the cores made it wait for a core."
            }
            (table("Admission, rollbacks and waiting for a core, by class", &columns, html! {
                @for used in levers {
                    tr {
                        th scope="row" { (used.arm) }
                        td { @for (position, (key, set)) in used.setting.iter().enumerate() { @if position > 0 { ", " } (key) "=" (value(set)) } }
                        td { (used.class) }
                        (figure_cells(&FIGURES, used))
                        td { (used.why_not.join("; ")) }
                    }
                }
            }))
        },
    )
}
