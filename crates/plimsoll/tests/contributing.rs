//! The lists of CONTRIBUTING.md under "Add one more" name files that exist, and each file contains the names listed
//! after it.
//!
//! Like `tidy`, this file needs nothing but the standard library, so that `./check fast` compiles it alone.

use std::fs;
use std::path::{Path, PathBuf};

/// Places that a section may name: a file or folder of the repository, and the names that it must have.
#[derive(Debug, PartialEq, Eq)]
struct NamedPlace {
    path: String,
    names: Vec<String>,
}

fn root() -> PathBuf {
    // Tests begin in the folder of their crate; where that was when they were compiled does not matter.
    PathBuf::from("../..")
}

/// The files that a path names: one, or those with any name in place of NAME and STUDY.
fn matching(path: &str) -> Vec<PathBuf> {
    let mut found = vec![root()];
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let of = |folder: &PathBuf| -> Vec<PathBuf> {
            let Some((before, after)) = ["NAME", "STUDY"].iter().find_map(|any| part.split_once(any)) else {
                return vec![folder.join(part)];
            };
            let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("readable").path());
            let is_one = |path: &PathBuf| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(before) && name.ends_with(after) && path.is_dir() != part.contains('.')
            };
            entries.filter(is_one).collect()
        };
        found = found.iter().flat_map(of).filter(|path| path.exists()).collect();
    }
    found
}

/// The words in backticks of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_path(word: &str) -> bool {
    let is_name = |letter: char| letter.is_alphanumeric() || "-_./".contains(letter);
    let is_file = [".rs", ".md", ".toml", ".txt"].iter().any(|ending| word.ends_with(ending));
    word.chars().all(is_name) && (is_file || word.ends_with('/'))
}

/// The places of an item. A path that does not begin at the root lies beside the one before it.
fn places(item: &str) -> Vec<NamedPlace> {
    let mut places: Vec<NamedPlace> = Vec::new();
    let mut folder = String::new();
    let mut rest = item;
    while let Some(begin) = rest.find('`') {
        let Some((word, after)) = rest[begin + 1..].split_once('`') else { break };
        rest = after;
        if !is_path(word) {
            continue;
        }
        let is_from_root = word.contains('/') && matching(word.split('/').next().unwrap_or("")).len() == 1;
        let path = if is_from_root || word == "README.md" { word.to_owned() } else { format!("{folder}/{word}") };
        if path.ends_with('/') {
            folder = path.trim_end_matches('/').to_owned();
        } else if path.starts_with("crates/") {
            folder = Path::new(&path).parent().unwrap_or(Path::new("")).display().to_string();
        }
        // Names stand in parentheses right behind the path.
        let behind = after.strip_prefix(" (").and_then(|after| after.split_once(')')).map_or("", |(inner, _)| inner);
        let names = words(behind).filter(|name| !is_path(name)).map(str::to_owned).collect();
        places.push(NamedPlace { path, names });
    }
    places
}

/// The error in a place.
fn fault(place: &NamedPlace) -> Option<String> {
    let files = matching(&place.path);
    if files.is_empty() {
        return Some(format!("there is no {}", place.path));
    }
    let texts: Vec<String> = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    let lacks = |name: &&String| !texts.iter().any(|text| text.contains(&***name));
    place.names.iter().find(lacks).map(|name| format!("{} has no `{name}`", place.path))
}

/// The items of the section: the name in bold, and the text.
fn items(text: &str) -> Vec<(&str, &str)> {
    let section = text.split("\n## ").find(|section| section.starts_with("Add one more\n")).expect("a section");
    section.split("\n**").skip(1).filter_map(|item| item.split_once("**")).collect()
}

#[test]
fn what_is_to_be_touched_exists() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let items = items(&text);
    assert!(items.len() >= 10, "{items:?}");
    let mut count = 0;
    let mut report = Vec::new();
    for (name, item) in items {
        let places = places(item);
        assert!(!places.is_empty(), "{name}: no file is named");
        count += places.len();
        report.extend(places.iter().filter_map(fault).map(|fault| format!("CONTRIBUTING.md, {name} {fault}")));
    }
    assert!(count > 35, "only {count} files are named");
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

/// The reading of items itself, so that it does not accept everything.
#[test]
fn places_are_seen() {
    let item =
        " (like `this`).\n`crates/plimsoll/src/NAME.rs` (rule), `main.rs` (`mod`, `main`); `docs/locking.md` (table)";
    let place = |path: &str, names: &[&str]| NamedPlace {
        path: path.to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let expect = [
        place("crates/plimsoll/src/NAME.rs", &[]),
        place("crates/plimsoll/src/main.rs", &["mod", "main"]),
        place("docs/locking.md", &[]),
    ];
    assert_eq!(places(item), expect);
    assert_eq!(expect.iter().find_map(fault), None);
    assert!(fault(&place("crates/plimsoll/src/main.rs", &["no_such_name"])).is_some());
    assert!(fault(&place("crates/NAME/no_such_file.rs", &[])).is_some());
    assert!(matching("experiments/STUDY/NAME.toml").len() > 50);
}
