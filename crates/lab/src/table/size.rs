//! Sizes, in the table: a line for each resource and goal, and the machines of a catalogue.

use std::time::Duration;

use serde_json::Value;

use crate::results::{
    CatalogueChoice, Interval, SizeStanding, SizeTrial, SizedLevel, SizedResource, Sizes, SlowDown, SlowDownFinding,
};
use crate::size::words;
use plimsoll_display::{MISSING, distinct, list, plain, rate, seconds, wrap};

/// Columns of a resource's name and of a goal.
const NAME: usize = 16;
const GOAL: usize = 22;

/// The section.
pub(super) fn lines(sizes: &Sizes) -> Vec<String> {
    let mut out = vec![String::new()];
    let full = sizes.full_per_s.map_or_else(|| MISSING.to_owned(), |full| rate(full.value));
    out.push(format!("The least that is enough for {} (full speed: {full})", sizes.workload));
    out.push(format!("  {:<NAME$}{:<GOAL$}{:>16}{:>16}", "resource", "for", "more than", "at most"));
    let promise = sizes.promise.as_ref().map(|promise| promise.text.as_str());
    for resource in &sizes.resources {
        out.extend(of_resource(resource, promise));
    }
    if let Some(others) = &sizes.others {
        out.extend(wrap(&format!("{others}; brackets are wider for it"), "  ", "    "));
    }
    if sizes.out_of_time {
        let took = format!(
            "the time was over after {}; more decides what is not decided, and narrows the brackets (--budget {})",
            seconds(sizes.took_s),
            words::longer(Duration::from_secs_f64(sizes.budget_s))
        );
        out.extend(wrap(&took, "  ", "    "));
    }
    if !sizes.not_tried.is_empty() {
        out.push(String::new());
        out.push("Not tried".to_owned());
    }
    for one in &sizes.not_tried {
        let remedy = one.remedy.as_ref().map(|remedy| format!("; remedy: {remedy}")).unwrap_or_default();
        out.extend(wrap(&format!("{}: {}{remedy}", one.resource, one.why), "  ", "    "));
    }
    out.extend(slow_downs(sizes));
    out.extend(sizes.catalogue.iter().flat_map(machines));
    out
}

/// What the least amounts do to each kind of request: a line for each kind, the resources that hurt it or change its
/// plan, and the others.
fn slow_downs(sizes: &Sizes) -> Vec<String> {
    let requests = distinct(sizes.slow_downs.iter().map(|one| one.request.as_str()));
    if requests.is_empty() {
        return Vec::new();
    }
    let mut out = vec![String::new(), "Which request is hurt by what (times as slow as with everything)".to_owned()];
    for request in requests {
        let of_request = sizes.slow_downs.iter().filter(|one| one.request == request);
        // A query that is not hurt may owe that to another plan, with which it may even be faster.
        let is_notable =
            |one: &&SlowDown| one.finding != SlowDownFinding::Insensitive || one.plan_changed == Some(true);
        let (notable, others): (Vec<&SlowDown>, Vec<_>) = of_request.partition(is_notable);
        let mut parts: Vec<String> = notable.into_iter().map(of_slow_down).collect();
        let others: Vec<&str> = others.iter().map(|one| one.resource.as_str()).collect();
        if !others.is_empty() {
            parts.push(format!("not by {}", list(&others)));
        }
        out.extend(wrap(&format!("{request}: {}", parts.join("; ")), "  ", "      "));
    }
    out
}

/// `work_mem 64kB 3.10 (2.90 to 3.30), another plan`.
fn of_slow_down(one: &SlowDown) -> String {
    let Interval { value, low, high } = one.times;
    let unit = words::unit(&one.key);
    let ends = low.zip(high).map(|(low, high)| format!(" ({low:.2} to {high:.2})")).unwrap_or_default();
    let amount = words::amount(&one.amount, unit);
    let name = if unit == one.resource { String::new() } else { format!("{} ", one.resource) };
    let plan = if one.plan_changed == Some(true) { ", another plan" } else { "" };
    let finding = match one.finding {
        SlowDownFinding::Hurt => "",
        SlowDownFinding::Insensitive => ", not hurt",
        SlowDownFinding::Undecided => ", undecided",
    };
    format!("{name}{amount} {value:.2}{ends}{plan}{finding}")
}

