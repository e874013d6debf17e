//! The common lookups of all sections for one run's results: arms, order, names, colours, and links to the rows of
//! runs.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use super::chart::Sample;
use super::input::ReportInput;
use crate::record::RunRecord;
use crate::results::{Estimate, Interval, Results, WorkloadResult};
use plimsoll_display::{distinct, value};

/// Swept settings by key.
pub(super) type Setting = BTreeMap<String, Value>;

/// One document on the page.
#[derive(Debug, Clone)]
pub(super) struct Page<'a> {
    pub results: &'a Results,
    /// Its runs as they were measured; empty if they are not available.
    records: &'a [RunRecord],
    /// Prefix of every id of this document; empty if it is the only one.
    prefix: String,
}

impl<'a> Page<'a> {
    /// The only document, or the one at this position, from 1, of several.
    pub(super) fn new(source: &'a ReportInput<'_>, position: Option<usize>) -> Self {
        let (results, records) = (source.results.as_ref(), source.records.as_ref());
        Self { results, records, prefix: position.map_or_else(String::new, |position| format!("r{position}-")) }
    }

    /// The record of a run beside its figures; `None` if it is not available.
    pub(super) fn record(&self, run: usize) -> Option<&'a RunRecord> {
        let point = self.results.points.get(run)?;
        // The journal may have grown since the results were written.
        self.records.get(run).filter(|record| record.point.arm == point.arm && record.point.at_s == point.at_s)
    }

    pub(super) fn id(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The prefix of the ids of runs; their positions among the points follow.
    pub(super) fn run(&self) -> String {
        self.id("run-")
    }

    /// The workloads, in the order of the file, and after them any that the file does not name.
    pub(super) fn workloads(&self) -> Vec<&'a str> {
        let results = self.results;
        let named = results.experiment.workloads.iter().map(String::as_str);
        let ran = results.points.iter().flat_map(|point| point.workloads.iter().map(|w| w.name.as_str()));
        distinct(named.chain(ran))
    }

    /// The arms in which this workload has an estimate: alone first, then in the order of the file.
    pub(super) fn arms(&self, workload: &str) -> Vec<&'a str> {
        let results = self.results;
        let ran = results.estimates.iter().filter(|e| e.workload == workload).map(|e| e.arm.as_str());
        let ran = distinct(ran);
        let named = results.experiment.arms.iter().map(String::as_str).filter(|arm| ran.contains(arm));
        let mut arms = distinct(named.chain(ran.iter().copied()));
        arms.sort_by_key(|arm| !arm.starts_with("alone:"));
        arms
    }

    /// The position of an arm in the palette. Alone is its grey. Beside one other workload it has that workload's
    /// colour, on the whole page. All other arms have the strongest colour.
    pub(super) fn colour(&self, arm: &str, workload: &str) -> usize {
        if arm.starts_with("alone:") {
            return 0;
        }
        match beside(arm, workload).as_slice() {
            [other] if self.workloads().len() > 2 => {
                1 + self.workloads().iter().position(|name| name == other).unwrap_or(0) % 6
            }
            _ => 1,
        }
    }

    /// Every setting that has an estimate, in the order of the axes' values.
    pub(super) fn settings(&self) -> Vec<&'a Setting> {
        let mut settings = distinct(self.results.estimates.iter().map(|estimate| &estimate.setting));
        settings.sort_by_cached_key(|setting| self.position(setting));
        settings
    }

    /// The positions of a setting's values on their axes, to sort by.
    pub(super) fn position(&self, setting: &Setting) -> Vec<usize> {
        let axes = &self.results.experiment.sweep;
        axes.iter()
            .map(|axis| {
                let at = setting.get(&axis.key).and_then(|value| axis.values.iter().position(|other| other == value));
                at.unwrap_or(axis.values.len())
            })
            .collect()
    }

    /// The estimate of one setting, arm and workload.
    pub(super) fn estimate(&self, setting: &Setting, arm: &str, workload: &str) -> Option<&'a Estimate> {
        self.results.cell(setting, arm, workload)
    }

    /// Every estimate of a workload: by setting, then by arm.
    pub(super) fn estimates(&self, workload: &str) -> Vec<&'a Estimate> {
        let arms = self.arms(workload);
        let mut all = self.results.estimates.iter().filter(|e| e.workload == workload).collect::<Vec<_>>();
        all.sort_by_cached_key(|e| (self.position(&e.setting), arms.iter().position(|arm| *arm == e.arm)));
        all
    }

    /// Every estimate, workload by workload.
    pub(super) fn all_estimates(&self) -> Vec<&'a Estimate> {
        self.workloads().into_iter().flat_map(|workload| self.estimates(workload)).collect()
    }

    /// The keys that are swept, slowest first.
    pub(super) fn keys(&self) -> Vec<&'a str> {
        self.results.experiment.sweep.iter().map(|axis| axis.key.as_str()).collect()
    }

    /// A figure of each run that an estimate rests on.
    pub(super) fn samples(&self, estimate: &Estimate, of: impl Fn(&WorkloadResult) -> Option<f64>) -> Vec<Sample> {
        let figure = |&run: &usize| {
            let result = self.results.points.get(run)?.workloads.iter().find(|w| w.name == estimate.workload)?;
            Some((run, of(result)?, estimate.outliers.contains(&run)))
        };
        estimate.runs.iter().filter_map(figure).collect()
    }

    /// The results of a workload in each run that an estimate rests on.
    pub(super) fn results_of(&self, estimate: &Estimate) -> Vec<&'a WorkloadResult> {
        let runs = estimate.runs.iter().filter_map(|&run| self.results.points.get(run));
        runs.filter_map(|point| point.workloads.iter().find(|w| w.name == estimate.workload)).collect()
    }

    /// A link to the row of a run.
    pub(super) fn run_link(&self, run: usize) -> Markup {
        html! { a href={ "#" (self.run()) (run) } { (run) } }
    }

    /// Links to the rows of runs, and how many runs were left out.
    pub(super) fn run_links(&self, estimate: &Estimate) -> Markup {
        html! {
            td {
                @for (position, run) in estimate.runs.iter().enumerate() {
                    @if position > 0 { ", " }
                    (self.run_link(*run))
                    @if estimate.outliers.contains(run) { " (far off)" }
                }
                @if !estimate.left_out.is_empty() {
                    small {
                        "left out: "
                        @for (position, run) in estimate.left_out.iter().enumerate() {
                            @if position > 0 { ", " }
                            (self.run_link(*run))
                        }
                    }
                }
            }
        }
    }

    /// A cell for each swept value.
    pub(super) fn setting_cells(&self, setting: &Setting) -> Markup {
        html! { @for key in self.keys() { td { (setting.get(key).map_or_else(String::new, value)) } } }
    }

    /// The least difference that is not noise, in units of the ratio together over alone.
    pub(super) fn floor(&self, workload: &str) -> Option<f64> {
        self.results.noise_floor.get(workload).and_then(|noise| noise.floor)
    }
}

