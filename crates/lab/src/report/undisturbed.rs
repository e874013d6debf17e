//! What others on the machine did not disturb.

use maud::{Markup, html};

use super::page::{Page, arm_label};
use crate::undisturbed::{of, sentence};
use plimsoll_display::duration_us;
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::range;

/// The section; nothing if others have disturbed nothing.
pub(super) fn section_of(page: &Page) -> Markup {
    let Some(sentence) = sentence(page.results) else { return html! {} };
    let columns = [text("Workload"), text("Arm"), number("Mean"), number("Least to most"), number("Runs")];
    section(
        &page.id("undisturbed"),
        "Others used the machine",
        html! {
            p class="lead" { (sentence) }
            (table("CPU time of a request", &columns, html! {
                @for one in of(page.results) {
                    tr {
                        th scope="row" { (one.workload) }
                        td { (arm_label(&one.arm, &one.workload)) }
                        (figure_cell(Some(duration_us(one.us[1]))))
                        (figure_cell(Some(range(one.us[0], one.us[2], duration_us))))
                        (figure_cell(Some(one.runs.to_string())))
                    }
                }
            }))
        },
    )
}
