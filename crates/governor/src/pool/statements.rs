//! The texts that clients have prepared by name, which connections know by numbers.
//!
//! A client's name is its own; two clients may give one name to two texts, and two names to one. Connections therefore
//! know a text by a number that is the same in the whole pool, and a link translates.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::session::message_of;
use crate::statement::{TextRules, single_deallocate};

/// The beginning of the names that connections have for texts.
pub const PREFIX: &[u8] = b"plimsoll_";

/// How many texts may be kept before those that no client has any more are dropped.
const SWEEP_AT: usize = 1024;

/// A text that some client has prepared.
#[derive(Debug)]
pub struct PreparedText {
    /// Its number.
    pub number: u64,
    /// The rest of the `Parse` message after the name: the text and the types of its parameters.
    pub rest: Box<[u8]>,
    /// The statement that it closes when it runs, if it does nothing else.
    pub closes: Option<Box<[u8]>>,
    /// A server connection has prepared it, with the settings with which its client began.
    is_sound: AtomicBool,
}

impl PreparedText {
    /// The name that connections have for it.
    pub fn name(&self) -> Vec<u8> {
        name_of(self.number)
    }

    /// Whether a server connection of the pool has prepared it before, so that it can be taken for a statement.
    pub fn is_sound(&self) -> bool {
        // Relaxed: nothing else follows from it.
        self.is_sound.load(Ordering::Relaxed)
    }

    /// A server connection has prepared it.
    pub fn proves_sound(&self) {
        if !self.is_sound() {
            self.is_sound.store(true, Ordering::Relaxed);
        }
    }

    /// The message that prepares it.
    pub fn parse(&self) -> Vec<u8> {
        message_of(b'P', &[&self.name(), b"\0", &self.rest])
    }
}

/// The name that connections have for a text.
pub fn name_of(number: u64) -> Vec<u8> {
    [PREFIX, format!("{number:x}").as_bytes()].concat()
}

/// The message that closes a statement of that name.
pub fn close(name: &[u8]) -> Vec<u8> {
    message_of(b'C', &[b"S", name, b"\0"])
}

/// All texts that some client of a pool has prepared.
#[derive(Debug, Default)]
pub struct PreparedTextRegistry {
    next: AtomicU64,
    texts: Mutex<HashMap<Box<[u8]>, Weak<PreparedText>>>,
}

impl PreparedTextRegistry {
    /// The text with that rest of a `Parse` message, if some client has it.
    pub fn find(&self, rest: &[u8]) -> Option<Arc<PreparedText>> {
        self.texts.lock().get(rest).and_then(Weak::upgrade)
    }

    /// The text with that rest of a `Parse` message.
    pub fn of(&self, rest: &[u8]) -> Arc<PreparedText> {
        let mut texts = self.texts.lock();
        if let Some(known) = texts.get(rest).and_then(Weak::upgrade) {
            return known;
        }
        if texts.len() >= SWEEP_AT && texts.len().is_power_of_two() {
            texts.retain(|_, text| text.strong_count() > 0);
        }
        // Relaxed: it only has to be unique.
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let closes = single_deallocate(rest, TextRules::default());
        let text = Arc::new(PreparedText { number, rest: rest.into(), closes, is_sound: AtomicBool::new(false) });
        texts.insert(rest.into(), Arc::downgrade(&text));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number_while_a_client_has_it() {
        let registry = PreparedTextRegistry::default();
        let first = registry.of(b"select 1\0\0\0");
        assert_eq!(registry.of(b"select 1\0\0\0").number, first.number);
        assert_ne!(registry.of(b"select 2\0\0\0").number, first.number);
        let number = first.number;
        drop(first);
        assert_ne!(registry.of(b"select 1\0\0\0").number, number, "connections may have it by the old number");
    }
}
