//! Who gains and who pays under each policy, as text (MW tab. 3.3).

use super::sweep::{interval, named};
use super::wrap;
use crate::results::{PolicyEffect, Results};
use crate::units::{MISSING, percent, value};

/// A line for each policy and class: the least urgent class pays, the others gain. Nothing where no policies were swept.
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
    let heading = format!(
        "Who gains, who pays: mean response times of {} in {} against {}={first}, over {settings} setting{plural}",
        one.workload, one.arm, one.axis
    );
    let mut out = wrap(&heading, "", "  ");
    out.push(format!("  {:<39}{:>8}{:>19}{:>12}", "", "times", "95 % interval", "preempted"));
    let told = |ratio: f64| format!("{ratio:.2}");
    for effect in group {
        let pays = effect.class == last.class;
        let (verb, by) = if pays { ("pays", effect.penalty) } else { ("gains", effect.gain) };
        let preempted = effect.preemptions_per_request.map_or_else(|| MISSING.to_owned(), percent);
        let figures =
            format!("{:<8}{verb:<7}{:>8}{:>19}{preempted:>12}", effect.class, told(by.value), interval(&by, told));
        out.extend(named(&value(&effect.value), 24, &figures));
    }
    out
}
