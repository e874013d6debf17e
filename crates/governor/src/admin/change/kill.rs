//! `KILL` and `KILL_CLIENT`.

use super::database;
use crate::admin::answer::{Answer, Refusal};
use crate::admin::command::Call;
use crate::governor::{Closed, SessionCommand};
use crate::registry::SessionId;

const WHY: &str = "terminating connection due to administrator command";

/// A number is a session, and any other word a database.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let is_number = |word: &String| word.bytes().all(|byte| byte.is_ascii_digit());
    if call.arguments.first().is_some_and(is_number) {
        return client(call);
    }
    let database = database(call, "KILL")?;
    let is_its = |name: &str| database.is_none_or(|database| database == name);
    let all = call.governor.registry.all().into_iter();
    let cards: Vec<_> = all.filter(|card| is_its(&card.login.database) && !card.is_direct()).collect();
    if let Some(name) = database.filter(|_| cards.is_empty()) {
        let refusal = Refusal::new("3D000", format!("no session of database \"{name}\" is there"));
        return Err(refusal.hint("DISABLE keeps clients of a database out."));
    }
    tracing::warn!(user = call.user, database, sessions = cards.len(), "console: KILL");
    call.governor.doors.close(database, Closed::Killed);
    for card in &cards {
        call.governor.tell(card.worker, card.id, SessionCommand::End { why: WHY.to_owned() });
    }
    let again = database.map_or("RESUME".to_owned(), |name| format!("RESUME \"{name}\""));
    Ok(Answer::notice(format!("{} sessions were ended; {again} lets clients in again", cards.len())))
}

/// Ends a session; its client gets the error that an administrator has ended it.
pub fn client(call: &Call<'_>) -> Result<Answer, Refusal> {
    let [number] = call.arguments else {
        let refusal = Refusal::new("42601", "KILL_CLIENT takes the number of a session");
        return Err(refusal.hint("SHOW CLIENTS has it in the column id."));
    };
    let id = number.parse().ok().map(SessionId);
    let card = id.and_then(|id| call.governor.registry.get(id)).ok_or_else(|| {
        Refusal::new("42704", format!("there is no session {number}"))
            .hint("SHOW CLIENTS has their numbers in the column id.")
    })?;
    if card.is_direct() {
        let refusal = match call.governor.settings().is_beside {
            true => super::not_beside("KILL"),
            false => Refusal::new("55000", format!("the client of session {number} is connected to the server itself")),
        };
        return Err(refusal.hint("End it at the server: SELECT pg_terminate_backend(server_pid)."));
    }
    tracing::warn!(user = call.user, session = card.id.0, victim = %card.login.user, "console: KILL");
    call.governor.tell(card.worker, card.id, SessionCommand::End { why: WHY.to_owned() });
    Ok(Answer::default())
}
