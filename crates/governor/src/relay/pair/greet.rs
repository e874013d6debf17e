//! The client's opening messages: encryption, then a start-up message or a cancel request.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::process::{Resource, getrlimit};

use super::dial::{Dial, Purpose};
use super::pooled::conduct_of;
use super::{Aimed, Conduct, Pair, Phase};
use crate::admin::Console;
use crate::governor::{Repeated, SessionCommand};
use crate::registry::{ChosenBy, SessionCard};
use crate::relay::context::Context;
use crate::relay::listener::Peer;
use crate::relay::login::BINDING_HINT;
use crate::relay::permit::Permit;
use crate::relay::proxy_protocol;
use crate::relay::refusal::{Refusal, no_files};
use crate::relay::socket::Socket;
use crate::relay::startup::{self, Packet, Refused, Startup};
use crate::settings::{FairBy, Settings};
use crate::statistics::count;

/// Connections in addition to `clients_max`: cancels, consoles, clients that are refused because there are too many.
const BEYOND: usize = 200;

/// Further connections, for users in `break_glass`.
const RESERVED: usize = 50;

/// The first byte of a client that starts TLS at once (libpq's `sslnegotiation=direct`): a handshake record. No length
/// of a first packet begins with it.
const TLS_HANDSHAKE: u8 = 0x16;

/// File descriptors below the limit that are reserved for operators, and how many of them the server's side of new
/// sessions leaves.
const FILES_KEPT: u64 = 16;
pub(super) const FILES_KEPT_AT_SERVER: u64 = 8;

/// The requests of a client so far; each may be made once.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    /// The proxy in front has sent the client's address.
    has_header: bool,
    has_asked_for_tls: bool,
    has_asked_for_gss: bool,
}

impl Pair {
    /// Handles bytes of a silent client; returns how many are accepted.
    pub(super) fn greet(&mut self, bytes: &[u8], context: &mut Context, now: Instant) -> usize {
        if self.expects_header(context) {
            return self.read_header(bytes, context, now);
        }
        if self.begins_with_tls(bytes) {
            self.on_tls_hello(bytes, context);
            return bytes.len();
        }
        match startup::read(bytes) {
            Ok(None) => 0,
            Ok(Some((packet, length))) => {
                self.on_packet(packet, &bytes[..length], bytes.len() > length, context, now);
                length
            }
            Err(Refused(code, message)) => {
                self.refuse(&Refusal::new(code, message), context, now);
                bytes.len()
            }
        }
    }

    /// Whether a client starts TLS without a request.
    fn begins_with_tls(&self, bytes: &[u8]) -> bool {
        let Phase::Greeting(greeting) = &self.phase else { return false };
        bytes.first() == Some(&TLS_HANDSHAKE) && !greeting.has_asked_for_tls && !greeting.has_asked_for_gss
    }

    fn on_tls_hello(&mut self, hello: &[u8], context: &mut Context) {
        if let Phase::Greeting(greeting) = &mut self.phase {
            greeting.has_asked_for_tls = true;
        }
        let settings = context.governor.settings();
        let Some(tls) = settings.listen.tls.as_ref().filter(|_| matches!(self.peer, Peer::Tcp(_))) else {
            // It would not understand an error in plain text.
            tracing::info!(peer = %self.peer, "client refused: it speaks TLS, and [listen.tls] is not set");
            count(&context.governor.statistics.clients_refused);
            self.phase = Phase::Over;
            return;
        };
        let Some(client) = &mut self.client else { return };
        if let Err(error) = client.wire().accept_tls_after(Arc::clone(tls), hello) {
            tracing::info!(peer = %self.peer, "client refused: {error}");
            self.phase = Phase::Over;
        }
    }

    fn expects_header(&self, context: &Context) -> bool {
        let Phase::Greeting(Greeting { has_header: false, .. }) = &self.phase else { return false };
        let proxies = &context.governor.settings().listen.proxy_protocol_from;
        self.peer.ip().is_some_and(|address| proxies.contains(&address.to_canonical()))
    }

