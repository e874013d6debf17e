//! Whether other processes on the machine disturbed runs, and which.

use std::collections::BTreeMap;

use plimsoll_machine::busy_processes::BusyProcesses;
use plimsoll_machine::facts::cores_usable;

use crate::experiment::OTHERS_MAX;
use crate::results::{Interval, Point};

/// The kernel counts the time of each processor in hundredths of a second, so its figure for a short window may be one
/// step too high.
const STEP_S: f64 = 0.01;

/// Why a run is not valid for its setting: other processes on the machine, or its host, kept more cores busy than
/// allowed. `None` if they did not, or if that is not known. Our own hogs beside the workloads do not count as other
/// processes.
pub(crate) fn disturbance(point: &Point, others_max: f64) -> Option<String> {
    too_busy(point, others_max, cores_usable())
}

fn too_busy(point: &Point, others_max: f64, cores: usize) -> Option<String> {
    let busy = point.device.busy_cores_others.filter(|_| point.window_s > 0.0)?;
    let most = others_max * cores as f64;
    let is_busy = busy > most + STEP_S * cores as f64 / point.window_s;
    is_busy.then(|| {
        format!(
            "other processes on this machine, or its host, kept {busy:.2} cores busy, more than the {most:.2} that `others_max` allows ({others_max} for each of {cores}): {}",
            named(&point.others)
        )
    })
}

/// That others kept more cores busy during the valid ones of some runs than experiments usually allow, on average. `None` if they
/// did not, or if that is not known.
pub(crate) fn of_runs(points: &[Point], cores: usize) -> Option<String> {
    let known = points.iter().filter(|point| point.valid);
    let known: Vec<_> = known.filter_map(|point| Some((point.device.busy_cores_others?, &point.others))).collect();
    let runs = known.len() as f64;
    let busy = known.iter().map(|(busy, _)| busy).sum::<f64>() / runs;
    (busy > OTHERS_MAX * cores as f64).then(|| {
        let others = together(known.iter().flat_map(|(_, others)| *others), runs);
        let named = named(&others);
        format!(
            "other processes on this machine, or its host, kept {busy:.2} of {cores} cores busy during the runs: {named}"
        )
    })
}

/// The least part of the cores that counts as left to us, however much others took.
const LEFT_MIN: f64 = 0.05;

/// By how much the logarithm of a ratio of two figures may be wrong because others took more of the cores on one side than
/// on the other: the difference between the logarithms of the cores left free, on average. 0 if no run was disturbed.
///
/// Throughput changes at most in proportion to the cores that are left. A busy neighbour gets less of them beside more
/// threads of ours, so without this a workload beside others would look better than it is.
pub(crate) fn uncertainty(one: &[&Point], other: &[&Point], cores: usize) -> f64 {
    if !one.iter().chain(other).any(|point| point.disturbed) {
        return 0.0;
    }
    let left = |point: &&Point| {
        let busy = point.device.busy_cores_others?;
        Some((1.0 - busy / cores.max(1) as f64).clamp(LEFT_MIN, 1.0).ln())
    };
    let mean = |points: &[&Point]| {
        let known: Vec<f64> = points.iter().filter_map(left).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    mean(one).zip(mean(other)).map_or(0.0, |(one, other)| (one - other).abs())
}

/// An interval of a ratio that is wider by this difference of logarithms on either side.
pub(crate) fn widened(ratio: Interval, by: f64) -> Interval {
    Interval { low: ratio.low.map(|low| low * (-by).exp()), high: ratio.high.map(|high| high * by.exp()), ..ratio }
}

/// A warning about disturbed runs that count: who took the cores, and what figures mean beside them.
pub(crate) fn kept(points: &[Point], cores: usize) -> Option<String> {
    let disturbed: Vec<&Point> = points.iter().filter(|point| point.valid && point.disturbed).collect();
    let runs = disturbed.len() as f64;
    if disturbed.is_empty() {
        return None;
    }
    let busy = disturbed.iter().filter_map(|point| point.device.busy_cores_others).sum::<f64>() / runs;
    let named = named(&together(disturbed.iter().flat_map(|point| &point.others), runs));
    Some(format!(
        "others kept {busy:.2} of {cores} cores busy in {} of {} runs: {named}; figures are beside them, and intervals of \
         ratios are wider by what they took; for figures of the machine alone, stop them and run it again",
        disturbed.len(),
        points.len()
    ))
}

/// The processes of several runs, with the cores that they kept busy on average, the busiest first.
fn together<'a>(others: impl Iterator<Item = &'a BusyProcesses>, runs: f64) -> Vec<BusyProcesses> {
    let mut by_name: BTreeMap<&str, BusyProcesses> = BTreeMap::new();
    for one in others {
        let new = BusyProcesses { count: 0, cores: 0.0, ..one.clone() };
        let known = by_name.entry(&one.name).or_insert(new);
        known.count = known.count.max(one.count);
        known.cores += one.cores / runs;
    }
    let mut all: Vec<BusyProcesses> = by_name.into_values().collect();
    all.sort_by(|a, b| b.cores.total_cmp(&a.cores));
    all
}

