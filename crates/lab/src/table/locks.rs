//! What requests of each class met at locks: how often and how long they waited, and what preemption cost them.

use crate::results::LockStatistics;
use crate::summary::{Arm, Workload};
use crate::units::{MISSING, duration_us, percent, significant};

/// Adds a line for each class and arm, and for all classes where there are several. Nothing where no request waited for a
/// lock and none was rolled back, or where that is unknown.
pub(super) fn lines(out: &mut Vec<String>, workload: &Workload, classes: &[&String]) {
    let arms = workload.arms_run();
    let of = |arm: &Arm<'_>, classes: &[&String]| {
        let parts =
            arm.runs.iter().flat_map(|run| classes.iter().filter_map(move |class| run.result.classes.get(*class)));
        // A class whose locks are unknown makes those of all unknown.
        let parts: Option<Vec<&LockStatistics>> = parts.map(|part| part.locks.as_ref()).collect();
        parts.filter(|parts| !parts.is_empty()).map(|parts| LockStatistics::merged(&parts))
    };
    let has_any = |locks: LockStatistics| locks.waits() > 0 || locks.rollbacks > 0;
    if !arms.iter().any(|(_, arm)| of(arm, classes).is_some_and(has_any)) {
        return;
    }
    out.push(format!(
        "  {:<20}{:>9}{:>12}{:>9}{:>11}{:>11}",
        "locks", "waits", "queue time", "of life", "preempted", "work lost"
    ));
    let all = String::from("all");
    let rows =
        std::iter::once((&all, classes)).chain(classes.iter().map(|class| (*class, std::slice::from_ref(class))));
    // A single class is the workload itself.
    for (label, classes) in rows.take(if classes.len() > 1 { classes.len() + 1 } else { 1 }) {
        for (index, (arm, runs)) in arms.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let cells = of(runs, classes).map_or([const { None }; 5], |locks| cells(&locks));
            let [waits, queue_time, share, preempted, lost] =
                cells.map(|cell| cell.unwrap_or_else(|| MISSING.to_string()));
            out.push(format!("    {label:<10}{arm:<8}{waits:>9}{queue_time:>12}{share:>9}{preempted:>11}{lost:>11}"));
        }
    }
}

/// Lock waits per request, mean QueueTime, its share of response time, preemptions per request, work lost at each as a share of
/// the life of an attempt that gets through.
fn cells(locks: &LockStatistics) -> [Option<String>; 5] {
    [
        locks.per_request(locks.waits()).map(significant),
        locks.queue_time_us.mean.map(duration_us),
        locks.queue_time_share.map(percent),
        locks.per_request(locks.preemptions()).map(significant),
        locks.work_lost_share.map(percent),
    ]
}
