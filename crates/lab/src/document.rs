//! Makes the whole of `results.json` from a plan and the records of its runs.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::MachineFacts;
use plimsoll_workload::driver::{DoubtAbout, WarmUp};
use plimsoll_workload::file;
use plimsoll_workload::instance::INSTANCE;
use plimsoll_workload::registry::{BENCHMARKS, ParameterValue};
use serde_json::{Value, json};

use crate::amounts::Amounts;
use crate::analysis;
use crate::counted;
use crate::fingerprint::{machine_fingerprint, settings_hash, text_hash};
use crate::limits;
use crate::others;
use crate::plan::{Axis, Plan, PlannedWorkload, Search, SweepTarget};
use crate::record::RunRecord;
use crate::results::{AxisRole, Experiment, FORMAT, Mode, Point, Results, SweptAxis};
use crate::simulation;
use crate::size;
use crate::targets::{FILE_OPTIONS, Targets, target_of};

/// When and where something was measured, and by which program.
#[derive(Debug, Clone)]
pub struct Provenance {
    /// Version of the program.
    pub version: String,
    /// Commit the program was built from.
    pub commit: Option<String>,
    /// UTC, ISO 8601, when the experiment began.
    pub started: String,
    /// Seconds it took, loading included.
    pub elapsed_s: f64,
}

/// The files that options name at any setting of a plan, with the option's name.
fn option_files(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    for name in FILE_OPTIONS {
        let place = SweepTarget::Option(name.to_owned());
        let swept = plan.axes.iter().filter(|axis| axis.place.parts().contains(&place)).flat_map(|axis| &axis.values);
        let swept = swept.filter_map(|value| value.as_str().map(str::to_owned));
        let all = plan.base.options.get(name).cloned().into_iter().chain(swept);
        files.extend(all.filter(|file| file != "none").map(|file| (name, file)));
    }
    files
}

/// Every setting of a plan by name, including the target's. Two runs measured the same only if these are equal.
pub fn settings(plan: &Plan, targets: &dyn Targets) -> BTreeMap<String, Value> {
    let is_simulated = plan.is_simulated();
    let mut settings = match is_simulated {
        true => simulation::settings(plan),
        false => target_of(targets, &plan.base).map(|target| target.settings()).unwrap_or_default(),
    };
    let mut set = |name: &str, value: Value| settings.insert(name.to_owned(), value);
    set("run.repeats", plan.run.repeats.into());
    if plan.run.looks > 1 {
        set("run.looks", plan.run.looks.into());
    }
    set("run.seed", plan.run.seed.into());
    set("run.search", json!(plan.run.search));
    if plan.run.search == Search::Size {
        set("run.budget_s", plan.run.sizing.budget.as_secs_f64().into());
        set("run.promise", plan.run.sizing.promise.map(|promise| promise.to_string()).into());
    }
    set("arms", plan.arms.iter().map(|arm| arm.name.clone()).collect::<Vec<_>>().into());
    for axis in &plan.axes {
        set(&format!("sweep.{}", axis.key), axis.values.clone().into());
    }
    if !is_simulated {
        settings_of_target(plan, &mut settings);
    }
    settings
}

/// The settings that only runs on a database have.
fn settings_of_target(plan: &Plan, settings: &mut BTreeMap<String, Value>) {
    let mut set = |name: String, value: Value| settings.insert(name, value);
    set(
        "run.warmup".to_owned(),
        match plan.run.warmup {
            WarmUp::For(length) => format!("{}s", length.as_secs_f64()).into(),
            WarmUp::UntilSteady { at_most } => format!("steady {}s", at_most.as_secs_f64()).into(),
        },
    );
    set("run.measure_s".to_owned(), plan.run.measure.as_secs_f64().into());
    if let Some(requests) = plan.run.simulated_requests {
        set("run.simulated_requests".to_owned(), requests.into());
    }
    set("run.reload".to_owned(), json!(plan.run.reload));
    set("run.server_lost".to_owned(), json!(plan.run.server_lost));
    for (name, amount) in &plan.base.limits {
        set(format!("machine.{name}"), json!(amount));
    }
    for (name, file) in option_files(plan) {
        let text = std::fs::read_to_string(plan.base.folder.join(&file)).unwrap_or_default();
        set(format!("target.{name}.hash.{file}"), text_hash(&text).into());
        set(format!("target.{name}"), plan.base.options.get(name).map_or(Value::Null, |file| file.as_str().into()));
    }
    for workload in &plan.base.workloads {
        let files = plan.benchmark(workload).map(|benchmark| benchmark.files());
        let own = file::identity(&workload.kind, &files.unwrap_or_default());
        let kind = own.as_ref().map_or(&workload.kind, |(kind, _)| kind);
        set(format!("{}.kind", workload.name), kind.clone().into());
        if let Some((_, hash)) = &own {
            set(format!("{}.content", workload.name), hash.clone().into());
        }
        set(format!("{}.scale", workload.name), workload.scale.into());
        for (name, value) in parameters(workload) {
            set(format!("{}.{name}", workload.name), value);
        }
        if let Some(instance) = workload.parameters.get(INSTANCE) {
            set(format!("{}.{INSTANCE}", workload.name), instance.clone());
        }
        let clients = serde_json::to_value(&workload.clients).expect("plain data");
        // The seed of its clients is that of the run.
        for (name, value) in clients.as_object().into_iter().flatten().filter(|(name, _)| *name != "seed") {
            set(format!("{}.{name}", workload.name), value.clone());
        }
    }
}

