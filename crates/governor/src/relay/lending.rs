//! Moves connections of pools between their homes and the pairs of clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_policy::ClassIndex;

use super::context::{Lending, Note, Unwelcome};
use super::pair::{Moving, Pair, home_token};
use super::side::Side;
use super::turns::LoginTurn;
use super::worker::Worker;
use crate::governor::Repeated;
use crate::pool::pools::{InForce, Offered, Place, PoolKey, Pools, Wanted, Welcome};

/// How often idle connections are looked for that are idle for too long.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Worker {
    /// The pair that a home's connection is on loan to.
    pub(super) fn borrower(&self, home: u64) -> Option<u64> {
        self.pair(home)?.borrower()
    }

    /// An operator has changed what pools may do.
    pub(super) fn review_pools(&mut self, now: Instant) {
        self.looks_for_idle_at = Some(now);
        for key in self.context.governor.pools.keys(None) {
            self.strand(&key, now);
        }
    }

    /// Does what the last steps have asked for.
    pub(super) fn settle_pools(&mut self, now: Instant) {
        // Pairs that move here ask for more, which this loop finds.
        if std::mem::replace(&mut self.is_lending, true) {
            return;
        }
        while let Some(lending) = self.context.lending.pop_front() {
            match lending {
                Lending::Wants(client) => self.find_connection(client, now),
                Lending::Returns { home, moving, class } => self.take_back(home, moving, class, now),
                Lending::Joins(moving, turn) => self.join(moving, turn, now),
                Lending::Abandons(side, turn) => self.abandon(side, turn, now),
                Lending::Opens(key) => self.open(&key, now),
                Lending::OpenFailed { key, began, why, error } => self.note_failure((&key, began), (&why, error), now),
                Lending::Gone { home, key, class } => {
                    let made = self.pair(home).and_then(Pair::made);
                    self.remove(home, now);
                    self.lose(&key, class, made, now);
                }
                Lending::Ended(key) => self.strand(&key, now),
            }
        }
        self.is_lending = false;
    }

    fn with_settings<T>(&self, act: impl FnOnce(InForce<'_>, &Pools) -> T) -> T {
        let governor = &self.context.governor;
        let settings = governor.settings();
        act((&settings, governor.generation()), &governor.pools)
    }

    fn find_connection(&mut self, client: u64, now: Instant) {
        // It may have left.
        let Some((key, claim)) = self.pair(client).and_then(Pair::claim) else { return };
        let place = Place { worker: self.context.worker, pair: client };
        let times = (now, self.context.governor.clock(now));
        match self.with_settings(|settings, pools| pools.want(&key, claim, place, times, settings)) {
            Wanted::Has(home) => self.lend(&key, home, (place, claim.class), now),
            Wanted::Waits(true) => self.open(&key, now),
            Wanted::Waits(false) => {}
            Wanted::Never => self.move_pair(client, now, |pair, context| pair.is_stranded(context, now)),
        }
    }

    /// The connection in that home is for that client.
    fn lend(&mut self, key: &PoolKey, home: Place, (client, class): (Place, ClassIndex), now: Instant) {
        let here = self.context.worker;
        if home.worker != here {
            let key = key.clone();
            return self.tell_worker(home.worker, Note::Fetch { home: home.pair, key, client, class });
        }
        if client.worker != here {
            return self.send_connection(home.pair, key.clone(), (client, class), now);
        }
        let Some(moving) = self.pair_mut(home.pair).and_then(|pair| pair.lend(Some(client.pair))) else {
            return self.find_another(key, (client.pair, class), now);
        };
        self.attach(moving, home.pair, (client.pair, class), now);
    }

    /// The connection has ended just before it could be lent to that client, which may have left.
    pub(super) fn find_another(&mut self, key: &PoolKey, (client, class): (u64, ClassIndex), now: Instant) {
        self.lose(key, class, None, now);
        self.find_connection(client, now);
    }

    /// A connection that was in use is no longer there. When it was made is not always known.
    fn lose(&mut self, key: &PoolKey, class: ClassIndex, made: Option<Instant>, now: Instant) {
        self.with_settings(|settings, pools| pools.lost(key, class, made, settings));
        self.strand(key, now);
    }

    fn attach(&mut self, moving: Moving, home: u64, (client, class): (u64, ClassIndex), now: Instant) {
        if self.pair(client).is_some_and(Pair::awaits_connection) {
            return self.move_pair(client, now, |pair, context| pair.attach((moving, home, class), context));
        }
        // It has left meanwhile: the next one gets the connection.
        self.take_back(home, moving, class, now);
    }

    fn take_back(&mut self, home: u64, moving: Moving, class: ClassIndex, now: Instant) {
        let Some(pair) = self.pair_mut(home) else { return };
        pair.take_back(moving);
        self.offer(home, Some(class), now);
    }

    fn offer(&mut self, home: u64, of_class: Option<ClassIndex>, now: Instant) {
        let place = Place { worker: self.context.worker, pair: home };
        let Some((key, idle)) = self.pair(home).and_then(|pair| pair.idle(place, now)) else { return };
        let clock = self.context.governor.clock(now);
        match self.with_settings(|settings, pools| pools.offer(&key, idle, of_class, clock, settings)) {
            Offered::To(client, class) => self.lend(&key, place, (client, class), now),
            Offered::Kept => {}
            Offered::Closed => {
                self.close_home(home, now);
                self.strand(&key, now);
            }
        }
    }

    /// A new connection gets a home. The turn of the client that has logged in is over if the connection is kept; if not,
    /// when its server process has ended.
    fn join(&mut self, moving: Moving, turn: Option<LoginTurn>, now: Instant) {
        let key = moving.key.clone();
        let (reported, reports) = (moving.connection.reported, Arc::clone(&moving.connection.reports));
        let welcome = Welcome { reported, reports };
        let made = moving.connection.since;
        let unwelcomed = self.with_settings(|settings, pools| pools.joins(&key, made, welcome.clone(), settings));
        self.looks_for_idle_at.get_or_insert(now + LOOK_EVERY);
        self.answer_admitted(unwelcomed, Ok(welcome), now);
        match self.add_home(moving, false) {
            Some(home) => {
                self.offer(home, None, now);
                if let Some(pair) = self.pair_mut(home) {
                    pair.keep_turn_until_ended(turn);
                }
            }
            None => self.with_settings(|settings, pools| pools.lost(&key, ClassIndex(0), Some(made), settings)),
        }
    }

    /// Opens as many connections as clients need, and may have.
    fn open(&mut self, key: &PoolKey, now: Instant) {
        self.looks_for_idle_at.get_or_insert(now + LOOK_EVERY);
        while let Some(means) = self.with_settings(|settings, pools| pools.opens(key, now, settings)) {
            let key = key.clone();
            self.add(now, |id, context| Ok(Pair::opening(id, key, means, context, now)));
        }
    }

    /// A connection could not be opened. Clients that wait for one go on waiting: it is tried again.
    fn note_failure(
        &mut self,
        (key, began): (&PoolKey, Instant),
        (why, error): (&str, Option<Box<[u8]>>),
        now: Instant,
    ) {
        if self.context.governor.logs(Repeated::ServerUnreachable) {
            let PoolKey { user, database, .. } = key;
            tracing::warn!(%user, %database, "no server connection can be opened for the pool: {why}");
        }
        let unwelcomed = self.with_settings(|settings, pools| pools.open_failed(key, (began, now), settings));
        self.answer_admitted(unwelcomed, Err((why.to_owned(), error)), now);
    }

    /// Tells clients that have been let in what their server says of itself, or why it has none.
    fn answer_admitted(&mut self, clients: Vec<Place>, welcome: Result<Welcome, Unwelcome>, now: Instant) {
        for client in clients {
            let welcome = welcome.clone();
            match client.worker == self.context.worker {
                true => self.move_pair(client.pair, now, |pair, context| pair.on_welcome(welcome, context, now)),
                false => self.tell_worker(client.worker, Note::Welcome(client.pair, welcome)),
            }
        }
    }

    fn add_home(&mut self, mut moving: Moving, is_from_elsewhere: bool) -> Option<u64> {
        let id = self.reserve();
        let token = home_token(id);
        let renamed = match is_from_elsewhere {
            true => moving.side.join(token, &self.context.poll),
            false => moving.side.rename(token, &self.context.poll),
        };
        match renamed {
            Ok(()) => {
                self.put(id, Pair::home(id, moving));
                Some(id)
            }
            Err(error) => {
                tracing::warn!("a server connection cannot be watched: {error}");
                self.release(id);
                None
            }
        }
    }

    /// Sends an idle connection to a client of another worker.
    pub(super) fn send_connection(
        &mut self,
        home: u64,
        key: PoolKey,
        (client, class): (Place, ClassIndex),
        now: Instant,
    ) {
        let Some(mut moving) = self.pair_mut(home).and_then(|pair| pair.lend(None)) else {
            // It has ended meanwhile.
            return self.tell_worker(client.worker, Note::Lost { key, client: client.pair, class });
        };
        self.remove(home, now);
        match moving.side.leave(&self.context.poll) {
            Ok(()) => self.tell_worker(client.worker, Note::Connection { moving, pair: client.pair, class }),
            Err(error) => {
                tracing::warn!("a server connection cannot be moved: {error}");
                self.tell_worker(client.worker, Note::Lost { key, client: client.pair, class });
            }
        }
    }

    /// A connection has come from another worker, for a client here.
    pub(super) fn receive_connection(&mut self, moving: Moving, (client, class): (u64, ClassIndex), now: Instant) {
        let key = moving.key.clone();
        let Some(home) = self.add_home(moving, true) else {
            return self.find_another(&key, (client, class), now);
        };
        if let Some(moving) = self.pair_mut(home).and_then(|pair| pair.lend(Some(client))) {
            self.attach(moving, home, (client, class), now);
        }
        self.settle_pools(now);
    }

    /// Clients that wait for a connection of a pool that has none.
    fn strand(&mut self, key: &PoolKey, now: Instant) {
        self.open(key, now);
        for client in self.with_settings(|settings, pools| pools.stranded(key, settings)) {
            match client.worker == self.context.worker {
                true => self.move_pair(client.pair, now, |pair, context| pair.is_stranded(context, now)),
                false => self.tell_worker(client.worker, Note::Strands(client.pair)),
            }
        }
    }

    /// Closes connections that are idle for too long.
    pub(super) fn close_idle(&mut self, now: Instant) {
        if self.looks_for_idle_at.is_none_or(|at| at > now) {
            return;
        }
        self.looks_for_idle_at = Some(now + LOOK_EVERY);
        for key in self.context.governor.pools.due(now) {
            self.open(&key, now);
        }
        self.context.governor.let_borrowers_in();
        let timeout = self.context.governor.settings().pool.idle_timeout;
        let then = timeout.and_then(|timeout| now.checked_sub(timeout));
        for (key, place) in self.context.governor.pools.superfluous(self.context.worker, then) {
            if self.with_settings(|settings, pools| pools.ended(&key, place, settings)) {
                self.close_home(place.pair, now);
                self.strand(&key, now);
            }
        }
    }

    fn tell_worker(&self, worker: usize, note: Note) {
        if let Some(inbox) = self.context.shared.inboxes.get(worker)
            && inbox.notes.send(note).is_ok()
        {
            let _ = inbox.waker.wake();
        }
    }

    /// Says goodbye to the server of an idle connection.
    fn close_home(&mut self, home: u64, now: Instant) {
        self.move_pair(home, now, |pair, context| pair.say_goodbye(context, now));
    }

    /// Waits until the server has noticed that a login was given up.
    fn abandon(&mut self, mut side: Side, turn: LoginTurn, now: Instant) {
        self.add(now, |id, context| {
            side.rename(home_token(id), &context.poll)?;
            Ok(Pair::abandoned(id, side, turn, now))
        });
    }
}
