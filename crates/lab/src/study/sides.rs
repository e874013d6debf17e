//! The two workloads of a study: its own, or those of its user.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use plimsoll_workload::benchmark::{Benchmark, Writes};
use plimsoll_workload::file::{PREFIX, anchored};
use plimsoll_workload::registry::{self, BENCHMARKS, Catalog, Kinds, kind_and_scale};
use serde_json::Value;

use crate::experiment::is_workload_name;

/// The sides of every study: transactions and queries. Workloads without a name of their own are called so.
pub const SIDES: [&str; 2] = ["oltp", "olap"];

/// A workload in place of the study's own, as requested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideRequest {
    /// Its kind, with its scale if that is not the default: `tpcc:4`, `file:shop.toml`; `None` for the study's own.
    pub kind: Option<String>,
    /// How many clients it has; `None` for the study's choice.
    pub clients: Option<usize>,
}

/// The workloads of a study that are not its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sides {
    /// Transactions, then queries; `None` for the study's own.
    given: [Option<GivenWorkload>; 2],
    /// The number of clients of each; `None` for the study's choice.
    pub(super) clients: [Option<usize>; 2],
    /// Whether queries read the tables that transactions write.
    shares_tables: bool,
}

/// A workload that was given.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GivenWorkload {
    /// Its name in the study.
    name: String,
    /// The kind, as an experiment file takes it.
    pub(super) kind: String,
    /// The scale; `None` for the default.
    pub(super) scale: Option<f64>,
    /// The parameters that make a benchmark of several sides this one.
    pub(super) parameters: BTreeMap<String, Value>,
}

impl Sides {
    /// Reads the requests for transactions and for queries. Refuses workloads that cannot be made, queries that write, and
    /// two workloads of one name. The error names the option.
    pub fn read(requests: &[SideRequest; 2], seed: u64, kinds: &'static dyn Kinds) -> Result<Self, String> {
        let catalog = Catalog::with(seed, kinds);
        let mut made = Vec::new();
        for (side, request) in requests.iter().enumerate() {
            made.push(request.kind.as_deref().map(|kind| read_one(side, kind, &catalog)).transpose()?);
        }
        let schema = |side: usize| made.get(side).and_then(Option::as_ref).map(|(_, schema)| schema.clone());
        let shares_tables = schema(0).zip(schema(1)).is_some_and(|(one, other)| one == other);
        let mut given = made.into_iter().map(|made| made.map(|(given, _)| given));
        let given = [given.next().flatten(), given.next().flatten()];
        let sides = Sides { given, clients: [requests[0].clients, requests[1].clients], shares_tables };
        let [oltp, olap] = sides.names();
        if oltp == olap {
            return Err(format!(
                "--olap: both workloads are called `{oltp}`; give one of them another `name` in its file"
            ));
        }
        Ok(sides)
    }

    /// The names of transactions and queries in the study.
    pub fn names(&self) -> [&str; 2] {
        [0, 1].map(|side| self.given[side].as_ref().map_or(SIDES[side], |given| given.name.as_str()))
    }

    /// Whether both workloads are the study's own.
    pub(super) fn are_own(&self) -> bool {
        self.given.iter().all(Option::is_none)
    }

    pub(super) fn shares_tables(&self) -> bool {
        self.shares_tables
    }

    pub(super) fn given(&self, side: usize) -> Option<&GivenWorkload> {
        self.given[side].as_ref()
    }
}

/// A workload, and the name of its schema.
fn read_one(side: usize, spec: &str, catalog: &Catalog) -> Result<(GivenWorkload, String), String> {
    let option = format!("--{} {spec}", SIDES[side]);
    let (kind, _) = kind_and_scale(spec);
    // Of a benchmark of several sides, transactions are the first and queries the last.
    let sides = registry::sides(kind);
    let parameters = if side == 0 { sides.first() } else { sides.last() };
    let parameters = parameters.map(registry::Side::parameters).unwrap_or_default();
    let made = catalog.of_spec(spec, &parameters).map_err(|error| format!("{option}: {error}"))?;
    let (benchmark, scale) = made;
    if let Some(why) = unfit(side, benchmark.as_ref()) {
        return Err(format!("{option}: {why}"));
    }
    let scale = kind_and_scale(spec).1.map(|_| scale);
    let name = name(side, kind, benchmark.name());
    Ok((GivenWorkload { name, kind: below_here(kind), scale, parameters }, benchmark.schema().name.to_string()))
}

