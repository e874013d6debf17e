//! `SHOW CONFIG`.

use crate::admin::answer::{Answer, Cell, Column, Refusal, text};
use crate::admin::command::Call;
use crate::settings::change_of;

pub const COLUMNS: &[Column] = &[text("key"), text("value"), text("changeable")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let row = |(key, value): (String, String)| {
        // Rules and users of the console are not rows of the table.
        let how = change_of(&key).unwrap_or("RELOAD");
        vec![Cell::from(key), value.into(), how.into()]
    };
    Ok(Answer::of(call.governor.settings().described().into_iter().map(row).collect()))
}
