//! Guards: what sessions ask of other threads.

use std::time::{Duration, Instant};

use plimsoll_policy::{ClassIndex, Pace, Paced};

use super::{Governor, Heard};

impl Governor {
    /// A statement may exceed a limit of its class.
    pub(crate) fn look_for_runaways(&self) {
        self.bell.wake(Heard::Shares);
    }

    /// A transaction of a class with that pace begins; returns whether it would have waited if the pace were enforced.
    pub(crate) fn is_beyond(&self, class: ClassIndex, pace: Pace, now: Instant) -> bool {
        let now = self.clock(now);
        let mut budgets = self.budgets.lock();
        let paced = budgets.entry(class).or_insert_with(|| Paced::new(pace));
        paced.change(pace);
        !paced.takes(now)
    }

    /// Admits transactions whose moment has come.
    pub(crate) fn keep_pace(&self, now: Instant) {
        let admitted = self.admission.lock().keep_pace(self.clock(now));
        self.tell_admitted(admitted);
    }

    /// The time until the next moment of a waiting transaction.
    pub(crate) fn pace_due(&self, now: Instant) -> Option<Duration> {
        let now = self.clock(now);
        // Where the total MPL is full, the moment has passed, and a transaction that leaves lets others in.
        let moment = self.admission.lock().next_moment().filter(|at| *at > now);
        moment.map(|at| at - now)
    }
}
