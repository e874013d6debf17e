//! `RECONNECT` and `WAIT_CLOSE`.

use std::sync::Arc;

use super::database;
use crate::admin::answer::{Answer, Refusal, WaitsFor};
use crate::admin::command::Call;
use crate::governor::{Governor, SessionCommand};
use crate::registry::{Phase, SessionCard};

/// The sessions that the governor can end between transactions: those of a database, or all.
fn sessions(governor: &Governor, database: Option<&str>) -> impl Iterator<Item = Arc<SessionCard>> {
    let database = database.map(str::to_owned);
    governor.registry.all().into_iter().filter(move |card| {
        let is_its = database.as_ref().is_none_or(|database| card.login.database == *database);
        is_its && !card.is_direct() && card.state().phase != Phase::Ungoverned
    })
}

/// Ends sessions as soon as they are idle, after a failover or a change at the server that new sessions are to see.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let database = database(call, "RECONNECT")?;
    tracing::warn!(user = call.user, database, "console: RECONNECT");
    let mut count = 0;
    for card in sessions(call.governor, database) {
        card.end_when_idle();
        call.governor.tell(card.worker, card.id, SessionCommand::EndWhenIdle);
        count += 1;
    }
    Ok(Answer::notice(format!("{count} sessions end as soon as they are idle")))
}

/// Waits until those have ended.
pub fn wait(call: &Call<'_>) -> Result<Answer, Refusal> {
    let database = database(call, "WAIT_CLOSE")?.map(str::to_owned);
    Ok(Answer { waits: Some(WaitsFor { database }), ..Answer::default() })
}

impl WaitsFor {
    /// Whether they have ended.
    pub(crate) fn is_over(&self, governor: &Governor) -> bool {
        !sessions(governor, self.database.as_deref()).any(|card| card.ends_when_idle())
    }
}
