//! The cost of sharing the last-level cache for each workload of a pair, from its throughput alone with shrinking
//! shares of the cache, and the gain from masks of the three classes.
//!
//! The cache is swept by `llc_mib` or `llc_ways`. If reads from memory were measured, they are the fill rates of
//! [`plimsoll_model::cache_sharing`], and shares follow; otherwise there are bounds.

use serde::Serialize;
use serde_json::Value;

use plimsoll_model::cache_sharing::{Curve, Point, Shared, share_cache};
use plimsoll_model::demand::jackknife;
use plimsoll_policy::cache_class::{CacheClass, CacheWays, WayMask};

use super::inputs::Setting;
use crate::analysis::cells::{Cell, Cells};
use crate::host_limits::{last_level, last_level_told};
use crate::limits::{LLC_MIB, UNLIMITED};
use crate::results::{Interval, Results};
use plimsoll_display::distinct;

/// Sweep keys that change the cache.
const AXES: [&str; 2] = [LLC_MIB, "llc_ways"];

/// Ways of the study's processor. Masks are given in these if the machine's ways are not known.
const WAYS: u32 = 20;

/// A class is wide enough for a workload that keeps this part of its throughput in it (NO V.B).
const KEPT: f64 = 0.98;

/// Two workloads that share the cache.
#[derive(Debug, Clone, Serialize)]
pub struct CachePair {
    /// Swept settings but for the cache.
    pub setting: Setting,
    /// The sweep key of the curves.
    pub key: &'static str,
    /// Whether shares follow from measured fill rates. If not, values are those of equal shares, and intervals extend
    /// from the smallest measured cache to all of it.
    pub has_fill_rates: bool,
    /// Both.
    pub workloads: Vec<CacheShared>,
}

/// One of them. Throughputs are relative to that alone with all of the cache.
#[derive(Debug, Clone, Serialize)]
pub struct CacheShared {
    /// Its name.
    pub name: String,
    /// Its part of the cache, 0 to 1; `None` without fill rates.
    pub share: Option<f64>,
    /// With the cache shared.
    pub shared: Interval,
    /// Its class by its own curve: the smallest one whose ways leave it 98 % of its throughput.
    pub class: &'static str,
    /// With the masks of both classes.
    pub with_masks: Interval,
    /// As measured together; `None` if it was not.
    pub measured: Option<Interval>,
    /// Predicted over measured, less 1; `None` as for `measured`.
    pub error: Option<f64>,
}

/// The key of the cache's sweep, if there is one.
fn axis(results: &Results) -> Option<&'static str> {
    let is_swept = |key: &&&str| results.experiment.sweep.iter().any(|axis| axis.key == **key && axis.values.len() > 1);
    AXES.iter().find(is_swept).copied()
}

/// How much cache runs of a setting had, in the unit of the key; `None` if that is not known.
fn amount(results: &Results, key: &str, cell: &Setting, achieved: Option<&Value>) -> Option<f64> {
    let value = cell.get(key)?;
    if key == LLC_MIB && value.as_str() == Some(UNLIMITED) {
        let machine = &results.machine;
        let told = last_level_told(machine);
        let seen = results.memory_speed.as_ref().map(|kept| kept.speed.last_level_seen_mib());
        let size = last_level(told.map(|cache| cache.size_bytes), machine.virtualised.as_deref(), seen).ok()?;
        return Some(f64::midpoint(size[0], size[1]));
    }
    achieved.and_then(Value::as_f64).or_else(|| value.as_f64())
}

/// A setting without the cache's.
fn rest(setting: &Setting, key: &str) -> Setting {
    setting.iter().filter(|(name, _)| *name != key).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The cells of a workload alone that make a curve, each with its amount of cache.
fn cells_alone<'a, 'b>(
    results: &Results,
    cells: &'b Cells<'a>,
    (key, setting, workload): (&str, &Setting, &str),
) -> Vec<(f64, &'b Cell<'a>)> {
    let arm = format!("alone:{workload}");
    let of_arm = cells.of_workload(workload).filter(|cell| cell.arm == arm && rest(cell.setting, key) == *setting);
    let with_amount = |cell: &'b Cell<'a>| {
        let estimate = results.cell(cell.setting, cell.arm, cell.workload)?;
        Some((amount(results, key, cell.setting, estimate.achieved.get(key))?, cell))
    };
    of_arm.filter_map(with_amount).collect()
}

/// The curve over all blocks but `without`.
fn curve(results: &Results, cells: &Cells<'_>, alone: &[(f64, &Cell<'_>)], without: Option<usize>) -> Option<Curve> {
    let point = |(cache, cell): &(f64, &Cell<'_>)| {
        let runs: Vec<usize> = cell.runs.iter().copied().filter(|run| Some(cells.block(*run)) != without).collect();
        let count = runs.len() as f64;
        let speed = runs.iter().map(|run| cells.result(cell, *run).all.throughput_per_s).sum::<f64>() / count;
        let fill: Option<f64> = runs.iter().map(|run| results.points[*run].device.dram_read_gb_s).sum();
        (count > 0.0).then_some(Point { cache: *cache, speed, fill: fill.map(|sum| sum / count) })
    };
    Curve::new(alone.iter().filter_map(point).collect())
}

/// The smallest class that is wide enough for a workload, and its part of the cache. A workload without measurements
/// counts as sensitive.
fn class(curve: &Curve, cache: f64) -> (CacheClass, f64) {
    let all = WayMask::run(0, WAYS);
    let ways = CacheWays { bytes: 0, ways: WAYS, allowed: all, sparse: false, groups_free: 3 };
    let masks = ways.masks().expect("20 ways are enough for three classes");
    let share = |class| f64::from(masks.of(class).ways()) / f64::from(WAYS);
    let is_wide = |class: &CacheClass| {
        let amount = share(*class) * cache;
        amount >= curve.cache_least() && curve.speed(amount) >= KEPT * curve.speed(cache)
    };
    let class = CacheClass::ALL.into_iter().find(is_wide).unwrap_or(CacheClass::Sensitive);
    (class, share(class))
}

