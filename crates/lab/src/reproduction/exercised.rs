//! The parts of the program that an experiment exercises. No other place decides this.
//!
//! A part is a module at the top of a crate (`engine/lock`) or a whole crate (`policy`). A run becomes stale when a
//! part changes that can change its figures. Parts that only read, judge or show figures are left out: claims are judged
//! again from the records of a run. So are the versions of PostgreSQL and of the kernel, which are no sources of ours.

use std::collections::BTreeSet;

use crate::plan::{Axis, Plan, SweepTarget};
use crate::simulation;

/// What runs and measures on any database.
const MEASURED: &[&str] =
    &["lab/runner", "lab/undisturbed", "workload/database", "workload/driver", "workload/statement"];
/// What simulates.
const SIMULATED: &[&str] = &["lab/simulation", "model/cache_simulator", "policy/cache_class"];
/// The embedded engine, whatever runs on it.
const EMBEDDED: &[&str] = &[
    "engine/catalog",
    "engine/checkpoint",
    "engine/engine",
    "engine/lock",
    "engine/log",
    "engine/table",
    "engine/table_set",
    "engine/transaction",
    "engine/value",
    "target/embedded",
];
/// Its queries and the copy that they read.
const EMBEDDED_QUERIES: &[&str] = &["engine/columns", "engine/delta", "engine/query"];
/// A PostgreSQL server and our sessions on it.
const POSTGRES: &[&str] = &[
    "lab/activity",
    "pg",
    "postgres/activity",
    "postgres/database",
    "postgres/plan",
    "postgres/server",
    "postgres/session",
];
/// A governor, its settings and its decisions, without its console and its pages.
const GOVERNOR: &[&str] = &[
    "governor/agent",
    "governor/awake",
    "governor/effects",
    "governor/governor",
    "governor/registry",
    "governor/relay",
    "governor/session",
    "governor/statement",
    "governor/statistics",
    "governor/targets",
    "governor/watch",
    "policy",
    "postgres/governor",
    "settings",
];
/// A cluster, whose data the embedded engine makes.
const CLUSTER: &[&str] = &["cluster", "engine/columns", "engine/query", "export", "machine/groups"];
/// Limits of the machine.
const LIMITS: &[&str] = &["lab/host_limits", "machine/control", "machine/groups", "machine/hog", "machine/limiter"];
/// Hardware counters.
const COUNTERS: &[&str] = &["machine/cache_miss", "machine/counters", "machine/top_down"];

/// The parts by the kind of a workload. Others are workloads in a file.
const WORKLOADS: &[(&str, &[&str])] = &[
    ("asdb", &["workload/asdb", "workload/keyed"]),
    ("brokerage", &["workload/brokerage", "workload/keyed"]),
    ("ch", &["workload/ch", "workload/tpcc", "workload/tpch"]),
    ("tpcb", &["workload/keyed", "workload/tpcb"]),
    ("tpcc", &["workload/tpcc"]),
    ("tpch", &["workload/tpch"]),
    ("tpcw", &["workload/keyed", "workload/tpcw"]),
    ("rows", &["workload/keyed", "workload/rows"]),
    ("rows_query", &["workload/rows", "workload/tpch_operators"]),
    ("join", &["workload/tpch", "workload/tpch_operators"]),
    ("projection", &["workload/tpch", "workload/tpch_operators"]),
    ("selection", &["workload/tpch", "workload/tpch_operators"]),
    ("group", &["workload/column_operators"]),
    ("key_join", &["workload/column_operators"]),
    ("scan", &["workload/column_operators"]),
];
/// The parts of a workload that is described in a file.
const WORKLOAD_OF_FILE: &[&str] = &["workload/file", "workload/keyed"];
/// Kinds of workloads without queries.
const TRANSACTIONAL: &[&str] = &["asdb", "brokerage", "rows", "tpcb", "tpcc", "tpcw"];

/// The parts by the beginning of an option's name, if the option has a value other than `none`.
const OPTIONS: &[(&str, &[&str])] = &[
    ("cache_", &["machine/groups", "policy/cache_class"]),
    ("cpu_policy", &["engine/cpu_priority", "policy/cpu_scheduler"]),
    ("governor", GOVERNOR),
    ("lock_policy", &["policy/lock_scheduler"]),
    ("parallelism", &["policy/parallelism"]),
    ("starvation_bound", &["policy/starvation_bound"]),
];

