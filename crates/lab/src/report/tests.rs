//! The page as a parser, a reader and an attacker see it.

use std::collections::BTreeMap;
use std::path::Path;

use roxmltree::{Document, Node};
use serde_json::Value;

use super::fixture::experiments::{clients, cores, matrix, thousand};
use super::fixture::policies::policies;
use super::fixture::records::{counted, graded, records};
use super::fixture::server::on_server;
use super::fixture::speeds::speeds;
use super::fixture::{poor_study, study};
use super::*;
use crate::results::Results;

mod charts_of_the_web;
mod evidence;
mod narrow;
mod policies_and_locks;
mod server;

/// The page as XML, which is stricter than HTML: every tag must close in order, every attribute be quoted, every
/// `&` and `<` be escaped. Only the declaration, the `meta` elements, which HTML forbids to close, attributes without a
/// value, and the script, whose text HTML does not parse, are not XML.
fn as_xml(html: &str) -> String {
    let page = html.replace(SCRIPT, "").replace("<details class=\"numbers\" open>", "<details class=\"numbers\">");
    let page = page.replace("<details open>", "<details>");
    let body = page.strip_prefix("<!DOCTYPE html>").expect("the page declares itself");
    let mut parts = body.split("<meta ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |page, part| page + "<meta " + &part.replacen('>', "/>", 1))
}

/// The page as a parser sees it.
fn parse(xml: &str) -> Document<'_> {
    Document::parse(xml).unwrap_or_else(|error| panic!("{error}"))
}

/// All elements of these names below `node`.
fn named<'a, 'i>(node: Node<'a, 'i>, names: &[&str]) -> Vec<Node<'a, 'i>> {
    node.descendants().filter(|node| names.contains(&node.tag_name().name())).collect()
}

fn by_id<'a, 'i>(page: &'a Document<'i>, id: &str) -> Node<'a, 'i> {
    page.descendants().find(|node| node.attribute("id") == Some(id)).unwrap_or_else(|| panic!("no {id}"))
}

/// The text of the element of a page with this id.
fn told_in(html: &str, id: &str) -> String {
    text(by_id(&parse(&as_xml(html)), id))
}

/// The chart of a page whose label contains these words.
fn chart(page: &Document, label: &str) -> Value {
    let found = charts(page).into_iter().find(|chart| chart["label"].as_str().is_some_and(|l| l.contains(label)));
    found.unwrap_or_else(|| panic!("no chart of {label}"))
}

fn sections<'a>(source: impl Into<ReportInput<'a>>) -> Vec<String> {
    let xml = as_xml(&render(source));
    let page = parse(&xml);
    named(page.root(), &["section"]).iter().filter_map(|s| s.attribute("id").map(str::to_owned)).collect()
}

fn text(node: Node) -> String {
    let texts = node.descendants().filter(Node::is_text);
    let texts = texts.filter(|node| node.parent().is_none_or(|parent| parent.tag_name().name() != "script"));
    texts.filter_map(|node| node.text()).collect::<Vec<_>>().join(" ")
}

/// The text that a reader can see, without scripts and styles.
fn visible(page: &Document) -> String {
    named(page.root(), &["header", "nav", "main", "footer"]).into_iter().map(text).collect::<Vec<_>>().join(" ")
}

/// The charts' data, in the order of the page.
fn charts(page: &Document) -> Vec<Value> {
    let scripts = named(page.root(), &["script"]).into_iter().filter(|node| node.attribute("class") == Some("chart"));
    scripts.map(|node| serde_json::from_str(node.text().expect("a chart has data")).expect("which is JSON")).collect()
}

fn empty() -> Results {
    let mut empty = study();
    empty.points.clear();
    empty.estimates.clear();
    empty.advice.clear();
    empty.interference.clear();
    empty.noise_floor.clear();
    empty.experiment.workloads.clear();
    empty
}

fn documents() -> Vec<Results> {
    vec![
        study(),
        poor_study(),
        empty(),
        cores(),
        clients(),
        matrix(4),
        policies(),
        on_server(),
        counted(),
        speeds(),
        graded(),
    ]
}

/// Every page on its own, and all of them on one.
fn pages() -> Vec<String> {
    let mut pages = documents().iter().map(render).collect::<Vec<_>>();
    pages.push(render_all(&documents()));
    pages.push(render(with_records(counted())));
    pages.push(render(with_records(poor_study())));
    pages
}

