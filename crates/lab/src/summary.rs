//! The results of a study in short: means with their spread, the noise floor, interference, and advice in sentences.
//!
//! Nothing is computed from runs here: [`Summary::of`] selects the cells ([`Results::estimates`]) of the first setting, [`Arm`]
//! reads one of them, `compare` compares the arms, and `advice` puts the result into words. Invalid points are left out, but
//! counted ([`Arm::left_out`]).

use crate::results::{Finding, Interval, Point, Results};
use plimsoll_display::distinct;

mod advice;
mod arm;
mod compare;
#[cfg(test)]
mod tests;

pub use arm::{Arm, Percentile};
pub(crate) use compare::REQUESTS_MIN;
pub use compare::Tail;

/// The points of one setting, sorted by workload and arm.
#[derive(Debug, Clone)]
pub struct Summary<'a> {
    /// Every workload, in the order in which they run together.
    pub workloads: Vec<Workload<'a>>,
    /// The work that all of them do together, compared with taking turns; `None` if one of them did not run both ways.
    pub side_by_side: Option<Interval>,
    /// The number of further settings of the points, which are not in the summary.
    pub settings_left_out: usize,
}

/// One workload alone and together.
#[derive(Debug, Clone)]
pub struct Workload<'a> {
    pub name: &'a str,
    pub kind: &'a str,
    /// Its runs without the others.
    pub alone: Arm<'a>,
    /// Its runs beside the others.
    pub together: Arm<'a>,
    /// The least relative difference that is distinguished from noise; `None` with a single repeat.
    pub noise_floor: Option<f64>,
    /// Throughput together over throughput alone. `None` unless both were measured and something completed alone.
    pub interference: Option<Interval>,
    /// The statistical finding; `None` without a ratio.
    pub shown: Option<Finding>,
}

impl<'a> Summary<'a> {
    /// Sorts the points. A study has one setting. Of a sweep, only the points of the first setting are taken, because a
    /// mean over different settings is meaningless.
    pub fn of(results: &'a Results) -> Self {
        let points = &results.points;
        let setting = points.first().map(|point| &point.setting);
        let others = points.iter().map(|point| &point.setting).filter(|other| Some(*other) != setting);
        let others = distinct(others);
        let points = points.iter().filter(|point| Some(&point.setting) == setting && !point.is_again);
        let points = points.filter(|point| is_together(point) || point.arm.starts_with("alone:")).collect::<Vec<_>>();
        let mut workloads: Vec<Workload<'a>> = Vec::new();
        // The points ran in random order; workloads have the order of the experiment, as in the shared arm.
        let shared_first = points.iter().filter(|p| is_together(p)).chain(points.iter().filter(|p| !is_together(p)));
        for point in shared_first {
            for result in &point.workloads {
                let position = workloads.iter().position(|w| w.name == result.name).unwrap_or_else(|| {
                    workloads.push(Workload {
                        name: &result.name,
                        kind: &result.kind,
                        alone: Arm::default(),
                        together: Arm::default(),
                        noise_floor: None,
                        interference: None,
                        shown: None,
                    });
                    workloads.len() - 1
                });
                let workload = &mut workloads[position];
                let arm = if is_together(point) { &mut workload.together } else { &mut workload.alone };
                arm.cell = results.cell(&point.setting, &point.arm, &result.name);
                let is_valid = point.valid && result.all.throughput_per_s.is_finite();
                if is_valid { arm.runs.push(result) } else { arm.left_out += 1 }
            }
        }
        let order = &results.experiment.workloads;
        workloads.sort_by_key(|workload| order.iter().position(|name| name == workload.name));
        for workload in &mut workloads {
            workload.noise_floor = results.noise_floor.get(workload.name).and_then(|noise| noise.floor);
            let ratio = results.interference.iter().find(|ratio| {
                ratio.workload == workload.name && ratio.arm == TOGETHER && Some(&ratio.setting) == setting
            });
            workload.interference = ratio.map(|ratio| ratio.ratio);
            workload.shown = ratio.map(|ratio| ratio.finding);
        }
        let side_by_side = results.side_by_side.iter().find(|one| one.arm == TOGETHER && Some(&one.setting) == setting);
        Self { workloads, side_by_side: side_by_side.map(|one| one.work), settings_left_out: others.len() }
    }

    /// [`Results::advice`](crate::results::Results::advice): one to four sentences, most important first.
    pub fn advice(&self) -> Vec<String> {
        advice::advice(&self.workloads, self.side_by_side)
    }
}

impl<'a> Workload<'a> {
    /// The two arms with their names.
    pub fn arms(&self) -> [(&'static str, &Arm<'a>); 2] {
        [("alone", &self.alone), ("together", &self.together)]
    }

    /// The arms that ran, with their names: a single workload has only one.
    pub(crate) fn arms_run(&self) -> Vec<(&'static str, &Arm<'a>)> {
        self.arms().into_iter().filter(|(_, arm)| !arm.runs.is_empty() || arm.left_out > 0).collect()
    }
}

/// The arm in which all workloads run.
pub(crate) const TOGETHER: &str = "together";

fn is_together(point: &Point) -> bool {
    point.arm == TOGETHER
}
