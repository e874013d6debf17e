//! Tables of the governor's guides that are generated from the code. `PLIMSOLL_BLESS=1` rewrites them.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use plimsoll_governor::admin::command::COMMANDS;
use plimsoll_governor::metrics;
use plimsoll_governor::registry::Immunity;
use plimsoll_governor::settings::section;
use plimsoll_pg::connection::SUPPORTED;
use plimsoll_policy::NoReplay;

const GUIDE: &str = "../../docs/governor.md";
const SETTINGS: &str = "../../docs/governor-settings.md";
const CONSOLE: &str = "../../docs/governor-console.md";
const SAFETY: &str = "../../docs/governor-safety.md";
/// Rows of that document without a test; the number may only decrease.
const WITHOUT_A_TEST: usize = 0;

fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(heads.len()));
    let rows: String = rows.into_iter().map(|cells| line(&cells)).collect();
    line(&heads) + &rule + &rows
}

/// Replaces the text between two marks.
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
    let keys =
        section::keys().into_iter().map(|(key, about, change)| vec![code(&key), cell(&about), change.to_owned()]);
    let console = fs::read_to_string(CONSOLE).unwrap();
    let console = with_block(&console, "commands", &table(&["command", "what it does", "who"], commands));
    let console = with_block(&console, "metrics", &table(&["metric", "what it is"], names));
    plimsoll_testing::check_made(CONSOLE, &console);
    let settings = fs::read_to_string(SETTINGS).unwrap();
    plimsoll_testing::check_made(
        SETTINGS,
        &with_block(&settings, "keys", &table(&["key", "what it is", "changes by"], keys)),
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
    assert_eq!(config.warnings.len(), 2, "it tracks, and the console has no users: {:?}", config.warnings);
}

#[test]
fn the_unit_runs_what_there_is() {
    let unit = fs::read_to_string("../../docs/examples/plimsoll.service").unwrap();
    for line in [
        "Type=notify",
        "ExecReload=/bin/sh -c 'kill -HUP $MAINPID'",
        "ExecStart=plimsoll-governor govern --config /etc/plimsoll/plimsoll.toml",
        "AmbientCapabilities=CAP_SYS_NICE",
    ] {
        assert!(unit.lines().any(|other| other == line), "{line}");
    }
}

/// The rows of all tables below a heading: the cells of each.
fn rows<'t>(text: &'t str, heading: &str) -> Vec<Vec<&'t str>> {
    let section = text.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("no section {heading}"));
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.skip(1).map(|row| row.split(" | ").collect()).collect()
}

/// Whether a crate has a function, that is, a test, of the given name.
fn has_function(folder: &Path, name: &str) -> bool {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() {
            return has_function(&path, name);
        }
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        is_source && fs::read_to_string(&path).unwrap().contains(&format!("fn {name}("))
    })
}

/// Three tables list what the governor may do to a transaction. An operator reads a word in `SHOW PREEMPTIONS` and
/// looks it up there: each word in the code has a row, each row a word in the code, and each promise a test.
#[test]
fn every_reason_has_a_row_and_every_row_a_test() {
    let text = fs::read_to_string(SAFETY).unwrap();
    let words = |heading: &str| rows(&text, heading).iter().map(|row| row[0].to_owned()).collect::<BTreeSet<_>>();
    let reasons: BTreeSet<String> = NoReplay::all().map(|reason| reason.name().to_owned()).collect();
    let missing: Vec<_> = reasons.difference(&words("Rolled back, and not replayed")).cloned().collect();
    assert!(missing.is_empty(), "reasons without a row: {missing:?}");
    let immunities: BTreeSet<String> = Immunity::ALL.iter().map(|immunity| immunity.name().to_owned()).collect();
    let missing: Vec<_> = immunities.difference(&words("Never rolled back")).cloned().collect();
    assert!(missing.is_empty(), "immunities without a row: {missing:?}");

    let mut without = Vec::new();
    let headings = [
        "Replayed",
        "Known before the rollback",
        "Aborted by the server",
        "Rolled back, and not replayed",
        "Never rolled back",
        "What operators must know",
    ];
    for heading in headings {
        for row in rows(&text, heading) {
            let [what, _, tests] = row[..] else { panic!("{row:?} has not three cells") };
            if tests == "none" {
                without.push(what.to_owned());
                continue;
            }
            for test in tests.split(", ") {
                let path = test.strip_prefix('`').and_then(|test| test.strip_suffix('`'));
                let (name, path) =
                    path.and_then(|path| path.split_once(' ')).unwrap_or_else(|| panic!("{what}: {test}"));
                let function = path.rsplit("::").next().unwrap();
                let folder = Path::new("..").join(name);
                assert!(has_function(&folder, function), "{what}: there is no test {function} in crate {name}");
            }
        }
    }
    assert_eq!(without.len(), WITHOUT_A_TEST, "rows without a test, of which there is another number now: {without:?}");
}

/// Rows of the first sections of the safety document without a generator of attacks; the number may only decrease.
const WITHOUT_A_GENERATOR: usize = 4;

