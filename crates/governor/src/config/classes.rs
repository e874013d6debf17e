//! The classes and the rules that assign sessions to them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_notation::sql::fingerprint;
use plimsoll_notation::{At, did_you_mean, listed};
use plimsoll_policy::cache_use::CacheUse;
use plimsoll_policy::{ClassIndex, ClassLimits, ClassRule, ClassRules, ClassTerms, Priority, Target};

use super::resolve::{Reader, place_of};
use super::typed::{TypedClass, TypedPreemptible, TypedRule, TypedSettings};
use crate::settings::{ClassSettings, CpuShare, DiskUse, Held, cache_fault, target_faults};
use crate::statistics::CLASSES_MAX;

/// The default nice value of classes with priority low.
const NICE_OF_LOW: i32 = 10;

/// How often a transaction that the server has aborted is replayed, by default. Each attempt is less likely to lose the
/// next cycle, so more than two or three are rarely needed.
const RETRY_ABORTED: u32 = 20;

/// The classes and rules of a file. Existing classes keep their places.
pub(super) fn resolve(typed: &TypedSettings, read: &mut Reader<'_>) -> Option<(Vec<ClassSettings>, ClassRules)> {
    let mut classes: Vec<ClassSettings> = if typed.classes.is_empty() {
        vec![usual("high", Priority::HIGH), usual("low", Priority::LOW)]
    } else {
        typed.classes.iter().map(|class| self::class(class, read)).collect()
    };
    make_prompt(typed, &mut classes);
    check_names(&typed.classes, read);
    let place = |class: &ClassSettings| read.surroundings.classes.iter().position(|name| *name == class.name);
    classes.sort_by_key(|class| place(class).unwrap_or(usize::MAX));
    check_targets(typed, &classes, read);
    check_cache(typed, &classes, read);
    let names: Vec<String> = classes.iter().map(|class| class.name.clone()).collect();
    let missing: Vec<&str> =
        read.surroundings.classes.iter().filter(|name| !names.contains(name)).map(String::as_str).collect();
    if !missing.is_empty() {
        let message = format!(
            "the classes {} are gone; removing or renaming a class needs a restart, because sessions are in it",
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
        has_mpl: class.limits.mpl.is_some(),
        settable_by: class.settable_by.clone(),
    });
    let terms = terms.collect();
    let rules = rules.into_iter().collect::<Option<Vec<_>>>()?;
    Some((classes, ClassRules::new(terms, rules, default?)))
}

/// If any class gets a smaller CPU share, classes without a `cpu` key get a core at once.
fn make_prompt(typed: &TypedSettings, classes: &mut [ClassSettings]) {
    if !classes.iter().any(|class| class.cpu.is_less()) {
        return;
    }
    for (place, class) in classes.iter_mut().enumerate() {
        let is_said = typed.classes.get(place).is_some_and(|typed| typed.value().cpu.is_some());
        if !is_said && class.cpu == CpuShare::Untouched {
            class.cpu = CpuShare::Prompt;
        }
    }
}

/// A class with a priority and defaults.
fn usual(name: &str, priority: Priority) -> ClassSettings {
    let is_low = priority == Priority::LOW;
    ClassSettings {
        name: name.to_owned(),
        limits: ClassLimits { priority, mpl: None, queue_max: Some(1000), timeout: Some(Duration::from_secs(120)) },
        settable_by: Vec::new(),
        idle_in_transaction_timeout: None,
        cpu: if is_low { CpuShare::Nice(NICE_OF_LOW) } else { CpuShare::Untouched },
        cpu_floor_percent: None,
        disk: if is_low { DiskUse::Yields } else { DiskUse::Untouched },
        cache: CacheUse::ALL,
        control_groups: Arc::default(),
        preemptible: is_low,
        replay: true,
        retries: false,
        retry_aborted: RETRY_ABORTED,
        workers_max: None,
        is_paused: false,
        target: None,
        mpl_min: None,
        held: Held::default(),
    }
}

/// A class, with defaults in place of invalid values, so that rules that name it are not reported as well.
fn class(typed: &At<TypedClass>, read: &mut Reader<'_>) -> ClassSettings {
    let place = typed.span();
    let typed = typed.value();
    let class_place = place.clone();
    let priority = match &typed.priority {
        Some(priority) => {
            let read_priority = priority.value().parse::<Priority>().map_err(|error| error.to_string());
            read.problems.note_at(priority.span(), read_priority)
        }
        None => read.problems.note_at(place, Err("the key `priority` is missing here; add it".to_owned())),
    };
    let mut class = usual(typed.name.value(), priority.unwrap_or_default());
    let limits = &mut class.limits;
    if let Some(mpl) = &typed.mpl {
        limits.mpl = read.number(mpl, 0..=1_000_000);
    }
    if let Some(queue_max) = &typed.queue_max {
        limits.queue_max = read.number(queue_max, 0..=1_000_000);
    }
    if let Some(timeout) = &typed.queue_timeout {
        limits.timeout = read.length(timeout, Duration::from_millis(1));
    }
    let idle = typed.idle_in_transaction_timeout.as_ref();
    class.idle_in_transaction_timeout = idle.and_then(|length| read.length(length, Duration::from_millis(1)));
    class.settable_by = typed.settable_by.iter().filter_map(|user| read.pattern(user)).collect();
    if let Some(cpu) = &typed.cpu {
        class.cpu = read.problems.note_at(cpu.span(), cpu_share(cpu.value())).unwrap_or(class.cpu);
    }
    if let Some(floor) = &typed.cpu_floor_percent {
        class.cpu_floor_percent = cpu_floor(floor, &class, !typed.control_groups.is_empty(), read);
    }
    if let Some(disk) = &typed.disk {
        class.disk = read.word(disk, "use of the disk", &DiskUse::NAMES).unwrap_or(class.disk);
    }
    if let Some(cache) = &typed.cache {
        class.cache = read.problems.note_at(cache.span(), CacheUse::parse(cache.value())).unwrap_or(class.cache);
    }
    class.control_groups = typed.control_groups.iter().filter_map(|folder| control_group(folder, read)).collect();
    class.replay = typed.replay.unwrap_or(class.replay);
    class.retries = typed.retries.unwrap_or(class.retries);
    match typed.preemptible {
        None => {}
        Some(TypedPreemptible::Allowed(allowed)) => class.preemptible = allowed,
        Some(TypedPreemptible::RetryByApplication) if read.is_beside => {
            (class.preemptible, class.retries) = (true, true);
        }
        Some(TypedPreemptible::RetryByApplication) => {
            let message = "preemptible = \"retry-by-application\" is for a governor beside its server ([mode] proxy = false); \
                           in the connection path write preemptible = true, and retries = true if clients retry after 40001";
            read.problems.add(class_place, message);
        }
    }
    if let Some(retry_aborted) = &typed.retry_aborted {
        class.retry_aborted = read.number(retry_aborted, 0..=1000).unwrap_or(class.retry_aborted);
    }
    class.workers_max = typed.workers_max.as_ref().and_then(|workers| read.number(workers, 0..=1024));
    if let Some(target) = &typed.target {
        let read_target = target.value().parse::<Target>().map_err(|error| error.to_string());
        class.target = read.problems.note_at(target.span(), read_target);
    }
    class.mpl_min = typed.mpl_min.as_ref().and_then(|least| read.number(least, 1..=1_000_000));
    class
}

