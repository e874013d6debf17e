//! The classes and the rules that assign sessions to them.

use std::collections::BTreeSet;

use plimsoll_notation::sql::fingerprint;
use plimsoll_notation::{did_you_mean, listed};
use plimsoll_policy::cache_use::CacheUse;
use plimsoll_policy::{ClassIndex, ClassRule, ClassRules, ClassTerms, Priority};
use toml::de::DeTable;

use super::resolve::Reader;
use super::tables::{Placed, Said, place, said, tables};
use crate::settings::{CLASSES_MAX, ClassSettings, CpuShare, Settings, cache_fault, target_faults};
use crate::table::{CLASS, RULE};
use crate::values;

/// Puts the classes and rules of a file in place. Existing classes keep their places.
pub(super) fn resolve(root: &DeTable<'_>, all: &mut Settings, read: &mut Reader<'_>) {
    let given = tables(root, "class");
    all.classes = if given.is_empty() {
        [("high", Priority::HIGH), ("low", Priority::LOW)].map(|(name, priority)| usual(name, priority, read)).into()
    } else {
        given.iter().map(|given| class(given, read)).collect()
    };
    make_prompt(&given, &mut all.classes);
    check_names(&given, read);
    let existing = read.cx.surroundings.classes;
    let place = |class: &ClassSettings| existing.iter().position(|name| *name == class.name);
    all.classes.sort_by_key(|class| place(class).unwrap_or(usize::MAX));
    check_targets(&given, all, read);
    check_cache(root, &given, all, read);
    check_pool(&given, all, read);
    let names: Vec<String> = all.classes.iter().map(|class| class.name.clone()).collect();
    let missing: Vec<&str> = existing.iter().filter(|name| !names.contains(name)).map(String::as_str).collect();
    if !missing.is_empty() {
        let message = format!(
            "the classes {} are gone; removing or renaming a class needs a restart, because sessions are in it",
            listed(missing.iter().copied())
        );
        read.problems.add(given.first().map_or(0..0, |(_, place)| place.clone()), message);
    }
    let rules: Vec<Option<ClassRule>> =
        tables(root, "rule").iter().map(|given| self::rule(given, &names, read)).collect();
    let default = match said(root, "default_class") {
        Some(default) => named(&default, &names, read),
        None => all.indexed().min_by_key(|(_, class)| class.limits.priority).map(|(place, _)| place),
    };
    let terms = all.classes.iter().map(|class| ClassTerms {
        name: class.name.clone(),
        priority: class.limits.priority,
        has_mpl: class.limits.mpl.is_some(),
        settable_by: class.settable_by.clone(),
    });
    // What is missing was noted as a problem.
    if let (Some(rules), Some(default)) = (rules.into_iter().collect(), default) {
        all.rules = ClassRules::new(terms.collect(), rules, default);
    }
}