/// The same with a record of each run.
fn with_records(results: Results) -> ReportInput<'static> {
    let records = records(&results);
    ReportInput::owned(results, records)
}

#[test]
fn the_page_is_well_formed() {
    for html in pages() {
        let xml = as_xml(&html);
        let page = parse(&xml);
        assert_eq!(named(page.root(), &["h1"]).len(), 1);
        for section in named(page.root(), &["section"]) {
            assert_eq!(named(section, &["h2"]).len(), 1, "every section has its heading");
        }
        let mut ids = page.descendants().filter_map(|node| node.attribute("id")).collect::<Vec<_>>();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "an id names one thing");
        for table in named(page.root(), &["table"]) {
            let width = |row: Node| {
                let cells =
                    row.children().map(|cell| cell.attribute("colspan").map_or(1, |n| n.parse::<usize>().unwrap()));
                cells.sum::<usize>()
            };
            let rows = named(table, &["tr"]);
            assert!(rows.iter().all(|row| width(*row) == width(rows[0])), "ragged: {}", text(table));
        }
    }
    assert!(Document::parse("<p><b>x</p></b>").is_err(), "the parser does complain");
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    const LOADERS: [&str; 8] = ["link", "img", "iframe", "object", "use", "image", "base", "embed"];
    for html in pages() {
        let xml = as_xml(&html);
        let page = parse(&xml);
        assert!(named(page.root(), &LOADERS).is_empty());
        assert!(page.descendants().all(|node| !node.has_attribute("src") && !node.has_attribute("style")));
        for target in page.descendants().filter_map(|node| node.attribute("href")) {
            by_id(&page, target.strip_prefix('#').unwrap_or_else(|| panic!("{target} leaves the page")));
        }
    }
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    assert!(!["fetch(", "XMLHttpRequest", "import(", "eval("].iter().any(|word| SCRIPT.contains(word)));
}

#[test]
fn no_word_of_a_program_is_visible() {
    for html in pages() {
        let text = visible(&parse(&as_xml(&html)));
        let words = text.split(|c: char| !c.is_alphanumeric());
        let leaks = ["NaN", "inf", "null", "None", "Some", "undefined"];
        let leaked = words.filter(|word| leaks.contains(word)).collect::<Vec<_>>();
        assert!(leaked.is_empty(), "{leaked:?}");
    }
}

#[test]
fn everything_that_was_written_down_is_told() {
    for results in documents() {
        let xml = as_xml(&render(&results));
        let page = parse(&xml);
        let text = visible(&page);
        let claims =
            results.claims.iter().flat_map(|claim| [Some(&claim.text), claim.value.as_ref(), claim.why_not.as_ref()]);
        let sentences = results.warnings.iter().chain(&results.advice).chain(&results.experiment.text);
        let sentences = sentences.chain(&results.machine.warnings);
        let sentences = sentences.chain(results.memory_speed.iter().flat_map(|kept| &kept.speed.notes));
        for sentence in sentences.chain(claims.flatten()) {
            assert!(text.contains(sentence.as_str()), "{sentence}");
        }
        for (name, setting) in &results.experiment.settings {
            assert!(text.contains(name.as_str()), "{name}");
            assert!(text.contains(&plimsoll_display::value(setting)), "{name} {setting}");
        }
        for point in &results.points {
            assert!(point.why_invalid.as_ref().is_none_or(|why| text.contains(why.as_str())));
        }
        for why in results.knees.iter().flat_map(|knee| &knee.levels).filter_map(|level| level.why_not.as_ref()) {
            assert!(text.contains(why.as_str()) || visible_in_charts(&page, why), "{why}");
        }
    }
}

fn visible_in_charts(page: &Document, words: &str) -> bool {
    charts(page).iter().any(|chart| chart.to_string().contains(words))
}

#[test]
fn every_estimate_leads_to_its_runs() {
    for results in documents() {
        let xml = as_xml(&render(&results));
        let page = parse(&xml);
        let links = named(page.root(), &["table"]).into_iter().flat_map(|table| named(table, &["a"]));
        let links = links.filter_map(|link| link.attribute("href")).collect::<Vec<_>>();
        for estimate in &results.estimates {
            for run in estimate.runs.iter().chain(&estimate.left_out) {
                assert!(links.contains(&format!("#run-{run}").as_str()), "{run}");
                by_id(&page, &format!("run-{run}"));
            }
        }
        for chart in charts(&page) {
            let mut samples = Vec::new();
            collect(&chart, "samples", &mut samples);
            for sample in samples.iter().filter_map(|sample| sample.as_array()).flatten() {
                assert!(sample[0].as_u64().is_some_and(|run| (run as usize) < results.points.len()));
            }
        }
    }
}

