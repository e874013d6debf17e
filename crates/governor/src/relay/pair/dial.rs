//! Connecting to the server: its addresses in turn, and encryption as its URL requires.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::{TcpStream, UnixStream};
use plimsoll_pg::connection::tls_remedy;
use plimsoll_pg::url::{ServerHost, SslMode, SslNegotiation};
use rustix::process::geteuid;
use rustls::pki_types::ServerName;

use super::greet::{FILES_KEPT_AT_SERVER, is_among_last_files};
use super::pooled::made_up_key;
use super::{Aimed, Conduct, End, Pair, Phase, token};
use crate::governor::Repeated;
use crate::relay::certificate_name::common_name;
use crate::relay::context::Context;
use crate::relay::listener::{self, Peer};
use crate::relay::login::{Login, Terms};
use crate::relay::proxy_protocol;
use crate::relay::refusal::{Refusal, no_files};
use crate::relay::side::Side;
use crate::relay::socket::Socket;
use crate::relay::wire::Wire;
use crate::settings::Settings;

/// SSLRequest.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A Unix socket whose server has a full backlog refuses at once; the connection is tried again after this time.
const ROOM_RETRY: Duration = Duration::from_millis(20);

/// The hint if no server answers.
const NOT_RUNNING: &str = "Is PostgreSQL running there? `server` in the governor's configuration says where it is.";

/// The hint if the answer is unexpected.
const NOT_AGREED: &str = "`server` in the governor's configuration says how it is reached (sslmode, sslrootcert; \
                          sslnegotiation=direct needs PostgreSQL 17); the server's own log may say more.";

/// The hint for an error after the server has accepted the connection.
pub(super) fn hint_of_answer(error: Option<&io::Error>) -> &'static str {
    error.and_then(tls_remedy).unwrap_or(NOT_AGREED)
}

/// A connection to the server that is being made.
#[derive(Debug)]
pub(super) struct Dial {
    settings: Arc<Settings>,
    purpose: Purpose,
    targets: VecDeque<Target>,
    step: DialStep,
    /// When the current address times out.
    attempt_until: Instant,
    /// The time-out of each address.
    each: Duration,
    /// When to stop retrying a Unix socket.
    give_up: Instant,
    failure: String,
    /// What to do about the failure.
    hint: &'static str,
}

/// The purpose of the connection.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A session, which begins with this packet.
    Session {
        /// The client's start-up message.
        packet: Vec<u8>,
        /// How the session is treated after the login.
        conduct: Conduct,
        /// The packet contains the session's class, which the client did not request.
        is_class_announced: bool,
    },
    /// A connection that the governor opens for a pool.
    Pool,
    Cancel(Aimed),
}

#[derive(Debug, Clone)]
enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DialStep {
    /// The client waits for its turn to log in.
    Queued,
    Resolving,
    Connecting,
    /// Its backlog is full; it is tried again.
    Retrying,
    /// TLS was requested.
    Asking,
}

impl Dial {
    pub(super) fn new(settings: Arc<Settings>, purpose: Purpose, now: Instant) -> Self {
        let timeout = settings.server.connect_timeout;
        Dial {
            settings,
            purpose,
            targets: VecDeque::new(),
            step: DialStep::Resolving,
            attempt_until: now + timeout,
            each: timeout,
            give_up: now + timeout,
            failure: "its name has no address".to_owned(),
            hint: NOT_RUNNING,
        }
    }

    /// Whether the server's answer to a request for TLS is awaited.
    pub(super) fn is_asking(&self) -> bool {
        self.step == DialStep::Asking
    }

    /// Whether the connection is for a session.
    pub(super) fn is_for_session(&self) -> bool {
        matches!(self.purpose, Purpose::Session { .. })
    }

    /// An attempt failed. TLS errors appear as invalid data, or as our own errors.
    fn fail(&mut self, error: &io::Error) {
        self.failure = error.to_string();
        // A server that was asked for encryption is running.
        self.hint = if self.step == DialStep::Asking { hint_of_answer(Some(error)) } else { NOT_RUNNING };
    }

    /// When to try again, or the next address.
    pub(super) fn next_attempt_at(&self) -> Option<Instant> {
        (self.step != DialStep::Queued).then_some(self.attempt_until)
    }