/// If any class gets a smaller CPU share, classes without a `cpu` key get a core at once.
fn make_prompt(given: &[Placed<'_>], classes: &mut [ClassSettings]) {
    if !classes.iter().any(|class| class.cpu.is_less()) {
        return;
    }
    for (place, class) in classes.iter_mut().enumerate() {
        let is_said = given.get(place).is_some_and(|(given, _)| given.contains_key("cpu"));
        if !is_said && class.cpu == CpuShare::Untouched {
            class.cpu = CpuShare::Prompt;
        }
    }
}

/// A class with a priority and defaults.
fn usual(name: &str, priority: Priority, read: &Reader<'_>) -> ClassSettings {
    let mut class = ClassSettings::of(name, priority);
    CLASS.iter().for_each(|row| row.put_default(&mut class, &read.cx));
    class
}

/// A class, with defaults in place of invalid values, so that rules that name it are not reported as well.
fn class(given: &Placed<'_>, read: &mut Reader<'_>) -> ClassSettings {
    let (typed, _) = given;
    let priority = said(typed, "priority").and_then(|priority| {
        let parsed = priority.text.parse::<Priority>().map_err(|error| error.to_string());
        read.problems.note_at(priority.span, parsed)
    });
    let name = said(typed, "name").map_or("", |name| name.text);
    let mut class = usual(name, priority.unwrap_or_default(), read);
    read.rows(CLASS, &mut class, given);
    if typed.contains_key("cpu_floor_percent") {
        let floor = place(Some(typed), "cpu_floor_percent");
        if class.cpu != CpuShare::Idle {
            let message = format!("class `{name}` has no `cpu = \"idle\"`, and only that needs a floor");
            read.problems.add(floor, message);
        } else if !class.control_groups.is_empty() {
            let message = format!("class `{name}` has control groups of its own, whose weights are yours to set");
            read.problems.add(floor, message);
        }
    }
    class
}

/// Reports targets that the governor cannot influence, and bounds that contradict each other.
fn check_targets(given: &[Placed<'_>], all: &Settings, read: &mut Reader<'_>) {
    for fault in target_faults(&all.classes, all.total_mpl) {
        let name = &all.classes[fault.class].name;
        let is_it = |(given, _): &&Placed<'_>| said(given, "name").is_some_and(|given| given.text == name);
        if let Some((typed, _)) = given.iter().find(is_it) {
            read.problems.add(place(Some(typed), fault.key), format!("class `{name}`: {}", fault.message));
        }
    }
}

/// Reports parts of the cache without the means to confine a process, or that leave ways which no class may fill.
fn check_cache(root: &DeTable<'_>, given: &[Placed<'_>], all: &Settings, read: &mut Reader<'_>) {
    let is_confined = |part: &Said<'_>| CacheUse::parse(part.text).is_ok_and(CacheUse::is_confined);
    let Some(first) = given.iter().filter_map(|(typed, _)| said(typed, "cache")).find(is_confined) else { return };
    if !root.contains_key("control") {
        let message =
            "`cache` has no effect without `control`, by which the governor learns of the server's processes; add it";
        read.problems.add(first.span.clone(), message);
    }
    if let Some(fault) = cache_fault(&all.classes) {
        read.problems.add(first.span, fault);
    }
}

/// Reports classes that are promised more connections than a pool has.
fn check_pool(given: &[Placed<'_>], all: &Settings, read: &mut Reader<'_>) {
    let kept: u32 = all.classes.iter().map(|class| class.pool_min).sum();
    for (typed, _) in given {
        let Some(class) = said(typed, "name").and_then(|name| all.class_named(name.text)) else { continue };
        let class = all.class(class);
        let name = &class.name;
        if kept > all.pool.size && class.pool_min > 0 {
            let message = format!(
                "class `{name}`: the classes' `pool_min` add up to {kept}, and a pool has {} connections; raise `size` in [pool]",
                all.pool.size
            );
            read.problems.add(place(Some(typed), "pool_min"), message);
        } else if let Some(most) = class.pool_max.filter(|most| *most < class.pool_min) {
            let message =
                format!("class `{name}`: `pool_min` is {}, more than its `pool_max` of {most}", class.pool_min);
            read.problems.add(place(Some(typed), "pool_min"), message);
        }
    }
}

fn check_names(given: &[Placed<'_>], read: &mut Reader<'_>) {
    let mut names = BTreeSet::new();
    for name in given.iter().filter_map(|(typed, _)| said(typed, "name")) {
        let text = name.text;
        let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if text.is_empty() || text.len() > 63 || !is_word(text) {
            let message = "a class is named by up to 63 letters, digits, `_`, `-` and `.`";
            read.problems.add(name.span, format!("`{text}` cannot be a class's name; {message}"));
        } else if !names.insert(text) {
            read.problems.add(name.span, format!("there are two classes `{text}`; give one another name"));
        }
    }
    if let Some((_, beyond)) = given.get(CLASSES_MAX) {
        let message = format!("there are {} classes, and at most {CLASSES_MAX} are allowed", given.len());
        read.problems.add(beyond.clone(), message);
    }
}

fn named(name: &Said<'_>, names: &[String], read: &mut Reader<'_>) -> Option<ClassIndex> {
    let place = names.iter().position(|known| known == name.text);
    let wrong = || {
        let meant = did_you_mean(name.text, names.iter().map(String::as_str));
        format!("there is no class `{}`{meant}; there are {}", name.text, listed(names.iter().map(String::as_str)))
    };
    let place = read.problems.note_at(name.span.clone(), place.ok_or_else(wrong))?;
    u16::try_from(place).ok().map(ClassIndex)
}

fn rule(given: &Placed<'_>, names: &[String], read: &mut Reader<'_>) -> Option<ClassRule> {
    read.rows(RULE, &mut (), given);
    let (typed, place) = given;
    let class = said(typed, "class").and_then(|class| named(&class, names, read));
    let mut pattern = |key: &str| match said(typed, key) {
        Some(pattern) => read.problems.note_at(pattern.span, values::pattern(pattern.text)).map(Some),
        None => Some(None),
    };
    let (user, database) = (pattern("user"), pattern("database"));
    let (application_name, tag) = (pattern("application_name"), pattern("tag"));
    let fingerprint = match (said(typed, "fingerprint"), said(typed, "statement")) {
        (Some(_), Some(statement)) => {
            read.problems.add(statement.span, "a rule has a `fingerprint` or a `statement`; leave one out");
            None
        }
        (Some(Said { text: digits, span }), None) => {
            let right = digits.len() == 16;
            let number = right.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
            let wrong = || format!("`{digits}` is not a fingerprint; write 16 hexadecimal digits");
            read.problems.note_at(span, number.ok_or_else(wrong)).map(Some)
        }
        (None, Some(statement)) => Some(Some(fingerprint(statement.text.as_bytes()))),
        (None, None) => Some(None),
    };
    let rule = ClassRule {
        class: class?,
        user: user?,
        database: database?,
        application_name: application_name?,
        tag: tag?,
        fingerprint: fingerprint?,
    };
    if rule.to_string() == "everything" {
        let message = "this rule has no condition and matches every session; add one, or use `default_class` instead";
        read.problems.add_following(place.clone(), message);
        return None;
    }
    Some(rule)
}
