//! What is known about texts before a transaction that runs them is rolled back.
//!
//! An inquiry after a rollback comes too late for a client that does not retry: if the transaction must not run twice, or if
//! its client has received values that differ in a second run, the client can only be told. So sessions inquire
//! ahead: when a session is at rest, it asks about texts without an outlook ([`Foresight::may_ask`]), and all sessions
//! share the answers ([`Outlook`]).
//!
//! This is a forecast, and nothing relies on it for safety: after a rollback the transaction is inquired into as a whole. If the
//! code was changed since the forecast, the transaction is not replayed, and its texts are forgotten.
//!
//! The table has a fixed size and is read without a lock: each slot is one number, which has the text's key and the outlook.
//! A text whose slots were taken by others is unknown again.

mod credit;
mod leftovers;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, DefaultHasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_policy::Unsafe;

use super::Safe;
use credit::Credit;
pub use leftovers::KnownResidue;
use leftovers::{Leftovers, RESIDUE_CODES};

/// Identifies a text, together with the database and everything else that its names depend on. The hash has a secret seed:
/// no client can make a text that gets the outlook of another.
pub type TextKey = u64;

/// What another run of a text would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// It may run twice, and whether it may return rows.
    Safe(Safe, bool),
    /// It must not run twice.
    Unsafe(Unsafe),
}

#[cfg(test)]
impl Outlook {
    /// Of a text that returns the same rows.
    pub(crate) const EQUAL: Outlook = of_facts([false, false, false, false, false, false, true]);
}

/// What is known of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownText {
    /// What another run would do.
    pub outlook: Outlook,
    /// The number of the last transaction that has changed what that rests on; the highest if it is not known.
    pub newest: u64,
    /// It should be asked about again.
    pub is_due: bool,
}

/// How long an outlook holds before a session asks again.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// How long it is used if no session has asked again.
const USED_FOR: Duration = Duration::from_secs(600);

/// How long a text, or a role whose questions fail, is left alone after an attempt to ask.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(5);
const REFUSED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The share of time that questions may take.
const SHARE: f64 = 0.02;

/// How many attempts are remembered.
const ATTEMPTS_MAX: usize = 2000;

/// 2^14 slots of 8 bytes.
const SLOT_BITS: u32 = 14;

/// The lowest bits of a slot: when the outlook was learned, in units of 4 seconds, and above that the outlook.
const TIME_BITS: u32 = 15;
const CODE_BITS: u32 = 8;
const TAG_BITS: u32 = 64 - TIME_BITS - CODE_BITS;
const TIME_UNIT: Duration = Duration::from_secs(4);

/// The number of facts about a safe text.
const FACTS: usize = 7;

/// The codes of safe texts are below this.
const FIRST_UNSAFE: u64 = 1 << FACTS;

/// The codes of what a text leaves come after those of unsafe texts.
const FIRST_RESIDUE: u64 = FIRST_UNSAFE + Unsafe::ALL.len() as u64;

const _: () = assert!(FIRST_RESIDUE + RESIDUE_CODES < 1 << CODE_BITS, "0 is an empty slot");
const _: () = assert!(SLOT_BITS + TAG_BITS <= u64::BITS, "the slot and the tag are different bits of a key");

/// Outlooks of texts, shared by all sessions. Times count from the governor's start.
#[derive(Debug)]
pub struct Foresight {
    seed: RandomState,
    slots: Box<[AtomicU64]>,
    /// For each slot, the number of the last transaction that has changed what the outlook rests on, below some bits of the key:
    /// the two are not read together.
    newest: Box<[AtomicU64]>,
    attempts: Mutex<Attempts>,
    leftovers: Leftovers,
    /// For tests of what happens after a rollback: every other text is safe.
    #[cfg(test)]
    pub(crate) assumes_safe: std::sync::atomic::AtomicBool,
    /// For a test that must fail: inquiries into leftovers do not follow triggers.
    #[cfg(test)]
    pub(crate) skips_triggers: std::sync::atomic::AtomicBool,
}

#[derive(Debug)]
struct Attempts {
    /// Texts and roles that are not asked about until then.
    waiting: HashMap<u64, Duration>,
    credit: Credit,
}

impl Default for Foresight {
    fn default() -> Self {
        Foresight {
            seed: RandomState::new(),
            slots: (0..1 << SLOT_BITS).map(|_| AtomicU64::new(0)).collect(),
            newest: (0..1 << SLOT_BITS).map(|_| AtomicU64::new(0)).collect(),
            attempts: Mutex::new(Attempts { waiting: HashMap::new(), credit: Credit::new(SHARE) }),
            leftovers: Leftovers::default(),
            #[cfg(test)]
            assumes_safe: Default::default(),
            #[cfg(test)]
            skips_triggers: Default::default(),
        }
    }
}

impl Foresight {
    /// Makes keys.
    pub fn hasher(&self) -> DefaultHasher {
        self.seed.build_hasher()
    }