    /// Whether a client of a pool logs in at the server itself, which is possible for few at once.
    fn needs_turn(&self) -> bool {
        matches!(self.purpose, Purpose::Session { conduct: Conduct::Pooled, .. })
    }
}

/// The error for a client whose turn to log in has not come within the time for logging in.
fn waited_in_vain(logins_max: u32) -> Refusal {
    let what = format!(
        "{logins_max} clients are logging in at the server already, and none of them was done within login_timeout"
    );
    let hint = "Open fewer connections at once, or raise logins_max in [pool]. With `users_file` or `auth_query` in \
                [login] the governor lets clients in itself, in any number.";
    Refusal::new("53300", what).hint(hint)
}

impl Pair {
    pub(super) fn dial(&mut self, mut dial: Dial, context: &mut Context, now: Instant) {
        if dial.needs_turn() {
            let logins_max = dial.settings.pool.logins_max;
            let (turn, has_come) = context.shared.login_turns.enter(logins_max, self.id, &context.inbox);
            self.login_turn = Some(turn);
            if !has_come {
                dial.step = DialStep::Queued;
                self.phase = Phase::Dialling(Box::new(dial));
                return;
            }
        }
        self.find_server(dial, context, now);
    }

    /// The client's turn to log in has come.
    pub(in crate::relay) fn on_login_turn(&mut self, context: &mut Context, now: Instant) {
        if let Some(Dial { settings, purpose, .. }) = self.take_dial(|dial| dial.step == DialStep::Queued) {
            self.find_server(Dial::new(settings, purpose, now), context, now);
        }
    }

    fn find_server(&mut self, mut dial: Dial, context: &mut Context, now: Instant) {
        let url = &dial.settings.server;
        match &url.host {
            ServerHost::Socket(_) => {
                dial.targets.extend(url.socket().map(Target::Unix));
                self.connect_next(dial, context, now);
            }
            ServerHost::Tcp(host) => match host.parse::<IpAddr>() {
                Ok(address) => {
                    dial.targets.push_back(Target::Tcp(SocketAddr::new(address, url.port)));
                    self.connect_next(dial, context, now);
                }
                Err(_) => {
                    context.resolve(self.id, host, url.port);
                    self.phase = Phase::Dialling(Box::new(dial));
                }
            },
        }
    }

    /// The result of looking up the server's name.
    pub(in crate::relay) fn on_addresses(
        &mut self,
        addresses: io::Result<Vec<SocketAddr>>,
        context: &mut Context,
        now: Instant,
    ) {
        let Some(mut dial) = self.take_dial(|dial| dial.step == DialStep::Resolving) else { return };
        match addresses {
            Ok(addresses) => {
                dial.each /= addresses.len().max(1) as u32;
                dial.targets.extend(addresses.into_iter().map(Target::Tcp));
            }
            Err(error) => dial.fail(&error),
        }
        self.connect_next(dial, context, now);
    }

    /// Takes the dial out of its phase, if it is in the given state.
    fn take_dial(&mut self, is_it: impl FnOnce(&Dial) -> bool) -> Option<Dial> {
        match &self.phase {
            Phase::Dialling(dial) if is_it(dial) => {}
            _ => return None,
        }
        let Phase::Dialling(dial) = std::mem::replace(&mut self.phase, Phase::Over) else { return None };
        Some(*dial)
    }