/// Why a workload cannot be this side of a study; `None` if it can.
fn unfit(side: usize, benchmark: &dyn Benchmark) -> Option<String> {
    let name = benchmark.name();
    match side {
        0 if benchmark.is_analytical() => Some(format!("the requests of `{name}` are queries; give it with --olap")),
        1 if !benchmark.is_analytical() && benchmark.writes() != Writes::Nothing => {
            Some(format!("`{name}` writes, and these are to be queries; give it with --oltp, or leave its changes out"))
        }
        _ => None,
    }
}

/// A workload of one's own has its own name. One of the list has the name of its side: `tpcc` is a kind.
fn name(side: usize, kind: &str, own: &str) -> String {
    let is_listed = BENCHMARKS.iter().any(|entry| entry.name == kind);
    if is_listed || !is_workload_name(own) { SIDES[side].to_owned() } else { own.to_owned() }
}

/// A kind whose files can be found from the working directory and, where they are below it, from a run directory that keeps
/// them. No run directory keeps a capture, which may be large.
pub(crate) fn below_here(kind: &str) -> String {
    let is_normal = |path: &str| Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let is_kept = kind.strip_prefix(PREFIX).is_some_and(|paths| paths.split(',').all(is_normal));
    match std::env::current_dir() {
        Ok(here) if !is_kept => anchored(kind, &here),
        _ => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::registry::NoKinds;

    use super::*;

    fn read(oltp: Option<&str>, olap: Option<&str>) -> Result<Sides, String> {
        let request = |kind: Option<&str>| SideRequest { kind: kind.map(str::to_owned), clients: None };
        Sides::read(&[request(oltp), request(olap)], 7, &NoKinds)
    }

    #[test]
    fn workloads_of_ones_own_have_their_names_and_those_of_the_list_their_sides() {
        let check = |oltp, olap, expect: [&str; 2]| {
            assert_eq!(read(oltp, olap).expect("good").names(), expect, "{oltp:?} {olap:?}");
        };
        check(None, None, ["oltp", "olap"]);
        check(Some("tpcc:2"), Some("tpch:0.1"), ["oltp", "olap"]);
        let (shop, reports) = ("file:../../docs/examples/shop.toml", "file:../../docs/examples/reports.toml");
        check(Some(shop), None, ["shop", "olap"]);
        check(None, Some(reports), ["oltp", "reports"]);
        check(Some(shop), Some(reports), ["shop", "reports"]);
        assert!(read(Some(shop), Some(reports)).expect("good").shares_tables());
        let mix = read(Some("ch"), Some("ch:3")).expect("two sides of one benchmark");
        assert_eq!(mix.names(), ["oltp", "olap"]);
        assert_eq!(mix.given(0).expect("given").parameters["mix"], "transactions");
        assert_eq!((mix.given(0).expect("given").scale, mix.given(1).expect("given").scale), (None, Some(3.0)));
    }

    #[test]
    fn what_cannot_be_a_side_is_refused_with_the_option_and_the_remedy() {
        let shop = "file:../../docs/examples/shop.toml";
        let check = |oltp, olap, expect: &str| {
            let why = read(oltp, olap).expect_err(expect);
            assert!(why.contains(expect), "{why}");
        };
        check(None, Some(shop), "`shop` writes, and these are to be queries");
        check(Some("tpch"), None, "--oltp tpch: the requests of `tpch` are queries; give it with --olap");
        check(Some("tpcd"), None, "--oltp tpcd: ");
        check(Some("file:nowhere.toml"), None, "--oltp file:nowhere.toml: ");
        check(
            Some("file:../../docs/examples/reports.toml"),
            Some("file:../../docs/examples/reports.toml"),
            "are called `reports`",
        );
    }
}
