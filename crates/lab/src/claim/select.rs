//! Finds the measurements that the selectors of a function mean.

use plimsoll_notation::{alternatives, choices, did_you_mean};
use plimsoll_policy::Priority;
use plimsoll_workload::driver::PriorityRule;
use serde_json::Value;

use super::ClaimError;
use super::bind::{Names, Variable, error};
use super::figures::RequestSubset;
use super::formula::Pin;
use super::parse::number_of;
use super::syntax::{Selector, Span, Word};
use crate::plan::{Arm, SweepTarget, is_target_key};
use plimsoll_display as units;

/// The selectors of one function.
pub(super) struct Selection<'a> {
    names: &'a Names<'a>,
    pub pins: Vec<Pin>,
    /// The axis of the first swept value.
    pub first_axis: Option<usize>,
    arm: Option<usize>,
    workload: Option<usize>,
    class: Option<Priority>,
    transaction: Option<String>,
}

/// The meaning of one selector.
#[derive(Debug, Clone, PartialEq)]
enum Meaning {
    Value(usize, Pin),
    Arm(usize),
    Workload(usize),
    Class(Priority),
    Transaction(String),
}

impl<'a> Selection<'a> {
    pub fn new(
        names: &'a Names<'a>,
        variables: &[Variable],
        selectors: &[Selector],
    ) -> Result<Selection<'a>, ClaimError> {
        let pins = vec![Pin::Each; names.plan.axes.len()];
        let mut selection =
            Selection { names, pins, first_axis: None, arm: None, workload: None, class: None, transaction: None };
        for selector in selectors {
            let variable =
                variables.iter().position(|(name, _)| !selector.value.is_quoted && *name == selector.value.text);
            let meaning = match (&selector.key, variable) {
                (None, Some(depth)) => Meaning::Value(variables[depth].1, Pin::Variable(depth)),
                (None, None) => meaning_of_word(names, &selector.value)?,
                (Some(key), Some(depth)) => {
                    let axis = Self::axis(names, key)?;
                    let runs_over = variables[depth].1;
                    if axis != runs_over {
                        let axis = &names.plan.axes[runs_over].key;
                        let Word { text, span, .. } = &selector.value;
                        return error(span, format!("`{text}` is a value of `{axis}`"));
                    }
                    Meaning::Value(axis, Pin::Variable(depth))
                }
                (Some(key), None) => meaning_of_pair(names, key, &selector.value)?,
            };
            selection.add(meaning, &selector.value.span)?;
        }
        if selection.class.is_some() && selection.transaction.is_some() {
            let span = &selectors.last().expect("two were given").value.span;
            return error(span, "figures exist by class or by transaction, not by both; leave one of them out");
        }
        Ok(selection)
    }

    fn add(&mut self, meaning: Meaning, span: &Span) -> Result<(), ClaimError> {
        fn fill<T>(place: &mut Option<T>, value: T) -> bool {
            place.replace(value).is_none()
        }
        let (is_first, what) = match meaning {
            Meaning::Value(axis, pin) => {
                self.first_axis = self.first_axis.or(Some(axis));
                let is_first = self.pins[axis] == Pin::Each;
                self.pins[axis] = pin;
                (is_first, "values of one sweep key")
            }
            Meaning::Arm(arm) => (fill(&mut self.arm, arm), "arms"),
            Meaning::Workload(workload) => (fill(&mut self.workload, workload), "workloads"),
            Meaning::Class(class) => (fill(&mut self.class, class), "classes"),
            Meaning::Transaction(name) => (fill(&mut self.transaction, name), "transactions"),
        };
        if is_first { Ok(()) } else { error(span, format!("two {what} are selected; one figure has one")) }
    }

    /// The axis that a sweep key means: as typed under `[sweep]`, or with or without the workload's name.
    pub fn axis(names: &Names<'_>, key: &Word) -> Result<usize, ClaimError> {
        let plan = names.plan;
        if let Some(exact) = plan.axes.iter().position(|axis| axis.key == key.text) {
            return Ok(exact);
        }
        let is_meant = |place: &SweepTarget| match place {
            SweepTarget::Target => is_target_key(&key.text),
            SweepTarget::Option(name) => key.text.strip_prefix("target.") == Some(name),
            SweepTarget::Limit(name) => key.text == *name || key.text.strip_prefix("machine.") == Some(name),
            SweepTarget::Workload(workload, field) => {
                let name = &plan.base.workloads[*workload].name;
                key.text == *field || key.text.split_once('.') == Some((name, field))
            }
            SweepTarget::All(_) => false,
        };
        let found: Vec<usize> =
            (0..plan.axes.len()).filter(|&axis| plan.axes[axis].place.parts().iter().any(is_meant)).collect();
        let keys = || plan.axes.iter().map(|axis| axis.key.as_str());
        match found[..] {
            [only] => Ok(only),
            [] if plan.axes.is_empty() => {
                error(&key.span, format!("nothing is swept here, so there is no `{}`", key.text))
            }
            [] => {
                let meant = did_you_mean(&key.text, keys());
                error(&key.span, format!("`{}` is not swept here{meant}; swept are {}", key.text, choices(keys())))
            }
            _ => {
                let found = choices(found.iter().map(|&axis| &plan.axes[axis].key));
                error(&key.span, format!("`{}` can be {found}; write the one you mean", key.text))
            }
        }
    }

    /// The existing meaning of a word in this experiment.
    pub fn known(names: &Names<'_>, text: &str) -> Option<&'static str> {
        if names.plan.axes.iter().any(|axis| axis.key == text) {
            return Some("a sweep key");
        }
        Some(match meanings(names, text).first()? {
            Meaning::Value(..) => "a swept value",
            Meaning::Arm(_) => "an arm",
            Meaning::Workload(_) => "a workload",
            Meaning::Class(_) => "a class",
            Meaning::Transaction(_) => "a transaction",
        })
    }

    /// The one workload that fits all selectors.
    pub fn workload(&self, span: &Span) -> Result<usize, ClaimError> {
        let plan = self.names.plan;
        let name = |workload: &usize| plan.base.workloads[*workload].name.as_str();
        let mut fit: Vec<usize> =
            self.workload.map_or_else(|| (0..plan.base.workloads.len()).collect(), |only| vec![only]);
        if let Some(arm) = self.arm {
            let Arm { name: arm, members } = &plan.arms[arm];
            let who = choices(fit.iter().map(name));
            fit.retain(|workload| members.contains(workload));
            if fit.is_empty() {
                return error(span, format!("{who} does not run in arm `{arm}`"));
            }
        }
        if let Some(class) = self.class {
            let who = choices(fit.iter().map(name));
            fit.retain(|workload| self.has_class(*workload, class));
            if fit.is_empty() {
                let message = format!(
                    "{who} has no requests of class `{class}`; give the workload a priority, as in priority = \"high:0.1\""
                );
                return error(span, message);
            }
        }
        if let Some(transaction) = &self.transaction {
            let before = fit.clone();
            fit.retain(|workload| self.names.transactions[*workload].contains(transaction));
            if fit.is_empty() {
                let there = before.iter().flat_map(|workload| &self.names.transactions[*workload]);
                let who = choices(before.iter().map(name));
                return error(span, format!("{who} has no transaction `{transaction}`; there are {}", choices(there)));
            }
        }
        match fit[..] {
            [only] => Ok(only),
            _ => error(
                span,
                format!("this can be of {}; name the workload that you mean", choices(fit.iter().map(name))),
            ),
        }
    }

    /// The arm selected, or the only one in which the workload runs.
    pub fn arm(&self, workload: usize, span: &Span) -> Result<usize, ClaimError> {
        let arms = &self.names.plan.arms;
        if let Some(arm) = self.arm {
            return Ok(arm);
        }
        let fit: Vec<usize> = (0..arms.len()).filter(|&arm| arms[arm].members.contains(&workload)).collect();
        let name = &self.names.plan.base.workloads[workload].name;
        match fit[..] {
            [only] => Ok(only),
            [] => error(span, format!("`{name}` runs in no arm; add alone:{name} to `arms`")),
            _ => {
                let choices = choices(fit.iter().map(|&arm| &arms[arm].name));
                error(span, format!("`{name}` runs in several arms; name the one that you mean: {choices}"))
            }
        }
    }

    /// The arm in which the workload is not alone: the one selected, `together`, or the only one. It must run alone too.
    pub(crate) fn arm_of_ratio(&self, workload: usize, span: &Span) -> Result<usize, ClaimError> {
        let plan = self.names.plan;
        let name = &plan.base.workloads[workload].name;
        if !plan.arms.iter().any(|arm| arm.members == [workload]) {
            return error(span, format!("a ratio needs `{name}` alone to compare with; add alone:{name} to `arms`"));
        }
        let is_shared = |arm: &Arm| arm.members.len() > 1 && arm.members.contains(&workload);
        if let Some(arm) = self.arm {
            let Arm { name: arm_name, .. } = &plan.arms[arm];
            return if is_shared(&plan.arms[arm]) {
                Ok(arm)
            } else {
                error(span, format!("in `{arm_name}` nothing runs beside it; a ratio needs an arm as `together`"))
            };
        }
        let fit: Vec<usize> = (0..plan.arms.len()).filter(|&arm| is_shared(&plan.arms[arm])).collect();
        let all = fit.iter().find(|&&arm| plan.arms[arm].members.len() == plan.base.workloads.len());
        match (all, &fit[..]) {
            (Some(all), _) => Ok(*all),
            (None, [only]) => Ok(*only),
            (None, []) => error(span, format!("`{name}` runs only alone; a ratio needs an arm as `together`")),
            _ => {
                let choices = choices(fit.iter().map(|&arm| &plan.arms[arm].name));
                error(span, format!("`{name}` shares several arms; name the one that you mean: {choices}"))
            }
        }
    }

    pub fn part(&self) -> RequestSubset {
        match (self.class, &self.transaction) {
            (Some(class), _) => RequestSubset::Class(class),
            (None, Some(transaction)) => RequestSubset::Transaction(transaction.clone()),
            (None, None) => RequestSubset::All,
        }
    }

    /// Whether a workload can have requests of a class at any setting.
    fn has_class(&self, workload: usize, class: Priority) -> bool {
        let plan = self.names.plan;
        let priority = SweepTarget::Workload(workload, "priority".to_owned());
        let swept = plan.axes.iter().find(|axis| axis.place.parts().contains(&priority));
        let (transactions, own) = (&self.names.transactions[workload], self.names.priorities.get(workload));
        let gives = |rule: &PriorityRule| {
            let rules = rule.of_transactions(transactions, own.map_or(&[], Vec::as_slice));
            rules.iter().any(|rule| rule.gives(class))
        };
        match swept {
            None => gives(&plan.base.workloads[workload].clients.priority),
            Some(axis) => {
                let mut rules = axis.values.iter().filter_map(|value| value.as_str()?.parse::<PriorityRule>().ok());
                rules.any(|rule| gives(&rule))
            }
        }
    }
}

