//! Earlier findings, so that transactions that are rolled back repeatedly are inquired into once. Another transaction asks
//! one question: whether all that the finding rests on is unchanged.
//!
//! A finding has everything that the inquiry asked for. The question reads the same rows of the catalogs, but only their
//! versions. If none was written since the finding, no object was changed, and none was added that a name may mean.
//! Only safe verdicts are kept.

use std::collections::HashMap;
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::names::array_of_numbers;
use super::question::{Part, Values};
use super::tree::FIRST_OWN;
use super::{Horizon, Inquiry, Key, Objects, Safe, Verdict};

/// The most bytes of all findings. When they exceed this, the cache drops all of them.
const BYTES_MAX: usize = 16 << 20;

/// Findings by database, shared by all sessions.
#[derive(Debug, Default)]
pub struct Cache {
    findings: Mutex<Findings>,
    /// For tests of what happens after a verdict: every transaction is safe.
    #[cfg(test)]
    pub(crate) assumes_safe: AtomicBool,
}

#[derive(Debug, Default)]
struct Findings {
    databases: HashMap<String, HashMap<Key, Arc<Known>>>,
    bytes: usize,
}

/// A transaction of such texts is safe while the rows for this question are older than the horizon.
#[derive(Debug)]
pub(super) struct Known {
    pub uses_cursors: bool,
    pub safe: Safe,
    /// The schemas of the path, and the role, for which it holds.
    pub path: Vec<u8>,
    pub horizon: Horizon,
    pub parts: Vec<Part>,
    pub values: Values,
}

impl Cache {
    /// Gives an inquiry an earlier finding to confirm, if there is one. Call it before each [`Inquiry::next`].
    pub fn look_up(&self, database: &str, inquiry: &mut Inquiry) {
        #[cfg(test)]
        if self.assumes_safe.load(Ordering::Relaxed) {
            inquiry.verdict = Some(Verdict::Safe);
        }
        let Some(key) = inquiry.key.filter(|_| inquiry.verdict.is_none() && !inquiry.has_looked_up) else { return };
        if inquiry.horizon.is_none() {
            return;
        }
        inquiry.has_looked_up = true;
        let findings = self.findings.lock();
        inquiry.known = findings.databases.get(database).and_then(|known| known.get(&key)).cloned();
    }

    /// Keeps what an inquiry has found, if that is new and safe.
    pub fn keep(&self, database: &str, inquiry: &Inquiry) {
        let Some(key) = inquiry.key.filter(|_| inquiry.known.is_none()) else { return };
        let Some(known) = Known::of(inquiry) else { return };
        let mut findings = self.findings.lock();
        findings.bytes += known.bytes() + database.len();
        if findings.bytes > BYTES_MAX {
            *findings = Findings { bytes: known.bytes() + database.len(), ..Findings::default() };
        }
        let replaced = findings.databases.entry(database.to_owned()).or_default().insert(key, Arc::new(known));
        findings.bytes -= replaced.map_or(0, |replaced| replaced.bytes() + database.len());
    }
}

impl Known {
    fn of(inquiry: &Inquiry) -> Option<Known> {
        let uses_cursors = match inquiry.verdict? {
            Verdict::Safe => false,
            Verdict::SafeWithoutCursors => true,
            Verdict::Unsafe(_) => return None,
        };
        let mut parts = vec![Part::Ground, Part::Names];
        if inquiry.has_asked_events {
            parts.push(Part::Events);
        }
        let mut own = |objects: &Objects, part| {
            let mut numbers: Vec<u32> = objects.seen.iter().copied().filter(|number| *number >= FIRST_OWN).collect();
            numbers.sort_unstable();
            if !numbers.is_empty() {
                parts.push(part);
            }
            array_of_numbers(&numbers)
        };
        let values = Values {
            relations: own(&inquiry.relations, Part::Relations),
            written: own(&inquiry.written, Part::Written),
            functions: own(&inquiry.functions, Part::Functions),
            types: own(&inquiry.types, Part::Types),
            numbers: own(&inquiry.numbers, Part::Numbers),
            ..inquiry.values_of_names()
        };
        let (path, horizon) = (inquiry.ground.as_ref()?.path.clone(), inquiry.horizon?);
        Some(Known { uses_cursors, safe: inquiry.safe(), path, horizon, parts, values })
    }

    fn bytes(&self) -> usize {
        size_of::<Known>() + self.path.len() + self.values.bytes()
    }
}
