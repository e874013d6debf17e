//! Follows the bytes of one session in both directions, as its client sends and receives them, and makes events of them.
//!
//! A unit is what the client sends up to a `Query`, a `FunctionCall` or a `Sync`, with its copied data. It is *open* until
//! then, and *asked* until the `ReadyForQuery` that answers it. Two rules of servers decide which messages belong
//! together: a server that takes in a copy ignores every `Sync` until the copy ends, and after an error in the extended
//! protocol it ignores everything up to the next `Sync`.
//!
//! The tap changes nothing, and never fails: bytes that are no messages make it deaf.

mod answer;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use plimsoll_notation::sql::TextRules;

use crate::event::{Answer, Closed, Event, Opened, SessionId, Unit, WhyLost};
use crate::messages::{HEAD_BYTES, length};
use answer::Hearing;

/// A unit with a longer request is not kept.
pub const REQUEST_MAX: usize = 16 << 20;

/// From this length on, the bytes of an open request count as memory of the recorder.
const SMALL: usize = 64 << 10;

/// Takes the events of a session. [`Recorder`](crate::recorder::Recorder) does.
pub trait Sink {
    /// Takes an event, and the rules by which the texts in it are read.
    fn record(&self, event: Event, rules: TextRules);
    /// A unit that began then is not recorded.
    fn lose(&self, at_us: u64, why: WhyLost);
    /// Asks for memory for a long request; returns whether there is some.
    fn reserve(&self, bytes: usize) -> bool;
    /// Gives memory back.
    fn release(&self, bytes: usize);
}

/// Follows one session. See the module.
#[derive(Debug)]
pub struct Tap {
    session: SessionId,
    rules: TextRules,
    from_client: Frames,
    from_server: Frames,
    /// The unit whose end has not been sent; it has begun if it has a request.
    open: Asked,
    asked: VecDeque<Asked>,
    /// The message that is arriving belongs to the unit that was asked last, not to the open one.
    is_of_last: bool,
    /// The message that is arriving does not end its unit, whatever it is.
    is_ignored: bool,
    /// The server takes in a copy that the client has not ended.
    is_copying_in: bool,
    /// The server ignores messages until a `Sync`.
    is_skipping: bool,
    hearing: Hearing,
    is_deaf: bool,
}

/// A unit that was sent, or is being sent.
#[derive(Debug, Default)]
struct Asked {
    at_us: u64,
    has_begun: bool,
    request: Vec<u8>,
    /// Why it is not kept, if so.
    lost: Option<WhyLost>,
    /// The memory that it has from the sink.
    reserved: usize,
    /// Whether a `Sync` ends it.
    is_synced: bool,
    /// How many `CopyDone` and `CopyFail` it has.
    copy_ends: u32,
}

impl Asked {
    fn keep(&mut self, bytes: &[u8], sink: &impl Sink) {
        if self.lost.is_some() {
            return;
        }
        let after = self.request.len() + bytes.len();
        if after > REQUEST_MAX {
            self.give_up(WhyLost::TooLarge, sink);
        } else if after <= SMALL {
            self.request.extend_from_slice(bytes);
        } else if sink.reserve(bytes.len()) {
            self.reserved += bytes.len();
            self.request.extend_from_slice(bytes);
        } else {
            self.give_up(WhyLost::TooFast, sink);
        }
    }

    fn give_up(&mut self, why: WhyLost, sink: &impl Sink) {
        self.lost = Some(why);
        self.request = Vec::new();
        sink.release(std::mem::take(&mut self.reserved));
    }

    /// The unit continues with another: its `Sync` was ignored.
    fn goes_on(self, next: &mut Asked, sink: &impl Sink) {
        let after = std::mem::replace(next, self);
        next.has_begun = true;
        next.is_synced = after.is_synced;
        next.copy_ends += after.copy_ends;
        next.reserved += after.reserved;
        match after.lost {
            Some(why) if next.lost.is_none() => next.give_up(why, sink),
            _ => next.keep(&after.request, sink),
        }
    }
}

