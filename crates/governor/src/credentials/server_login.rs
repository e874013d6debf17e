//! The client's half of a login, at the server, without a client: a state machine without sockets.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use plimsoll_pg::scram::server::MECHANISM;
use plimsoll_pg::scram::{Login, ProofError};
use plimsoll_pg::secret::{ClearPassword, Md5Hash};
use postgres_protocol::message::frontend;

use super::ServerCredentials;
use super::gate::password_refusal;
use crate::admin::wire::{Fields, Message, first_message};
use crate::registry::BackendKey;

/// The longest message during a login; libpq accepts no longer ones, either.
const MESSAGE_MAX: usize = 64 << 10;

/// More messages than any server sends while a session begins.
const MESSAGES_MAX: usize = 10_000;

/// How long a password may be hashed for a server, on the thread of the caller. That happens once for each verifier;
/// 4,096 iterations take less than a millisecond, and 600,000 a hundred times as long.
const HASHING_MAX: Duration = Duration::from_secs(1);

/// The conditions of a login besides its messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// No other party can read the connection: it uses TLS, or a Unix socket.
    pub is_private: bool,
    /// The server must ask for a proof: it must not take the governor's own account, address or certificate for one.
    pub must_be_asked: bool,
}

/// A login in progress.
#[derive(Debug)]
pub struct ServerLogin {
    user: String,
    credentials: ServerCredentials,
    terms: Terms,
    sasl: Option<Sasl>,
    /// The server has asked for a proof.
    is_asked: bool,
    /// The server has accepted it.
    is_accepted: bool,
    messages: usize,
    session: ServerSession,
}

#[derive(Debug)]
struct Sasl {
    login: Login,
    /// The password, which keeps the keys of this login.
    clear: Option<Arc<ClearPassword>>,
    is_challenged: bool,
    is_server_proven: bool,
}

/// A session of the server that has begun.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerSession {
    /// The key that cancels its statements; poolers may send none.
    pub key: Option<BackendKey>,
    /// The parameters that the server has reported, with their values, in its order.
    pub parameters: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The result of bytes from the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stepped {
    /// How many bytes were taken.
    pub taken: usize,
    /// The session, once the server is ready for its first statement.
    pub session: Option<ServerSession>,
}

/// Why there is no session. The connection is to be closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoginFailure {
    /// What can be done about it.
    pub kind: FailureKind,
    /// What happened, and the remedy, for our log.
    pub message: String,
    /// An ErrorResponse, whole, that the client may receive: the server's own, or that its password is wrong. `None` for
    /// faults that are not the client's concern.
    pub error: Option<Box<[u8]>>,
}

/// What can be done about a failed login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The server accepts no session now: it is starting or stopping, or has no connection left. A later login may
    /// succeed.
    NotReady,
    /// The server does not accept the proof: what the governor knows of the password is not what the server has. It is to be
    /// [forgotten](super::Source::forget); a login after that may succeed.
    Secret,
    /// The server asks for what these credentials do not have.
    Credentials,
    /// The server asks for nothing, and it must.
    Unasked,
    /// The server refuses this role or database, and will until an operator changes that.
    Refused,
    /// The server violates the protocol.
    Disorder,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FailureKind::NotReady => "not ready",
            FailureKind::Secret => "wrong secret",
            FailureKind::Credentials => "other credentials",
            FailureKind::Unasked => "unasked",
            FailureKind::Refused => "refused",
            FailureKind::Disorder => "disorder",
        })
    }
}

impl ServerLogin {
    /// Begins a login: writes the start-up message. `parameters` are those besides user and database. Fails for texts
    /// with a zero byte.
    pub fn new(
        user: &str,
        database: &str,
        parameters: &[(&str, &str)],
        credentials: ServerCredentials,
        terms: Terms,
        out: &mut Vec<u8>,
    ) -> io::Result<Self> {
        let login = [("user", user), ("database", database)];
        write(out, |message| frontend::startup_message(login.into_iter().chain(parameters.iter().copied()), message))?;
        Ok(ServerLogin {
            user: user.to_owned(),
            credentials,
            terms,
            sasl: None,
            is_asked: false,
            is_accepted: false,
            messages: 0,
            session: ServerSession::default(),
        })
    }

