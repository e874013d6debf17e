//! The sections on policies and on lock waiting by class.

use super::*;

#[test]
fn lock_waiting_is_told_by_class() {
    let xml = as_xml(&render(&policies()));
    let page = parse(&xml);
    let waiting = by_id(&page, "lock-waits");
    let rows: Vec<String> = named(waiting, &["tr"]).into_iter().map(text).collect();
    let of = |class: &str, policy: &str| {
        let row = |row: &&String| row.contains(policy) && row.contains(class) && row.contains("exp 5ms");
        rows.iter().filter(row).collect::<Vec<_>>()
    };
    let [often, long, lost] = of("low", "pabort")[..] else { panic!("{rows:?}") };
    for (row, figures) in [
        (often, &["0.63", "39 %", "60 %", "0 %", "1 %"][..]),
        (long, &["5.20 ms", "1.30 ms", "3.90 ms"]),
        (lost, &["21 %", "79 %", "80 %"]),
    ] {
        assert!(figures.iter().all(|figure| row.contains(figure)), "{figures:?} in {row}");
    }
    assert!(of("high", "nprio")[1].contains("862 µs"), "high comes first: {rows:?}");
    assert!(parse(&as_xml(&render(&study()))).descendants().all(|node| node.attribute("id") != Some("lock-waits")));
    assert!(text(by_id(&page, "time-share")).contains("of it round trips"));
}

#[test]
fn policies_are_put_against_the_first() {
    let xml = as_xml(&render(&policies()));
    let page = parse(&xml);
    let told = text(by_id(&page, "policies"));
    assert!(told.contains("against") || told.contains("Against"), "{told}");
    let rows: Vec<String> = named(by_id(&page, "policies"), &["tr"]).into_iter().map(text).collect();
    let of = |policy: &str, class: &str| {
        rows.iter().find(|row| row.contains(policy) && row.contains(class)).unwrap_or_else(|| panic!("{rows:?}"))
    };
    assert!(of("lock_policy pabort", "high").contains("5.0"), "{rows:?}");
    assert!(of("lock_policy cr(300ms)", "low").contains("over 2 settings"), "{rows:?}");
    let panels = chart(&page, "classes")["panels"].clone();
    let titles: Vec<Value> = panels.as_array().expect("panels").iter().map(|p| p["title"].clone()).collect();
    assert_eq!(titles, ["high: times shorter", "low: times longer"]);
}