/// Each situation in which a transaction may be rolled back, or must not be, is attacked by a generator, and not only by
/// the scripts that somebody has thought of.
#[test]
fn every_row_is_attacked_by_a_generator() {
    const HEADINGS: [&str; 3] = ["Replayed", "Rolled back, and not replayed", "Never rolled back"];
    let (text, attacks) = (fs::read_to_string(SAFETY).unwrap(), fs::read_to_string("tests/model/attacks.md").unwrap());
    let attacks = format!("\n## {attacks}");
    let listed = rows(&attacks, "# Attacks");
    let written = fs::read_to_string("tests/model/generate/attacks.rs").unwrap();
    for row in &listed {
        let [section, what, generator] = row[..] else { panic!("{row:?} has not three cells") };
        let is_known = generator == "none" || written.contains(&format!("attack(\"{generator}\""));
        assert!(is_known, "attacks.md names the generator {generator}, which attacks.rs does not have");
        let is_row = rows(&text, section).iter().any(|row| row[0] == what);
        assert!(is_row, "attacks.md names the row {what} of {section}, which the safety document does not have");
    }
    for name in written.split("attack(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(listed.iter().any(|row| row[2] == name), "attacks.md does not name the generator {name}");
    }
    for section in HEADINGS {
        for row in rows(&text, section) {
            let is_listed = listed.iter().any(|listed| listed[0] == section && listed[1] == row[0]);
            assert!(is_listed, "attacks.md has no line for the row {} of {section}", row[0]);
        }
    }
    let without: Vec<_> = listed.iter().filter(|row| row[2] == "none").map(|row| row[1]).collect();
    assert_eq!(without.len(), WITHOUT_A_GENERATOR, "another number of rows without a generator: {without:?}");
}

/// The list of pgbouncer's tests names our corresponding tests, each of which exists.
#[test]
fn the_list_of_pgbouncers_tests_names_tests_that_there_are() {
    let text = fs::read_to_string("tests/pgbouncer.md").unwrap();
    let (groups, _) = text.split_once(CASE_BY_CASE).unwrap();
    let mut named = 0;
    for line in groups.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [cases, what, ours] = cells[..] else { panic!("{line}: not three cells") };
        assert!(!cases.is_empty() && !what.is_empty() && !ours.is_empty(), "{line}");
        for path in ours.split('`').skip(1).step_by(2) {
            let Some((_, function)) = path.rsplit_once("::") else { continue };
            assert!(has_function(Path::new(".."), function), "{line}: there is no test {function}");
            named += 1;
        }
    }
    assert!(named > 40, "{named} tests are named");
}

/// The heading of the table of all of pgbouncer's cases, and how many each of its files has.
const CASE_BY_CASE: &str = "## Case by case, through a pool";
const CASES: [(&str, usize); 16] = [
    ("test_admin", 16),
    ("test_auth", 39),
    ("test_cancel", 4),
    ("test_copy", 14),
    ("test_limits", 25),
    ("test_load_balance_hosts", 3),
    ("test_misc", 30),
    ("test_no_database", 9),
    ("test_no_user", 9),
    ("test_operations", 8),
    ("test_peering", 4),
    ("test_prepared", 26),
    ("test_replication", 11),
    ("test_ssl", 22),
    ("test_ssl_eof", 1),
    ("test_timeouts", 28),
];

/// Each of pgbouncer's cases is in the list once, with a verdict, and what passes is asked by a test that exists.
#[test]
fn each_of_pgbouncers_cases_has_a_verdict() {
    let text = fs::read_to_string("tests/pgbouncer.md").unwrap();
    let (_, cases) = text.split_once(CASE_BY_CASE).unwrap();
    let mut listed = BTreeMap::<&str, BTreeSet<&str>>::new();
    for line in cases.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [file, cases, verdict, why] = cells[..] else { panic!("{line}: not four cells") };
        assert!(["passes", "differs", "not run", "n/a"].contains(&verdict) && !why.is_empty(), "{line}");
        for case in cases.split(", ") {
            assert!(listed.entry(file.trim_matches('`')).or_default().insert(case), "{file} has {case} twice");
        }
        let words = why.split('`').skip(1).step_by(2);
        let tests: Vec<&str> = words.filter_map(|word| Some(word.rsplit_once("::")?.1)).collect();
        for function in &tests {
            assert!(has_function(Path::new(".."), function), "{line}: there is no test {function}");
        }
        assert!(verdict != "passes" || !tests.is_empty(), "{line}: no test asks it");
    }
    let counts: Vec<_> = listed.iter().map(|(file, cases)| (*file, cases.len())).collect();
    assert_eq!(counts, CASES);
}

/// A new version needs one edit in the sources; what is written elsewhere must follow it.
#[test]
fn the_supported_versions_are_said_in_one_place() {
    let (first, last) = (*SUPPORTED.start(), *SUPPORTED.end());
    let mut files = vec![Path::new("../../README.md").to_owned(), Path::new("../../ARCHITECTURE.md").to_owned()];
    let mut folders = vec![Path::new("../../docs").to_owned(), Path::new("..").to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("notes") {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md" || kind == "rs") {
                files.push(path);
            }
        }
    }
    let (mut told, own) = (0, format!("{first}..={last}"));
    for path in &files {
        let text = fs::read_to_string(path).unwrap();
        for before in ["PostgreSQL ", "server (", "versions ", "postgresql` ("] {
            for after in text.split(&format!("{before}{first} to ")).skip(1) {
                assert!(after.starts_with(&last.to_string()), "{}: {before}{first} to …", path.display());
                told += 1;
            }
        }
        let is_own = path.ends_with("pg/src/connection/start.rs") || path.ends_with("governor/tests/documentation.rs");
        assert!(is_own || !text.contains(&own), "{} has {own}; use SUPPORTED", path.display());
    }
    let versions = fs::read_to_string("tests/traffic/versions.rs").unwrap();
    let fetched = fs::read_to_string("../../tools/postgresql-versions").unwrap();
    for major in SUPPORTED {
        assert!(versions.contains(&format!("fn postgresql_{major}()")), "no test of version {major}");
        assert!(fetched.contains(&format!("\"{major}.")), "version {major} is not fetched");
    }
    assert!(told > 3, "{told} places");
}

/// Other documents and the console send readers to the safety document by name.
#[test]
fn the_guide_names_the_safety_document() {
    assert!(fs::read_to_string(GUIDE).unwrap().contains("(governor-safety.md)"));
}
