//! The speed-up of each kind of query with a larger amount: mean latency with the smallest amount over mean latency with more (SR
//! fig. 6), as a ratio within each block, so that drift of the machine cancels.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::amounts::Amounts;
use crate::analysis::cells::key;
use crate::analysis::side_by_side::over_blocks;
use crate::results::{AxisRole, Interval, Results, SweptAxis, WorkloadResult};

/// One kind of query of a workload in an arm, along one sweep key.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeedUp<'a> {
    pub axis: &'a str,
    /// The values of all other swept settings.
    pub setting: BTreeMap<String, Value>,
    pub arm: &'a str,
    pub workload: &'a str,
    pub query: &'a str,
    /// At each value of the key, ascending, where it ran with the least value in the same block.
    pub points: Vec<SpeedUpPoint>,
}

/// The speed-up of a query with one amount.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeedUpPoint {
    /// The amount, by which points are in order; the full amount is infinite.
    pub at: f64,
    /// The value of the sweep key.
    pub value: Value,
    /// Times as fast as with the least: the mean over blocks with Student's interval; without one from a single block.
    pub times: Interval,
    /// The run of each block, as a position in [`Results::points`], and its ratio.
    pub runs: Vec<(usize, f64)>,
}

/// A run of a workload: its position, its block and its result.
type Run<'a> = (usize, u32, &'a WorkloadResult);

/// The values of all other settings, and the runs at each value of the key.
type Series<'a> = (BTreeMap<String, Value>, Vec<(f64, Run<'a>)>);

/// Every query of every analytical workload along every allocation. Values that are no amounts have no place.
pub(crate) fn speed_ups(results: &Results) -> Vec<SpeedUp<'_>> {
    let axes = results.experiment.sweep.iter();
    let axes = axes.filter(|axis| axis.role == AxisRole::Allocation);
    let axes = axes.map(|axis| (axis, Amounts::of(&axis.values))).filter(|(_, amounts)| amounts.len() > 1);
    axes.flat_map(|(axis, amounts)| along(results, axis, &amounts)).collect()
}

fn along<'a>(results: &'a Results, axis: &'a SweptAxis, amounts: &Amounts) -> Vec<SpeedUp<'a>> {
    // Keyed by the text of the other settings, since JSON values have no order.
    let mut places: BTreeMap<(&str, &str, String), Series<'a>> = BTreeMap::new();
    for (number, point) in results.points.iter().enumerate().filter(|(_, point)| point.valid && !point.is_again) {
        let Some(at) = point.setting.get(&axis.key).and_then(|value| amounts.amount(value)) else { continue };
        let mut rest = point.setting.clone();
        rest.remove(&axis.key);
        for result in point.workloads.iter().filter(|result| result.analytical) {
            let place = (result.name.as_str(), point.arm.as_str(), key(&rest));
            let (_, runs) = places.entry(place).or_insert_with(|| (rest.clone(), Vec::new()));
            runs.push((at, (number, point.repeat, result)));
        }
    }
    let of_place = |((workload, arm, _), (setting, runs)): (_, Series<'a>)| {
        let queries: BTreeSet<&'a str> =
            runs.iter().flat_map(|(_, (_, _, result))| result.transactions.keys().map(String::as_str)).collect();
        let mut queries: Vec<&str> = queries.into_iter().collect();
        queries.sort_by_key(|name| (name.len(), *name));
        let of_query = move |query| {
            let points = points(&runs, query, amounts);
            let (axis, setting) = (axis.key.as_str(), setting.clone());
            (points.len() > 1).then_some(SpeedUp { axis, setting, arm, workload, query, points })
        };
        queries.into_iter().filter_map(of_query).collect::<Vec<_>>()
    };
    places.into_iter().flat_map(of_place).collect()
}

fn points(runs: &[(f64, Run)], query: &str, amounts: &Amounts) -> Vec<SpeedUpPoint> {
    let latency = |(_, _, result): &Run| result.transactions.get(query)?.latency_us.map(|latency| latency.mean);
    let Some(least) = runs.iter().map(|(at, _)| *at).min_by(f64::total_cmp) else { return Vec::new() };
    let base: BTreeMap<u32, f64> =
        runs.iter().filter(|(at, _)| *at == least).filter_map(|(_, run)| Some((run.1, latency(run)?))).collect();
    let mut values: Vec<f64> = runs.iter().map(|(at, _)| *at).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let point = |at: f64| {
        let of_value = runs.iter().filter(|(other, _)| *other == at);
        let ratios = of_value.filter_map(|(_, run)| {
            let (base, now) = (*base.get(&run.1)?, latency(run)?);
            (now > 0.0 && base > 0.0).then_some((run.0, base / now))
        });
        let ratios: Vec<(usize, f64)> = ratios.collect();
        Some(SpeedUpPoint {
            at,
            value: amounts.written(at),
            times: over_blocks(ratios.iter().map(|(_, ratio)| Some(*ratio)).collect())?,
            runs: ratios,
        })
    };
    values.into_iter().filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::fixture::speeds::speeds;

    #[test]
    fn speed_ups_are_of_one_block_and_query() {
        let results = speeds();
        let found = speed_ups(&results);
        let names: Vec<&str> = found.iter().map(|one| one.query).collect();
        assert_eq!(names.len(), 22, "{names:?}");
        assert_eq!((names[0], names[1], names[9], names[21]), ("q1", "q2", "q10", "q22"), "by number, not by letter");
        let first = &found[0];
        assert_eq!((first.axis, first.arm, first.workload), ("dop", "alone:olap", "olap"));
        let at: Vec<f64> = first.points.iter().map(|point| point.at).collect();
        assert_eq!(at, [1.0, 2.0, 4.0, 8.0]);
        assert!((first.points[0].times.value - 1.0).abs() < 1e-12, "nothing is faster than itself");
        // Blocks of the fixture differ twofold in speed, which cancels within each.
        let two = &first.points[1].times;
        assert!((two.value - 2.0).abs() < 0.1 && two.low.is_some_and(|low| low > 1.7), "{two:?}");
        assert!(found[21].points[3].times.value < 2.0, "the last query hardly gains");
    }

    #[test]
    fn what_did_not_run_with_the_least_is_left_out() {
        let mut results = speeds();
        for point in &mut results.points {
            if point.setting["dop"] == json!(1) && point.repeat == 1 {
                point.workloads[0].transactions.remove("q1");
            }
        }
        let found = speed_ups(&results);
        assert_eq!(found[0].points[1].runs.len(), 2, "a block without its base says nothing");
        results.points.iter_mut().for_each(|point| point.workloads[0].analytical = false);
        assert_eq!(speed_ups(&results), []);
    }
}
