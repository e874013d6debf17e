//! `RECONNECT` and `WAIT_CLOSE`.

use std::sync::Arc;

use super::database;
use crate::admin::answer::{Answer, Refusal, WaitsFor};
use crate::admin::command::Call;
use crate::governor::{Governor, SessionCommand, WorkerCommand};
use crate::pool::pools::PoolKey;
use crate::registry::{Phase, SessionCard};
use crate::settings::PoolMode;

/// The sessions that the governor can end between transactions: those of a database, or all.
fn sessions(governor: &Governor, database: Option<&str>) -> impl Iterator<Item = Arc<SessionCard>> {
    let database = database.map(str::to_owned);
    governor.registry.all().into_iter().filter(move |card| {
        let is_its = database.as_ref().is_none_or(|database| card.login.database == *database);
        is_its && !card.is_direct() && card.state().phase != Phase::Ungoverned
    })
}

/// Whether a session can continue on another server connection: its pool opens one when it is needed.
fn goes_on(governor: &Governor, card: &SessionCard) -> bool {
    let is_pooled = governor.settings().pool.mode == PoolMode::Transaction;
    is_pooled && card.state().pinned.is_none() && governor.pools.opens_by_itself(&PoolKey::of(card))
}

/// Replaces server connections, after a failover or a change at the server that new ones are to see. A session that
/// cannot go on with another connection ends as soon as it is idle.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let database = database(call, "RECONNECT")?;
    tracing::warn!(user = call.user, database, "console: RECONNECT");
    call.governor.pools.renew(database, call.now);
    call.governor.tell_all(|| WorkerCommand::ReviewPools);
    let mut count = 0;
    for card in sessions(call.governor, database).filter(|card| !goes_on(call.governor, card)) {
        card.end_when_idle();
        call.governor.tell(card.worker, card.id, SessionCommand::EndWhenIdle);
        count += 1;
    }
    Ok(Answer::notice(format!("{count} sessions end as soon as they are idle")))
}

/// Waits until those have ended.
pub fn wait(call: &Call<'_>) -> Result<Answer, Refusal> {
    let database = database(call, "WAIT_CLOSE")?.map(str::to_owned);
    Ok(Answer { waits: Some(WaitsFor::Reconnected(database)), ..Answer::default() })
}

impl WaitsFor {
    /// Whether it has ended.
    pub(crate) fn is_over(&self, governor: &Governor) -> bool {
        match self {
            WaitsFor::Reconnected(database) => {
                let database = database.as_deref();
                let is_ending = sessions(governor, database).any(|card| card.ends_when_idle());
                !is_ending && !governor.pools.are_being_renewed(database)
            }
            // A RESUME meanwhile ends the wait as well.
            WaitsFor::Paused(database) => {
                !governor.pools.holds_connections(database) || !governor.pools.is_paused(database)
            }
        }
    }
}
