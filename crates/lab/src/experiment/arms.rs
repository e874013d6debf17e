//! Who runs at each setting.

use plimsoll_workload::registry::nearest;

use super::problem::{Problem, Problems};
use super::typed::At;
use crate::plan::{Arm, PlannedWorkload};

/// The arms that are listed; without a list, each workload alone and all of several together.
pub(super) fn arms(
    listed: Option<&At<Vec<At<String>>>>,
    workloads: &[PlannedWorkload],
    problems: &mut Problems,
) -> Vec<Arm> {
    let names: Vec<&str> = workloads.iter().map(|workload| workload.name.as_str()).collect();
    let Some(listed) = listed else { return by_default(&names) };
    if listed.value().is_empty() {
        problems
            .add(listed.span(), "`arms` lists nobody, so nothing would run; leave it out for each alone and together");
    }
    let mut arms: Vec<Arm> = Vec::new();
    for word in listed.value() {
        let members = members(word.value(), &names).map_err(|why| Problem::new(word.span(), why));
        for members in problems.note(members).unwrap_or_default() {
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

/// The arms that a word stands for, each by its members in the order of the file.
fn members(word: &str, names: &[&str]) -> Result<Vec<Vec<usize>>, String> {
    let all = 0..names.len();
    let member = |name: &str| {
        let meant = || {
            nearest(name, names.iter().copied()).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
        };
        let list = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let position = names.iter().position(|known| *known == name);
        position.ok_or_else(|| format!("arm `{word}`: there is no workload `{name}`{}; there are {}", meant(), list()))
    };
    match word {
        "alone" => return Ok(all.map(|member| vec![member]).collect()),
        "together" | "pairs" if names.len() < 2 => {
            return Err(format!(
                "arm `{word}` needs two workloads, and there is only `{}`; leave `arms` out",
                names.concat()
            ));
        }
        "together" => return Ok(vec![all.collect()]),
        "pairs" => return Ok(all.flat_map(|one| (one + 1..names.len()).map(move |other| vec![one, other])).collect()),
        _ => {}
    }
    if let Some(name) = word.strip_prefix("alone:") {
        return Ok(vec![vec![member(name)?]]);
    }
    let mut members = word.split('+').map(|name| member(name.trim())).collect::<Result<Vec<_>, _>>();
    if let Ok([_]) = members.as_deref() {
        return Err(format!("`{word}` is no arm; write `alone:{word}`"));
    }
    if !word.contains('+') {
        let why = format!("`{word}` is no arm; write `alone:NAME`, `alone`, `A+B`, `pairs` or `together`");
        members = Err(nearest(word, ["alone", "together", "pairs"])
            .map_or(why, |near| format!("`{word}` is no arm (did you mean `{near}`?)")));
    }
    let mut members = members?;
    members.sort_unstable();
    if members.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("arm `{word}` names a workload twice"));
    }
    Ok(vec![members])
}
