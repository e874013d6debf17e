//! Names, scales and parameters as people type them.

use serde_json::json;

use super::*;

fn made(kind: &str, scale: Option<f64>, parameters: Value) -> Result<(Box<dyn Benchmark>, f64), BenchmarkError> {
    make(kind, scale, &serde_json::from_value(parameters).unwrap(), 1)
}

#[test]
fn names_and_scales_are_read_and_errors_say_what_to_do() {
    for (spec, name, scale) in [
        ("tpcc", "tpcc", 1.0),
        ("tpcc:4", "tpcc", 4.0),
        ("tpch:0.01", "tpch", 0.01),
        ("rows:0.0625", "rows", 0.0625),
        ("key_join", "key_join", 10.0),
    ] {
        let (benchmark, found) = benchmark(spec, 1).expect(spec);
        assert_eq!((benchmark.name(), found), (name, scale));
    }
    for (spec, expect) in [
        ("tpc-c", "did you mean `tpcc`?"),
        ("TPCH", "did you mean `tpch`?"),
        ("file", "there are tpcc, tpcb"),
        ("file:", "no file is named"),
        ("file:none:4", "none:4: No such file"),
        ("oracle", "there is no workload `oracle`; there are tpcc, tpcb"),
        ("tpcc:", "the scale `` of `tpcc` is not a number; write for example tpcc:1"),
        ("tpcc:NaN", "is not a number"),
        ("tpcc:0", "tpcc has no scale 0; give a whole number from 1 to 100000 (warehouses)"),
        ("tpcc:-1", "tpcc has no scale -1"),
        ("tpcc:1.5", "tpcc has no scale 1.5"),
        ("tpcc:inf", "tpcc has no scale inf"),
        ("tpch:0", "tpch has no scale 0; give a number from 0.01"),
        ("tpch:-3", "tpch has no scale -3"),
    ] {
        let error = benchmark(spec, 1).err().expect(spec).to_string();
        assert!(error.contains(expect), "{spec}: {error}");
    }
}

#[test]
fn the_sides_of_a_mix_share_their_data() {
    let mixes: Vec<&Entry> = BENCHMARKS.iter().filter(|entry| !entry.sides.is_empty()).collect();
    assert!(mixes.iter().any(|entry| entry.name == "ch"));
    for entry in mixes {
        let side = |side: &Side| make(entry.name, None, &side.parameters(), 1).unwrap().0;
        let all: Vec<_> = sides(entry.name).iter().map(side).collect();
        assert!(all.iter().all(|one| one.data() == all[0].data()), "{}", entry.name);
        assert!(!all[0].is_analytical() && all[1].is_analytical(), "{}", entry.name);
    }
    assert!(sides("tpcc").is_empty() && sides("oracle").is_empty());
}

#[test]
fn errors_of_parameters_name_what_is_wrong_and_what_is_right() {
    for (kind, parameters, expect) in [
        ("tpcb", json!({ "rows": 1 }), "`tpcb` has no parameter `rows`; `tpcb` has none, leave it out"),
        (
            "tpch",
            json!({ "query": "q1" }),
            "`tpch` has no parameter `query` (did you mean `queries`?); there are `queries` (which of the queries are \
             run: one or several of `q1`, `q2`",
        ),
        (
            "tpch",
            json!({ "queries": ["q1", "Q6"] }),
            "`queries` of `tpch` cannot be [\"q1\",\"Q6\"] (did you mean `q6`?); give one or several of `q1`, `q2`",
        ),
        ("rows", json!({ "rows": 0.5 }), "`rows` of `rows` cannot be 0.5; give a whole number from 1 to 10000"),
        (
            "rows",
            json!({ "columns": "string" }),
            "`columns` of `rows` cannot be \"string\"; give one of `bigint`, `text`",
        ),
        (
            "group",
            json!({ "group": 3 }),
            "`group` has no parameter `group` (did you mean `groups`?); there are `values` (how many different values \
             there are: a whole number from 1 to 2147483647), `groups`",
        ),
    ] {
        let error = made(kind, None, parameters).err().unwrap().to_string();
        assert!(error.starts_with(expect), "{error}");
    }
}

#[test]
fn every_benchmark_is_what_its_entry_says() {
    for entry in BENCHMARKS {
        assert!(entry.scale_possible.has_number(entry.scale_default), "{}", entry.name);
        let (benchmark, scale) = made(entry.name, None, json!({})).unwrap();
        assert_eq!((benchmark.name(), scale), (entry.name, entry.scale_default));
        assert!(!benchmark.transactions().is_empty());
        assert!(benchmark.data().starts_with(&*benchmark.schema().name), "{}", benchmark.data());
        assert!(benchmark.estimated_bytes() > 0);
    }
}