/// The other workloads in `arm`, for a reader of figures about `workload`: `alone`, `beside reports`, `together`.
pub(super) fn arm_label(arm: &str, workload: &str) -> String {
    if arm.starts_with("alone:") {
        return "alone".to_owned();
    }
    let others = beside(arm, workload);
    if others.is_empty() { arm.to_owned() } else { format!("beside {}", others.join(" and ")) }
}

/// The others in an arm `A+B`; empty if the arm does not list them.
pub(super) fn beside<'a>(arm: &'a str, workload: &str) -> Vec<&'a str> {
    let members = arm.split('+').collect::<Vec<_>>();
    if members.len() < 2 || !members.contains(&workload) {
        return Vec::new();
    }
    members.into_iter().filter(|member| *member != workload).collect()
}

/// `cores 4, think exp 20ms`, without one key; empty if no other key is swept.
pub(super) fn setting_label(setting: &Setting, keys: &[&str], without: Option<&str>) -> String {
    let parts = keys.iter().filter(|key| Some(**key) != without);
    let parts = parts.filter_map(|key| setting.get(*key).map(|set| format!("{key} {}", value(set))));
    parts.collect::<Vec<_>>().join(", ")
}

/// A figure without an interval.
pub(super) fn bare(value: f64) -> Interval {
    Interval { value, low: None, high: None }
}
