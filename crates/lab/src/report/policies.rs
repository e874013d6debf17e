//! The effect of each policy on the response times of each class: which gains and which loses (MW tab. 3.3).

use maud::{Markup, html};

use super::chart::{Chart, Figure, IntervalPanel, IntervalRow, Reference, Unit, figure, numbers};
use super::layout::interval_cell;
use super::page::{Page, arm_label};
use crate::results::PolicyEffect;
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::ratio;
use plimsoll_display::{percent, value};

/// The section; nothing if no policies were swept, or no workload has classes.
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
                 95 % intervals. A class gains as many times as its response time is shorter, and pays or loses as many times as it is longer. \
                 Where an interval contains 1, no difference was seen."
            }
            div class="figures" { @for group in effects.chunk_by(PolicyEffect::is_beside) { (drawn(page, group)) } }
            (numbers("The numbers of policies", numbers_table(page)))
        },
    )
}

/// The policy with which all others are compared.
fn first(page: &Page, axis: &str) -> String {
    let axis = page.results.experiment.sweep.iter().find(|swept| swept.key == axis);
    axis.and_then(|axis| axis.values.first()).map_or_else(|| "the first policy".to_owned(), value)
}

/// The policies of one sweep key in one arm: how much longer the response times of the least urgent class are, and how
/// much shorter those of the others.
fn drawn(page: &Page, group: &[PolicyEffect]) -> Markup {
    let [one, ..] = group else { return html! {} };
    let [.., last] = group else { return html! {} };
    let members: Vec<&PolicyEffect> = group.iter().filter(|effect| effect.value == one.value).collect();
    let panel = |member: &&PolicyEffect| {
        let pays = member.is_least_urgent(last);
        let row = |effect: &PolicyEffect| {
            let interval = if pays { effect.penalty } else { effect.gain };
            let preempted = effect.preemptions_per_request.filter(|share| *share > 0.0);
            let preempted = preempted.map_or_else(String::new, |share| format!(", {} preempted", percent(share)));
            Some(IntervalRow {
                name: value(&effect.value),
                detail: format!("{}{preempted}", effect.seen(pays).0),
                colour: if pays { 1 } else { 2 },
                floor: None,
                figure: Figure::new(interval, Vec::new())?,
            })
        };
        let is_same = |effect: &&PolicyEffect| effect.who() == member.who();
        let rows = group.iter().filter(is_same).filter_map(row).collect();
        let title = format!("{}: times {}", member.who(), if pays { "longer" } else { "shorter" });
        IntervalPanel { title, rows, ..IntervalPanel::default() }
    };
    let label = format!("as under {}", first(page, &one.axis));
    let whose = if one.across_workloads { one.arm.clone() } else { one.workload.clone() };
    let chart = Chart::Intervals {
        label: format!("What {} does to the classes of {whose}", one.axis),
        x: "times".to_owned(),
        unit: Unit::Ratio,
        reference: Some(Reference { value: 1.0, floor: None, label }),
        panels: members.iter().map(panel).collect(),
    };
    let title = if one.across_workloads { whose } else { format!("{whose}, {}", arm_label(&one.arm, &one.workload)) };
    figure(&page.run(), &title, &settings(one), &chart, html! {})
}

/// Each effect of a group with its direction.
fn with_seen(group: &[PolicyEffect]) -> impl Iterator<Item = (&PolicyEffect, &'static str)> {
    group.iter().map(|effect| (effect, effect.seen(group.last().is_some_and(|last| effect.is_least_urgent(last))).0))
}

/// The number of settings it covers.
fn settings(effect: &PolicyEffect) -> String {
    let all = effect.settings + effect.settings_left_out;
    format!("over {}", plimsoll_display::of(effect.settings, all, "setting"))
}

fn numbers_table(page: &Page) -> Markup {
    let columns = [
        text("Workload"),
        text("Arm"),
        text("Policy"),
        text("Against"),
        text("Class"),
        text("Seen"),
        number("Gain, times"),
        number("Penalty, times"),
        number("Preempted, per 100 requests"),
        text("Settings"),
    ];
    table(
        "Response time under the first policy over that under each (gain), and the inverse (penalty), with 95 % intervals",
        &columns,
        html! {
            @for (effect, seen) in page.results.policies.chunk_by(PolicyEffect::is_beside).flat_map(with_seen) {
                tr {
                    th scope="row" { (effect.workload) }
                    td { (arm_label(&effect.arm, &effect.workload)) }
                    td { (effect.axis) " " (value(&effect.value)) }
                    td { (first(page, &effect.axis)) }
                    td { (effect.class) }
                    td { (seen) }
                    (interval_cell(Some(effect.gain), ratio))
                    (interval_cell(Some(effect.penalty), ratio))
                    (figure_cell(effect.preemptions_per_request.map(|share| format!("{:.2}", share * 100.0))))
                    td { (settings(effect)) }
                }
            }
        },
    )
}
