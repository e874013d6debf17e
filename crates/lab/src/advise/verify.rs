//! Measures the advice: the advised value and its neighbour run in an experiment of their own, on the same target.
//!
//! The experiment is the run's own file with two changes: its sweep has the two values, and its claims are that the
//! promise is kept at each of them. The claims' verdicts then say whether it is, given the noise of the blocks.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use plimsoll_model::statistics::verdict::{Levels, Margin};
use plimsoll_policy::TargetLimit;
use serde_json::Value;
use toml::{Table, Value as TomlValue};

use super::{Advice, Slo, Standing, TriedValue, is_of_pairs};
use crate::execution::{Execution, ExecutionError, Request};
use crate::experiment::parse;
use crate::program::Program;
use crate::results::{ClaimVerdict, Estimate, Interval, Mode, Results, Verified, VerifiedSetting};
use crate::run_directory::{EXPERIMENT, RunDirectory};
use crate::summary::TOGETHER;

/// The folder of the experiment, below that of the run.
const VERIFY: &str = "verify";

/// Why advice cannot be measured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Nothing was advised.
    #[error("there is nothing to verify: no value of {0} is predicted to keep the promise")]
    NoBest(String),
    /// The advice is to leave out the other workload.
    #[error(
        "{0}=0 is advised, which leaves nothing to measure beside `{1}`; its own arm of the run has measured it alone"
    )]
    Nobody(String, String),
    /// The run has no experiment file.
    #[error(
        "the run has no experiment file, so its runs cannot be made again; run an experiment file and take advice on that"
    )]
    NoText,
    /// The run's copy of the experiment file is not a valid one.
    #[error("the experiment file of the run cannot be read: {0}")]
    Text(String),
    /// The run was simulated.
    #[error("the run was simulated; advice on it cannot be measured on a target")]
    Simulated,
}

/// Measures advice on the results of the run in a folder: the advised value and its neighbour.
pub fn verify(
    run: &Path,
    results: &Results,
    advice: &Advice,
    slo: &Slo,
    program: &Program<'_>,
) -> Result<Verified, ExecutionError> {
    let place = run.join(VERIFY);
    RunDirectory::check_place(&place).map_err(|error| {
        ExecutionError::Refused(format!(
            "{error}; advice on this run was measured before, so move that folder away first"
        ))
    })?;
    let verification = Verification::of(results, advice, slo)?;
    let refused = |error: &dyn Display| {
        ExecutionError::Refused(format!(
            "the run cannot be made again, so its advice cannot be verified: {error}\nadvise without --verify, or run the experiment again"
        ))
    };
    // Files that the experiment names lie beside its own.
    let file = run.join(EXPERIMENT).display().to_string();
    let experiment = parse(&verification.text, &file).map_err(|error| refused(&error))?;
    let request = Request { quick: results.quick, cores: verification.cores, confirmed: true, ..Request::default() };
    let execution = Execution::of_file(&experiment, request, program.targets).map_err(|error| refused(&error))?;
    program.reporter.tell(&format!("verifying {}", verification.words()));
    let conclusion = execution.begin(&place, program)?;
    if conclusion.stopped {
        let place = place.display();
        return Err(ExecutionError::Interrupted(format!(
            "stopped before the advice was verified; {place} keeps what was measured"
        )));
    }
    Ok(verification.verified(&conclusion.results))
}

/// An experiment that measures advice.
#[derive(Debug, Clone)]
pub(super) struct Verification {
    /// The experiment file.
    pub(super) text: String,
    /// The number of cores that the run was sized for, if its file does not set it.
    cores: Option<usize>,
    slo: Slo,
    arm: String,
    /// The advised value first.
    tried: Vec<TriedValue>,
    key: String,
    maximise: String,
}

impl Verification {
    /// The experiment that measures the best value of some advice, and the value next to it that is not as good.
    pub(super) fn of(results: &Results, advice: &Advice, slo: &Slo) -> Result<Self, VerifyError> {
        if results.mode == Mode::Simulated {
            return Err(VerifyError::Simulated);
        }
        let best = advice.best.ok_or_else(|| VerifyError::NoBest(advice.key.clone()))?;
        if advice.tried[best].value == 0 {
            return Err(VerifyError::Nobody(advice.key.clone(), slo.workload.clone()));
        }
        let tried: Vec<TriedValue> =
            std::iter::once(best).chain(neighbour(advice, best)).map(|at| advice.tried[at].clone()).collect();
        let arm = arm(results, &slo.workload, &advice.maximise);
        let text = results.experiment.text.as_deref().ok_or(VerifyError::NoText)?;
        let table: Table = toml::from_str(text).map_err(|error| VerifyError::Text(error.message().to_owned()))?;
        let mut verification = Verification {
            text: String::new(),
            cores: cores(results, &table),
            slo: slo.clone(),
            arm,
            tried,
            key: advice.key.clone(),
            maximise: advice.maximise.clone(),
        };
        let table = verification.experiment(results, table);
        verification.text = toml::to_string(&table).map_err(|error| VerifyError::Text(error.to_string()))?;
        Ok(verification)
    }

