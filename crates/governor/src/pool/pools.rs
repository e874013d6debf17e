//! Who has which connection, and who waits for one. Shared by all workers.

mod one;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use one::{PAUSES, Pool};
use parking_lot::Mutex;
use plimsoll_policy::{Claim, ClassIndex, Ticket};

use super::settings::Reports;
use super::statements::PreparedTextRegistry;
use crate::credentials::ServerCredentials;
use crate::registry::SessionCard;
use crate::session::Reported;
use crate::settings::{CpuShare, Settings};

/// The clients that share connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolKey {
    /// Their database.
    pub database: Arc<str>,
    /// Their user.
    pub user: Arc<str>,
    /// A hash of their start-up parameters, besides the application's name.
    pub parameters: u64,
}

impl PoolKey {
    /// The pool of a session.
    pub fn of(card: &SessionCard) -> Self {
        PoolKey {
            database: card.login.database.as_str().into(),
            user: card.login.user.as_str().into(),
            parameters: card.parameters.get().copied().unwrap_or_default(),
        }
    }

    fn is_of(&self, database: Option<&str>) -> bool {
        database.is_none_or(|database| database == &*self.database)
    }
}

/// A place where a connection or a client is: a worker, and a pair of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The worker.
    pub worker: usize,
    /// The pair.
    pub pair: u64,
}

/// A connection that serves no client.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// Its home.
    pub place: Place,
    /// The share of the cores that its process has.
    pub share: CpuShare,
    /// Its server process.
    pub process: i32,
    /// When it began to be opened.
    pub made: Instant,
    /// Since when it serves no client.
    pub since: Instant,
}

/// What a new client of a pool learns when it has been let in: what a server said of itself when a connection was made.
#[derive(Debug, Clone)]
pub struct Welcome {
    /// How texts are read there, and the server's version.
    pub reported: Reported,
    /// The parameters that it has reported.
    pub reports: Arc<Reports>,
}

/// What it takes to open a connection without a client.
#[derive(Debug)]
pub struct Means {
    /// What the server is shown for a proof.
    pub credentials: ServerCredentials,
    /// The start-up parameters besides user and database.
    pub parameters: Vec<(String, String)>,
}

/// The answer to one who wants a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// It has that one.
    Has(Place),
    /// It waits until one is offered. If `true`, another one may be opened.
    Waits(bool),
    /// The pool has no connection, and cannot get one.
    Never,
}

/// What becomes of a connection that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It goes to that client, of that class.
    To(Place, ClassIndex),
    /// It is kept.
    Kept,
    /// There are enough: it is closed.
    Closed,
}

/// A pool for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    /// Its clients.
    pub key: PoolKey,
    /// How many connections it has: `in_use` of them serve a client, `idle` serve none.
    pub open: u32,
    /// See `open`.
    pub in_use: u32,
    /// See `open`.
    pub idle: u32,
    /// How many more the governor is opening.
    pub opening: u32,
    /// How many clients wait for one.
    pub waiting: usize,
}

/// All pools.
#[derive(Debug, Default)]
pub struct Pools {
    pools: Mutex<HashMap<PoolKey, Pool>>,
    /// The databases that operators have paused. Locked after `pools`.
    paused: Mutex<BTreeSet<String>>,
}

/// The settings in force, and their number.
pub type InForce<'a> = (&'a Settings, u64);

impl Pools {
    fn with<T>(&self, key: &PoolKey, (settings, generation): InForce<'_>, act: impl FnOnce(&mut Pool) -> T) -> T {
        let mut pools = self.pools.lock();
        let pool = match pools.get_mut(key) {
            Some(pool) => pool,
            None => {
                let is_paused = self.paused.lock().contains(&*key.database);
                pools.entry(key.clone()).or_insert_with(|| Pool::new(is_paused))
            }
        };
        pool.obey(settings, generation);
        act(pool)
    }

    /// The texts that clients of a pool have prepared.
    pub fn texts(&self, key: &PoolKey, of: InForce<'_>) -> Arc<PreparedTextRegistry> {
        self.with(key, of, |pool| Arc::clone(&pool.texts))
    }

    /// A client wants a connection for a transaction.
    pub fn want(
        &self,
        key: &PoolKey,
        claim: Claim,
        client: Place,
        (now, clock): (Instant, Duration),
        of: InForce<'_>,
    ) -> Wanted {
        let share = of.0.share_of(claim.class);
        self.with(key, of, |pool| {
            if pool.open == 0 && pool.openings.means.is_none() && !pool.is_paused {
                return Wanted::Never;
            }
            pool.resize();
            if !pool.queue.ask(claim, clock) {
                pool.waiting.insert(claim.ticket, (client, claim.class));
                return Wanted::Waits(pool.may_open(now));
            }
            let idle = pool.take_idle(client.worker, share).expect("only as many enter as are idle");
            Wanted::Has(idle.place)
        })
    }

