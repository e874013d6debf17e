//! The page as a parser, a reader and an attacker see it.

use roxmltree::{Document, Node};
use serde_json::json;

use super::fixture::{poor_study, study};
use super::*;

/// The page as XML, which is stricter than HTML: every tag must close in order, every attribute be quoted, every
/// `&` and `<` be escaped. Only the declaration and the `meta` elements, which HTML forbids to close, are not XML.
fn as_xml(html: &str) -> String {
    let body = html.strip_prefix("<!DOCTYPE html>").expect("the page declares itself");
    let mut parts = body.split("<meta ");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |page, part| page + "<meta " + &part.replacen('>', "/>", 1))
}

fn parse(xml: &str) -> Document<'_> {
    Document::parse(xml).unwrap_or_else(|error| panic!("{error}"))
}

/// All elements of these names below `node`.
fn named<'a, 'i>(node: Node<'a, 'i>, names: &[&str]) -> Vec<Node<'a, 'i>> {
    node.descendants().filter(|node| names.contains(&node.tag_name().name())).collect()
}

/// The element with this id.
fn by_id<'a, 'i>(page: &'a Document<'i>, id: &str) -> Node<'a, 'i> {
    page.descendants().find(|node| node.attribute("id") == Some(id)).unwrap_or_else(|| panic!("no {id}"))
}

fn text(node: Node) -> String {
    node.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect::<Vec<_>>().join(" ")
}

/// What a reader can see, labels and tooltips of charts included, scripts and styles not.
fn visible(page: &Document) -> String {
    named(page.root(), &["header", "nav", "main", "footer"]).into_iter().map(text).collect::<Vec<_>>().join(" ")
}

fn studies() -> [Results; 4] {
    let mut empty = study();
    empty.points.clear();
    empty.advice.clear();
    empty.interference.clear();
    let mut swept = study();
    swept.points[1].setting.insert("cores".to_string(), json!(4));
    [study(), poor_study(), empty, swept]
}

#[test]
fn the_page_is_well_formed() {
    for results in studies() {
        let xml = as_xml(&render(&results));
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
        for row in named(page.root(), &["tr"]) {
            assert!(row.children().all(|cell| ["th", "td"].contains(&cell.tag_name().name())));
        }
    }
    assert!(Document::parse("<p><b>x</p></b>").is_err(), "the parser does complain");
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    const LOADERS: [&str; 8] = ["link", "img", "iframe", "object", "use", "image", "base", "embed"];
    for results in studies() {
        let xml = as_xml(&render(&results));
        let page = parse(&xml);
        assert!(named(page.root(), &LOADERS).is_empty());
        assert!(page.descendants().all(|node| !node.has_attribute("src") && !node.has_attribute("style")));
        for target in page.descendants().filter_map(|node| node.attribute("href")) {
            by_id(&page, target.strip_prefix('#').unwrap_or_else(|| panic!("{target} leaves the page")));
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}

#[test]
fn no_word_of_a_program_is_visible() {
    for results in studies() {
        let xml = as_xml(&render(&results));
        let text = visible(&parse(&xml));
        let words = text.split(|c: char| !c.is_alphanumeric());
        let leaks = ["NaN", "inf", "null", "None", "Some", "undefined"];
        let leaked = words.filter(|word| leaks.contains(word)).collect::<Vec<_>>();
        assert!(leaked.is_empty(), "{leaked:?}");
    }
}

#[test]
fn coordinates_are_numbers_on_the_chart() {
    for results in studies() {
        let xml = as_xml(&render(&results));
        let page = parse(&xml);
        for shape in named(page.root(), &["svg"]).into_iter().flat_map(|svg| svg.descendants()) {
            for name in ["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height"] {
                let Some(value) = shape.attribute(name) else { continue };
                let number = value.parse::<f64>().unwrap_or_else(|_| panic!("{name}={value}"));
                assert!((-5.0..=365.0).contains(&number), "{name}={value} is off the chart");
                assert!(!["width", "height"].contains(&name) || number >= 0.0, "{name}={value}");
            }
        }
    }
}

#[test]
fn everything_that_was_written_down_is_told() {
    for results in studies() {
        let xml = as_xml(&render(&results));
        let page = parse(&xml);
        let text = visible(&page);
        for sentence in results.warnings.iter().chain(&results.advice) {
            assert!(text.contains(sentence.as_str()), "{sentence}");
        }
        for (name, setting) in &results.experiment.settings {
            assert!(text.contains(name.as_str()), "{name}");
            assert!(text.contains(&crate::units::value(setting)), "{name} {setting}");
        }
        let rows = results.points.iter().map(|point| point.workloads.len()).sum::<usize>();
        let bodies = named(by_id(&page, "points"), &["tbody"]);
        assert_eq!(bodies.into_iter().map(|body| named(body, &["tr"]).len()).sum::<usize>(), rows);
        for point in &results.points {
            assert!(point.why_invalid.as_ref().is_none_or(|why| text.contains(why.as_str())));
        }
    }
}

#[test]
fn hostile_text_stays_text() {
    let html = render(&poor_study());
    assert_eq!(html.matches("<script").count(), 1, "only the data");
    assert_eq!(html.matches("</script").count(), 1);
    let xml = as_xml(&html);
    let page = parse(&xml);
    assert!(visible(&page).contains("re</script><b>ports</b> & \"co\" 'x'"));
    assert!(named(page.root(), &["b"]).into_iter().all(|bold| !["ports", "schedstat"].contains(&text(bold).as_str())));
}

#[test]
fn the_data_inside_is_the_data() {
    for results in studies() {
        let xml = as_xml(&render(&results));
        let data = text(by_id(&parse(&xml), "results"));
        let expect = serde_json::to_string(&results).expect("results are JSON");
        let unescaped = data.replace("\\u003c", "<").replace("\\u0026", "&");
        assert!(unescaped == expect, "character by character, escapes aside");
        let back = serde_json::from_str::<Results>(&data).expect("it reads back as results");
        assert_eq!(back.experiment.settings, results.experiment.settings, "escapes included");
    }
}

#[test]
fn every_chart_has_words_and_a_table() {
    let xml = as_xml(&render(&study()));
    let page = parse(&xml);
    let charts = named(page.root(), &["svg"]);
    assert_eq!(charts.len(), 6, "three charts of two workloads");
    for chart in charts {
        assert_eq!(chart.attribute("role"), Some("img"));
        assert!(chart.attribute("aria-label").is_some_and(|label| label.contains("together")));
    }
    for id in ["throughput", "latency", "time-share"] {
        assert!(!named(by_id(&page, id), &["table"]).is_empty(), "{id}");
    }
    let throughput = text(by_id(&page, "throughput"));
    for figure in ["3.17 k/s", "1.31 k/s", "0.41 of alone", "noise ± 1.7 %"] {
        assert!(throughput.contains(figure), "{figure}");
    }
}
