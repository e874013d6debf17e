//! `SET key = value`: changes a setting until the next reload.

use std::time::Duration;

use plimsoll_notation::{did_you_mean, listed};
use plimsoll_policy::cache_use::CacheUse;
use plimsoll_policy::{ClassIndex, ParseTargetError, Target};

use crate::admin::answer::{Answer, Refusal};
use crate::admin::command::Call;
use crate::config::typed::RETRY_BY_APPLICATION;
use crate::config::{LOOK_LEAST, cpu_share, means_nothing_beside, preemption_policy, quantity};
use crate::settings::{ClassSettings, Settings, cache_fault, target_faults};

/// Parses a value and sets it. The error says why the value is invalid.
type Setter<Of> = fn(&mut Of, &str) -> Result<(), String>;

/// A key, and what sets its value.
type Key<Of> = (&'static str, Setter<Of>);

/// The keys that can be set for the whole governor.
const KEYS: [Key<Settings>; 11] = [
    ("admission.mpl", |all, value| bound(value).map(|mpl| all.total_mpl = mpl)),
    ("admission.auto_mpl", |all, value| truth(value).map(|auto_mpl| all.auto_mpl = auto_mpl)),
    ("preemption.policy", |all, value| preemption_policy(value).map(|policy| all.preemption.policy = policy)),
    ("preemption.threshold", |all, value| length(value).map(|length| all.preemption.threshold = length)),
    ("preemption.look_interval", |all, value| length(value).map(|length| all.preemption.look_interval = length)),
    ("preemption.weigh", |all, value| truth(value).map(|weigh| all.preemption.weigh = weigh)),
    ("preemption.idle_counts_as_waiting", |all, value| {
        truth(value).map(|counts| all.preemption.idle_counts_as_waiting = counts)
    }),
    ("cpu.shares", |all, value| truth(value).map(|shares| all.cpu.shares = shares)),
    ("cpu.inheritance", |all, value| truth(value).map(|inheritance| all.cpu.inheritance = inheritance)),
    ("cpu.awake", |all, value| truth(value).map(|awake| all.cpu.awake = awake)),
    ("disk.limits", |all, value| truth(value).map(|limits| all.disk.limits = limits)),
];

/// The keys that can be set for a class, as `class.NAME.KEY`.
const CLASS_KEYS: [Key<ClassSettings>; 10] = [
    ("mpl", |class, value| bound(value).map(|mpl| class.limits.mpl = mpl)),
    ("queue_max", |class, value| bound(value).map(|queue_max| class.limits.queue_max = queue_max)),
    ("preemptible", |class, value| truth(value).map(|preemptible| class.preemptible = preemptible)),
    ("replay", |class, value| truth(value).map(|replay| class.replay = replay)),
    ("retries", |class, value| truth(value).map(|retries| class.retries = retries)),
    ("retry_aborted", |class, value| attempts(value).map(|attempts| class.retry_aborted = attempts)),
    ("workers_max", |class, value| bound(value).map(|workers_max| class.workers_max = workers_max)),
    ("cpu", |class, value| cpu_share(value).map(|cpu| class.cpu = cpu)),
    ("cache", |class, value| CacheUse::parse(value).map(|cache| class.cache = cache)),
    ("target", |class, value| target(value).map(|target| class.target = target)),
];

fn find<Of>(keys: &[Key<Of>], key: &str) -> Option<Setter<Of>> {
    keys.iter().find(|(known, _)| *known == key).map(|(_, set)| *set)
}

/// Whether that key of `SHOW CONFIG` can be set.
pub(crate) fn can_be_set(key: &str) -> bool {
    find(&KEYS, key).is_some() || class_key(key).is_some_and(|(_, key)| find(&CLASS_KEYS, key).is_some())
}

fn class_key(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("class.")?.rsplit_once('.')
}

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let (key, value) = match call.arguments {
        [key, sign, value @ ..] if (sign == "=" || sign.eq_ignore_ascii_case("to")) && !value.is_empty() => {
            (key.as_str(), joined(value))
        }
        _ => return Err(Refusal::new("42601", "write SET key = value").hint("SHOW CONFIG has the keys.")),
    };
    let mut wanted = (*call.governor.settings()).clone();
    if let Some(why) = means_nothing_beside(key).filter(|_| wanted.is_beside) {
        return Err(super::not_beside(key).hint(format!("Beside a server: {why}.")));
    }
    apply(&mut wanted, key, &value)?;
    for (class, settings) in (0..).map(ClassIndex).zip(&wanted.classes) {
        wanted.rules.set_has_mpl(class, settings.limits.mpl.is_some());
    }
    // The settings were valid before.
    if let Some(fault) = target_faults(&wanted.classes, wanted.total_mpl).first() {
        let class = &wanted.classes[fault.class].name;
        return Err(Refusal::new("22023", format!("class.{class}.{}: {}", fault.key, fault.message)));
    }
    if let Some(fault) = cache_fault(&wanted.classes).filter(|_| key.ends_with(".cache")) {
        return Err(Refusal::new("22023", format!("{key}: {fault}")));
    }
    tracing::warn!(user = call.user, key, value, "console: SET");
    let changed = call.governor.change(|settings| {
        // It was valid a moment ago; a reload in between keeps the same keys and classes.
        let _ = apply(settings, key, &value);
    });
    let changed = changed.map_err(|error| Refusal::new("F0000", error.to_string()))?.changed;
    let notices = if changed.is_empty() { vec![format!("{key} was {value} already")] } else { changed };
    Ok(Answer { rows: Vec::new(), notices })
}

