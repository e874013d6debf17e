//! The workloads of an experiment: names, benchmarks, scales and clients.

use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_notation::{At, Problem, Problems, choices, did_you_mean};
use plimsoll_workload::driver::{ClientOptions, Delay};
use plimsoll_workload::instance;
use plimsoll_workload::registry::Catalog;

use super::benchmarks::parameter_names;
use super::sweep::PlacedAxis;
use super::typed::{TypedValue, TypedWorkload};
use crate::plan::{PlannedWorkload, SweepTarget};

/// Names that mean something else in sweep keys and arms.
const RESERVED: [&str; 5] = ["target", "machine", "alone", "together", "pairs"];

/// The workloads with every default filled in.
pub(super) fn workloads(
    typed: &[At<TypedWorkload>],
    seed: u64,
    catalog: &Catalog,
    problems: &mut Problems,
) -> Vec<PlannedWorkload> {
    named(typed, problems, |at, problems| workload(at, seed, catalog, problems))
}

/// The workloads that `make` builds from the typed ones, each with a distinct name.
pub(super) fn named(
    typed: &[At<TypedWorkload>],
    problems: &mut Problems,
    make: impl Fn(&At<TypedWorkload>, &mut Problems) -> Option<PlannedWorkload>,
) -> Vec<PlannedWorkload> {
    let mut planned: Vec<PlannedWorkload> = Vec::new();
    for at in typed {
        let Some(workload) = make(at, problems) else { continue };
        let name = at.value().name.as_ref().unwrap_or(&at.value().kind);
        if let Some(why) = wrong_name(&workload.name) {
            problems.add(name.span(), why);
        }
        if planned.iter().any(|other| other.name == workload.name) {
            let message = format!("two workloads are called `{}`; give them different names", workload.name);
            problems.add(name.span(), message);
            continue;
        }
        planned.push(workload);
    }
    planned
}

fn workload(at: &At<TypedWorkload>, seed: u64, catalog: &Catalog, problems: &mut Problems) -> Option<PlannedWorkload> {
    let typed = at.value();
    let made = catalog.get(typed.kind.value(), None, &BTreeMap::new());
    let made = made.map_err(|error| Problem::new(typed.kind.span(), error.to_string()));
    let (benchmark, scale) = problems.note(made)?;
    let name = typed.name.as_ref().map_or_else(|| benchmark.name().to_owned(), |name| name.value().clone());
    let mut planned = PlannedWorkload {
        name,
        kind: typed.kind.value().clone(),
        scale,
        parameters: BTreeMap::new(),
        clients: ClientOptions {
            seed,
            user: typed.user.as_ref().map(|user| user.value().clone()),
            application: typed.application.as_ref().map(|name| name.value().clone()),
            ..ClientOptions::default()
        }
        .of_recording(&*benchmark),
    };
    for (field, value) in fields(typed) {
        set(&mut planned, field, value, problems);
    }
    if let Some(priority) = &typed.priority {
        let set = planned.set("priority", &priority.value().text().into());
        problems.note_at(priority.span(), set);
    }
    if let Some(instance) = &typed.instance {
        let name = instance.value();
        match instance::fault(name) {
            Some(why) => problems.add(instance.span(), why),
            None => {
                planned.parameters.insert(instance::INSTANCE.to_owned(), name.clone().into());
            }
        }
    }
    let known = parameter_names(&planned.kind);
    for (key, value) in &typed.parameters {
        if known.contains(&key.value().as_str()) {
            set(&mut planned, key.value(), value, problems);
        } else {
            problems.add(key.span(), unknown_parameter(&planned.kind, key.value(), &known));
        }
    }
    Some(planned)
}

fn set(planned: &mut PlannedWorkload, field: &str, value: &At<TypedValue>, problems: &mut Problems) {
    problems.note_at(value.span(), planned.set(field, &value.value().json()));
}

