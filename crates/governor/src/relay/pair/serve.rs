//! Traffic: how each phase handles the bytes of either end, and how it ends.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use super::dial::hint_of_answer;
use super::{Conduct, End, Pair, Phase};
use crate::capture::follower::{Followed, Follower};
use crate::governor::{Repeated, SessionCommand};
use crate::pool::settings::Reports;
use crate::registry;
use crate::relay::context::Context;
use crate::relay::login::binding_refusal;
use crate::relay::refusal::Refusal;
use crate::relay::side::Side;
use crate::session::{Outbox, ProtocolError, Reported, Session};

impl Pair {
    /// Handles bytes of the client; returns how many are accepted.
    pub(super) fn on_client(&mut self, bytes: &[u8], context: &mut Context, now: Instant) -> usize {
        match &self.phase {
            Phase::Greeting(_) => return self.greet(bytes, context, now),
            Phase::Gate(_) => return self.on_gate(bytes, context, now),
            _ => {}
        }
        if let (Phase::Session(session), Some(follower)) = (&self.phase, &mut self.follower) {
            follower.look(&context.governor.capture, session.is_idle(), now);
        }
        let mut out = Pair::session_out(&mut self.client, &mut self.server, &mut self.pooled, context);
        match &mut self.phase {
            Phase::Session(session) => {
                let mut out = Followed::of_client(out, self.follower.as_deref_mut(), now);
                let taken = session.on_client(bytes, now, &mut out);
                let accepted = taken.as_ref().map_or(0, |taken| *taken);
                out.accepted(&bytes[..accepted], accepted < bytes.len());
                out.into_inner().finish();
                taken.unwrap_or_else(|error| self.on_breach(bytes.len(), &error, context, now))
            }
            Phase::Raw => {
                out.to_server(bytes);
                out.finish();
                bytes.len()
            }
            Phase::Login(login, _) => {
                let taken = login.on_client(bytes, &mut out);
                out.finish();
                taken.unwrap_or_else(|refusal| {
                    if refusal == binding_refusal() {
                        self.note_failed_binding(context, now);
                    }
                    self.refuse(&refusal, context, now);
                    bytes.len()
                })
            }
            Phase::Console(console) => {
                let taken = console.on_client(bytes, now, &mut |bytes| out.to_client(bytes));
                out.finish();
                if console.is_let_in() {
                    (self.deadline, self.login_place) = (None, None);
                }
                taken
            }
            Phase::Closing { .. } | Phase::Over => bytes.len(),
            Phase::Greeting(_)
            | Phase::Gate(_)
            | Phase::Dialling(_)
            | Phase::OwnLogin
            | Phase::Ending
            | Phase::Home(_)
            | Phase::Cancel { .. } => 0,
        }
    }

    /// The session hears bytes that the server, or the link in its place, has sent; returns how many it takes.
    pub(super) fn session_hears(&mut self, bytes: &[u8], context: &mut Context, now: Instant) -> usize {
        let Phase::Session(session) = &mut self.phase else { return bytes.len() };
        let out = Pair::session_out(&mut self.client, &mut self.server, &mut self.pooled, context);
        let mut out = Followed::new(out, self.follower.as_deref_mut(), now);
        let taken = session.on_server(bytes, now, &mut out);
        out.into_inner().finish();
        taken.unwrap_or_else(|error| self.on_breach(bytes.len(), &error, context, now))
    }

