//! Whether a sensor or control works on this host, and if not, the reason and the remedy.

use serde::{Deserialize, Serialize};

/// The answer of a sensor or control to "can you, here?".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// Whether it works here.
    pub available: bool,
    /// What was found: by which mechanism it works, or why it does not.
    pub reason: String,
    /// What would make it work; `None` if it does, or nothing can.
    pub remedy: Option<String>,
}

impl Availability {
    /// It works, by this mechanism.
    pub fn yes(mechanism: impl Into<String>) -> Availability {
        Availability { available: true, reason: mechanism.into(), remedy: None }
    }

    /// It does not work, for this reason; `remedy` is what would make it work, if anything would.
    pub fn no(reason: impl Into<String>, remedy: Option<&str>) -> Availability {
        Availability { available: false, reason: reason.into(), remedy: remedy.map(str::to_owned) }
    }
}