    fn connect_next(&mut self, mut dial: Dial, context: &mut Context, now: Instant) {
        self.server = None;
        while let Some(target) = dial.targets.pop_front() {
            match self.connect(&target, context) {
                Ok(mut side) => {
                    // Users in `break_glass` have no such permit, and may use the last files.
                    let is_limited = self.client_permit.is_some();
                    if is_limited && is_among_last_files(side.wire().socket(), FILES_KEPT_AT_SERVER) {
                        return self.refuse(&no_files(), context, now);
                    }
                    dial.attempt_until = now + dial.each;
                    dial.step = DialStep::Connecting;
                    self.server = Some(side);
                    self.phase = Phase::Dialling(Box::new(dial));
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && now < dial.give_up => {
                    dial.targets.push_front(target);
                    dial.attempt_until = now + ROOM_RETRY;
                    dial.step = DialStep::Retrying;
                    dial.failure = "it has no room for another connection".to_owned();
                    self.phase = Phase::Dialling(Box::new(dial));
                    return;
                }
                // Our own shortage says nothing about the server.
                Err(error) if listener::is_out_of_room(&error) && dial.is_for_session() => {
                    return self.refuse(&no_files(), context, now);
                }
                Err(error) => dial.fail(&error),
            }
        }
        self.fail_dial(dial, context, now);
    }

    fn connect(&self, target: &Target, context: &Context) -> io::Result<Side> {
        let socket = match target {
            Target::Tcp(address) => Socket::Tcp(TcpStream::connect(*address)?),
            Target::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
        };
        socket.tune();
        Side::new(Wire::plain(socket), token(self.id, End::Server), &context.poll, true)
    }

    pub(super) fn on_dial_event(&mut self, context: &mut Context, now: Instant) {
        let ends = self.ends();
        let Some(server) = &mut self.server else { return };
        let Phase::Dialling(dial) = &mut self.phase else { return };
        if dial.step != DialStep::Connecting {
            return;
        }
        match server.wire().socket().is_connected() {
            Ok(false) => {}
            Ok(true) => {
                server.is_connecting = false;
                if dial.settings.passing_on.proxy_protocol {
                    server.send(&proxy_protocol::header(ends), &mut context.spare);
                }
                let is_tcp = matches!(server.wire().socket(), Socket::Tcp(_));
                if !is_tcp || dial.settings.server.ssl_mode == SslMode::Disable {
                    return self.on_dialled(context, now);
                }
                dial.step = DialStep::Asking;
                if dial.settings.server.ssl_negotiation == SslNegotiation::Postgres {
                    return server.send(&TLS_REQUEST, &mut context.spare);
                }
                match self.begin_tls(context) {
                    Ok(()) => self.on_dialled(context, now),
                    Err(error) => self.on_dial_error(&error, context, now),
                }
            }
            Err(error) => self.on_dial_error(&error, context, now),
        }
    }

    /// The two addresses of the client's connection, if it uses TCP.
    fn ends(&mut self) -> Option<(SocketAddr, SocketAddr)> {
        let Peer::Tcp(client) = self.peer else { return None };
        let local = self.client.as_mut()?.wire().socket().local_address()?;
        Some((client, local))
    }

    /// Whether the client has presented a certificate that names the user. Clients are asked for one only if the
    /// settings have certificate authorities, one of which has signed it.
    pub(super) fn has_shown_its_name(&mut self) -> bool {
        let certificate = self.client.as_mut().and_then(|client| client.wire().peer_certificate());
        let name = certificate.and_then(common_name);
        name.is_some() && name.as_ref() == self.card.as_ref().map(|card| &card.login.user)
    }

    /// Whether the server may identify the governor by its certificate: then it authenticates the governor, not the
    /// client.
    fn shows_own_certificate(&mut self, settings: &Settings) -> bool {
        let is_encrypted = self.server.as_mut().is_some_and(|server| server.wire().is_encrypted());
        is_encrypted && settings.server.ssl_certificate.is_some()
    }

    /// Whether a server that trusts the governor's connection would trust the client's as well: the same account at a
    /// Unix socket, this machine for 127.0.0.1. Which addresses remote servers trust is unknown here.
    fn is_trusted_as_the_governor(&mut self) -> bool {
        let Some(server) = &mut self.server else { return false };
        let server = server.wire().socket();
        let is_local_client =
            |client: Option<IpAddr>| client.is_none_or(|address| address.to_canonical().is_loopback());
        match server.peer_ip() {
            Some(address) => !address.to_canonical().is_loopback() || is_local_client(self.peer.ip()),
            None => {
                let account = self.client.as_mut().and_then(|client| client.wire().socket().peer_account());
                account.is_some_and(|account| account.is_root() || account == geteuid())
            }
        }
    }

    /// The server's answer to a request for TLS, one byte.
    pub(super) fn on_tls_answer(&mut self, bytes: &[u8], context: &mut Context, now: Instant) -> usize {
        let Phase::Dialling(dial) = &self.phase else { return 0 };
        let mode = dial.settings.server.ssl_mode;
        let failure = match bytes {
            [] => return 0,
            [b'S', ..] => self.begin_tls(context).err(),
            [b'N', ..] if mode == SslMode::Prefer => None,
            [b'N', ..] => {
                let what = format!("it does not speak TLS, and sslmode={} asks for it", mode.name());
                Some(io::Error::other(what))
            }
            [other, ..] => {
                let what = format!("answer \"{}\" to a request for TLS", other.escape_ascii());
                Some(io::Error::other(what))
            }
        };
        match failure {
            Some(error) => self.on_dial_error(&error, context, now),
            None => self.on_dialled(context, now),
        }
        bytes.len()
    }

    fn begin_tls(&mut self, context: &mut Context) -> io::Result<()> {
        let Phase::Dialling(dial) = &self.phase else { return Ok(()) };
        let ServerHost::Tcp(host) = &dial.settings.server.host else { return Ok(()) };
        let name = ServerName::try_from(host.clone())
            .map_err(|_| io::Error::other(format!("`{host}` cannot be the name in a certificate")))?;
        let tls = context.client_tls(&dial.settings)?;
        let is_direct = dial.settings.server.ssl_negotiation == SslNegotiation::Direct;
        self.server.as_mut().map_or(Ok(()), |server| server.wire().begin_tls(tls, name, is_direct))
    }

    fn on_dialled(&mut self, context: &mut Context, now: Instant) {
        let Some(dial) = self.take_dial(|_| true) else { return };
        match dial.purpose {
            Purpose::Session { packet, conduct, is_class_announced } => {
                if let Some(server) = &mut self.server {
                    server.send(&packet, &mut context.spare);
                }
                let must_be_asked = !dial.settings.passing_on.trust_clients
                    && !self.has_shown_its_name()
                    && (self.shows_own_certificate(&dial.settings) || !self.is_trusted_as_the_governor());
                let own_key = (conduct == Conduct::Pooled).then(made_up_key);
                let terms = Terms { must_be_asked, is_class_announced, own_key, ..Terms::default() };
                self.phase = Phase::Login(Box::new(Login::new(terms)), conduct);
            }
            Purpose::Pool => self.log_in(context),
            Purpose::Cancel(aimed) => self.send_cancel(aimed, context, now),
        }
    }

    /// The current address timed out.
    pub(super) fn on_attempt_timeout(&mut self, context: &mut Context, now: Instant) {
        let Some(mut dial) = self.take_dial(|_| true) else { return };
        if dial.step != DialStep::Retrying {
            let timeout = dial.each;
            dial.failure = format!("no answer within {timeout:?} (connect_timeout)");
        }
        self.connect_next(dial, context, now);
    }

    /// All addresses together timed out.
    pub(super) fn on_dial_deadline(&mut self, context: &mut Context, now: Instant) {
        let Some(mut dial) = self.take_dial(|_| true) else { return };
        if dial.step == DialStep::Queued {
            return self.refuse(&waited_in_vain(dial.settings.pool.logins_max), context, now);
        }
        dial.failure = "no answer within the time for logging in (login_timeout)".to_owned();
        self.fail_dial(dial, context, now);
    }

    /// The current address failed with an error.
    pub(super) fn on_dial_error(&mut self, error: &io::Error, context: &mut Context, now: Instant) {
        let Some(mut dial) = self.take_dial(|_| true) else { return };
        dial.fail(error);
        self.connect_next(dial, context, now);
    }

    /// No address is left to try.
    fn fail_dial(&mut self, dial: Dial, context: &mut Context, now: Instant) {
        match dial.purpose {
            Purpose::Session { .. } => self.refuse_unreachable(&dial.failure, dial.hint, context, now),
            Purpose::Pool => {
                context.governor.reach.failed(&dial.failure);
                self.fails_to_open(format!("{}: {}", dial.settings.server.address(), dial.failure), None, context);
            }
            Purpose::Cancel(_) => {
                if context.governor.logs(Repeated::CancelNotDelivered) {
                    tracing::warn!("cancel not delivered: {}: {}", dial.settings.server.address(), dial.failure);
                }
                self.phase = Phase::Over;
            }
        }
    }

    /// Reports to the client that the server cannot be reached, with a hint.
    pub(super) fn refuse_unreachable(&mut self, why: &str, hint: &str, context: &mut Context, now: Instant) {
        let address = context.governor.settings().server.address();
        context.governor.reach.failed(why);
        if context.governor.logs(Repeated::ServerUnreachable) {
            tracing::warn!("server {address} cannot be reached: {why}");
        }
        let refusal =
            Refusal::new("08001", format!("the server {address} behind the governor cannot be reached: {why}"));
        self.refuse(&refusal.hint(hint), context, now);
    }
}
