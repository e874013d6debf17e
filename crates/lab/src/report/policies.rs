//! Who gains and who pays: what each policy does to the response times of each class (MW tab. 3.3).

use maud::{Markup, html};

use super::chart::{Chart, Figure, IntervalPanel, IntervalRow, Reference, Unit, figure, numbers};
use super::layout::{figure_cell, interval_cell, number, ratio, section, table, text};
use super::page::{Page, arm_label};
use crate::results::PolicyEffect;
use crate::units::{percent, value};

/// The section; nothing where no policies were swept, or no workload has classes.
pub(super) fn section_of(page: &Page) -> Markup {
    let effects = &page.results.policies;
    if effects.is_empty() {
        return html! {};
    }
    section(
        &page.id("policies"),
        "Who gains, who pays",
        html! {
            p class="lead" {
                "Mean response time against that under the first policy, averaged over the settings of what else was swept, with \
                 95 % intervals. A class gains as many times as its response time is shorter, and pays as many times as it is longer."
            }
            div class="figures" { @for group in effects.chunk_by(PolicyEffect::is_beside) { (drawn(page, group)) } }
            (numbers("The numbers of policies", numbers_table(page)))
        },
    )
}

/// The policy that all others are put against.
fn first(page: &Page, axis: &str) -> String {
    let axis = page.results.experiment.sweep.iter().find(|swept| swept.key == axis);
    axis.and_then(|axis| axis.values.first()).map_or_else(|| "the first policy".to_owned(), value)
}

/// The policies of one sweep key on one workload in one arm: the least urgent class pays, the others gain.
fn drawn(page: &Page, group: &[PolicyEffect]) -> Markup {
    let [one, ..] = group else { return html! {} };
    let classes: Vec<&str> = group.iter().filter(|e| e.value == one.value).map(|e| e.class.as_str()).collect();
    let panel = |(position, class): (usize, &&str)| {
        let pays = position + 1 == classes.len();
        let row = |effect: &PolicyEffect| {
            let interval = if pays { effect.penalty } else { effect.gain };
            let detail = effect.preemptions_per_request.filter(|share| *share > 0.0);
            Some(IntervalRow {
                name: value(&effect.value),
                detail: detail.map_or_else(String::new, |share| format!("{} preempted", percent(share))),
                colour: if pays { 1 } else { 2 },
                floor: None,
                figure: Figure::new(interval, Vec::new())?,
            })
        };
        let rows = group.iter().filter(|effect| effect.class == **class).filter_map(row).collect();
        let title = format!("{class} {}", if pays { "pays" } else { "gains" });
        IntervalPanel { row: String::new(), title, rows }
    };
    let label = format!("as under {}", first(page, &one.axis));
    let chart = Chart::Intervals {
        label: format!("What {} does to the classes of {}", one.axis, one.workload),
        x: "times".to_owned(),
        unit: Unit::Ratio,
        reference: Some(Reference { value: 1.0, floor: None, label }),
        panels: classes.iter().enumerate().map(panel).collect(),
    };
    let title = format!("{}, {}", one.workload, arm_label(&one.arm, &one.workload));
    figure(&page.run(), &title, &settings(one), &chart, html! {})
}

/// Over how many settings it is.
fn settings(effect: &PolicyEffect) -> String {
    let all = effect.settings + effect.settings_left_out;
    format!("over {}", super::layout::of(effect.settings, all, "setting"))
}

fn numbers_table(page: &Page) -> Markup {
    let columns = [
        text("Workload"),
        text("Arm"),
        text("Policy"),
        text("Against"),
        text("Class"),
        number("Gains, times"),
        number("Pays, times"),
        number("Preempted, per 100 requests"),
        text("Settings"),
    ];
    table(
        "Response time under the first policy over that under each (gain), and the inverse (penalty), with 95 % intervals",
        &columns,
        html! {
            @for effect in &page.results.policies {
                tr {
                    th scope="row" { (effect.workload) }
                    td { (arm_label(&effect.arm, &effect.workload)) }
                    td { (effect.axis) " " (value(&effect.value)) }
                    td { (first(page, &effect.axis)) }
                    td { (effect.class) }
                    (interval_cell(Some(effect.gain), ratio))
                    (interval_cell(Some(effect.penalty), ratio))
                    (figure_cell(effect.preemptions_per_request.map(|share| format!("{:.2}", share * 100.0))))
                    td { (settings(effect)) }
                }
            }
        },
    )
}
