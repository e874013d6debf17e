//! How long transactions have worked, and which of them wait for their clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_policy::Doing;
use plimsoll_policy::class_proposal::LONG;

use super::Bucket;
use crate::identity::LoginId;
use crate::snapshot::{Session, Snapshot};

/// A statement that begins within this time of its transaction counts as the first one: the messages of one request in
/// the extended protocol have start times of their own.
const FIRST_WITHIN_US: i64 = 10_000;

/// Transactions that wait for their clients, of one login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdleInTransaction {
    /// Time of all of them.
    pub time: Duration,
    /// The longest wait of one of them.
    pub longest: Duration,
    /// The most at one look.
    pub most: usize,
}

#[derive(Debug, Clone, Copy)]
struct OpenTransaction {
    began_us: i64,
    /// Time in lock waits, by the looks so far.
    waited: Duration,
    /// Time at work, by the looks so far.
    worked: Duration,
    /// Whether it has worked for long, by each limit.
    is_long: [bool; LONG.len()],
}

/// Open transactions, and those that wait for their clients.
#[derive(Debug, Default)]
pub struct Transactions {
    /// By login.
    pub idle: BTreeMap<LoginId, IdleInTransaction>,
    open: BTreeMap<i32, OpenTransaction>,
    idle_now: BTreeMap<LoginId, usize>,
}

impl Transactions {
    /// Notes one session of a look; its time since the last look is `time`.
    pub(super) fn note(
        &mut self,
        session: &Session,
        login: LoginId,
        bucket: &mut Bucket,
        server_us: i64,
        time: Duration,
    ) {
        let Some(began_us) = session.transaction_began_us else { return };
        let known = self.open.get(&session.process).filter(|open| open.began_us == began_us);
        bucket.transactions += usize::from(known.is_none());
        let mut open = known.copied().unwrap_or(OpenTransaction {
            began_us,
            waited: Duration::ZERO,
            worked: Duration::ZERO,
            is_long: [false; LONG.len()],
        });
        if session.doing == Doing::Lock {
            open.waited += time;
        } else {
            let worked = since(began_us, server_us).saturating_sub(open.waited);
            let first = session.statement_began_us.is_some_and(|at| at - began_us <= FIRST_WITHIN_US);
            bucket.in_transactions += time;
            open.worked += time;
            for (at, limit) in LONG.into_iter().enumerate() {
                if open.is_long[at] {
                    bucket.in_long[at] += time;
                } else if worked > limit {
                    // The time before belonged to a long transaction, too.
                    open.is_long[at] = true;
                    bucket.in_long[at] += open.worked;
                }
            }
            bucket.in_single += if first && session.doing != Doing::Client { time } else { Duration::ZERO };
        }
        self.open.insert(session.process, open);
        if session.is_idle_in_transaction() {
            let idle = self.idle.entry(login).or_default();
            idle.time += time;
            idle.longest = idle.longest.max(session.state_changed_us.map_or(time, |at| since(at, server_us)));
            *self.idle_now.entry(login).or_default() += 1;
        }
    }

    /// All sessions of the look have been noted.
    pub(super) fn end_of_look(&mut self, look: &Snapshot) {
        for (login, count) in std::mem::take(&mut self.idle_now) {
            let idle = self.idle.entry(login).or_default();
            idle.most = idle.most.max(count);
        }
        let there: BTreeSet<i32> = look.sessions.iter().map(|session| session.process).collect();
        self.open.retain(|process, _| there.contains(process));
    }
}

/// From one moment of the server's clock to another.
pub(super) fn since(from_us: i64, to_us: i64) -> Duration {
    Duration::from_micros(u64::try_from(to_us.saturating_sub(from_us)).unwrap_or(0))
}