/// Every pair of workloads that have curves, with the measurements of it by `against` or the run itself.
pub(super) fn pairs(results: &Results, cells: &Cells<'_>, against: Option<&Results>) -> Vec<CachePair> {
    let Some(key) = axis(results) else { return Vec::new() };
    let settings = distinct(results.points.iter().map(|point| rest(&point.setting, key)));
    let names = &results.experiment.workloads;
    let mut found = Vec::new();
    for setting in &settings {
        for (at, one) in names.iter().enumerate() {
            for two in &names[at + 1..] {
                let pair = [one.as_str(), two.as_str()];
                found.extend(predicted(results, cells, key, setting, pair, against.unwrap_or(results)));
            }
        }
    }
    found
}

fn predicted(
    results: &Results,
    cells: &Cells<'_>,
    key: &'static str,
    setting: &Setting,
    names: [&str; 2],
    source: &Results,
) -> Option<CachePair> {
    let alone = names.map(|name| cells_alone(results, cells, (key, setting, name)));
    let curves_without = |block: Option<usize>| -> Option<[Curve; 2]> {
        let [one, two] = [0, 1].map(|at| curve(results, cells, &alone[at], block));
        Some([one?, two?])
    };
    let whole = curves_without(None)?;
    let cache = whole[0].cache_most().min(whole[1].cache_most());
    let classes = [0, 1].map(|at| class(&whole[at], cache));
    let share = |curves: &[Curve; 2], parts: [f64; 2]| {
        share_cache([&curves[0], &curves[1]], cache, parts.map(|part| part * cache))
    };
    let blocks = alone.iter().flatten().flat_map(|(_, cell)| cell.runs.iter().map(|run| cells.block(*run) + 1));
    let blocks = blocks.max().unwrap_or(0);
    let without: Vec<[Curve; 2]> = (0..blocks).filter_map(|block| curves_without(Some(block))).collect();
    let interval = |at: usize, parts: [f64; 2]| {
        let of = |figure: fn(&Shared) -> f64| -> Interval {
            let without: Vec<f64> = without.iter().map(|curves| figure(&share(curves, parts)[at])).collect();
            jackknife(figure(&share(&whole, parts)[at]), &without).into()
        };
        if share(&whole, parts)[at].speed.is_some() {
            return of(|shared| shared.speed.unwrap_or(shared.speed_equal));
        }
        let (least, most) = (of(|shared| shared.speed_least), of(|shared| shared.speed_most));
        let (low, high) = (least.low.unwrap_or(least.value), most.high.unwrap_or(most.value));
        Interval { low: Some(low), high: Some(high), value: of(|shared| shared.speed_equal).value }
    };
    let shared = share(&whole, [1.0; 2]);
    let workload = |at: usize| {
        let predicted = interval(at, [1.0; 2]);
        let measured = measured(source, key, setting, names[at], names[1 - at]);
        CacheShared {
            name: names[at].to_owned(),
            share: shared[at].share,
            shared: predicted,
            class: classes[at].0.name(),
            with_masks: interval(at, [classes[0].1, classes[1].1]),
            measured,
            error: measured.map(|measured| predicted.value / measured.value - 1.0),
        }
    };
    Some(CachePair {
        setting: setting.clone(),
        key,
        has_fill_rates: shared[0].share.is_some(),
        workloads: vec![workload(0), workload(1)],
    })
}

/// Throughput of a workload beside only this other one, over its throughput alone with all of the cache.
fn measured(results: &Results, key: &str, setting: &Setting, name: &str, other: &str) -> Option<Interval> {
    let amount_of = |setting: &Setting| amount(results, key, setting, None);
    let most = results.points.iter().filter_map(|point| amount_of(&point.setting)).fold(0.0, f64::max);
    let is_pair = |arm: &str| {
        let point = results.points.iter().find(|point| point.arm == arm);
        point.is_some_and(|point| {
            point.workloads.len() == 2 && point.workloads.iter().any(|workload| workload.name == other)
        })
    };
    let is_it = |setting_of: &Setting| {
        rest(setting_of, key) == *setting
            && (!setting_of.contains_key(key) || amount_of(setting_of).is_some_and(|amount| amount >= most))
    };
    let entry = results
        .interference
        .iter()
        .find(|entry| entry.workload == name && is_it(&entry.setting) && is_pair(&entry.arm));
    entry.map(|entry| entry.ratio)
}

/// Cautions about these predictions, in sentences.
pub(crate) fn cautions(pairs: &[CachePair]) -> Vec<String> {
    let mut told = Vec::new();
    if pairs.is_empty() {
        return told;
    }
    if pairs.iter().any(|pair| !pair.has_fill_rates) {
        told.push(
            "cache: reads from memory were not measured, and throughput alone does not say who takes the cache. Values are those of equal shares, and \
             intervals go from the least cache that was measured to all of it"
                .to_owned(),
        );
    }
    if pairs.iter().any(|pair| pair.has_fill_rates) {
        told.push(
            "cache: shares follow from reads from memory, for a cache that evicts the least recently used line and workloads without common data".to_owned(),
        );
    }
    told.push(
        "cache: only sharing the cache is predicted; cores and the bandwidth of memory are taken to suffice for both"
            .to_owned(),
    );
    told
}
