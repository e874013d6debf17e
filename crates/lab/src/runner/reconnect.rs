//! Servers that go away: the run in flight is invalid, and the next one finds the server again.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::{RunError, RunProgress, Runner, StoreError, Watch};
use crate::plan::{ServerLost, Setting};

/// How long a lost server may take to come back: recovery after a crash replays the log since the last checkpoint.
const RECONNECT_MAX: Duration = Duration::from_secs(120);

/// The pause after the first attempt to open a lost server; each further one is twice as long, up to the longest.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(5);

impl Runner<'_> {
    /// Whether the plan goes on after this error, with a server that is opened again.
    pub(super) fn goes_on_after(&self, error: &RunError) -> bool {
        error.is_server_lost() && self.plan.run.server_lost == ServerLost::GoOn
    }

    /// Forgets the server: the new one has other processes than the limited ones, and the data may contain half of a transaction.
    pub(super) fn lose_server(&mut self) {
        self.store.close();
        self.is_server_lost = true;
    }

    /// Opens the target. After the loss of its server it tries again until the server is back, for a limited time.
    pub(super) fn open(&mut self, setting: &Setting, watch: &mut Watch<'_>) -> Result<(), StoreError> {
        let began = Instant::now();
        let mut pause = RECONNECT_PAUSE;
        loop {
            let opened = self.store.open(setting);
            let is_closed = matches!(opened, Err(StoreError::Open { .. }));
            if !(is_closed && self.is_server_lost && began.elapsed() < RECONNECT_MAX) {
                self.is_server_lost &= is_closed;
                return opened;
            }
            if let Err(error) = opened
                && pause == RECONNECT_PAUSE
            {
                let why = format!("the server is away: {error}");
                let remedy = format!("it has {} s to come back", RECONNECT_MAX.as_secs());
                (watch.progress)(RunProgress::Disturbed { why: &why, remedy: &remedy });
            }
            let next = Instant::now() + pause;
            while Instant::now() < next {
                if watch.stop.load(Ordering::Relaxed) {
                    return Err(StoreError::Stopped);
                }
                thread::sleep(RECONNECT_PAUSE.min(next.saturating_duration_since(Instant::now())));
            }
            pause = (pause * 2).min(RECONNECT_PAUSE_MAX);
        }
    }
}
