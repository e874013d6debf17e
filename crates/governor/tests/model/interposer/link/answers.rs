//! The server's answers on their way to the governor.

use std::sync::atomic::Ordering;

use super::super::super::wire::{Message, tagged};
use super::super::Canary;
use super::super::failures::error;
use super::Link;

/// The server's answers on their way to the governor.
pub(super) struct Answers<'a> {
    pub(super) link: &'a Link,
    /// The present answer so far.
    pub(super) answer: Vec<u8>,
    /// Whether it is held until its end, because it is to be replaced.
    pub(super) is_held: bool,
    /// Whether the answer has an error.
    pub(super) has_failed: bool,
    /// Notices that are withheld until the end of the answer.
    pub(super) notices: Vec<u8>,
    /// The number of the unit that is being answered.
    pub(super) unit: usize,
}

impl Answers<'_> {
    /// Notes a message, and makes the error of a failed unit the one that it stands for; returns whether it is passed on.
    pub(super) fn changes(&mut self, message: &mut Message) -> bool {
        let (link, unit) = (self.link, self.unit);
        match message.tag {
            b'K' => {
                let process = i32::from_be_bytes(message.body[..4].try_into().expect("it begins with a process"));
                link.process.store(process, Ordering::SeqCst);
            }
            b'E' => {
                self.has_failed = true;
                if link.takes(&link.cancelled, unit) {
                    message.body = error("57014", "canceling statement due to user request");
                }
                if link.takes(&link.aborted, unit) {
                    message.body = error("40001", "could not serialize access due to concurrent update");
                }
            }
            b'C' if link.takes(&link.commits_failed, unit) => return false,
            b'G' => link.is_copying.store(true, Ordering::SeqCst),
            // The login ends with one that belongs to no unit.
            b'Z' if link.has_logged_in.swap(true, Ordering::SeqCst) => {
                link.status.store(message.body[0], Ordering::SeqCst);
                if link.rolls_back.lock().unwrap().take_if(|own| *own == unit).is_some() {
                    link.is_empty.store(true, Ordering::SeqCst);
                }
                self.unit += 1;
            }
            _ => {}
        }
        let is_unasked = link.unasked.lock().unwrap().contains(&unit);
        !is_unasked
    }

    /// Passes a message on: now, at the end of its answer, or the first run's answer in its place.
    pub(super) fn pass(&mut self, message: &Message, out: &mut Vec<u8>) {
        let bytes = tagged(message.tag, &message.body);
        match message.tag {
            b'N' if self.link.is(Canary::LateNotices) => return self.notices.extend_from_slice(&bytes),
            b'Z' => out.append(&mut self.notices),
            _ => {}
        }
        self.answer.extend_from_slice(&bytes);
        self.is_held |= self.answer.len() == bytes.len() && self.link.is_replayed();
        if message.tag == b'Z' {
            let has_failed = std::mem::take(&mut self.has_failed);
            let first = self.link.end_answer(std::mem::take(&mut self.answer), has_failed);
            out.extend_from_slice(first.filter(|_| self.is_held).as_deref().unwrap_or(&bytes));
            self.is_held = false;
        } else if !self.is_held {
            out.extend_from_slice(&bytes);
        }
    }
}
