//! Sections that rest on seconds, histograms and counters.

use plimsoll_machine::resctrl::CacheUse;

use super::*;
use crate::results::Unmeasured;

#[test]
fn what_was_not_measured_has_no_section() {
    let evidence = ["timelines", "lock-wait-distribution", "bandwidth-distribution", "roofline", "top-down", "drift"];
    let all = sections(with_records(counted()));
    assert!(evidence.iter().all(|id| all.iter().any(|other| other == id)), "{all:?}");
    let without_records = sections(&counted());
    let gone: Vec<_> = evidence.iter().filter(|id| !without_records.iter().any(|other| other == *id)).collect();
    assert_eq!(gone, [&"timelines", &"lock-wait-distribution", &"bandwidth-distribution"]);
    let mut unprobed = counted();
    unprobed.memory_speed = None;
    assert!(!sections(&unprobed).contains(&"roofline".to_owned()), "a roofline without a roof");
    let mut once = study();
    once.points.truncate(3);
    once.estimates.iter_mut().for_each(|estimate| estimate.runs.truncate(1));
    assert!(!sections(with_records(once)).contains(&"drift".to_owned()), "one block cannot drift");
    let mut short = with_records(study());
    short.records.to_mut().iter_mut().for_each(|record| record.samples.truncate(2));
    let short = sections(&short);
    assert!(!short.contains(&"timelines".to_owned()), "two seconds are no course");
}

#[test]
fn memory_s_bandwidth_is_distributed_where_it_is_monitored() {
    let section = |source: &ReportInput| told_in(&render(source), "bandwidth-distribution");
    let mut blind = study();
    let why = Unmeasured { reason: "resctrl is not mounted".to_owned(), remedy: None };
    blind.points[0].unmeasured.insert("resctrl monitoring".to_owned(), why);
    let told = section(&with_records(blind));
    assert!(told.contains("Memory is missing: resctrl is not mounted."), "{told}");
    let mut monitored = with_records(study());
    for row in monitored.records.to_mut().iter_mut().flat_map(|record| &mut record.samples) {
        row.device.cache = Some(CacheUse { held_mib: None, memory_mb_s: Some(900.0 + row.second) });
    }
    let told = section(&monitored);
    assert!(told.contains("Memory reads and writes") && told.contains("as resctrl tells it"), "{told}");
}

#[test]
fn records_of_other_runs_are_not_shown() {
    let mut source = with_records(study());
    source.records.to_mut().iter_mut().for_each(|record| record.point.at_s += 1.0);
    assert!(!sections(&source).contains(&"timelines".to_owned()));
}

/// The panels of the chart whose label contains these words.
fn panels(source: &ReportInput, label: &str) -> Vec<Value> {
    chart(&parse(&as_xml(&render(source))), label)["panels"].as_array().expect("panels").clone()
}

#[test]
fn each_run_is_a_line_of_its_seconds() {
    let source = with_records(study());
    let panels = panels(&source, "shop second by second");
    let lines = panels[0]["lines"].as_array().expect("lines");
    assert_eq!(lines.len(), 4, "two blocks of two arms");
    assert_eq!(lines[0]["points"].as_array().map(Vec::len), Some(20));
    assert_eq!(lines[0]["points"][3][0], 3.5, "a second is drawn at its middle");
    assert!(told_in(&render(&source), "timelines").contains("Second half over first"));
}

#[test]
fn many_runs_are_drawn_in_steps_of_seconds() {
    let mut source = with_records(thousand());
    for record in source.records.to_mut() {
        record.histograms.clear();
    }
    let html = render(&source);
    assert!(html.len() < 8 << 20, "{} bytes", html.len());
    assert!(told_in(&html, "timelines").contains("in steps of several seconds"));
}

#[test]
fn a_faster_block_lies_above_the_line() {
    let panels = panels(&with_records(study()), "over the mean of its setting");
    let means = |panel: usize| panels[panel]["lines"][0]["points"].clone();
    let (shop, reports) = (means(0), means(1));
    assert!(
        shop[0][1].as_f64() < Some(1.0) && shop[1][1].as_f64() > Some(1.0),
        "the shop's second block is faster: {shop}"
    );
    assert!(reports[0][1].as_f64() > Some(1.0), "{reports}");
}

