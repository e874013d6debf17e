//! Turns an experiment whose target is [`simulation::URL`] into a plan: the same file, the same sweeps, arms and
//! claims, with options and parameters of the simulator.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use plimsoll_notation::{At, Problem, Problems, choices, did_you_mean};
use plimsoll_workload::driver::{ClientOptions, WarmUp};

use super::benchmarks::{Requests, combinations};
use super::resolve::{ResolvedPlan, Resolver};
use super::sweep::PlacedAxis;
use super::sweep_key::SweepKeys;
use super::typed::{TypedExperiment, TypedQuick, TypedWorkload};
use super::{arms, runs, sweep, workloads};
use crate::plan::{Arm, PlannedWorkload, Setting, SweepTarget, option_text};
use crate::simulation::{self, Fault, option_names, parameter_names};

pub(super) fn is_simulated(typed: &TypedExperiment) -> bool {
    typed.target.url.as_ref().is_some_and(|url| url.value() == simulation::URL)
}

/// The plan of an experiment that is simulated.
pub(super) fn plan(of: &Resolver<'_>, quick: Option<&TypedQuick>) -> Result<ResolvedPlan, Vec<Problem>> {
    let typed = of.typed;
    let mut problems = Problems::default();
    of.check_name(&mut problems);
    refuse_what_is_measured(typed, &mut problems);
    let mut run = runs::run_plan(&typed.run, quick, &mut problems);
    // The references determine the length of a simulation.
    (run.warmup, run.measure) = (WarmUp::For(Duration::ZERO), Duration::ZERO);
    let options = options(typed, &mut problems);
    let workloads = workloads::named(&typed.workloads, &mut problems, |at, problems| Some(operator(at, problems)));
    problems.check()?;
    if workloads.is_empty() {
        return Err(vec![Problem::new(0..0, "there is no [[workload]], so nothing would be simulated; add one")]);
    }
    let (url, limits, folder) = (simulation::URL.to_owned(), BTreeMap::new(), of.folder.to_owned());
    let mut base = Setting { swept: BTreeMap::new(), url, options, limits, workloads, folder };
    let (known_options, own) = (option_names(), base.workloads.clone());
    let fields = |workload: &PlannedWorkload| parameter_names(&workload.kind);
    let keys = SweepKeys { workloads: &own, fields: &fields, options: &known_options, limits: &[], has_target: false };
    let axes = sweep::axes(&typed.sweep, quick.map(|quick| &quick.sweep), &keys, &mut problems);
    if quick.is_some() {
        of.set_quick(&mut base, &axes, &keys, &mut problems);
    }
    problems.check()?;
    of.check_search(&axes, &mut problems);
    let arms = arms::arms(typed.arms.as_ref(), &base.workloads, &mut problems);
    problems.check()?;
    check(typed, &base, &axes, &arms, &mut problems);
    problems.check()?;
    let count = base.workloads.len();
    let requests = Requests { transactions: vec![Vec::new(); count], priorities: vec![Vec::new(); count] };
    of.resolved(base, &axes, arms, run, requests)
}

/// Refuses keys that only a run on a database has.
fn refuse_what_is_measured(typed: &TypedExperiment, problems: &mut Problems) {
    let run = &typed.run;
    for (name, given) in [("warmup", &run.warmup), ("measure", &run.measure)] {
        if let Some(given) = given {
            let message = format!(
                "a simulation has no `{name}`; set `warm_up` and `references`, numbers of references, in the target's options"
            );
            problems.add(given.span(), message);
        }
    }
    for key in typed.machine.keys() {
        let message = "[machine] limits the machine that the simulator runs on; set the simulated machine in the target's options";
        problems.add(key.span(), message);
    }
    for workload in &typed.workloads {
        let TypedWorkload { scale, clients, think, round_trip, rate, priority, instance, user, application, .. } =
            workload.value();
        let values =
            [("scale", scale), ("clients", clients), ("think", think), ("round_trip", round_trip), ("rate", rate)];
        let given = values.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?.span())));
        let given = given.chain(priority.as_ref().map(|priority| ("priority", priority.span())));
        let given = given.chain(instance.as_ref().map(|instance| ("instance", instance.span())));
        let given = given.chain(user.as_ref().map(|user| ("user", user.span())));
        for (name, span) in given.chain(application.as_ref().map(|name| ("application", name.span()))) {
            let message = format!(
                "a simulated operator has no `{name}`; give its size and its `cores` as parameters, such as parameters = {{ cores = 22 }}"
            );
            problems.add(span, message);
        }
    }
}

fn options(typed: &TypedExperiment, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    for (key, value) in &typed.target.options {
        if !option_names().contains(&key.value().as_str()) {
            let (meant, names) = (did_you_mean(key.value(), option_names()), choices(option_names()));
            let message = format!("`{}` has no option `{}`{meant}; it has {names}", simulation::URL, key.value());
            problems.add(key.span(), message);
        }
        options.insert(key.value().clone(), option_text(&value.value().json()));
    }
    options
}

/// A workload as planned. Whether its operator has a model and these parameters is checked later, with all the rest.
fn operator(at: &At<TypedWorkload>, problems: &mut Problems) -> PlannedWorkload {
    let typed = at.value();
    let kind = typed.kind.value().clone();
    let known = parameter_names(&kind);
    let mut parameters = BTreeMap::new();
    for (key, value) in &typed.parameters {
        // If the operator has no model, that is the fault, and it is reported later.
        if known.len() > parameter_names("").len() && !known.contains(&key.value().as_str()) {
            let (meant, names) = (did_you_mean(key.value(), known.iter().copied()), choices(&known));
            let message = format!("`{kind}` has no parameter `{}`{meant}; it has {names}", key.value());
            problems.add(key.span(), message);
        }
        parameters.insert(key.value().clone(), value.value().json());
    }
    let name = typed.name.as_ref().unwrap_or(&typed.kind).value().clone();
    PlannedWorkload { name, kind, scale: 1.0, parameters, clients: ClientOptions::default() }
}

/// Makes the simulation of every arm at every setting or, if there are many, at each value once.
fn check(typed: &TypedExperiment, base: &Setting, axes: &[PlacedAxis], arms: &[Arm], problems: &mut Problems) {
    for positions in combinations(&axes.iter().map(|axis| axis.values.len()).collect::<Vec<_>>()) {
        let mut setting = base.clone();
        for (axis, position) in axes.iter().zip(&positions) {
            let (value, span) = &axis.values[*position];
            problems.note_at(span.clone(), setting.apply(&axis.place, value));
        }
        for arm in arms {
            if let Err(Fault { place, message }) = simulation::simulation(&setting, &arm.members, 0) {
                problems.add(span_of(typed, axes, &positions, &place), message);
            }
        }
    }
}

/// The place of the value of an option or parameter.
fn span_of(typed: &TypedExperiment, axes: &[PlacedAxis], positions: &[usize], place: &SweepTarget) -> Range<usize> {
    let swept = axes.iter().zip(positions).find(|(axis, _)| axis.place.parts().contains(place));
    if let Some((axis, position)) = swept {
        return axis.values[*position].1.clone();
    }
    match place {
        SweepTarget::Option(name) => {
            let given = typed.target.options.iter().find(|(key, _)| key.value() == name);
            given.map_or(0..0, |(_, value)| value.span())
        }
        SweepTarget::Workload(position, field) => typed.workloads[*position].value().place_of(field),
        SweepTarget::Target | SweepTarget::Limit(_) | SweepTarget::All(_) => 0..0,
    }
}
