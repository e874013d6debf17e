//! One client and its connection to the server, from the first byte to the last.
//!
//! ```text
//!                 ┌─> Console ──────────────────────────┐
//! Greeting ───────┼─> Dialling ─> Login ─┬─> Session ───┼─> Closing ─> over
//! (who is there?) │   (the server)       └─> Raw ───────┤
//!                 └─> Dialling ─> Cancel ───────────────┘
//! ```
//! Sockets report changes once (edge-triggered), so the reports are kept as flags in [`Side`], and [`Pair::advance`]
//! makes all possible progress. Every method that changes the state is followed by a call of it.

mod cancel;
mod dial;
mod draining;
mod ending;
mod gated;
mod greet;
mod home;
mod leaving;
mod pooled;
mod serve;
mod time;

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use mio::Token;
use mio::event::Event;

pub(super) use cancel::Aimed;
use dial::Dial;
use gated::{Gated, Opening};
use greet::Greeting;
pub(super) use home::{Home, Moving, home_token};
use leaving::Leaving;
use pooled::Pooled;

use super::context::Context;
use super::listener::Peer;
use super::login::Login;
use super::logins::LoginPlace;
use super::permit::Permit;
use super::refusal::Refusal;
use super::side::{FAREWELL, Out, Side};
use super::silent::SilentPlace;
use super::turns::LoginTurn;
use crate::admin::Console;
use crate::capture::follower::{Followed, Follower};
use crate::governor::{Repeated, SessionCommand};
use crate::pool::pools::Place;
use crate::registry::SessionCard;
use crate::session::Session;

/// The most bytes of a single read.
pub(super) const READ_MAX: usize = 64 << 10;

/// The longest part of a message that waits for its rest: 64 KiB and a head, with a little room.
pub(super) const HELD_MAX: usize = 66 << 10;

/// How many reads before other pairs are served: 1 MiB.
const TURNS_MAX: usize = 16;

/// The token of a connection's socket: the pair's ID, and which end it is.
pub(super) fn token(pair: u64, end: End) -> Token {
    Token((pair << 1 | end as u64) as usize)
}

/// The pair and the end that a token denotes.
pub(super) fn whose(token: Token) -> (u64, End) {
    (token.0 as u64 >> 1, if token.0 & 1 == 0 { End::Client } else { End::Server })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Client = 0,
    Server = 1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairProgress {
    Waits,
    /// It could continue, but other pairs are served first.
    Again,
    Over,
}

#[derive(Debug)]
pub(super) struct Pair {
    pub(super) id: u64,
    peer: Peer,
    phase: Phase,
    client: Option<Side>,
    server: Option<Side>,
    card: Option<Arc<SessionCard>>,
    /// What a session of a pool has besides.
    pooled: Option<Box<Pooled>>,
    /// The connection that is opened for a pool.
    opening: Option<Box<Opening>>,
    /// Follows a governed session while traffic is recorded.
    follower: Option<Box<Follower>>,
    /// When the phase times out.
    deadline: Option<Instant>,
    /// The time of its entry in the heap of timers.
    pub(super) timer: Option<Instant>,
    /// Its place among the silent clients.
    silent_place: Option<SilentPlace>,
    /// Its place among the connections; among the clients; among the logins of its address.
    connection_permit: Option<Permit>,
    client_permit: Option<Permit>,
    login_place: Option<LoginPlace>,
    /// Its turn to log in at the server, or its place in the queue for that.
    login_turn: Option<LoginTurn>,
    /// How much the server knows of the end of its client.
    leaving: Leaving,
}

#[derive(Debug)]
enum Phase {
    /// The client is silent, or is negotiating encryption.
    Greeting(Greeting),
    /// The connection to the server is being made.
    Dialling(Box<Dial>),
    /// The client authenticates to the server.
    Login(Box<Login>, Conduct),
    /// A client of a pool proves to the governor who it is.
    Gate(Box<Gated>),
    /// The governor logs in at the server for a pool.
    OwnLogin,
    /// Governed.
    Session(Box<Session>),
    /// Ungoverned: all bytes are passed on unread.
    Raw,
    /// The client uses the governor's console.
    Console(Box<Console>),
    /// The home of a connection of a pool.
    Home(Box<Home>),
    /// The server knows that its connection ends, or will find out.
    Ending,
    /// A cancel was sent to the server, which closes the connection when it has carried out the cancel.
    Cancel {
        held: Aimed,
    },
    /// The remaining bytes are sent.
    Closing {
        is_finished: bool,
    },
    Over,
}

/// Whether a session is governed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conduct {
    Governed,
    /// Governed, and served by connections of a pool.
    Pooled,
    Raw,
}

impl Pair {
    /// A client that has just connected.
    pub(super) fn new(id: u64, peer: Peer, client: Side, place: SilentPlace, deadline: Instant) -> Self {
        Pair { client: Some(client), deadline: Some(deadline), silent_place: Some(place), ..Pair::empty(id, peer) }
    }