/// A CPU floor, for a class that gets idle cores in one of our groups.
fn cpu_floor(floor: &At<i64>, class: &ClassSettings, has_own_groups: bool, read: &mut Reader<'_>) -> Option<u8> {
    let name = &class.name;
    if class.cpu != CpuShare::Idle {
        let message = format!("class `{name}` has no `cpu = \"idle\"`, and only that needs a floor");
        read.problems.add(floor.span(), message);
    } else if has_own_groups {
        let message = format!("class `{name}` has control groups of its own, whose weights are yours to set");
        read.problems.add(floor.span(), message);
    }
    read.number(floor, 1..=90)
}

/// Reports targets that the governor cannot influence, and bounds that contradict each other.
fn check_targets(typed: &TypedSettings, classes: &[ClassSettings], read: &mut Reader<'_>) {
    let total = typed.admission.mpl.as_ref().and_then(|mpl| u32::try_from(*mpl.value()).ok());
    for fault in target_faults(classes, total) {
        let is_it = |class: &&At<TypedClass>| *class.value().name.value() == classes[fault.class].name;
        let Some(class) = typed.classes.iter().find(is_it) else { continue };
        let key = match (fault.key, &class.value().target, &class.value().mpl_min) {
            ("target", Some(target), _) => target.span(),
            (_, _, Some(least)) => least.span(),
            _ => class.span(),
        };
        read.problems.add(key, format!("class `{}`: {}", classes[fault.class].name, fault.message));
    }
}

/// Reports parts of the cache without the means to confine a process, or that leave ways which no class may fill.
fn check_cache(typed: &TypedSettings, classes: &[ClassSettings], read: &mut Reader<'_>) {
    let is_confined = |part: &&At<String>| CacheUse::parse(part.value()).is_ok_and(CacheUse::is_confined);
    let Some(first) = typed.classes.iter().filter_map(|class| class.value().cache.as_ref()).find(is_confined) else {
        return;
    };
    if typed.control.is_none() {
        let message =
            "`cache` has no effect without `control`, by which the governor learns of the server's processes; add it";
        read.problems.add(first.span(), message);
    }
    if let Some(fault) = cache_fault(classes) {
        read.problems.add(first.span(), fault);
    }
}

/// The folder of a control group. The agent checks whether it exists: it may be created later.
fn control_group(folder: &At<String>, read: &mut Reader<'_>) -> Option<PathBuf> {
    let path = Path::new(folder.value());
    if !path.is_absolute() {
        let example = "\"/sys/fs/cgroup/postgres.slice/reports\"";
        let message = format!("`{}` is not a control group; write its folder, such as {example}", folder.value());
        read.problems.add(folder.span(), message);
        return None;
    }
    Some(path.to_owned())
}

pub(crate) fn cpu_share(text: &str) -> Result<CpuShare, String> {
    let wrong = || {
        format!("`{text}` is not a share of the cores; write `untouched`, `prompt`, `nice 10` (-20 to 19) or `idle`")
    };
    match text {
        "untouched" => Ok(CpuShare::Untouched),
        "prompt" => Ok(CpuShare::Prompt),
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
        let message = format!("there are {} classes, and at most {CLASSES_MAX} are allowed", classes.len());
        read.problems.add(beyond.span(), message);
    }
}

fn named(name: &At<String>, names: &[String], read: &mut Reader<'_>) -> Option<ClassIndex> {
    let place = names.iter().position(|known| known == name.value());
    let wrong = || {
        let meant = did_you_mean(name.value(), names.iter().map(String::as_str));
        format!("there is no class `{}`{meant}; there are {}", name.value(), listed(names.iter().map(String::as_str)))
    };
    let place = read.problems.note_at(name.span(), place.ok_or_else(wrong))?;
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
            let wrong = || format!("`{}` is not a fingerprint; write 16 hexadecimal digits", digits.value());
            read.problems.note_at(digits.span(), number.ok_or_else(wrong)).map(Some)
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
        let message = "this rule has no condition and matches every session; add one, or use `default_class` instead";
        read.problems.add_following(place, message);
        return None;
    }
    Some(rule)
}
