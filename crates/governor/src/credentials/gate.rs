//! The server's half of a login, towards a client: a state machine without sockets.

use plimsoll_pg::scram::server::Exchange;
use plimsoll_pg::secret::{Md5Hash, Secret};

use super::ServerCredentials;
use super::source::Known;
use crate::admin::wire::{Answers, Fields, first_message};
use crate::session::{Notice, error_response};

/// Kinds of authentication messages.
const OK: i32 = 0;
const MD5: i32 = 5;
const SASL: i32 = 10;
const SASL_CONTINUE: i32 = 11;
const SASL_FINAL: i32 = 12;

/// The longest message of a client that logs in, as in PostgreSQL (`PG_MAX_AUTH_TOKEN_LENGTH`).
const MESSAGE_MAX: usize = 65_535;

/// A client that is logging in.
#[derive(Debug)]
pub struct Gate {
    user: String,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Expects the choice of a mechanism with the first message.
    Offered(Box<Exchange>, ServerCredentials),
    /// Expects the proof.
    Challenged(Box<Exchange>, ServerCredentials),
    /// Expects the answer to that salt.
    Md5(Md5Hash, [u8; 4]),
    Over,
}

/// The result of a client's bytes.
#[derive(Debug)]
pub enum Step {
    /// More bytes must come.
    More,
    /// The client is who it says; its session may begin. The last reply was AuthenticationOk.
    In(ServerCredentials),
    /// The client is not let in; the reply, if it gets one, says why as far as it may know.
    Refused(Refused),
}

/// Why a client is not let in, for our log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Its proof does not fit: the password is wrong, or there is no such user. A secret from the server may be out of
    /// date, and is to be [forgotten](super::Source::forget).
    Proof(String),
    /// It violates the protocol.
    Disorder(String),
    /// It has left.
    Left,
}

impl Gate {
    /// Asks a client for a proof. Unknown users are asked in the same way. `end_point` is what proofs can be bound to:
    /// that of the certificate which the client sees
    /// ([`end_point`](plimsoll_pg::scram::binding::end_point)), `None` without TLS.
    pub fn new(user: &str, known: &Known, end_point: Option<&[u8]>, out: &mut Vec<u8>) -> Self {
        let scram = |verifier, credentials| {
            let exchange = match end_point {
                Some(end_point) => Exchange::bound_to(verifier, end_point.to_vec()),
                None => Exchange::new(verifier),
            };
            State::Offered(Box::new(exchange), credentials)
        };
        let state = match &known.secret {
            Secret::Verifier(verifier) => scram(verifier.clone(), ServerCredentials::None),
            Secret::Clear(clear) => scram(clear.verifier().clone(), ServerCredentials::Clear(clear.clone())),
            Secret::Md5(hash) => State::Md5(hash.clone(), Md5Hash::salt()),
        };
        let mut answers = Answers::default();
        match &state {
            State::Md5(_, salt) => answers.authentication(MD5, salt),
            State::Offered(exchange, _) => {
                let names = exchange.mechanisms().iter().flat_map(|name| [name.as_bytes(), b"\0"]);
                // Each name ends with a zero byte, and so does the list.
                answers.authentication(SASL, &[&names.collect::<Vec<_>>().concat(), &b"\0"[..]].concat());
            }
            State::Challenged(..) | State::Over => {}
        }
        out.extend(answers.take());
        Gate { user: user.to_owned(), state }
    }

    /// Lets a client in whose certificate names the user. What is known of its password serves at the server, except a
    /// SCRAM verifier, of which only a client's proof makes keys.
    pub fn by_certificate(known: Option<&Secret>, out: &mut Vec<u8>) -> ServerCredentials {
        let mut answers = Answers::default();
        answers.authentication(OK, &[]);
        out.extend(answers.take());
        match known {
            Some(Secret::Md5(hash)) => ServerCredentials::Md5(hash.clone()),
            Some(Secret::Clear(clear)) => ServerCredentials::Clear(clear.clone()),
            Some(Secret::Verifier(_)) | None => ServerCredentials::None,
        }
    }

