//! The line that `plimsoll study` draws: the setting that lets one workload keep its speed beside the others, and its
//! cost to them.
//!
//! `levers` lists the means of isolation that a target has, and `forecast` predicts their effects. [`Attempt`] is the
//! experiment that measures the most promising ones, and `measured` evaluates it. The experiment is an ordinary file:
//! its sweep has the options of the levers, and only the wanted combinations run (`--only`, with `;` between
//! alternatives). Workloads alone run in every block, so that compared runs share the drift of their block. The
//! differences between equal runs of the study bound the differences that can be distinguished.

mod forecast;
mod frontier;
mod levers;
mod measured;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use crate::results::{Isolation, Line, LineStanding, Results};
use crate::study::{SIDES, Sides};
use crate::summary::TOGETHER;
pub(crate) use frontier::frontier;
use levers::Lever;
use measured::Floors;
use plimsoll_notation::{choices, did_you_mean};
pub(crate) use words::told;

/// The default share of its speed that the protected workload must keep.
pub const SLO: f64 = 0.9;

/// Blocks of the line's experiment. Each has both runs alone.
pub(crate) const REPEATS: u32 = 4;

/// Settings that are measured: the cheapest that is predicted to be enough, and the strongest.
const MEASURED_MAX: usize = 2;

/// A request for a line.
#[derive(Debug, Clone, PartialEq)]
pub struct LineRequest {
    /// The workload to protect; the first transactional one by default.
    pub protect: Option<String>,
    /// The workload whose requests are queries, also if the driver counts them as transactions, as those of a file.
    pub queries: Option<String>,
    /// The part of its speed alone that it is to keep, above 0 and at most 1.
    pub slo: f64,
    /// How many settings are measured, the most promising first.
    pub measured_max: usize,
}

impl LineRequest {
    /// The line of a study with these workloads, as requested on the command line. `protect` is the name of one of them,
    /// `oltp` or `olap`. Refuses a workload that the study has not, and a share that is none.
    pub fn of_study(protect: &str, slo: f64, sides: &Sides) -> Result<Self, String> {
        let names = sides.names();
        let side = names.iter().position(|name| *name == protect).or(SIDES.iter().position(|name| *name == protect));
        let Some(side) = side else {
            let mut known: Vec<&str> = names.to_vec();
            known.extend(SIDES.iter().filter(|side| !names.contains(*side)));
            let (meant, all) = (did_you_mean(protect, known.iter().copied()), choices(&known));
            return Err(format!("--protect: the study has no workload `{protect}`{meant}; it has {all}"));
        };
        if !(slo > 0.0 && slo <= 1.0) {
            return Err(format!("--slo {slo}: write a share above 0 and at most 1, such as 0.9"));
        }
        let [protect, queries] = [names[side], names[1]].map(|name| Some(name.to_owned()));
        Ok(LineRequest { protect, queries, slo, measured_max: MEASURED_MAX })
    }

    /// The most runs that its measurement takes.
    pub fn runs_max(&self, workloads: usize) -> usize {
        REPEATS as usize * (workloads + self.measured_max)
    }
}

/// The candidate settings, before they are measured.
#[derive(Debug, Clone)]
pub struct Attempt {
    line: Line,
    /// How many of `tried`, after the first, are measured.
    count: usize,
    /// The differences between equal runs of the study.
    floors: Floors,
    /// Swept options: key, the study's own value, and the others.
    pub(crate) sweep: Vec<(String, Vec<String>)>,
}

