//! Files that operators install: the dashboard and the alert rules refer to existing metrics, and the Debian package
//! has every file that it names.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use plimsoll_governor::metrics;

const DASHBOARD: &str = "../../docs/examples/grafana-dashboard.json";
const ALERTS: &str = "../../docs/examples/prometheus-alerts.yml";
const MANIFEST: &str = "../commands/Cargo.toml";

/// Functions, aggregations and words of PromQL that our expressions use.
const WORDS: &str =
    "max_over_time sum min max by on rate increase histogram_quantile and or le class instance lever up job";

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Word(String),
    Number,
    Text,
    Range(String),
    Sign(char),
}

/// Splits an expression of PromQL into pieces, or returns why it is invalid.
fn pieces(expression: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let word_end = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_');
        let length = match first {
            ' ' => 1,
            '"' => {
                let length = rest[1..].find('"').ok_or("a text does not end")? + 2;
                pieces.push(Piece::Text);
                length
            }
            '[' => {
                let length = rest.find(']').ok_or("a range does not end")? + 1;
                pieces.push(Piece::Range(rest[1..length - 1].to_owned()));
                length
            }
            '0'..='9' => {
                pieces.push(Piece::Number);
                rest.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(rest.len())
            }
            'a'..='z' | '_' => {
                let length = rest.find(word_end).unwrap_or(rest.len());
                pieces.push(Piece::Word(rest[..length].to_owned()));
                length
            }
            '(' | ')' | '{' | '}' | ',' | '=' | '~' | '!' | '<' | '>' | '+' | '-' | '*' | '/' => {
                pieces.push(Piece::Sign(first));
                1
            }
            other => return Err(format!("{other:?} is no sign of PromQL")),
        };
        rest = &rest[length..];
    }
    Ok(pieces)
}

/// The metrics that an expression refers to, if it is well formed as far as can be checked without Prometheus.
fn metrics_of(expression: &str) -> Result<Vec<String>, String> {
    let pieces = pieces(expression)?;
    let (mut open, mut asked) = (Vec::new(), Vec::new());
    for (place, piece) in pieces.iter().enumerate() {
        let next = pieces.get(place + 1);
        match piece {
            Piece::Sign(bracket @ ('(' | '{')) => open.push(*bracket),
            Piece::Sign(bracket @ (')' | '}')) => {
                let right = if *bracket == ')' { '(' } else { '{' };
                (open.pop() == Some(right)).then_some(()).ok_or(format!("{bracket:?} closes nothing"))?;
            }
            Piece::Range(range) => {
                let (number, unit) = range.split_at(range.len().saturating_sub(1));
                let is_length = number.parse::<u32>().is_ok() && ["s", "m", "h", "d"].contains(&unit);
                (is_length || range == "$__rate_interval").then_some(()).ok_or(format!("[{range}] is no length"))?;
            }
            Piece::Word(word) if word.starts_with("plimsoll_") => asked.push(word.clone()),
            Piece::Word(word) if WORDS.split(' ').any(|known| known == word) => {
                let is_function = ["rate", "increase", "max_over_time", "histogram_quantile"].contains(&word.as_str());
                (!is_function || next == Some(&Piece::Sign('('))).then_some(()).ok_or(format!("{word} without ("))?;
            }
            Piece::Word(word) => return Err(format!("{word} is no metric of ours and no word of PromQL that we use")),
            Piece::Number | Piece::Text | Piece::Sign(_) => {}
        }
        let is_rate =
            matches!(piece, Piece::Word(word) if ["rate", "increase", "max_over_time"].contains(&word.as_str()));
        if is_rate
            && !pieces[place..]
                .iter()
                .take_while(|piece| **piece != Piece::Sign(')'))
                .any(|piece| matches!(piece, Piece::Range(_)))
        {
            return Err("a rate without a range".to_owned());
        }
    }
    if !open.is_empty() { Err("a bracket is not closed".to_owned()) } else { Ok(asked) }
}

