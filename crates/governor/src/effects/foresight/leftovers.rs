//! What texts leave in their session, in the table of outlooks under keys of their own.
//!
//! A slot has a code for the frequent answers: nothing, and perhaps a value of a sequence. Any other answer is noted beside the
//! table. Unlike an outlook, such an answer is relied upon: a session asks again if it is older than `KNOWN_FOR`, or than the last
//! change of code that has passed through the governor.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::credit::Credit;
use super::{FIRST_RESIDUE, Foresight, KNOWN_FOR, TIME_UNIT, TextKey, USED_FOR, read};
use crate::statement::residue::Residue;

/// The share of time that questions about leftovers may take. Each saves a connection that would be kept from other clients, and
/// several connections ask side by side.
const SHARE: f64 = 0.25;

/// Nothing but the two facts about sequences, and the code for an answer that is noted.
const NOTED: u64 = 4;
pub(super) const RESIDUE_CODES: u64 = NOTED + 1;

/// How many answers are noted, and how many texts are shared. When there are more, all are forgotten, or those that no session uses.
const NOTED_MAX: usize = 4096;
const SHARED_MIN: usize = 1024;

/// What a text is known to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownResidue {
    /// What it may leave besides what it shows itself; `None` for nothing.
    pub residue: Option<Arc<Residue>>,
    /// The server must be asked again before this counts.
    pub is_due: bool,
}

/// The part of the knowledge beside the table.
#[derive(Debug)]
pub(super) struct Leftovers {
    noted: Mutex<HashMap<TextKey, Arc<Residue>>>,
    texts: Mutex<Shared>,
    credit: Mutex<Credit>,
    /// When code was changed last, in units of the table, plus one.
    changed: AtomicU64,
}

/// Texts that sessions keep, each once.
#[derive(Debug, Default)]
struct Shared {
    texts: HashMap<u64, Weak<[u8]>>,
    /// At this number the unused ones are dropped.
    full_at: usize,
}

impl Default for Leftovers {
    fn default() -> Self {
        Leftovers {
            noted: Mutex::default(),
            texts: Mutex::default(),
            credit: Mutex::new(Credit::new(SHARE)),
            changed: AtomicU64::new(0),
        }
    }
}

impl Foresight {
    /// What a text leaves, as far as is known.
    pub fn residue_of(&self, key: TextKey, at: Duration) -> Option<KnownResidue> {
        let (code, age) = self.places(key).into_iter().find_map(|place| {
            // Relaxed: a slot is complete in itself.
            let (code, age) = read(self.slots[place].load(Ordering::Relaxed), key, at)?;
            Some((code.checked_sub(FIRST_RESIDUE)?, age)).filter(|_| age < USED_FOR)
        })?;
        let residue = match code {
            0 => None,
            NOTED => Some(self.leftovers.noted.lock().get(&key).cloned()?),
            facts => Some(Arc::new(of_facts(facts))),
        };
        // Times are known in units only, so an answer of the same unit may be older than the change.
        let learned = units(at).saturating_sub(units(age));
        let is_due = age >= KNOWN_FOR || learned < self.leftovers.changed.load(Ordering::Relaxed);
        Some(KnownResidue { residue, is_due })
    }

    /// Keeps what a text leaves.
    pub fn learn_residue(&self, key: TextKey, residue: &Residue, at: Duration) {
        let code = facts_of(residue).unwrap_or(NOTED);
        if code == NOTED {
            let mut noted = self.leftovers.noted.lock();
            if noted.len() >= NOTED_MAX {
                noted.clear();
            }
            noted.insert(key, Arc::new(residue.clone()));
        }
        self.keep(key, FIRST_RESIDUE + code, 0, at);
    }

    /// Code is being changed, or has been: what was learned before must be asked again.
    pub fn code_changes(&self, at: Duration) {
        self.leftovers.changed.fetch_max(units(at) + 1, Ordering::Relaxed);
    }

    /// Whether a session may ask now what a text leaves. Several may ask about the same text: each has a connection to give back.
    pub fn may_ask_residue(&self, at: Duration) -> bool {
        self.leftovers.credit.lock().is_left(at)
    }

    /// An inquiry into what a text leaves has taken this long.
    pub fn has_taken_for_residue(&self, time: Duration) {
        self.leftovers.credit.lock().spend(time);
    }

