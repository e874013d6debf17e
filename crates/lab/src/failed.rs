//! What failed: requests that were given up, attempts that were run again, and runs that are invalid. It stands before every
//! figure, because a throughput beside many failures is that of another workload.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::results::{Aborted, FailedRequests, Point, WorkloadMeasurement, WorkloadResult};
use plimsoll_display::{count, distinct, fine_percent};

/// Requests of a workload in one arm at one setting, over all runs, the invalid ones included.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FailureCounts<'a> {
    pub(crate) setting: &'a BTreeMap<String, Value>,
    pub(crate) arm: &'a str,
    pub(crate) workload: &'a str,
    /// Requests that were completed. A count.
    pub(crate) completed: u64,
    /// Attempts that were rolled back, and requests that failed.
    pub(crate) aborted: Aborted,
    /// Why they failed, the most frequent reason first; empty in results of versions that did not record it.
    pub(crate) reasons: Vec<FailedRequests>,
}

impl<'a> FailureCounts<'a> {
    /// Every workload of every arm and setting, in the order in which they first ran.
    pub(crate) fn all(points: &'a [Point]) -> Vec<FailureCounts<'a>> {
        let mut found: Vec<(FailureCounts<'a>, Vec<&'a WorkloadResult>)> = Vec::new();
        for (point, result) in points.iter().flat_map(|point| point.workloads.iter().map(move |of| (point, of))) {
            let new = FailureCounts {
                setting: &point.setting,
                arm: &point.arm,
                workload: &result.name,
                completed: 0,
                aborted: Aborted::default(),
                reasons: Vec::new(),
            };
            let is_known = |(known, _): &(FailureCounts<'_>, _)| known.cell() == new.cell();
            let position = found.iter().position(is_known).unwrap_or_else(|| {
                found.push((new, Vec::new()));
                found.len() - 1
            });
            found[position].1.push(result);
        }
        let merged = |(cell, runs): (FailureCounts<'a>, Vec<&WorkloadResult>)| {
            let mut aborted = Aborted::default();
            runs.iter().for_each(|run| aborted.add(&run.aborted));
            let completed = runs.iter().map(|run| run.all.completed).sum();
            let reasons = FailedRequests::merged(runs.iter().flat_map(|run| &run.failed));
            FailureCounts { completed, aborted, reasons, ..cell }
        };
        found.into_iter().map(merged).collect()
    }

    /// Those of which requests failed, the largest share first.
    pub(crate) fn with_failures(points: &'a [Point]) -> Vec<FailureCounts<'a>> {
        let mut failed = FailureCounts::all(points);
        failed.retain(|cell| cell.aborted.error > 0);
        failed.sort_by(|a, b| b.share().total_cmp(&a.share()));
        failed
    }

    /// The place of these requests among all of an experiment.
    pub(crate) fn cell(&self) -> (&'a BTreeMap<String, Value>, &'a str, &'a str) {
        (self.setting, self.arm, self.workload)
    }

    /// Requests that ended, well or not. A count.
    pub(crate) fn ended(&self) -> u64 {
        self.completed + self.aborted.error
    }

    /// Failed requests as a share of those that ended, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        share(self.completed, self.aborted.error)
    }

    /// `12,345 of 37,035 requests failed (33.3 %)`.
    pub(crate) fn told(&self) -> String {
        told(self.completed, self.aborted.error)
    }
}

fn share(completed: u64, failed: u64) -> f64 {
    failed as f64 / (completed + failed).max(1) as f64
}

fn told(completed: u64, failed: u64) -> String {
    let (failed_told, all) = (count(failed), count(completed + failed));
    format!("{failed_told} of {all} requests failed ({})", fine_percent(share(completed, failed)))
}

/// `22012 division by zero`: the code, if there is one, and the words.
pub(crate) fn reason(failed: &FailedRequests) -> String {
    failed.code.iter().map(|code| format!("{code} ")).collect::<String>() + &failed.message
}

/// `, most of them with 22012 division by zero`; nothing if no reason is known.
fn mostly(reasons: &[FailedRequests]) -> String {
    reasons.first().map_or_else(String::new, |first| format!(", most of them with {}", reason(first)))
}

/// Why a run is invalid of which a larger share of requests failed than allowed.
pub(crate) fn too_many(measured: &WorkloadMeasurement, failed_max: f64) -> Option<String> {
    let (completed, failed) = (measured.all.completed, measured.aborted.error);
    if failed == 0 || share(completed, failed) <= failed_max {
        return None;
    }
    let why = mostly(&measured.failed);
    Some(format!(
        "{}: {}{why}; `failed_max` of [run] allows {}: mend the requests, or raise it if failures are part of the workload",
        measured.name,
        told(completed, failed),
        fine_percent(failed_max)
    ))
}

/// Why a run is invalid in which no request of a workload completed.
pub(crate) fn idle(measured: &WorkloadMeasurement) -> String {
    let told = format!("no request of {} completed within the window", measured.name);
    let attempts: u64 = measured.run_again.iter().map(|reason| reason.count).sum();
    let Some(first) = measured.run_again.first() else { return format!("{told}; make the window longer") };
    let most = if first.count == attempts { "all" } else { "most" };
    format!(
        "{told}: {} attempts were run again, {most} of them after {}; use fewer clients, or requests that conflict less",
        count(attempts),
        reason(first)
    )
}

/// `12 deadlock victims, 3 conflicts`: attempts of which the request was run again; `None` without any.
fn run_again(aborted: &Aborted) -> Option<String> {
    let kinds = [
        (aborted.deadlock, "deadlock victim", "deadlock victims"),
        (aborted.preempted, "preempted", "preempted"),
        (aborted.conflict, "conflict", "conflicts"),
    ];
    let some = kinds.iter().filter(|(number, ..)| *number > 0);
    let told = some.map(|(number, one, many)| format!("{} {}", count(*number), if *number == 1 { one } else { many }));
    Some(told.collect::<Vec<_>>().join(", ")).filter(|told| !told.is_empty())
}

/// `w: 12 deadlock victims beside 15 completed requests`, for each workload of which attempts were run again.
pub(crate) fn told_again(points: &[Point]) -> Vec<String> {
    let told = |(workload, aborted, completed): (&str, Aborted, u64)| {
        Some(format!("{workload}: {} beside {} completed requests", run_again(&aborted)?, count(completed)))
    };
    attempts_run_again(points).into_iter().filter_map(told).collect()
}

/// The attempts that were run again of each workload, over all of its arms and settings, with the requests completed.
fn attempts_run_again(points: &[Point]) -> Vec<(&str, Aborted, u64)> {
    let mut all: Vec<(&str, Aborted, u64)> = Vec::new();
    for result in points.iter().flat_map(|point| &point.workloads) {
        let position = all.iter().position(|(name, ..)| *name == result.name).unwrap_or_else(|| {
            all.push((&result.name, Aborted::default(), 0));
            all.len() - 1
        });
        all[position].1.add(&result.aborted);
        all[position].2 += result.all.completed;
    }
    all.retain(|(_, aborted, _)| run_again(aborted).is_some());
    all
}

/// What failed in the runs on which predictions rest, in sentences: requests, attempts that were run again, and invalid runs.
pub(crate) fn cautions(points: &[Point]) -> Vec<String> {
    let names = distinct(points.iter().flat_map(|point| &point.workloads).map(|result| result.name.as_str()));
    let failed = names.into_iter().filter_map(|name| {
        let runs = || points.iter().flat_map(|point| &point.workloads).filter(|result| result.name == name);
        let (completed, failed) =
            (runs().map(|run| run.all.completed).sum(), runs().map(|run| run.aborted.error).sum());
        let reasons = FailedRequests::merged(runs().flat_map(|run| &run.failed));
        let told = || {
            format!(
                "{name}: {}{}; the model knows only those that completed",
                told(completed, failed),
                mostly(&reasons)
            )
        };
        (failed > 0).then(told)
    });
    let again = told_again(points)
        .into_iter()
        .map(|told| format!("attempts were run again, which the model does not know: {told}"));
    let invalid = invalid_runs(points)
        .into_iter()
        .map(|(why, runs)| format!("{} of {} runs are invalid and were left out: {why}", runs.len(), points.len()));
    failed.chain(again).chain(invalid).collect()
}

/// The invalid runs by their reason, the most frequent first: positions among the points.
pub(crate) fn invalid_runs<'a>(points: impl IntoIterator<Item = &'a Point>) -> Vec<(&'a str, Vec<usize>)> {
    let mut by_reason: Vec<(&str, Vec<usize>)> = Vec::new();
    for (run, point) in points.into_iter().enumerate().filter(|(_, point)| !point.valid) {
        let why = point.why_invalid.as_deref().unwrap_or("the reason was not recorded");
        match by_reason.iter_mut().find(|(known, _)| is_alike(known, why)) {
            Some((_, runs)) => runs.push(run),
            None => by_reason.push((why, vec![run])),
        }
    }
    by_reason.sort_by_key(|(_, runs)| std::cmp::Reverse(runs.len()));
    by_reason
}

/// Whether two reasons differ in their numbers only.
fn is_alike(one: &str, other: &str) -> bool {
    let words = |text: &str| text.replace(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','), "");
    words(one) == words(other)
}

#[cfg(test)]
mod tests;
