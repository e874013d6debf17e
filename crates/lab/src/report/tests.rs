//! The page as a parser, a reader and an attacker see it.

use scraper::{Html, Selector};
use serde_json::json;

use super::fixture::{poor_study, study};
use super::*;

fn select(page: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).expect("the test writes valid selectors");
    page.select(&selector).map(|element| element.text().collect::<String>()).collect()
}

/// What a reader can see, labels and tooltips of charts included, scripts and styles not.
fn visible(page: &Html) -> String {
    let body = Selector::parse("header, nav, main, footer").expect("valid");
    page.select(&body).flat_map(|element| element.text()).collect::<Vec<_>>().join(" ")
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
fn the_page_parses_without_a_complaint() {
    for results in studies() {
        let page = Html::parse_document(&render(&results));
        assert!(page.errors.is_empty(), "{:?}", page.errors);
        assert_eq!(select(&page, "h1").len(), 1);
        assert_eq!(select(&page, "section h2").len(), select(&page, "section").len(), "every section has a heading");
    }
    let broken = Html::parse_document("<!DOCTYPE html><title>x</title><p><b>x</p></div>");
    assert!(!broken.errors.is_empty(), "the parser does complain");
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    for results in studies() {
        let html = render(&results);
        let page = Html::parse_document(&html);
        let loads = Selector::parse("[src], link, img, iframe, object, use, image, base").expect("valid");
        assert_eq!(page.select(&loads).count(), 0);
        let links = Selector::parse("[href]").expect("valid");
        for link in page.select(&links) {
            let target = link.value().attr("href").expect("selected by it");
            let id = target.strip_prefix('#').unwrap_or_else(|| panic!("{target} leaves the page"));
            assert!(html.contains(&format!("id=\"{id}\"")), "{target} leads nowhere");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}

#[test]
fn no_word_of_a_program_is_visible() {
    for results in studies() {
        let text = visible(&Html::parse_document(&render(&results)));
        let words = text.split(|c: char| !c.is_alphanumeric());
        let leaked =
            words.filter(|word| ["NaN", "inf", "null", "None", "Some", "undefined"].contains(word)).collect::<Vec<_>>();
        assert!(leaked.is_empty(), "{leaked:?}");
    }
}

#[test]
fn coordinates_are_numbers() {
    for results in studies() {
        let page = Html::parse_document(&render(&results));
        let shapes = Selector::parse("svg *").expect("valid");
        for shape in page.select(&shapes) {
            for name in ["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height"] {
                let Some(value) = shape.value().attr(name) else { continue };
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
        let page = Html::parse_document(&render(&results));
        let text = visible(&page);
        for sentence in results.warnings.iter().chain(&results.advice) {
            assert!(text.contains(sentence.as_str()), "{sentence}");
        }
        for (name, setting) in &results.experiment.settings {
            assert!(text.contains(name.as_str()), "{name}");
            assert!(text.contains(&crate::units::value(setting)), "{name} {setting}");
        }
        let rows = results.points.iter().map(|point| point.workloads.len()).sum::<usize>();
        assert_eq!(select(&page, "#points tbody tr").len(), rows);
        for point in &results.points {
            assert!(point.why_invalid.as_ref().is_none_or(|why| text.contains(why.as_str())));
        }
    }
}

#[test]
fn hostile_text_stays_text() {
    let html = render(&poor_study());
    let page = Html::parse_document(&html);
    assert_eq!(select(&page, "script").len(), 1, "only the data");
    assert!(visible(&page).contains("re</script><b>ports</b> & \"co\" 'x'"));
    assert!(select(&page, "b").iter().all(|bold| bold != "ports" && bold != "schedstat"));
    assert_eq!(html.matches("</script").count(), 1);
}

#[test]
fn the_data_inside_is_the_data() {
    for results in studies() {
        let page = Html::parse_document(&render(&results));
        let data = select(&page, "script#results").concat();
        let expect = serde_json::to_string(&results).expect("results are JSON");
        assert!(data.replace("\\u003c", "<") == expect, "character by character, escapes aside");
        let back = serde_json::from_str::<Results>(&data).expect("it reads back as results");
        assert_eq!(back.experiment.settings, results.experiment.settings, "escapes included");
    }
}

#[test]
fn every_chart_has_words_and_a_table() {
    let page = Html::parse_document(&render(&study()));
    let charts = Selector::parse("svg").expect("valid");
    assert_eq!(page.select(&charts).count(), 6, "three charts of two workloads");
    for chart in page.select(&charts) {
        assert_eq!(chart.value().attr("role"), Some("img"));
        assert!(chart.value().attr("aria-label").is_some_and(|label| label.contains("together")));
    }
    for id in ["throughput", "latency", "time-share"] {
        assert!(!select(&page, &format!("#{id} table")).is_empty(), "{id}");
    }
    let throughput = select(&page, "#throughput svg").concat();
    for figure in ["3.17 k/s", "1.31 k/s", "0.41 of alone", "noise ± 1.7 %"] {
        assert!(throughput.contains(figure), "{figure}");
    }
}
