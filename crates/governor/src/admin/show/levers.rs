//! `SHOW LEVERS`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, boolean, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[text("lever"), boolean("works"), text("why")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let health = call.governor.health.lock().clone();
    let control = match (&health.control_up, &health.control_error) {
        (Some(_), _) => "the governor asks the server itself".to_owned(),
        (None, Some(why)) => why.clone(),
        (None, None) => "no `control` is set, or it has not been tried yet".to_owned(),
    };
    let mut rows = vec![vec![Cell::from("control connection"), health.control_up.is_some().into(), control.into()]];
    let levers = call.governor.levers();
    rows.extend(levers.into_iter().map(|lever| vec![Cell::from(lever.name), lever.is_on.into(), lever.why.into()]));
    rows.extend(health.untouchable.iter().map(|(process, why)| {
        vec![Cell::from(format!("share of process {process}")), false.into(), why.as_str().into()]
    }));
    Ok(Answer::of(rows))
}