impl Tap {
    /// A session that has just logged in, or that is between two units.
    pub fn open(opened: Opened, rules: TextRules, sink: &impl Sink) -> Self {
        let session = opened.session;
        sink.record(Event::Opened(opened), rules);
        Tap {
            session,
            rules,
            from_client: Frames::default(),
            from_server: Frames::default(),
            open: Asked::default(),
            asked: VecDeque::new(),
            is_of_last: false,
            is_ignored: false,
            is_copying_in: false,
            is_skipping: false,
            hearing: Hearing::default(),
            is_deaf: false,
        }
    }

    /// The client has sent bytes, the first of which arrived then.
    pub fn on_client(&mut self, mut bytes: &[u8], at_us: u64, sink: &impl Sink) {
        while !bytes.is_empty() && !self.is_deaf {
            match self.from_client.next(&mut bytes) {
                Some(Piece::Head(head)) => self.begin_request(&head, at_us, sink),
                Some(Piece::Body(body)) => self.keep(body, sink),
                None => self.is_deaf = bytes.is_empty() && self.from_client.is_broken,
            }
            if self.from_client.is_at_end() {
                self.end_request();
            }
        }
    }

    fn begin_request(&mut self, head: &[u8; HEAD_BYTES], at_us: u64, sink: &impl Sink) {
        let tag = head[0];
        let is_copy = matches!(tag, b'd' | b'c' | b'f');
        self.is_ignored = self.is_copying_in && matches!(tag, b'S' | b'H');
        // Behind a `Sync` they belong to what follows: if a copy begins, the server has ignored that `Sync`.
        let takes_copies = self.asked.back().is_some_and(|last| !last.is_synced);
        self.is_of_last = !self.open.has_begun && (is_copy || self.is_ignored) && takes_copies;
        let is_stray = is_copy && !self.open.has_begun && self.asked.is_empty();
        if tag == b'X' || is_stray {
            self.from_client.is_unkept = true;
            return;
        }
        if !self.is_of_last && !self.open.has_begun {
            self.open = Asked { at_us, has_begun: true, ..Asked::default() };
        }
        self.keep(head, sink);
    }

    /// Keeps bytes of the client's message that is arriving.
    fn keep(&mut self, bytes: &[u8], sink: &impl Sink) {
        if self.from_client.is_unkept {
            return;
        }
        match self.asked.back_mut().filter(|_| self.is_of_last) {
            Some(last) => last.keep(bytes, sink),
            None => self.open.keep(bytes, sink),
        }
    }

    /// A message of the client has arrived as a whole.
    fn end_request(&mut self) {
        let tag = self.from_client.end();
        match tag {
            b'c' | b'f' => {
                self.is_copying_in = false;
                match self.asked.back_mut().filter(|_| self.is_of_last) {
                    Some(last) => last.copy_ends += 1,
                    None => self.open.copy_ends += 1,
                }
            }
            b'S' if !self.is_ignored => {
                self.is_skipping = false;
                self.ask(true);
            }
            b'Q' | b'F' if !self.is_skipping => self.ask(false),
            _ => {}
        }
    }

    fn ask(&mut self, is_synced: bool) {
        self.asked.push_back(Asked { is_synced, ..std::mem::take(&mut self.open) });
    }

    /// The client has received bytes.
    pub fn on_server(&mut self, mut bytes: &[u8], now_us: u64, sink: &impl Sink) {
        while !bytes.is_empty() && !self.is_deaf {
            match self.from_server.next(&mut bytes) {
                Some(Piece::Head(head)) => self.hearing.begin(&head),
                Some(Piece::Body(body)) => self.hearing.hear(body),
                None => self.is_deaf = bytes.is_empty() && self.from_server.is_broken,
            }
            if self.from_server.is_at_end() {
                let tag = self.from_server.end();
                self.hearing.end(tag);
                self.on_answer(tag, now_us, sink);
            }
        }
    }

