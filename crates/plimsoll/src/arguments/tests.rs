//! The command line is what the guides say: each of their commands can be typed, and the table of README has every command.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use plimsoll_commands::arguments::GovernOptions;
use plimsoll_lab::targets::Targets;
use plimsoll_workload::registry::{BENCHMARKS, kind_and_scale};

use super::*;
use crate::exhibits::EXHIBITS;
use crate::targets::TARGETS;

const ROOT: &str = "../..";

/// The small program, which has only the shared commands.
const GOVERNOR: &str = "plimsoll-governor";

#[test]
fn the_command_line_is_consistent() {
    Arguments::command().debug_assert();
}

/// The pages with commands for their readers.
fn pages() -> Vec<PathBuf> {
    let top = ["README.md", "CONTRIBUTING.md"].map(|name| Path::new(ROOT).join(name));
    let folders = ["docs", "docs/studies"].map(|name| fs::read_dir(Path::new(ROOT).join(name)).expect("a folder"));
    let pages = folders.into_iter().flatten().map(|entry| entry.expect("readable").path());
    top.into_iter().chain(pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"))).collect()
}

/// The words of a line as a shell reads them, up to a comment: with quotes, and without anything else of a shell's language.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.into_iter().chain(word).collect()
}

/// The program and its arguments in a line of an example, if it is a command of ours: behind variables, or by way of cargo.
fn arguments(line: &str) -> Option<Vec<String>> {
    let words: Vec<String> = words(line).into_iter().skip_while(|word| word.contains('=')).collect();
    let by_cargo = ["cargo", "run", "--release", "--"];
    match words.first()?.as_str() {
        "plimsoll" | GOVERNOR => Some(words),
        "cargo" if words.starts_with(&by_cargo.map(str::to_owned)) => {
            Some([&["plimsoll".to_owned()], &words[by_cargo.len()..]].concat())
        }
        _ => None,
    }
}

/// Every command in the examples of a page, with its line.
fn commands(text: &str) -> Vec<(usize, Vec<String>)> {
    let (mut is_example, mut found) = (false, Vec::new());
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let mut line = line.trim_start().to_owned();
        is_example ^= line.starts_with("```");
        while is_example && line.ends_with('\\') {
            line.pop();
            line += lines.next().map_or("", |(_, more)| more.trim_start());
        }
        found.extend(is_example.then(|| arguments(&line)).flatten().map(|words| (at + 1, words)));
    }
    found
}

/// Why a command that can be typed would be refused, as far as that can be seen without running it.
fn refusal(command: &Command) -> Option<String> {
    let is_target = |target: &TargetOptions| {
        let options = target.options.iter().filter_map(|option| option.split_once('='));
        let options: BTreeMap<_, _> = options.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        TARGETS.target(&target.target, &options).and_then(|target| target.check()).err()
    };
    let is_there = |file: &Path| {
        // Names in capitals, and files that the reader writes, are not in the tree.
        let is_ours = file.starts_with("docs") || file.starts_with("experiments");
        (is_ours && !Path::new(ROOT).join(file).is_file()).then(|| format!("there is no {}", file.display()))
    };
    match command {
        Command::Study(options) => is_target(&options.target),
        Command::Bench(options) => {
            is_target(&options.target).or_else(|| match options.workload.strip_prefix("file:") {
                Some(files) => files.split(',').find_map(|file| is_there(Path::new(file.split('@').next()?))),
                // What the reader has recorded or seen.
                None if ["capture:", "sketch:"].iter().any(|kind| options.workload.starts_with(kind)) => None,
                None => {
                    let (kind, _) = kind_and_scale(&options.workload);
                    let is_known = BENCHMARKS.iter().any(|entry| entry.name == kind);
                    (!is_known).then(|| format!("there is no workload {kind}"))
                }
            })
        }
        Command::Run(RunOptions { experiment: Some(file), .. })
        | Command::Simulate(SimulateOptions { experiment: file, .. })
        | Command::Shared(SharedCommand::Govern(GovernOptions { config: Some(file), .. })) => is_there(file),
        Command::Reproduce(ReproduceOptions { study: Some(study), .. }) => {
            let is_one = |name: String| name == *study || name.starts_with(&format!("{study}-"));
            let is_known = EXHIBITS.iter().any(|source| is_one(source.name()));
            (!is_known).then(|| format!("there is no experiment {study}"))
        }
        _ => None,
    }
}

#[test]
fn every_command_of_the_guides_can_be_typed() {
    let mut count = 0;
    let mut report = Vec::new();
    for page in pages() {
        for (at, arguments) in commands(&fs::read_to_string(&page).expect("readable")) {
            count += 1;
            let fault = match Arguments::try_parse_from(&arguments) {
                Ok(typed) if arguments[0] == GOVERNOR && !matches!(typed.command, Command::Shared(_)) => {
                    Some(format!("{GOVERNOR} has no such command"))
                }
                Ok(typed) => refusal(&typed.command),
                Err(error) => Some(error.to_string()),
            };
            report.extend(fault.map(|fault| format!("{}:{at}: {fault}", page.display())));
        }
    }
    assert!(count > 50, "the walk has missed the examples: {count}");
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

#[test]
fn the_readme_has_every_command() {
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).expect("README.md");
    let rows = readme.lines().filter(|line| line.starts_with("| `plimsoll "));
    let named = rows.flat_map(|row| row.split("`plimsoll ").skip(1).filter_map(|rest| rest.split([' ', '`']).next()));
    let named: BTreeSet<&str> = named.collect();
    let all = Arguments::command();
    let there: BTreeSet<&str> =
        all.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name).collect();
    assert_eq!(named, there, "the table \"More commands\" of README.md");
}

/// The reading of examples itself, so that it does not accept everything.
#[test]
fn commands_are_seen() {
    let page = "plimsoll no\n```\n  A=b plimsoll bench 'file:x y' --check   # why\nsh\ncargo run --release -- study # x\nplimsoll bench \\\n  tpcc\n```\n";
    let found: Vec<String> =
        commands(page).into_iter().map(|(at, words)| format!("{at} {}", words.join("|"))).collect();
    assert_eq!(found, ["3 plimsoll|bench|file:x y|--check", "5 plimsoll|study", "6 plimsoll|bench|tpcc"]);
    let refused = |line: &[&str]| {
        let typed = Arguments::try_parse_from(["plimsoll"].iter().chain(line)).expect("it can be typed");
        refusal(&typed.command).is_some()
    };
    assert!(refused(&["bench", "tpc:1"]) && refused(&["bench", "tpcc", "--option", "dup=1"]));
    assert!(refused(&["reproduce", "XX"]) && refused(&["run", "experiments/none.toml"]));
    assert!(!refused(&["bench", "tpcc:4", "--target", "postgres:"]) && !refused(&["reproduce", "SR"]));
}
