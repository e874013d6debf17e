//! The rule against plans as PostgreSQL makes them, in a cache of 32 MiB.

use proptest::prelude::*;

use super::*;
use CacheClass::{Depends, Polluting, Sensitive};

const MIB: u64 = 1 << 20;

/// 32 MiB of cache, 8 MiB for a hash table: a server's own settings.
const MEMORY: PlanMemory = PlanMemory { cache_bytes: 32 * MIB, hash_bytes: Some(8 * MIB) };

fn node(node_type: &str, rows: f64, width: f64, children: Vec<PlanNode>) -> PlanNode {
    let cost = children.iter().filter_map(|child| child.cost).sum::<f64>();
    PlanNode {
        node_type: node_type.to_owned(),
        rows: Some(rows),
        width: Some(width),
        cost: Some(cost),
        children,
        ..PlanNode::default()
    }
}

/// A scan of that many pages, at the usual cost of their rows.
fn scan(pages: f64) -> PlanNode {
    PlanNode { cost: Some(pages * 1.6), ..node("Seq Scan", pages * 60.0, 100.0, vec![]) }
}

fn aggregate(strategy: &str, groups: f64, child: PlanNode) -> PlanNode {
    PlanNode { strategy: Some(strategy.to_owned()), ..node("Aggregate", groups, 40.0, vec![child]) }
}

fn join(left: PlanNode, rows: f64, width: f64, right: PlanNode) -> PlanNode {
    node("Hash Join", 1e6, 100.0, vec![left, node("Hash", rows, width, vec![right])])
}

fn gather(workers: u32, child: PlanNode) -> PlanNode {
    PlanNode { workers, ..node("Gather", 1e6, 100.0, vec![child]) }
}

fn check(plan: &PlanNode, class: CacheClass, because: &str) {
    let found = plan_class(plan, MEMORY);
    assert_eq!(found.class, class, "{found:?}");
    assert!(found.because.contains(because), "{found:?} does not contain `{because}`");
}

#[test]
fn a_long_scan_pollutes_and_a_short_one_is_left_alone() {
    check(&scan(1e6), Polluting, "scans read up to 12500.0 MiB");
    check(&aggregate("Plain", 1.0, scan(1e6)), Polluting, "scans");
    check(&scan(100.0), Sensitive, "less than the cache");
    let partitions = node("Append", 1e6, 100.0, (0..20).map(|_| scan(500.0)).collect());
    check(&partitions, Polluting, "125.0 MiB");
    let first = PlanNode { cost: Some(12.0), ..node("Limit", 10.0, 100.0, vec![scan(1e6)]) };
    check(&first, Sensitive, "less than the cache");
    check(&PlanNode { cost: None, ..scan(1e6) }, Sensitive, "the size of Seq Scan is not known");
}

#[test]
fn hash_tables_decide_by_their_size() {
    let of_rows = |rows: f64| join(scan(1e6), rows, 16.0, scan(10.0));
    check(&of_rows(1000.0), Polluting, "scans");
    // 50,000 rows of 48 bytes and 65,536 buckets: 2.8 MiB, 0.09 of the cache.
    check(&of_rows(50_000.0), Depends, "about 2.8 MiB");
    // Four processes build four such tables.
    check(&of_rows(15_000.0), Polluting, "scans");
    check(&gather(3, of_rows(15_000.0)), Depends, "about 3.2 MiB");
    // The server splits any larger table into batches of 8 MiB: one is comparable with the cache.
    check(&of_rows(1e8), Depends, "about 8.0 MiB");
    let ample = PlanMemory { hash_bytes: Some(1 << 40), ..MEMORY };
    assert_eq!(plan_class(&of_rows(1e8), ample).class, Polluting);
    let unknown = PlanMemory { hash_bytes: None, ..MEMORY };
    let found = plan_class(&of_rows(1e8), unknown);
    assert!(found.class == Sensitive && found.because.contains("not known"), "{found:?}");
    assert_eq!(plan_class(&of_rows(50_000.0), unknown).class, Depends);
}