fn collect<'a>(value: &'a Value, key: &str, out: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            out.extend(fields.get(key));
            fields.values().for_each(|field| collect(field, key, out));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, key, out)),
        _ => {}
    }
}

#[test]
fn hostile_text_stays_text() {
    let html = render(&poor_study()).replace(SCRIPT, "");
    let count = |what: &str| html.matches(what).count();
    assert_eq!(count("<script"), count("</script"));
    let xml = as_xml(&format!("{html}{SCRIPT}"));
    let page = parse(&xml);
    let scripts = named(page.root(), &["script"]);
    let (data, code): (Vec<_>, Vec<_>) = scripts.into_iter().partition(|node| node.attribute("type").is_some());
    assert!(data.iter().all(|node| node.attribute("type") == Some("application/json")));
    assert_eq!(code.len(), 1, "no script but ours");
    assert_eq!(count("<img"), 0);
    assert_eq!(count("<i>"), 0);
    assert!(visible(&page).contains("re</script><b>ports</b> & \"co\" 'x'"));
    assert!(visible(&page).contains("<img src=x onerror=alert(1)>"));
    assert!(
        charts(&page).iter().any(|chart| chart.to_string().contains("re</script><b>ports</b>")),
        "escapes are undone"
    );
}

#[test]
fn only_our_script_may_run() {
    let html = render(&study());
    let policy = html.split("content=\"").find(|part| part.starts_with("default-src")).expect("there is a policy");
    assert!(policy.starts_with("default-src 'none';"));
    assert!(policy.contains(&format!("script-src 'sha256-{}'", SCRIPT_SHA256.trim())));
    assert!(!SCRIPT.to_lowercase().contains("</script") && !SCRIPT.contains("<!--"));
}

#[test]
fn every_chart_has_words_and_numbers_beside_it() {
    for results in [study(), cores(), clients(), matrix(4), policies()] {
        let xml = as_xml(&render(&results));
        let page = parse(&xml);
        assert!(!charts(&page).is_empty());
        for chart in charts(&page) {
            assert!(chart["label"].as_str().is_some_and(|label| label.len() > 10));
        }
        for section in named(page.root(), &["section"]) {
            if !named(section, &["figure"]).is_empty() {
                assert!(!named(section, &["table"]).is_empty(), "{}", text(section));
            }
        }
    }
    let throughput = told_in(&render(&study()), "throughput");
    for figure in ["3.17 k/s", "1.31 k/s"] {
        assert!(throughput.contains(figure), "{figure} in {throughput}");
    }
}

#[test]
fn sections_are_there_only_with_something_to_show() {
    assert_eq!(sections(&empty()), ["warnings", "settings", "machine", "memory"]);
    let swept = sections(&cores());
    assert!(swept.contains(&"sweep-0".to_owned()) && swept.contains(&"claims".to_owned()));
    assert!(!swept.contains(&"throughput".to_owned()), "the axis tells it");
    assert!(sections(&clients()).contains(&"sweep-1".to_owned()));
}

#[test]
fn memory_is_told_or_how_to_measure_it() {
    let xml = as_xml(&render(&study()));
    let page = parse(&xml);
    let told = text(by_id(&page, "memory"));
    for figure in ["DRAM", "114 ns", "GB/s", "16 cores of socket 0", "2026-03-13 18:00:00 UTC", "12 MiB to 16 MiB"] {
        assert!(told.contains(figure), "{figure} in {told}");
    }
    assert!(told_in(&render(&poor_study()), "machine").contains("plimsoll machine --probe"));
    let mut little = study();
    let speed = &mut little.memory_speed.as_mut().expect("it has figures").speed;
    (speed.curve, speed.loaded, speed.levels, speed.bandwidth) = Default::default();
    (speed.llc_seen_bytes, speed.huge_page_share) = (None, None);
    let xml = as_xml(&render(&little));
    let page = parse(&xml);
    assert!(named(by_id(&page, "memory"), &["figure", "table"]).is_empty());
}

