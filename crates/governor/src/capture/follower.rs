//! Follows a session for the capture that is being written.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_capture::event::Opened;
use plimsoll_capture::recorder::Recorder;
use plimsoll_capture::tap::Tap;

use super::Capturing;
use crate::registry::SessionCard;
use crate::session::{Outbox, Reported};

/// Follows one session, while a capture is being written.
#[derive(Debug)]
pub(crate) struct Follower {
    card: Arc<SessionCard>,
    reported: Reported,
    /// The capture that was looked for last.
    generation: u64,
    following: Option<Following>,
}

#[derive(Debug)]
struct Following {
    recorder: Recorder,
    tap: Tap,
    /// When the client's bytes that the session has not accepted arrived.
    arrived: Option<Instant>,
}

impl Follower {
    /// A session that has just logged in.
    pub(crate) fn new(card: Arc<SessionCard>, reported: Reported, capturing: &Capturing, now: Instant) -> Self {
        // Beyond any: the first look finds the capture that is being written.
        let mut follower = Follower { card, reported, generation: u64::MAX, following: None };
        follower.look(capturing, true, now);
        follower
    }

    /// The session, between two transactions or not, goes on: a capture that has begun is joined where the session is
    /// idle, so that no capture begins in the middle of a transaction.
    pub(crate) fn look(&mut self, capturing: &Capturing, is_idle: bool, now: Instant) {
        let generation = capturing.generation();
        if generation == self.generation {
            return;
        }
        let running = capturing.running();
        if running.is_some() && !is_idle {
            return;
        }
        self.close(now);
        self.generation = generation;
        self.following = running.map(|running| self.follow(running.recorder, now));
    }

    fn follow(&self, recorder: Recorder, now: Instant) -> Following {
        let login = &self.card.login;
        if self.reported.version > 0 {
            recorder.is_served_by(self.reported.version);
        }
        let opened = Opened {
            session: self.card.id.0,
            at_us: recorder.at_us(now),
            user: login.user.clone(),
            database: login.database.clone(),
            parameters: self.card.startup.get().map(|parameters| parameters.to_vec()).unwrap_or_default(),
        };
        let tap = Tap::open(opened, self.reported.text_rules, &recorder);
        Following { recorder, tap, arrived: None }
    }

    /// Bytes of the client are offered to the session.
    pub(crate) fn arrives(&mut self, now: Instant) {
        if let Some(following) = &mut self.following {
            following.arrived.get_or_insert(now);
        }
    }

    /// The session has accepted bytes of the client, and some are left or none.
    pub(crate) fn on_client(&mut self, taken: &[u8], is_left: bool, now: Instant) {
        let Some(Following { recorder, tap, arrived }) = &mut self.following else { return };
        let since = arrived.take().unwrap_or(now);
        tap.on_client(taken, recorder.at_us(since), recorder);
        *arrived = is_left.then_some(if taken.is_empty() { since } else { now });
    }

    /// The client is sent bytes.
    pub(crate) fn on_server(&mut self, bytes: &[u8], now: Instant) {
        if let Some(Following { recorder, tap, .. }) = &mut self.following {
            tap.on_server(bytes, recorder.at_us(now), recorder);
        }
    }

    /// The session has ended.
    pub(crate) fn close(&mut self, now: Instant) {
        if let Some(Following { recorder, tap, .. }) = self.following.take() {
            tap.close(recorder.at_us(now), &recorder);
        }
    }
}

/// An outbox whose client's side is followed.
pub(crate) struct Followed<'a, To> {
    out: To,
    follower: Option<&'a mut Follower>,
    now: Instant,
    /// What the client is sent before it is known which of its bytes the session accepts.
    kept: Option<Vec<u8>>,
}

impl<'a, To: Outbox> Followed<'a, To> {
    /// The outbox of a step.
    pub(crate) fn new(out: To, follower: Option<&'a mut Follower>, now: Instant) -> Self {
        Followed { out, follower, now, kept: None }
    }

    /// The outbox of a step that begins with bytes of the client.
    pub(crate) fn of_client(out: To, mut follower: Option<&'a mut Follower>, now: Instant) -> Self {
        follower.iter_mut().for_each(|follower| follower.arrives(now));
        Followed { kept: follower.as_ref().map(|_| Vec::new()), ..Followed::new(out, follower, now) }
    }

    /// The session has accepted these bytes of the client, and some are left or none.
    pub(crate) fn accepted(&mut self, taken: &[u8], is_left: bool) {
        if let Some(follower) = &mut self.follower {
            follower.on_client(taken, is_left, self.now);
            follower.on_server(&self.kept.take().unwrap_or_default(), self.now);
        }
    }

    /// The outbox itself, to send what it has.
    pub(crate) fn into_inner(self) -> To {
        self.out
    }
}

impl<To: Outbox> Outbox for Followed<'_, To> {
    fn to_server(&mut self, bytes: &[u8]) {
        self.out.to_server(bytes);
    }

    fn to_client(&mut self, bytes: &[u8]) {
        self.out.to_client(bytes);
        match (&mut self.follower, &mut self.kept) {
            (None, _) => {}
            (Some(_), Some(kept)) => kept.extend_from_slice(bytes),
            (Some(follower), None) => follower.on_server(bytes, self.now),
        }
    }
}
