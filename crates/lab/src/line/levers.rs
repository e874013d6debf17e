//! The levers by which a target can isolate workloads, and the effect of each in the model.

use std::collections::BTreeMap;

use plimsoll_machine::control::LLC_WAYS;

use crate::results::Results;

/// A setting that may isolate.
#[derive(Debug, Clone)]
pub(super) struct Lever {
    pub(super) words: String,
    pub(super) options: BTreeMap<String, String>,
    pub(super) effect: Effect,
    pub(super) how: Vec<String>,
}

/// The effect of a lever in the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Effect {
    /// The weight of a thread of the others over one of the protected workload.
    pub(super) weight: f64,
    /// The most cores that each client of the others can use at once.
    pub(super) dop: Option<f64>,
    /// The number of clients of the others that may run at once.
    pub(super) clients: Option<f64>,
    /// Cores of the protected workload and of the others.
    pub(super) split: Option<(f64, f64)>,
    /// Whether the cache is divided between classes of operators.
    pub(super) divides_cache: bool,
}

impl Effect {
    pub(super) const NONE: Effect = Effect { weight: 1.0, dop: None, clients: None, split: None, divides_cache: false };
}

/// The weight of `SCHED_IDLE` over that of nice 0 (Linux: 3 and 1024).
const IDLE_WEIGHT: f64 = 3.0 / 1024.0;

/// The value of an option in the study, as text; `None` if it is left to the server.
pub(super) fn own(results: &Results, option: &str) -> Option<String> {
    let value = results.experiment.settings.get(&format!("target.{option}"))?;
    (!value.is_null()).then(|| crate::plan::option_text(value))
}

/// Every lever of the study's target.
pub(super) fn of(results: &Results, protect: &str) -> Vec<Lever> {
    let Some(other) = results.experiment.workloads.iter().find(|name| *name != protect) else { return Vec::new() };
    let is_embedded = own(results, "url").as_deref() == Some("embedded:");
    let analytical = is_analytical(results, other);
    let dop = own(results, "dop").and_then(|dop| dop.parse::<u32>().ok()).filter(|dop| *dop > 1 && analytical);
    let dop = dop.map(|_| serial(other, is_embedded));
    let others = if is_embedded { embedded(results, protect, other, analytical) } else { governed(results, other) };
    let both = others.iter().filter_map(|lever| Some(lever.clone().with(other, dop.clone()?)));
    let both: Vec<Lever> = both.collect();
    let apart =
        cache_classes(results).into_iter().chain(if analytical { folded_by_queries(results, other) } else { None });
    dop.into_iter().chain(others).chain(both).chain(apart).collect()
}

/// Operators may fill only the part of the cache that their class reuses, if the cache can be divided and is not yet.
fn cache_classes(results: &Results) -> Option<Lever> {
    let mut here = results.machine.capabilities.iter();
    let can = here.any(|one| one.name == LLC_WAYS && one.available);
    (can && own(results, "cache_classes").as_deref() == Some("off")).then(|| {
        let effect = Effect { divides_cache: true, ..Effect::NONE };
        let lever = Lever::new("cache classes".to_owned(), &[("cache_classes", "on".to_owned())], effect);
        lever.done_by(&["[target.options]: cache_classes = \"on\""])
    })
}

/// Queries bring their copy up to date themselves, so that no separate thread does so beside transactions.
fn folded_by_queries(results: &Results, other: &str) -> Option<Lever> {
    (own(results, "propagation").as_deref() == Some("background")).then(|| {
        let words = format!("{other} bringing its copy up to date itself");
        let lever = Lever::new(words, &[("propagation", "before_query".to_owned())], Effect::NONE);
        lever.done_by(&["[target.options]: propagation = \"before_query\""])
    })
}

fn is_analytical(results: &Results, workload: &str) -> bool {
    let mut ran = results.points.iter().flat_map(|point| &point.workloads).filter(|one| one.name == workload);
    ran.any(|one| one.analytical)
}

impl Lever {
    fn new(words: String, options: &[(&str, String)], effect: Effect) -> Self {
        let options = options.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        Lever { words, options, effect, how: Vec::new() }
    }

    fn done_by(self, lines: &[&str]) -> Self {
        Lever { how: lines.iter().map(|line| (*line).to_owned()).collect(), ..self }
    }

    /// Both levers at once: this one, with queries of `other` on one core each.
    fn with(mut self, other: &str, serial: Lever) -> Self {
        let rest = self.words.strip_prefix(other).unwrap_or(&self.words).trim_start();
        self.words = match rest.strip_prefix("at ") {
            Some(rest) => format!("{} and {rest}", serial.words),
            None => format!("{}, {rest}", serial.words),
        };
        self.options.extend(serial.options);
        self.effect.dop = serial.effect.dop;
        self.how.splice(0..0, serial.how);
        self
    }
}

