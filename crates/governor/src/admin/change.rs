//! The commands that change something, one file each. Only users that may change things get here.

pub(crate) mod kill;
pub(crate) mod pause;
pub(crate) mod reload;
pub(crate) mod set;
pub(crate) mod shutdown;

use super::answer::Refusal;

/// Something that only a governor in the connection path can do.
fn not_beside(what: &str) -> Refusal {
    Refusal::new(
        "55000",
        format!("{what} is not available: this governor works beside its server, not in the connection path"),
    )
}
