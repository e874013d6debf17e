//! Looks at which statements run, about once a second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::WireError;
use plimsoll_pg::values::bytea;
use plimsoll_policy::ClassIndex;

use super::control::Up;
use super::late::cards_of;
use crate::activity::Seen;
use crate::governor::Governor;

/// The mean time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// The fraction of the golden ratio: its multiples spread evenly, so that no work that comes at intervals of its own is always
/// or never seen.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// When the next look is due.
#[derive(Debug)]
pub(super) struct Sampling {
    governor: Arc<Governor>,
    next: Instant,
    looks: u32,
}

/// A row of the answer.
#[derive(Debug)]
struct Row {
    process: i32,
    text: Vec<u8>,
    ran: Duration,
    is_cut: bool,
}

impl Sampling {
    pub(super) fn new(governor: Arc<Governor>, now: Instant) -> Self {
        Sampling { governor, next: now, looks: 0 }
    }

    /// The time until the next look.
    pub(super) fn due(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    /// The next look is due as late as after one.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.looks = self.looks.wrapping_add(1);
        self.next = now + EVERY.mul_f64(0.5 + (f64::from(self.looks) * GOLDEN).fract());
    }

    pub(super) fn look(&mut self, up: &mut Up, now: Instant) -> Result<(), WireError> {
        self.postpone(now);
        let (mut rows, mut hidden) = (Vec::new(), 0);
        up.connection.prepared_text_rows(&up.running, &[], &mut |row| match read(row) {
            Some(row) => rows.push(row),
            None => hidden += 1,
        })?;
        rows.sort_unstable_by_key(|row| row.process);
        let processes: Vec<i32> = rows.iter().map(|row| row.process).collect();
        let cards = cards_of(&self.governor, &processes).into_iter();
        let classes: HashMap<i32, ClassIndex> = cards.map(|(process, card)| (process, card.state().class)).collect();
        let seen = rows.iter().map(|row| Seen {
            text: &row.text,
            is_cut: row.is_cut,
            class: classes.get(&row.process).copied(),
            ran: row.ran,
        });
        self.governor.activity.lock().note(self.governor.clock(now), hidden, seen);
        Ok(())
    }
}

/// A session whose statement the role may see; `None` for another.
fn read(row: &[Option<&str>]) -> Option<Row> {
    let [Some(process), Some(text), Some(ran_ms), Some(is_cut), Some(_)] = row else { return None };
    Some(Row {
        process: process.parse().ok()?,
        text: bytea(&format!("\\x{text}"))?,
        ran: Duration::from_millis(ran_ms.parse::<i64>().ok()?.try_into().unwrap_or(0)),
        is_cut: *is_cut == "t",
    })
}
