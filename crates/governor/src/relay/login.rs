//! From a start-up message that was passed on to the server's first ReadyForQuery: a state machine without sockets.
//!
//! The server asks for proofs and the client gives them; the governor knows no password and passes everything on, but
//! for one thing. SCRAM-SHA-256-PLUS ties a proof to the certificate of the connection that it is given on, and there are
//! two connections here; so that mechanism is taken out of what the server offers. A client that could have used it and
//! says so would be refused by a server that offered it (RFC 5802, section 6), which is told here in words that help.

use crate::registry::BackendKey;
use crate::session::{Outbox, Reported};

use super::refusal::Refusal;

/// The longest message during a login; libpq takes no longer ones, either.
const MESSAGE_MAX: usize = 64 << 10;

/// Tag and length.
const HEAD_BYTES: usize = 5;

/// The mechanism that binds to a certificate.
const BINDING_MECHANISM: &[u8] = b"SCRAM-SHA-256-PLUS";

/// How far a login is.
#[derive(Debug, Default)]
pub(super) struct Login {
    /// The server is satisfied with the client's proof; the client's bytes from now on are the session's.
    is_proven: bool,
    /// The server has offered to bind, which the client was not told.
    is_binding_hidden: bool,
    /// The client's next message chooses a mechanism.
    is_mechanism_due: bool,
    /// Whether the server has said anything.
    pub(super) has_heard_server: bool,
    /// What cancels.
    pub(super) key: Option<BackendKey>,
    /// What the server has reported of the session.
    pub(super) reported: Reported,
}

/// What a step of a login has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stepped {
    /// Bytes taken.
    pub(super) taken: usize,
    /// The session begins with the next byte.
    pub(super) is_done: bool,
}

impl Login {
    /// Bytes from the client. What comes before the server has let it in is a proof; what comes early is left.
    pub(super) fn on_client(&mut self, bytes: &[u8], out: &mut impl Outbox) -> Result<usize, Refusal> {
        let mut taken = 0;
        while let Some(message) = message(&bytes[taken..])? {
            if self.is_proven || !matches!(message[0], b'p' | b'X') {
                break;
            }
            if std::mem::take(&mut self.is_mechanism_due) && self.is_binding_hidden && expects_binding(message) {
                return Err(binding_refusal());
            }
            out.to_server(message);
            taken += message.len();
        }
        Ok(taken)
    }

    /// Bytes from the server.
    pub(super) fn on_server(&mut self, bytes: &[u8], out: &mut impl Outbox) -> Result<Stepped, Refusal> {
        self.has_heard_server |= !bytes.is_empty();
        let mut taken = 0;
        while let Some(message) = message(&bytes[taken..])? {
            taken += message.len();
            match message[0] {
                b'R' => self.on_authentication(message, out)?,
                b'K' => {
                    self.key = Some(backend_key(&message[HEAD_BYTES..])?);
                    out.to_client(message);
                }
                b'S' => {
                    self.reported.on_parameter(&message[HEAD_BYTES..]);
                    out.to_client(message);
                }
                b'Z' => {
                    out.to_client(message);
                    return Ok(Stepped { taken, is_done: true });
                }
                _ => out.to_client(message),
            }
        }
        Ok(Stepped { taken, is_done: false })
    }

    fn on_authentication(&mut self, message: &[u8], out: &mut impl Outbox) -> Result<(), Refusal> {
        let kind = message.get(HEAD_BYTES..HEAD_BYTES + 4);
        let kind = kind.ok_or_else(|| disorder("a request for a proof that asks for nothing"))?;
        match u32::from_be_bytes(kind.try_into().expect("four bytes")) {
            0 => self.is_proven = true,
            10 => {
                self.is_mechanism_due = true;
                if let Some(offer) = without_binding(message) {
                    self.is_binding_hidden = true;
                    out.to_client(&offer);
                    return Ok(());
                }
            }
            _ => {}
        }
        out.to_client(message);
        Ok(())
    }
}

/// The first message, if it is whole.
fn message(bytes: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    let Some(head) = bytes.get(..HEAD_BYTES) else { return Ok(None) };
    let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes")) as usize;
    if !(4..=MESSAGE_MAX).contains(&length) {
        let what = format!("a message \"{}\" of {length} bytes", head[0].escape_ascii());
        return Err(disorder(&what));
    }
    Ok(bytes.get(..length + 1))
}

/// AuthenticationSASL without the mechanism that binds; `None` if it offers no such.
fn without_binding(message: &[u8]) -> Option<Vec<u8>> {
    let mechanisms = message[HEAD_BYTES + 4..].split(|byte| *byte == 0).take_while(|name| !name.is_empty());
    if !mechanisms.clone().any(|name| name == BINDING_MECHANISM) {
        return None;
    }
    let mut offer = message[..HEAD_BYTES + 4].to_vec();
    for name in mechanisms.filter(|name| *name != BINDING_MECHANISM) {
        offer.extend_from_slice(name);
        offer.push(0);
    }
    offer.push(0);
    let length = u32::try_from(offer.len() - 1).expect("it became shorter");
    offer[1..HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    Some(offer)
}

/// Whether a SASLInitialResponse says that its client would bind, and takes the server for one that cannot (`y`).
fn expects_binding(message: &[u8]) -> bool {
    let body = &message[HEAD_BYTES..];
    memchr::memchr(0, body).and_then(|end| body.get(end + 5)) == Some(&b'y')
}

fn binding_refusal() -> Refusal {
    let what = "the client would bind its login to the certificate of the server, which a proxy between two encrypted \
                connections cannot pass on";
    let hint = "Connect with channel_binding=disable, or let the governor reach its server without TLS (a Unix socket, \
                or sslmode=disable in the server's URL).";
    Refusal::new("28000", what).hint(hint)
}

fn backend_key(body: &[u8]) -> Result<BackendKey, Refusal> {
    let secret = body.get(4..).filter(|secret| (4..=256).contains(&secret.len()));
    let secret = secret.ok_or_else(|| disorder(&format!("a key of {} bytes for cancelling", body.len())))?;
    let process = i32::from_be_bytes(body[..4].try_into().expect("the secret follows"));
    Ok(BackendKey { process, secret: secret.into() })
}

fn disorder(what: &str) -> Refusal {
    Refusal::new("08P01", format!("protocol violation during a login: {what}"))
}

#[cfg(test)]
mod tests;