#[test]
fn groups_and_sorts_keep_the_cache_unless_they_are_few() {
    check(&aggregate("Hashed", 6.0, scan(1e6)), Polluting, "scans");
    check(&aggregate("Hashed", 10_001.0, scan(1e6)), Sensitive, "Aggregate holds about 1.3 MiB");
    check(&aggregate("Hashed", 1_000_001.0, scan(1e6)), Sensitive, "Aggregate holds");
    check(&aggregate("Hashed", 200.0, scan(1e6)), Sensitive, "run ANALYZE");
    check(&aggregate("Sorted", 200.0, scan(1e6)), Polluting, "scans");
    check(&aggregate("Rolled", 6.0, scan(1e6)), Sensitive, "Aggregate is not known");
    // TPC-H's Q1: a few groups of each worker, sorted and merged.
    let partial = aggregate("Hashed", 6.0, scan(1e6));
    let sorted = node("Sort", 6.0, 236.0, vec![partial]);
    let merged = PlanNode { workers: 4, ..node("Gather Merge", 24.0, 236.0, vec![sorted]) };
    check(&aggregate("Sorted", 6.0, merged), Polluting, "scans");
    check(&node("Sort", 1e6, 100.0, vec![scan(1e6)]), Sensitive, "Sort holds about");
}

#[test]
fn what_is_not_known_is_sensitive() {
    for name in [
        "Index Scan",
        "Nested Loop",
        "Merge Join",
        "Memoize",
        "WindowAgg",
        "ModifyTable",
        "CTE Scan",
        "Custom Scan",
        "",
    ] {
        check(&node(name, 1.0, 8.0, vec![scan(1e6)]), Sensitive, &format!("{name} is not known"));
    }
    check(&PlanNode { is_subplan: true, ..scan(1e6) }, Sensitive, "subplan");
    check(&PlanNode { keeps_rows: true, ..aggregate("Plain", 1.0, scan(1e6)) }, Sensitive, "keeps its rows");
    let calls = |function: &str| PlanNode { functions: vec![function.to_owned()], ..scan(1e6) };
    check(&calls("sum"), Polluting, "scans");
    check(&calls("array_agg"), Sensitive, "calls array_agg");
    check(&calls("shop.price"), Sensitive, "calls shop.price");
    check(&PlanNode { rows: None, ..aggregate("Hashed", 6.0, scan(1e6)) }, Sensitive, "size of Aggregate");
}

#[test]
fn parts_of_tables_by_index_keep_the_cache_unless_they_are_large() {
    let bitmap = |rows: f64, cost: f64| PlanNode {
        cost: Some(cost),
        ..node("Bitmap Heap Scan", rows, 100.0, vec![node("Bitmap Index Scan", rows, 0.0, vec![])])
    };
    check(&bitmap(100.0, 400.0), Sensitive, "by an index");
    check(&bitmap(1e6, 30_000.0), Polluting, "reads at least 122.1 MiB");
    check(&bitmap(1e6, 1e6), Sensitive, "by an index");
}

#[test]
fn the_list_of_functions_has_each_once() {
    let all = SMALL_FUNCTIONS.concat();
    let mut names = all.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
}

fn any_plan() -> impl Strategy<Value = PlanNode> {
    let kind = prop::sample::select(vec![
        "Seq Scan",
        "Hash",
        "Sort",
        "Hash Join",
        "Gather",
        "Limit",
        "Index Scan",
        "Aggregate",
    ]);
    let leaf =
        (kind, 0.0..1e9_f64, 0.0..1000.0_f64, 0.0..1e9_f64, 0_u32..8).prop_map(|(kind, rows, width, cost, workers)| {
            PlanNode {
                strategy: (kind == "Aggregate").then(|| "Hashed".to_owned()),
                cost: Some(cost),
                workers,
                ..node(kind, rows, width, vec![])
            }
        });
    leaf.prop_recursive(4, 20, 3, |inner| {
        (inner.clone(), prop::collection::vec(inner, 0..3)).prop_map(|(top, children)| PlanNode { children, ..top })
    })
}

proptest! {
    #[test]
    fn a_plan_is_at_least_as_sensitive_as_each_part_that_has_a_say(plan in any_plan(), wide in 1_u64..=1 << 40) {
        let memory = PlanMemory { cache_bytes: wide, hash_bytes: None };
        let whole = plan_class(&plan, memory);
        if plan_class(&node("Index Scan", 1.0, 1.0, vec![plan.clone()]), memory).class != Sensitive {
            prop_assert!(false, "a sensitive node above decides");
        }
        let holds_index = format!("{plan:?}").contains("Index Scan");
        prop_assert!(!holds_index || whole.class == Sensitive, "{whole:?}");
        prop_assert!(!whole.because.is_empty());
    }
}