    /// What is known of a text.
    pub fn of(&self, key: TextKey, at: Duration) -> Option<KnownText> {
        let known = self.places(key).into_iter().find_map(|place| {
            // Relaxed: a slot is complete in itself.
            let (code, age) = read(self.slots[place].load(Ordering::Relaxed), key, at)?;
            let outlook = outlook_of(code)?;
            let newest = read_newest(self.newest[place].load(Ordering::Relaxed), key);
            (age < USED_FOR).then_some(KnownText { outlook, newest, is_due: age >= KNOWN_FOR })
        });
        #[cfg(test)]
        if known.is_none() && self.assumes_safe.load(Ordering::Relaxed) {
            return Some(KnownText { outlook: Outlook::EQUAL, newest: 0, is_due: false });
        }
        known
    }

    /// Keeps the outlook of a text, and the number of the last transaction that has changed what it rests on.
    pub fn learn(&self, key: TextKey, outlook: Outlook, newest: u64, at: Duration) {
        self.keep(key, code_of(outlook), newest, at);
        self.attempts.lock().waiting.remove(&key);
    }

    fn keep(&self, key: TextKey, code: u64, newest: u64, at: Duration) {
        let places = self.places(key);
        let slot = |place: usize| self.slots[place].load(Ordering::Relaxed);
        let is_own = |place: &usize| read(slot(*place), key, at).is_some();
        // Of two other texts, the one that was learned earlier gives way; an empty slot is the earliest.
        let older = || places.into_iter().max_by_key(|place| age(slot(*place), at));
        if let Some(place) = places.into_iter().find(is_own).or_else(older) {
            self.newest[place].store(written_newest(key, newest), Ordering::Relaxed);
            self.slots[place].store(written(key, code, at), Ordering::Relaxed);
        }
    }

