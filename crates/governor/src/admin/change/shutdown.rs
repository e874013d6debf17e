//! `SHUTDOWN`.

use crate::admin::answer::{Answer, Refusal};
use crate::admin::command::Call;
use crate::governor::MainCommand;

/// Ends the governor: at once, or when every session is between transactions.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let command = match call.arguments {
        [] => MainCommand::Stop,
        [how] if how.eq_ignore_ascii_case("wait_for_clients") => MainCommand::Drain,
        _ => return Err(Refusal::new("42601", "write SHUTDOWN, or SHUTDOWN WAIT_FOR_CLIENTS")),
    };
    tracing::warn!(user = call.user, ?command, "console: SHUTDOWN");
    let is_told = call.governor.main.get().is_some_and(|main| main.send(command).is_ok());
    if is_told { Ok(Answer::default()) } else { Err(Refusal::new("55000", "this governor cannot be ended from here")) }
}
