//! From an open stream to a session: encryption, authentication, the server's version and keys.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::time::Instant;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use super::error::{ServerError, WireError};
use super::input::Input;
use super::stream::Stream;
use super::{Connection, TransactionState, refusal, tls};
use crate::scram::Login;
use crate::url::{Password, ServerUrl, SslMode};

/// Major versions of PostgreSQL that are supported.
pub const SUPPORTED: RangeInclusive<u32> = 13..=18;

/// The name of the mechanism.
const SCRAM_SHA_256: &str = "SCRAM-SHA-256";

/// More messages than any server sends while a session begins.
const MESSAGES_MAX: usize = 10_000;

type Setting<'a> = (&'a str, &'a str);

/// Begins a session with our own settings and these.
pub(super) fn start(url: &ServerUrl, settings: &[Setting<'_>]) -> Result<Connection, WireError> {
    start_as(url, &[&our_settings(url), settings].concat())
}

/// Begins a session with exactly these settings.
pub(super) fn start_as(url: &ServerUrl, settings: &[Setting<'_>]) -> Result<Connection, WireError> {
    start_by(url, settings, greet)
}

/// Begins a session of a pooler's console, whose version is not one of PostgreSQL.
pub(super) fn start_console(url: &ServerUrl) -> Result<Connection, WireError> {
    start_by(url, &our_settings(url), log_in)
}

type Greet = fn(Stream, &ServerUrl, &[Setting<'_>]) -> Result<Connection, WireError>;

fn start_by(url: &ServerUrl, settings: &[Setting<'_>], greet: Greet) -> Result<Connection, WireError> {
    let plain = ServerUrl { ssl_mode: SslMode::Disable, ..url.clone() };
    match start_once(url, settings, greet) {
        // The server accepts this role only without encryption, which `prefer` allows.
        Err(WireError::Server(error)) if url.ssl_mode == SslMode::Prefer && error.code == "28000" => {
            start_once(&plain, settings, greet).map_err(|_| WireError::Server(error))
        }
        started => started,
    }
    .map_err(|error| refusal::explain(error, url))
}

fn start_once(url: &ServerUrl, settings: &[Setting<'_>], greet: Greet) -> Result<Connection, WireError> {
    let stream = Stream::open(url).and_then(|stream| encrypt(stream, url));
    greet(stream.map_err(|error| refusal::unreachable(&error, url))?, url, settings)
}

/// A connection on which nothing has been sent yet.
pub(super) fn unused(stream: Stream, url: &ServerUrl) -> Connection {
    Connection {
        stream,
        input: Input::new(),
        output: BytesMut::with_capacity(4 << 10),
        state: TransactionState::Idle,
        lost: None,
        listed: None,
        process_id: 0,
        secret_key: 0,
        version: 0,
        parameters: BTreeMap::new(),
        notices: Vec::new(),
        url: url.clone(),
    }
}

pub(super) fn greet(stream: Stream, url: &ServerUrl, settings: &[Setting<'_>]) -> Result<Connection, WireError> {
    let mut connection = log_in(stream, url, settings)?;
    connection.version = version(&connection)?;
    Ok(connection)
}

pub(super) fn log_in(stream: Stream, url: &ServerUrl, settings: &[Setting<'_>]) -> Result<Connection, WireError> {
    let mut connection = unused(stream, url);
    let login = [("user", url.user.as_str()), ("database", url.database.as_str())];
    let parameters = login.into_iter().chain(settings.iter().copied());
    let written = frontend::startup_message(parameters, &mut connection.output);
    written.map_err(|error| WireError::Refused(error.to_string()))?;
    Greeting { connection: &mut connection, sasl: None }.run(url.password.as_ref())?;
    connection.stream.set_timeout(None).map_err(|error| connection.lose(&error.to_string()))?;
    Ok(connection)
}

/// The settings of every session that reads its answers itself.
fn our_settings(url: &ServerUrl) -> [Setting<'_>; 3] {
    [("application_name", url.application_name.as_str()), ("DateStyle", "ISO, YMD"), ("TimeZone", "UTC")]
}

fn encrypt(stream: Stream, url: &ServerUrl) -> io::Result<Stream> {
    let Stream::Tcp(tcp) = stream else { return Ok(stream) };
    if url.ssl_mode == SslMode::Disable {
        return Ok(Stream::Tcp(tcp));
    }
    match tls::ask(tcp, url)? {
        tls::Asked::Encrypted(stream) => Ok(Stream::Tls(stream)),
        tls::Asked::Plain(stream) if url.ssl_mode == SslMode::Prefer => Ok(Stream::Tcp(stream)),
        tls::Asked::Plain(_) => Err(io::Error::other(format!(
            "the server does not speak TLS, and sslmode={} asks for it; use sslmode=prefer, or set ssl = on there",
            url.ssl_mode.name()
        ))),
    }
}

fn version(connection: &Connection) -> Result<u32, WireError> {
    let text = connection.parameter("server_version").unwrap_or("nothing").to_owned();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let major = numbers.next().and_then(Result::ok).unwrap_or(0);
    let minor = numbers.next().and_then(Result::ok).unwrap_or(0);
    let number = major.saturating_mul(10_000).saturating_add(minor.min(9_999));
    if major < *SUPPORTED.start() {
        let what = format!("the server is PostgreSQL {text}; {} or newer is needed", SUPPORTED.start());
        return Err(WireError::Refused(what));
    }
    Ok(number)
}

/// The start-up exchange of a session.
struct Greeting<'a> {
    connection: &'a mut Connection,
    /// The progress of SASL authentication.
    sasl: Option<Sasl>,
}

struct Sasl {
    login: Login,
    is_server_proven: bool,
}

impl Greeting<'_> {
    fn run(&mut self, password: Option<&Password>) -> Result<(), WireError> {
        self.connection.send()?;
        for _ in 0..MESSAGES_MAX {
            let range = self.connection.next_message()?;
            let message = &self.connection.input.bytes()[range];
            if message[0] == b'E' {
                let error = ServerError::read(message).map_err(|error| self.connection.disorder(&error))?;
                return Err(WireError::Server(Box::new(error)));
            }
            let parsed =
                Message::parse(&mut BytesMut::from(message)).map_err(|error| self.connection.disorder(&error))?;
            let message = parsed.expect("the message is whole");
            if self.answer(message, password)? {
                return Ok(());
            }
        }
        Err(self.connection.disorder(&"more messages than any server sends before a session begins"))
    }

    /// Answers one message; returns whether the session has begun.
    fn answer(&mut self, message: Message, password: Option<&Password>) -> Result<bool, WireError> {
        match message {
            Message::AuthenticationOk => {
                if self.sasl.as_ref().is_some_and(|sasl| !sasl.is_server_proven) {
                    return Err(self.connection.disorder(&"the server did not prove that it knows the password"));
                }
            }
            Message::AuthenticationCleartextPassword => {
                if !self.connection.stream.is_private() {
                    let what = "the server asks for the password in plain text over an open connection; use \
                                sslmode=require, or scram-sha-256 in its pg_hba.conf";
                    return Err(WireError::Refused(what.to_owned()));
                }
                let password = self.needed(password)?;
                self.reply(|output| frontend::password_message(password.bytes(), output))?;
            }
            Message::AuthenticationMd5Password(body) => {
                let password = self.needed(password)?;
                let hash = md5_hash(self.connection.url.user.as_bytes(), password.bytes(), body.salt());
                self.reply(|output| frontend::password_message(hash.as_bytes(), output))?;
            }
            Message::AuthenticationSasl(body) => {
                let offered: Vec<String> = body
                    .mechanisms()
                    .map(|name| Ok(name.to_owned()))
                    .collect()
                    .map_err(|e| self.connection.disorder(&e))?;
                self.begin_sasl(&offered, password)?;
            }
            Message::AuthenticationSaslContinue(body) => self.go_on_with_sasl(body.data())?,
            Message::AuthenticationSaslFinal(body) => self.end_sasl(body.data())?,
            Message::BackendKeyData(body) => {
                self.connection.process_id = body.process_id();
                self.connection.secret_key = body.secret_key();
            }
            Message::ParameterStatus(body) => self.connection.note_parameter(&body)?,
            Message::NoticeResponse(_) => {}
            Message::ReadyForQuery(_) => return Ok(true),
            Message::AuthenticationGss | Message::AuthenticationSspi | Message::AuthenticationKerberosV5 => {
                let what = "the server asks for Kerberos; use a role that it lets in by scram-sha-256, md5 or trust \
                            (its pg_hba.conf)";
                return Err(WireError::Refused(what.to_owned()));
            }
            _ => return Err(self.connection.disorder(&"a message that does not belong to the beginning of a session")),
        }
        Ok(false)
    }

    fn needed<'p>(&self, password: Option<&'p Password>) -> Result<&'p Password, WireError> {
        password.ok_or_else(|| refusal::no_password(&self.connection.url))
    }

    fn reply(&mut self, write: impl FnOnce(&mut BytesMut) -> io::Result<()>) -> Result<(), WireError> {
        write(&mut self.connection.output).map_err(|error| WireError::Refused(error.to_string()))?;
        self.connection.send()
    }

    fn begin_sasl(&mut self, offered: &[String], password: Option<&Password>) -> Result<(), WireError> {
        if !offered.iter().any(|name| name == SCRAM_SHA_256) {
            let what = format!("the server offers no way to log in that is known here, only {}", offered.join(", "));
            return Err(WireError::Refused(what));
        }
        let login = Login::new(self.needed(password)?.bytes());
        self.reply(|output| frontend::sasl_initial_response(SCRAM_SHA_256, login.first_message().as_bytes(), output))?;
        self.sasl = Some(Sasl { login, is_server_proven: false });
        Ok(())
    }

    fn go_on_with_sasl(&mut self, data: &[u8]) -> Result<(), WireError> {
        let Some(mut sasl) = self.sasl.take() else { return Err(self.connection.disorder(&"a proof out of turn")) };
        let until = Instant::now() + self.connection.url.connect_timeout;
        let proof = sasl.login.prove(data, until).map_err(|why| {
            WireError::Refused(format!("cannot log in to {} by SCRAM: {why}", self.connection.url.address()))
        })?;
        self.reply(|output| frontend::sasl_response(proof.as_bytes(), output))?;
        self.sasl = Some(sasl);
        Ok(())
    }

    fn end_sasl(&mut self, data: &[u8]) -> Result<(), WireError> {
        let Some(sasl) = self.sasl.as_mut() else { return Err(self.connection.disorder(&"a proof out of turn")) };
        if !sasl.login.is_proven_by(data) {
            return Err(self.connection.disorder(&"the server did not prove that it knows the password"));
        }
        sasl.is_server_proven = true;
        Ok(())
    }
}
