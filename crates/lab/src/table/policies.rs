//! The effect of each policy on each class: which gains and which loses, as text (MW tab. 3.3).

use super::sweep::{named, range};
use crate::results::{PolicyEffect, Results};
use plimsoll_display::wrap;
use plimsoll_display::{MISSING, distinct, list, percent, value};

/// A line for each policy and class, with its effect. Nothing if no policies were swept.
pub(super) fn lines(results: &Results) -> Vec<String> {
    let mut out = Vec::new();
    for group in results.policies.chunk_by(PolicyEffect::is_beside) {
        out.push(String::new());
        out.extend(of_group(results, group));
    }
    out
}

fn of_group(results: &Results, group: &[PolicyEffect]) -> Vec<String> {
    let (Some(one), Some(last)) = (group.first(), group.last()) else { return Vec::new() };
    let axis = results.experiment.sweep.iter().find(|axis| axis.key == one.axis);
    let first = axis.and_then(|axis| axis.values.first()).map_or_else(|| "the first".to_owned(), value);
    let all = one.settings + one.settings_left_out;
    let settings = if one.settings_left_out > 0 { format!("{} of {all}", one.settings) } else { all.to_string() };
    let plural = if all == 1 { "" } else { "s" };
    let workloads = distinct(group.iter().map(|effect| effect.workload.as_str()));
    let heading = format!(
        "Who gains, who pays: mean response times of {} in {} against {}={first}, over {settings} setting{plural}",
        list(&workloads),
        one.arm,
        one.axis
    );
    let mut out = wrap(&heading, "", "  ");
    out.push(format!("  {:<22}{:<19}{:>8}{:>18}{:>11}", "", "", "times", "95 % interval", "preempted"));
    let told = |ratio: f64| format!("{ratio:.2}");
    for of_policy in group.chunk_by(|one, other| one.value == other.value) {
        out.push(format!("  {}", value(&of_policy[0].value)));
        for effect in of_policy {
            let (verb, by) = effect.seen(effect.is_least_urgent(last));
            let preempted = effect.preemptions_per_request.map_or_else(|| MISSING.to_owned(), percent);
            let figures = format!("{verb:<19}{:>8}{:>18}{preempted:>11}", told(by.value), range(Some(by), told));
            out.extend(named(&format!("  {}", effect.who()), 22, &figures));
        }
    }
    out
}
