//! The share of their speed alone that workloads keep, block by block.

use std::collections::BTreeMap;

use plimsoll_model::statistics::verdict::{Levels, Margin};

use crate::analysis::equal_mix::{Costs, speed};
use crate::plan::option_text;
use crate::results::{Interval, KeptShare, LineStanding, Point, Results, WorkloadResult};
use crate::summary::TOGETHER;

/// Swept options with their values.
type Setting = BTreeMap<String, String>;

/// The share of its figures alone (first setting) that each workload keeps at the second setting, the protected one
/// first. Intervals are of 95 % for `looks` such settings at once. `None` if one of them did not run both ways in at
/// least two blocks.
pub(super) fn kept(
    results: &Results,
    protect: &str,
    settings: (&Setting, &Setting),
    looks: usize,
) -> Option<Vec<KeptShare>> {
    let names = &results.experiment.workloads;
    let order = names.iter().filter(|name| *name == protect).chain(names.iter().filter(|name| *name != protect));
    let all: Vec<KeptShare> = order.map(|name| of_workload(results, name, settings, looks)).collect::<Option<_>>()?;
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

/// A figure of the first run of a block, and of the second if there was one.
type Pair = (Option<f64>, Option<f64>);

/// A run of a workload: its block, whether it is the second of two equal runs, and its result.
struct Run<'a> {
    block: u32,
    is_again: bool,
    result: &'a WorkloadResult,
}

fn of_workload(
    results: &Results,
    name: &str,
    (alone, beside): (&Setting, &Setting),
    looks: usize,
) -> Option<KeptShare> {
    let alone = runs(results, name, &format!("alone:{name}"), alone);
    let beside = runs(results, name, TOGETHER, beside);
    let of = |runs: &[Run<'_>]| -> Vec<_> { runs.iter().map(|run| run.result.clone()).collect() };
    let (own, others) = (of(&alone), of(&beside));
    let own: Vec<&WorkloadResult> = own.iter().collect();
    let all: Vec<&WorkloadResult> = own.iter().copied().chain(&others).collect();
    let costs = Costs::of(&own, &all);
    let throughput = |result: &WorkloadResult| Some(speed(result, costs.as_ref())).filter(|speed| *speed > 0.0);
    let p95 = |result: &WorkloadResult| Some(1.0 / result.all.latency_us?.p95? as f64).filter(|one| one.is_finite());
    Some(KeptShare {
        workload: name.to_owned(),
        throughput: ratio(&alone, &beside, &throughput, looks)?,
        p95: ratio(&alone, &beside, &p95, looks),
    })
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
        Some(Run { block: point.repeat, is_again: point.is_again, result })
    };
    results.points.iter().filter(is_at).filter_map(run).collect()
}

/// The ratio of a figure over blocks that have both sides. If a side ran twice in a block, both runs count, and the
/// interval is at least as wide as the difference between them, over all blocks (A/A). `None` with fewer than two
/// blocks, or if a run lacks the figure.
fn ratio(
    alone: &[Run<'_>],
    beside: &[Run<'_>],
    figure: &dyn Fn(&WorkloadResult) -> Option<f64>,
    looks: usize,
) -> Option<Interval> {
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
    let floor = |side: &BTreeMap<u32, Pair>| {
        let differences: Vec<f64> = side.values().filter_map(|(first, again)| Some((*again)? - (*first)?)).collect();
        let count = differences.len().max(1) as f64;
        (differences.iter().sum::<f64>() / count).abs()
    };
    let least = floor(&alone).max(floor(&beside));
    let margin = Margin::of_blocks(&distances, Levels::of_looks(looks), least);
    let end = |end: f64| Some(end.exp()).filter(|end| end.is_finite());
    Some(Interval { value: margin.value.exp(), low: end(margin.low), high: end(margin.high) })
}

/// Logarithms of a figure by block: of the first run and of the second, if there was one. `None` if a run lacks it.
fn by_block(runs: &[Run<'_>], figure: &dyn Fn(&WorkloadResult) -> Option<f64>) -> Option<BTreeMap<u32, Pair>> {
    let mut blocks: BTreeMap<u32, Pair> = BTreeMap::new();
    for run in runs {
        let value = Some(figure(run.result)?.ln());
        let block = blocks.entry(run.block).or_default();
        if run.is_again { block.1 = value } else { block.0 = value }
    }
    Some(blocks)
}