    /// The values that are measured, in words.
    pub(super) fn words(&self) -> String {
        let values: Vec<String> = self.tried.iter().map(|one| format!("{}={}", self.key, one.value)).collect();
        values.join(" and ")
    }

    fn experiment(&self, results: &Results, mut table: Table) -> Table {
        for key in ["claim", "study", "differs", "sweep"] {
            table.remove(key);
        }
        table.insert("name".to_owned(), format!("{}-verify", results.experiment.name).into());
        table.insert("title".to_owned(), format!("Whether {} is kept as predicted", self.slo).into());
        let mut arms = vec![TomlValue::from(self.arm.clone())];
        if self.is_relative() {
            arms.insert(0, format!("alone:{}", self.slo.workload).into());
        }
        table.insert("arms".to_owned(), arms.into());
        table.insert("sweep".to_owned(), self.sweep(results).into());
        table.insert("claim".to_owned(), self.claims().into());
        // All values are measured, even if the run searched for a knee.
        if let Some(run) = table.get_mut("run").and_then(TomlValue::as_table_mut) {
            run.remove("search");
        }
        match results.quick {
            true => {
                if let Some(quick) = table.get_mut("quick").and_then(TomlValue::as_table_mut) {
                    quick.remove("sweep");
                }
            }
            false => {
                table.remove("quick");
            }
        }
        table
    }

    fn is_relative(&self) -> bool {
        matches!(self.slo.target.limit, TargetLimit::HundredthsOfAlone(_))
    }

    /// The values to measure, and for every other swept key the value used for the prediction.
    fn sweep(&self, results: &Results) -> Table {
        let mut sweep = Table::new();
        let setting = &self.tried[0].setting;
        for axis in &results.experiment.sweep {
            let pinned = match setting.get(&axis.key) {
                Some(value) => Some(value.clone()),
                // Loads that were swept are predicted as one client each, and think as in the first run.
                None if axis.key.ends_with(".clients") => Some(Value::from(1)),
                None => results.points.first().and_then(|point| point.setting.get(&axis.key)).cloned(),
            };
            let values = pinned.and_then(|value| TomlValue::try_from(value).ok());
            if let Some(value) = values.filter(|_| axis.key != self.key) {
                sweep.insert(axis.key.clone(), vec![value].into());
            }
        }
        let values: Vec<TomlValue> = self.tried.iter().map(|one| i64::from(one.value).into()).collect();
        sweep.insert(self.key.clone(), values.into());
        sweep
    }

    /// Claims that the promise is kept at each value.
    fn claims(&self) -> Vec<Table> {
        let claim = |one: &TriedValue| {
            let mut claim = Table::new();
            claim.insert("text".to_owned(), claim_text(&self.key, one.value, &self.slo).into());
            claim.insert("holds".to_owned(), self.condition(one.value).into());
            claim
        };
        self.tried.iter().map(claim).collect()
    }

    fn condition(&self, value: u32) -> String {
        let (own, percentile) = (quoted(&self.slo.workload), self.slo.target.percentile);
        let at = format!("{}={value}", self.key);
        let measured = format!("{percentile}({}, {own}, {at})", quoted(&self.arm));
        match self.slo.target.limit {
            TargetLimit::Length(length) => format!("{measured} < {}us", length.as_micros()),
            TargetLimit::HundredthsOfAlone(hundredths) => {
                let alone = quoted(&format!("alone:{}", self.slo.workload));
                format!("{measured} < {} * {percentile}({alone}, {own}, {at})", f64::from(hundredths) / 100.0)
            }
        }
    }

    /// The figures that the experiment has measured, beside the predicted ones.
    pub(super) fn verified(&self, measured: &Results) -> Verified {
        let settings: Vec<VerifiedSetting> = self.tried.iter().map(|one| self.setting(one, measured)).collect();
        let sentence = self.sentence(&settings);
        Verified {
            slo: self.slo.to_string(),
            key: self.key.clone(),
            maximise: self.maximise.clone(),
            settings,
            sentence,
        }
    }

