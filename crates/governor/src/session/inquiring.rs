//! An inquiry over the client's own connection: its requests, and the server's answers to them.

use std::time::Instant;

use super::answers::{self, columns};
use super::frames::Backend;
use crate::effects::{Inquiry, LIMITS, Question};

/// The statements of a request: the limits and the question.
const STATEMENTS: u32 = 2;

/// An inquiry that is under way.
#[derive(Debug)]
pub(super) struct Inquiring {
    pub inquiry: Box<Inquiry>,
    /// When it began.
    pub since: Instant,
    /// No statement of the request has failed, and every row could be read.
    is_sound: bool,
    /// How many statements of the request the server has completed.
    completed: u32,
}

impl Inquiring {
    pub(super) fn new(inquiry: Inquiry, since: Instant) -> Self {
        Inquiring { inquiry: Box::new(inquiry), since, is_sound: false, completed: 0 }
    }

    /// The messages that ask a question.
    pub(super) fn request(asked: &Question<'_>) -> Vec<u8> {
        [answers::run(LIMITS, &[]), answers::run(asked.sql, &asked.parameters), answers::end()].concat()
    }

    /// A request is sent.
    pub(super) fn asks(&mut self) {
        (self.is_sound, self.completed) = (true, 0);
    }

    /// Receives the server's answer.
    pub(super) fn hears(&mut self, answer: Backend, body: &[u8]) {
        match answer {
            Backend::CommandComplete => self.completed += 1,
            Backend::DataRow => match columns(body) {
                Some(columns) => self.inquiry.on_row(&columns),
                None => self.is_sound = false,
            },
            Backend::Error => self.is_sound = false,
            _ => {}
        }
    }

    /// Whether the server has answered the request completely.
    pub(super) fn is_answered(&self) -> bool {
        self.is_sound && self.completed == STATEMENTS
    }
}
