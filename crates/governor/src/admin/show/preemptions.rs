//! `SHOW PREEMPTIONS`.

use jiff::Timestamp;

use crate::admin::answer::{Answer, Cell, Column, Refusal, float, int, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[
    text("at"),
    int("victim"),
    int("victim_pid"),
    text("victim_class"),
    text("victim_was"),
    int("waiter"),
    int("waiter_pid"),
    text("waiter_class"),
    float("waited_ms"),
    text("lever"),
    text("done"),
    text("outcome"),
    float("lost_ms"),
    float("won_ms"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let millis = |length: std::time::Duration| length.as_micros() as f64 / 1e3;
    let row = |event: crate::governor::PreemptionEvent| {
        let (stake, told) = (event.stake, event.told());
        vec![
            Cell::from(Timestamp::try_from(event.at).ok().map(|at| format!("{at:.3}"))),
            event.victim.0.0.into(),
            i64::from(event.victim.1).into(),
            event.victim_class.into(),
            event.victim_was.into(),
            event.waiter.0.0.into(),
            i64::from(event.waiter.1).into(),
            event.waiter_class.into(),
            millis(event.waited).into(),
            event.lever.into(),
            event.done.into(),
            told.into(),
            stake.map(|stake| millis(stake.lost)).into(),
            stake.and_then(|stake| stake.won).map(millis).into(),
        ]
    };
    Ok(Answer::of(call.governor.events().into_iter().rev().map(row).collect()))
}
