//! Logins of console users, by SCRAM-SHA-256 only.

use super::scram::{Exchange, MECHANISM, Verifier};
use super::wire::{Answers, Fields, Message};
use crate::settings::Admin;
use plimsoll_pg::secret::strangers_secret;

/// Kinds of authentication messages.
const OK: i32 = 0;
const SASL: i32 = 10;
const SASL_CONTINUE: i32 = 11;
const SASL_FINAL: i32 = 12;

/// A client that is logging in.
#[derive(Debug)]
pub struct Login {
    is_challenged: bool,
    exchange: Exchange,
}

/// The result of a client's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It was answered; another message must follow.
    Goes,
    /// The client is logged in.
    In,
    /// The login failed. The reason is for our log; a client receives nothing that helps it to guess.
    Refused(String),
    /// The client violates the protocol.
    Nonsense(&'static str),
}

impl Login {
    /// Asks the client for a proof; an unknown user is asked, too.
    pub fn begin(user: &str, admin: &Admin, answers: &mut Answers) -> Self {
        let verifier = |of: &crate::settings::AdminUser| Verifier::parse(&of.verifier).ok();
        let known = admin.users.iter().find(|known| known.name == user).and_then(verifier);
        let like = admin.users.iter().find_map(verifier);
        let nobody = || Verifier::of_nobody(user, like.as_ref(), strangers_secret());
        let exchange = Exchange::new(known.unwrap_or_else(nobody));
        let mut mechanisms = MECHANISM.as_bytes().to_vec();
        // The name ends with a zero byte, and so does the list.
        mechanisms.extend([0, 0]);
        answers.authentication(SASL, &mechanisms);
        Login { is_challenged: false, exchange }
    }

    pub fn take(&mut self, message: Message<'_>, answers: &mut Answers) -> Progress {
        if message.tag != b'p' {
            return Progress::Nonsense("expected a message of the SCRAM-SHA-256 exchange");
        }
        if self.is_challenged {
            return match self.exchange.prove(message.body) {
                Ok(proof) => {
                    answers.authentication(SASL_FINAL, proof.answer.as_bytes());
                    answers.authentication(OK, &[]);
                    Progress::In
                }
                Err(error) => Progress::Refused(error.to_string()),
            };
        }
        let mut fields = Fields(message.body);
        if fields.text() != Some(MECHANISM) {
            return Progress::Refused("the client chose a mechanism that was not offered".to_owned());
        }
        let first = fields.int().and_then(|length| fields.bytes(usize::try_from(length).ok()?));
        let Some(first) = first.filter(|_| fields.0.is_empty()) else {
            return Progress::Nonsense("the length of the first SCRAM message is wrong");
        };
        match self.exchange.challenge(MECHANISM, first) {
            Ok(challenge) => {
                answers.authentication(SASL_CONTINUE, challenge.as_bytes());
                self.is_challenged = true;
                Progress::Goes
            }
            Err(error) => Progress::Refused(error.to_string()),
        }
    }
}
