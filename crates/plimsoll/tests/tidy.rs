//! House rules that the compiler does not check: every file has a module comment, files and functions stay short,
//! nothing is leaked, pure crates are pure, only `machine` reads the kernel's files, and the crate map in
//! `ARCHITECTURE.md` matches the workspace.
//!
//! This file needs nothing but the standard library, so that `./check fast` compiles it alone.

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

/// The violations of the rules above in a source.
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
    faults.extend(leaks(text));
    faults
}

/// Places that leak memory until the process ends.
fn leaks(text: &str) -> impl Iterator<Item = String> {
    let is_leak = |line: &str| ["::", "."].iter().any(|before| line.contains(&format!("{before}leak(")));
    code(text)
        .filter(move |(_, line)| is_leak(line))
        .map(|(at, _)| format!("line {at}: leaks memory; give it an owner"))
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

/// Crates whose answers follow from their arguments alone, and the dependencies that were found to allow that.
const PURE: [(&str, &[&str]); 3] = [
    ("model", &["rand", "rand_distr", "rand_pcg", "statrs", "thiserror"]),
    ("notation", &["memchr", "schemars", "serde", "serde_json", "sha2", "strsim", "thiserror", "toml"]),
    ("policy", &["plimsoll-notation", "glob", "serde", "thiserror"]),
];

/// Words that puzzle readers, each with its replacement. Only words that can be found without false alarms; a space
/// matches any white space, also across lines.
const PUZZLES: [(&str, &str); 32] = [
    ("whoever", "name the client, transaction or process: \"a process that\""),
    ("somebody", "name the client, transaction or process"),
    ("anybody", "name the client, transaction or process"),
    ("everybody", "name them: \"all clients\", \"every process\""),
    ("nobody", "name them: \"no client\", \"no other process\", or say it the other way round"),
    ("is told", "\"receives\", \"is notified\" or \"is reported\""),
    ("are told", "\"receive\", \"are notified\" or \"are reported\""),
    ("was told", "\"received\", \"was notified\" or \"was reported\""),
    ("were told", "\"received\", \"were notified\" or \"were reported\""),
    ("says so", "\"reports it\", or name what it reports"),
    ("say so", "\"report it\", or name what they report"),
    ("said so", "\"reported it\", or name what it reported"),
    ("without a word", "\"by default\", or \"if it is not set\""),
    ("that is what", "name it"),
    ("so many that", "\"enough … that\", or the number"),
    ("beside it stands", "begin with the subject"),
    ("lest", "\"so that … not\", or \"because otherwise\""),
    ("anew", "\"again\""),
    ("at hand", "\"current\", \"ready\" or \"available\""),
    ("by turns", "\"in turns\""),
    ("can be had", "\"is available\""),
    ("cannot be had", "\"is not available\""),
    ("what is usual", "\"the default\""),
    ("reckoned", "\"computed\""),
    ("dearer", "\"more expensive\""),
    ("dearest", "\"most expensive\""),
    ("goes on with", "\"continues\""),
    ("for ever", "\"forever\""),
    ("where nothing is said", "\"by default\""),
    ("if nothing is said", "\"by default\""),
    ("if it is not said", "\"by default\", or \"if it is not set\""),
    ("is no number", "\"is not a number\""),
];

/// Folders of crates with design notes.
const NOTES: [&str; 4] = ["engine/src/lock", "governor/src/session", "governor/src/watch", "governor/tests/drivers"];

/// This guide is written by a program, from the words of experiments.
const WRITTEN_GUIDE: &str = "reproduction.md";

/// Names that a pure crate must not use: clocks, I/O, threads, randomness without a seed, and shared state.
const IMPURE: [&str; 18] = [
    "Instant::now",
    ".elapsed()",
    "SystemTime",
    "std::fs",
    "std::net",
    "std::thread",
    "std::env",
    "std::process",
    "std::io",
    "std::os",
    "use std::{",
    "rand::rng",
    "rand::random",
    "SysRng",
    "static mut",
    "thread_local!",
    "println!",
    "unsafe ",
];

/// Files outside of `machine` that ask the kernel themselves, each with the reason.
const KERNEL_EXCEPTIONS: [(&str, &str); 5] = [
    ("governor/src/own_process.rs", "what the governor itself uses, for its metrics; it watches nothing by it"),
    ("pg/src/connection.rs", "whether the number that a server tells is a process of this machine"),
    ("postgres/src/database/location.rs", "whether a server runs on this machine"),
    ("postgres/src/server/record.rs", "the boot of a record, through `machine`'s host"),
    ("postgres/src/server/shared_memory.rs", "segments of System V that a killed server has left"),
];

/// The lines of a source with their numbers, without comments and without the tests at its end.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let production = text.split("\n#[cfg(test)]").next().unwrap_or(text);
    let lines = production.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Where a source does what a pure crate must not.
fn impurities(text: &str) -> Vec<String> {
    let found = |(at, line): (usize, &str)| {
        let word = IMPURE.iter().find(|word| line.contains(**word))?;
        Some(format!("line {at}: `{word}` in a crate that is pure"))
    };
    code(text).filter_map(found).collect()
}

/// Where a source asks the kernel: a path below /proc or /sys, or the crate that reads them.
fn kernel_questions(text: &str) -> Vec<String> {
    let is_path = |line: &str| {
        ["\"/proc/", "\"/sys/"].iter().any(|root| {
            line.match_indices(root).any(|(at, _)| {
                // A message that names a path continues with other words, and a quoted path is part of a message.
                let path = line[at + 1..].split('"').next().unwrap_or("");
                !path.contains(' ') && !line[..at].ends_with('\\')
            })
        })
    };
    let asks = |(at, line): (usize, &str)| {
        (is_path(line) || line.contains("procfs::"))
            .then(|| format!("line {at}: asks the kernel, which `machine` does"))
    };
    code(text).filter_map(asks).collect()
}

/// The sources of a crate that are not tests, with their names as seen from `crates`.
fn production(folder: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    sources(&folder.join("src"), &mut files);
    let name = |file: &Path| file.strip_prefix(root().join("crates")).expect("below crates").display().to_string();
    let is_test = |name: &str| name.ends_with("/tests.rs") || name.contains("/tests/");
    let named = files.iter().map(|file| (name(file), fs::read_to_string(file).expect("readable")));
    named.filter(|(name, _)| !is_test(name)).collect()
}

/// The sentences of a source, line by line: its comments, and the texts between quotation marks.
fn sentences(text: &str) -> Vec<String> {
    let production = text.split("\n#[cfg(test)]").next().unwrap_or(text);
    let sentence = |line: &str| match line.trim_start() {
        comment if comment.starts_with("//") => comment.trim_start_matches(['/', '!', ' ']).to_owned(),
        // A text of one word is a name.
        code => code.split('"').skip(1).step_by(2).filter(|text| text.contains(' ')).collect::<Vec<_>>().join(" "),
    };
    production.lines().map(sentence).collect()
}

/// The sentences of a guide, line by line; its examples are not ours to judge.
fn guide_sentences(text: &str) -> Vec<String> {
    let mut is_example = false;
    let sentence = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        is_example ^= is_fence;
        if is_example || is_fence { String::new() } else { line.to_owned() }
    };
    text.lines().map(sentence).collect()
}

