//! `SHUTDOWN`.

use crate::admin::answer::{Answer, Refusal};
use crate::admin::command::Call;
use crate::governor::MainCommand;

/// Ends the governor: at once, or when every session is between transactions.
pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let command = match call.arguments {
        [] => MainCommand::Stop,
        // Sessions are ended between transactions, which is sooner than pgbouncer does for clients.
        [how] if ["wait_for_clients", "wait_for_servers"].iter().any(|it| how.eq_ignore_ascii_case(it)) => {
            MainCommand::Drain
        }
        _ => return Err(Refusal::new("42601", "write SHUTDOWN, or SHUTDOWN WAIT_FOR_CLIENTS")),
    };
    tracing::warn!(user = call.user, ?command, "console: SHUTDOWN");
    let is_told = call.governor.main.get().is_some_and(|main| main.send(command).is_ok());
    if is_told { Ok(Answer::default()) } else { Err(Refusal::new("55000", "this governor cannot be ended from here")) }
}

/// `SUSPEND`: pgbouncer's way to be replaced by another process.
pub fn suspend(_: &Call<'_>) -> Result<Answer, Refusal> {
    let refusal = Refusal::new("0A000", "sessions are not suspended: a new governor takes over without it");
    Err(refusal.hint("`handover` in [listen] replaces the program while sessions go on; PAUSE holds transactions."))
}