    /// A new connection exists, which the governor itself or a client began to open then. It must be offered next. Returns
    /// the clients that wait for what it says of itself.
    pub fn joins(&self, key: &PoolKey, began: Instant, welcome: Welcome, of: InForce<'_>) -> Vec<Place> {
        self.with(key, of, |pool| {
            pool.joins(began);
            pool.welcome = Some(welcome);
            let openings = &mut pool.openings;
            (openings.failures, openings.again_at) = (0, None);
            openings.ends(began);
            std::mem::take(&mut openings.unwelcomed)
        })
    }

    /// A client has proved who it is: connections can be opened by the same means. Returns what it learns, if that is
    /// known; otherwise the client waits for it.
    pub fn admits(&self, key: &PoolKey, means: Means, client: Place, of: InForce<'_>) -> Option<Welcome> {
        self.with(key, of, |pool| {
            // A certificate proves who a client is, and is no means to open a connection.
            let is_better = !matches!(means.credentials, ServerCredentials::None) || pool.openings.means.is_none();
            if is_better {
                pool.openings.means = Some(Arc::new(means));
            }
            if pool.welcome.is_none() {
                pool.openings.unwelcomed.push(client);
            }
            pool.welcome.clone()
        })
    }

    /// The means to open a connection now, if a client needs one; it counts as under way.
    pub fn opens(&self, key: &PoolKey, now: Instant, of: InForce<'_>) -> Option<Arc<Means>> {
        self.with(key, of, |pool| {
            let may = pool.may_open(now) && pool.needs_one();
            pool.openings.under_way.extend(may.then_some(now));
            pool.openings.means.clone().filter(|_| may)
        })
    }

    /// A connection that was begun then could not be opened. Returns the clients that wait for what the first one says of itself.
    pub fn open_failed(&self, key: &PoolKey, (began, now): (Instant, Instant), of: InForce<'_>) -> Vec<Place> {
        self.with(key, of, |pool| {
            let openings = &mut pool.openings;
            openings.ends(began);
            let pause = PAUSES.0 * 2_u32.pow(openings.failures.min(10));
            (openings.failures, openings.again_at) = (openings.failures + 1, Some(now + pause.min(PAUSES.1)));
            std::mem::take(&mut openings.unwelcomed)
        })
    }

    /// The pools in which a client waits and a connection may be opened now.
    pub fn due(&self, now: Instant) -> Vec<PoolKey> {
        let pools = self.pools.lock();
        let due = pools.iter().filter(|(_, pool)| pool.needs_one() && pool.may_open(now));
        due.map(|(key, _)| key.clone()).collect()
    }

    /// The pools in which a client waits and no connection serves none.
    pub fn exhausted(&self) -> BTreeSet<PoolKey> {
        let pools = self.pools.lock();
        let exhausted = pools.iter().filter(|(_, pool)| pool.queue.waiting() > 0 && pool.idle.is_empty());
        exhausted.map(|(key, _)| key.clone()).collect()
    }

    /// A connection serves no client now; before that, a transaction of class `of_class`, if any.
    pub fn offer(
        &self,
        key: &PoolKey,
        idle: Idle,
        of_class: Option<ClassIndex>,
        clock: Duration,
        of: InForce<'_>,
    ) -> Offered {
        self.with(key, of, |pool| {
            of_class.into_iter().for_each(|class| pool.queue.leave(class));
            if pool.open > pool.size || pool.is_to_close(&idle) {
                pool.closes(Some(idle.made));
                return Offered::Closed;
            }
            pool.idle.push(idle);
            pool.resize();
            let next = pool.queue.next(clock).and_then(|ticket| pool.waiting.remove(&ticket));
            match next {
                Some((client, class)) => {
                    pool.idle.pop();
                    Offered::To(client, class)
                }
                None => Offered::Kept,
            }
        })
    }

    /// A connection has ended that served a transaction of that class. When it was made is not always known.
    pub fn lost(&self, key: &PoolKey, of_class: ClassIndex, made: Option<Instant>, of: InForce<'_>) {
        self.with(key, of, |pool| {
            pool.queue.leave(of_class);
            pool.closes(made);
        });
    }

    /// A connection has ended that served no client. Returns whether it was still the pool's: otherwise it is on loan.
    pub fn ended(&self, key: &PoolKey, place: Place, of: InForce<'_>) -> bool {
        self.with(key, of, |pool| {
            let at = pool.idle.iter().position(|idle| idle.place == place);
            let ended = at.map(|at| pool.idle.remove(at));
            ended.iter().for_each(|idle| pool.closes(Some(idle.made)));
            ended.is_some()
        })
    }

