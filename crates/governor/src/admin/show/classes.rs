//! `SHOW CLASSES`.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use plimsoll_policy::ClassIndex;

use crate::admin::answer::{Answer, Cell, Column, Refusal, boolean, float, int, text};
use crate::admin::command::Call;
use crate::statistics::two_digits;

/// The period that `p95_ms` covers.
const PERIOD: Duration = Duration::from_secs(60);

pub const COLUMNS: &[Column] = &[
    text("class"),
    text("priority"),
    int("mpl"),
    int("admitted"),
    int("queued"),
    int("queue_max"),
    int("sessions"),
    boolean("paused"),
    boolean("preemptible"),
    boolean("replay"),
    boolean("retries"),
    int("retry_aborted"),
    text("cpu"),
    float("p95_ms"),
    text("rules"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let governor = call.governor;
    let settings = governor.settings();
    let waiting = governor.waiting();
    let sessions = governor.registry.all();
    let row = |(index, class): (ClassIndex, &crate::settings::ClassSettings)| {
        let rules = settings.rules.rules().iter().enumerate().filter(|(_, rule)| rule.class == index);
        let mut rules: Vec<String> = rules.map(|(place, _)| settings.rules.describe(Some(place))).collect();
        if settings.rules.default_class() == index {
            rules.push("default".to_owned());
        }
        let window = governor.history.lock().window(index.0.into(), PERIOD);
        // Rounded to its two significant digits; null without transactions.
        let p95_ms = window.and_then(|window| window.counts.transaction_times.percentile(0.95));
        vec![
            Cell::from(class.name.as_str()),
            class.limits.priority.to_string().into(),
            class.mpl_in_force().into(),
            governor.statistics.class(index).inside.load(Relaxed).into(),
            waiting.iter().filter(|waiting| waiting.class == index).count().into(),
            class.limits.queue_max.filter(|_| !settings.is_beside).into(),
            sessions.iter().filter(|card| card.state().class == index).count().into(),
            class.is_paused.into(),
            class.preemptible.into(),
            (!settings.is_beside && class.replay).into(),
            class.retries.into(),
            class.retry_aborted.into(),
            class.cpu_in_force().to_string().into(),
            p95_ms.map(|p95| two_digits(p95.as_secs_f64() * 1e3)).into(),
            rules.join("; ").into(),
        ]
    };
    Ok(Answer::of(settings.indexed().map(row).collect()))
}
