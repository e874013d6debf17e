//! The sums of all looks.
//!
//! The time between two looks counts for the state in the second one. Over many looks at moments that are independent
//! of the sessions, the sum is the time that sessions spent in that state, at any interval. Nothing here reads a clock.

mod lock_waits;
mod transactions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_policy::Doing;
use plimsoll_policy::class_proposal::LONG;

pub use self::lock_waits::{HolderState, Link, LockWaits, doing_of};
pub use self::transactions::{IdleInTransaction, Transactions};
use crate::identity::{Identity, LoginId, StatementId};
use crate::snapshot::{Session, Snapshot};
use crate::windows::{Reading, WindowLog};

/// Where response time went, by sampling, and facts about transactions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bucket {
    /// On a core or waiting for one.
    pub running: Duration,
    /// Waiting for a lock.
    pub lock: Duration,
    /// Waiting for the disk, or behind a process that does.
    pub disk: Duration,
    /// Waiting for the client within a transaction, or for it to take or send data.
    pub client: Duration,
    /// Anything else: latches, timers, other processes.
    pub other: Duration,
    /// Time that the scheduler gave its processes while they were observed: on a core.
    pub on_core: Duration,
    /// The same: runnable, waiting for a core.
    pub for_core: Duration,
    /// Different transactions that were observed. A count.
    pub transactions: usize,
    /// Time in transactions, lock waits left out.
    pub in_transactions: Duration,
    /// Of that, in long transactions; time before a transaction became long counts for the statement at which it did.
    /// By each of the limits for long transactions.
    pub in_long: [Duration; LONG.len()],
    /// Of the time in transactions, that in transactions of one statement.
    pub in_single: Duration,
}

impl Bucket {
    /// Response time: all parts together.
    pub fn response(&self) -> Duration {
        self.running + self.lock + self.disk + self.client + self.other
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Bucket) {
        self.running += other.running;
        self.lock += other.lock;
        self.disk += other.disk;
        self.client += other.client;
        self.other += other.other;
        self.on_core += other.on_core;
        self.for_core += other.for_core;
        self.transactions += other.transactions;
        self.in_transactions += other.in_transactions;
        self.in_long.iter_mut().zip(other.in_long).for_each(|(sum, more)| *sum += more);
        self.in_single += other.in_single;
    }

    fn add_time(&mut self, doing: Doing, time: Duration) {
        *match doing {
            Doing::Running => &mut self.running,
            Doing::Lock => &mut self.lock,
            Doing::Io | Doing::IoLatch => &mut self.disk,
            Doing::Client => &mut self.client,
            Doing::Other | Doing::Idle => &mut self.other,
        } += time;
    }

    /// The share of running time that was spent waiting for a core; `None` if the scheduler's times were not visible.
    pub fn core_wait_share(&self) -> Option<f64> {
        let seen = (self.on_core + self.for_core).as_secs_f64();
        (seen > 0.0).then(|| self.for_core.as_secs_f64() / seen)
    }
}

/// How many sessions of a login were in progress at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Concurrency {
    /// Session time in progress: divided by the elapsed time, the mean number.
    pub in_progress: Duration,
    /// The most at one look.
    pub most: usize,
}

/// Everything that was observed.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Logins and statements.
    pub identity: Identity,
    /// Time by login and statement.
    pub buckets: BTreeMap<(LoginId, StatementId), Bucket>,
    /// Sessions at once, by login.
    pub concurrency: BTreeMap<LoginId, Concurrency>,
    /// Which sessions waited behind which.
    pub lock_waits: LockWaits,
    /// Transactions that wait for their clients, and the age of open ones.
    pub transactions: Transactions,
    /// Logins whose transactions share a snapshot, as those of `pg_dump --jobs` do.
    pub snapshot_sharers: BTreeSet<LoginId>,
    /// The same in windows.
    pub(crate) windows: WindowLog,
    /// Looks. A count.
    pub looks: usize,
    /// Looks at locks. A count.
    pub lock_looks: usize,
    /// From the first look to the last.
    pub elapsed: Duration,
    last_at: Option<Duration>,
    /// The last reading of each process's times.
    times: BTreeMap<i32, ThreadTimes>,
}

