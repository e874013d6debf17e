//! The sample in `docs/study.md` matches the output of the program, and README.md has a part of it.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::run_directory::read_results;

const GUIDE: &str = "../../docs/study.md";
const README: &str = "../../README.md";

/// The guide before the sample, the sample, and the rest.
fn parts(text: &str) -> [&str; 3] {
    let heading = text.find("## What you see").expect("the section is there");
    let begin = heading + text[heading..].find("```\n").expect("a sample follows") + 4;
    let end = begin + text[begin..].find("```\n").expect("which ends");
    [&text[..begin], &text[begin..end], &text[end..]]
}

/// The label of a line: its indent and its words up to the first figure; empty for sentences and the names of
/// workloads.
fn label(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let words =
        line.split_whitespace().take_while(|word| !word.starts_with(|c: char| c.is_ascii_digit() || "–(±".contains(c)));
    let words: Vec<&str> = words.filter(|word| !["alone", "together"].contains(word)).collect();
    let is_told = !words.is_empty() && !words[0].starts_with('-');
    let known = ["throughput", "/", "latency", "all", "time", "counters", "What"];
    if is_told && known.contains(&words[0]) { format!("{indent} {}", words.join(" ")) } else { String::new() }
}

fn labels(text: &str) -> BTreeSet<String> {
    // The words of the line that a study draws depend on the results.
    let figures = text.split("\nThe line: ").next().unwrap_or_default();
    let labels = figures.lines().map(label).filter(|label| !label.is_empty());
    // Why there are no counters depends on the machine.
    labels.map(|label| if label.contains("counters") { "counters".to_owned() } else { label }).collect()
}

/// With `PLIMSOLL_STUDY=DIR` the sample is written again from a study's folder; the path is relative to `crates/lab`.
#[test]
fn the_sample_in_the_guide_has_the_lines_that_the_program_prints() {
    let mut text = std::fs::read_to_string(GUIDE).expect("the guide is there");
    if let Some(folder) = std::env::var_os("PLIMSOLL_STUDY") {
        let results = read_results(Path::new(&folder)).unwrap_or_else(|error| panic!("{error}"));
        let printed = render(&results, &[]);
        let sample = printed.split("\n\nWarnings\n").next().expect("there is something before").trim_end();
        let [before, _, after] = parts(&text);
        text = format!("{before}{sample}\n{after}");
        std::fs::write(GUIDE, &text).expect("writable");
    }
    let [_, sample, _] = parts(&text);
    assert!(sample.lines().all(|line| line.chars().count() <= WIDTH), "{sample}");
    let mut study = study();
    study.points.iter_mut().flat_map(|point| &mut point.workloads).for_each(|workload| workload.classes.clear());
    let printed = labels(&render(&study, &[]));
    assert_eq!(labels(sample), printed, "run PLIMSOLL_STUDY=DIR cargo test -p plimsoll-lab readme");
    let words: Vec<&str> = sample.split_whitespace().collect();
    assert!(words.join(" ").contains("± and ranges are 95 % intervals"));
    assert!(sample.contains("\nThe line: "), "a study draws its line");
}

/// The answer at the beginning of README.md is of the same study.
#[test]
fn the_readme_has_lines_of_the_sample() {
    let [guide, readme] = [GUIDE, README].map(|page| std::fs::read_to_string(page).expect("a page"));
    let [_, sample, _] = parts(&guide);
    let answer = readme.split("```\n").nth(1).expect("an answer");
    assert!(answer.lines().count() >= 3, "{answer}");
    let lacking: Vec<&str> = answer.lines().filter(|line| !sample.lines().any(|other| other == *line)).collect();
    assert!(lacking.is_empty(), "README.md has lines that {GUIDE} has not: {lacking:#?}");
}
