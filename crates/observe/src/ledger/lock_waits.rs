//! Which sessions waited behind which, for how long, and what their holders did.
//!
//! Locks are read less often than sessions. The time that a session is observed to wait is therefore kept until the
//! next look at locks, and attributed to the chain of that moment. The time of waits that ended earlier is reported as
//! unexplained.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_policy::Doing;
use serde::{Deserialize, Serialize};

use super::transactions::since;
use crate::identity::{LoginId, StatementId};
use crate::lock_graph::{Wait, chain, waits};
use crate::snapshot::{Session, Snapshot};

/// The state of a session in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderState {
    /// It was on a core, or waited for one.
    Ran,
    /// It waited for a lock itself.
    Waited,
    /// It waited for its client within its transaction.
    Thought,
    /// It waited for the disk.
    Disk,
    /// It waited for something else.
    Other,
    /// It is prepared for a commit in two phases; no process works for it.
    Prepared,
    /// It was idle, and kept a lock of its session, such as an advisory lock.
    Idle,
    /// The server does not record what it does: `track_activities` is off for it.
    Untracked,
    /// This role may not see what it does.
    Unseen,
}

/// A member of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// Its login and statement, if they were visible.
    pub party: Option<(LoginId, StatementId)>,
    /// Its state.
    pub state: HolderState,
}

/// The most chains that are distinguished; the time of further ones is unexplained.
const CHAINS_MAX: usize = 10_000;
/// A longer chain is cut in the middle: both ends matter.
const LINKS_MAX: usize = 8;

/// The observed lock waits.
#[derive(Debug, Default)]
pub struct LockWaits {
    /// Time by chain: the waiter first, the session for which all others wait last.
    pub chains: BTreeMap<Vec<Link>, Duration>,
    /// Time by kind of object and table, if known.
    pub objects: BTreeMap<(String, Option<String>), Duration>,
    /// Waiting time whose chain was not visible.
    pub unexplained: Duration,
    /// Waits that were observed. A count.
    pub waits: usize,
    /// The longest wait that was observed.
    pub longest: Duration,
    /// Time of waits since the last look at locks, by process, with the beginning of its transaction.
    pending: BTreeMap<i32, PendingWait>,
}

#[derive(Debug, Clone, Copy)]
struct PendingWait {
    transaction_began_us: Option<i64>,
    time: Duration,
    /// The time of the whole wait.
    waited: Duration,
}

type Parties = BTreeMap<i32, (LoginId, StatementId)>;

impl LockWaits {
    /// Notes a look, `time` after the last one. `parties` identifies its sessions.
    pub(super) fn note(&mut self, look: &Snapshot, parties: &Parties, time: Duration) {
        let waiting: BTreeMap<i32, &Session> = look
            .sessions
            .iter()
            .filter(|session| session.is_of_client && session.leader.is_none() && session.doing == Doing::Lock)
            .map(|session| (session.process, session))
            .collect();
        let ended = self.pending.extract_if(.., |process, pending| {
            waiting.get(process).is_none_or(|session| session.transaction_began_us != pending.transaction_began_us)
        });
        self.unexplained += ended.map(|(_, pending)| pending.time).sum::<Duration>();
        for (process, session) in &waiting {
            let transaction_began_us = session.transaction_began_us;
            let pending = self.pending.entry(*process).or_insert_with(|| {
                self.waits += 1;
                PendingWait { transaction_began_us, time: Duration::ZERO, waited: Duration::ZERO }
            });
            pending.time += time;
            pending.waited += time;
            self.longest = self.longest.max(pending.waited);
        }
        if let Some(rows) = &look.locks {
            let workers = look.sessions.iter().filter_map(|session| Some((session.process, session.leader?)));
            let graph = waits(rows, &workers.collect());
            for process in waiting.keys() {
                self.explain(*process, &graph, look, parties);
            }
        }
    }

    /// Attributes a session's waiting time to the chain that it is in.
    fn explain(&mut self, process: i32, graph: &BTreeMap<i32, Wait>, look: &Snapshot, parties: &Parties) {
        let Some(pending) = self.pending.get_mut(&process) else { return };
        // The session began to wait, or ended, between the two queries of this look: the next look decides.
        let Some(wait) = graph.get(&process) else { return };
        let time = std::mem::take(&mut pending.time);
        self.longest = self.longest.max(wait.began_us.map_or(Duration::ZERO, |began| since(began, look.server_us)));
        let link = |process: &i32| {
            let session = look.sessions.iter().find(|session| session.process == *process);
            Link { party: parties.get(process).copied(), state: state(*process, session, graph, look) }
        };
        let mut links: Vec<Link> = chain(graph, process).iter().map(link).collect();
        if links.len() > LINKS_MAX {
            links.drain(LINKS_MAX / 2..links.len() - LINKS_MAX / 2);
        }
        if self.chains.len() < CHAINS_MAX || self.chains.contains_key(&links) {
            *self.chains.entry(links).or_default() += time;
        } else {
            self.unexplained += time;
        }
        *self.objects.entry((wait.kind.clone(), wait.table.clone())).or_default() += time;
    }

    /// The observation ends: the time of waits in progress remains unexplained.
    pub fn finish(&mut self) {
        let left: Duration = self.pending.values().map(|pending| pending.time).sum();
        self.unexplained += left;
        self.pending.clear();
    }

    /// Waiting time whose chain was visible.
    pub fn explained(&self) -> Duration {
        self.chains.values().sum()
    }
}

fn state(process: i32, session: Option<&Session>, graph: &BTreeMap<i32, Wait>, look: &Snapshot) -> HolderState {
    if process == 0 {
        return HolderState::Prepared;
    }
    if graph.contains_key(&process) {
        return HolderState::Waited;
    }
    let Some(session) = session else {
        let holder = look.holders.iter().find(|holder| holder.process == process);
        return holder.map_or(HolderState::Unseen, |holder| holder.state);
    };
    doing_of(session.doing)
}

/// The state of a session that does this and waits for no other.
pub fn doing_of(doing: Doing) -> HolderState {
    match doing {
        Doing::Idle => HolderState::Idle,
        // It waited when locks were read, but no longer a moment later.
        Doing::Running | Doing::Lock => HolderState::Ran,
        Doing::Io | Doing::IoLatch => HolderState::Disk,
        Doing::Client => HolderState::Thought,
        Doing::Other => HolderState::Other,
    }
}
