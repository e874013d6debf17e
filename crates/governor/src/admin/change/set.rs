//! `SET key = value`: changes a setting until the next reload.

use plimsoll_notation::{did_you_mean, listed};
use plimsoll_policy::ClassIndex;

use crate::admin::answer::{Answer, Refusal};
use crate::admin::command::Call;
use crate::settings::{Settings, cache_fault, class_key, default_of, means_nothing, settable, target_faults};

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let (key, value) = match call.arguments {
        [key, sign, value @ ..] if (sign == "=" || sign.eq_ignore_ascii_case("to")) && !value.is_empty() => {
            (key.as_str(), joined(value))
        }
        _ => return Err(Refusal::new("42601", "write SET key = value").hint("SHOW CONFIG has the keys.")),
    };
    change(call, key, &value)
}

/// `RESET key`: gives a setting its default until the next reload.
pub fn reset(call: &Call<'_>) -> Result<Answer, Refusal> {
    let [key] = call.arguments else {
        return Err(Refusal::new("42601", "write RESET key").hint("SHOW CONFIG has the keys."));
    };
    let Some(default) = default_of(key) else {
        let message = format!("\"{key}\" has no default that can be set");
        return Err(Refusal::new("42704", message).hint("SET key = value gives it a value."));
    };
    change(call, key, default)
}

fn change(call: &Call<'_>, key: &str, value: &str) -> Result<Answer, Refusal> {
    let mut wanted = (*call.governor.settings()).clone();
    if let Some(why) = means_nothing(key, true).filter(|_| wanted.is_beside) {
        return Err(super::not_beside(key).hint(format!("Beside a server: {why}.")));
    }
    apply(&mut wanted, key, value)?;
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
        let _ = apply(settings, key, value);
    });
    let changed = changed.map_err(|error| Refusal::new("F0000", error.to_string()))?;
    let mut notices = changed.changed;
    if notices.is_empty() {
        notices.push(format!("{key} was {value} already"));
    }
    notices.extend(changed.warnings.into_iter().map(|warning| format!("warning: {warning}")));
    Ok(Answer { notices, ..Answer::default() })
}

/// The words of a value, such as `nice 10` or `after(50ms)`, as one text.
fn joined(words: &[String]) -> String {
    words.join(" ").replace(" ( ", "(").replace(" )", ")")
}

fn apply(settings: &mut Settings, key: &str, value: &str) -> Result<(), Refusal> {
    if let Some((class, _)) = class_key(key).filter(|(class, _)| settings.class_named(class).is_none()) {
        let known = settings.classes.iter().map(|class| class.name.as_str());
        let message = format!("there is no class \"{class}\"{}", did_you_mean(class, known));
        return Err(Refusal::new("42704", message));
    }
    match settings.set(key, value) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let (all, of_class) = settable();
            let all = || all.iter().map(String::as_str);
            let message = format!("there is no setting \"{key}\" that can be set{}", did_you_mean(key, all()));
            let hint = format!("There are {} and, as class.NAME.KEY, {}.", listed(all()), listed(of_class));
            Err(Refusal::new("42704", message).hint(hint))
        }
        Err(why) => Err(Refusal::new("22023", format!("{key}: {why}"))),
    }
}
