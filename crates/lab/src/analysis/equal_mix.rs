//! Throughputs that can be compared between arms: at an equal mix of request kinds.
//!
//! If kinds differ in cost, as the queries of TPC-H do, two windows of the same sequence have different mixes, and the ratio of
//! their totals would compare cheap queries with expensive ones. Weighting each kind's throughput by the time that one request of
//! it takes alone turns both totals into the same unit: seconds of work at the speed alone, per second.
//!
//! ```text
//! ratio = sum over kinds of (X_together * T_alone) / sum over kinds of (X_alone * T_alone)
//! ```
//! with X the throughput and T the mean latency of the kind. If every kind is slowed by the same factor f, the ratio is
//! 1 / f for any mix, provided that clients never pause.

use std::collections::BTreeMap;

use crate::results::WorkloadResult;

/// The cost of one request of each kind: its mean latency when the workload is alone, microseconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Costs(BTreeMap<String, f64>);

impl Costs {
    /// Mean latencies over the repeats `alone`. `None` unless requests differ in cost. Also `None` if some kind ran in
    /// one of `all` runs, but none of its requests completed alone, so that its latency is not known. Throughput is
    /// then compared without weights, in all arms.
    pub(crate) fn of(alone: &[&WorkloadResult], all: &[&WorkloadResult]) -> Option<Self> {
        if !all.iter().any(|repeat| repeat.analytical) {
            return None;
        }
        let costs = Costs(mean_latencies(alone));
        all.iter().all(|repeat| costs.work(repeat).is_some()).then_some(costs)
    }

    /// Seconds of work, at the speed alone, that a run did per second; `None` if a cost is unknown.
    fn work(&self, repeat: &WorkloadResult) -> Option<f64> {
        let ran = repeat.transactions.iter().filter(|(_, part)| part.throughput_per_s > 0.0);
        ran.map(|(kind, part)| Some(part.throughput_per_s * self.0.get(kind)? / 1e6)).sum()
    }
}

/// Throughput and latency that can be compared between any cells of an experiment, at an equal mix: as if every kind of request
/// came equally often. One table of costs serves all cells, so that ratios of these figures are those of the speeds.
impl Costs {
    /// The costs of a workload whose requests differ in cost, from the runs of each of its cells; `None` for other
    /// workloads. An error says why the costs are unknown: a kind was begun, and no request of it completed in any run.
    ///
    /// The costs come from the cell in which most kinds completed. The cost of a kind that it lacks is taken from
    /// another cell and divided by how much slower that cell is over the kinds that both have.
    pub(crate) fn common(cells: &[&[&WorkloadResult]]) -> Result<Option<Self>, String> {
        let all = || cells.iter().copied().flatten();
        if !all().any(|run| run.analytical) {
            return Ok(None);
        }
        let mut by_cell: Vec<BTreeMap<String, f64>> = cells.iter().map(|runs| mean_latencies(runs)).collect();
        by_cell.sort_by_key(|kinds| std::cmp::Reverse(kinds.len()));
        let mut costs: BTreeMap<String, f64> = BTreeMap::new();
        for kinds in by_cell {
            let both = || kinds.iter().filter_map(|(kind, latency)| Some((*latency, *costs.get(kind)?)));
            let slower = both().map(|(latency, _)| latency).sum::<f64>() / both().map(|(_, cost)| cost).sum::<f64>();
            let slower = if slower.is_finite() && slower > 0.0 { slower } else { 1.0 };
            let lacking: Vec<(String, f64)> = kinds.into_iter().filter(|(kind, _)| !costs.contains_key(kind)).collect();
            costs.extend(lacking.into_iter().map(|(kind, latency)| (kind, latency / slower)));
        }
        let costs = Costs(costs);
        let ran = all().flat_map(|run| &run.transactions).filter(|(_, part)| part.throughput_per_s > 0.0);
        match ran.map(|(kind, _)| kind).find(|kind| !costs.0.contains_key(*kind)) {
            Some(kind) => Err(format!(
                "at an equal mix it is not known, for no request of {kind} completed in any run; measure longer"
            )),
            None => Ok(Some(costs)),
        }
    }

    /// The cost of a request at an equal mix, microseconds.
    fn mean(&self) -> f64 {
        self.0.values().sum::<f64>() / self.0.len() as f64
    }

    /// Requests per second at an equal mix.
    pub(crate) fn throughput(&self, of: &WorkloadResult) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.work(of).unwrap_or(0.0) * 1e6 / self.mean() }
    }

    /// Mean latency at an equal mix, microseconds: the cost of a request at an equal mix, times the latency of the
    /// completed requests over their cost. `None` if none completed.
    pub(crate) fn mean_latency(&self, of: &WorkloadResult) -> Option<f64> {
        let completed = of.transactions.iter().filter_map(|(kind, part)| {
            let cost = self.0.get(kind)? * part.completed as f64;
            Some((part.latency_us?.mean * part.completed as f64, cost))
        });
        let (took, cost) = completed.fold((0.0, 0.0), |(took, cost), (one, its)| (took + one, cost + its));
        (cost > 0.0).then(|| took / cost * self.mean())
    }
}

/// The throughput of a run in a unit in which arms can be compared: work per second, or without costs requests per second.
pub(crate) fn speed(repeat: &WorkloadResult, costs: Option<&Costs>) -> f64 {
    costs.and_then(|costs| costs.work(repeat)).unwrap_or(repeat.all.throughput_per_s)
}

