//! The commands that change something, one file each. Only users with that right reach these.

pub(crate) mod kill;
pub(crate) mod pause;
pub(crate) mod reload;
pub(crate) mod set;
pub(crate) mod shutdown;

use super::answer::Refusal;

/// Refuses a command that only a governor in the connection path supports.
fn not_beside(what: &str) -> Refusal {
    Refusal::new(
        "55000",
        format!("{what} is not available: this governor works beside its server, not in the connection path"),
    )
}
