//! House rules that no compiler knows: every file says what it is, files and functions stay short, and the map of crates in
//! `ARCHITECTURE.md` is the workspace as it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a file, tests at its end not counted.
const FILE_LINES_MAX: usize = 450;
/// Lines of a function, from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

fn root() -> PathBuf {
    // Tests begin in the folder of their crate; where that was when they were compiled does not matter.
    PathBuf::from("../..")
}

/// Every Rust file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// What is wrong with a source, by the rules above.
fn faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with("//! ") {
        faults.push("does not begin with a line of documentation (`//! …`)".to_owned());
    }
    let production = text.split("\n#[cfg(test)]").next().unwrap_or(text);
    let lines = production.lines().count();
    if lines > FILE_LINES_MAX {
        faults.push(format!("has {lines} lines, at most {FILE_LINES_MAX} are good to read: one concept per file"));
    }
    faults.extend(long_functions(text));
    faults
}

/// Functions that are too long. Formatted code ends a function at the indentation at which it began.
fn long_functions(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(5).collect();
        words.iter().position(|word| *word == "fn").filter(|at| {
            words[..*at].iter().all(|word| word.starts_with("pub") || ["const", "async", "unsafe"].contains(word))
        })
    };
    let mut faults = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if begins(line).is_none() || line.trim_end().ends_with(';') {
            continue;
        }
        if line.ends_with("{}") {
            continue;
        }
        let indentation = line.len() - line.trim_start().len();
        let end = format!("{}}}", " ".repeat(indentation));
        let length = lines[at..].iter().position(|line| *line == end).map_or(1, |length| length + 1);
        if length > FUNCTION_LINES_MAX {
            faults.push(format!("line {}: a function of {length} lines, at most {FUNCTION_LINES_MAX}", at + 1));
        }
    }
    faults
}

#[test]
fn sources_follow_the_house_rules() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    assert!(files.len() > 50, "the walk has missed the sources");
    let report: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let text = fs::read_to_string(file).expect("readable");
            let name = file.strip_prefix(root()).expect("below the root").display().to_string();
            faults(&text).into_iter().map(move |fault| format!("{name}: {fault}"))
        })
        .collect();
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

/// The rules themselves, lest they accept everything.
#[test]
fn faults_are_seen() {
    assert_eq!(faults("//! Good.\n\nfn f() {\n    g();\n}\n"), Vec::<String>::new());
    assert!(faults("fn f() {}\n")[0].contains("documentation"));
    let long = format!("//! Long.\n\nimpl A {{\n    pub fn f() {{\n{}    }}\n}}\n", "        g();\n".repeat(70));
    assert_eq!(faults(&long), ["line 4: a function of 72 lines, at most 70"]);
    let file = format!("//! Long.\n{}", "const A: u8 = 0;\n".repeat(450));
    assert!(faults(&file)[0].contains("has 451 lines"));
}

#[test]
fn the_map_of_crates_is_the_workspace() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let row = |line: &str| Some(line.strip_prefix("| `crates/")?.split_once('`')?.0.to_owned());
    let told: BTreeSet<String> = text.lines().filter_map(row).collect();
    let crates = fs::read_dir(root().join("crates")).expect("crates");
    let there: BTreeSet<String> =
        crates.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(told, there, "ARCHITECTURE.md and crates/ differ");
    for name in &there {
        let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).expect("a manifest");
        let row = text.lines().find(|line| line.starts_with(&format!("| `crates/{name}`"))).expect("compared above");
        let uses = row.rsplit('|').nth(1).expect("a last column");
        let told: BTreeSet<&str> = uses.split('`').skip(1).step_by(2).collect();
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or("").split("\n[").next().unwrap_or("");
        let there: BTreeSet<&str> =
            dependencies.lines().filter_map(|line| line.strip_prefix("plimsoll-")?.split('.').next()).collect();
        assert_eq!(told, there, "what crates/{name} uses");
    }
}