/// The parts that an experiment exercises, in any of its settings.
pub fn parts(plan: &Plan) -> BTreeSet<&'static str> {
    if plan.is_simulated() {
        return SIMULATED.iter().copied().collect();
    }
    let mut parts: BTreeSet<&'static str> = MEASURED.iter().copied().collect();
    let kinds: Vec<&str> = plan.base.workloads.iter().map(|workload| workload.kind.as_str()).collect();
    for kind in &kinds {
        let known = WORKLOADS.iter().find(|(name, _)| name == kind);
        parts.extend(known.map_or(WORKLOAD_OF_FILE, |(_, parts)| parts));
    }
    let is_embedded = |url: &String| url.starts_with("embedded:");
    let is_cluster = |url: &String| url.starts_with("cluster:");
    let is_duckdb = |url: &String| url.starts_with("duckdb:");
    let urls = swept(plan, |place| *place == SweepTarget::Target);
    let urls: Vec<String> =
        urls.into_iter().chain([plan.base.url.clone()]).filter(|url| *url != simulation::URL).collect();
    if urls.iter().any(is_embedded) {
        parts.extend(EMBEDDED);
        let has_queries = kinds.iter().any(|kind| !TRANSACTIONAL.contains(kind));
        parts.extend(EMBEDDED_QUERIES.iter().filter(|_| has_queries));
    }
    if urls.iter().any(is_cluster) {
        parts.extend(CLUSTER);
    }
    if urls.iter().any(is_duckdb) {
        parts.insert("duckdb");
    }
    if !urls.iter().all(|url| is_embedded(url) || is_cluster(url) || is_duckdb(url)) {
        parts.extend(POSTGRES);
    }
    for (beginning, of_option) in OPTIONS {
        let is_set = |(name, value): (&String, &String)| name.starts_with(beginning) && value != "none";
        let is_its = |place: &SweepTarget| matches!(place, SweepTarget::Option(name) if name.starts_with(beginning));
        let is_swept = swept(plan, is_its).iter().any(|value| value != "none");
        if is_swept || plan.base.options.iter().any(is_set) {
            parts.extend(*of_option);
        }
    }
    let is_limit = |place: &SweepTarget| matches!(place, SweepTarget::Limit(_));
    if !plan.base.limits.is_empty() || !swept(plan, is_limit).is_empty() {
        parts.extend(LIMITS);
    }
    let counted = ["cache_misses", "counters", "top_down"];
    if plan.claims.iter().any(|claim| counted.iter().any(|word| claim.expression.contains(word))) {
        parts.extend(COUNTERS);
    }
    parts
}

/// The values of a plan's axes that change such a place, as text.
fn swept(plan: &Plan, is_meant: impl Fn(&SweepTarget) -> bool) -> Vec<String> {
    let is_its = |axis: &&Axis| axis.place.parts().iter().any(&is_meant);
    let values = plan.axes.iter().filter(is_its).flat_map(|axis| &axis.values);
    values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::made_up::plan;

    fn of(text: &str) -> BTreeSet<&'static str> {
        parts(&plan(&format!("name = \"x\"\n{text}")))
    }

    #[test]
    fn an_experiment_exercises_its_engine_its_workloads_and_its_policies() {
        let locks =
            of("[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n[sweep]\nlock_policy = [\"standard\", \"pow\"]\n");
        for (part, is_exercised) in [
            ("engine/lock", true),
            ("workload/tpcc", true),
            ("policy/lock_scheduler", true),
            ("lab/runner", true),
            ("engine/query", false),
            ("workload/tpch", false),
            ("governor/session", false),
            ("machine/limiter", false),
        ] {
            assert_eq!(locks.contains(part), is_exercised, "{part}");
        }
        let queries = of("[[workload]]\nkind = \"tpch\"\n[machine]\ncores = 1\n");
        assert!(queries.contains("engine/query") && queries.contains("machine/limiter"), "{queries:?}");
        let cluster = of("[target]\nurl = \"cluster:\"\n[[workload]]\nkind = \"tpch\"\n");
        assert!(cluster.contains("cluster") && !cluster.contains("postgres/server"), "{cluster:?}");
        let swept = of("[[workload]]\nkind = \"tpch\"\n[sweep]\ntarget = [\"duckdb:\", \"embedded:?batch_rows=1\"]\n");
        assert!(swept.contains("duckdb") && swept.contains("engine/query") && !swept.contains("pg"), "{swept:?}");
    }
}