/// Every metric of `/metrics`, by the names that Prometheus stores.
fn known() -> BTreeSet<String> {
    let names = metrics::names().into_iter().map(|(name, _)| name);
    names.flat_map(|name| ["", "_bucket", "_sum", "_count"].map(|end| format!("{name}{end}"))).collect()
}

#[track_caller]
fn check(expression: &str) -> Vec<String> {
    let asked = metrics_of(expression).unwrap_or_else(|why| panic!("{why}: {expression}"));
    let known = known();
    let unknown: Vec<_> = asked.iter().filter(|name| !known.contains(*name)).collect();
    assert!(unknown.is_empty(), "{unknown:?} is not told by /metrics: {expression}");
    let without_le =
        expression.contains("histogram_quantile") && !(expression.contains("(le, ") && expression.contains("_bucket"));
    assert!(!without_le, "a quantile needs the buckets by le: {expression}");
    let counts = asked.iter().filter(|name| name.ends_with("_total")).count();
    assert!(
        counts == 0 || expression.contains("rate(") || expression.contains("increase("),
        "a counter only grows: {expression}"
    );
    asked
}

#[test]
fn expressions_that_are_none_are_found() {
    for (expression, why) in [
        ("rate(plimsoll_units_total[5m]", "not closed"),
        ("rate(plimsoll_units_total)", "without a range"),
        ("sum by (le) (rate(plimsoll_units_total[5 min]))", "no length"),
        ("plimsoll_sessions{class=\"high}", "does not end"),
        ("sun(plimsoll_sessions)", "no metric of ours"),
        ("plimsoll_sessions)", "closes nothing"),
    ] {
        let found = metrics_of(expression).expect_err(expression);
        assert!(found.contains(why), "{expression}: {found}");
    }
    assert!(!known().contains("plimsoll_transaction_seconds_total"), "it is a histogram");
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let dashboard: serde_json::Value = serde_json::from_str(&fs::read_to_string(DASHBOARD).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut asked = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "ids of panels differ");
        assert!(!panel["title"].as_str().unwrap().is_empty());
        if panel["type"] == "row" {
            continue;
        }
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            asked.extend(check(expression));
            assert!(expression.contains("$instance"), "a dashboard of several governors chooses one: {expression}");
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            let name = query.strip_prefix("label_values(").and_then(|rest| rest.split(',').next()).unwrap();
            assert!(known().contains(name), "{query}");
        }
    }
    // The metrics that an operator must see are present.
    for name in [
        "plimsoll_transaction_seconds_bucket",
        "plimsoll_lever_works",
        "plimsoll_control_up",
        "plimsoll_replays_unsafe_total",
    ] {
        assert!(asked.contains(name), "no panel shows {name}");
    }
}

#[test]
fn alert_rules_ask_for_metrics_that_there_are() {
    let text = fs::read_to_string(ALERTS).unwrap();
    let rules: Vec<&str> = text.split("\n      - alert: ").skip(1).collect();
    assert!(rules.len() >= 10 && !text.contains('\t'), "rules are indented by spaces");
    let mut names = BTreeSet::new();
    for rule in rules {
        let mut lines = rule.lines();
        let name = lines.next().unwrap();
        assert!(name.starts_with("Plimsoll") && names.insert(name), "{name}");
        let value = |key: &str| {
            rule.lines()
                .find_map(|line| line.trim_start().strip_prefix(key))
                .unwrap_or_else(|| panic!("{name}: no {key}"))
        };
        let asked = check(value("expr: "));
        assert!(!asked.is_empty() || value("expr: ").starts_with("up{"), "{name} asks for nothing of ours");
        assert!(["critical", "warning", "info"].contains(&value("severity: ")), "{name}");
        for key in ["summary: ", "description: "] {
            let words = value(key);
            assert!(words.len() > 2 && words.starts_with('"') && words.ends_with('"'), "{name}: {words}");
            assert_eq!(words.matches("{{").count(), words.matches("}}").count(), "{name}: {words}");
        }
    }
}

