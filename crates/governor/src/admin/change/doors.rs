//! `DISABLE` and `ENABLE`.

use super::database;
use crate::admin::answer::{Answer, Refusal};
use crate::admin::command::Call;
use crate::governor::Closed;

fn named<'c>(call: &Call<'c>, what: &str) -> Result<&'c str, Refusal> {
    database(call, what)?.ok_or_else(|| Refusal::new("42601", format!("{what} takes a database")))
}

/// Lets no more clients of a database in. Any name will do: databases are the server's.
pub fn disable(call: &Call<'_>) -> Result<Answer, Refusal> {
    let name = named(call, "DISABLE")?;
    tracing::warn!(user = call.user, database = name, "console: DISABLE");
    call.governor.doors.close(Some(name), Closed::Disabled);
    Ok(Answer::default())
}

pub fn enable(call: &Call<'_>) -> Result<Answer, Refusal> {
    let name = named(call, "ENABLE")?;
    if !call.governor.doors.open(Some(name), Closed::Disabled) {
        return Err(Refusal::new("55000", format!("database \"{name}\" is not disabled")));
    }
    tracing::warn!(user = call.user, database = name, "console: ENABLE");
    Ok(Answer::default())
}
