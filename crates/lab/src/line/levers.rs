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

/// Every lever of the study's target, for a workload to protect beside others. `queries` is the workload whose requests
/// are queries although the driver counts them as transactions, if there is one.
pub(super) fn of(results: &Results, protect: &str, queries: Option<&str>) -> Vec<Lever> {
    let Some(other) = results.experiment.workloads.iter().find(|name| *name != protect) else { return Vec::new() };
    let url = own(results, "url").unwrap_or_default();
    let analytical = is_analytical(results, other) || queries == Some(other);
    let dop = own(results, "dop").and_then(|dop| dop.parse::<u32>().ok()).filter(|dop| *dop > 1 && analytical);
    let dop = dop.map(|_| serial(other, matches!(&*url, "embedded:" | "cluster:")));
    let others = match &*url {
        "embedded:" => embedded(results, protect, other, analytical),
        "cluster:" => query_shares(results, other, analytical),
        _ => governed(results, other),
    };
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

pub(super) fn is_analytical(results: &Results, workload: &str) -> bool {
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

/// Queries that run on one core each, by an option of the target or by one of the server.
fn serial(other: &str, is_option: bool) -> Lever {
    let effect = Effect { dop: Some(1.0), ..Effect::NONE };
    let lever = Lever::new(format!("{other} at dop 1"), &[("dop", "1".to_owned())], effect);
    match is_option {
        true => lever.done_by(&["[target.options]: dop = 1"]),
        false => lever.done_by(&["for its role: ALTER ROLE … SET max_parallel_workers_per_gather = 0"]),
    }
}

/// Smaller CPU shares, the largest first: each as options write it, in words, and its weight over that of nice 0.
fn shares() -> impl Iterator<Item = (String, String, f64)> {
    let nice =
        |nice: i32| (format!("nice-{nice}"), format!("at nice {nice}"), plimsoll_model::shares::weight_of_nice(nice));
    let idle = ("idle".to_owned(), "on idle cores only".to_owned(), IDLE_WEIGHT);
    [5, 10, 15, 19].into_iter().map(nice).chain([idle])
}

/// Half of the clients of the others at once; `None` if there is only one.
fn half_of_clients(results: &Results, other: &str) -> Option<usize> {
    let clients = results.points.iter().flat_map(|point| &point.workloads).filter(|one| one.name == other);
    clients.map(|one| one.clients).max().filter(|clients| *clients > 1).map(|clients| clients / 2)
}

/// Smaller CPU shares of queries, if they have none yet.
fn query_shares(results: &Results, other: &str, other_is_analytical: bool) -> Vec<Lever> {
    if !other_is_analytical || own(results, "query_share").as_deref() != Some("untouched") {
        return Vec::new();
    }
    let lever = |(share, words, weight): (String, String, f64)| {
        let effect = Effect { weight, ..Effect::NONE };
        let how = format!("[target.options]: query_share = \"{share}\"");
        Lever::new(format!("{other} {words}"), &[("query_share", share)], effect).done_by(&[&how])
    };
    shares().map(lever).collect()
}

/// Levers of the embedded engine: CPU shares and admission of queries, CPU priorities of transactions, a core split.
fn embedded(results: &Results, protect: &str, other: &str, other_is_analytical: bool) -> Vec<Lever> {
    let mut levers = query_shares(results, other, other_is_analytical);
    if other_is_analytical
        && own(results, "query_mpl").as_deref() == Some("none")
        && let Some(mpl) = half_of_clients(results, other)
    {
        let effect = Effect { clients: Some(mpl as f64), ..Effect::NONE };
        let lever = Lever::new(format!("{other} with {mpl} at once"), &[("query_mpl", mpl.to_string())], effect);
        levers.push(lever.done_by(&[&format!("[target.options]: query_mpl = {mpl}")]));
    }
    levers.extend(core_splits(results, protect, other, other_is_analytical));
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

/// Cores of their own for either side, propagation with the queries.
fn core_splits(results: &Results, protect: &str, other: &str, other_is_analytical: bool) -> Vec<Lever> {
    let cores = results.machine.cores_usable;
    let mut parts: Vec<usize> = [1, cores / 2].into_iter().filter(|part| *part > 0 && *part < cores).collect();
    parts.dedup();
    let split_before = ["transaction_cores", "query_cores", "propagation_cores"];
    let is_whole = split_before.iter().all(|option| own(results, option).is_none_or(|value| value == "all"));
    let split = |part: usize| {
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
        lever.done_by(&[&format!("[target.options]: {}", lines.join(", "))])
    };
    parts.into_iter().filter(|_| is_whole).map(split).collect()
}

/// `2-5`, or `2` for a single core.
fn cores_from(first: usize, count: usize) -> String {
    if count == 1 { first.to_string() } else { format!("{first}-{}", first + count - 1) }
}

/// Levers of a governor at a PostgreSQL server: shares by one beside it, through which no statement passes, and admission by one
/// that only the others go through.
fn governed(results: &Results, other: &str) -> Vec<Lever> {
    if own(results, "governor").is_some_and(|mode| mode != "none") {
        return Vec::new();
    }
    let shares = shares().map(|(share, words, weight)| {
        let options = [("governor", "beside".to_owned()), ("governor_low_share", share.clone())];
        let lever = Lever::new(format!("{other} {words}"), &options, Effect { weight, ..Effect::NONE });
        let share = share.replace('-', " ");
        lever.done_by(&[&format!(
            "plimsoll govern beside the server ([mode] proxy = false), its [[class]]: priority = \"low\", cpu = \"{share}\""
        )])
    });
    let mut levers: Vec<Lever> = shares.collect();
    if let Some(mpl) = half_of_clients(results, other) {
        let options = [
            ("governor", "split".to_owned()),
            ("governor_mpl", mpl.to_string()),
            ("governor_low_share", "untouched".to_owned()),
        ];
        let effect = Effect { clients: Some(mpl as f64), ..Effect::NONE };
        let lever = Lever::new(format!("{other} with {mpl} at once"), &options, effect);
        levers.push(lever.done_by(&[&format!(
            "plimsoll govern for {other} only ([mode] direct_sessions = true), its [[class]]: priority = \"low\", mpl = {mpl}"
        )]));
    }
    levers
}
