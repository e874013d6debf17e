//! The order of runs: blocks of all settings and arms, each block in a random order that the seed fixes.
//!
//! Within a block, settings that use the same data come one after the other, because loading would cost more than measuring. The
//! order of these groups is drawn, and within a group the order of all runs.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use serde_json::Value;

use crate::plan::{Axis, Plan, Search, option_text};
use crate::record::RunId;

/// The wanted runs of a plan: all, or those that match some words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// A run is wanted if it matches one of them, or if there are none.
    alternatives: Vec<Words>,
}

/// Words that must all match.
#[derive(Debug, Clone, Default, PartialEq)]
struct Words {
    /// Arms by name; all if empty.
    arms: Vec<String>,
    /// Values of swept keys; all if empty.
    values: Vec<(String, String)>,
}

/// Words that select nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--only {word}: there is no such point; the arms are {arms}{keys}")]
pub struct SelectionError {
    word: String,
    arms: String,
    keys: String,
}

impl Selection {
    /// Parses `dop=2,together`: arms and values of swept keys, all of which must match. Several values of one key, or
    /// several arms, are alternatives; so are several lists of words with `;` between them.
    pub fn parse(text: &str, plan: &Plan) -> Result<Self, SelectionError> {
        let lists = text.split(';').map(|list| Words::parse(list, plan)).collect::<Result<Vec<_>, _>>()?;
        Ok(Selection { alternatives: lists.into_iter().filter(|words| *words != Words::default()).collect() })
    }

    /// The number of wanted runs. For a knee search, or with too many settings to check each, an upper bound.
    /// [`usize::MAX`] if it is too large to count.
    pub fn run_count(&self, plan: &Plan) -> usize {
        match &self.alternatives[..] {
            _ if plan.run.search != Search::Grid => plan.run_count(),
            [] => plan.run_count(),
            [words] => words.run_count(plan),
            _ => match plan.setting_count().filter(|count| *count <= SETTINGS_COUNTED_MAX) {
                Some(count) => {
                    let settings: Vec<usize> = (0..count).collect();
                    runs_of(plan, self, &settings, 1).len().saturating_mul(plan.run.repeats as usize)
                }
                None => plan.run_count(),
            },
        }
    }

    /// Whether this arm of this setting is wanted.
    pub(super) fn wants(&self, plan: &Plan, setting: usize, arm: usize) -> bool {
        self.alternatives.is_empty() || self.alternatives.iter().any(|words| words.match_run(plan, setting, arm))
    }
}

/// With more settings than this, runs are not counted one by one.
const SETTINGS_COUNTED_MAX: usize = 10_000;

impl Words {
    fn parse(text: &str, plan: &Plan) -> Result<Self, SelectionError> {
        let mut selection = Words::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let pair = word.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let is_value = |(key, value): (&str, &str)| {
                plan.axes.iter().any(|axis| axis.key == key && axis.values.iter().any(|one| option_text(one) == value))
            };
            match pair {
                Some((key, value)) if is_value((key, value)) => {
                    selection.values.push((key.to_owned(), value.to_owned()))
                }
                None if plan.arms.iter().any(|arm| arm.name == word) => selection.arms.push(word.to_owned()),
                _ => {
                    let arms = plan.arms.iter().map(|arm| format!("`{}`", arm.name)).collect::<Vec<_>>().join(", ");
                    let keys = plan.axes.iter().map(|axis| {
                        let values = axis.values.iter().map(option_text).collect::<Vec<_>>().join(", ");
                        format!("; `{}` is one of {values}", axis.key)
                    });
                    return Err(SelectionError { word: word.to_owned(), arms, keys: keys.collect() });
                }
            }
        }
        Ok(selection)
    }

    /// The number of runs of a grid that match.
    fn run_count(&self, plan: &Plan) -> usize {
        let of_axis = |axis: &Axis| axis.values.iter().filter(|value| self.allows(&axis.key, value)).count();
        let settings = plan.axes.iter().map(of_axis).fold(1, usize::saturating_mul);
        let is_wanted = |arm: &usize| self.arms.is_empty() || self.arms.contains(&plan.arms[*arm].name);
        let arms: Vec<usize> = (0..plan.arms.len()).filter(is_wanted).collect();
        let is_first_wanted = plan.axes.iter().all(|axis| self.allows(&axis.key, &axis.values[0]));
        let twice = arms.iter().filter(|arm| is_first_wanted && plan.runs_twice(0, **arm)).count();
        settings.saturating_mul(arms.len()).saturating_add(twice).saturating_mul(plan.run.repeats as usize)
    }

    fn match_run(&self, plan: &Plan, setting: usize, arm: usize) -> bool {
        (self.arms.is_empty() || self.arms.contains(&plan.arms[arm].name))
            && plan.setting(setting).swept.iter().all(|(key, value)| self.allows(key, value))
    }

    /// Whether settings with this value are wanted, as far as this value decides.
    fn allows(&self, key: &str, value: &Value) -> bool {
        let mut of_key = self.values.iter().filter(|(wanted, _)| wanted == key).peekable();
        of_key.peek().is_none() || of_key.any(|(_, wanted)| option_text(value) == *wanted)
    }
}

/// Every wanted run of these settings, block by block, in the order in which they run. `data` names the data of a
/// setting: settings with equal names share their data.
pub(super) fn order(
    plan: &Plan,
    selection: &Selection,
    settings: &[usize],
    data: impl Fn(usize) -> String,
) -> Vec<RunId> {
    let blocks = (1..=plan.run.repeats).map(|repeat| runs_of(plan, selection, settings, repeat));
    in_groups(plan, blocks.collect(), 0, data)
}

/// Runs in their order: blocks stay, within a block the groups that share data, and within a group its runs, are shuffled
/// by the plan's seed and the round.
pub(super) fn in_groups(
    plan: &Plan,
    blocks: Vec<Vec<RunId>>,
    round: u64,
    data: impl Fn(usize) -> String,
) -> Vec<RunId> {
    let mut random = Pcg64::new(u128::from(plan.run.seed), u128::from(round));
    let mut names: BTreeMap<usize, String> = BTreeMap::new();
    let mut ordered = Vec::new();
    for block in blocks {
        let mut groups: BTreeMap<String, Vec<RunId>> = BTreeMap::new();
        for run in block {
            let name = names.entry(run.setting).or_insert_with(|| data(run.setting));
            groups.entry(name.clone()).or_default().push(run);
        }
        let mut groups: Vec<Vec<RunId>> = groups.into_values().collect();
        groups.iter_mut().for_each(|group| group.shuffle(&mut random));
        groups.shuffle(&mut random);
        ordered.extend(groups.into_iter().flatten());
    }
    ordered
}

/// One block's runs, with those that run twice (A/A).
fn runs_of(plan: &Plan, selection: &Selection, settings: &[usize], repeat: u32) -> Vec<RunId> {
    let pairs = settings.iter().flat_map(|setting| (0..plan.arms.len()).map(move |arm| (*setting, arm)));
    let wanted = pairs.filter(|(setting, arm)| selection.wants(plan, *setting, *arm));
    let twice = |(setting, arm)| {
        let id = |is_again| RunId { setting, arm, repeat, is_again };
        [Some(id(false)), plan.runs_twice(setting, arm).then(|| id(true))]
    };
    wanted.flat_map(twice).flatten().collect()
}