/// Cores that other processes may keep busy before the reader is warned: the kernel's own housekeeping takes less.
const OTHERS_CORES_MAX: f64 = 0.1;

/// A warning if other processes used the machine while runs were measured.
fn others_busy(records: &[RunRecord]) -> Option<String> {
    let busy = records.iter().filter_map(|record| record.point.device.busy_cores_others);
    let busy: Vec<f64> = busy.filter(|cores| *cores > OTHERS_CORES_MAX).collect();
    let most = busy.iter().copied().reduce(f64::max)?;
    let (count, all) = (busy.len(), records.len());
    Some(format!(
        "in {count} of {all} runs other processes on this machine, or its host, kept up to {most:.1} cores busy; measure on a quiet machine"
    ))
}

/// The number of discarded tries, if there were any.
fn thrown_away(records: &[RunRecord]) -> Option<String> {
    let tries: Vec<&String> = records.iter().flat_map(|record| &record.point.thrown_away).collect();
    let first = tries.first()?;
    let (count, of) = (tries.len(), records.iter().filter(|record| !record.point.thrown_away.is_empty()).count());
    Some(format!("{count} tries of {of} runs were thrown away and run again, the first because {first}"))
}

/// The kinds of doubts, those that change figures most first.
const DOUBTS: [DoubtAbout; 5] = [
    DoubtAbout::Overload,
    DoubtAbout::LittlesLaw,
    DoubtAbout::Steadiness,
    DoubtAbout::ShortWarmUp,
    DoubtAbout::ShortWindow,
];

/// Each kind of doubt about valid runs once, with the number of windows that it concerns.
fn doubts(records: &[RunRecord]) -> Vec<String> {
    let valid = || records.iter().map(|record| &record.point).filter(|point| point.valid);
    let told = |about: DoubtAbout| {
        let mut doubted = valid().flat_map(|point| &point.workloads).flat_map(|workload| {
            workload.window.doubts.iter().filter(move |doubt| doubt.about == about).map(|doubt| (&workload.name, doubt))
        });
        let (name, doubt) = doubted.next()?;
        let others = match doubted.count() {
            0 => String::new(),
            1 => " (the same doubt about 1 more window)".to_owned(),
            more => format!(" (the same doubt about {more} more windows)"),
        };
        Some(format!("workload {name} {doubt}{others}"))
    };
    DOUBTS.into_iter().filter_map(told).collect()
}

/// Each warning once. Of warnings that differ only in their numbers, the first is kept, with the number of the others.
fn grouped(warnings: impl Iterator<Item = String>) -> Vec<String> {
    let mut groups: Vec<(String, BTreeSet<String>, String)> = Vec::new();
    for warning in warnings {
        let form: String =
            warning.split(|c: char| c.is_ascii_digit() || c == '.').filter(|part| !part.is_empty()).collect();
        match groups.iter_mut().find(|(known, ..)| *known == form) {
            Some((_, all, _)) => drop(all.insert(warning)),
            None => groups.push((form, BTreeSet::from([warning.clone()]), warning)),
        }
    }
    let told = |(_, all, first): (String, BTreeSet<String>, String)| match all.len() - 1 {
        0 => first,
        1 => format!("{first} (and once more with other numbers)"),
        more => format!("{first} (and {more} times more with other numbers)"),
    };
    groups.into_iter().map(told).collect()
}

fn swept(axis: &Axis) -> SweptAxis {
    let amounts = Amounts::of(&axis.values);
    let is_curve = amounts.are_all() || amounts.len() > 1;
    let is_allocation = |place: &SweepTarget| match place {
        SweepTarget::Option(_) => true,
        SweepTarget::Limit(name) => limits::is_allocation(name),
        SweepTarget::Target | SweepTarget::Workload(..) | SweepTarget::All(_) => false,
    };
    let parts = axis.place.parts();
    let role = match parts {
        [SweepTarget::Workload(_, field)] if field == "clients" => AxisRole::Clients,
        _ if is_curve && parts.iter().any(is_allocation) => AxisRole::Allocation,
        _ => AxisRole::Other,
    };
    SweptAxis { key: axis.key.clone(), values: axis.values.clone(), role }
}

