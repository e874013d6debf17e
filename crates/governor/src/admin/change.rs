//! The commands that change something, one file each. Only users with that right reach these.

pub(crate) mod doors;
pub(crate) mod govern;
pub(crate) mod kill;
pub(crate) mod pause;
pub(crate) mod reconnect;
pub(crate) mod reload;
pub(crate) mod set;
pub(crate) mod shutdown;

use super::answer::Refusal;
use super::command::Call;

/// Refuses a command that only a governor in the connection path supports.
fn not_beside(what: &str) -> Refusal {
    Refusal::new(
        "55000",
        format!("{what} is not available: this governor works beside its server, not in the connection path"),
    )
}

/// The database that a command names, if it names one.
fn database<'c>(call: &Call<'c>, what: &str) -> Result<Option<&'c str>, Refusal> {
    let (settings, console) = (call.governor.settings(), "the console");
    if settings.is_beside {
        return Err(not_beside(what));
    }
    match call.arguments {
        [] => Ok(None),
        [name] if *name == settings.admin.database => {
            Err(Refusal::new("42501", format!("{what} is not for {console} itself, \"{name}\"")))
        }
        [name] => Ok(Some(name)),
        _ => Err(Refusal::new("42601", format!("{what} takes one database, or none for all of them"))),
    }
}