    /// The outlook of a text has proved wrong.
    pub fn forget(&self, key: TextKey) {
        for place in self.places(key) {
            let slot = &self.slots[place];
            let found = slot.load(Ordering::Relaxed);
            if tag(found) == tag_of(key) {
                // If it was replaced meanwhile, the new one stays.
                let _ = slot.compare_exchange(found, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// Whether a session may ask about a text now. No other session asks about it for a while.
    pub fn may_ask(&self, key: TextKey, role: u64, at: Duration) -> bool {
        let mut attempts = self.attempts.lock();
        let has_credit = attempts.credit.is_left(at);
        let waits = |of: u64| attempts.waiting.get(&of).is_some_and(|until| at < *until);
        if !has_credit || waits(key) || waits(role) {
            return false;
        }
        if attempts.waiting.len() >= ATTEMPTS_MAX {
            attempts.waiting.retain(|_, until| at < *until);
        }
        if attempts.waiting.len() >= ATTEMPTS_MAX {
            return false;
        }
        attempts.waiting.insert(key, at + ASKED_AGAIN_AFTER);
        true
    }

    /// An inquiry has taken this long.
    pub fn has_taken(&self, time: Duration) {
        self.attempts.lock().credit.spend(time);
    }

    /// The server refuses to answer a role: it may have no right to read a catalog.
    pub fn is_refused(&self, role: u64, at: Duration) {
        self.attempts.lock().waiting.insert(role, at + REFUSED_AGAIN_AFTER);
    }

    /// A text may be in one of two slots.
    fn places(&self, key: TextKey) -> [usize; 2] {
        let place = key as usize & (self.slots.len() - 1);
        [place, place ^ 1]
    }
}

/// The bits of a key that a slot keeps.
fn tag_of(key: TextKey) -> u64 {
    key >> (u64::BITS - TAG_BITS)
}

fn tag(slot: u64) -> u64 {
    slot >> (TIME_BITS + CODE_BITS)
}

fn written(key: TextKey, code: u64, at: Duration) -> u64 {
    tag_of(key) << (TIME_BITS + CODE_BITS) | (1 + code) << TIME_BITS | time(at)
}

fn code_of(outlook: Outlook) -> u64 {
    match outlook {
        Outlook::Safe(safe, returns) => facts(safe, returns).iter().fold(0, |code, fact| code << 1 | u64::from(*fact)),
        Outlook::Unsafe(because) => {
            let place = Unsafe::ALL.iter().position(|known| *known == because).expect("all are in the list");
            FIRST_UNSAFE + place as u64
        }
    }
}

/// `None` if the code is of another purpose.
fn outlook_of(code: u64) -> Option<Outlook> {
    match code.checked_sub(FIRST_UNSAFE) {
        None => Some(of_code(code)),
        Some(place) => Unsafe::ALL.get(place as usize).copied().map(Outlook::Unsafe),
    }
}

/// The bits of a number that are kept with a text; servers reach no others.
const NEWEST_BITS: u32 = 48;
const NEWEST_MAX: u64 = (1 << NEWEST_BITS) - 1;

fn written_newest(key: TextKey, newest: u64) -> u64 {
    (key >> SLOT_BITS) << NEWEST_BITS | newest.min(NEWEST_MAX)
}

fn read_newest(written: u64, key: TextKey) -> u64 {
    let newest = written & NEWEST_MAX;
    if newest < NEWEST_MAX && written == written_newest(key, newest) { newest } else { u64::MAX }
}

/// The facts about a safe text.
fn facts(safe: Safe, returns: bool) -> [bool; FACTS] {
    let Safe { generates, writes, reads_own, arranges, reads_much, catches } = safe;
    [generates, writes, reads_own, arranges, reads_much, catches, returns]
}

const fn of_facts(facts: [bool; FACTS]) -> Outlook {
    let [generates, writes, reads_own, arranges, reads_much, catches, returns] = facts;
    Outlook::Safe(Safe { generates, writes, reads_own, arranges, reads_much, catches }, returns)
}

fn of_code(code: u64) -> Outlook {
    of_facts(std::array::from_fn(|place| code >> (FACTS - 1 - place) & 1 > 0))
}

/// The code in a slot and its age, if the slot has that text.
fn read(slot: u64, key: TextKey, at: Duration) -> Option<(u64, Duration)> {
    let code = (slot >> TIME_BITS & ((1 << CODE_BITS) - 1)).checked_sub(1).filter(|_| tag(slot) == tag_of(key))?;
    Some((code, age(slot, at)))
}

/// How long ago a slot was written, within the 36 hours that are kept.
fn age(slot: u64, at: Duration) -> Duration {
    if slot == 0 {
        return Duration::MAX;
    }
    let units = time(at).wrapping_sub(slot) & ((1 << TIME_BITS) - 1);
    TIME_UNIT * units as u32
}

fn time(at: Duration) -> u64 {
    (at.as_secs() / TIME_UNIT.as_secs()) & ((1 << TIME_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::credit::CREDIT_MAX;
    use super::*;

    const SAFE: Outlook = Outlook::EQUAL;
    const START: Duration = Duration::from_secs(100);

    #[test]
    fn every_outlook_is_read_as_it_was_learned() {
        let foresight = Foresight::default();
        let safe = (0..FIRST_UNSAFE).map(of_code);
        for outlook in safe.chain(Unsafe::ALL.map(Outlook::Unsafe)) {
            foresight.learn(77, outlook, 12345, START);
            assert_eq!(foresight.of(77, START), Some(KnownText { outlook, newest: 12345, is_due: false }));
        }
        foresight.learn(77, SAFE, u64::MAX, START);
        assert_eq!(foresight.of(77, START).map(|known| known.newest), Some(u64::MAX));
        assert_eq!(foresight.of(77 + (1 << 40), START), None, "another text for the same slot");
        foresight.forget(77 + (1 << 40));
        assert!(foresight.of(77, START).is_some());
        foresight.forget(77);
        assert_eq!(foresight.of(77, START), None);
    }

    #[test]
    fn an_outlook_is_asked_for_again_and_forgotten_if_nobody_asks() {
        let foresight = Foresight::default();
        foresight.learn(1, SAFE, 0, START);
        let is_due = |at| foresight.of(1, at).map(|known| known.is_due);
        assert_eq!(is_due(START + KNOWN_FOR - TIME_UNIT), Some(false));
        assert_eq!(is_due(START + KNOWN_FOR), Some(true));
        assert_eq!(foresight.of(1, START + USED_FOR), None);
    }

    #[test]
    fn two_texts_share_a_place_and_a_third_one_drives_out_the_older() {
        let foresight = Foresight::default();
        let [first, second, third] = [1, 2, 3].map(|number| number << 40);
        foresight.learn(first, SAFE, 0, START);
        foresight.learn(second, SAFE, 0, START + TIME_UNIT);
        foresight.learn(third, SAFE, 0, START + 2 * TIME_UNIT);
        let is_known = |key| foresight.of(key, START + 2 * TIME_UNIT).is_some();
        assert_eq!([first, second, third].map(is_known), [false, true, true]);
    }

    #[test]
    fn one_session_asks_about_a_text_and_a_role_that_is_refused_asks_nothing() {
        let foresight = Foresight::default();
        assert!(foresight.may_ask(1, 9, START));
        assert!(!foresight.may_ask(1, 9, START) && foresight.may_ask(2, 9, START));
        assert!(foresight.may_ask(1, 9, START + ASKED_AGAIN_AFTER), "the other session may have ended");
        foresight.is_refused(9, START);
        assert!(!foresight.may_ask(3, 9, START) && foresight.may_ask(3, 8, START));
        assert!(foresight.may_ask(4, 9, START + REFUSED_AGAIN_AFTER));
    }

    /// An application that never sends a text twice must not make the governor ask all the time, nor fill its memory.
    #[test]
    fn questions_take_a_fiftieth_of_the_time_and_are_few() {
        let foresight = Foresight::default();
        foresight.has_taken(CREDIT_MAX);
        assert!(!foresight.may_ask(1, 9, Duration::ZERO));
        let asked = (0..10_000).filter(|at| {
            let may = foresight.may_ask(1_000 + at, 9, Duration::from_millis(*at));
            if may {
                foresight.has_taken(Duration::from_millis(4));
            }
            may
        });
        assert_eq!(asked.count(), 50, "200 ms of 10 s");
        let foresight = Foresight::default();
        let asked = (0..10_000).filter(|text| foresight.may_ask(*text, 10_001, START)).count();
        assert_eq!(asked, ATTEMPTS_MAX);
    }
}
