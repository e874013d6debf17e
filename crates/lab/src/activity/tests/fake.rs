//! A server and a clock that follow a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_workload::activity::{Activity, ActivityWatch, StatementTotals, Statements, Upkeep};
use plimsoll_workload::database::DatabaseError;

use super::WINDOW;
use crate::activity::sampler::Pace;

/// Time that passes only when a test waits or works.
#[derive(Clone, Default)]
pub(super) struct Time(Arc<AtomicU64>);

impl Time {
    pub(super) fn pass(&self, length: Duration) {
        self.0.fetch_add(length.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Pace for Time {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn wait_until(&mut self, due: Duration) -> bool {
        self.0.store(due.max(self.now()).min(WINDOW).as_nanos() as u64, Ordering::Relaxed);
        due < WINDOW
    }
}

/// The result of look number n, from 0, and the clients' actions during it.
type Script = Box<dyn FnMut(u64) -> Result<Vec<Activity>, DatabaseError> + Send>;

/// A server that follows a script.
pub(super) struct FakeWatch {
    pub(super) time: Time,
    pub(super) look_length: Duration,
    pub(super) looks: u64,
    script: Script,
    /// Its background work, second by second, beginning at the opening; then nothing changes.
    pub(super) upkeep: Vec<Upkeep>,
    /// Its totals at the opening and at the end.
    pub(super) statements: Vec<Vec<StatementTotals>>,
}

impl FakeWatch {
    pub(super) fn new(
        time: &Time,
        script: impl FnMut(u64) -> Result<Vec<Activity>, DatabaseError> + Send + 'static,
    ) -> Self {
        FakeWatch {
            time: time.clone(),
            look_length: Duration::from_micros(10),
            looks: 0,
            script: Box::new(script),
            upkeep: Vec::new(),
            statements: Vec::new(),
        }
    }
}

impl ActivityWatch for FakeWatch {
    fn look(&mut self, seen: &mut Vec<Activity>) -> Result<(), DatabaseError> {
        self.time.pass(self.look_length);
        seen.extend((self.script)(self.looks)?);
        self.looks += 1;
        Ok(())
    }

    fn upkeep(&mut self) -> Result<Upkeep, DatabaseError> {
        let next = self.upkeep.first().cloned().unwrap_or_default();
        if self.upkeep.len() > 1 {
            self.upkeep.remove(0);
        }
        Ok(next)
    }

    fn statements(&mut self, with_text: bool) -> Result<Statements, DatabaseError> {
        if self.statements.is_empty() {
            return Ok(Statements::NotKept("nobody counts".to_owned()));
        }
        let mut all = self.statements.remove(0);
        if !with_text {
            all.iter_mut().for_each(|one| one.text.clear());
        }
        Ok(Statements::Kept(all))
    }
}