    /// Handles bytes of the server; returns how many are accepted.
    pub(super) fn on_server(&mut self, bytes: &[u8], context: &mut Context, now: Instant) -> usize {
        if matches!(self.phase, Phase::Dialling(_)) {
            return self.on_tls_answer(bytes, context, now);
        }
        if matches!(&self.phase, Phase::Login(login, _) if !login.has_heard_server) {
            let binding_holds = self.binding_holds(context);
            let Phase::Login(login, _) = &mut self.phase else { unreachable!("it was just seen") };
            login.terms.binding_holds = binding_holds;
        }
        match &self.phase {
            Phase::Session(_) if self.pooled.is_some() => return self.scan(bytes, context, now),
            Phase::Session(_) => return self.session_hears(bytes, context, now),
            Phase::Home(_) => return self.on_idle_server(bytes, context),
            Phase::OwnLogin => return self.on_own_login(bytes, context, now),
            _ => {}
        }
        let mut out = Pair::out(&mut self.client, &mut self.server, context);
        match &mut self.phase {
            Phase::Raw => {
                out.to_client(bytes);
                out.finish();
                bytes.len()
            }
            Phase::Login(login, conduct) => {
                let (stepped, conduct) = (login.on_server(bytes, &mut out), *conduct);
                out.finish();
                match login.not_ready.take() {
                    Some(why) => context.governor.reach.failed(&why),
                    None => context.governor.reach.succeeded(),
                }
                match stepped {
                    Ok(stepped) if stepped.is_done => {
                        let (key, reported) = (login.key.take(), login.reported);
                        let (reports, own) = (mem::take(&mut login.reports), login.terms.own_key.take());
                        self.on_login((conduct, own), (key, reported, reports), context, now);
                        stepped.taken
                    }
                    Ok(stepped) => stepped.taken,
                    Err(refusal) => {
                        self.refuse(&refusal, context, now);
                        bytes.len()
                    }
                }
            }
            // A server sends no answer to a cancel.
            _ => bytes.len(),
        }
    }

    /// The server has accepted the client's login.
    pub(super) fn on_login(
        &mut self,
        (conduct, own): (Conduct, Option<registry::BackendKey>),
        (key, reported, reports): (Option<registry::BackendKey>, Reported, Reports),
        context: &mut Context,
        now: Instant,
    ) {
        let card = self.card.clone().expect("it was made before the server was reached");
        if let Some(key) = own.or_else(|| key.clone()) {
            let _ = card.key.set(key);
        }
        (self.deadline, self.login_place) = (None, None);
        {
            let mut state = card.state();
            state.since = now;
            state.phase = match conduct {
                Conduct::Governed | Conduct::Pooled => registry::Phase::Idle,
                Conduct::Raw => registry::Phase::Ungoverned,
            };
            // Work that is not governed is not tracked, so its client may cancel at any time.
            state.is_awaited = conduct == Conduct::Raw;
        }
        if conduct != Conduct::Raw {
            let follower = Follower::new(Arc::clone(&card), reported, &context.governor.capture, now);
            self.follower = Some(Box::new(follower));
        }
        self.phase = match conduct {
            Conduct::Raw => Phase::Raw,
            Conduct::Governed | Conduct::Pooled => {
                Phase::Session(Box::new(Session::new(context.governor.clone(), card, reported, now)))
            }
        };
        if conduct == Conduct::Pooled {
            self.begin_pooled((key, reported, reports), context);
        }
        if let Some(client) = &mut self.client {
            client.is_blocked = !client.held.is_empty();
        }
        if context.is_draining {
            self.drain(context, now);
        }
    }

    /// Whether client and server see the same certificate, so that a proof bound to it is valid on both connections.
    fn binding_holds(&mut self, context: &Context) -> bool {
        let is_encrypted = self.client.as_mut().is_some_and(|client| client.wire().is_encrypted());
        let settings = context.governor.settings();
        let own = settings.listen.certificate.as_ref().filter(|_| is_encrypted);
        own.is_some_and(|own| self.server.as_mut().is_some_and(|it| it.wire().peer_certificate() == Some(own)))
    }

    /// The client may try again without TLS, where binding is impossible.
    fn note_failed_binding(&mut self, context: &Context, now: Instant) {
        let is_encrypted = self.client.as_mut().is_some_and(|client| client.wire().is_encrypted());
        if let (true, Some(address), Some(card)) = (is_encrypted, self.peer.ip(), &self.card) {
            context.shared.fallbacks.note(address, &card.login.user, now);
        }
    }

    /// A peer violated the protocol.
    fn on_breach(&mut self, taken: usize, error: &ProtocolError, context: &mut Context, now: Instant) -> usize {
        if context.governor.logs(Repeated::SessionEnded) {
            tracing::warn!(peer = %self.peer, "session ended: {error}");
        }
        self.refuse(&Refusal::new("08P01", error.to_string()), context, now);
        taken
    }

