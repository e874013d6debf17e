//! Whether a sensor or control works on this host, and if not, the reason and the remedy.

use serde::{Deserialize, Serialize};

use crate::control::ControlError;

/// The answer of a sensor or control to "can you, here?"; as an error, that it cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}{}", remedy.as_ref().map(|remedy| format!(" (remedy: {remedy})")).unwrap_or_default())]
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

    /// The answer as an error unless it works.
    pub(crate) fn required(self) -> Result<(), Availability> {
        if self.available { Ok(()) } else { Err(self) }
    }

    /// As the error of the control with this key.
    pub(crate) fn error(self, control: &str) -> ControlError {
        ControlError::Unavailable { control: control.to_owned(), reason: self.reason, remedy: self.remedy }
    }
}