    /// A text to keep, of which other sessions may keep an equal one. `hash` has a secret seed.
    pub fn shared_text(&self, hash: u64, sql: &[u8]) -> Arc<[u8]> {
        let mut shared = self.leftovers.texts.lock();
        if let Some(text) = shared.texts.get(&hash).and_then(Weak::upgrade) {
            return text;
        }
        if shared.texts.len() >= shared.full_at.max(SHARED_MIN) {
            shared.texts.retain(|_, text| text.strong_count() > 0);
            shared.full_at = 2 * shared.texts.len();
        }
        let text: Arc<[u8]> = sql.into();
        shared.texts.insert(hash, Arc::downgrade(&text));
        text
    }
}

fn units(time: Duration) -> u64 {
    time.as_secs() / TIME_UNIT.as_secs()
}

/// The code of a residue that has nothing but the facts about sequences.
fn facts_of(residue: &Residue) -> Option<u64> {
    let code = u64::from(residue.sequences) << 1 | u64::from(residue.reads_sequences);
    (*residue == of_facts(code)).then_some(code)
}

fn of_facts(code: u64) -> Residue {
    Residue { sequences: code & 2 > 0, reads_sequences: code & 1 > 0, ..Residue::NOTHING }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::residue::Pin;

    const START: Duration = Duration::from_secs(100);

    #[test]
    fn every_residue_is_read_as_it_was_learned() {
        let foresight = Foresight::default();
        let pinned = Residue { pin: Some(Pin::Unknown("f".into())), sequences: true, ..Residue::NOTHING };
        for residue in (0..NOTED).map(of_facts).chain([pinned]) {
            foresight.learn_residue(5, &residue, START);
            let known = foresight.residue_of(5, START).expect("it was learned");
            assert_eq!(known.residue.as_deref().unwrap_or(&Residue::NOTHING), &residue);
            assert!(!known.is_due);
        }
        assert_eq!(foresight.of(5, START), None, "it is no outlook");
        foresight.learn(5, super::super::Outlook::EQUAL, 0, START);
        assert_eq!(foresight.residue_of(5, START), None);
    }

    #[test]
    fn a_residue_is_due_after_a_while_and_after_a_change_of_code() {
        let foresight = Foresight::default();
        let is_due = |at| foresight.residue_of(5, at).map(|known| known.is_due);
        foresight.learn_residue(5, &Residue::NOTHING, START);
        assert_eq!(is_due(START + KNOWN_FOR - TIME_UNIT), Some(false));
        assert_eq!(is_due(START + KNOWN_FOR), Some(true));
        assert_eq!(is_due(START + USED_FOR), None);
        foresight.code_changes(START + TIME_UNIT);
        assert_eq!(is_due(START + TIME_UNIT), Some(true));
        foresight.learn_residue(5, &Residue::NOTHING, START + 2 * TIME_UNIT);
        assert_eq!(is_due(START + 2 * TIME_UNIT), Some(false));
        // Nothing shows which of the two was first.
        foresight.code_changes(START + 2 * TIME_UNIT);
        assert_eq!(is_due(START + 2 * TIME_UNIT), Some(true));
    }

    #[test]
    fn what_no_session_keeps_is_dropped_and_notes_are_bounded() {
        let foresight = Foresight::default();
        let kept = foresight.shared_text(7, b"select 1");
        assert!(Arc::ptr_eq(&kept, &foresight.shared_text(7, b"select 2")));
        (0..10 * SHARED_MIN as u64).for_each(|hash| drop(foresight.shared_text(100 + hash, b"select")));
        assert!(foresight.leftovers.texts.lock().texts.len() <= SHARED_MIN);
        assert!(Arc::ptr_eq(&kept, &foresight.shared_text(7, b"select 3")));
        let pinned = Residue::pinned_by(Some(Pin::Loads));
        (0..10 * NOTED_MAX as u64).for_each(|key| foresight.learn_residue(key, &pinned, START));
        assert!(foresight.leftovers.noted.lock().len() <= NOTED_MAX);
    }

    /// An application that never sends a text twice: its connections are kept rather than asked about all the time.
    #[test]
    fn questions_take_a_quarter_of_the_time_at_most() {
        let foresight = Foresight::default();
        foresight.has_taken_for_residue(super::super::credit::CREDIT_MAX);
        let asked = (0..10_000).filter(|at| {
            let may = foresight.may_ask_residue(Duration::from_millis(*at));
            if may {
                foresight.has_taken_for_residue(Duration::from_millis(5));
            }
            may
        });
        assert_eq!(asked.count(), 500);
    }
}