    fn setting(&self, tried: &TriedValue, measured: &Results) -> VerifiedSetting {
        let is_it = |cell: &&Estimate, name: &str| {
            let value = cell.setting.get(&self.key).and_then(Value::as_u64);
            cell.arm == self.arm && cell.workload == name && value == Some(u64::from(tried.value))
        };
        let cell = |name: &str| measured.estimates.iter().find(|cell| is_it(cell, name));
        let text = claim_text(&self.key, tried.value, &self.slo);
        let claim = measured.claims.iter().find(|claim| claim.text == text);
        VerifiedSetting {
            value: tried.value,
            predicted_ms: tried.percentile_ms,
            measured_ms: cell(&self.slo.workload).and_then(|cell| self.percentile_ms(measured, cell)),
            predicted_per_s: tried.throughput_per_s,
            measured_per_s: cell(&self.maximise).map(|cell| cell.throughput_per_s),
            verdict: claim.map_or(ClaimVerdict::NotJudged, |claim| claim.verdict),
            why_not: match claim {
                Some(claim) => claim.why_not.clone(),
                None => Some("it was not measured".to_owned()),
            },
        }
    }

    /// The promised percentile, with its interval over blocks.
    fn percentile_ms(&self, measured: &Results, cell: &Estimate) -> Option<Interval> {
        let of_run = |run: &usize| {
            let result = measured.points.get(*run)?.workloads.iter().find(|one| one.name == self.slo.workload)?;
            super::percentile_us(&self.slo, &result.all.latency_us?)
        };
        let blocks: Option<Vec<f64>> = cell.runs.iter().map(|run| Some((of_run(run)? as f64 * 1e-3).ln())).collect();
        let blocks = blocks.filter(|blocks| !blocks.is_empty())?;
        let margin = Margin::of_blocks(&blocks, Levels::of_looks(1), 0.0);
        let end = |end: f64| Some(end.exp()).filter(|end| end.is_finite() && *end > 0.0);
        Some(Interval { value: margin.value.exp(), low: end(margin.low), high: end(margin.high) })
    }

    fn sentence(&self, settings: &[VerifiedSetting]) -> String {
        let of = |one: &VerifiedSetting| {
            let does = match one.verdict {
                ClaimVerdict::Holds => "keeps",
                ClaimVerdict::Fails => "breaks",
                ClaimVerdict::Undecided => "is undecided on",
                ClaimVerdict::NotJudged => "was not judged on",
            };
            format!("{}={} {does} {}", self.key, one.value, self.slo)
        };
        let advised = settings.first().map(of).unwrap_or_default();
        match settings.get(1) {
            None => format!("Measured, {advised}."),
            Some(next) => format!("Measured, {advised}; its neighbour {}.", of(next)),
        }
    }
}

fn claim_text(key: &str, value: u32, slo: &Slo) -> String {
    format!("{key}={value} keeps {slo}")
}

/// The value next to the best one that is not predicted to keep the promise; without one, any value next to it.
fn neighbour(advice: &Advice, best: usize) -> Option<usize> {
    let setting: &BTreeMap<String, Value> = &advice.tried[best].setting;
    let is_there = |at: &usize| advice.tried.get(*at).is_some_and(|one| one.setting == *setting && one.value > 0);
    let beside: Vec<usize> = [Some(best + 1), best.checked_sub(1)].into_iter().flatten().filter(is_there).collect();
    let worse = beside.iter().find(|at| advice.tried[**at].standing != Standing::Kept);
    worse.or(beside.first()).copied()
}

/// The arm that is predicted: the two of a run of pairs, all workloads otherwise.
fn arm(results: &Results, own: &str, other: &str) -> String {
    if own == other {
        return format!("alone:{own}");
    }
    if !is_of_pairs(results) {
        return TOGETHER.to_owned();
    }
    // An arm has its workloads in the order of the file.
    let names = results.experiment.workloads.iter().filter(|name| *name == own || *name == other);
    names.map(String::as_str).collect::<Vec<_>>().join("+")
}

fn cores(results: &Results, table: &Table) -> Option<usize> {
    let is_set = table.get("machine").is_some_and(|machine| machine.get("cores").is_some());
    let cores = results.experiment.settings.get("machine.cores").and_then(Value::as_u64);
    cores.filter(|_| !is_set).and_then(|cores| usize::try_from(cores).ok())
}

/// A name as claims accept it.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
