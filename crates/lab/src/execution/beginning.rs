//! When an experiment began.

use std::time::Instant;

use jiff::Timestamp;

use crate::document::Provenance;
use crate::program::Build;

/// The beginning of an experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beginning {
    started: Timestamp,
    instant: Instant,
}

impl Beginning {
    /// Now.
    pub(crate) fn now() -> Self {
        Beginning { started: Timestamp::now(), instant: Instant::now() }
    }

    /// The beginning of a continued experiment, from its [`started`](Self::started); now, if that cannot be parsed.
    pub(crate) fn earlier(started: &str) -> Self {
        let now = Beginning::now();
        let Ok(started) = started.parse::<Timestamp>() else { return now };
        let since = now.started.duration_since(started).try_into().unwrap_or_default();
        Beginning { started, instant: now.instant.checked_sub(since).unwrap_or(now.instant) }
    }

    /// UTC, ISO 8601.
    pub(crate) fn started(&self) -> String {
        self.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Seconds since then.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.instant.elapsed().as_secs_f64()
    }

    /// For results that are complete now.
    pub(crate) fn provenance(&self, build: Build) -> Provenance {
        Provenance {
            version: build.version.to_owned(),
            commit: build.commit.map(str::to_owned),
            started: self.started(),
            elapsed_s: self.elapsed_s(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continued_experiment_has_taken_the_time_since_its_first_beginning() {
        let hour_ago = Beginning { started: Timestamp::now() - jiff::Span::new().hours(1), ..Beginning::now() };
        let earlier = Beginning::earlier(&hour_ago.started());
        assert_eq!(earlier.started(), hour_ago.started());
        assert!((3600.0..3660.0).contains(&earlier.elapsed_s()), "{}", earlier.elapsed_s());
        assert!(Beginning::earlier("yesterday").elapsed_s() < 60.0);
    }
}
