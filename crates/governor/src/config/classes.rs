//! The classes and who belongs to them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_policy::{ClassIndex, ClassLimits, ClassRule, ClassRules, ClassTerms, Priority};

use super::problem::{listed, suggestion};
use super::resolve::{Reader, place_of};
use super::typed::{At, TypedClass, TypedRule, TypedSettings};
use crate::settings::{ClassSettings, CpuShare, DiskUse};
use crate::statement::fingerprint;
use crate::statistics::CLASSES_MAX;

/// What the nice value of classes with priority low is where nothing is said.
const NICE_OF_LOW: i32 = 10;

/// Classes and rules. Those classes that there are already keep their places.
pub(super) fn resolve(typed: &TypedSettings, read: &mut Reader<'_>) -> Option<(Vec<ClassSettings>, ClassRules)> {
    let mut classes: Vec<ClassSettings> = if typed.classes.is_empty() {
        vec![usual("high", Priority::HIGH), usual("low", Priority::LOW)]
    } else {
        typed.classes.iter().map(|class| self::class(class, read)).collect()
    };
    check_names(&typed.classes, read);
    let place = |class: &ClassSettings| read.surroundings.classes.iter().position(|name| *name == class.name);
    classes.sort_by_key(|class| place(class).unwrap_or(usize::MAX));
    let names: Vec<String> = classes.iter().map(|class| class.name.clone()).collect();
    let missing: Vec<&str> =
        read.surroundings.classes.iter().filter(|name| !names.contains(name)).map(String::as_str).collect();
    if !missing.is_empty() {
        let message = format!(
            "the classes {} are gone; a class can be taken away or renamed by a restart only, for sessions are in it",
            listed(missing.iter().copied())
        );
        read.problems.add(place_of(&typed.classes), message);
    }
    let rules: Vec<Option<ClassRule>> = typed.rules.iter().map(|rule| self::rule(rule, &names, read)).collect();
    let default = match &typed.default_class {
        Some(default) => named(default, &names, read),
        None => (0..).map(ClassIndex).zip(&classes).min_by_key(|(_, class)| class.limits.priority).map(|(at, _)| at),
    };
    let terms = classes.iter().map(|class| ClassTerms {
        name: class.name.clone(),
        priority: class.limits.priority,
        settable_by: class.settable_by.clone(),
    });
    let terms = terms.collect();
    let rules = rules.into_iter().collect::<Option<Vec<_>>>()?;
    Some((classes, ClassRules::new(terms, rules, default?)))
}

/// A class of which nothing is said but its priority.
fn usual(name: &str, priority: Priority) -> ClassSettings {
    let is_low = priority == Priority::LOW;
    ClassSettings {
        name: name.to_owned(),
        limits: ClassLimits { priority, mpl: None, queue_max: Some(1000), timeout: Some(Duration::from_secs(120)) },
        settable_by: Vec::new(),
        idle_in_transaction_timeout: None,
        cpu: if is_low { CpuShare::Nice(NICE_OF_LOW) } else { CpuShare::Untouched },
        disk: if is_low { DiskUse::Yields } else { DiskUse::Untouched },
        control_groups: Arc::default(),
        preemptible: is_low,
        replay: true,
        retries: false,
        is_paused: false,
    }
}

/// A class, with defaults in the place of what is wrong, so that rules which name it are not wrong as well.
fn class(typed: &At<TypedClass>, read: &mut Reader<'_>) -> ClassSettings {
    let place = typed.span();
    let typed = typed.value();
    let priority = match &typed.priority {
        Some(priority) => {
            let read_priority = priority.value().parse::<Priority>().map_err(|error| error.to_string());
            read.problems.note(priority.span(), read_priority)
        }
        None => read.problems.note(place, Err("the key `priority` is missing here; add it".to_owned())),
    };
    let mut class = usual(typed.name.value(), priority.unwrap_or_default());
    let limits = &mut class.limits;
    if let Some(mpl) = &typed.mpl {
        limits.mpl = read.number(mpl, 0..=1_000_000).map(|mpl| mpl as u32);
    }
    if let Some(queue_max) = &typed.queue_max {
        limits.queue_max = read.number(queue_max, 0..=1_000_000).map(|queue_max| queue_max as u32);
    }
    if let Some(timeout) = &typed.queue_timeout {
        limits.timeout = read.length(timeout, Duration::from_millis(1));
    }
    let idle = typed.idle_in_transaction_timeout.as_ref();
    class.idle_in_transaction_timeout = idle.and_then(|length| read.length(length, Duration::from_millis(1)));
    class.settable_by = typed.settable_by.iter().filter_map(|user| read.pattern(user)).collect();
    if let Some(cpu) = &typed.cpu {
        class.cpu = read.problems.note(cpu.span(), cpu_share(cpu.value())).unwrap_or(class.cpu);
    }
    if let Some(disk) = &typed.disk {
        class.disk = read.word(disk, "use of the disk", &DiskUse::NAMES).unwrap_or(class.disk);
    }
    class.control_groups = typed.control_groups.iter().filter_map(|folder| control_group(folder, read)).collect();
    class.preemptible = typed.preemptible.unwrap_or(class.preemptible);
    class.replay = typed.replay.unwrap_or(class.replay);
    class.retries = typed.retries.unwrap_or(class.retries);
    class
}

