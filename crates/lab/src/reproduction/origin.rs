//! What a run was made from, and whether it is stale: older than its experiment or than the code that it exercises.

use std::collections::BTreeMap;

use plimsoll_workload::file;
use serde::{Deserialize, Serialize};

use super::exercised;
use crate::fingerprint::text_hash;
use crate::plan::Plan;
use crate::program::Build;

/// Keys of an experiment that say nothing about what runs. A changed claim is judged again from the records.
const WORDS: [&str; 4] = ["title", "study", "differs", "claim"];

/// Changed parts that are named; of others there is the number.
const PARTS_NAMED: usize = 3;

/// The experiment and the code that a run was made from, as hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Hash of the experiment's content and of its workloads' files, without comments, words for readers and claims; of the full form, also without
    /// the changes of the short form.
    pub experiment: String,
    /// Hash of each part of the code that it exercises, such as `engine/lock`; empty if the program did not know its
    /// sources.
    pub code: BTreeMap<String, String>,
}

impl Origin {
    /// The origin of a run that this program would make now.
    pub fn now(plan: &Plan, text: &str, quick: bool, build: Build) -> Self {
        let parts = exercised::parts(plan);
        let is_exercised = |unit: &str| {
            let name = unit.split_once('/').map_or(unit, |(name, _)| name);
            parts.contains(unit) || parts.contains(name)
        };
        let code = build.sources.iter().filter(|(unit, _)| is_exercised(unit));
        let code = code.map(|(unit, hash)| ((*unit).to_owned(), (*hash).to_owned())).collect();
        let workloads = plan.base.workloads.iter().filter_map(|workload| {
            let files = file::files(&workload.kind)?.ok()?;
            file::identity(&workload.kind, &files)
        });
        let files: String = workloads.map(|(kind, hash)| format!("{kind} {hash}\n")).collect();
        let content = content_hash(text, quick);
        let experiment = if files.is_empty() { content } else { text_hash(&(content + &files))[..8].to_owned() };
        Origin { experiment, code }
    }

    /// One hash of all parts of the code, for people; `None` if none is known.
    pub fn code_hash(&self) -> Option<String> {
        let parts: String = self.code.iter().map(|(unit, hash)| format!("{unit} {hash}\n")).collect();
        (!parts.is_empty()).then(|| text_hash(&parts)[..8].to_owned())
    }

    /// Why a run of this origin is stale; `None` if it is not. `now` is the origin that it would have now.
    pub fn stale(&self, now: &Origin) -> Option<String> {
        if self.experiment != now.experiment {
            return Some("the experiment has changed".to_owned());
        }
        if self.code.is_empty() {
            return Some("unknown, for the program that ran it did not know its sources".to_owned());
        }
        let changed: Vec<&str> = now
            .code
            .iter()
            .filter(|(unit, hash)| self.code.get(*unit) != Some(hash))
            .map(|(unit, _)| &unit[..])
            .collect();
        let named = changed.iter().take(PARTS_NAMED).copied().collect::<Vec<_>>().join(", ");
        match changed.len() {
            0 => None,
            count if count > PARTS_NAMED => {
                Some(format!("code has changed: {named} and {} more parts", count - PARTS_NAMED))
            }
            _ => Some(format!("code has changed: {named}")),
        }
    }
}

/// Why a run is stale of which perhaps nothing is known.
pub fn stale(origin: Option<&Origin>, now: &Origin) -> Option<String> {
    match origin {
        Some(origin) => origin.stale(now),
        None => Some("unknown, for it has no hash of its experiment and its code".to_owned()),
    }
}

/// Hash of what an experiment file runs; of the text itself if it is no TOML.
fn content_hash(text: &str, quick: bool) -> String {
    let Ok(mut content) = toml::from_str::<toml::Table>(text) else { return text_hash(text)[..8].to_owned() };
    WORDS.iter().for_each(|key| drop(content.remove(*key)));
    if !quick {
        content.remove("quick");
    }
    text_hash(&toml::Value::Table(content).to_string())[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::made_up::plan;

    const TEXT: &str = "name = \"x\"\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n[quick]\nmeasure = \"1s\"\n";

    fn origin(text: &str, quick: bool, sources: &'static [(&'static str, &'static str)]) -> Origin {
        Origin::now(&plan(text), text, quick, Build { version: "1", commit: None, sources })
    }

    const SOURCES: &[(&str, &str)] = &[
        ("engine/lock", "1"),
        ("engine/log", "2"),
        ("engine/query", "3"),
        ("lab/runner", "4"),
        ("workload/driver", "5"),
        ("workload/tpcc", "6"),
    ];

    #[test]
    fn comments_words_and_claims_do_not_make_a_run_stale() {
        let now = origin(TEXT, false, SOURCES);
        let same = |text: String| assert_eq!(origin(&text, false, SOURCES).stale(&now), None, "{text}");
        same(format!("# Why.\ntitle = \"T\"\ndiffers = [\"much\"]\n{}", TEXT.replace(" = ", "=")));
        same(format!("{TEXT}[[claim]]\ntext = \"t\"\nholds = \"throughput(oltp) > 0\"\n"));
        same(TEXT.replace("1s", "2s"));
        let differ = |text: String, quick: bool| {
            let why = origin(&text, quick, SOURCES).stale(&origin(TEXT, quick, SOURCES));
            assert_eq!(why.as_deref(), Some("the experiment has changed"), "{text}");
        };
        differ(TEXT.replace("1s", "2s"), true);
        differ(TEXT.replace("[quick]", "clients = 2\n[quick]"), false);
    }

    #[test]
    fn only_code_that_it_exercises_makes_a_run_stale() {
        let now = |sources| origin(TEXT, false, sources);
        let before = now(SOURCES);
        assert!(!before.code.contains_key("engine/query") && before.code.contains_key("engine/lock"), "{before:?}");
        let changed: &[(&str, &str)] = &[
            ("engine/lock", "9"),
            ("engine/log", "2"),
            ("engine/query", "9"),
            ("lab/runner", "4"),
            ("workload/driver", "5"),
            ("workload/tpcc", "6"),
        ];
        assert_eq!(before.stale(&now(changed)).as_deref(), Some("code has changed: engine/lock"));
        assert_eq!(now(changed).code_hash().map(|hash| hash.len()), Some(8));
        assert_ne!(now(changed).code_hash(), before.code_hash());
        let many: &[(&str, &str)] = &[
            ("engine/lock", "9"),
            ("engine/log", "9"),
            ("lab/runner", "9"),
            ("workload/driver", "9"),
            ("workload/tpcc", "9"),
        ];
        let told = before.stale(&now(many));
        assert_eq!(told.as_deref(), Some("code has changed: engine/lock, engine/log, lab/runner and 2 more parts"));
    }

    #[test]
    fn a_run_without_a_hash_is_stale_for_a_reason_that_is_told() {
        let now = origin(TEXT, false, SOURCES);
        assert!(stale(None, &now).is_some_and(|why| why.starts_with("unknown, for it has no hash")));
        assert!(
            stale(Some(&origin(TEXT, false, &[])), &now).is_some_and(|why| why.starts_with("unknown, for the program"))
        );
        assert_eq!(stale(Some(&now), &now), None);
        assert_eq!(origin(TEXT, false, &[]).code_hash(), None);
    }
}
