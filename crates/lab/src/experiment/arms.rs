//! The arms that run at each setting.

use plimsoll_notation::{At, Problems, choices, did_you_mean};

use crate::plan::{Arm, PlannedWorkload};

/// The listed arms; without a list, each workload alone and, if there are several, all together.
pub(super) fn arms(
    listed: Option<&At<Vec<At<String>>>>,
    workloads: &[PlannedWorkload],
    problems: &mut Problems,
) -> Vec<Arm> {
    let names: Vec<&str> = workloads.iter().map(|workload| workload.name.as_str()).collect();
    let Some(listed) = listed else { return by_default(&names) };
    if listed.value().is_empty() {
        problems.add(
            listed.span(),
            "`arms` is empty, so nothing would run; leave it out to run each workload alone and together",
        );
    }
    let mut arms: Vec<Arm> = Vec::new();
    for word in listed.value() {
        for members in problems.note_at(word.span(), members(word.value(), &names)).unwrap_or_default() {
            // `alone` and `alone:oltp` may both be listed; it runs once.
            if !arms.iter().any(|arm| arm.members == members) {
                arms.push(arm(members, &names));
            }
        }
    }
    arms
}

fn by_default(names: &[&str]) -> Vec<Arm> {
    let alone = (0..names.len()).map(|member| vec![member]);
    let together = (names.len() > 1).then(|| (0..names.len()).collect());
    alone.chain(together).map(|members| arm(members, names)).collect()
}

/// The arm of these members, by its one name.
fn arm(members: Vec<usize>, names: &[&str]) -> Arm {
    let name = match &members[..] {
        [only] => format!("alone:{}", names[*only]),
        all if all.len() == names.len() => "together".to_owned(),
        some => some.iter().map(|&member| names[member]).collect::<Vec<_>>().join("+"),
    };
    Arm { name, members }
}

/// The arms that a word means, each as its members in the order of the file.
fn members(word: &str, names: &[&str]) -> Result<Vec<Vec<usize>>, String> {
    let all = 0..names.len();
    match word {
        "alone" => Ok(all.map(|member| vec![member]).collect()),
        "together" | "pairs" if names.len() < 2 => {
            Err(format!("arm `{word}` needs two workloads, and there is only `{}`; leave `arms` out", names.concat()))
        }
        "together" => Ok(vec![all.collect()]),
        "pairs" => Ok(all.flat_map(|one| (one + 1..names.len()).map(move |other| vec![one, other])).collect()),
        _ if word.contains('+') => Ok(vec![several(word, names)?]),
        _ => match word.strip_prefix("alone:") {
            Some(name) => Ok(vec![vec![member(name, word, names)?]]),
            None if names.contains(&word) => Err(format!("`{word}` is not an arm; write `alone:{word}`")),
            None => {
                let meant = did_you_mean(word, ["alone", "together", "pairs"]);
                Err(format!("`{word}` is not an arm{meant}; write `alone:NAME`, `alone`, `A+B`, `pairs` or `together`"))
            }
        },
    }
}

/// The members of `A+B`.
fn several(word: &str, names: &[&str]) -> Result<Vec<usize>, String> {
    let members = word.split('+').map(|name| member(name.trim(), word, names));
    let mut members = members.collect::<Result<Vec<_>, _>>()?;
    members.sort_unstable();
    if members.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("arm `{word}` names a workload twice"));
    }
    Ok(members)
}

fn member(name: &str, word: &str, names: &[&str]) -> Result<usize, String> {
    names.iter().position(|known| *known == name).ok_or_else(|| {
        let meant = did_you_mean(name, names.iter().copied());
        format!("arm `{word}`: there is no workload `{name}`{meant}; there are {}", choices(names))
    })
}
