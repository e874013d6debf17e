//! The page of a study on a server.

use super::*;

#[test]
fn the_parts_of_a_server_are_told_and_drawn_in_their_own_colours() {
    let xml = as_xml(&render(&on_server()));
    let page = parse(&xml);
    let charts = charts(&page);
    let shares: Vec<&Value> = charts.iter().filter(|chart| chart["kind"] == "shares").collect();
    let [all, shop, reports] = shares[..] else { panic!("{} charts of shares", shares.len()) };
    let names = serde_json::json!([
        "on a core",
        "waiting for a core",
        "device",
        "behind a device",
        "database lock",
        "client",
        "other"
    ]);
    assert_eq!((&all["parts"], &all["tones"]), (&names, &serde_json::json!([0, 1, 2, 5, 3, 6, 4])));
    assert_eq!(shop["label"], "shop by class and kind of transaction");
    assert_eq!(reports["label"], "reports by class and kind of transaction");
    let groups: Vec<&str> =
        shop["bars"].as_array().expect("bars").iter().filter_map(|bar| bar["group"].as_str()).collect();
    assert!(groups.starts_with(&["high", "high"]) && groups.contains(&"new_order"), "{groups:?}");
    assert!(!groups.contains(&"stock_level"), "too few looks: {groups:?}");
    let section = text(by_id(&page, "time-share"));
    assert!(section.contains("stock_level") && section.contains("31"), "the table says how few there were");
    for bar in all["bars"].as_array().expect("bars") {
        let sum: f64 = bar["values"].as_array().expect("values").iter().filter_map(Value::as_f64).sum();
        assert!((sum - 1.0).abs() < 1e-3, "{bar}");
    }
}

#[test]
fn a_server_s_own_view_has_marks_statements_and_what_looking_cost() {
    let xml = as_xml(&render(&on_server()));
    let page = parse(&xml);
    let section = text(by_id(&page, "server"));
    for part in
        ["3.00 s: checkpoint begins", "vacuum of stock begins", "UPDATE stock SET", "812 044", "2 490", "310 µs"]
    {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&section).contains(&squeezed(part)), "{part} is not in {section}");
    }
    let charts = charts(&page);
    let over_time = charts.iter().find(|chart| chart["label"] == "Throughput over time in run 1").expect("it is drawn");
    let panel = &over_time["panels"][0];
    assert_eq!(panel["flags"][0]["label"], "checkpoint begins");
    assert_eq!(
        (&panel["series"][0]["points"][0]["at"], panel["flags"].as_array().expect("flags").len()),
        (&0.5.into(), 3)
    );
    let mut quiet = on_server();
    quiet.points.iter_mut().filter_map(|point| point.server.as_mut()).for_each(|server| {
        server.marks.clear();
        server.statements = None;
    });
    let section = told_in(&render(&quiet), "server");
    assert!(section.contains("No checkpoint and no vacuum") && !section.contains("pg_stat_statements"), "{section}");
}

#[test]
fn plans_that_change_are_told_with_their_settings() {
    let section = told_in(&render(&on_server()), "plans");
    assert!(section.contains("1 of 2 queries run by another plan at some settings"), "{section}");
    let at = |part: &str| section.find(part).unwrap_or_else(|| panic!("{part} is not in {section}"));
    assert!(at("dop 1") < at("Aggregate(Seq Scan lineitem)") && at("dop 2") < at("Gather(Partial"), "{section}");
    let mut same = on_server();
    same.points.iter_mut().flat_map(|point| &mut point.plans).for_each(|plan| plan.shape = plan.query.clone());
    assert!(told_in(&render(&same), "plans").contains("by the same plan at all settings"));
    assert!(!render(&study()).contains("id=\"plans\""), "nothing where nobody told");
}