/// Bounds are met by the benchmarks themselves, not only by the entries.
#[test]
fn the_ends_of_every_scale_can_be_made() {
    for entry in BENCHMARKS {
        let (Possible::Number { low, high } | Possible::Whole { low, high }) = entry.scale_possible else {
            panic!("the scale of {} is not a number", entry.name)
        };
        for scale in [low, high] {
            assert_eq!(made(entry.name, Some(scale), json!({})).unwrap().1, scale);
        }
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest_and_all_others_in_a_line() {
    let told = made("tcpc", None, json!({})).err().unwrap().to_string();
    assert!(told.starts_with("there is no workload `tcpc` (did you mean `tpcc`?); there are tpcc, "), "{told}");
    assert!(told.contains("file:PATH (docs/workloads.md)") && told.len() < 300, "{told}");
}

/// One row of the table in the user's guide.
fn documented(entry: &Entry) -> String {
    let Entry { name, about, source, scale_unit, scale_default, scale_possible, parameters, .. } = entry;
    let parameter = |parameter: &Parameter| {
        let Parameter { name, about, default, possible } = parameter;
        match default {
            ParameterValue::List(_) => format!("`{name}`: {about}; {possible}; all of them"),
            _ => format!("`{name}`: {about}; {possible}; `{default}`"),
        }
    };
    let parameters = parameters.iter().map(parameter).collect::<Vec<_>>().join("<br>");
    let scale = format!("{scale_unit}; {scale_possible}; `{scale_default}`");
    format!("| `{name}` | {about} | {scale} | {parameters} | {source} |")
}

/// The user's guide lists every benchmark as it is, in the order of the registry.
#[test]
fn the_guide_lists_every_benchmark() {
    let guide = include_str!("../../../../docs/workloads.md");
    let listed = guide.lines().filter(|line| line.starts_with("| `")).collect::<Vec<_>>();
    let own =
        format!("| `file:PATH` | {} | what the file says; `1` |  | [own-workload.md](own-workload.md) |", file::ABOUT);
    let recorded =
        format!("| `capture:DIR` | {} | none |  | [capture.md](capture.md#as-a-workload) |", captured::ABOUT);
    let sketched = format!("| `sketch:DIR` | {} | none |  | [observe.md](observe.md#a-sketch) |", crate::sketch::ABOUT);
    let expected = BENCHMARKS.iter().map(documented).chain([own, recorded, sketched]).collect::<Vec<_>>();
    assert!(listed == expected, "docs/workloads.md should have the rows:\n{}", expected.join("\n"));
}

#[test]
fn a_catalog_makes_each_benchmark_once() {
    let catalog = Catalog::new(3);
    let get = |kind, scale, parameters: Value| catalog.get(kind, scale, &serde_json::from_value(parameters).unwrap());
    let one = get("rows", Some(0.5), json!({})).unwrap().0;
    let same = |other: &std::sync::Arc<dyn Benchmark>| std::sync::Arc::ptr_eq(&one, other);
    assert!(same(&get("rows", Some(0.5), json!({})).unwrap().0));
    assert!(same(&catalog.clone().get("rows", Some(0.5), &BTreeMap::new()).unwrap().0), "clones share");
    assert!(!same(&get("rows", Some(0.25), json!({})).unwrap().0));
    assert!(!same(&get("rows", Some(0.5), json!({ "rows": 3 })).unwrap().0));
    let (by_default, scale) = get("tpcc", None, json!({})).unwrap();
    assert!(std::sync::Arc::ptr_eq(&by_default, &get("tpcc", Some(scale), json!({})).unwrap().0));
    assert_eq!(by_default.data(), "tpcc:1:seed=3");
    assert!(std::sync::Arc::ptr_eq(&by_default, &catalog.of_spec("tpcc:1", &BTreeMap::new()).unwrap().0));
    assert!(get("tpcc", Some(0.5), json!({})).is_err() && catalog.of_spec("tpcc:x", &BTreeMap::new()).is_err());
}

/// A workload that a program adds.
struct Recorded;

impl Kinds for Recorded {
    fn make(&self, kind: &str, seed: u64) -> Option<Result<Box<dyn Benchmark>, String>> {
        let name = kind.strip_prefix("capture:")?;
        Some(if name.is_empty() { Err("no folder".to_owned()) } else { Ok(benchmark("tpcb", seed).unwrap().0) })
    }
}

#[test]
fn a_program_adds_kinds_of_its_own() {
    let catalog = Catalog::with(7, &Recorded);
    let (made, scale) = catalog.of_spec("capture:a:b", &BTreeMap::new()).unwrap();
    assert_eq!((made.name(), scale), ("tpcb", 1.0));
    let again = catalog.get("capture:a:b", Some(1.0), &BTreeMap::new()).unwrap().0;
    assert!(std::sync::Arc::ptr_eq(&made, &again));
    let error = |kind: &str, parameters: Value| {
        let parameters = serde_json::from_value(parameters).unwrap();
        catalog.of_spec(kind, &parameters).err().unwrap().to_string()
    };
    assert_eq!(error("capture:", json!({})), "capture:: no folder");
    assert_eq!(
        error("capture:a", json!({ "rows": 1 })),
        "capture:a: it has no parameter `rows`, nor any other; leave it out"
    );
    assert!(Catalog::new(7).of_spec("capture:a", &BTreeMap::new()).is_err(), "another program has none");
}
