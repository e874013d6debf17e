//! `SHOW PREEMPTIONS`.

use jiff::Timestamp;

use crate::admin::answer::{Answer, Cell, Column, Refusal, float, int, text};
use crate::admin::command::Call;

/// The columns.
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

/// The rows.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let millis = |length: Option<std::time::Duration>| {
        length.map_or(Cell::Null, |length| Cell::Float(length.as_micros() as f64 / 1e3))
    };
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
            Cell::Float(event.waited.as_micros() as f64 / 1e3),
            event.lever.into(),
            event.done.into(),
            told.into(),
            millis(stake.map(|stake| stake.lost)),
            millis(stake.and_then(|stake| stake.won)),
        ]
    };
    Ok(Answer::of(call.governor.events().into_iter().rev().map(row).collect()))
}
