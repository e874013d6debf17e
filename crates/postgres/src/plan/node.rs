//! A plan with its sizes, as the policy of cache classes wants it.

use std::collections::BTreeSet;

use plimsoll_policy::cache_class::server_plan::PlanNode;
use serde_json::Value;

use super::root;

/// The prefix of a statement for [`cache_plan`]: sizes and expressions are needed. The statement itself is not run.
pub const CACHE_EXPLAIN: &str = "EXPLAIN (FORMAT JSON, VERBOSE) ";

/// Reads the answer of [`CACHE_EXPLAIN`].
///
/// # Errors
/// The fault in the answer, in words.
pub fn cache_plan(json: &str) -> Result<PlanNode, String> {
    Ok(node(&root(json)?))
}

fn node(value: &Value) -> PlanNode {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let number = |key: &str| value.get(key).and_then(Value::as_f64);
    let mut expressions = Vec::new();
    for (_, value) in value.as_object().into_iter().flatten().filter(|(key, _)| !is_name_or_child(key)) {
        texts(value, &mut expressions);
    }
    let expressions: Vec<String> = expressions.into_iter().map(without_literals).collect();
    let keeps = |text: &String| ["(DISTINCT ", " ORDER BY ", "WITHIN GROUP"].iter().any(|word| text.contains(word));
    PlanNode {
        node_type: text("Node Type").unwrap_or_default().to_owned(),
        strategy: text("Strategy").map(str::to_owned),
        is_subplan: text("Parent Relationship") == Some("SubPlan"),
        rows: number("Plan Rows"),
        width: number("Plan Width"),
        cost: number("Total Cost"),
        workers: number("Workers Planned").unwrap_or(0.0) as u32,
        functions: expressions.iter().flat_map(|text| functions(text)).collect::<BTreeSet<_>>().into_iter().collect(),
        keeps_rows: text("Node Type") == Some("Aggregate") && expressions.iter().any(keeps),
        children: children(value).iter().map(node).collect(),
    }
}

fn children(value: &Value) -> &[Value] {
    value.get("Plans").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Other keys may hold expressions: versions of the server add some.
fn is_name_or_child(key: &str) -> bool {
    key == "Plans" || key == "Subplan Name" || key.ends_with("Name") || key == "Alias" || key == "Schema"
}

fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        _ => {}
    }
}

/// An expression with nothing between its single quotes. A quote within a literal is doubled, and so ends two of them.
fn without_literals(text: &str) -> String {
    text.split('\'').step_by(2).collect::<Vec<_>>().join("''")
}

/// The functions that an expression calls: names directly before a parenthesis, with their schemas if the server shows
/// them. Key words of SQL in capital letters count as functions of the same name; those before a space do not.
fn functions(text: &str) -> Vec<String> {
    let is_name = |letter: char| letter.is_alphanumeric() || "_.\"$".contains(letter);
    let before = text.match_indices('(').filter_map(|(at, _)| {
        let before = &text[..at];
        let name = &before[before.trim_end_matches(is_name).len()..];
        (!name.is_empty()).then_some(name)
    });
    before.map(|name| if name.contains('"') { name.to_owned() } else { name.to_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_the_sizes_and_functions_of_its_nodes() {
        let plan = cache_plan(
            r#"[{"Plan": {"Node Type": "Aggregate", "Strategy": "Plain", "Partial Mode": "Simple", "Startup Cost": 1.0, "Total Cost": 20.5,
                "Plan Rows": 1, "Plan Width": 8, "Output": ["count(DISTINCT upper(name))", "avg(price)"], "Plans": [
                {"Node Type": "Gather", "Parent Relationship": "Outer", "Workers Planned": 3, "Plan Rows": 60, "Plan Width": 4, "Plans": [
                    {"Node Type": "Seq Scan", "Relation Name": "a(b", "Total Cost": 11, "Filter": "((note ~~ '%it''s f(x%'::text) AND (shop.\"Is\"(1) = ANY ('{1,2}'::integer[])))"}]},
                {"Node Type": "Seq Scan", "Parent Relationship": "SubPlan", "Subplan Name": "SubPlan 1 (returns $0)"}]}}]"#,
        )
        .unwrap();
        assert_eq!((plan.node_type.as_str(), plan.strategy.as_deref()), ("Aggregate", Some("Plain")));
        assert_eq!((plan.rows, plan.width, plan.cost, plan.keeps_rows), (Some(1.0), Some(8.0), Some(20.5), true));
        assert_eq!(plan.functions, ["avg", "count", "upper"]);
        let [gather, subplan] = plan.children.as_slice() else { panic!("two children: {plan:?}") };
        assert_eq!((gather.workers, gather.is_subplan, subplan.is_subplan), (3, false, true));
        let scan = &gather.children[0];
        assert_eq!(
            (scan.cost, scan.rows, scan.functions.as_slice()),
            (Some(11.0), None, &["shop.\"Is\"".to_owned()][..])
        );
        assert!(subplan.functions.is_empty() && !scan.keeps_rows);
    }

    #[test]
    fn key_words_before_a_space_are_no_functions() {
        assert_eq!(
            functions("CASE WHEN (a = 1) THEN COALESCE(b, 2) ELSE (c)::numeric(15,2) END"),
            ["coalesce", "numeric"]
        );
        assert_eq!(functions("PARTIAL sum((l_extendedprice * ('1'::numeric - l_discount)))"), ["sum"]);
        assert_eq!(functions("(NOT (hashed SubPlan 1))"), Vec::<String>::new());
    }

    #[test]
    fn an_answer_without_a_plan_is_refused() {
        for json in ["", "[]", "{}", "[1]", r#"[{"Plan": 1}]"#] {
            assert!(cache_plan(json).is_err(), "{json}");
        }
    }
}
