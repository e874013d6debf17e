//! `SHOW LEVERS`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, boolean, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[text("lever"), boolean("works"), text("why"), text("state")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let health = call.governor.health.lock().clone();
    let control = match (&health.control_up, &health.control_error) {
        (Some(_), _) => "the governor asks the server itself".to_owned(),
        (None, Some(why)) => why.clone(),
        (None, None) => "no `control` is set, or it has not been tried yet".to_owned(),
    };
    let control_state = match (&health.control_up, call.governor.settings().control.is_some()) {
        (Some(_), _) => "works",
        (None, true) => "failing",
        (None, false) => "off",
    };
    let mut rows = vec![vec![
        Cell::from("control connection"),
        health.control_up.is_some().into(),
        control.into(),
        control_state.into(),
    ]];
    rows.extend(call.governor.levers().into_iter().map(|lever| {
        let state = lever.state();
        vec![Cell::from(lever.name), lever.is_on.into(), lever.why.into(), state.into()]
    }));
    rows.extend(health.untouchable.iter().map(|(process, why)| {
        vec![Cell::from(format!("share of process {process}")), false.into(), why.as_str().into(), "failing".into()]
    }));
    Ok(Answer::of(rows))
}
