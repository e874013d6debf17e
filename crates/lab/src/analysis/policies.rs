//! The effect of policies on each class: which gains and which loses, against the first policy of the sweep (MW tab.
//! 3.3).
//!
//! For each setting of the other sweeps, the ratio of mean response times is computed; the result is the arithmetic mean of these
//! ratios, as in a claim's `average(x in KEY: gain(POLICY, CLASS, x))`. Its interval comes from the same mean within each block,
//! where drift of the machine cancels, with noise pooled over the policies.

use plimsoll_model::statistics::{Samples, estimate};

use super::cells::{Cell, Cells, SettingValues};
use crate::results::{Interval, LockStatistics, Part, PolicyEffect, SweptAxis, most_urgent_first};

/// The effects of every policy that was swept on the classes of each arm.
///
/// Classes are those of one workload, or they are spread over the workloads of an arm: an important one beside a less
/// important one.
pub(super) fn of(cells: &Cells<'_>, workloads: &[&str], sweep: &[SweptAxis]) -> Vec<PolicyEffect> {
    let axes: Vec<&SweptAxis> = sweep.iter().filter(|axis| is_of_policies(axis) && axis.values.len() > 1).collect();
    let groups: Vec<Group<'_, '_>> =
        workloads.iter().flat_map(|name| axes.iter().flat_map(move |axis| groups(cells, name, axis))).collect();
    let mut effects = Vec::new();
    for (position, group) in groups.iter().enumerate() {
        let arm: Vec<&Group<'_, '_>> = groups.iter().filter(|other| other.is_beside(group)).collect();
        if !are_spread(&arm) {
            effects.extend(group.effects());
        } else if groups[..position].iter().all(|earlier| !earlier.is_beside(group)) {
            effects.extend(effects_across(&arm));
        }
    }
    effects
}

/// Whether the values of a sweep are policies: by its key, or one of several joined keys.
fn is_of_policies(axis: &SweptAxis) -> bool {
    let names = axis.key.split('+').map(|key| key.rsplit_once('.').map_or(key, |(_, name)| name));
    names
        .into_iter()
        .any(|name| name.ends_with("_policy") || matches!(name, "governor" | "governor_config" | "governor_preemption"))
}

/// Whether some workload of an arm has one class only, and another workload has another class.
fn are_spread(arm: &[&Group<'_, '_>]) -> bool {
    let classes: Vec<Vec<String>> = arm.iter().map(|group| group.classes()).collect();
    let is_other = |class: &String| classes.iter().flatten().any(|other| other != class);
    classes.iter().any(|own| own.len() == 1 && is_other(&own[0]))
}

/// The effects on every class of every workload of an arm: by policy, the most urgent class first.
fn effects_across(arm: &[&Group<'_, '_>]) -> Vec<PolicyEffect> {
    let all: Vec<String> = arm.iter().flat_map(|group| group.classes()).collect();
    let classes = most_urgent_first(all.iter());
    let members = classes.iter().flat_map(|class| arm.iter().map(move |group| group.on(class)));
    let members: Vec<Vec<PolicyEffect>> = members.collect();
    let values = arm.first().map_or(&[][..], |group| &group.axis.values);
    let mut effects = Vec::new();
    for value in values {
        let under = members.iter().flatten().filter(|effect| effect.value == *value);
        effects.extend(under.map(|effect| PolicyEffect { across_workloads: true, ..effect.clone() }));
    }
    effects
}

/// The cells of a workload in one arm under each policy.
struct Group<'a, 'b> {
    cells: &'b Cells<'a>,
    axis: &'b SweptAxis,
    arm: &'a str,
    workload: &'a str,
    /// For each setting of the other swept keys, the cell of each policy.
    settings: Vec<(SettingValues, Vec<Option<&'b Cell<'a>>>)>,
}

/// A group for each arm.
fn groups<'a, 'b>(cells: &'b Cells<'a>, workload: &str, axis: &'b SweptAxis) -> Vec<Group<'a, 'b>> {
    let mut groups: Vec<Group<'a, 'b>> = Vec::new();
    for cell in cells.of_workload(workload) {
        let mut rest = cell.setting.clone();
        let policy = rest.remove(&axis.key).and_then(|value| axis.values.iter().position(|known| *known == value));
        let Some(policy) = policy else { continue };
        let group = groups.iter().position(|group| group.arm == cell.arm).unwrap_or_else(|| {
            groups.push(Group { cells, axis, arm: cell.arm, workload: cell.workload, settings: Vec::new() });
            groups.len() - 1
        });
        let settings = &mut groups[group].settings;
        let setting = settings.iter().position(|(other, _)| *other == rest).unwrap_or_else(|| {
            settings.push((rest, vec![None; axis.values.len()]));
            settings.len() - 1
        });
        settings[setting].1[policy] = Some(cell);
    }
    groups
}

impl Group<'_, '_> {
    /// Whether both are of the same sweep and arm.
    fn is_beside(&self, other: &Group<'_, '_>) -> bool {
        (&self.axis.key, self.arm) == (&other.axis.key, other.arm)
    }

    /// The classes of the workload's requests, the most urgent first.
    fn classes(&self) -> Vec<String> {
        let of_settings = self.settings.iter().flat_map(|(_, policies)| policies.iter().flatten());
        let runs = of_settings.flat_map(|cell| cell.runs.iter().map(move |run| self.cells.result(cell, *run)));
        most_urgent_first(runs.flat_map(|result| result.classes.keys())).into_iter().map(str::to_owned).collect()
    }