    /// One end has closed its connection, or lost it.
    pub(super) fn on_end(&mut self, end: End, error: Option<io::Error>, context: &mut Context, now: Instant) {
        match end {
            End::Client => self.on_client_end(),
            End::Server => self.on_server_gone(error, context, now),
        }
    }

    fn on_server_gone(&mut self, error: Option<io::Error>, context: &mut Context, now: Instant) {
        match &self.phase {
            Phase::Dialling(_) => {
                let error = error.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
                self.on_dial_error(&error, context, now);
            }
            Phase::Login(login, _) if !login.has_heard_server => {
                let hint = hint_of_answer(error.as_ref());
                let why =
                    error.map_or_else(|| "it closed the connection and gave no reason".to_owned(), |e| e.to_string());
                self.refuse_unreachable(&why, hint, context, now);
            }
            Phase::Closing { .. } => self.server = None,
            Phase::Ending => (self.server, self.phase) = (None, Phase::Over),
            // The server has carried out the cancel.
            Phase::Cancel { held } => {
                if error.is_some() {
                    held.may_still_arrive();
                }
                self.phase = Phase::Over;
            }
            Phase::OwnLogin => {
                let why =
                    error.map_or_else(|| "it closed the connection and gave no reason".to_owned(), |e| e.to_string());
                self.fails_to_open(why, None, context);
            }
            Phase::Home(_) => (self.server, self.phase) = (None, self.over(context)),
            // Its last bytes are passed on; then the client's connection is closed, too.
            _ => {
                if let Phase::Session(session) = &mut self.phase {
                    let out = Pair::session_out(&mut self.client, &mut self.server, &mut self.pooled, context);
                    let mut out = Followed::new(out, self.follower.as_deref_mut(), now);
                    session.end_server(&mut out);
                    out.into_inner().finish();
                }
                self.server = None;
                self.close(context, now);
            }
        }
    }

    /// Closes or advances a phase that has ended.
    pub(super) fn look_for_the_end(&mut self, context: &mut Context, now: Instant) {
        let has_left = self.client.as_ref().is_some_and(Side::has_left);
        match &mut self.phase {
            Phase::Session(session) if session.has_ended() => {
                // Who was ended by an operator, or was silent for too long, runs nothing any more.
                context.cancel_for_the_gone(self.card.as_ref());
                self.server = None;
                self.close(context, now);
            }
            Phase::Session(_) | Phase::Raw | Phase::Gate(_) | Phase::Dialling(_) | Phase::Login(..) if has_left => {
                self.on_client_leaving(context, now);
            }
            _ => {}
        }
        match &mut self.phase {
            Phase::Session(session) => {
                if !session.takes_client_bytes() {
                    context.may_expire = true;
                } else if context.is_draining && session.is_idle() {
                    self.drain(context, now);
                } else if session.is_idle() && self.card.as_ref().is_some_and(|card| card.ends_when_idle()) {
                    let why = "an operator has the governor reconnect (RECONNECT)".to_owned();
                    self.on_command(SessionCommand::End { why }, context, now);
                }
            }
            Phase::Console(console) if console.has_ended() => self.close(context, now),
            _ => {}
        }
        if matches!(self.phase, Phase::Closing { .. }) {
            self.go_on_closing(context);
        }
    }

    fn go_on_closing(&mut self, context: &mut Context) {
        for side in [&mut self.client, &mut self.server] {
            if let Some(open) = side {
                open.flush(&mut context.spare);
                if open.is_deaf {
                    *side = None;
                }
            }
        }
        self.server = self.server.take().filter(|server| !server.is_flushed());
        let Phase::Closing { is_finished } = &mut self.phase else { return };
        if let Some(client) = self.client.as_mut().filter(|client| client.is_flushed())
            && !std::mem::replace(is_finished, true)
        {
            // The client must read the last message before the connection is closed: closing at once, with the client's
            // bytes unread, would discard that message.
            client.wire().finish();
        }
        // Its end may have been read before.
        self.client = self.client.take().filter(|client| !(client.is_at_end && *is_finished));
        if self.client.is_none() && self.server.is_none() {
            self.phase = Phase::Over;
        }
    }
}