    fn empty(id: u64, peer: Peer) -> Self {
        Pair {
            id,
            peer,
            phase: Phase::Greeting(Greeting::default()),
            client: None,
            server: None,
            card: None,
            pooled: None,
            opening: None,
            follower: None,
            deadline: None,
            timer: None,
            silent_place: None,
            connection_permit: None,
            client_permit: None,
            login_place: None,
            login_turn: None,
            leaving: Leaving::default(),
        }
    }

    /// Records the event of a socket.
    pub(super) fn on_event(&mut self, end: End, event: &Event, context: &mut Context, now: Instant) {
        let Some(side) = self.side(end) else { return };
        let is_over = event.is_read_closed() || event.is_write_closed() || event.is_error();
        side.is_hung_up |= is_over;
        side.is_closed |= event.is_write_closed() || event.is_error();
        side.is_reset |= event.is_error();
        side.is_readable |= is_over || event.is_readable();
        if end == End::Server && matches!(self.phase, Phase::Dialling(_)) {
            self.on_dial_event(context, now);
        } else if event.is_writable()
            && let Some(side) = self.side(end)
        {
            side.flush(&mut context.spare);
        }
    }

    pub(super) fn advance(&mut self, context: &mut Context, now: Instant) -> PairProgress {
        for _ in 0..TURNS_MAX {
            let has_moved = self.step(End::Client, context, now) | self.step(End::Server, context, now);
            let has_moved = has_moved | self.settle_link(context, now);
            self.look_for_the_end(context, now);
            if matches!(self.phase, Phase::Over) {
                return PairProgress::Over;
            }
            if !has_moved {
                return self.watch(context);
            }
        }
        match self.watch(context) {
            PairProgress::Waits => PairProgress::Again,
            fate => fate,
        }
    }

    /// Reads from one end once; returns whether bytes were read or offered.
    fn step(&mut self, end: End, context: &mut Context, now: Instant) -> bool {
        if !self.takes(end) {
            return false;
        }
        let (read_max, other_is_full) = (self.read_max(), self.side(end.other()).is_some_and(|other| other.is_full()));
        let Some(side) = self.side(end) else { return false };
        if side.is_blocked {
            side.is_blocked = false;
            let held = mem::take(&mut side.held);
            self.offer(end, &held, context, now);
            context.spare.put(held);
            return true;
        }
        if side.is_at_end || !side.is_readable || other_is_full || side.held.len() > HELD_MAX {
            return false;
        }
        let mut buffer = mem::take(&mut context.buffer);
        let held = side.held.len();
        buffer[..held].copy_from_slice(&side.held);
        let read = side.read(&mut buffer[held..held + read_max]);
        match read {
            Ok(None) => {}
            Ok(Some(0)) => self.on_end(end, None, context, now),
            Ok(Some(bytes)) => {
                side.held.clear();
                self.offer(end, &buffer[..held + bytes], context, now);
            }
            Err(error) => self.on_end(end, Some(error), context, now),
        }
        context.buffer = buffer;
        true
    }

    /// Offers bytes to the phase, and keeps those that it does not accept.
    fn offer(&mut self, end: End, bytes: &[u8], context: &mut Context, now: Instant) {
        let phase = mem::discriminant(&self.phase);
        let taken = match end {
            End::Client => self.on_client(bytes, context, now),
            End::Server => self.on_server(bytes, context, now),
        };
        let is_blocked = phase != mem::discriminant(&self.phase) || !self.takes(end);
        let Some(side) = self.side(end) else { return };
        let rest = bytes.get(taken..).unwrap_or_default();
        if rest.is_empty() {
            return side.drop_held(&mut context.spare);
        }
        side.is_blocked = is_blocked;
        side.hold(rest, &mut context.spare);
        if side.held.len() > HELD_MAX && !is_blocked && !matches!(self.phase, Phase::Login(..)) {
            let what = format!("a message of more than {HELD_MAX} bytes that must be read whole");
            self.refuse(&Refusal::new("08P01", what), context, now);
        }
    }

    /// Whether the phase accepts bytes of that end now.
    fn takes(&self, end: End) -> bool {
        match (&self.phase, end) {
            (Phase::Session(session), End::Client) => session.takes_client_bytes() && !self.waits_for_connection(),
            (Phase::Gate(gated), End::Client) => gated.asks(),
            (Phase::Dialling(dial), End::Server) => dial.is_asking(),
            (Phase::Dialling(_) | Phase::Cancel { .. } | Phase::Over, End::Client) | (Phase::Over, End::Server) => {
                false
            }
            _ => true,
        }
    }

    fn read_max(&self) -> usize {
        // Plain text after the answer to a TLS request was not sent by the server.
        if matches!(self.phase, Phase::Dialling(_)) { 1 } else { READ_MAX }
    }

    fn side(&mut self, end: End) -> Option<&mut Side> {
        match end {
            End::Client => self.client.as_mut(),
            End::Server => self.server.as_mut(),
        }
    }