/// The words of a value, such as `nice 10` or `after(50ms)`, as one text.
fn joined(words: &[String]) -> String {
    words.join(" ").replace(" ( ", "(").replace(" )", ")")
}

fn apply(settings: &mut Settings, key: &str, value: &str) -> Result<(), Refusal> {
    let wrong = |why: String| Refusal::new("22023", format!("{key}: {why}"));
    if let Some((class, class_key)) = class_key(key) {
        let Some(place) = settings.class_named(class) else {
            let known = settings.classes.iter().map(|class| class.name.as_str());
            let message = format!("there is no class \"{class}\"{}", did_you_mean(class, known));
            return Err(Refusal::new("42704", message));
        };
        let is_beside = settings.is_beside;
        let class = &mut settings.classes[usize::from(place.0)];
        if is_beside && class_key == "preemptible" {
            // A cancelled statement is retried by the application or not at all.
            class.retries = value == RETRY_BY_APPLICATION;
            let value = if class.retries { "true" } else { value };
            return truth(value).map(|preemptible| class.preemptible = preemptible).map_err(wrong);
        }
        let set = find(&CLASS_KEYS, class_key).ok_or_else(|| unknown(key, &format!("{key}: ")))?;
        return set(class, value).map_err(wrong);
    }
    let set = find(&KEYS, key).ok_or_else(|| unknown(key, ""))?;
    set(settings, value).map_err(wrong)
}

fn unknown(key: &str, beginning: &str) -> Refusal {
    let (all, of_class) = (KEYS.map(|(key, _)| key), CLASS_KEYS.map(|(key, _)| key));
    let message = format!("{beginning}there is no setting \"{key}\" that can be set{}", did_you_mean(key, all));
    let hint = format!("There are {} and, as class.NAME.KEY, {}.", listed(all), listed(of_class));
    Refusal::new("42704", message).hint(hint)
}

fn bound(value: &str) -> Result<Option<u32>, String> {
    match value {
        "any" => Ok(None),
        _ => value.parse().map(Some).map_err(|_| format!("`{value}` is not a number; write a number, or any")),
    }
}

fn attempts(value: &str) -> Result<u32, String> {
    let attempts = value.parse().ok().filter(|attempts| *attempts <= 1000);
    attempts.ok_or_else(|| format!("`{value}` is not a number from 0 to 1000"))
}

fn target(value: &str) -> Result<Option<Target>, String> {
    match value {
        "none" => Ok(None),
        _ => value.parse().map(Some).map_err(|error: ParseTargetError| error.to_string()),
    }
}

/// A duration between looks, or before one: no shorter than configuration files allow.
fn length(value: &str) -> Result<Duration, String> {
    let length = quantity::duration(value)?;
    if length >= LOOK_LEAST { Ok(length) } else { Err(format!("`{value}` is shorter than 100us, the shortest")) }
}

fn truth(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(format!("`{value}` is neither true nor false")),
    }
}
