//! The program that measured, and when it began.

use std::time::Instant;

use jiff::Timestamp;
use plimsoll_lab::document::Provenance;

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

    /// The beginning of a continued experiment, from its [`provenance`](Self::provenance); now, if that cannot be
    /// parsed.
    pub fn earlier(started: &str) -> Self {
        let now = Beginning::now();
        let Ok(started) = started.parse::<Timestamp>() else { return now };
        let since = now.started.duration_since(started).try_into().unwrap_or_default();
        Beginning { started, instant: now.instant.checked_sub(since).unwrap_or(now.instant) }
    }

    /// Seconds since then.
    pub fn elapsed_s(&self) -> f64 {
        self.instant.elapsed().as_secs_f64()
    }

    /// For results that are complete now.
    pub fn provenance(&self) -> Provenance {
        let commit = env!("PLIMSOLL_COMMIT");
        Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: (!commit.is_empty()).then(|| commit.to_owned()),
            started: self.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            elapsed_s: self.elapsed_s(),
        }
    }
}