impl Ledger {
    /// Adds a look.
    pub fn take(&mut self, look: &Snapshot) {
        self.looks += 1;
        let time = self.last_at.map_or(Duration::ZERO, |last| look.at.saturating_sub(last));
        self.last_at = Some(look.at);
        self.elapsed += time;
        let mut parties = BTreeMap::new();
        let mut at_once: BTreeMap<LoginId, usize> = BTreeMap::new();
        for session in look.sessions.iter().filter(|session| session.leader.is_none()) {
            let login = self.identity.login(&session.login);
            let statement = self.identity.statement(session);
            if self.identity.statements()[statement].shares_snapshot {
                self.snapshot_sharers.insert(login);
            }
            parties.insert(session.process, (login, statement));
            if !session.is_of_client {
                continue;
            }
            *at_once.entry(login).or_default() += 1;
            let workers: Vec<&Session> =
                look.sessions.iter().filter(|worker| worker.leader == Some(session.process)).collect();
            let bucket = self.buckets.entry((login, statement)).or_default();
            spread(bucket, session, &workers, time);
            for process in std::iter::once(session).chain(workers) {
                let Some(now) = process.times else { continue };
                if let Some(then) = self.times.insert(process.process, now) {
                    let used = now.since(then);
                    (bucket.on_core, bucket.for_core) = (bucket.on_core + used.run, bucket.for_core + used.wait);
                }
            }
            self.transactions.note(session, login, bucket, look.server_us, time);
        }
        self.windows.take(look, &parties, time);
        for holder in &look.holders {
            let login = self.identity.login(&holder.login);
            parties.insert(holder.process, (login, self.identity.statement_of_text(holder.text.as_ref())));
        }
        for (login, count) in at_once {
            let concurrency = self.concurrency.entry(login).or_default();
            concurrency.in_progress += time * u32::try_from(count).unwrap_or(u32::MAX);
            concurrency.most = concurrency.most.max(count);
        }
        self.lock_looks += usize::from(look.locks.is_some());
        self.lock_waits.note(look, &parties, time);
        self.transactions.end_of_look(look);
        if self.looks.is_multiple_of(FORGET_EVERY) {
            self.forget(look);
        }
    }

    /// Ends a window with what the kernel and the server have counted so far.
    pub fn close_window(&mut self, reading: Reading) {
        self.windows.close(reading, &mut self.identity);
    }

    /// Drops data about ended sessions from time to time.
    fn forget(&mut self, look: &Snapshot) {
        let there: Vec<i32> = look.sessions.iter().map(|session| session.process).collect();
        self.identity.keep_processes(|process| there.contains(&process));
        self.times.retain(|process, _| there.contains(process));
    }

    /// The sum over a login.
    pub fn of_login(&self, login: LoginId) -> Bucket {
        self.sum(|(of, _)| *of == login)
    }

    /// The sum over the chosen keys.
    pub fn sum(&self, is_meant: impl Fn(&(LoginId, StatementId)) -> bool) -> Bucket {
        let mut sum = Bucket::default();
        self.buckets.iter().filter(|(key, _)| is_meant(key)).for_each(|(_, bucket)| sum.add(bucket));
        sum
    }
}

/// Looks between two clean-ups.
const FORGET_EVERY: usize = 1_000;

/// Records a session's state. For a session that waits for its parallel workers, their states count.
fn spread(bucket: &mut Bucket, session: &Session, workers: &[&Session], time: Duration) {
    if session.doing != Doing::Other || workers.is_empty() {
        bucket.add_time(session.doing, time);
        return;
    }
    let part = time / u32::try_from(workers.len()).unwrap_or(u32::MAX);
    workers[1..].iter().for_each(|worker| bucket.add_time(worker.doing, part));
    // The first worker gets the remainder of the division, so that nothing is lost.
    bucket.add_time(workers[0].doing, time - part * (workers.len() as u32 - 1));
}

#[cfg(test)]
mod tests;
