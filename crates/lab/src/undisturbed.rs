//! Figures that others on the machine do not disturb, of runs that they did disturb.
//!
//! Throughput and response times depend on who else had the cores. The CPU time that our own threads and the server's processes
//! took for a request does not, but for what shared caches cost. It is therefore given even where nothing else is.

use serde_json::Value;

use std::collections::BTreeMap;

use crate::analysis::cells::Cells;
use crate::predict::own_cpu_s;
use crate::results::{Point, Results};

/// The CPU time of a request, of a cell that has no valid run because others used the machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CpuPerRequest {
    /// The swept settings.
    pub setting: BTreeMap<String, Value>,
    /// The arm.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// The disturbed runs.
    pub runs: usize,
    /// Least, mean and most over them, microseconds.
    pub us: [f64; 3],
}

/// The CPU time of a request in each disturbed cell, in the order of the cells.
pub(crate) fn of(results: &Results) -> Vec<CpuPerRequest> {
    if !results.points.iter().any(is_lost) {
        return Vec::new();
    }
    // The same runs, as if they had been valid.
    let as_if_valid = |point: &Point| Point { valid: is_lost(point), ..point.clone() };
    let points: Vec<Point> = results.points.iter().map(as_if_valid).collect();
    let (valid, disturbed) = (Cells::of(&results.points), Cells::of(&points));
    let mut found = Vec::new();
    for workload in disturbed.workloads() {
        for cell in disturbed.of_workload(workload) {
            let has_valid = valid
                .of_workload(workload)
                .any(|other| other.arm == cell.arm && other.setting == cell.setting && !other.runs.is_empty());
            if has_valid {
                continue;
            }
            let of_run = |run: &usize| {
                let (cpu_s, requests) = own_cpu_s(&points[*run], disturbed.result(cell, *run))?;
                (requests >= 1.0).then(|| cpu_s * 1e6 / requests)
            };
            let all: Vec<f64> = cell.runs.iter().filter_map(of_run).collect();
            let (Some(least), Some(most)) =
                (all.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::max))
            else {
                continue;
            };
            found.push(CpuPerRequest {
                setting: cell.setting.clone(),
                arm: cell.arm.to_owned(),
                workload: workload.to_owned(),
                runs: all.len(),
                us: [least, all.iter().sum::<f64>() / all.len() as f64, most],
            });
        }
    }
    found
}

/// Whether a run does not count because of others.
fn is_lost(point: &Point) -> bool {
    point.disturbed && !point.valid
}

/// Why there is nothing else, and what to do.
pub(crate) fn sentence(results: &Results) -> Option<String> {
    let disturbed: Vec<&Point> = results.points.iter().filter(|point| is_lost(point)).collect();
    let why = disturbed.last()?.why_invalid.as_deref()?;
    let (count, all) = (disturbed.len(), results.points.len());
    Some(format!(
        "Others used the machine in {count} of {all} runs, so that these say nothing about throughput: {why}. Stop them, or measure where they \
         are not. The CPU time of a request does not depend on them."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::study;

    /// Thirty-eight tries were thrown away, and what was left was dashes.
    #[test]
    fn cpu_time_is_given_where_others_have_disturbed_everything() {
        let mut results = study();
        assert_eq!((of(&results), sentence(&results)), (Vec::new(), None), "a quiet machine");
        for point in results.points.iter_mut().filter(|point| point.arm == "together") {
            (point.valid, point.disturbed) = (false, true);
            point.why_invalid = Some("others kept 1.97 cores busy: yes (2 processes) 1.97 cores".to_owned());
        }
        let found = of(&results);
        let names: Vec<&str> = found.iter().map(|one| one.workload.as_str()).collect();
        assert_eq!(names.len(), 2, "{found:?}");
        for one in &found {
            assert_eq!(one.arm, "together");
            assert!(0.0 < one.us[0] && one.us[0] <= one.us[1] && one.us[1] <= one.us[2] && one.runs > 0, "{one:?}");
        }
        let told = sentence(&results).expect("others were there");
        assert!(told.contains("yes (2 processes) 1.97 cores") && told.contains("Stop them"), "{told}");
        let text = crate::table::render(&results, &[]);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Stop them") && words.contains("CPU time of a request"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let page = crate::report::render(crate::report::ReportInput::new(&results, &[]));
        assert!(page.contains("CPU time of a request"), "the report says it, too");
    }
}