/// Processes that are named.
const NAMED_MAX: usize = 3;

/// `yes (2 processes) 1.97 cores, rustc 0.60`.
fn named(others: &[BusyProcesses]) -> String {
    if others.is_empty() {
        return "no process that is still there, so short-lived ones or the host".to_owned();
    }
    let one = |(at, busy): (usize, &BusyProcesses)| {
        let count = if busy.count > 1 { format!(" ({} processes)", busy.count) } else { String::new() };
        let cores = if at == 0 { " cores" } else { "" };
        format!("{}{count} {:.2}{cores}", busy.name, busy.cores)
    };
    others.iter().take(NAMED_MAX).enumerate().map(one).collect::<Vec<_>>().join(", ")
}

/// What to do about others who disturb a run, for a person who watches.
pub(crate) const REMEDY: &str =
    "stop them, or measure where they are not; to measure beside them, set others_max or PLIMSOLL_OTHERS_MAX";

/// The same, if the experiment goes on beside them.
pub(crate) const REMEDY_BESIDE: &str =
    "going on beside them, with wider intervals; for figures of the machine alone, stop them and begin again";

#[cfg(test)]
mod tests {
    use plimsoll_model::statistics::{Noise, Samples, compare_settings};
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::report::fixture;

    /// A/A beside others that come and go. Two equal settings run in the same blocks; what others take, they lose. Runs in which
    /// others took more than they may are left out. The interval of the ratio covers equality all the same, and so does the one
    /// of each setting cover what it reaches where others take no more than they may.
    #[test]
    fn intervals_cover_equality_on_a_machine_that_others_use() {
        for (name, bursts, most) in [("light", 0.2, 0.3), ("bursts", 0.3, 1.5), ("mostly busy", 0.6, 2.0)] {
            let (mut covered, mut all) = (0, 0);
            for seed in 0..1_500 {
                let mut random = Pcg64::seed_from_u64(seed);
                let (mut is_busy, mut rows) = (false, vec![Vec::new(), Vec::new()]);
                for block in 0..6 {
                    // The order changes from block to block.
                    let order = if random.random() { [0, 1] } else { [1, 0] };
                    for setting in order {
                        // Bursts last for some runs.
                        if random.random::<f64>() < 0.5 {
                            is_busy = random.random::<f64>() < bursts;
                        }
                        let taken = random.random::<f64>() * if is_busy { most } else { 0.1 };
                        let mut point = fixture::point("alone:tpcc", 1, Vec::new());
                        (point.device.busy_cores_others, point.window_s) = (Some(taken), 10.0);
                        let drift = 1.0 + 0.05 * f64::from(block);
                        let throughput = 1_000.0 * drift * (1.0 - taken / 2.0) * (1.0 + 0.03 * normal(&mut random));
                        rows[setting].push(too_busy(&point, 0.1, 2).is_none().then_some(throughput));
                    }
                }
                let samples = Samples::new(rows);
                let comparison = compare_settings(&samples, 1, 0, Noise::of(&samples).as_ref());
                // Fewer than two blocks in which both were undisturbed are no comparison.
                if let Some(ratio) = comparison.ratio.filter(|_| comparison.paired) {
                    all += 1;
                    covered += u32::from(ratio.contains(1.0));
                }
            }
            assert!(all >= 500, "{name}: {all} experiments had enough undisturbed runs");
            let share = f64::from(covered) / f64::from(all);
            assert!((0.93..=0.99).contains(&share), "{name}: {share:.3} of {all} intervals cover equality");
        }
    }

