//! Settings without a valid run: they have no figures; the page shows their places and why the figures are missing.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::page::{Page, Setting, arm_label, beside};
use crate::results::Point;

/// One setting and arm in which all runs are invalid.
#[derive(Debug, Clone)]
pub(super) struct Gap<'a> {
    pub setting: &'a Setting,
    pub arm: &'a str,
    /// The runs, as positions among the points.
    pub runs: Vec<usize>,
    /// Why they are invalid, each reason once.
    pub why: String,
}

/// The gaps of a workload, in the order in which they first ran.
pub(super) fn gaps<'a>(page: &Page<'a>, workload: &str) -> Vec<Gap<'a>> {
    let points = &page.results.points;
    let mut gaps: Vec<Gap<'a>> = Vec::new();
    for point in points.iter().filter(|point| !point.valid && has(point, workload)) {
        let is_known = gaps.iter().any(|gap| gap.arm == point.arm && *gap.setting == point.setting);
        if is_known || page.estimate(&point.setting, &point.arm, workload).is_some() {
            continue;
        }
        let alike = points
            .iter()
            .enumerate()
            .filter(|(_, other)| !other.valid && other.arm == point.arm && other.setting == point.setting);
        let runs = alike.map(|(run, _)| run).collect::<Vec<_>>();
        let why = runs.iter().filter_map(|run| points[*run].why_invalid.as_deref()).collect::<BTreeSet<_>>();
        let why = if why.is_empty() { "invalid".to_owned() } else { why.into_iter().collect::<Vec<_>>().join("; ") };
        gaps.push(Gap { setting: &point.setting, arm: &point.arm, runs, why });
    }
    gaps
}

/// Whether a workload took part; for a run without figures, the arm decides.
fn has(point: &Point, workload: &str) -> bool {
    if point.workloads.is_empty() {
        return point.arm.strip_prefix("alone:") == Some(workload) || !beside(&point.arm, workload).is_empty();
    }
    point.workloads.iter().any(|result| result.name == workload)
}

/// A row of a table of estimates, with `figures` cells less.
pub(super) fn row(page: &Page, gap: &Gap, workload: &str, figures: usize) -> Markup {
    html! {
        tr class="invalid" {
            (page.setting_cells(gap.setting))
            th scope="row" { (arm_label(gap.arm, workload)) }
            td class="words" colspan=(figures) { "no valid run: " (gap.why) }
            td {
                small { "left out: " }
                @for (position, run) in gap.runs.iter().enumerate() {
                    @if position > 0 { ", " }
                    (page.run_link(*run))
                }
            }
        }
    }
}