#[test]
fn distributions_rise_to_the_whole() {
    for label in ["Lock waits", "Bandwidth"] {
        let panels = panels(&with_records(study()), label);
        for line in panels.iter().flat_map(|panel| panel["lines"].as_array().expect("lines")) {
            let points = line["points"].as_array().expect("points");
            let at = |place: usize| -> Vec<f64> { points.iter().filter_map(|point| point[place].as_f64()).collect() };
            assert!(at(0).is_sorted() && at(1).is_sorted(), "{line}");
            assert_eq!(at(1).last(), Some(&1.0));
        }
    }
    // The fixture's second class waits twice as long.
    let panels = panels(&with_records(study()), "Lock waits");
    let median = |line: usize| {
        let points = panels[0]["lines"][line]["points"].as_array().expect("points").clone();
        points.iter().find(|point| point[1] == 0.5).and_then(|point| point[0].as_f64()).expect("the median is drawn")
    };
    assert!((median(1) / median(0) - 2.0).abs() < 0.05);
}

#[test]
fn the_roof_is_the_probe_and_points_lie_below() {
    let panels = panels(&with_records(counted()), "Instructions per second");
    let lines = panels[0]["lines"].as_array().expect("lines");
    let slope = |point: &Value| point[1].as_f64().expect("y") / point[0].as_f64().expect("x");
    let roof = slope(&lines[0]["points"][0]);
    assert!((roof - 12.6 * 8.4).abs() < 0.5, "sequential reads of all cores: {roof}");
    for line in &lines[1..] {
        assert!(slope(&line["points"][0]) < roof, "{line}");
    }
}

#[test]
fn the_slots_of_a_bar_add_up() {
    let found = charts(&parse(&as_xml(&render(&counted()))))
        .into_iter()
        .find(|chart| chart["whole"] == "slots")
        .expect("bars of slots");
    for bar in found["bars"].as_array().expect("bars") {
        let sum: f64 = bar["values"].as_array().expect("values").iter().filter_map(Value::as_f64).sum();
        assert!((sum - 1.0).abs() < 1e-3, "{bar}");
    }
    assert!(!found["parts"].to_string().contains("\"back end\""), "it is told by its halves");
}

#[test]
fn each_query_has_its_chart() {
    let panels = panels(&ReportInput::from(&speeds()), "Speed-up");
    let titles: Vec<&str> = panels.iter().filter_map(|panel| panel["title"].as_str()).collect();
    assert_eq!((titles.len(), titles[0], titles[21]), (22, "q1", "q22"));
    assert!(panels[0]["series"][0]["points"][3]["low"].as_f64().is_some_and(|low| low > 6.0), "q1 is all parallel");
}

#[test]
fn ours_stand_beside_the_published() {
    let source = ReportInput::owned(graded(), Vec::new());
    let rows = panels(&source, "over the published")[0]["rows"].clone();
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 3, "what was not measured is in the table only");
    let value = |row: usize| rows[row]["value"].as_f64().expect("a ratio");
    assert!((value(0) - 3.4 / 3.7).abs() < 1e-3 && (value(1) - 1.2 / 5.0).abs() < 1e-3, "the nearer end: {rows:?}");
    assert_eq!(rows.iter().map(|row| row["colour"].clone()).collect::<Vec<_>>(), [3, 2, 1]);
    let told = told_in(&render(&source), "published");
    for words in
        ["match: 1, direction: 1, contrary: 1 and not graded: 1", "not graded: no run with llc_ways = 2 is valid"]
    {
        assert!(told.contains(words), "{words} in {told}");
    }
    let xml = as_xml(&render_all(&[graded(), study()]));
    let page = parse(&xml);
    assert!(text(by_id(&page, "published")).contains("SR-cores"), "over all documents");
    by_id(&page, "r1-published");
    assert!(!sections(&study()).contains(&"published".to_owned()));
}