/// Every meaning that a word has by itself.
fn meanings(names: &Names<'_>, text: &str) -> Vec<Meaning> {
    let plan = names.plan;
    let mut found: Vec<Meaning> = Vec::new();
    for (axis, swept) in plan.axes.iter().enumerate() {
        let at = swept.values.iter().position(|value| is_value(value, text));
        found.extend(at.map(|position| Meaning::Value(axis, Pin::At(position))));
    }
    found.extend(arm(names, text).map(Meaning::Arm));
    found.extend(workload(names, text).map(Meaning::Workload));
    found.extend(text.parse().ok().map(Meaning::Class));
    let has_it = |list: &[String]| list.iter().any(|name| name == text);
    let mut with_transaction =
        names.plan.base.workloads.iter().zip(names.transactions).filter(|(_, list)| has_it(list)).peekable();
    if with_transaction.peek().is_some() {
        // A workload that has nothing but one transaction of its own name is that transaction.
        let is_workload = with_transaction.all(|(workload, list)| workload.name == text && list.len() == 1);
        found.extend((!is_workload).then(|| Meaning::Transaction(text.to_owned())));
    }
    found
}

fn meaning_of_word(names: &Names<'_>, word: &Word) -> Result<Meaning, ClaimError> {
    let mut found = meanings(names, &word.text);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let plan = names.plan;
            let values = plan.axes.iter().flat_map(|axis| &axis.values).map(units::value);
            let known = values
                .chain(plan.arms.iter().map(|arm| arm.name.clone()))
                .chain(plan.base.workloads.iter().map(|workload| workload.name.clone()))
                .chain(Priority::USUAL.map(|class| class.to_string()))
                .chain(names.transactions.iter().flatten().cloned());
            let known: Vec<String> = known.collect();
            let meant = did_you_mean(&word.text, known.iter().map(String::as_str));
            let arms = choices(plan.arms.iter().map(|arm| &arm.name));
            let message = format!(
                "`{}` is not a swept value, arm, workload, class or transaction here{meant}; the arms are {arms}",
                word.text
            );
            error(&word.span, message)
        }
        _ => {
            let written = |meaning: &Meaning| match meaning {
                Meaning::Value(axis, _) => format!("{}={}", names.plan.axes[*axis].key, word.text),
                Meaning::Arm(_) => format!("arm={}", word.text),
                Meaning::Workload(_) => format!("workload={}", word.text),
                Meaning::Class(_) => format!("class={}", word.text),
                Meaning::Transaction(_) => format!("transaction={}", word.text),
            };
            let message = format!("`{}` is ambiguous; write {}", word.text, alternatives(found.iter().map(written)));
            error(&word.span, message)
        }
    }
}