    /// Where a phase writes its output.
    fn out<'a>(client: &'a mut Option<Side>, server: &'a mut Option<Side>, context: &'a mut Context) -> Out<'a> {
        let (joined, spare) = (&mut context.joined, &mut context.spare);
        Out { client: client.as_mut(), server: server.as_mut(), joined, spare, link: None }
    }

    /// Where a session writes its output.
    fn session_out<'a>(
        client: &'a mut Option<Side>,
        server: &'a mut Option<Side>,
        pooled: &'a mut Option<Box<Pooled>>,
        context: &'a mut Context,
    ) -> Out<'a> {
        Out { link: pooled.as_mut().map(|pooled| &mut pooled.link), ..Pair::out(client, server, context) }
    }

    /// Carries out another thread's command.
    pub(super) fn on_command(&mut self, command: SessionCommand, context: &mut Context, now: Instant) {
        if command == SessionCommand::ClientCancelled && self.waits_for_connection() {
            return self.stop_waiting("57014", "canceling statement due to user request", context);
        }
        match &mut self.phase {
            Phase::Session(session) => {
                let out = Pair::session_out(&mut self.client, &mut self.server, &mut self.pooled, context);
                let mut out = Followed::new(out, self.follower.as_deref_mut(), now);
                session.on_command(command, now, &mut out);
                out.into_inner().finish();
            }
            phase => {
                if let SessionCommand::End { why } = command
                    && !matches!(phase, Phase::Closing { .. } | Phase::Over)
                {
                    self.refuse(&Refusal::new("57P01", why), context, now);
                }
            }
        }
    }

    pub(super) fn is_at_important_work(&self) -> bool {
        matches!(&self.phase, Phase::Session(session) if session.is_at_important_work())
    }

    /// Whether it is an operator's console, for which no drain waits.
    pub(super) fn is_console(&self) -> bool {
        matches!(self.phase, Phase::Console(_))
    }

    /// Its worker ends: an operator at the console receives an error.
    pub(super) fn dismiss(&mut self, context: &mut Context, now: Instant) {
        if matches!(self.phase, Phase::Console(_)) {
            self.refuse(&Refusal::new("57P01", "the governor has ended"), context, now);
        }
    }

    /// Whether it is a silent client with that place number.
    pub(super) fn is_silent_at(&self, place: u64) -> bool {
        self.silent_place.as_ref().is_some_and(|own| own.number == place)
    }

    /// Closes a silent client to make room for a new one.
    pub(super) fn give_way(&mut self) {
        tracing::debug!(peer = %self.peer, "a client that has said nothing gives way to another");
        self.phase = Phase::Over;
    }

    /// Sends an error to the client, then closes the connection.
    fn refuse(&mut self, refusal: &Refusal, context: &mut Context, now: Instant) {
        if context.governor.logs(Repeated::ClientRefused) {
            tracing::info!(peer = %self.peer, code = refusal.code, "client refused: {}", refusal.message);
        }
        if !matches!(self.phase, Phase::Session(_) | Phase::Raw) {
            crate::statistics::count(&context.governor.statistics.clients_refused);
        }
        if let Some(client) = &mut self.client {
            client.send(&refusal.bytes(), &mut context.spare);
        }
        self.close(context, now);
    }

    /// Sends the remaining bytes to both ends, then ends.
    fn close(&mut self, context: &mut Context, now: Instant) {
        self.leave(context, now);
        self.phase = Phase::Closing { is_finished: false };
        self.deadline = Some(now + FAREWELL);
        self.server = self.server.take().filter(|server| !server.is_flushed());
        if let Some(client) = &mut self.client {
            (client.is_readable, client.is_blocked) = (true, false);
        }
    }

    /// Leaves all shared structures: places, queues, registry.
    pub(super) fn leave(&mut self, context: &mut Context, now: Instant) {
        self.leave_pool(context, now);
        self.fails_to_open("it took too long".to_owned(), None, context);
        self.leave_login(context);
        if let Phase::Home(home) = &self.phase {
            Pair::leave_home(home, Place { worker: context.worker, pair: self.id }, context);
        }
        if let Phase::Session(session) = &mut self.phase {
            session.close(now);
        }
        if let Some(mut follower) = self.follower.take() {
            follower.close(now);
        }
        self.phase = Phase::Over;
        (self.client_permit, self.login_place) = (None, None);
        if let Some(card) = self.card.take() {
            context.sessions.remove(&card.id);
            context.governor.registry.remove(card.id);
        }
    }

    /// Registers the sockets for the events that are needed.
    fn watch(&mut self, context: &mut Context) -> PairProgress {
        for side in [&mut self.client, &mut self.server].into_iter().flatten() {
            if let Err(error) = side.watch(&context.poll) {
                tracing::warn!(peer = %self.peer, "connection cannot be watched: {error}");
                return PairProgress::Over;
            }
        }
        PairProgress::Waits
    }
}

impl End {
    fn other(self) -> Self {
        match self {
            End::Client => End::Server,
            End::Server => End::Client,
        }
    }
}