/// The folder of a control group. Whether it is there, the agent finds out: it may come later.
fn control_group(folder: &At<String>, read: &mut Reader<'_>) -> Option<PathBuf> {
    let path = Path::new(folder.value());
    if !path.is_absolute() {
        let example = "\"/sys/fs/cgroup/postgres.slice/reports\"";
        let message = format!("`{}` is no control group; write its folder, as {example}", folder.value());
        read.problems.add(folder.span(), message);
        return None;
    }
    Some(path.to_owned())
}

/// Reads a share of the cores.
pub(crate) fn cpu_share(text: &str) -> Result<CpuShare, String> {
    let wrong = || format!("`{text}` is no share of the cores; write `untouched`, `nice 10` (-20 to 19) or `idle`");
    match text {
        "untouched" => Ok(CpuShare::Untouched),
        "idle" => Ok(CpuShare::Idle),
        _ => {
            let value = text.strip_prefix("nice ").and_then(|value| value.trim().parse().ok());
            value.filter(|value| (-20..=19).contains(value)).map(CpuShare::Nice).ok_or_else(wrong)
        }
    }
}

fn check_names(classes: &[At<TypedClass>], read: &mut Reader<'_>) {
    let mut names = BTreeSet::new();
    for class in classes {
        let name = &class.value().name;
        let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if name.value().is_empty() || name.value().len() > 63 || !is_word(name.value()) {
            let message = "a class is named by up to 63 letters, digits, `_`, `-` and `.`";
            read.problems.add(name.span(), format!("`{}` cannot be a class's name; {message}", name.value()));
        } else if !names.insert(name.value().as_str()) {
            read.problems.add(name.span(), format!("there are two classes `{}`; give one another name", name.value()));
        }
    }
    if let Some(beyond) = classes.get(CLASSES_MAX) {
        let message = format!("there are {} classes, and {CLASSES_MAX} at most can be", classes.len());
        read.problems.add(beyond.span(), message);
    }
}

/// The class of that name.
fn named(name: &At<String>, names: &[String], read: &mut Reader<'_>) -> Option<ClassIndex> {
    let place = names.iter().position(|known| known == name.value());
    let wrong = || {
        let meant = suggestion(name.value(), names.iter().map(String::as_str));
        format!("there is no class `{}`{meant}; there are {}", name.value(), listed(names.iter().map(String::as_str)))
    };
    let place = read.problems.note(name.span(), place.ok_or_else(wrong))?;
    u16::try_from(place).ok().map(ClassIndex)
}

fn rule(typed: &At<TypedRule>, names: &[String], read: &mut Reader<'_>) -> Option<ClassRule> {
    let place = typed.span();
    let typed = typed.value();
    let class = named(&typed.class, names, read);
    let mut pattern = |pattern: &Option<At<String>>| match pattern {
        Some(pattern) => read.pattern(pattern).map(Some),
        None => Some(None),
    };
    let (user, database) = (pattern(&typed.user), pattern(&typed.database));
    let (application_name, tag) = (pattern(&typed.application_name), pattern(&typed.tag));
    let fingerprint = match (&typed.fingerprint, &typed.statement) {
        (Some(_), Some(statement)) => {
            read.problems.add(statement.span(), "a rule has a `fingerprint` or a `statement`; leave one out");
            None
        }
        (Some(digits), None) => {
            let right = digits.value().len() == 16;
            let number = right.then(|| u64::from_str_radix(digits.value(), 16).ok()).flatten();
            let wrong = || format!("`{}` is no fingerprint; write 16 hexadecimal digits", digits.value());
            read.problems.note(digits.span(), number.ok_or_else(wrong)).map(Some)
        }
        (None, Some(statement)) => Some(Some(fingerprint(statement.value().as_bytes()))),
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
        let message = "this rule names nothing, so everybody matches; say who, or use `default_class` instead";
        read.problems.add_following(place, message);
        return None;
    }
    Some(rule)
}
