//! `SHOW LEVERS`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, boolean, text};
use crate::admin::command::Call;
use crate::settings::Lever;

pub const COLUMNS: &[Column] = &[text("lever"), boolean("works"), text("why"), text("state")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let health = call.governor.health.lock().clone();
    let control = match (&health.control_up, &health.control_error) {
        (Some(_), _) => "the governor asks the server itself".to_owned(),
        (None, Some(why)) => why.clone(),
        (None, None) => "no `control` is set, or it has not been tried yet".to_owned(),
    };
    let control = Lever {
        name: "control connection",
        is_on: health.control_up.is_some(),
        is_wanted: call.governor.settings().control.is_some(),
        why: control,
    };
    let levers = std::iter::once(control).chain(call.governor.levers());
    let row = |lever: Lever| {
        let state = lever.state();
        vec![Cell::from(lever.name), lever.is_on.into(), lever.why.into(), state.into()]
    };
    let mut rows: Vec<Vec<Cell>> = levers.map(row).collect();
    rows.extend(health.untouchable.iter().map(|(process, why)| {
        vec![Cell::from(format!("share of process {process}")), false.into(), why.as_str().into(), "failing".into()]
    }));
    Ok(Answer::of(rows))
}
