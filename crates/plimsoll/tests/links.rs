//! Every link of the repository's Markdown leads to a file and a heading that exist, sources name only pages that exist,
//! the book has every page, and guides have short lines and sentences.
//!
//! Like `tidy`, this file needs nothing but the standard library, so that `./check fast` compiles it alone. `tools/book`
//! checks the links of the book itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Characters of a line of a guide; rows of tables may be longer.
const LINE_CHARACTERS_MAX: usize = 120;
/// Words of a sentence of a guide; code in a line counts as one.
const SENTENCE_WORDS_MAX: usize = 30;

fn root() -> PathBuf {
    // Tests begin in the folder of their crate; where that was when they were compiled does not matter.
    PathBuf::from("../..")
}

/// Every file below a folder of the repository whose name ends like this, with its path from the root.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder of the repository");
    let mut found = Vec::new();
    for entry in entries.map(|entry| entry.expect("readable")) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let is_made = ["target", "node_modules", "runs"].contains(&name.as_str()) || name.starts_with('.');
        if entry.path().is_dir() && !is_made {
            found.extend(files(&path, ending));
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of a page with their numbers, without its examples.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_example = false;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_example ^= is_fence;
        !is_example && !is_fence
    })
}

/// A line with its code replaced, in which brackets are no links.
fn without_code(line: &str) -> String {
    line.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "code" }).collect()
}

/// The addresses of a page's links, with their lines. None of them may have a space or a parenthesis.
fn links(text: &str) -> Vec<(usize, String)> {
    let of_line = |(at, line): (usize, &str)| {
        let line = without_code(line);
        let ends = line.match_indices("](").map(|(begin, _)| begin + 2);
        let link = |begin: usize| Some((at, line[begin..].split_once(')')?.0.to_owned()));
        ends.filter_map(link).collect::<Vec<_>>()
    };
    prose(text).flat_map(of_line).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them: words in small letters, joined by hyphens.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut count = BTreeMap::new();
    let heading = |line: &str| {
        let words = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))?;
        // Of a link, the heading has the text.
        let text = words.split("](").enumerate().map(|(at, part)| {
            let rest = if at == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) };
            rest.replace('[', "")
        });
        Some(text.collect::<String>())
    };
    let anchor = |heading: String| {
        let kept = |letter: char| letter.is_alphanumeric() || "-_ ".contains(letter);
        let anchor: String = heading.trim().to_lowercase().chars().filter(|letter| kept(*letter)).collect();
        let anchor = anchor.replace(' ', "-");
        let before = count.entry(anchor.clone()).and_modify(|count| *count += 1).or_insert(0);
        if *before == 0 { anchor } else { format!("{anchor}-{before}") }
    };
    prose(text).filter_map(|(_, line)| heading(line)).map(anchor).collect()
}

/// The path from the root that a relative link of a page leads to; none if it leaves the repository.
fn resolved(page: &str, link: &str) -> Option<String> {
    let mut path: Vec<&str> = page.split('/').collect();
    path.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()?),
            Component::Normal(name) => path.push(name.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path.join("/"))
}

