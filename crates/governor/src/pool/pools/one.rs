//! One pool: its connections, and its attempts to open others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_policy::{ClassIndex, ConnectionQueue, PoolShare, Ticket};

use super::{Idle, Means, Place, Welcome};
use crate::pool::statements::PreparedTextRegistry;
use crate::settings::{CpuShare, Settings};

/// The pauses between attempts to open a connection: the first, and the longest.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(15));

/// Attempts to open connections.
#[derive(Debug, Default)]
pub(super) struct Openings {
    pub(super) means: Option<Arc<Means>>,
    /// When each that is under way began.
    pub(super) under_way: Vec<Instant>,
    /// How many have failed since one succeeded.
    pub(super) failures: u32,
    /// Before this time there is no other attempt.
    pub(super) again_at: Option<Instant>,
    /// Clients that have been let in, and wait for what the server says of itself.
    pub(super) unwelcomed: Vec<Place>,
}

impl Openings {
    /// One that began then is over.
    pub(super) fn ends(&mut self, began: Instant) {
        if let Some(at) = self.under_way.iter().position(|other| *other == began) {
            self.under_way.swap_remove(at);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pool {
    /// The texts that its clients have prepared.
    pub(super) texts: Arc<PreparedTextRegistry>,
    pub(super) welcome: Option<Welcome>,
    pub(super) openings: Openings,
    pub(super) queue: ConnectionQueue,
    pub(super) waiting: HashMap<Ticket, (Place, ClassIndex)>,
    /// The one that was used last is at the end.
    pub(super) idle: Vec<Idle>,
    /// How many connections exist, on loan or idle.
    pub(super) open: u32,
    /// An operator wants connections that were made before that closed as soon as they serve no client.
    pub(super) renewed_at: Option<Instant>,
    /// How many of the connections are such.
    pub(super) old: u32,
    /// An operator has paused its database: it opens and lends no connections.
    pub(super) is_paused: bool,
    pub(super) size: u32,
    pub(super) generation: u64,
}

impl Pool {
    pub(super) fn new(is_paused: bool) -> Self {
        let queue = ConnectionQueue::new(0, Vec::new(), Duration::ZERO);
        let (texts, openings) = (Arc::default(), Openings::default());
        Pool {
            texts,
            welcome: None,
            openings,
            queue,
            waiting: HashMap::new(),
            idle: Vec::new(),
            open: 0,
            renewed_at: None,
            old: 0,
            is_paused,
            size: 0,
            generation: u64::MAX,
        }
    }

    pub(super) fn obey(&mut self, settings: &Settings, generation: u64) {
        if std::mem::replace(&mut self.generation, generation) != generation {
            let shares = settings.classes.iter().map(|class| PoolShare {
                priority: class.limits.priority,
                least: class.pool_min,
                most: class.pool_max,
            });
            self.size = settings.pool.size;
            self.queue.set(0, &shares.collect::<Vec<_>>(), settings.pool.patience);
        }
    }

    /// As many as serve a client or could.
    pub(super) fn resize(&mut self) {
        self.queue.resize(self.queue.in_use() + self.free() as u32);
    }

    /// How many idle connections may be lent.
    pub(super) fn free(&self) -> usize {
        self.idle.iter().filter(|idle| !self.is_to_close(idle)).count()
    }

    /// Whether an operator wants it closed.
    pub(super) fn is_to_close(&self, idle: &Idle) -> bool {
        self.is_paused || self.is_old(idle.made)
    }

    pub(super) fn is_old(&self, made: Instant) -> bool {
        self.renewed_at.is_some_and(|at| made < at)
    }

    /// A connection is no longer there. Without a moment at which it was made, that is not known.
    pub(super) fn closes(&mut self, made: Option<Instant>) {
        self.open = self.open.saturating_sub(1);
        if made.is_none_or(|made| self.is_old(made)) {
            self.old = self.old.saturating_sub(1);
        }
    }

    /// A connection is there that the governor or a client began to open then.
    pub(super) fn joins(&mut self, began: Instant) {
        self.open += 1;
        self.old += u32::from(self.is_old(began));
    }

    /// Whether an operator wants connections replaced that are there or are being opened.
    pub(super) fn is_being_renewed(&self) -> bool {
        self.old > 0 || self.openings.under_way.iter().any(|began| self.is_old(*began))
    }

    /// Closes all connections, those on loan when they come back.
    pub(super) fn renew(&mut self, now: Instant) {
        (self.renewed_at, self.old) = (Some(now), self.open);
    }

    /// How many connections exist or are being opened.
    pub(super) fn held(&self) -> u32 {
        self.open + self.openings.under_way.len() as u32
    }

    /// Whether another connection may be opened now.
    pub(super) fn may_open(&self, now: Instant) -> bool {
        let openings = &self.openings;
        let is_time = openings.again_at.is_none_or(|at| at <= now);
        let is_alone = openings.failures == 0 || openings.under_way.is_empty();
        openings.means.is_some() && is_time && is_alone && !self.is_paused && self.held() < self.size
    }

    /// Whether a client needs one more than are under way.
    pub(super) fn needs_one(&self) -> bool {
        let waiting = self.queue.waiting() + self.openings.unwelcomed.len();
        self.free() == 0 && waiting > self.openings.under_way.len()
    }

    /// A connection that is idle: one of this worker, and one whose process need not change, if there is one.
    pub(super) fn take_idle(&mut self, worker: usize, share: CpuShare) -> Option<Idle> {
        let fits = |idle: &Idle| (idle.place.worker == worker, idle.share == share);
        let candidates = self.idle.iter().enumerate().filter(|(_, idle)| !self.is_to_close(idle));
        let (best, _) = candidates.max_by_key(|(at, idle)| (fits(idle), *at))?;
        Some(self.idle.remove(best))
    }
}