impl Attempt {
    /// Lists candidate settings that may isolate the workloads of a study, from its measurements; `None` without two
    /// workloads that ran alone and together.
    pub fn consider(results: &Results, wanted: &LineRequest) -> Option<Self> {
        let protect = wanted.protect.clone().or_else(|| first_transactional(results))?;
        let own = BTreeMap::new();
        let kept = measured::kept(results, &protect, (&own, &own), 1, &Floors::default())?;
        let standing = measured::standing(&kept, wanted.slo);
        let as_it_is =
            Isolation { words: "as they are".to_owned(), kept, standing: Some(standing), ..Isolation::default() };
        let levers = match standing {
            LineStanding::Kept => Vec::new(),
            _ => levers::of(results, &protect, wanted.queries.as_deref()),
        };
        let ranked = forecast::ranked(results, wanted, &protect, levers);
        let count = ranked.len().min(wanted.measured_max);
        let sweep = sweep(results, &ranked[..count]);
        let tried = ranked.into_iter().map(|(lever, predicted)| Isolation {
            words: lever.words,
            options: lever.options,
            predicted,
            how: lever.how,
            ..Isolation::default()
        });
        let tried = std::iter::once(as_it_is).chain(tried).collect();
        let line = Line { protect, slo: wanted.slo, tried, best: Some(0), sentence: String::new() };
        Some(Attempt { line, count, floors: Floors::of(results), sweep })
    }

    /// Whether there is nothing to measure.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The workload that is protected.
    pub fn protect(&self) -> &str {
        &self.line.protect
    }

    /// The measured settings, in words.
    pub fn words(&self) -> Vec<&str> {
        self.measured().map(|one| one.words.as_str()).collect()
    }

    /// The wanted combinations of swept options and arms, in the syntax of `--only`: workloads alone at the study's own
    /// setting, and together at each setting.
    pub fn only(&self, workloads: &[&str]) -> String {
        let at = |options: &BTreeMap<String, String>| {
            let own = self.setting(options);
            own.iter().map(|(key, value)| format!("{key}={value},")).collect::<String>()
        };
        let alone = at(&BTreeMap::new());
        let arms = workloads.iter().map(|name| format!("alone:{name}")).collect::<Vec<_>>().join(",");
        let together = self.measured().map(|one| format!("; {}{TOGETHER}", at(&one.options)));
        format!("{alone}{arms}{}", together.collect::<String>())
    }

    /// The line, with the measurements of the experiment; settings without measurements have no standing.
    pub fn line(mut self, results: Option<&Results>) -> Line {
        let swept: Vec<BTreeMap<String, String>> =
            self.line.tried.iter().map(|one| self.setting(&one.options)).collect();
        let alone = self.setting(&BTreeMap::new());
        let (count, floors) = (self.count, &self.floors);
        let Line { protect, slo, tried, .. } = &mut self.line;
        for (one, swept) in tried.iter_mut().zip(&swept).skip(1).take(count) {
            let kept = results.and_then(|results| measured::kept(results, protect, (&alone, swept), count, floors));
            one.standing = kept.as_ref().map(|kept| measured::standing(kept, *slo));
            one.kept = kept.unwrap_or_default();
        }
        self.line.best = words::best(&self.line.tried);
        self.line.sentence = words::sentence(&self.line);
        self.line
    }

    /// The settings that are measured.
    fn measured(&self) -> impl Iterator<Item = &Isolation> {
        self.line.tried.iter().skip(1).take(self.count)
    }

    /// The value of every swept option at a setting.
    fn setting(&self, options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let value =
            |(key, values): &(String, Vec<String>)| (key.clone(), options.get(key).unwrap_or(&values[0]).clone());
        self.sweep.iter().map(value).collect()
    }
}

fn first_transactional(results: &Results) -> Option<String> {
    let is = |name: &&String| {
        let mut ran = results.points.iter().flat_map(|point| &point.workloads).filter(|one| one.name == **name);
        ran.any(|one| !one.analytical)
    };
    results.experiment.workloads.iter().find(is).cloned()
}

/// The options of these levers, with the study's own value of each first.
fn sweep(results: &Results, levers: &[(Lever, BTreeMap<String, f64>)]) -> Vec<(String, Vec<String>)> {
    let mut sweep: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in levers.iter().flat_map(|(lever, _)| &lever.options) {
        let values = sweep.entry(key.clone()).or_insert_with(|| vec![levers::own(results, key).unwrap_or_default()]);
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    sweep.into_iter().collect()
}