/// Why a link of a page leads nowhere, if it does.
fn fault(page: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { Some(page.to_owned()) } else { resolved(page, path) };
    let Some(target) = target.filter(|target| root().join(target).exists()) else {
        return Some("there is no such file".to_owned());
    };
    let is_missing = !anchor.is_empty() && !anchors(&read(&target)).contains(anchor);
    is_missing.then(|| format!("{target} has no such heading"))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = files("", ".md");
    assert!(pages.len() > 30, "the walk has missed the pages");
    let of_page = |page: &String| {
        let faults = links(&read(page))
            .into_iter()
            .filter_map(|(at, link)| fault(page, &link).map(|why| format!("{page}:{at}: a link to {link}, but {why}")));
        faults.collect::<Vec<_>>()
    };
    let report: Vec<String> = pages.iter().flat_map(of_page).collect();
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

/// Messages, helps and comments send their readers to pages by the path from the root.
#[test]
fn sources_name_pages_that_exist() {
    let sources = ["crates", "experiments", "docs/examples", "packaging", "tools", "web/src"];
    let sources = sources.iter().flat_map(|folder| files(folder, ""));
    let is_path = |letter: char| letter.is_alphanumeric() || "-_./#".contains(letter);
    let mut count = 0;
    let mut report = Vec::new();
    for source in sources.filter(|source| !source.starts_with("crates/plimsoll/tests/links.rs")) {
        let Ok(text) = fs::read_to_string(root().join(&source)) else { continue };
        for (begin, _) in text.match_indices("docs/") {
            let word = text[begin..].split(|letter| !is_path(letter)).next().unwrap_or("").trim_end_matches('.');
            let (page, _) = word.split_once('#').unwrap_or((word, ""));
            if page.ends_with(".md") {
                count += 1;
                report.extend(fault("README.md", word).map(|why| format!("{source} names {word}, but {why}")));
            }
        }
    }
    assert!(count > 50, "the walk has missed the sources");
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

/// The pages that a page links to, each with its path from the root, in order.
fn linked(page: &str) -> Vec<String> {
    let links = links(&read(page)).into_iter();
    let pages = links.filter_map(|(_, link)| resolved(page, link.split_once('#').map_or(&link[..], |(path, _)| path)));
    pages.filter(|page| page.ends_with(".md")).collect()
}

#[test]
fn the_book_and_its_front_page_have_every_page() {
    let chapters = linked("docs/SUMMARY.md");
    let once: BTreeSet<&String> = chapters.iter().collect();
    assert_eq!(once.len(), chapters.len(), "docs/SUMMARY.md has a page twice");
    let [front, notebook] = ["docs/README.md", "docs/notes/README.md"];
    let listed = [front, notebook].map(|index| linked(index).into_iter().collect::<BTreeSet<String>>());
    for page in files("docs", ".md") {
        assert!(page == "docs/SUMMARY.md" || once.contains(&page), "docs/SUMMARY.md lacks {page}");
        let is_note = page.starts_with("docs/notes/") && page != notebook;
        let (index, listed) = if is_note { (notebook, &listed[1]) } else { (front, &listed[0]) };
        let is_front = ["docs/SUMMARY.md", front].contains(&page.as_str());
        assert!(is_front || listed.contains(&page), "{index} lacks {page}");
    }
    for page in listed.iter().flatten() {
        assert!(once.contains(page), "a front page sends readers to {page}, which docs/SUMMARY.md lacks");
    }
}

/// The lines of a guide that are too long, and those in which a sentence becomes too long.
fn long_prose(text: &str) -> Vec<String> {
    let is_number = |word: &str| word.strip_suffix('.').is_some_and(|digits| digits.parse::<u32>().is_ok());
    let begins = |word: &str| word.starts_with('#') || ["-", "*"].contains(&word) || is_number(word);
    let (mut faults, mut words) = (Vec::new(), 0);
    for (at, line) in prose(text).filter(|(_, line)| !line.trim_start().starts_with('|')) {
        let length = line.chars().count();
        if length > LINE_CHARACTERS_MAX {
            faults.push(format!("{at}: {length} characters, at most {LINE_CHARACTERS_MAX} are good to read"));
        }
        let line = without_code(line);
        // A paragraph, a heading and an item of a list begin a sentence.
        if line.split_whitespace().next().is_none_or(begins) {
            words = 0;
        }
        for word in line.split_whitespace() {
            words += usize::from(word.contains(char::is_alphanumeric));
            if words == SENTENCE_WORDS_MAX + 1 {
                faults.push(format!("{at}: a sentence of more than {SENTENCE_WORDS_MAX} words; divide it"));
            }
            if word.trim_end_matches([')', '"', '*']).ends_with(['.', '!', '?']) {
                words = 0;
            }
        }
    }
    faults
}

#[test]
fn guides_have_short_lines_and_sentences() {
    // A program writes the reproduction from the words of experiments.
    let is_guide = |page: &String| !page.starts_with("docs/notes/") && page != "docs/reproduction.md";
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "web/README.md"].map(str::to_owned);
    let guides: Vec<String> = files("docs", ".md").into_iter().filter(is_guide).chain(others).collect();
    assert!(guides.len() > 30, "the walk has missed the guides");
    let of_guide = |guide: &String| {
        let faults = long_prose(&read(guide)).into_iter();
        faults.map(|fault| format!("{guide}:{fault}")).collect::<Vec<_>>()
    };
    let report: Vec<String> = guides.iter().flat_map(of_guide).collect();
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

/// The rules themselves, so that they do not accept everything.
#[test]
fn faults_are_seen() {
    let page = "# One\n\n## `--two` and [three](x.md)\n## One\n```\n# four [a](b)\n```\nSee [a](b.md), `[c](d)` and [e](#f).\n";
    let expect: BTreeSet<String> = ["one", "--two-and-three", "one-1"].map(str::to_owned).into();
    assert_eq!(anchors(page), expect);
    let found: Vec<String> = links(page).into_iter().map(|(at, link)| format!("{at} {link}")).collect();
    assert_eq!(found, ["3 x.md", "8 b.md", "8 #f"]);
    assert_eq!(resolved("docs/a/b.md", "../c.md").as_deref(), Some("docs/c.md"));
    assert_eq!(resolved("README.md", "../c.md"), None);
    assert!(fault("docs/README.md", "nothing.md").is_some_and(|why| why.contains("no such file")));
    assert!(fault("docs/README.md", "../README.md#nothing").is_some_and(|why| why.contains("no such heading")));
    assert_eq!(fault("docs/README.md", "../README.md#two-commands"), None);
    let [long, item] = ["word ".repeat(31), format!("- {}\n", "word ".repeat(20))];
    assert_eq!(
        long_prose(&long),
        ["1: 155 characters, at most 120 are good to read", "1: a sentence of more than 30 words; divide it"]
    );
    assert_eq!(long_prose(&"one sentence in two or\n".repeat(7)), ["7: a sentence of more than 30 words; divide it"]);
    let short = ["A short sentence ends here.\n".repeat(9), item.repeat(2), format!("| {long} |\n```\n{long}\n```\n")];
    assert_eq!(short.iter().flat_map(|text| long_prose(text)).collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(long_prose(&format!("{}`a b c d e`\n", "word ".repeat(20)).repeat(2)).len(), 1);
}