    /// Handles bytes of the client; returns how many were taken. Bytes behind the last message of the login are left:
    /// they belong to the session.
    pub fn on_client(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let mut taken = 0;
        loop {
            let step = match first_message(&bytes[taken..], MESSAGE_MAX) {
                Ok(None) => return (taken, Step::More),
                Ok(Some((message, length))) => {
                    taken += length;
                    match message.tag {
                        b'p' => self.on_proof(message.body, out),
                        b'X' => Step::Refused(Refused::Left),
                        tag => disorder(format!("expected a password, received a message \"{}\"", tag.escape_ascii())),
                    }
                }
                Err(why) => disorder(why),
            };
            match &step {
                Step::More => continue,
                Step::In(_) => {}
                Step::Refused(why) => {
                    self.state = State::Over;
                    out.extend(self.refusal(why));
                }
            }
            return (taken, step);
        }
    }

    fn on_proof(&mut self, body: &[u8], out: &mut Vec<u8>) -> Step {
        let mut answers = Answers::default();
        let step = match std::mem::replace(&mut self.state, State::Over) {
            State::Md5(hash, salt) => {
                // The answer ends with a zero byte.
                match body.strip_suffix(b"\0").is_some_and(|answer| hash.fits(answer, salt)) {
                    true => Step::In(ServerCredentials::Md5(hash)),
                    false => wrong("the password is wrong, or there is no such user"),
                }
            }
            State::Offered(mut exchange, credentials) => match first_of_scram(body) {
                None => disorder("the first message of SCRAM is not one".to_owned()),
                Some((mechanism, first)) => match exchange.challenge(mechanism, first) {
                    Ok(challenge) => {
                        answers.authentication(SASL_CONTINUE, challenge.as_bytes());
                        self.state = State::Challenged(exchange, credentials);
                        Step::More
                    }
                    Err(why) => wrong(&why.to_string()),
                },
            },
            State::Challenged(mut exchange, credentials) => match exchange.prove(body) {
                Ok(proved) => {
                    answers.authentication(SASL_FINAL, proved.answer.as_bytes());
                    Step::In(match credentials {
                        ServerCredentials::None => ServerCredentials::Keys(proved.keys),
                        known => known,
                    })
                }
                Err(why) => wrong(&why.to_string()),
            },
            State::Over => disorder("a message after the end of the login".to_owned()),
        };
        if matches!(step, Step::In(_)) {
            answers.authentication(OK, &[]);
        }
        out.extend(answers.take());
        step
    }

    /// The error for the client. It says neither whether there is such a user, nor what was wrong with the proof.
    fn refusal(&self, why: &Refused) -> Vec<u8> {
        match why {
            Refused::Proof(_) => password_refusal(&self.user),
            Refused::Disorder(what) => {
                let message = format!("protocol violation during a login: {what}");
                error_response(&Notice::new("FATAL", "08P01", &message))
            }
            Refused::Left => Vec::new(),
        }
    }
}

/// The error for a client whose password is wrong, in PostgreSQL's words.
pub(super) fn password_refusal(user: &str) -> Vec<u8> {
    let message = format!("password authentication failed for user \"{user}\"");
    error_response(&Notice::new("FATAL", "28P01", &message))
}

/// Mechanism and first message of a SASLInitialResponse.
fn first_of_scram(body: &[u8]) -> Option<(&str, &[u8])> {
    let mut fields = Fields(body);
    let mechanism = fields.text()?;
    let length = usize::try_from(fields.int()?).ok()?;
    let first = fields.bytes(length)?;
    fields.0.is_empty().then_some((mechanism, first))
}

fn wrong(why: &str) -> Step {
    Step::Refused(Refused::Proof(why.to_owned()))
}

fn disorder(what: String) -> Step {
    Step::Refused(Refused::Disorder(what))
}
