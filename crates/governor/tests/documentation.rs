//! Tables of `docs/governor.md` that come from the code. Written anew with `PLIMSOLL_BLESS=1`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::env;
use std::fs;

use plimsoll_governor::admin::command::COMMANDS;
use plimsoll_governor::config::schema;
use plimsoll_governor::metrics;

const GUIDE: &str = "../../docs/governor.md";

fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(heads.len()));
    let rows: String = rows.into_iter().map(|cells| line(&cells)).collect();
    line(&heads) + &rule + &rows
}

/// The text between two marks replaced.
fn with_block(text: &str, name: &str, block: &str) -> String {
    let mark = format!("<!-- {name} -->\n");
    let start = text.find(&mark).unwrap_or_else(|| panic!("no mark {name}")) + mark.len();
    let end = start + text[start..].find("<!-- end -->").unwrap_or_else(|| panic!("{name} has no end"));
    format!("{}{block}{}", &text[..start], &text[end..])
}

#[test]
fn tables_are_those_of_the_code() {
    // A bar would end the cell.
    let cell = |text: &str| text.replace('|', "\\|");
    let code = |text: &str| format!("`{}`", cell(text));
    let commands = COMMANDS.iter().map(|command| {
        let who = if command.changes { "users that may change" } else { "every user" };
        vec![code(&command.syntax()), cell(command.about), who.to_owned()]
    });
    let names = metrics::names().into_iter().map(|(name, about)| vec![code(&name), cell(about)]);
    let keys = schema::keys().into_iter().map(|(key, about)| vec![code(&key), cell(&about)]);
    let text = fs::read_to_string(GUIDE).unwrap();
    let right = with_block(&text, "commands", &table(&["command", "what it does", "who"], commands));
    let right = with_block(&right, "metrics", &table(&["metric", "what it is"], names));
    let right = with_block(&right, "keys", &table(&["key", "what it is"], keys));
    if env::var_os("PLIMSOLL_BLESS").is_some() {
        fs::write(GUIDE, &right).unwrap();
    }
    assert!(
        fs::read_to_string(GUIDE).unwrap() == right,
        "tables in docs/governor.md are out of date; write them anew with\n  PLIMSOLL_BLESS=1 cargo test --release -p plimsoll-governor --test documentation"
    );
}

#[test]
fn the_smallest_settings_of_the_guide_are_right() {
    let text = fs::read_to_string(GUIDE).unwrap();
    let block = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plimsoll.toml");
    fs::write(&file, block.lines().map(str::trim_start).collect::<Vec<_>>().join("\n")).unwrap();
    let config = plimsoll_governor::config::read(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.warnings.len(), 1, "the console has no users there: {:?}", config.warnings);
}

#[test]
fn the_unit_runs_what_there_is() {
    let unit = fs::read_to_string("../../docs/examples/plimsoll.service").unwrap();
    for line in [
        "Type=notify-reload",
        "ExecStart=/usr/local/bin/plimsoll govern --config /etc/plimsoll/plimsoll.toml",
        "AmbientCapabilities=CAP_SYS_NICE",
    ] {
        assert!(unit.lines().any(|other| other == line), "{line}");
    }
}
