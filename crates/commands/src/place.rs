//! Where a command puts its results if its user names no folder.

use std::path::PathBuf;

use jiff::Timestamp;

/// A folder in `runs/`, of that name and with the current time (UTC).
pub fn default_place(name: &str) -> PathBuf {
    PathBuf::from("runs").join(format!("{name}-{}", Timestamp::now().strftime("%Y%m%dT%H%M%SZ")))
}
