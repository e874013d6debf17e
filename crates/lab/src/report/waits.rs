//! What the lock manager saw, and attempts that came to nothing.

use maud::{Markup, html};

use super::layout::{self, arm_mark, figure_cell, number, text};
use crate::results::Aborted;
use crate::summary::{Arm, Summary};
use crate::units::{count, duration_us, significant};

/// The section.
pub(super) fn section(summary: &Summary) -> Markup {
    let columns = [
        text("Workload"),
        text("Arm"),
        number("Lock waits"),
        number("Per 1000 requests"),
        number("Mean wait"),
        number("Deadlock victims"),
        number("Preempted"),
        number("Rolled back as prescribed"),
        number("Given up"),
    ];
    layout::section(
        "waits",
        "Locks and aborted attempts",
        html! {
            (layout::table("Counts over all repeats", &columns, html! {
                @for workload in &summary.workloads {
                    @for (name, arm) in workload.arms() {
                        tr {
                            th scope="row" { (workload.name) }
                            td { (arm_mark(name)) }
                            (locks(arm))
                            (aborted(arm))
                        }
                    }
                }
            }))
        },
    )
}

fn locks(arm: &Arm) -> Markup {
    let locks =
        arm.runs.iter().map(|run| run.result.locks).collect::<Option<Vec<_>>>().filter(|locks| !locks.is_empty());
    let waits = locks.as_ref().map(|locks| locks.iter().map(|l| l.waits).sum::<u64>());
    let wait_s = locks.map(|locks| locks.iter().map(|l| l.wait_s).sum::<f64>());
    let completed = arm.runs.iter().map(|run| run.result.completed).sum::<u64>();
    let per_thousand =
        waits.filter(|_| completed > 0).map(|waits| significant(waits as f64 * 1000.0 / completed as f64));
    let mean = waits.zip(wait_s).filter(|(waits, _)| *waits > 0).map(|(waits, s)| duration_us(s * 1e6 / waits as f64));
    html! { (figure_cell(waits.map(count))) (figure_cell(per_thousand)) (figure_cell(mean)) }
}

fn aborted(arm: &Arm) -> Markup {
    let sum = |cause: fn(&Aborted) -> u64| {
        (!arm.runs.is_empty()).then(|| count(arm.runs.iter().map(|run| cause(&run.result.aborted)).sum()))
    };
    html! {
        (figure_cell(sum(|a| a.deadlock)))
        (figure_cell(sum(|a| a.preempted)))
        (figure_cell(sum(|a| a.user)))
        (figure_cell(sum(|a| a.error)))
    }
}
