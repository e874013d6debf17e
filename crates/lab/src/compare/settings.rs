//! The settings in which two runs differ.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::results::Results;

/// How many settings that only one target has are named.
const NAMED_MAX: usize = 3;

/// All settings that differ, and those among them that make the two do different work. The target, its options and the
/// number of repeats may differ: comparing these is the purpose of the comparison.
pub(super) fn differences(base: &Results, other: &Results) -> (Vec<String>, Vec<String>) {
    let (a, b) = (&base.experiment.settings, &other.experiment.settings);
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let told = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let (mut all, mut of_workloads) = (Vec::new(), Vec::new());
    let mut only: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    for name in names.into_iter().filter(|name| a.get(*name) != b.get(*name)) {
        match (a.get(name), b.get(name)) {
            (Some(value), None) if is_of_target(name) => only[0].push(format!("{name} = {value}")),
            (None, Some(value)) if is_of_target(name) => only[1].push(format!("{name} = {value}")),
            (base, other) => {
                let line = format!("{name}: {} -> {}", told(base), told(other));
                if !may_differ(name) {
                    of_workloads.push(line.clone());
                }
                all.push(line);
            }
        }
    }
    let [only_base, only_other] = only;
    all.extend(one_line("the base", &only_base).into_iter().chain(one_line("the other", &only_other)));
    (all, of_workloads)
}

fn is_of_target(name: &str) -> bool {
    name.starts_with("target.")
}

fn may_differ(name: &str) -> bool {
    is_of_target(name)
        || name.starts_with("sweep.")
        || ["run.repeats", "run.seed", "run.search", "arms"].contains(&name)
}

/// `only the base has target.memory = 4, target.wal = "off" and 9 more`: targets of two kinds have a dozen options each, and that
/// they have them says nothing.
fn one_line(who: &str, settings: &[String]) -> Option<String> {
    let (named, more) = settings.split_at(settings.len().min(NAMED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    (!named.is_empty()).then(|| format!("only {who} has {}{more}", named.join(", ")))
}