    /// Standard normal, by Box and Muller's transform.
    fn normal(random: &mut Pcg64) -> f64 {
        let (radius, angle): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
        (std::f64::consts::TAU * angle).cos() * (-2.0 * radius.ln()).sqrt()
    }

    /// Two endless processes on two cores, and a kernel that divides the cores by threads. A workload of two threads
    /// alone has half of the cores; beside another one of two threads it has a third, though on a quiet machine it would
    /// have half as much as alone. The wider interval holds both.
    #[test]
    fn intervals_beside_others_that_stay_hold_the_ratio_of_a_quiet_machine() {
        let point = |busy: f64| {
            let mut point = fixture::point("alone:tpcc", 1, Vec::new());
            (point.device.busy_cores_others, point.disturbed) = (Some(busy), true);
            point
        };
        for (own, theirs, others) in [(2.0, 2.0, 2.0), (2.0, 4.0, 2.0), (1.0, 3.0, 5.0), (4.0, 1.0, 1.0)] {
            let share = |threads: f64| 2.0 * threads / (threads + others);
            let (alone, together) = (share(own), share(own + theirs) * own / (own + theirs));
            let [by_alone, by_together] = [own, own + theirs].map(|threads| point(2.0 - share(threads)));
            let by = uncertainty(&[&by_alone], &[&by_together], 2);
            let ratio = together / alone;
            let found = widened(Interval { value: ratio, low: Some(ratio), high: Some(ratio) }, by);
            let quiet = own / (own + theirs);
            assert!(found.low.unwrap() <= quiet + 1e-9 && quiet <= found.high.unwrap(), "{found:?} lacks {quiet}");
        }
        let mut quiet = point(0.5);
        quiet.disturbed = false;
        assert_eq!(uncertainty(&[&quiet], &[&quiet, &quiet], 2), 0.0);
        assert_eq!(kept(&[quiet], 2), None);
        let told = kept(&[point(1.5), point(0.5)], 2).expect("they were there");
        assert!(told.starts_with("others kept 1.00 of 2 cores busy in 2 of 2 runs: "), "{told}");
    }

    #[test]
    fn a_run_beside_others_who_take_more_than_they_may_is_disturbed() {
        let point = |busy, window_s| {
            let mut point = fixture::point("alone:tpcc", 1, Vec::new());
            (point.device.busy_cores_others, point.window_s) = (busy, window_s);
            let named = |name: &str, count, cores| BusyProcesses { name: name.to_owned(), count, cores };
            point.others = vec![named("yes", 2, 0.25), named("cron", 1, 0.04)];
            point
        };
        let found = |busy, window_s| too_busy(&point(busy, window_s), 0.1, 2);
        assert_eq!(found(Some(0.2), 10.0), None);
        assert_eq!(found(None, 10.0), None, "what is not known is not judged");
        let why = "other processes on this machine, or its host, kept 0.30 cores busy, more than the 0.20 that `others_max` allows (0.1 for \
            each of 2): yes (2 processes) 0.25 cores, cron 0.04";
        assert_eq!(found(Some(0.3), 10.0).as_deref(), Some(why));
        assert_eq!(found(Some(0.3), 0.1), None, "within the steps of the kernel's books");
        assert_eq!(found(Some(0.3), 0.0), None, "a run without a window");
    }
}
