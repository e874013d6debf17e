//! The observation in windows of a second or more: what each login did in them.
//!
//! Looks say how many sessions were in which state; readings between two windows say what the kernel and the server have counted. Windows
//! are the input of predictions, which need mixes that differ. An observation that lasts long has longer windows, not more of them.

mod classes;

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_policy::Doing;
use serde::{Deserialize, Serialize};

pub use classes::ControlStatements;
pub(crate) use classes::{ClassCalls, Classes, by_class, calls_by_class};

use crate::identity::{Identity, LoginId, StatementId};
use crate::snapshot::{CounterKey, Login, Session, Snapshot, StatementCounter};

/// More windows than this are merged in pairs.
const WINDOWS_MAX: usize = 600;

/// A window as it is written: a line of `windows.jsonl`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Window {
    /// When it began, since the observation began.
    pub at_s: f64,
    /// Its length.
    pub seconds: f64,
    /// CPU seconds of all processes of the machine; null if they are not visible.
    pub machine_cpu_s: Option<f64>,
    /// Seconds for which the disk of the data had a request under way; null if that is not visible.
    pub disk_busy_s: Option<f64>,
    /// By the name of a class.
    pub classes: BTreeMap<String, WindowOfClass>,
}

/// What a class did in a window.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct WindowOfClass {
    /// Its sessions that did something. A mean count.
    pub sessions: f64,
    /// Session seconds on a core or waiting for one.
    pub running_s: f64,
    /// Waiting for a lock.
    pub lock_s: f64,
    /// Waiting for the disk, or behind a process that does.
    pub disk_s: f64,
    /// Waiting for the client within a transaction.
    pub client_s: f64,
    /// Waiting for anything else.
    pub other_s: f64,
    /// CPU seconds of its processes; null if they are not visible.
    pub cpu_s: Option<f64>,
    /// Transactions that ended, or statements if the class sends no `COMMIT`; null without `pg_stat_statements`.
    pub requests: Option<f64>,
    /// Execution time of its statements that ended, from the same source.
    pub counted_s: Option<f64>,
}

/// A session as the kernel and the server count it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// The id of its process.
    pub process: i32,
    /// Its owner.
    pub login: Login,
    /// Its time on a core so far; `None` if that is not visible.
    pub run: Option<Duration>,
}

/// Everything that is read between two windows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    /// When, since the observation began.
    pub at: Duration,
    /// Every session of a client.
    pub backends: Vec<Backend>,
    /// Counters by statement; `None` without `pg_stat_statements`.
    pub statements: Option<BTreeMap<CounterKey, StatementCounter>>,
    /// Time that the cores of the machine were busy so far, summed over cores.
    pub busy: Option<Duration>,
    /// Time for which the disk was busy since the last reading.
    pub disk_busy: Option<Duration>,
}

/// Session time of a login's statement by state, and CPU time as far as looks saw it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sighted {
    running: Duration,
    lock: Duration,
    disk: Duration,
    client: Duration,
    other: Duration,
    on_core: Duration,
    /// The most sessions at one look.
    most: usize,
}

impl Sighted {
    fn add(&mut self, other: &Sighted) {
        self.running += other.running;
        self.lock += other.lock;
        self.disk += other.disk;
        self.client += other.client;
        self.other += other.other;
        self.on_core += other.on_core;
        self.most = self.most.max(other.most);
    }

    fn response(&self) -> Duration {
        self.running + self.lock + self.disk + self.client + self.other
    }
}

/// What readings say of a login.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CountedLogin {
    /// On a core: sessions and their parallel workers.
    cpu: Option<Duration>,
    /// Sessions whose time on a core grew, times seconds.
    session_s: f64,
}

/// A window by login and statement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Raw {
    at: Duration,
    length: Duration,
    sighted: BTreeMap<(LoginId, StatementId), Sighted>,
    logins: BTreeMap<LoginId, CountedLogin>,
    statements: Option<BTreeMap<CounterKey, (u64, Duration)>>,
    machine_cpu: Option<Duration>,
    disk_busy: Option<Duration>,
}

impl Raw {
    /// This window and the next one as one.
    fn merged(mut self, next: &Raw) -> Raw {
        self.length += next.length;
        for (key, sighted) in &next.sighted {
            self.sighted.entry(*key).or_default().add(sighted);
        }
        for (login, counted) in &next.logins {
            let sum = self.logins.entry(*login).or_insert(CountedLogin { cpu: Some(Duration::ZERO), session_s: 0.0 });
            sum.cpu = sum.cpu.zip(counted.cpu).map(|(one, other)| one + other);
            sum.session_s += counted.session_s;
        }
        self.statements = self.statements.zip(next.statements.as_ref()).map(|(mut all, more)| {
            for (key, (calls, time)) in more {
                let sum = all.entry(key.clone()).or_default();
                *sum = (sum.0 + calls, sum.1 + *time);
            }
            all
        });
        self.machine_cpu = self.machine_cpu.zip(next.machine_cpu).map(|(one, other)| one + other);
        self.disk_busy = self.disk_busy.zip(next.disk_busy).map(|(one, other)| one + other);
        self
    }
}

/// All windows so far.
#[derive(Debug, Default)]
pub(crate) struct WindowLog {
    closed: Vec<Raw>,
    open: Raw,
    last: Option<Reading>,
    /// How many windows of a reading each a window has; a power of two.
    merging: usize,
    merged: usize,
    /// The last times of each process that a look saw.
    times: BTreeMap<i32, ThreadTimes>,
    workers: BTreeMap<LoginId, Duration>,
}