fn of_resource(resource: &SizedResource, promise: Option<&str>) -> Vec<String> {
    if let Some(why) = &resource.why_not {
        return wrap(&format!("{}: not determined, because {why}", resource.name), "  ", "    ");
    }
    let written = |value: &Option<Value>, none: &str| {
        value.as_ref().map_or_else(
            || none.to_owned(),
            |value| if *value == resource.full { full(resource) } else { words::amount(value, &resource.unit) },
        )
    };
    let row = |(at, level): (usize, &SizedLevel)| {
        let name = if at == 0 { resource.name.as_str() } else { "" };
        let goal = words::goal(level, promise);
        let (low, mut high) = (written(&level.more_than, "-"), written(&level.at_most, "not known"));
        if words::is_undecided(resource, level) {
            "not decided".clone_into(&mut high);
        }
        format!("  {name:<NAME$}{goal:<GOAL$}{low:>16}{high:>16}")
    };
    let mut out: Vec<String> = resource.levels.iter().enumerate().map(row).collect();
    let tried = resource.trials.iter().filter(|trial| trial.amount != resource.full);
    let tried: Vec<String> = tried.filter_map(|trial| of_trial(resource, trial)).collect();
    if !tried.is_empty() {
        out.extend(wrap(&format!("of full speed: {}", tried.join("; ")), "    ", "      "));
    }
    out
}

/// The full amount in a column: `all (2 cores)`.
fn full(resource: &SizedResource) -> String {
    words::full(resource).replace("the full ", "all ")
}

/// `1.5 cores 0.97 (0.93 to 1.01)`.
fn of_trial(resource: &SizedResource, trial: &SizeTrial) -> Option<String> {
    let Interval { value, low, high } = trial.ratio?;
    let ends = low.zip(high).map(|(low, high)| format!(" ({low:.2} to {high:.2})")).unwrap_or_default();
    let doubt = match trial.runs {
        _ if !trial.is_open => String::new(),
        1 => ", 1 run: too few to decide".to_owned(),
        runs => format!(", {runs} runs: too few to decide"),
    };
    Some(format!("{} {value:.2}{ends}{doubt}", words::amount(&trial.amount, &resource.unit)))
}

fn machines(choice: &CatalogueChoice) -> Vec<String> {
    let mut out = vec![String::new(), format!("Machines, for {}", choice.goal)];
    for (at, machine) in choice.machines.iter().enumerate() {
        let standing = match machine.standing {
            SizeStanding::Kept => "enough",
            SizeStanding::Broken => "too little",
            SizeStanding::Undecided => "undecided",
        };
        let mark = if choice.best == Some(at) { "*" } else { " " };
        out.push(format!("{mark} {:<30}{:>10}  {standing}", machine.name, plain(machine.price)));
        if !machine.why_not.is_empty() {
            out.extend(wrap(&machine.why_not.join("; "), "      ", "      "));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plans_that_change_are_shown_even_where_nothing_is_hurt() {
        let one = |request: &str, finding, plan_changed| SlowDown {
            request: request.to_owned(),
            key: "work_mem".to_owned(),
            resource: "work_mem".to_owned(),
            amount: json!("64kB"),
            times: Interval { value: 0.63, low: Some(0.51), high: Some(0.78) },
            finding,
            plan_changed,
        };
        let slow_downs = vec![
            one("q18", SlowDownFinding::Insensitive, Some(true)),
            one("q1", SlowDownFinding::Insensitive, Some(false)),
            one("q13", SlowDownFinding::Hurt, Some(true)),
            one("q2", SlowDownFinding::Undecided, None),
        ];
        let shown = super::slow_downs(&Sizes { slow_downs, ..Sizes::default() });
        let figures = "work_mem 64kB 0.63 (0.51 to 0.78)";
        assert_eq!(
            shown[2..],
            [
                format!("  q18: {figures}, another plan, not hurt"),
                "  q1: not by work_mem".to_owned(),
                format!("  q13: {figures}, another plan"),
                format!("  q2: {figures}, undecided"),
            ]
        );
    }
}
