//! `SHOW GOVERN 'statement' key = value …`: what `GOVERN` would do, without doing it.

use plimsoll_policy::Pace;
use plimsoll_settings::governed::Governed;

use crate::admin::answer::{Answer, Cell, Column, Refusal, text};
use crate::admin::change::govern::{lines, wish};
use crate::admin::command::Call;
use crate::history::Window;
use crate::reload::WINDOW;

pub const COLUMNS: &[Column] = &[text("line")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let statement = wish(call)?;
    let lines = format!("{}# {}\n", lines(call, &statement)?, foreseen(call, &statement));
    Ok(Answer::of(lines.lines().map(|line| vec![Cell::from(line)]).collect()))
}

/// What its rate would have done in the last minute, as far as that is known.
fn foreseen(call: &Call<'_>, statement: &Governed) -> String {
    let key = |name: &str| statement.keys.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let Some(rate) = key("rate").and_then(|rate| rate.parse().ok()) else {
        return "it has no rate, so none of its transactions would have waited for one".to_owned();
    };
    let burst = key("burst").and_then(|burst| burst.parse().ok());
    let pace = Pace { rate, burst: burst.unwrap_or_else(|| rate.usual_burst()) };
    let settings = call.governor.settings();
    // Only a class that has this statement alone counts its transactions.
    let is_its = |other: &Governed| other.fingerprint == statement.fingerprint && other.has_own_class();
    let class = call.governor.governed().into_iter().find(is_its).and_then(|own| settings.class_named(&own.class));
    let window = class.and_then(|class| call.governor.history.lock().window(class.0.into(), WINDOW));
    match window {
        Some(window) => beyond(pace, &window),
        None => "what it would have done is not known: its transactions are not counted by themselves; with \
                 guards = warn they are, and nothing waits or ends"
            .to_owned(),
    }
}

fn beyond(pace: Pace, window: &Window) -> String {
    let (ended, seconds) = (window.counts.transactions, window.length.as_secs());
    let waited = ended.saturating_sub(pace.most_within(window.length));
    format!("in the last {seconds} s, at least {waited} of its {ended} transactions would have waited")
}