    fn read_header(&mut self, bytes: &[u8], context: &mut Context, now: Instant) -> usize {
        match proxy_protocol::read(bytes) {
            Ok(None) => 0,
            Ok(Some(header)) => {
                if let Phase::Greeting(greeting) = &mut self.phase {
                    greeting.has_header = true;
                }
                self.peer = header.client.map_or(self.peer, Peer::Tcp);
                header.length + self.greet(&bytes[header.length..], context, now)
            }
            Err(what) => {
                self.refuse(&Refusal::new("08P01", what), context, now);
                bytes.len()
            }
        }
    }

    fn on_packet(&mut self, packet: Packet, bytes: &[u8], has_more: bool, context: &mut Context, now: Instant) {
        let Phase::Greeting(greeting) = &mut self.phase else { unreachable!("asked by greet") };
        match packet {
            Packet::Tls | Packet::Gss if has_more => {
                // They were sent before encryption was agreed, so an attacker in between may have sent them
                // (CVE-2021-23214).
                let what = "received unencrypted data after a request for encryption";
                self.refuse(&Refusal::new("08P01", what), context, now);
            }
            Packet::Tls if !std::mem::replace(&mut greeting.has_asked_for_tls, true) => self.on_tls_request(context),
            Packet::Gss if !std::mem::replace(&mut greeting.has_asked_for_gss, true) => {
                if let Some(client) = &mut self.client {
                    client.send(b"N", &mut context.spare);
                }
            }
            Packet::Tls | Packet::Gss => {
                self.refuse(&Refusal::new("08P01", "encryption was asked for twice"), context, now);
            }
            Packet::Cancel { process, secret, is_forwarded } => {
                if self.take_connection_permit(BEYOND, context) {
                    self.on_cancel_request(process, &secret, is_forwarded, context, now);
                } else {
                    self.phase = Phase::Over;
                }
            }
            Packet::Session(startup) => self.on_startup(startup, bytes, context, now),
        }
    }

    /// The client is no longer silent, and takes a place among the connections. Returns whether one was free.
    fn take_connection_permit(&mut self, beyond: usize, context: &Context) -> bool {
        let clients_max = context.governor.settings().listen.clients_max as usize;
        self.silent_place = None;
        self.connection_permit = Permit::take(&context.shared.connections, clients_max + beyond);
        self.connection_permit.is_some()
    }

    fn on_tls_request(&mut self, context: &mut Context) {
        let settings = context.governor.settings();
        let Some(client) = &mut self.client else { return };
        match &settings.listen.tls {
            Some(tls) if matches!(self.peer, Peer::Tcp(_)) => {
                client.send(b"S", &mut context.spare);
                if let Err(error) = client.wire().accept_tls(Arc::clone(tls)) {
                    tracing::error!("TLS cannot be spoken: {error}");
                    self.phase = Phase::Over;
                }
            }
            _ => client.send(b"N", &mut context.spare),
        }
    }

