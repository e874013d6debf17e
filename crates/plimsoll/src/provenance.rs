//! What measured, and when it began.

use std::time::Instant;

use jiff::Timestamp;
use plimsoll_lab::study::Provenance;

/// The beginning of an experiment.
#[derive(Debug)]
pub struct Beginning {
    started: Timestamp,
    instant: Instant,
}

impl Beginning {
    /// Now.
    pub fn now() -> Self {
        Beginning { started: Timestamp::now(), instant: Instant::now() }
    }

    /// The time in a form that file names can bear, UTC.
    pub fn file_stamp(&self) -> String {
        self.started.strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    /// For results that are complete now.
    pub fn provenance(&self) -> Provenance {
        let commit = env!("PLIMSOLL_COMMIT");
        Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: (!commit.is_empty()).then(|| commit.to_owned()),
            started: self.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            elapsed_s: self.instant.elapsed().as_secs_f64(),
        }
    }
}
