//! Plans: the answer of EXPLAIN for a query, as its shape and a hash of that, and as the tree that decides its cache
//! class.

mod node;

use std::hash::Hasher;

use fnv::FnvHasher;
use plimsoll_workload::database::QueryPlan;
use serde_json::Value;

pub use node::{CACHE_EXPLAIN, cache_plan};

/// The top node of EXPLAIN's answer in JSON.
fn root(json: &str) -> Result<Value, String> {
    let mut plans: Value =
        serde_json::from_str(json).map_err(|error| format!("EXPLAIN's answer is no JSON: {error}"))?;
    let root = plans.get_mut(0).and_then(|plan| plan.get_mut("Plan")).map(Value::take);
    root.filter(Value::is_object).ok_or_else(|| "EXPLAIN's answer has no plan".to_owned())
}

pub(crate) fn read(json: &str) -> Result<QueryPlan, String> {
    let mut shape = String::new();
    show(&root(json)?, &mut shape);
    Ok(QueryPlan { hash: format!("{:016x}", fnv1a(shape.as_bytes())), shape })
}

/// One operator and, in parentheses, its inputs.
fn show(node: &Value, out: &mut String) {
    let text = |key: &str| node.get(key).and_then(Value::as_str);
    if let Some(name) = text("Subplan Name") {
        out.push_str(name);
        out.push_str(": ");
    }
    let before: [Option<&str>; 3] = [
        node.get("Parallel Aware").and_then(Value::as_bool).unwrap_or(false).then_some("Parallel"),
        text("Partial Mode").filter(|mode| *mode != "Simple"),
        text("Strategy").filter(|strategy| *strategy != "Plain"),
    ];
    for word in before.into_iter().flatten() {
        out.push_str(word);
        out.push(' ');
    }
    out.push_str(text("Node Type").unwrap_or("?"));
    let after = [text("Join Type").filter(|join| *join != "Inner"), text("Command"), text("Operation")];
    let names = [text("Index Name"), text("Relation Name"), text("CTE Name"), text("Function Name")];
    for word in after.into_iter().chain(names).flatten() {
        out.push(' ');
        out.push_str(word);
    }
    if let Some(workers) = node.get("Workers Planned").and_then(Value::as_u64) {
        out.push_str(&format!(" {workers} workers"));
    }
    let children = node.get("Plans").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (number, child) in children.iter().enumerate() {
        out.push_str(if number == 0 { "(" } else { ", " });
        show(child, out);
    }
    if !children.is_empty() {
        out.push(')');
    }
}

/// FNV-1a, 64 bits: fixed forever, and good enough to tell plans apart.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: &str) {
        assert_eq!(read(json).unwrap().shape, expect);
    }

    #[test]
    fn plans_are_shown_in_a_line() {
        check(
            r#"[{"Plan": {"Node Type": "Gather", "Workers Planned": 2, "Plans": [
                {"Node Type": "Hash Join", "Parallel Aware": false, "Join Type": "Inner", "Plans": [
                    {"Node Type": "Seq Scan", "Parallel Aware": true, "Relation Name": "orders", "Alias": "o"},
                    {"Node Type": "Hash", "Plans": [{"Node Type": "Seq Scan", "Relation Name": "customer"}]}]}]}}]"#,
            "Gather 2 workers(Hash Join(Parallel Seq Scan orders, Hash(Seq Scan customer)))",
        );
        check(
            r#"[{"Plan": {"Node Type": "Aggregate", "Strategy": "Hashed", "Partial Mode": "Finalize", "Plans": [
                {"Node Type": "Nested Loop", "Join Type": "Anti", "Plans": [
                    {"Node Type": "Index Scan", "Index Name": "stock_pkey", "Relation Name": "stock"},
                    {"Node Type": "Result", "Subplan Name": "InitPlan 1 (returns $0)"}]}]}}]"#,
            "Finalize Hashed Aggregate(Nested Loop Anti(Index Scan stock_pkey stock, InitPlan 1 (returns $0): Result))",
        );
    }

    #[test]
    fn equal_shapes_have_equal_hashes_and_others_do_not() {
        let plan = |table: &str| {
            read(&format!(r#"[{{"Plan": {{"Node Type": "Seq Scan", "Relation Name": "{table}"}}}}]"#)).unwrap()
        };
        assert_eq!(plan("a"), plan("a"));
        assert_ne!(plan("a").hash, plan("b").hash);
        // The published value of the function for one letter.
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(plan("a").hash.len(), 16);
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        for json in ["", "[]", "{}", "[1]"] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