/// Sentences with one of the [`PUZZLES`], which may continue in the next line.
fn puzzles(lines: &[String]) -> Vec<String> {
    // What stands between back quotes is code, such as the user `nobody`.
    let is_end = |next: Option<char>| !next.is_some_and(|next| next.is_alphanumeric() || "_-`".contains(next));
    let has = |at: usize, puzzle: &str| {
        let next = lines.get(at + 1).map_or("", String::as_str);
        let (line, both) = (&lines[at], format!("{} {}", lines[at], next.trim_start()).to_lowercase());
        both.match_indices(puzzle).any(|(begin, _)| {
            let (before, after) = (both[..begin].chars().next_back(), both[begin + puzzle.len()..].chars().next());
            begin < line.len() && is_end(before) && is_end(after)
        })
    };
    let found = |at: usize| {
        let puzzles = PUZZLES.iter().filter(move |(puzzle, _)| has(at, puzzle));
        puzzles.map(move |(puzzle, instead)| format!("line {}: \"{puzzle}\"; write {instead}", at + 1))
    };
    (0..lines.len()).flat_map(found).collect()
}

#[test]
fn guides_and_sources_are_understood_at_first_reading() {
    let folders = ["docs", "docs/studies"].map(|folder| fs::read_dir(root().join(folder)).expect("a folder"));
    let docs = folders.into_iter().flatten().map(|entry| entry.expect("readable").path());
    let is_guide = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.ends_with(".md") && name != WRITTEN_GUIDE
    };
    let other = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "web/README.md"];
    let other = other.map(|name| root().join(name));
    let notes = NOTES.map(|name| root().join("crates").join(name).join("README.md"));
    let guides = docs.filter(is_guide).chain(other).chain(notes);
    let guides: Vec<(String, Vec<String>)> = guides
        .map(|path| (path.display().to_string(), guide_sentences(&fs::read_to_string(&path).expect("readable"))))
        .collect();
    assert!(guides.len() > 15, "the walk has missed the guides");
    let crates = fs::read_dir(root().join("crates")).expect("a folder").map(|entry| entry.expect("readable").path());
    let sources = crates.flat_map(|folder| production(&folder));
    let sources = sources.map(|(file, text)| (format!("crates/{file}"), sentences(&text)));
    let report: Vec<String> = guides
        .into_iter()
        .chain(sources)
        .flat_map(|(name, lines)| puzzles(&lines).into_iter().map(move |puzzle| format!("{name}: {puzzle}")))
        .collect();
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

