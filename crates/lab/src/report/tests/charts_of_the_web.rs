//! The charts that the tests of the script draw.

use super::*;

/// Written again with `PLIMSOLL_BLESS=1`.
#[test]
fn they_are_those_of_the_fixtures() {
    let mut out = BTreeMap::new();
    let mut keep = |name: &str, results: &Results, kind: &str, label: &str| {
        let found = charts(&parse(&as_xml(&render(with_records(results.clone()))))).into_iter();
        let found =
            found.into_iter().find(|c| c["kind"] == kind && c["label"].as_str().is_some_and(|l| l.contains(label)));
        out.insert(name.to_owned(), found.unwrap_or_else(|| panic!("no {kind} of {label}")));
    };
    keep("cores throughput", &cores(), "curve", "Throughput of shop over");
    keep("cores latency", &cores(), "curve", "Latency of reports");
    keep("cores interference", &cores(), "curve", "over its throughput alone");
    keep("clients throughput", &clients(), "curve", "Throughput of shop over clients");
    keep("lock policies", &clients(), "intervals", "Latency of shop over lock_policy");
    keep("study throughput", &study(), "intervals", "Throughput of shop");
    keep("study interference", &study(), "intervals", "over throughput alone");
    keep("study latency", &study(), "distribution", "Latency of shop");
    keep("study shares", &study(), "shares", "Parts");
    keep("server shares", &on_server(), "shares", "shop by class");
    keep("poor shares", &poor_study(), "shares", "Parts");
    keep("cores reports", &cores(), "curve", "Throughput of reports over");
    keep("memory latency", &study(), "curve", "by the size of what is loaded from");
    keep("memory under load", &study(), "curve", "while other cores read");
    keep("top-down", &counted(), "shares", "slots of the processor");
    keep("roofline", &counted(), "lines", "Instructions per second");
    keep("drift", &study(), "lines", "over the mean of its setting");
    keep("timelines", &study(), "lines", "shop second by second");
    keep("lock waits", &study(), "lines", "Lock waits");
    keep("bandwidth", &study(), "lines", "Bandwidth");
    keep("speed-up", &speeds(), "curve", "Speed-up");
    keep("published", &graded(), "intervals", "over the published");
    keep("pairs", &matrix(4), "matrix", "beside");
    let lines = out.iter().map(|(name, chart)| format!("{}:{chart}", Value::from(name.as_str())));
    let json = format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"));
    plimsoll_testing::check_made("../../web/test/charts.json", &json);
}