/// The package must build before the day of a release.
#[test]
fn the_debian_package_has_what_it_names() {
    let manifest: toml::Table = toml::from_str(&fs::read_to_string(MANIFEST).unwrap()).unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    let folder = Path::new(MANIFEST).parent().unwrap();
    let texts = |key: &str| deb[key].as_array().unwrap().clone();
    let mut installed = Vec::new();
    for asset in texts("assets") {
        let [from, to, mode] = &asset.as_array().unwrap()[..] else { panic!("{asset:?} is not: from, to, mode") };
        let [from, to, mode] = [from, to, mode].map(|part| part.as_str().unwrap());
        assert!(u32::from_str_radix(mode, 8).is_ok(), "{from} has no mode");
        if from != "target/release/plimsoll-governor" {
            let pattern = folder.join(from);
            assert!(glob::glob(pattern.to_str().unwrap()).unwrap().next().is_some(), "there is no {from}");
        }
        installed.push(to.to_owned());
    }
    for file in texts("conf-files") {
        let file = file.as_str().unwrap().trim_start_matches('/').to_owned();
        assert!(installed.contains(&file), "{file} is marked as settings and not installed");
    }
    let at = |value: &toml::Value| folder.join(value.as_str().unwrap());
    assert!(at(&deb["license-file"].as_array().unwrap()[0]).is_file());
    assert!(at(&deb["systemd-units"]["unit-scripts"]).join("plimsoll.service").is_file());
    for script in ["postinst", "postrm"] {
        let text = fs::read_to_string(at(&deb["maintainer-scripts"]).join(script)).unwrap();
        assert!(text.starts_with("#!/bin/sh\n") && text.contains("\nset -e\n"), "{script} goes on after an error");
        assert!(text.ends_with("\n#DEBHELPER#\n"), "{script} leaves out what the unit needs");
    }
    let unit = fs::read_to_string("../../docs/examples/plimsoll.service").unwrap();
    let postinst = fs::read_to_string(at(&deb["maintainer-scripts"]).join("postinst")).unwrap();
    let user = unit.lines().find_map(|line| line.strip_prefix("User=")).unwrap();
    assert!(
        postinst.lines().any(|line| line.trim_start().starts_with("adduser --system") && line.ends_with(user)),
        "{user}"
    );
}

/// The image compiles with the version that the workspace requires. Its user is a number, because Kubernetes otherwise
/// refuses to start it as a user other than root.
#[test]
fn the_container_file_has_the_compiler_and_a_user_by_number() {
    let file = fs::read_to_string("../../packaging/Containerfile").unwrap();
    let workspace: toml::Table = toml::from_str(&fs::read_to_string("../../Cargo.toml").unwrap()).unwrap();
    let version = workspace["workspace"]["package"]["rust-version"].as_str().unwrap();
    let lines: Vec<&str> = file.lines().map(str::trim).collect();
    let value = |word: &str| lines.iter().rev().find_map(|line| line.strip_prefix(word)).unwrap();
    assert!(lines.contains(&format!("FROM docker.io/library/rust:{version}-bookworm AS build").as_str()), "{version}");
    let user: u32 = value("USER ").parse().unwrap();
    assert!(lines.iter().any(|line| line.contains(&format!("useradd --system --uid {user} "))), "{user} has no name");
    // The binary that runs is the one that was built, and its settings are where the guide has them.
    assert_eq!(value("COPY --from=build /source/target/dist/plimsoll-governor "), "/usr/bin/plimsoll-governor");
    assert_eq!(value("ENTRYPOINT "), r#"["/usr/bin/plimsoll-governor", "govern"]"#);
    assert_eq!(value("CMD "), r#"["--config", "/etc/plimsoll/plimsoll.toml"]"#);
}