/// The parameters of a workload's benchmark as given, the others at their defaults. Equal values are written alike, however
/// they were typed: 1 as 1.0, one word as a list of one if there can be several.
fn parameters(workload: &PlannedWorkload) -> impl Iterator<Item = (&'static str, Value)> {
    let entry = BENCHMARKS.iter().find(|entry| entry.name == workload.kind);
    entry.map_or(&[][..], |entry| entry.parameters).iter().map(|parameter| {
        let value = match (workload.parameters.get(parameter.name), &parameter.default) {
            (Some(Value::String(word)), ParameterValue::List(_)) => json!([word]),
            (Some(given), _) => given.as_f64().map_or_else(|| given.clone(), Value::from),
            (None, ParameterValue::Number(number)) => json!(number),
            (None, ParameterValue::Text(word)) => json!(word),
            (None, ParameterValue::List(words)) => json!(words),
        };
        (parameter.name, value)
    })
}

/// The document. Everything but the points and the claims follows from those two; the caller fills in the memory
/// measurements.
pub fn document(
    plan: &Plan,
    settings: BTreeMap<String, Value>,
    provenance: Provenance,
    machine: MachineFacts,
    records: &[RunRecord],
    warnings: Vec<String>,
) -> Results {
    let points: Vec<Point> = records.iter().map(|record| record.point.clone()).collect();
    let (mode, caution) = match plan.run.simulated_requests {
        _ if plan.is_simulated() => (Mode::Simulated, &simulation::CAUTION[..]),
        Some(_) => (Mode::SimulatedProcessor, &[counted::CAUTION][..]),
        None => (Mode::Measured, &[][..]),
    };
    let caution = caution.iter().map(|&told| told.to_owned());
    let warnings = grouped(caution.chain(warnings).chain(of_records(records, &points, machine.cores_usable)));
    let mut results = Results {
        origin: None,
        format: FORMAT,
        mode,
        plimsoll: provenance.version,
        commit: provenance.commit,
        started: provenance.started,
        elapsed_s: provenance.elapsed_s,
        machine_fingerprint: machine_fingerprint(&machine),
        machine,
        memory_speed: None,
        experiment: Experiment {
            name: plan.name.clone(),
            title: plan.title.clone(),
            study: plan.study.clone(),
            differs: plan.differs.clone(),
            settings_hash: settings_hash(&settings),
            settings,
            sweep: plan.axes.iter().map(swept).collect(),
            arms: plan.arms.iter().map(|arm| arm.name.clone()).collect(),
            workloads: plan.base.workloads.iter().map(|workload| workload.name.clone()).collect(),
            text: plan.text.clone(),
        },
        points,
        estimates: Vec::new(),
        noise_floor: BTreeMap::new(),
        interference: Vec::new(),
        side_by_side: Vec::new(),
        knees: Vec::new(),
        scalability: Vec::new(),
        policies: Vec::new(),
        levers: Vec::new(),
        quick: false,
        runs_left: 0,
        claims: Vec::new(),
        advice: Vec::new(),
        sizes: None,
        line: None,
        verified: None,
        checks: None,
        warnings,
    };
    let histograms: Vec<_> = records.iter().map(|record| record.histograms.as_slice()).collect();
    analysis::complete(&mut results, &histograms);
    results.claims = analysis::judge(plan, &results, records);
    if plan.run.search == Search::Size {
        add_sizes(&mut results, plan, records);
    }
    results
}

/// The warnings and notes that records bring. What holds for every run comes last: it changes no figure.
fn of_records(records: &[RunRecord], points: &[Point], cores: usize) -> Vec<String> {
    let kept = others::kept(points, cores);
    let busy = if kept.is_none() { others_busy(records) } else { None };
    let of_runs = records.iter().flat_map(|record| &record.warnings).cloned();
    let notes = records.iter().flat_map(|record| &record.notes).cloned();
    let about = kept.into_iter().chain(busy).chain(thrown_away(records));
    about.chain(of_runs).chain(doubts(records)).chain(notes).collect()
}

/// The answer of a search for sizes, in place of knees: its runs lie on no whole curve.
fn add_sizes(results: &mut Results, plan: &Plan, records: &[RunRecord]) {
    let facts = &results.machine;
    let memory = facts.memory_limit_bytes.map_or(facts.memory_bytes, |limit| limit.min(facts.memory_bytes));
    let memory_mib = (memory > 0).then(|| memory as f64 / f64::from(1 << 20));
    let sizes = size::answer::answer(plan, records, facts.cores_usable.max(1), memory_mib);
    results.knees.clear();
    results.advice = size::advice(&sizes);
    results.sizes = Some(sizes);
}

#[cfg(test)]
mod tests;