    fn on_startup(&mut self, startup: Startup, packet: &[u8], context: &mut Context, now: Instant) {
        let settings = context.governor.settings();
        let is_open = self.client.as_mut().is_some_and(|client| !client.wire().is_encrypted());
        if settings.listen.tls_required && is_open && matches!(self.peer, Peer::Tcp(_)) {
            let refusal = Refusal::new("28000", "this governor takes TCP connections with TLS only");
            return self.refuse(&refusal.hint("Connect with sslmode=require."), context, now);
        }
        if let Err(refusal) = self.enter(&startup, &settings, is_open, context, now) {
            return self.refuse(&refusal, context, now);
        }
        if startup.login.database == settings.admin.database {
            let console = Console::new(context.governor.clone(), &startup.login.user, &self.peer.to_string());
            self.phase = Phase::Console(Box::new(console));
            self.on_client(b"", context, now);
            return;
        }
        if settings.is_beside {
            let what =
                format!("this governor works beside the server {} and takes no clients", settings.server.address());
            let hint =
                format!("Connect to the server. The console here is the database \"{}\".", settings.admin.database);
            return self.refuse(&Refusal::new("3D000", what).hint(hint), context, now);
        }
        let is_break_glass = settings.break_glass.contains(&startup.login.user);
        let conduct = conduct_of(is_break_glass || startup.is_replication, &settings);
        let (chosen, mut packet) = (startup.class.clone(), packet.to_vec());
        self.make_card(startup, &settings, context, now);
        let mut is_class_announced = false;
        if conduct != Conduct::Raw {
            match chosen {
                Some(class) => {
                    if let Err(refusal) = self.choose_class(&class, &settings) {
                        return self.refuse(&refusal, context, now);
                    }
                }
                // The next client of its connection may be of another class.
                None if conduct == Conduct::Pooled => {}
                None => is_class_announced = self.announce_class(&mut packet, &settings),
            }
        }
        if conduct == Conduct::Pooled && self.begin_gate(&settings, context, now) {
            return;
        }
        self.dial(Dial::new(settings, Purpose::Session { packet, conduct, is_class_announced }, now), context, now);
    }

    /// Takes the places that a client of its kind needs.
    fn enter(
        &mut self,
        startup: &Startup,
        settings: &Settings,
        is_open: bool,
        context: &Context,
        now: Instant,
    ) -> Result<(), Refusal> {
        let is_break_glass = settings.break_glass.contains(&startup.login.user);
        let is_console = startup.login.database == settings.admin.database;
        if !self.take_connection_permit(if is_break_glass { BEYOND + RESERVED } else { BEYOND }, context) {
            return Err(Refusal::new("53300", "sorry, too many connections already"));
        }
        if let Some(address) = self.peer.ip().filter(|_| !is_break_glass) {
            let logins_max = settings.listen.logins_max_per_address;
            self.login_place = context.shared.logins.enter(address, logins_max);
            if self.login_place.is_none() {
                let what = format!("{logins_max} clients of {address} are logging in already");
                let hint = "Open fewer connections at once, or raise logins_max_per_address in [listen].";
                return Err(Refusal::new("53300", what).hint(hint));
            }
        }
        if is_console {
            return Ok(());
        }
        // The command to drain may reach this worker a moment later.
        if context.is_draining || context.governor.is_draining.load(Ordering::Relaxed) {
            return Err(Refusal::new("57P03", "the governor is shutting down"));
        }
        let fallbacks = &context.shared.fallbacks;
        if is_open && self.peer.ip().is_some_and(|address| fallbacks.is_one(address, &startup.login.user, now)) {
            let what = "the client's login over TLS has just failed, and it tries again without TLS";
            return Err(Refusal::new("28000", what).hint(BINDING_HINT));
        }
        // Users in `break_glass` are exempt from the limits, and do not occupy a client's place.
        if is_break_glass {
            return Ok(());
        }
        if let Some((what, hint)) = context.governor.doors.refusal(&startup.login.database) {
            return Err(Refusal::new("57P03", what).hint(hint));
        }
        let database = &startup.login.database;
        if context.governor.pools.is_paused(database) && !settings.login.has_source() {
            // Its login would need the server.
            let what = format!("database \"{database}\" is paused at the governor (PAUSE)");
            let hint = format!("RESUME \"{database}\" on the governor's console lets clients in again.");
            return Err(Refusal::new("57P03", what).hint(hint));
        }
        if self.client.as_mut().is_some_and(|client| is_among_last_files(client.wire().socket(), FILES_KEPT)) {
            return Err(no_files());
        }
        self.client_permit = Permit::take(&context.shared.clients, settings.listen.clients_max as usize);
        if self.client_permit.is_none() {
            let what = format!("sorry, too many clients already: {} are there", settings.listen.clients_max);
            return Err(Refusal::new("53300", what).hint("Close sessions, or raise clients_max in [listen]."));
        }
        Ok(())
    }

