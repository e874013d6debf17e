//! Statements that exceed a limit of their class: how many rows they return is counted here, and the error of one that the watcher
//! has cancelled names the limit.

use std::time::Instant;

use plimsoll_policy::Runaway;

use super::answers::{Notice, error_response};
use super::{Outbox, Session};
use crate::settings::write_duration;
use crate::statistics::count;

impl Session {
    /// How many rows a unit of the transaction may return.
    pub(super) fn rows_max(&self) -> u64 {
        self.settings.runaway_limits(self.inside_index()).rows.map_or(u64::MAX, u64::from)
    }

    /// The unit in flight returns a row.
    pub(super) fn count_row(&mut self) {
        if let Some(left) = self.unit.rows_left.checked_sub(1) {
            self.unit.rows_left = left;
            return;
        }
        // It is said once.
        self.unit.rows_left = u64::MAX;
        let mut state = self.card.state();
        state.exceeds_rows = Some(state.unit);
        drop(state);
        self.governor.look_for_runaways();
    }

    /// The unit in flight was cancelled. Returns whether that was because of a limit; its client then has the error.
    pub(super) fn is_ended_as_runaway(&mut self, now: Instant, out: &mut impl Outbox) -> bool {
        let why = {
            let mut state = self.card.state();
            let unit = state.unit;
            let is_by_client = state.cancels.by_client.is_some();
            state.cancels.runaway.take().filter(|(of, _)| *of == unit && !is_by_client)
        };
        let Some((_, why)) = why else { return false };
        let class = self.inside_class().name.clone();
        let ran = now.saturating_duration_since(self.unit.since).as_secs_f64();
        let message = format!("{}; this one was ended after {ran:.1}s", limit_of(&class, why));
        let hint = format!(
            "Ask for less, run it in another class, or have the operator raise `{}` of class `{class}`.",
            why.key()
        );
        self.show(out);
        count(&self.statistics(self.inside_index()).errors);
        out.to_client(&error_response(&Notice { hint: Some(&hint), ..Notice::new("ERROR", "54000", &message) }));
        true
    }
}

/// A limit in words.
pub(crate) fn limit_of(class: &str, limit: Runaway) -> String {
    match limit {
        Runaway::Time(most) => format!("class \"{class}\" lets a statement run for {}", write_duration(most)),
        Runaway::Rows(most) => format!("class \"{class}\" lets a statement return {most} rows"),
        Runaway::TempBytes(most) => {
            let mib = most as f64 / f64::from(1 << 20);
            format!("class \"{class}\" lets a statement fill {mib:.0} MiB of temporary files")
        }
    }
}
