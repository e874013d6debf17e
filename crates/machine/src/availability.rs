//! Whether a sensor or control works on this host, and if not, the reason and the remedy.

use serde::{Deserialize, Serialize};

use crate::control::ControlError;

/// Whether a sensor or control works on this host. As an error, it says that it does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}{}", remedy.as_ref().map(|remedy| format!(" (remedy: {remedy})")).unwrap_or_default())]
pub struct Availability {
    /// Whether it works here.
    pub available: bool,
    /// The mechanism by which it works, or why it does not work.
    pub reason: String,
    /// How to make it work; `None` if it works or nothing can make it work.
    pub remedy: Option<String>,
}

impl Availability {
    /// It works, by this mechanism.
    pub fn yes(mechanism: impl Into<String>) -> Availability {
        Availability { available: true, reason: mechanism.into(), remedy: None }
    }

    /// It does not work, for this reason; `remedy` says how to make it work, if that is possible.
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
