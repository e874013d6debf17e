//! The share of their speed alone that workloads keep, block by block.

use std::collections::BTreeMap;

use plimsoll_model::statistics::verdict::{Levels, Margin};

use crate::analysis::equal_mix::{Costs, speed};
use crate::others;
use crate::plan::option_text;
use crate::results::{Interval, KeptShare, LineStanding, Point, Results, WorkloadResult};
use crate::summary::TOGETHER;

/// Swept options with their values.
type Setting = BTreeMap<String, String>;

/// The share of its figures alone (first setting) that each workload keeps at the second setting, the protected one
/// first. Intervals are of 95 % for `looks` such settings at once, and no narrower than `floors`. `None` if one of them did not run both ways in at
/// least two blocks.
pub(super) fn kept(
    results: &Results,
    protect: &str,
    settings: (&Setting, &Setting),
    looks: usize,
    floors: &Floors,
) -> Option<Vec<KeptShare>> {
    let names = &results.experiment.workloads;
    let order = names.iter().filter(|name| *name == protect).chain(names.iter().filter(|name| *name != protect));
    let all: Vec<KeptShare> =
        order.map(|name| of_workload(results, name, settings, looks, floors)).collect::<Option<_>>()?;
    (all.len() > 1).then_some(all)
}

/// Whether the first of them, the protected one, keeps the share `slo`.
pub(super) fn standing(kept: &[KeptShare], slo: f64) -> LineStanding {
    let of = |interval: &Interval| match (interval.low, interval.high) {
        (Some(low), _) if low >= slo => LineStanding::Kept,
        (_, Some(high)) if high < slo => LineStanding::Broken,
        _ => LineStanding::Undecided,
    };
    let figures = kept.first().into_iter().flat_map(|own| std::iter::once(&own.throughput).chain(&own.p95));
    figures.map(of).min().unwrap_or(LineStanding::Undecided)
}

/// The differences between equal runs of a study, of the logarithms of throughput and of 1 / p95, by workload.
#[derive(Debug, Clone, Default)]
pub(super) struct Floors(BTreeMap<String, [f64; 2]>);

impl Floors {
    /// Those of its runs of all workloads together.
    pub(super) fn of(results: &Results) -> Self {
        let of_workload = |name: &String| {
            let together = runs(results, name, TOGETHER, &Setting::new());
            let costs = costs(&together, &together);
            let throughput = |result: &WorkloadResult| throughput(result, costs.as_ref());
            let floor =
                |figure: Figure<'_>| by_block(&together, figure).map_or(0.0, |blocks| between_equal_runs(&blocks));
            (name.clone(), [floor(&throughput), floor(&speed_at_p95)])
        };
        Floors(results.experiment.workloads.iter().map(of_workload).collect())
    }

    fn of_workload(&self, name: &str) -> [f64; 2] {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// A figure of the first run of a block, and of the second if there was one.
type Pair = (Option<f64>, Option<f64>);

/// A figure of a run.
type Figure<'a> = &'a dyn Fn(&WorkloadResult) -> Option<f64>;

/// A run of a workload: its block, whether it is the second of two equal runs, and its result.
struct Run<'a> {
    block: u32,
    is_again: bool,
    point: &'a Point,
    result: &'a WorkloadResult,
}

fn of_workload(
    results: &Results,
    name: &str,
    (alone, beside): (&Setting, &Setting),
    looks: usize,
    floors: &Floors,
) -> Option<KeptShare> {
    let alone = runs(results, name, &format!("alone:{name}"), alone);
    let beside = runs(results, name, TOGETHER, beside);
    let costs = costs(&alone, &beside);
    let throughput = |result: &WorkloadResult| throughput(result, costs.as_ref());
    let of_alone: Vec<&Point> = alone.iter().map(|run| run.point).collect();
    let of_beside: Vec<&Point> = beside.iter().map(|run| run.point).collect();
    let by = others::uncertainty(&of_alone, &of_beside, results.machine.cores_usable);
    let [floor, floor_p95] = floors.of_workload(name);
    let wider = |ratio| others::widened(ratio, by);
    Some(KeptShare {
        workload: name.to_owned(),
        throughput: match ratio(&alone, &beside, &throughput, looks, floor) {
            Some(ratio) => wider(ratio),
            None => pooled(&alone, &beside, costs.as_ref())?,
        },
        p95: ratio(&alone, &beside, &speed_at_p95, looks, floor_p95).map(wider),
    })
}

/// The cost of each kind of request alone, if kinds differ in it.
fn costs(alone: &[Run<'_>], beside: &[Run<'_>]) -> Option<Costs> {
    let own: Vec<&WorkloadResult> = alone.iter().map(|run| run.result).collect();
    let all: Vec<&WorkloadResult> = alone.iter().chain(beside).map(|run| run.result).collect();
    Costs::of(&own, &all)
}

/// Throughput, of queries at an equal mix; `None` if nothing was done.
fn throughput(result: &WorkloadResult, costs: Option<&Costs>) -> Option<f64> {
    Some(speed(result, costs)).filter(|speed| *speed > 0.0)
}

/// 1 / p95.
fn speed_at_p95(result: &WorkloadResult) -> Option<f64> {
    Some(1.0 / result.all.latency_us?.p95? as f64).filter(|one| one.is_finite())
}

/// The valid runs of an arm at a setting.
fn runs<'a>(results: &'a Results, name: &str, arm: &str, setting: &Setting) -> Vec<Run<'a>> {
    let is_at = |point: &&Point| {
        let has =
            |(key, value): (&String, &String)| point.setting.get(key).is_some_and(|own| option_text(own) == *value);
        point.valid && point.arm == arm && setting.iter().all(has)
    };
    let run = |point: &'a Point| {
        let result = point.workloads.iter().find(|one| one.name == name)?;
        Some(Run { block: point.repeat, is_again: point.is_again, point, result })
    };
    results.points.iter().filter(is_at).filter_map(run).collect()
}