fn meaning_of_pair(names: &Names<'_>, key: &Word, value: &Word) -> Result<Meaning, ClaimError> {
    let plan = names.plan;
    let is_swept = plan.axes.iter().any(|axis| axis.key == key.text);
    let text = value.text.as_str();
    let none =
        |what: &str, there: String| error(&value.span, format!("there is no {what} `{text}`; there are {there}"));
    match key.text.as_str() {
        "arm" if !is_swept => match arm(names, text) {
            Some(arm) => Ok(Meaning::Arm(arm)),
            None => none("arm", choices(plan.arms.iter().map(|arm| &arm.name))),
        },
        "workload" if !is_swept => match workload(names, text) {
            Some(workload) => Ok(Meaning::Workload(workload)),
            None => none("workload", choices(plan.base.workloads.iter().map(|workload| &workload.name))),
        },
        "class" if !is_swept => match text.parse() {
            Ok(class) => Ok(Meaning::Class(class)),
            Err(_) => none("class", choices(Priority::USUAL)),
        },
        "transaction" if !is_swept => Ok(Meaning::Transaction(text.to_owned())),
        _ => {
            let position = Selection::axis(names, key)?;
            let axis = &plan.axes[position];
            match axis.values.iter().position(|known| is_value(known, text)) {
                Some(at) => Ok(Meaning::Value(position, Pin::At(at))),
                None => {
                    let there = choices(axis.values.iter().map(units::value));
                    error(&value.span, format!("`{}` is not swept to `{text}`; its values are {there}", axis.key))
                }
            }
        }
    }
}

/// The arm of that name, its members in any order.
fn arm(names: &Names<'_>, text: &str) -> Option<usize> {
    let plan = names.plan;
    let by_name = plan.arms.iter().position(|arm| arm.name == text);
    by_name.or_else(|| {
        let mut members: Vec<usize> = text.split('+').map(|name| workload(names, name)).collect::<Option<_>>()?;
        members.sort_unstable();
        (members.len() > 1).then(|| plan.arms.iter().position(|arm| arm.members == members))?
    })
}

fn workload(names: &Names<'_>, text: &str) -> Option<usize> {
    names.plan.base.workloads.iter().position(|workload| workload.name == text)
}

/// Whether a text means a swept value: numbers are compared by value, everything else by its letters.
fn is_value(value: &Value, text: &str) -> bool {
    match value {
        Value::Number(number) => number_of(text) == number.as_f64(),
        Value::Bool(flag) => text.parse() == Ok(*flag),
        _ => units::value(value) == text,
    }
}
