//! The commands that change something, one file each. Only users that may change things get here.

pub mod kill;
pub mod pause;
pub mod reload;
pub mod set;
pub mod shutdown;

use super::answer::Refusal;

/// Something that only a governor in the connection path can do.
fn not_beside(what: &str) -> Refusal {
    Refusal::new(
        "55000",
        format!("{what} is not available: this governor works beside its server, not in the connection path"),
    )
}
