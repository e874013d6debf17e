//! The cost of each lever of a governor for each class.

use maud::{Markup, html};

use super::page::Page;
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::{duration_us, percent, value};

/// The section; nothing without a governor.
pub(super) fn section_of(page: &Page) -> Markup {
    let levers = &page.results.levers;
    if levers.is_empty() {
        return html! {};
    }
    let columns = [
        text("Arm"),
        text("Setting"),
        text("Class"),
        number("Waited to be let in"),
        number("of time"),
        number("Rolled back, per 100 transactions"),
        number("Work lost, of time"),
        number("Waited for a core, of time"),
        text("Not known because"),
    ];
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
                        (figure_cell(Some(duration_us(used.admission_wait_us))))
                        (figure_cell(used.admission_share.map(percent)))
                        (figure_cell(Some(format!("{:.2}", used.rolled_back_per_transaction * 100.0))))
                        (figure_cell(used.work_lost_share.map(percent)))
                        (figure_cell(used.core_wait_share.map(percent)))
                        td { (used.why_not.join("; ")) }
                    }
                }
            }))
        },
    )
}
