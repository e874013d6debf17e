//! `SHOW CONFIG`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, text};
use crate::admin::change::set;
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[text("key"), text("value"), text("changeable")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let row = |(key, value): (String, String)| {
        let how = if set::can_be_set(&key) {
            "SET or RELOAD"
        } else if crate::settings::needs_restart(&key) {
            "restart"
        } else {
            "RELOAD"
        };
        vec![Cell::from(key), value.into(), how.into()]
    };
    Ok(Answer::of(call.governor.settings().described().into_iter().map(row).collect()))
}