    /// Handles bytes of the server, and writes the answers. Bytes behind the first ReadyForQuery are left.
    pub fn on_server(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Stepped, LoginFailure> {
        let mut taken = 0;
        while let Some((message, length)) = first_message(&bytes[taken..], MESSAGE_MAX).map_err(disorder)? {
            let whole = &bytes[taken..taken + length];
            taken += length;
            self.messages += 1;
            if self.messages > MESSAGES_MAX {
                return Err(disorder("more messages than any server sends before a session begins"));
            }
            if self.on_message(message, whole, out)? {
                return Ok(Stepped { taken, session: Some(std::mem::take(&mut self.session)) });
            }
        }
        Ok(Stepped { taken, session: None })
    }

    /// Handles one message; returns whether the session has begun.
    fn on_message(&mut self, message: Message<'_>, whole: &[u8], out: &mut Vec<u8>) -> Result<bool, LoginFailure> {
        match message.tag {
            b'E' => return Err(refused(&self.user, message.body, whole)),
            b'R' if !self.is_accepted => self.on_authentication(message.body, out)?,
            b'K' if self.is_accepted => self.session.key = Some(backend_key(message.body)?),
            b'S' if self.is_accepted => {
                let mut parts = message.body.split(|byte| *byte == 0);
                let (Some(name), Some(value), Some(b""), None) =
                    (parts.next(), parts.next(), parts.next(), parts.next())
                else {
                    return Err(disorder("a parameter without a value"));
                };
                self.session.parameters.push((name.to_vec(), value.to_vec()));
            }
            b'Z' if self.is_accepted => return Ok(true),
            // Notices, and the answer to a newer version of the protocol.
            b'N' | b'v' => {}
            tag => {
                let what = format!("a message \"{}\" that does not belong there", tag.escape_ascii());
                return Err(disorder(what));
            }
        }
        Ok(false)
    }

    fn on_authentication(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), LoginFailure> {
        let (kind, data) = body.split_first_chunk::<4>().ok_or_else(|| disorder("a question for nothing"))?;
        let kind = u32::from_be_bytes(*kind);
        match kind {
            0 => return self.on_accepted(),
            3 => self.answer_clear(out)?,
            5 => self.answer_md5(data, out)?,
            10 => self.begin_sasl(data, out)?,
            11 => self.go_on_with_sasl(data, out)?,
            12 => self.end_sasl(data)?,
            _ => {
                let what = "the server asks for Kerberos or something newer, which the governor does not have; let the \
                            role in by scram-sha-256 in pg_hba.conf";
                return Err(self.lacks(what));
            }
        }
        self.is_asked = true;
        Ok(())
    }

    fn on_accepted(&mut self) -> Result<(), LoginFailure> {
        if self.sasl.as_ref().is_some_and(|sasl| !sasl.is_server_proven) {
            return Err(disorder("the server did not prove that it knows the password"));
        }
        if !self.is_asked && self.terms.must_be_asked {
            let message = format!(
                "the server let the governor in as \"{}\" without asking for a password; require scram-sha-256 for the \
                 governor's connections in pg_hba.conf (not peer, trust or cert), or set trust_clients = true",
                self.user
            );
            return Err(LoginFailure { kind: FailureKind::Unasked, message, error: None });
        }
        self.is_accepted = true;
        Ok(())
    }

    fn answer_clear(&mut self, out: &mut Vec<u8>) -> Result<(), LoginFailure> {
        let ServerCredentials::Clear(clear) = &self.credentials else {
            return Err(self.lacks("the server asks for the password in clear text (`password` in pg_hba.conf)"));
        };
        if !self.terms.is_private {
            let what = "the server asks for the password in clear text over an open connection; use sslmode=require in \
                        the URL of `server`, or scram-sha-256 in pg_hba.conf";
            return Err(self.lacks(what));
        }
        write(out, |message| frontend::password_message(clear.password().bytes(), message)).map_err(disorder)
    }

    fn answer_md5(&mut self, salt: &[u8], out: &mut Vec<u8>) -> Result<(), LoginFailure> {
        let salt = salt.try_into().map_err(|_| disorder("a salt that has not four bytes"))?;
        let answer = match &self.credentials {
            ServerCredentials::Md5(hash) => hash.answer(salt),
            ServerCredentials::Clear(clear) => Md5Hash::of_password(&self.user, clear.password().bytes()).answer(salt),
            _ => return Err(self.lacks("the server asks for an MD5 hash")),
        };
        write(out, |message| frontend::password_message(answer.as_bytes(), message)).map_err(disorder)
    }

    fn begin_sasl(&mut self, offered: &[u8], out: &mut Vec<u8>) -> Result<(), LoginFailure> {
        if self.sasl.is_some() {
            return Err(disorder("a second offer of mechanisms"));
        }
        if !offered.split(|byte| *byte == 0).any(|name| name == MECHANISM.as_bytes()) {
            let offered = String::from_utf8_lossy(offered).trim_end_matches('\0').replace('\0', ", ");
            return Err(self.lacks(&format!("the server offers only {offered}, and not {MECHANISM}")));
        }
        let (login, clear) = match &self.credentials {
            ServerCredentials::Keys(keys) => (Login::with_keys(keys.clone()), None),
            ServerCredentials::Clear(clear) => {
                (Login::with_password(clear.password().bytes(), clear.keys()), Some(clear.clone()))
            }
            _ => return Err(self.lacks("the server asks for SCRAM-SHA-256")),
        };
        let first = login.first_message();
        write(out, |message| frontend::sasl_initial_response(MECHANISM, first.as_bytes(), message))
            .map_err(disorder)?;
        self.sasl = Some(Sasl { login, clear, is_challenged: false, is_server_proven: false });
        Ok(())
    }

    fn go_on_with_sasl(&mut self, challenge: &[u8], out: &mut Vec<u8>) -> Result<(), LoginFailure> {
        let Some(sasl) = self.sasl.as_mut().filter(|sasl| !sasl.is_challenged) else {
            return Err(disorder("a challenge out of turn"));
        };
        sasl.is_challenged = true;
        let user = &self.user;
        let proof = sasl.login.prove(challenge, Instant::now() + HASHING_MAX).map_err(|why| match why {
            ProofError::OtherVerifier => LoginFailure {
                kind: FailureKind::Secret,
                message: format!(
                    "the server's verifier of role \"{user}\" is not the one that the governor knows, or the server has no \
                     valid one (VALID UNTIL); copy rolpassword from the server's pg_authid to the users file, or let \
                     auth_query find it"
                ),
                error: Some(password_refusal(user).into()),
            },
            why => LoginFailure {
                kind: FailureKind::Disorder,
                message: format!("cannot log in as \"{user}\" by SCRAM: {why}"),
                error: None,
            },
        })?;
        write(out, |message| frontend::sasl_response(proof.as_bytes(), message)).map_err(disorder)
    }

    fn end_sasl(&mut self, data: &[u8]) -> Result<(), LoginFailure> {
        let Some(sasl) = self.sasl.as_mut().filter(|sasl| sasl.login.is_proven_by(data)) else {
            return Err(disorder("the server did not prove that it knows the password"));
        };
        sasl.is_server_proven = true;
        if let (Some(clear), Some(keys)) = (&sasl.clear, sasl.login.keys()) {
            clear.keep_keys(keys);
        }
        Ok(())
    }

    /// The server asks for what is not there.
    fn lacks(&self, asked: &str) -> LoginFailure {
        let (user, has) = (
            &self.user,
            match self.credentials {
                ServerCredentials::None => "no password",
                ServerCredentials::Keys(_) => "the keys of a SCRAM verifier",
                ServerCredentials::Md5(_) => "an MD5 hash",
                ServerCredentials::Clear(_) => "the password",
            },
        );
        let message = format!("cannot log in as \"{user}\": {asked}; the governor has {has} of this role");
        LoginFailure { kind: FailureKind::Credentials, message, error: None }
    }
}

/// Appends a message.
fn write(out: &mut Vec<u8>, fill: impl FnOnce(&mut BytesMut) -> io::Result<()>) -> io::Result<()> {
    let mut message = BytesMut::new();
    fill(&mut message)?;
    out.extend_from_slice(&message);
    Ok(())
}

fn backend_key(body: &[u8]) -> Result<BackendKey, LoginFailure> {
    let mut fields = Fields(body);
    let process = fields.int();
    let secret = Some(fields.0).filter(|secret| (4..=256).contains(&secret.len()));
    let (process, secret) = process.zip(secret).ok_or_else(|| disorder("a key for cancelling of another length"))?;
    Ok(BackendKey { process, secret: secret.into() })
}

/// The server's error, and what can be done about it.
fn refused(user: &str, fields: &[u8], whole: &[u8]) -> LoginFailure {
    let field = |tag: u8| fields.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(&[tag]));
    let text = |tag: u8| String::from_utf8_lossy(field(tag).unwrap_or_default()).into_owned();
    let (code, what) = (text(b'C'), text(b'M'));
    let (kind, remedy) = match code.as_str() {
        // The server is starting, stopping or recovering, or lacks connections, memory or disk.
        "57P01" | "57P02" | "57P03" => (FailureKind::NotReady, ""),
        _ if code.starts_with("53") => (FailureKind::NotReady, ""),
        "28P01" => (
            FailureKind::Secret,
            "; the governor knows another password than the server has, or the password has expired (VALID UNTIL)",
        ),
        _ => (FailureKind::Refused, ""),
    };
    let message = format!("the server refuses role \"{user}\": {code}: {what}{remedy}");
    LoginFailure { kind, message, error: Some(whole.into()) }
}

fn disorder(what: impl fmt::Display) -> LoginFailure {
    let message = format!("the server's answer to a login cannot be understood: {what}");
    LoginFailure { kind: FailureKind::Disorder, message, error: None }
}