/// Queries that run on one core each.
fn serial(other: &str, is_embedded: bool) -> Lever {
    let effect = Effect { dop: Some(1.0), ..Effect::NONE };
    let lever = Lever::new(format!("{other} at dop 1"), &[("dop", "1".to_owned())], effect);
    match is_embedded {
        true => lever.done_by(&["[target.options]: dop = 1"]),
        false => lever.done_by(&["for its role: ALTER ROLE … SET max_parallel_workers_per_gather = 0"]),
    }
}

/// Levers of the embedded engine: a core split, and for transactions CPU priorities. Its queries have no priority on
/// the cores.
fn embedded(results: &Results, protect: &str, other: &str, other_is_analytical: bool) -> Vec<Lever> {
    let mut levers = Vec::new();
    let cores = results.machine.cores_usable;
    let mut parts: Vec<usize> = [1, cores / 2].into_iter().filter(|part| *part > 0 && *part < cores).collect();
    parts.dedup();
    let split_before = ["transaction_cores", "query_cores", "propagation_cores"];
    let is_whole = split_before.iter().all(|option| own(results, option).is_none_or(|value| value == "all"));
    for part in parts.into_iter().filter(|_| is_whole) {
        let (first, last) = (cores_from(0, cores - part), cores_from(cores - part, part));
        let (transactions, queries) = if other_is_analytical { (&first, &last) } else { (&last, &first) };
        let mut options = vec![("transaction_cores", transactions.clone()), ("query_cores", queries.clone())];
        if own(results, "propagation").is_some_and(|propagation| propagation != "off") {
            options.push(("propagation_cores", queries.clone()));
        }
        let effect = Effect { split: Some(((cores - part) as f64, part as f64)), ..Effect::NONE };
        let name = if part == 1 { "core" } else { "cores" };
        let lines: Vec<String> = options.iter().map(|(key, value)| format!("{key} = \"{value}\"")).collect();
        let lever = Lever::new(format!("{other} on {name} {last} and {protect} on the rest"), &options, effect);
        levers.push(lever.done_by(&[&format!("[target.options]: {}", lines.join(", "))]));
    }
    if !other_is_analytical && own(results, "cpu_policy").as_deref() == Some("none") {
        let effect = Effect { weight: plimsoll_model::shares::weight_of_nice(19), ..Effect::NONE };
        let options = [("cpu_policy", "cpu-prio".to_owned())];
        let lever = Lever::new(format!("{other} at nice 19"), &options, effect);
        levers.push(
            lever.done_by(&["[target.options]: cpu_policy = \"cpu-prio\", and priority = \"high\" for the other"]),
        );
    }
    levers
}

/// `2-5`, or `2` for a single core.
fn cores_from(first: usize, count: usize) -> String {
    if count == 1 { first.to_string() } else { format!("{first}-{}", first + count - 1) }
}

/// Levers of a governor before a PostgreSQL server.
fn governed(results: &Results, other: &str) -> Vec<Lever> {
    if own(results, "governor").is_some_and(|mode| mode != "none") {
        return Vec::new();
    }
    let mode = |mode: &str| ("governor", mode.to_owned());
    let shares = |share: &str, words: &str, weight: f64| {
        let options = [mode("only-shares"), ("governor_low_share", share.to_owned())];
        let lever = Lever::new(format!("{other} {words}"), &options, Effect { weight, ..Effect::NONE });
        let share = share.replace('-', " ");
        lever.done_by(&[&format!("plimsoll govern, its [[class]]: priority = \"low\", cpu = \"{share}\"")])
    };
    let nice = plimsoll_model::shares::weight_of_nice;
    let mut levers = vec![shares("nice-10", "at nice 10", nice(10)), shares("idle", "on idle cores only", IDLE_WEIGHT)];
    let clients = results.points.iter().flat_map(|point| &point.workloads).filter(|one| one.name == other);
    let clients = clients.map(|one| one.clients).max().unwrap_or(0);
    if clients > 1 {
        let mpl = clients / 2;
        let options = [mode("only-admission"), ("governor_mpl", mpl.to_string())];
        let effect = Effect { clients: Some(mpl as f64), ..Effect::NONE };
        let lever = Lever::new(format!("{other} with {mpl} at once"), &options, effect);
        levers.push(lever.done_by(&[&format!("plimsoll govern, its [[class]]: priority = \"low\", mpl = {mpl}")]));
    }
    levers
}
