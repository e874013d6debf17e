//! `KILL session`.

use crate::admin::answer::{Answer, Refusal};
use crate::admin::command::Call;
use crate::governor::SessionCommand;
use crate::registry::SessionId;

/// Ends a session; its client gets the error that an administrator has ended it.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let [number] = call.arguments else {
        let refusal = Refusal::new("42601", "KILL takes the number of a session");
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
    let why = "terminating connection due to administrator command".to_owned();
    call.governor.tell(card.worker, card.id, SessionCommand::End { why });
    Ok(Answer::default())
}
