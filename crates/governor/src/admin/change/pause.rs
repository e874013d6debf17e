//! `PAUSE` and `RESUME`.

use plimsoll_notation::{did_you_mean, listed};
use plimsoll_policy::ClassIndex;

use crate::admin::answer::{Answer, Refusal, WaitsFor};
use crate::admin::command::Call;
use crate::governor::{Closed, WorkerCommand};

/// Lets no more transactions of the class begin; running ones continue. New ones wait, within the limits of their
/// class.
pub fn pause(call: &Call<'_>) -> Result<Answer, Refusal> {
    if call.governor.settings().is_beside {
        return Err(super::not_beside("PAUSE"));
    }
    if let Some(database) = pooled_database(call) {
        return Ok(pause_database(call, database));
    }
    let classes = classes(call)?;
    tracing::warn!(user = call.user, classes = names(call, &classes), "console: PAUSE");
    call.governor.pause(&classes, true);
    let inside: u32 = classes.iter().map(|class| call.governor.inside(*class)).sum();
    let notice = format!("{} paused; {inside} of its transactions run and may end", names(call, &classes));
    Ok(Answer::notice(notice))
}

/// The database that is named: no class, and one that has a pool.
fn pooled_database<'c>(call: &Call<'c>) -> Option<&'c str> {
    let [name] = call.arguments else { return None };
    let is_class = call.governor.settings().class_named(name).is_some();
    (!is_class && !call.governor.pools.keys(Some(name)).is_empty()).then_some(name)
}

/// Closes the server connections of a database's pools, those in use when their transactions have ended, and waits for
/// that. Transactions that begin meanwhile wait.
fn pause_database(call: &Call<'_>, database: &str) -> Answer {
    tracing::warn!(user = call.user, database, "console: PAUSE");
    call.governor.pools.pause(database, call.now);
    call.governor.tell_all(|| WorkerCommand::ReviewPools);
    Answer { waits: Some(WaitsFor::Paused(database.to_owned())), ..Answer::default() }
}

/// Transactions of the class, or of the database, may begin again; clients of a database that was killed may come again.
pub fn resume(call: &Call<'_>) -> Result<Answer, Refusal> {
    let database = match call.arguments {
        [name] if call.governor.settings().class_named(name).is_none() => Some(name.as_str()),
        _ => None,
    };
    let is_of_databases = database.is_some() || call.arguments.is_empty();
    let is_let_in = is_of_databases && call.governor.doors.open(database, Closed::Killed);
    let is_resumed = is_of_databases && call.governor.pools.resume(database);
    if is_resumed {
        call.governor.tell_all(|| WorkerCommand::ReviewPools);
    }
    let is_opened = is_let_in || is_resumed;
    if is_opened {
        tracing::warn!(user = call.user, database, "console: RESUME");
    }
    if is_opened && (database.is_some() || !call.governor.settings().classes.iter().any(|class| class.is_paused)) {
        return Ok(Answer::default());
    }
    let classes = classes(call)?;
    let settings = call.governor.settings();
    if !classes.iter().any(|class| settings.class(*class).is_paused) {
        return Err(Refusal::new("55000", format!("{} is not paused", names(call, &classes))));
    }
    tracing::warn!(user = call.user, classes = names(call, &classes), "console: RESUME");
    call.governor.pause(&classes, false);
    Ok(Answer::default())
}

/// The named class, or all of them.
fn classes(call: &Call<'_>) -> Result<Vec<ClassIndex>, Refusal> {
    let settings = call.governor.settings();
    match call.arguments {
        [] => Ok((0..).map(ClassIndex).take(settings.classes.len()).collect()),
        [name] => settings.class_named(name).map(|class| vec![class]).ok_or_else(|| {
            let known = || settings.classes.iter().map(|class| class.name.as_str());
            let message = format!("there is no class \"{name}\"{}", did_you_mean(name, known()));
            let hint = format!(
                "There are {}, and databases with pools. DISABLE and KILL are for any database.",
                listed(known())
            );
            Refusal::new("42704", message).hint(hint)
        }),
        _ => Err(Refusal::new("42601", "name one class, or none for all of them")),
    }
}

fn names(call: &Call<'_>, classes: &[ClassIndex]) -> String {
    let settings = call.governor.settings();
    let names = classes.iter().map(|class| settings.class(*class).name.as_str());
    format!("class {}", names.collect::<Vec<_>>().join(", "))
}