    /// The effects on each class; none if there is only one, because then no class gains at another's cost.
    fn effects(&self) -> Vec<PolicyEffect> {
        let classes = self.classes();
        if classes.len() < 2 {
            return Vec::new();
        }
        let by_class: Vec<Vec<PolicyEffect>> = classes.iter().map(|class| self.on(class)).collect();
        let policies = 0..self.axis.values.len();
        let of_policy = |policy: usize| by_class.iter().flatten().filter(move |effect| self.is(effect, policy));
        policies.flat_map(of_policy).cloned().collect()
    }

    fn is(&self, effect: &PolicyEffect, policy: usize) -> bool {
        effect.value == self.axis.values[policy]
    }

    /// The effect of each policy but the first on a class, over the settings in which every policy has a valid run.
    fn on(&self, class: &str) -> Vec<PolicyEffect> {
        let known = |cell: &Cell<'_>| self.mean_latency(cell, class, None).is_some();
        let is_present = |policy: &usize| self.settings.iter().any(|(_, row)| row[*policy].is_some_and(known));
        let policies: Vec<usize> = (0..self.axis.values.len()).filter(is_present).collect();
        let complete = self.settings.iter().filter_map(|(_, row)| {
            let cells = policies.iter().map(|policy| row[*policy].filter(|cell| known(cell)));
            cells.collect::<Option<Vec<&Cell<'_>>>>()
        });
        let rows: Vec<Vec<&Cell<'_>>> = complete.collect();
        if rows.is_empty() || policies.len() < 2 || policies[0] != 0 {
            return Vec::new();
        }
        let gains = self.averages(&rows, class, |first, this| first / this);
        let penalties = self.averages(&rows, class, |first, this| this / first);
        let effects = policies.iter().enumerate().skip(1).map(|(column, policy)| PolicyEffect {
            axis: self.axis.key.clone(),
            value: self.axis.values[*policy].clone(),
            arm: self.arm.to_owned(),
            workload: self.workload.to_owned(),
            class: class.to_owned(),
            across_workloads: false,
            gain: gains[column - 1],
            penalty: penalties[column - 1],
            preemptions_per_request: self.preemptions(rows.iter().map(|row| row[column]), class),
            settings: rows.len(),
            settings_left_out: self.settings.len() - rows.len(),
        });
        effects.collect()
    }

    /// For each column but the first, the mean over all rows of its ratio to the first.
    fn averages(&self, rows: &[Vec<&Cell<'_>>], class: &str, ratio: fn(f64, f64) -> f64) -> Vec<Interval> {
        let average = |column: usize, block: Option<usize>| {
            let of_row = |row: &Vec<&Cell<'_>>| {
                let mean = |cell: &Cell<'_>| self.mean_latency(cell, class, block);
                Some(ratio(mean(row[0])?, mean(row[column])?))
            };
            let ratios: Vec<f64> = rows.iter().map(of_row).collect::<Option<_>>()?;
            Some(ratios.iter().sum::<f64>() / ratios.len() as f64)
        };
        let runs = rows.iter().flatten().flat_map(|cell| &cell.runs);
        let blocks = runs.map(|run| self.cells.block(*run) + 1).max().unwrap_or(0);
        let columns = 1..rows[0].len();
        let in_blocks = columns.clone().map(|column| (0..blocks).map(|block| average(column, Some(block))).collect());
        let samples = Samples::new(in_blocks.collect());
        let interval = |column: usize| {
            let value = average(column, None).expect("rows have latencies in all columns");
            let spread = estimate(&samples, column - 1);
            let spread = spread.and_then(|around| Some((around.low? / around.value, around.high? / around.value)));
            Interval { value, low: spread.map(|(low, _)| value * low), high: spread.map(|(_, high)| value * high) }
        };
        columns.map(interval).collect()
    }

    fn parts<'c>(&'c self, cell: &'c Cell<'_>, class: &'c str) -> impl Iterator<Item = (usize, &'c Part)> {
        let of_run = |run: &usize| Some((self.cells.block(*run), self.cells.result(cell, *run).classes.get(class)?));
        cell.runs.iter().filter_map(of_run)
    }

    /// The mean latency of a class over the requests of all runs, or of those in one block; `None` if none completed.
    fn mean_latency(&self, cell: &Cell<'_>, class: &str, block: Option<usize>) -> Option<f64> {
        let parts = self.parts(cell, class).filter(|(of, _)| block.is_none_or(|block| block == *of));
        let means = parts.filter_map(|(_, part)| Some((part.latency_us?.mean, part.completed as f64)));
        let (total, count) = means.fold((0.0, 0.0), |(total, count), (mean, n)| (total + mean * n, count + n));
        Some(total / count).filter(|mean| mean.is_finite() && *mean > 0.0)
    }

    /// Attempts rolled back for a more important transaction, per request of the class; `None` if a run does not report
    /// them.
    fn preemptions<'c>(&'c self, cells: impl Iterator<Item = &'c Cell<'c>>, class: &str) -> Option<f64> {
        let parts = cells.flat_map(|cell| self.parts(cell, class));
        let locks: Vec<&LockStatistics> = parts.map(|(_, part)| part.locks.as_ref()).collect::<Option<_>>()?;
        let all = LockStatistics::merged(&locks);
        all.per_request(all.preemptions())
    }
}
