//! From a forwarded start-up message to the server's first ReadyForQuery: a state machine without sockets.
//!
//! The server asks for proofs and the client gives them; the governor knows no passwords and passes everything on, with
//! two exceptions.
//!
//! SCRAM-SHA-256-PLUS binds a proof to the certificate of its connection, and there are two connections here. If the
//! governor presents the server's own certificate to clients ([`Terms::binding_holds`]), the proof is valid on both,
//! and everything is passed on. Otherwise that mechanism is removed from the server's offer. A client that could have
//! used it states that in the data that it signs, and a server that offered it must refuse such a login as an attack (RFC
//! 5802, section 6). The governor refuses first, with a more helpful message.
//!
//! A server that does not ask for a proof authenticates the governor, not the client: `peer` accepts the role of the
//! governor's account, `cert` the role in the governor's certificate, `trust` for 127.0.0.1 every role. So the client's
//! own connection must be trusted as much ([`Terms::must_be_asked`]), or the settings must permit it.

use crate::pool::settings::Reports;
use crate::registry::BackendKey;
use crate::session::{Outbox, Reported, message_of};

use super::refusal::Refusal;
use super::startup::CLASS;

/// The longest message during a login; libpq accepts no longer ones, either.
const MESSAGE_MAX: usize = 64 << 10;

/// Tag and length.
const HEAD_BYTES: usize = 5;

/// The mechanism that binds to a certificate.
const BINDING_MECHANISM: &[u8] = b"SCRAM-SHA-256-PLUS";

/// The error of a server that does not accept connections yet, or no longer.
const CANNOT_CONNECT_NOW: &[u8] = b"57P03";

/// The conditions of a login besides its messages.
#[derive(Debug, Clone, Default)]
pub(super) struct Terms {
    /// Client and server see the same certificate.
    pub(super) binding_holds: bool,
    /// The server must ask the client for a proof.
    pub(super) must_be_asked: bool,
    /// The governor has added the session's class to the start-up message.
    pub(super) is_class_announced: bool,
    /// The key that the client gets in place of the server's.
    pub(super) own_key: Option<BackendKey>,
}

/// The state of a login.
#[derive(Debug, Default)]
pub(super) struct Login {
    pub(super) terms: Terms,
    /// The server has asked for a proof.
    is_asked: bool,
    /// The server has accepted the client's proof; from now on the client's bytes belong to the session.
    is_proven: bool,
    /// The server has offered channel binding, and the offer was removed.
    is_binding_hidden: bool,
    /// The client's next message chooses a mechanism.
    is_mechanism_due: bool,
    pub(super) has_heard_server: bool,
    pub(super) key: Option<BackendKey>,
    pub(super) reported: Reported,
    /// Everything that the server reports, for a connection of a pool.
    pub(super) reports: Reports,
    /// Why the server currently refuses every client.
    pub(super) not_ready: Option<String>,
}

/// The result of a step of a login.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stepped {
    pub(super) taken: usize,
    /// The session begins with the next byte.
    pub(super) is_done: bool,
}

impl Login {
    pub(super) fn new(terms: Terms) -> Self {
        Login { terms, ..Login::default() }
    }

    /// Handles bytes from the client. Until the server has accepted the client they are proofs; bytes that arrive too
    /// early are left.
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

    pub(super) fn on_server(&mut self, bytes: &[u8], out: &mut impl Outbox) -> Result<Stepped, Refusal> {
        self.has_heard_server |= !bytes.is_empty();
        let mut taken = 0;
        while let Some(message) = message(&bytes[taken..])? {
            taken += message.len();
            match message[0] {
                b'R' => self.on_authentication(message, out)?,
                b'K' => {
                    self.key = Some(backend_key(&message[HEAD_BYTES..])?);
                    match &self.terms.own_key {
                        Some(own) => out.to_client(&key_message(own)),
                        None => out.to_client(message),
                    }
                }
                b'S' => {
                    self.reported.on_parameter(&message[HEAD_BYTES..]);
                    if self.terms.own_key.is_some() {
                        self.keep_report(&message[HEAD_BYTES..]);
                    }
                    out.to_client(message);
                }
                b'E' => {
                    self.on_error(&message[HEAD_BYTES..]);
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
            0 if !self.is_asked && self.terms.must_be_asked => return Err(unasked_refusal()),
            0 => self.is_proven = true,
            10 => {
                (self.is_mechanism_due, self.is_asked) = (true, true);
                if !self.terms.binding_holds
                    && let Some(offer) = without_binding(message)
                {
                    self.is_binding_hidden = true;
                    out.to_client(&offer);
                    return Ok(());
                }
            }
            _ => self.is_asked = true,
        }
        out.to_client(message);
        Ok(())
    }

    fn keep_report(&mut self, body: &[u8]) {
        let mut texts = body.split(|byte| *byte == 0);
        if let (Some(name), Some(value)) = (texts.next(), texts.next()) {
            self.reports.insert(name.into(), value.into());
        }
    }

    fn on_error(&mut self, fields: &[u8]) {
        let field = |tag: u8| fields.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(&[tag]));
        let text = || String::from_utf8_lossy(field(b'M').unwrap_or_default()).into_owned();
        if field(b'C') == Some(CANNOT_CONNECT_NOW) {
            self.not_ready = Some(text());
        }
        let names_class = || memchr::memmem::find(field(b'M').unwrap_or_default(), CLASS.as_bytes()).is_some();
        if self.terms.is_class_announced && names_class() {
            let why = text();
            tracing::warn!(why, "the server refuses the startup parameter {CLASS}; set announce_class = false");
        }
    }
}

/// The first message, if it is complete.
fn message(bytes: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    let Some(head) = bytes.get(..HEAD_BYTES) else { return Ok(None) };
    let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes")) as usize;
    if !(4..=MESSAGE_MAX).contains(&length) {
        let what = format!("a message \"{}\" of {length} bytes", head[0].escape_ascii());
        return Err(disorder(&what));
    }
    Ok(bytes.get(..length + 1))
}

/// AuthenticationSASL without the binding mechanism; `None` if it does not offer it.
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

/// Whether a SASLInitialResponse says that its client supports binding, and believes that the server does not (`y`).
fn expects_binding(message: &[u8]) -> bool {
    let body = &message[HEAD_BYTES..];
    memchr::memchr(0, body).and_then(|end| body.get(end + 5)) == Some(&b'y')
}

pub(super) fn binding_refusal() -> Refusal {
    let what = "the client asks for channel binding, and the governor's TLS certificate is not the server's";
    Refusal::new("28000", what).hint(BINDING_HINT)
}

/// What to do about channel binding.
pub(super) const BINDING_HINT: &str = "Connect with channel_binding=disable; or give the governor the server's \
    certificate and key in [listen.tls]; or let the governor reach its server without TLS (a Unix socket, or \
    sslmode=disable in its URL).";

fn unasked_refusal() -> Refusal {
    let what = "the server let the governor in without asking for a password, so this client has proved nothing";
    let hint = "Require scram-sha-256 for the governor's connections in pg_hba.conf (not peer, trust or cert), or set \
                trust_clients = true in the governor's configuration if every client may log in as this role.";
    Refusal::new("28000", what).hint(hint)
}

/// A `BackendKeyData`.
pub(super) fn key_message(key: &BackendKey) -> Vec<u8> {
    message_of(b'K', &[&key.process.to_be_bytes(), &key.secret])
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