    /// The client's start-up message sets `plimsoll.class`, under the same conditions as a `SET`.
    fn choose_class(&self, name: &str, settings: &Settings) -> Result<(), Refusal> {
        let card = self.card.as_ref().expect("it was just made");
        let class = settings.class_named(name).ok_or_else(|| {
            let names: Vec<&str> = settings.classes.iter().map(|class| class.name.as_str()).collect();
            Refusal::new("22023", format!("there is no class \"{name}\"; there are {}", names.join(", ")))
        })?;
        let mut state = card.state();
        if !settings.rules.may_choose(state.class, class, &card.login.user) {
            let what = format!("user \"{}\" may not choose class \"{name}\"", card.login.user);
            return Err(Refusal::new("42501", what));
        }
        (state.class, state.served, state.chosen_by) = (class, class, ChosenBy::Setting);
        Ok(())
    }

    /// Announces the class to the server, so that it can be displayed; returns whether the message now contains it.
    fn announce_class(&self, packet: &mut Vec<u8>, settings: &Settings) -> bool {
        let card = self.card.as_ref().filter(|_| settings.passing_on.announce_class);
        let Some(card) = card else { return false };
        startup::announce(packet, &settings.class(card.state().class).name);
        true
    }

    fn tenant(&self, startup: &Startup, settings: &Settings) -> u64 {
        let mut hash = DefaultHasher::new();
        match settings.pool.fair_by {
            FairBy::User => startup.login.user.hash(&mut hash),
            FairBy::Application => startup.login.application_name.hash(&mut hash),
            FairBy::Client => self.peer.ip().hash(&mut hash),
        }
        hash.finish()
    }

    fn make_card(&mut self, startup: Startup, settings: &Settings, context: &mut Context, now: Instant) {
        let matched = settings.rules.of_login(&startup.login);
        let id = context.governor.registry.next_id();
        let tenant = self.tenant(&startup, settings);
        let mut card = SessionCard::new(id, context.worker, self.peer.to_string(), startup.login, matched.class, now);
        card.tenant = tenant;
        let _ = card.parameters.set(startup.others);
        let _ = card.startup.set(startup.parameters.into());
        {
            let mut state = card.state();
            (state.chosen_by, state.timeouts) = (ChosenBy::Rule(matched.rule), startup.timeouts);
        }
        let card = Arc::new(card);
        context.sessions.insert(id, self.id);
        context.governor.registry.insert(Arc::clone(&card));
        self.card = Some(card);
    }

    /// A client requests the cancel of a session's statement. It never receives an answer.
    fn on_cancel_request(
        &mut self,
        process: i32,
        secret: &[u8],
        is_forwarded: bool,
        context: &mut Context,
        now: Instant,
    ) {
        let Some(card) = context.governor.registry.by_key(process, secret) else {
            let client = self.client.as_mut().map(|client| client.wire().socket().as_fd());
            let elsewhere = |client| context.governor.cancel_elsewhere(process, secret, is_forwarded, client);
            let is_known = client.is_some_and(elsewhere);
            if !is_known && context.governor.logs(Repeated::UnknownCancelKey) {
                tracing::info!(peer = %self.peer, process, "cancel with an unknown key");
            }
            self.phase = Phase::Over;
            return;
        };
        let is_waiting = card.state().is_waiting();
        if is_waiting {
            count(&context.governor.statistics.client_cancels);
            context.governor.tell(card.worker, card.id, SessionCommand::ClientCancelled);
            self.phase = Phase::Over;
        } else if let Some(aimed) = Aimed::at(&context.governor, card, None) {
            let settings = context.governor.settings();
            self.deadline = None;
            self.dial(Dial::new(settings, Purpose::Cancel(aimed), now), context, now);
        } else {
            self.phase = Phase::Over;
        }
    }
}

/// Whether fewer than `kept` file descriptors are left: the kernel gives a socket the lowest free number.
pub(super) fn is_among_last_files(socket: &Socket, kept: u64) -> bool {
    let limit = getrlimit(Resource::Nofile).current;
    limit.is_some_and(|limit| socket.as_raw_fd() as u64 + kept >= limit)
}
