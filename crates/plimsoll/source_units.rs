//! Hashes of the sources that the program is built from, one for each module at the top of a crate: `engine/lock`.
//!
//! They are taken when the program is built, since the code that measures is that of the program, wherever its sources
//! are by then. Comments, white space and tests do not count, so that only a change of what runs changes a hash.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use fnv::FnvHasher;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The units below a folder of crates, with their hashes; empty if the sources are not there.
pub fn units(crates: &Path) -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, Vec<SourceFile>> = BTreeMap::new();
    for folder in entries(crates) {
        let source = folder.join("src");
        for path in source_files(&source) {
            let inside = path.strip_prefix(&source).unwrap_or(&path);
            let module = inside.iter().next().map(|part| Path::new(part).with_extension("")).unwrap_or_default();
            let unit = format!("{}/{}", name(&folder), module.display());
            files.entry(unit).or_default().push(SourceFile::read(path));
        }
    }
    let tests: BTreeSet<PathBuf> = files.values().flatten().flat_map(|file| file.test_modules.clone()).collect();
    let is_test = |file: &SourceFile| file.path.ancestors().any(|path| tests.contains(&path.with_extension("")));
    let mut all = BTreeMap::new();
    for (unit, mut files) in files {
        files.retain(|file| !is_test(file));
        files.sort_by(|one, other| one.path.cmp(&other.path));
        if !files.is_empty() {
            all.insert(unit, hash_of(&files));
        }
    }
    all
}

/// A file of a crate.
struct SourceFile {
    path: PathBuf,
    /// What the compiler reads of it; its text, if it is no source.
    tokens: Vec<String>,
    /// The modules that it declares for tests only, as paths without their ending.
    test_modules: Vec<PathBuf>,
}

impl SourceFile {
    fn read(path: PathBuf) -> Self {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
        if path.extension().is_none_or(|ending| ending != "rs") {
            return SourceFile { path, tokens: vec![text], test_modules: Vec::new() };
        }
        let tokens = tokens(&text);
        let test_modules = test_modules(&path, &tokens);
        SourceFile { path, tokens: without_tests(tokens), test_modules }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Every file of a crate that becomes part of the program: no tests, their snapshots, or documents.
fn source_files(folder: &Path) -> Vec<PathBuf> {
    let is_left_out = |path: &Path| {
        let name = name(path);
        ["tests", "tests.rs", "snapshots"].contains(&name.as_str()) || name.ends_with(".md") || name.ends_with(".snap")
    };
    let kept = entries(folder).into_iter().filter(|path| !is_left_out(path));
    kept.flat_map(|path| if path.is_dir() { source_files(&path) } else { vec![path] }).collect()
}

/// The modules that a file declares for tests only.
fn test_modules(file: &Path, tokens: &[String]) -> Vec<PathBuf> {
    let folder = match name(file).as_str() {
        "lib.rs" | "main.rs" | "mod.rs" => file.parent().unwrap_or(file).to_owned(),
        _ => file.with_extension(""),
    };
    let declared = test_items(tokens).into_iter().filter_map(|(begin, end)| {
        let item = &tokens[begin..end];
        let at = item.iter().position(|token| token == "mod")?;
        item.last().filter(|last| *last == ";").and(item.get(at + 1))
    });
    declared.map(|module| folder.join(module)).collect()
}

/// A hash of files by what the compiler reads of them.
fn hash_of(files: &[SourceFile]) -> String {
    let mut hash = FnvHasher::default();
    for file in files {
        for text in std::iter::once(&name(&file.path)).chain(&file.tokens) {
            hash.write(text.as_bytes());
            hash.write_u8(0);
        }
    }
    let hash = hash.finish();
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

/// The tokens of a source that are no test.
#[cfg(test)]
pub fn code(text: &str) -> Vec<String> {
    without_tests(tokens(text))
}

fn without_tests(mut tokens: Vec<String>) -> Vec<String> {
    for (begin, end) in test_items(&tokens).into_iter().rev() {
        tokens.drain(begin..end);
    }
    tokens
}

/// The items under `#[cfg(test)]`, from the attribute to their end.
fn test_items(tokens: &[String]) -> Vec<(usize, usize)> {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut items, mut at) = (Vec::new(), 0);
    while at + ATTRIBUTE.len() <= tokens.len() {
        if tokens[at..at + ATTRIBUTE.len()].iter().eq(ATTRIBUTE.iter()) {
            let end = item_end(tokens, at + ATTRIBUTE.len());
            items.push((at, end));
            at = end;
        } else {
            at += 1;
        }
    }
    items
}

/// Where an item ends: behind its `;` or its block, whichever comes first outside of brackets.
fn item_end(tokens: &[String], begin: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(begin) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    let is_statement = tokens.get(at + 1).is_some_and(|next| next == ";");
                    return at + 1 + usize::from(is_statement);
                }
            }
            ";" | "," if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The tokens of a source as the compiler reads them, without documentation. A text that is no source is one token.
fn tokens(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    match text.parse() {
        Ok(stream) => flatten(stream, &mut all),
        Err(_) => all.push(text.to_owned()),
    }
    all
}

fn flatten(stream: TokenStream, all: &mut Vec<String>) {
    for tree in stream {
        let TokenTree::Group(group) = tree else {
            all.push(tree.to_string());
            continue;
        };
        if is_documentation(&group.stream()) {
            // Its sign stands before it: `#`, or `#!`.
            let signs = all.iter().rev().take_while(|token| ["#", "!"].contains(&token.as_str())).count();
            all.truncate(all.len() - signs);
            continue;
        }
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::None => ("", ""),
        };
        all.push(open.to_owned());
        flatten(group.stream(), all);
        all.push(close.to_owned());
    }
}

/// Whether an attribute is a comment for readers: `doc = "…"`.
fn is_documentation(attribute: &TokenStream) -> bool {
    let mut first = attribute.clone().into_iter().take(2).map(|token| token.to_string());
    first.next().as_deref() == Some("doc") && first.next().as_deref() == Some("=")
}