    /// A message of the server has arrived as a whole.
    fn on_answer(&mut self, tag: u8, now_us: u64, sink: &impl Sink) {
        match tag {
            b'S' => self.hearing.sets(&mut self.rules),
            b'G' | b'W' => self.copy_in_begins(sink),
            b'E' => {
                self.is_copying_in = false;
                self.is_skipping |= self.asked.is_empty() && self.open.has_begun;
            }
            b'Z' => {
                let answer = self.hearing.take();
                if let Some(asked) = self.asked.pop_front() {
                    self.record(asked, answer, now_us, sink);
                }
            }
            _ => {}
        }
    }

    /// Every `Sync` before the end of the copy is ignored.
    fn copy_in_begins(&mut self, sink: &impl Sink) {
        let copies = self.hearing.begin_copy();
        while let Some(front) = self.asked.pop_front_if(|front| front.is_synced && front.copy_ends < copies) {
            let next = self.asked.front_mut().unwrap_or(&mut self.open);
            front.goes_on(next, sink);
        }
        let current = self.asked.front().unwrap_or(&self.open);
        self.is_copying_in = current.copy_ends < copies;
    }

    fn record(&mut self, asked: Asked, answer: Answer, now_us: u64, sink: &impl Sink) {
        sink.release(asked.reserved);
        let Asked { at_us, request, lost, .. } = asked;
        if let Some(why) = lost {
            return sink.lose(at_us, why);
        }
        let took_us = now_us.saturating_sub(at_us);
        sink.record(Event::Unit(Unit { session: self.session, at_us, took_us, request, answer }), self.rules);
    }

    /// Whether no unit is open or asked, so that the session could be followed from here by another tap.
    pub fn is_at_rest(&self) -> bool {
        self.asked.is_empty() && !self.open.has_begun
    }

    /// The session has ended. Units without an answer are recorded as such.
    pub fn close(mut self, now_us: u64, sink: &impl Sink) {
        let mut answer = Answer { state: 0, ..self.hearing.take() };
        while let Some(asked) = self.asked.pop_front() {
            self.record(asked, std::mem::take(&mut answer), now_us, sink);
        }
        sink.release(self.open.reserved);
        sink.record(Event::Closed(Closed { session: self.session, at_us: now_us }), self.rules);
    }
}

/// Cuts bytes into messages, however they arrive.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; HEAD_BYTES],
    /// How many bytes of the head have arrived.
    head_length: usize,
    /// How many bytes of the body are still to come, once the head is there.
    left: usize,
    /// The message that is arriving is not kept.
    is_unkept: bool,
    is_broken: bool,
}

enum Piece<'a> {
    Head([u8; HEAD_BYTES]),
    Body(&'a [u8]),
}

impl Frames {
    /// The next piece; `None` if the head is incomplete.
    fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
        if self.head_length == HEAD_BYTES {
            let (body, rest) = bytes.split_at(self.left.min(bytes.len()));
            self.left -= body.len();
            *bytes = rest;
            return Some(Piece::Body(body));
        }
        let (part, rest) = bytes.split_at((HEAD_BYTES - self.head_length).min(bytes.len()));
        self.head[self.head_length..][..part.len()].copy_from_slice(part);
        self.head_length += part.len();
        *bytes = rest;
        if self.head_length < HEAD_BYTES {
            return None;
        }
        let Some(length) = length(&self.head) else {
            self.is_broken = true;
            *bytes = &[];
            return None;
        };
        self.left = length - HEAD_BYTES;
        Some(Piece::Head(self.head))
    }

    fn is_at_end(&self) -> bool {
        self.head_length == HEAD_BYTES && self.left == 0 && !self.is_broken
    }

    /// Forgets the message, and returns its kind.
    fn end(&mut self) -> u8 {
        (self.head_length, self.is_unkept) = (0, false);
        self.head[0]
    }
}