#[test]
fn the_machine_is_told_in_a_few_lines() {
    let xml = as_xml(&render(&study()));
    let page = parse(&xml);
    let machine = by_id(&page, "machine");
    let told = text(machine);
    for fact in ["2 nodes: 126 GiB at cores 0-31", "transparent: madvise", "version 2; writable: cpu; read-only: io"] {
        assert!(told.contains(fact), "{fact} in {told}");
    }
    assert!(text(named(machine, &["details"])[0]).contains("What this host can measure and limit: 1 of 2"));
}

#[test]
fn settings_without_a_valid_run_are_marked() {
    let xml = as_xml(&render(&cores()));
    let page = parse(&xml);
    let rows = named(by_id(&page, "sweep-0"), &["tr"]);
    let invalid = rows.into_iter().filter(|row| row.attribute("class") == Some("invalid")).map(text);
    let invalid = invalid.collect::<Vec<_>>();
    assert_eq!(invalid.len(), 1, "{invalid:?}");
    assert!(invalid[0].contains("no valid run: interrupted"), "{invalid:?}");
    let mut gaps = Vec::new();
    let charts = charts(&page);
    charts.iter().for_each(|chart| collect(chart, "gaps", &mut gaps));
    let marked = gaps.iter().filter_map(|gaps| gaps.as_array()).flatten().collect::<Vec<_>>();
    assert_eq!(marked.len(), 1);
    assert_eq!((&marked[0]["at"], &marked[0]["why"]), (&Value::from(3.0), &Value::from("interrupted")));

    let mut none = cores();
    none.points.iter_mut().for_each(|point| point.valid = false);
    none.estimates.clear();
    let xml = as_xml(&render(&none));
    let page = parse(&xml);
    assert!(text(by_id(&page, "sweep-0")).contains("no valid run:"));
}

#[test]
fn what_was_achieved_stands_beside_what_was_wanted() {
    let mut results = cores();
    results.points[0].achieved =
        [("cores".to_owned(), Value::from(0.987_654)), ("nice".to_owned(), Value::from(5))].into();
    results.experiment.settings.insert("machine.nice".to_owned(), Value::from(5));
    let xml = as_xml(&render(&results));
    let page = parse(&xml);
    assert!(text(by_id(&page, "run-0")).contains("cores 0.988 of 1, nice 5 of 5"), "{}", text(by_id(&page, "run-0")));
}

/// Pages for developers to look at: written into the folder named by `PLIMSOLL_PAGES`.
#[test]
fn pages_to_look_at() {
    let Some(folder) = std::env::var_os("PLIMSOLL_PAGES") else { return };
    let shown = [
        ("study", counted()),
        ("poor", poor_study()),
        ("cores", graded()),
        ("policies", policies()),
        ("speeds", speeds()),
    ];
    for (name, results) in shown {
        let file = Path::new(&folder).join(format!("{name}.html"));
        std::fs::write(&file, render(with_records(results)))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

#[test]
fn several_documents_are_compared_where_they_measured_the_same() {
    let mut again = study();
    for estimate in &mut again.estimates {
        estimate.throughput_per_s.value *= 2.0;
    }
    let xml = as_xml(&render_all(&[study(), again, clients()]));
    let page = parse(&xml);
    let table = text(by_id(&page, "side-by-side"));
    for figure in ["3.17 k/s", "6.35 k/s", "1.31 k/s"] {
        assert!(table.contains(figure), "{figure} in {table}");
    }
    assert!(!table.contains("clients"), "only one document swept them");
    by_id(&page, "r3-sweep-0");
    assert!(
        parse(&as_xml(&render_all(&[study(), clients()])))
            .descendants()
            .all(|node| node.attribute("id") != Some("side-by-side"))
    );
}

#[test]
fn large_runs_stay_small() {
    let ten = render(&matrix(10));
    assert!(
        charts(&parse(&as_xml(&ten)))
            .iter()
            .any(|chart| chart["kind"] == "matrix" && chart["cells"].as_array().unwrap().len() == 90)
    );
    let results = thousand();
    assert!(results.points.len() > 1000);
    let html = render(&results);
    assert!(html.len() < 4 << 20, "{} bytes", html.len());
    parse(&as_xml(&html));
}