    /// A client no longer waits. Returns whether it did: otherwise it is about to get a connection.
    pub fn abandon(&self, key: &PoolKey, ticket: Ticket, of: InForce<'_>) -> bool {
        self.with(key, of, |pool| {
            pool.waiting.remove(&ticket);
            pool.queue.abandon(ticket)
        })
    }

    /// Clients that wait although their pool has no connection left.
    pub fn stranded(&self, key: &PoolKey, of: InForce<'_>) -> Vec<Place> {
        self.with(key, of, |pool| match pool.open {
            0 if pool.openings.means.is_none() && !pool.is_paused => {
                pool.waiting.values().map(|(client, _)| *client).collect()
            }
            _ => Vec::new(),
        })
    }

    /// The idle connections of a worker that are to be closed: those that are idle since before then, and those that an
    /// operator wants closed.
    pub fn superfluous(&self, worker: usize, then: Option<Instant>) -> Vec<(PoolKey, Place)> {
        let pools = self.pools.lock();
        let idle = pools.iter().flat_map(|(key, pool)| pool.idle.iter().map(move |idle| (key, pool, idle)));
        let is_one = |pool: &Pool, idle: &Idle| {
            let is_unused = then.is_some_and(|then| idle.since <= then);
            idle.place.worker == worker && (is_unused || pool.is_to_close(idle))
        };
        let superfluous = idle.filter(|(_, pool, idle)| is_one(pool, idle));
        superfluous.map(|(key, _, idle)| (key.clone(), idle.place)).collect()
    }

    /// The pools of a database, or all.
    pub fn keys(&self, database: Option<&str>) -> Vec<PoolKey> {
        let pools = self.pools.lock();
        pools.keys().filter(|key| key.is_of(database)).cloned().collect()
    }

    /// Whether a pool opens connections by itself.
    pub fn opens_by_itself(&self, key: &PoolKey) -> bool {
        self.pools.lock().get(key).is_some_and(|pool| pool.openings.means.is_some())
    }

    /// Lends no connections of a database from now on, and closes them as they come back. The workers are to be told.
    pub fn pause(&self, database: &str, now: Instant) {
        let mut pools = self.pools.lock();
        self.paused.lock().insert(database.to_owned());
        for (_, pool) in pools.iter_mut().filter(|(key, _)| key.is_of(Some(database))) {
            pool.is_paused = true;
            pool.renew(now);
        }
    }

    /// Lends connections of a database again, or of all. Returns whether that was paused. The workers are to be told.
    pub fn resume(&self, database: Option<&str>) -> bool {
        let mut pools = self.pools.lock();
        let mut paused = self.paused.lock();
        let before = paused.len();
        paused.retain(|name| database.is_some_and(|database| database != name));
        pools.iter_mut().for_each(|(key, pool)| pool.is_paused = paused.contains(&*key.database));
        paused.len() < before
    }

    /// Whether a database is paused.
    pub fn is_paused(&self, database: &str) -> bool {
        self.paused.lock().contains(database)
    }

    /// Whether the pools of a database have a connection, or open one.
    pub fn holds_connections(&self, database: &str) -> bool {
        let pools = self.pools.lock();
        pools.iter().any(|(key, pool)| key.is_of(Some(database)) && pool.held() > 0)
    }

    /// Replaces the connections of a database, or of all: each is closed as soon as it serves no client. The workers are to
    /// be told.
    pub fn renew(&self, database: Option<&str>, now: Instant) {
        let mut pools = self.pools.lock();
        pools.iter_mut().filter(|(key, _)| key.is_of(database)).for_each(|(_, pool)| pool.renew(now));
    }

    /// Whether some that are to be replaced are still there.
    pub fn are_being_renewed(&self, database: Option<&str>) -> bool {
        self.pools.lock().iter().any(|(key, pool)| key.is_of(database) && pool.is_being_renewed())
    }

    /// The connections that serve no client, for people, and whether each is to be closed.
    pub fn idle(&self) -> Vec<(PoolKey, Idle, bool)> {
        let pools = self.pools.lock();
        let idle = pools.iter().flat_map(|(key, pool)| pool.idle.iter().map(move |idle| (key, pool, idle)));
        idle.map(|(key, pool, idle)| (key.clone(), *idle, pool.is_to_close(idle))).collect()
    }

    /// The pools for people.
    pub fn view(&self) -> Vec<PoolView> {
        let pools = self.pools.lock();
        let view = |(key, pool): (&PoolKey, &Pool)| PoolView {
            key: key.clone(),
            open: pool.open,
            in_use: pool.queue.in_use(),
            idle: pool.idle.len() as u32,
            opening: pool.openings.under_way.len() as u32,
            waiting: pool.queue.waiting(),
        };
        pools.iter().map(view).collect()
    }
}