/// Mean latency of each kind over all repeats, in microseconds.
fn mean_latencies(repeats: &[&WorkloadResult]) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (kind, part) in repeats.iter().flat_map(|repeat| &repeat.transactions) {
        let Some(latency) = part.latency_us else { continue };
        let (total, count) = sums.entry(kind).or_default();
        *total += latency.mean * part.completed as f64;
        *count += part.completed as f64;
    }
    let some = sums.into_iter().filter(|(_, (_, count))| *count > 0.0);
    some.map(|(kind, (total, count))| (kind.to_owned(), total / count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Latency, Part, WorkloadMeasurement};

    /// A result of one client that ran, for each kind, this number of requests with this latency, back to back for a
    /// second.
    fn result(kinds: &[(&str, u64, f64)]) -> WorkloadResult {
        let part = |(kind, completed, mean): &(&str, u64, f64)| {
            let latency =
                Latency { mean: *mean, p50: None, p90: None, p95: None, p99: None, p999: None, max: *mean as u64 };
            let part = Part {
                completed: *completed,
                throughput_per_s: (*completed).max(1) as f64,
                latency_us: (*completed > 0).then_some(latency),
                ..Part::default()
            };
            ((*kind).to_owned(), part)
        };
        let driven = WorkloadMeasurement {
            name: "olap".to_owned(),
            kind: "tpch".to_owned(),
            analytical: true,
            clients: 1,
            all: Part {
                throughput_per_s: kinds.iter().map(|(_, completed, _)| (*completed).max(1) as f64).sum(),
                ..Part::default()
            },
            transactions: kinds.iter().map(part).collect(),
            ..WorkloadMeasurement::default()
        };
        WorkloadResult { driven, ..WorkloadResult::default() }
    }

    fn check(alone: &[&WorkloadResult], together: &[&WorkloadResult], expect: [&[f64]; 2]) {
        let all: Vec<_> = alone.iter().chain(together).copied().collect();
        let costs = Costs::of(alone, &all);
        let found = [alone, together].map(|arm| arm.iter().map(|run| speed(run, costs.as_ref())).collect::<Vec<_>>());
        for (found, expect) in found.iter().zip(expect) {
            assert!(
                found.len() == expect.len() && found.iter().zip(expect).all(|(a, b)| (a - b).abs() < 1e-9),
                "{found:?}, expected {expect:?}"
            );
        }
    }

    #[test]
    fn a_common_slowdown_shows_whatever_the_mixes_are() {
        // Alone: 8 cheap and 2 expensive; together everything takes twice as long, and the window has other kinds.
        let alone = result(&[("cheap", 8, 25_000.0), ("dear", 2, 400_000.0)]);
        let together = result(&[("cheap", 4, 50_000.0), ("dear", 1, 800_000.0)]);
        let only_cheap = result(&[("cheap", 20, 50_000.0)]);
        check(&[&alone], &[&together], [&[1.0], &[0.5]]);
        check(&[&alone], &[&only_cheap], [&[1.0], &[0.5]]);
        check(&[&alone, &alone], &[&together, &only_cheap], [&[1.0, 1.0], &[0.5, 0.5]]);
    }

    fn is_near(found: f64, expect: f64) -> bool {
        (found / expect - 1.0).abs() < 1e-9
    }

    #[test]
    fn any_cells_of_an_experiment_can_be_compared() {
        // Twice as slow and, later, four times; the windows hold different kinds, and no cell has all of them.
        let fast = result(&[("cheap", 8, 25_000.0), ("dear", 2, 400_000.0)]);
        let slow = result(&[("cheap", 20, 50_000.0)]);
        let slower = result(&[("dear", 1, 1_600_000.0), ("rare", 1, 800_000.0)]);
        let cells = [&[&fast][..], &[&slow], &[&slower]];
        let costs = Costs::common(&cells).expect("all kinds completed").expect("they differ in cost");
        // `rare` ran four times slower than it would have beside the fast ones.
        assert!(is_near(costs.mean(), (25_000.0 + 400_000.0 + 200_000.0) / 3.0), "{costs:?}");
        let latency = [&fast, &slow, &slower].map(|run| costs.mean_latency(run).expect("some completed"));
        assert!(is_near(latency[1] / latency[0], 2.0) && is_near(latency[2] / latency[0], 4.0), "{latency:?}");
        assert!(is_near(costs.throughput(&fast) / costs.throughput(&slow), 2.0));
        assert!(is_near(costs.throughput(&fast), 1e6 / costs.mean()), "one client that never pauses");
        let raw = |run: &WorkloadResult| run.all.throughput_per_s;
        assert!(raw(&slow) > raw(&fast), "which is why throughput as it is says nothing");
    }

    #[test]
    fn what_no_run_completed_has_no_cost() {
        let begun = result(&[("cheap", 8, 25_000.0), ("dear", 0, 0.0)]);
        let why = Costs::common(&[&[&begun][..]]).expect_err("dear was only begun");
        assert!(why.contains("no request of dear completed"), "{why}");
        let mut transactional = begun;
        transactional.analytical = false;
        assert_eq!(Costs::common(&[&[&transactional][..]]), Ok(None));
        assert_eq!(Costs::common(&[]), Ok(None));
    }

    #[test]
    fn what_cannot_be_weighed_is_compared_as_it_is() {
        let alone = result(&[("cheap", 8, 25_000.0)]);
        let begun = result(&[("cheap", 8, 25_000.0), ("dear", 0, 0.0)]);
        check(&[&alone], &[&begun], [&[8.0], &[9.0]]);
        check(&[], &[&alone], [&[], &[8.0]]);
        let mut transactional = result(&[("cheap", 8, 25_000.0)]);
        transactional.analytical = false;
        check(&[&transactional], &[&transactional], [&[8.0], &[8.0]]);
    }
}
