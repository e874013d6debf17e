//! What a worker says of itself when the coordinator connects.

use datafusion::DATAFUSION_VERSION;
use serde::{Deserialize, Serialize};

/// The version of what coordinator and workers say to each other beside the plans.
const PROTOCOL: u32 = 1;

/// A worker's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The versions of everything on which the form of plans depends.
    pub version: String,
    /// The SHA-256 of the manifest of the worker's export; `None` if it has none.
    pub data: Option<String>,
}

/// What this program is. Plans have no form that outlasts a version of DataFusion, so only equal versions work together.
pub fn own_version() -> String {
    format!("plimsoll {} (protocol {PROTOCOL}, DataFusion {DATAFUSION_VERSION})", env!("CARGO_PKG_VERSION"))
}

impl Hello {
    /// The text of a `GetWorkerInfo` message.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("it is made of texts")
    }

    /// Reads it; what is no such text is the version of another program.
    pub fn read(text: &str) -> Hello {
        serde_json::from_str(text).unwrap_or_else(|_| Hello { version: format!("`{text}`"), data: None })
    }
}