/// The ratio of a figure over blocks that have both sides. If a side ran twice in a block, both runs count. The half-width
/// of the interval, as a difference of logarithms, is at least the difference between equal runs, over all blocks (A/A),
/// and at least `floor`. `None` with fewer than two blocks, or if a run lacks the figure.
fn ratio(alone: &[Run<'_>], beside: &[Run<'_>], figure: Figure<'_>, looks: usize, floor: f64) -> Option<Interval> {
    let (alone, beside) = (by_block(alone, figure)?, by_block(beside, figure)?);
    let mean = |(first, again): &Pair| {
        let there: Vec<f64> = [*first, *again].into_iter().flatten().collect();
        there.iter().sum::<f64>() / there.len() as f64
    };
    let distance = |(block, one): (&u32, &Pair)| Some(mean(one) - mean(alone.get(block)?));
    let distances: Vec<f64> = beside.iter().filter_map(distance).collect();
    if distances.len() < 2 {
        return None;
    }
    let least = between_equal_runs(&alone).max(between_equal_runs(&beside)).max(floor);
    let margin = Margin::of_blocks(&distances, Levels::of_looks(looks), least);
    let end = |end: f64| Some(end.exp()).filter(|end| end.is_finite());
    Some(Interval { value: margin.value.exp(), low: end(margin.low), high: end(margin.high) })
}

/// The ratio of mean throughputs, with a spread that is not known: some run completed nothing, which has no logarithm, as
/// queries that get idle cores only may. `None` with fewer than two runs of either side.
fn pooled(alone: &[Run<'_>], beside: &[Run<'_>], costs: Option<&Costs>) -> Option<Interval> {
    let mean = |runs: &[Run<'_>]| {
        let total: f64 = runs.iter().map(|run| speed(run.result, costs)).sum();
        (runs.len() > 1).then(|| total / runs.len() as f64)
    };
    let (alone, beside) = (mean(alone)?, mean(beside)?);
    // The sum of nothing is -0.
    (alone > 0.0).then(|| Interval { value: beside / alone + 0.0, low: None, high: None })
}

/// The mean difference between the two equal runs of blocks that have them; 0 without any.
fn between_equal_runs(blocks: &BTreeMap<u32, Pair>) -> f64 {
    let differences: Vec<f64> = blocks.values().filter_map(|(first, again)| Some((*again)? - (*first)?)).collect();
    let count = differences.len().max(1) as f64;
    (differences.iter().sum::<f64>() / count).abs()
}

/// Logarithms of a figure by block: of the first run and of the second, if there was one. `None` if a run lacks it.
fn by_block(runs: &[Run<'_>], figure: Figure<'_>) -> Option<BTreeMap<u32, Pair>> {
    let mut blocks: BTreeMap<u32, Pair> = BTreeMap::new();
    for run in runs {
        let value = Some(figure(run.result)?.ln());
        let block = blocks.entry(run.block).or_default();
        if run.is_again { block.1 = value } else { block.0 = value }
    }
    Some(blocks)
}