impl WindowLog {
    /// Adds a look. `parties` are the logins and statements of sessions by process.
    pub(crate) fn take(&mut self, look: &Snapshot, parties: &BTreeMap<i32, (LoginId, StatementId)>, time: Duration) {
        let mut at_once: BTreeMap<(LoginId, StatementId), usize> = BTreeMap::new();
        for session in &look.sessions {
            let Some(key) = parties.get(&session.leader.unwrap_or(session.process)) else { continue };
            if session.leader.is_none() && !session.is_of_client {
                continue;
            }
            let used = self.used(session);
            let sighted = self.open.sighted.entry(*key).or_default();
            sighted.on_core += used;
            if session.leader.is_some() {
                *self.workers.entry(key.0).or_default() += used;
                continue;
            }
            *match session.doing {
                Doing::Running => &mut sighted.running,
                Doing::Lock => &mut sighted.lock,
                Doing::Io | Doing::IoLatch => &mut sighted.disk,
                Doing::Client => &mut sighted.client,
                Doing::Other | Doing::Idle => &mut sighted.other,
            } += time;
            *at_once.entry(*key).or_default() += 1;
        }
        for (key, count) in at_once {
            let sighted = self.open.sighted.entry(key).or_default();
            sighted.most = sighted.most.max(count);
        }
    }

    /// CPU time of a process since it was last seen. That of a worker that is new is all for the query that began it.
    fn used(&mut self, session: &Session) -> Duration {
        let Some(now) = session.times else { return Duration::ZERO };
        match self.times.insert(session.process, now) {
            Some(then) => now.since(then).run,
            None if session.leader.is_some() => now.run,
            None => Duration::ZERO,
        }
    }

    /// Ends a window with a reading; the first one only begins it.
    pub(crate) fn close(&mut self, reading: Reading, identity: &mut Identity) {
        let mut window = std::mem::take(&mut self.open);
        let workers = std::mem::take(&mut self.workers);
        let processes: Vec<i32> = reading.backends.iter().map(|backend| backend.process).collect();
        self.times.retain(|process, _| processes.contains(process));
        if let Some(last) = self.last.replace(reading.clone()) {
            (window.at, window.length) = (last.at, reading.at.saturating_sub(last.at));
            window.logins = logins(&last, &reading, &workers, identity);
            window.statements = statements(&last, &reading);
            window.machine_cpu = reading.busy.zip(last.busy).map(|(now, then)| now.saturating_sub(then));
            window.disk_busy = reading.disk_busy;
            if !window.length.is_zero() {
                self.push(window);
            }
        }
    }

    fn push(&mut self, window: Raw) {
        let merging = self.merging.max(1);
        if self.merged > 0 && self.merged < merging {
            let begun = self.closed.pop().expect("a window that others were merged into");
            self.closed.push(begun.merged(&window));
        } else {
            self.merged = 0;
            self.closed.push(window);
        }
        self.merged += 1;
        if self.closed.len() >= WINDOWS_MAX && self.merged == merging {
            let pairs = std::mem::take(&mut self.closed);
            let pair = |pair: &[Raw]| pair[1..].iter().fold(pair[0].clone(), Raw::merged);
            self.closed = pairs.chunks(2).map(pair).collect();
            self.merging = 2 * merging;
            self.merged = self.merging;
        }
    }

    pub(crate) fn windows(&self) -> &[Raw] {
        &self.closed
    }
}

/// CPU time and sessions of logins between two readings.
fn logins(
    last: &Reading,
    now: &Reading,
    workers: &BTreeMap<LoginId, Duration>,
    identity: &mut Identity,
) -> BTreeMap<LoginId, CountedLogin> {
    let seconds = now.at.saturating_sub(last.at).as_secs_f64();
    let before: BTreeMap<i32, Option<Duration>> =
        last.backends.iter().map(|backend| (backend.process, backend.run)).collect();
    let mut logins: BTreeMap<LoginId, CountedLogin> = BTreeMap::new();
    for backend in &now.backends {
        let login = identity.login(&backend.login);
        let sum = logins.entry(login).or_insert(CountedLogin { cpu: Some(Duration::ZERO), session_s: 0.0 });
        // A session that has begun since was there for half of the time, in the mean.
        let (then, there) = before.get(&backend.process).map_or((Some(Duration::ZERO), 0.5), |run| (*run, 1.0));
        let used = backend.run.zip(then).map(|(now, then)| now.saturating_sub(then));
        sum.cpu = sum.cpu.zip(used).map(|(sum, used)| sum + used);
        if used.is_some_and(|used| !used.is_zero()) {
            sum.session_s += there * seconds;
        }
    }
    for (login, used) in workers {
        if let Some(cpu) = logins.get_mut(login).and_then(|sum| sum.cpu.as_mut()) {
            *cpu += *used;
        }
    }
    logins
}

/// Calls and their time between two readings, of statements that were called.
fn statements(last: &Reading, now: &Reading) -> Option<BTreeMap<CounterKey, (u64, Duration)>> {
    let before = last.statements.as_ref()?;
    let called = |(key, now): (&CounterKey, &StatementCounter)| {
        // Fewer calls than before: the server forgot the statement, and began to count again.
        let then = before.get(key).filter(|then| then.calls <= now.calls).copied().unwrap_or_default();
        let calls = now.calls - then.calls;
        (calls > 0).then(|| (key.clone(), (calls, now.time.saturating_sub(then.time))))
    };
    Some(now.statements.as_ref()?.iter().filter_map(called).collect())
}

#[cfg(test)]
mod tests;
