//! `SHOW CONFIG`: the settings in force, then pgbouncer's names of some of them, for exporters. It has pgbouncer's four
//! columns and no others: pgbouncer_exporter refuses any other number.

use super::figures::Figures;
use crate::admin::answer::{Answer, Cell, Column, Refusal, text};
use crate::admin::command::Call;
use crate::settings::{change_of, default_shown};

pub const COLUMNS: &[Column] = &[text("key"), text("value"), text("default"), text("changeable")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let row = |(key, value): (String, String)| {
        // Rules and users of the console are not rows of the table.
        let how = change_of(&key).unwrap_or("RELOAD");
        let default = default_shown(&key);
        vec![Cell::from(key), value.into(), default.into(), how.into()]
    };
    let mut rows: Vec<Vec<Cell>> = settings.described().into_iter().map(row).collect();
    let figures = Figures::of(call.governor);
    let of_poolers = [
        ("max_client_conn", settings.listen.clients_max.to_string()),
        ("default_pool_size", figures.pool_size().to_string()),
        ("min_pool_size", "0".to_owned()),
        ("max_db_connections", "0".to_owned()),
        ("max_user_connections", "0".to_owned()),
        ("pool_mode", figures.mode().to_owned()),
    ];
    rows.extend(of_poolers.map(|(key, value)| vec![key.into(), value.into(), Cell::Null, "no".into()]));
    Ok(Answer::of(rows))
}
