//! The client says what it wants.

use std::sync::Arc;
use std::time::Instant;

use super::dial::{Dial, Purpose};
use super::{Aimed, Conduct, Pair, Phase};
use crate::admin::Console;
use crate::governor::SessionCommand;
use crate::registry::{self, ChosenBy, SessionCard};
use crate::relay::context::Context;
use crate::relay::listener::Peer;
use crate::relay::refusal::Refusal;
use crate::relay::seat::Seat;
use crate::relay::startup::{self, Packet, Refused, Startup};
use crate::settings::Settings;
use crate::statistics::count;

/// What a client has asked for so far; each may be asked for once.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    has_asked_for_tls: bool,
    has_asked_for_gss: bool,
}

impl Pair {
    /// Bytes of a client that has not said what it wants; returns how many are taken.
    pub(super) fn greet(&mut self, bytes: &[u8], context: &mut Context, now: Instant) -> usize {
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

    fn on_packet(&mut self, packet: Packet, bytes: &[u8], has_more: bool, context: &mut Context, now: Instant) {
        let Phase::Greeting(greeting) = &mut self.phase else { unreachable!("asked by greet") };
        match packet {
            Packet::Tls | Packet::Gss if has_more => {
                // Sent before anything was agreed upon, so perhaps by somebody in between (CVE-2021-23214).
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
            Packet::Cancel { process, secret } => self.on_cancel_request(process, &secret, context, now),
            Packet::Session(startup) => self.on_startup(startup, bytes, context, now),
        }
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
        if startup.login.database == settings.admin.database {
            let console = Console::new(context.governor.clone(), &startup.login.user, &self.peer.to_string());
            self.phase = Phase::Console(Box::new(console));
            self.on_client(b"", context, now);
            return;
        }
        let is_break_glass = settings.break_glass.contains(&startup.login.user);
        if context.is_draining {
            return self.refuse(&Refusal::new("57P03", "the governor is shutting down"), context, now);
        }
        // Whoever breaks the glass is let in beyond the limit, and takes nobody's place.
        if !is_break_glass {
            self.client_seat = Seat::take(&context.shared.clients, settings.listen.clients_max as usize);
            if self.client_seat.is_none() {
                let what = format!("sorry, too many clients already: {} are there", settings.listen.clients_max);
                let refusal = Refusal::new("53300", what).hint("Close sessions, or raise clients_max in [listen].");
                return self.refuse(&refusal, context, now);
            }
        }
        let conduct = if is_break_glass || startup.is_replication { Conduct::Raw } else { Conduct::Governed };
        self.make_card(startup, &settings, context, now);
        self.dial(Dial::new(settings, Purpose::Session { packet: packet.to_vec(), conduct }, now), context, now);
    }

    fn make_card(&mut self, startup: Startup, settings: &Settings, context: &mut Context, now: Instant) {
        let matched = settings.rules.of_login(&startup.login);
        let id = context.governor.registry.next_id();
        let card = SessionCard::new(id, context.worker, self.peer.to_string(), startup.login, matched.class, now);
        card.state().chosen_by = ChosenBy::Rule(matched.rule);
        let card = Arc::new(card);
        context.sessions.insert(id, self.id);
        context.governor.registry.insert(Arc::clone(&card));
        self.card = Some(card);
    }

    /// A client wants a session's statement ended. It is told nothing, whatever comes of it.
    fn on_cancel_request(&mut self, process: i32, secret: &[u8], context: &mut Context, now: Instant) {
        let Some(card) = context.governor.registry.by_key(process, secret) else {
            tracing::info!(peer = %self.peer, process, "cancel with an unknown key");
            self.phase = Phase::Over;
            return;
        };
        let phase = card.state().phase;
        if phase == registry::Phase::Queued {
            count(&context.governor.statistics.client_cancels);
            context.governor.tell(card.worker, card.id, SessionCommand::ClientCancelled);
            self.phase = Phase::Over;
        } else if let Some(aimed) = Aimed::at(&context.governor, card) {
            let settings = context.governor.settings();
            self.deadline = None;
            self.dial(Dial::new(settings, Purpose::Cancel(aimed), now), context, now);
        } else {
            self.phase = Phase::Over;
        }
    }
}