#[test]
fn pure_crates_are_pure() {
    for (name, allowed) in PURE {
        let folder = root().join("crates").join(name);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let dependencies = manifest.split("[dependencies]\n").nth(1).unwrap_or("").split("\n\n").next().unwrap_or("");
        let there: Vec<&str> = dependencies.lines().filter_map(|line| line.split(['.', ' ']).next()).collect();
        assert_eq!(there, allowed, "a dependency of {name}, which is pure: look whether it is, too");
        let files = production(&folder);
        assert!(files.len() > 5, "the walk has missed {name}");
        let report: Vec<String> = files
            .iter()
            .flat_map(|(file, text)| impurities(text).into_iter().map(move |fault| format!("crates/{file}: {fault}")))
            .collect();
        assert!(report.is_empty(), "\n{}", report.join("\n"));
    }
}

#[test]
fn only_machine_asks_the_kernel() {
    let crates = fs::read_dir(root().join("crates")).expect("crates").map(|entry| entry.expect("readable").path());
    let others = crates.filter(|folder| !folder.ends_with("machine"));
    let asking = others.flat_map(|folder| production(&folder)).filter_map(|(file, text)| {
        let questions = kernel_questions(&text);
        (!questions.is_empty()).then_some((file, questions))
    });
    let asking: Vec<_> = asking.collect();
    for (file, why) in KERNEL_EXCEPTIONS {
        assert!(asking.iter().any(|(other, _)| other == file), "{file} asks nothing any more ({why})");
    }
    let is_allowed = |file: &str| KERNEL_EXCEPTIONS.iter().any(|(other, _)| *other == file);
    let report: Vec<String> = asking
        .iter()
        .filter(|(file, _)| !is_allowed(file))
        .flat_map(|(file, questions)| questions.iter().map(move |question| format!("crates/{file}: {question}")))
        .collect();
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

/// The packages that README tells to install are those that ./check installs.
#[test]
fn the_readme_has_the_list_of_needs() {
    let script = fs::read_to_string(root().join("tools/install-needs")).expect("tools/install-needs");
    let needs: BTreeSet<&str> =
        script.lines().filter_map(|line| line.strip_prefix("need ")?.split(' ').next()).collect();
    assert!(needs.len() > 5, "{needs:?}");
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let told: BTreeSet<&str> = readme
        .split("`apt install ")
        .filter_map(|rest| rest.split('`').next())
        .find(|list| list.contains("python3-venv"))
        .expect("README.md has `apt install …` with what ./check needs")
        .split_whitespace()
        .collect();
    assert_eq!(told, needs, "README.md and tools/install-needs differ");
}

/// The rules themselves, so that they do not accept everything.
#[test]
fn faults_are_seen() {
    assert_eq!(faults("//! Good.\n\nfn f() {\n    g();\n}\n"), Vec::<String>::new());
    assert!(faults("fn f() {}\n")[0].contains("documentation"));
    let long = format!("//! Long.\n\nimpl A {{\n    pub fn f() {{\n{}    }}\n}}\n", "        g();\n".repeat(70));
    assert_eq!(faults(&long), ["line 4: a function of 72 lines, at most 70"]);
    let file = format!("//! Long.\n{}", "const A: u8 = 0;\n".repeat(450));
    assert!(faults(&file)[0].contains("has 451 lines"));
    let leaking = ["Box::", "text."].map(|before| format!("    {before}leak(text)\n")).concat();
    assert_eq!(faults(&format!("//! Leaks.\n{leaking}")).len(), 2);
    let puzzling = |text: &str| puzzles(&sentences(text)).len();
    assert_eq!(puzzling("/// Whoever waits\nlet it = \"the client is told\";\n// Read it anew.\n"), 3);
    assert_eq!(puzzling("// It is\n// told. The smallest of them.\nfn nobody() {}\n"), 1);
    assert_eq!(puzzles(&guide_sentences("```\nlest\n```\nIt can be\nhad. A no-lest.\n")).len(), 1);
    assert_eq!(impurities("//! Pure: no std::fs.\nuse std::time::Instant;\n"), Vec::<String>::new());
    assert_eq!(impurities("let now = Instant::now();\n")[0], "line 1: `Instant::now` in a crate that is pure");
    assert_eq!(impurities("fn f() {}\n#[cfg(test)]\nuse std::fs;\n"), Vec::<String>::new());
    assert_eq!(kernel_questions("const A: &str = \"/sys is not mounted\";\n"), Vec::<String>::new());
    assert_eq!(kernel_questions("text(\"/sys/x is not there\");\n"), Vec::<String>::new());
    assert_eq!(kernel_questions("read(\"/proc/self/stat\");\nprocfs::f();\n").len(), 2);
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
