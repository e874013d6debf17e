//! `SHOW CLASSES`.

use std::sync::atomic::Ordering::Relaxed;

use plimsoll_policy::ClassIndex;

use crate::admin::answer::{Answer, Cell, Column, Refusal, boolean, int, text};
use crate::admin::command::Call;

/// The columns.
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
    text("cpu"),
    text("rules"),
];

/// The rows.
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
        vec![
            Cell::from(class.name.as_str()),
            class.limits.priority.to_string().into(),
            class.mpl_in_force().into(),
            governor.statistics.class(index).inside.load(Relaxed).into(),
            waiting.iter().filter(|waiting| waiting.class == index).count().into(),
            class.limits.queue_max.into(),
            sessions.iter().filter(|card| card.state().class == index).count().into(),
            class.is_paused.into(),
            class.preemptible.into(),
            class.replay.into(),
            class.retries.into(),
            class.cpu_in_force().to_string().into(),
            rules.join("; ").into(),
        ]
    };
    Ok(Answer::of((0..).map(ClassIndex).zip(&settings.classes).map(row).collect()))
}
