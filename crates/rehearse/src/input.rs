//! A capture as it is read from its folder.

use std::path::Path;

use plimsoll_capture::description::{ReadError, Values};
use plimsoll_capture::event::Event;
use plimsoll_capture::reader::Capture;

/// A capture's events, and what describes them.
#[derive(Debug, Clone)]
pub struct Input {
    /// The events.
    pub events: Vec<Event>,
    /// Where it is.
    pub folder: String,
    /// When it began.
    pub began: String,
    /// The version of its server, such as 170002.
    pub server_version: Option<u32>,
    /// Whether its values are hashes.
    pub redacted: bool,
    /// Places where it is damaged.
    pub faults: Vec<String>,
}

/// The folder of `capture:DIR`, or of a plain path.
pub fn folder(name: &str) -> &Path {
    Path::new(name.strip_prefix("capture:").unwrap_or(name))
}

/// Reads a capture.
pub fn read(folder: &Path) -> Result<Input, ReadError> {
    let capture = Capture::open(folder)?;
    let description = capture.description.clone();
    let mut reader = capture.events();
    let events = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    Ok(Input {
        events,
        folder: folder.display().to_string(),
        began: description.began,
        server_version: description.server_version,
        redacted: description.values == Values::Redacted,
        faults: reader.faults().iter().map(ToString::to_string).collect(),
    })
}