/// The fields that are given, but for the priority, by their names in [`crate::plan::WORKLOAD_FIELDS`].
fn fields(typed: &TypedWorkload) -> impl Iterator<Item = (&'static str, &At<TypedValue>)> {
    let TypedWorkload { scale, clients, think, round_trip, rate, .. } = typed;
    let fields = [("scale", scale), ("clients", clients), ("think", think), ("round_trip", round_trip), ("rate", rate)];
    fields.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)))
}

/// Whether a workload may be called so.
pub(crate) fn is_workload_name(name: &str) -> bool {
    wrong_name(name).is_none()
}

fn wrong_name(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("`{name}` has a meaning of its own in arms and sweep keys; choose another name"));
    }
    let is_good = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    (!is_good).then(|| format!("`{name}` is not a valid name; write a letter, then letters, digits, `_` and `-`"))
}

fn unknown_parameter(kind: &str, name: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return format!("`{kind}` has no parameter `{name}`, nor any other; leave it out");
    }
    let meant = did_you_mean(name, known.iter().copied());
    format!("`{kind}` has no parameter `{name}`{meant}; it has {}", choices(known))
}

/// Refuses a workload that at some setting would have both a rate and a think time, or a round trip between statements
/// although each of its requests is one query.
pub(super) fn check_pacing(
    workloads: &[PlannedWorkload],
    typed: &[At<TypedWorkload>],
    axes: &[PlacedAxis],
    catalog: &Catalog,
    problems: &mut Problems,
) {
    for (position, workload) in workloads.iter().enumerate() {
        let swept = |field: &str| {
            let place = SweepTarget::Workload(position, field.to_owned());
            axes.iter().find(|axis| axis.place.parts().contains(&place))
        };
        let is_somewhere = |field: &str, base: Delay| {
            swept(field).map_or(base != Delay::None, |axis| axis.values.iter().any(|(value, _)| value != "none"))
        };
        if is_somewhere("round_trip", workload.clients.round_trip) && is_analytical(workload, catalog) {
            let place = swept("round_trip")
                .map_or_else(|| typed[position].value().place_of("round_trip"), |axis| axis.span.clone());
            let message = format!(
                "`{}` has a round trip between statements, but each of its requests is one query; leave it out",
                workload.name
            );
            problems.add(place, message);
        }
        let thinks = is_somewhere("think", workload.clients.think);
        if thinks && (swept("rate").is_some() || workload.clients.rate.is_some()) {
            let place = swept("rate")
                .or(swept("think"))
                .map_or_else(|| typed[position].value().place_of("rate"), |axis| axis.span.clone());
            let message = format!(
                "`{}` has both a rate and a think time; give one of them: a rate does not wait for answers",
                workload.name
            );
            problems.add(place, message);
        }
    }
}

/// Refuses priorities of transactions that do not exist in a workload.
pub(super) fn check_priorities(
    workloads: &[PlannedWorkload],
    typed: &[At<TypedWorkload>],
    axes: &[PlacedAxis],
    transactions: &[Vec<String>],
    problems: &mut Problems,
) {
    for (position, (workload, transactions)) in workloads.iter().zip(transactions).enumerate() {
        let mut check = |workload: &PlannedWorkload, span: Range<usize>| {
            if let Some(fault) = workload.clients.priority.fault(transactions) {
                problems.add(span, format!("workload `{}`: {fault}", workload.name));
            }
        };
        check(workload, typed[position].value().place_of("priority"));
        let place = SweepTarget::Workload(position, "priority".to_owned());
        for (value, span) in
            axes.iter().filter(|axis| axis.place.parts().contains(&place)).flat_map(|axis| &axis.values)
        {
            let mut swept = workload.clone();
            swept.set("priority", value).expect("each value was checked");
            check(&swept, span.clone());
        }
    }
}

/// Whether the requests of a workload are queries; false if it cannot be made, which is reported elsewhere.
fn is_analytical(workload: &PlannedWorkload, catalog: &Catalog) -> bool {
    let made = catalog.get(&workload.kind, Some(workload.scale), &workload.parameters);
    made.is_ok_and(|(benchmark, _)| benchmark.is_analytical())
}
