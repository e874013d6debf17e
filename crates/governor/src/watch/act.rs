//! Carrying out rollbacks of transactions that the server is working on.
//!
//! Each victim's session is aimed at first, so that it sends nothing more. One statement then checks whether each
//! victim still blocks the waiter, link by link, and whether it still waits itself, and cancels it. That statement may
//! act only for a short time (`LEASE`) by the server's own clock. If the connection is lost, the statement may still be
//! in a buffer, but does nothing once the lease has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::{Cancel, Connection, Prepared, WireError};
use plimsoll_policy::{Priority, Runaway};

use super::aimed::{Aimed, CancelOutcome};
use super::control::{Signals, Up};
use super::graph::Node;
use super::look::array;
use crate::agent::Agent;
use crate::governor::Governor;
use crate::registry::{EventId, SessionCard, Stake};
use crate::settings::{CpuShare, Settings};

/// How long after a look its decisions may be carried out.
pub(super) const LEASE: Duration = Duration::from_millis(500);

/// Added to the lease after a lost connection: a process may be between reading the clock and sending the signal.
const LEASE_MARGIN: Duration = Duration::from_millis(500);

/// SQLSTATE if the role lacks the privilege for its statement.
pub(super) const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// A session to be cancelled.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub card: Arc<SessionCard>,
    pub process: i32,
    pub transaction: u64,
    pub unit: u64,
    /// Whether it is cancelled to break a cycle of waiters.
    pub breaks_cycle: bool,
    /// The limit of its class for which it is cancelled, if so.
    pub exceeds: Option<Runaway>,
    /// Whether it is to be cancelled only if it waits for a lock.
    pub if_waiting: bool,
    /// Whether it may reach its commit while the cancel is on its way.
    pub may_commit: bool,
    /// The event to settle if the session was not cancelled.
    pub event: EventId,
    pub stake: Stake,
    /// The reason: the links from the waiter to this session, as (waiter, blocker).
    pub chain: Vec<(i32, i32)>,
}

/// The moment of the look, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct LookedAt {
    /// The server's clock, seconds since 1970.
    pub server: f64,
    /// The governor's clock; not after the look.
    pub here: Instant,
}

/// Cancels the targets that still block their waiters; returns for each whether it did.
pub(super) fn cancel(
    up: &mut Up,
    governor: &Governor,
    settings: &Settings,
    targets: &[Target],
    looked_at: LookedAt,
) -> Result<Vec<bool>, WireError> {
    // The server's statement knows its setting, but not that it was set a moment ago.
    let commits_wait = governor.health.lock().commits_may_wait(Instant::now());
    let is_spared = |target: &Target| commits_wait && target.may_commit;
    let aim = |target| if is_spared(target) { None } else { Aimed::aim(governor, target) };
    let mut aimed: Vec<Option<Aimed<'_>>> = targets.iter().map(aim).collect();
    let mut done = vec![false; targets.len()];
    let is_aimed = |aimed: &[Option<Aimed<'_>>], at: &usize| aimed[*at].is_some();
    let by_key =
        |up: &Up, at: &usize| up.signals == Signals::ByKey || up.unsignallable.contains(&targets[*at].card.login.user);
    let all: Vec<usize> = (0..targets.len()).filter(|at| is_aimed(&aimed, at)).collect();
    let (mut keyed, signalled): (Vec<usize>, Vec<usize>) = all.into_iter().partition(|at| by_key(&*up, at));
    let batch = Batch { governor, targets, looked_at };
    match batch.signal(up, &signalled, &mut aimed, &mut done) {
        Err(error) if error.server().is_some_and(|error| error.code == INSUFFICIENT_PRIVILEGE) => {
            // The server does not report which of them caused the error. Those before it have been signalled; a second
            // signal is harmless.
            up.unsignallable.extend(signalled.iter().map(|at| targets[*at].card.login.user.clone()));
            keyed.extend(signalled);
        }
        other => other?,
    }
    if !keyed.is_empty() {
        batch.by_key(up, settings, &keyed, &mut aimed, &mut done)?;
    }
    Ok(done)
}

/// The parameters of a pass.
struct Batch<'a> {
    governor: &'a Governor,
    targets: &'a [Target],
    looked_at: LookedAt,
}

impl Batch<'_> {
    /// Has the server signal the targets at these places.
    fn signal(
        &self,
        up: &mut Up,
        places: &[usize],
        aimed: &mut [Option<Aimed<'_>>],
        done: &mut [bool],
    ) -> Result<(), WireError> {
        if places.is_empty() {
            return Ok(());
        }
        let each = |aimed: &mut [Option<Aimed<'_>>], fate: CancelOutcome| {
            for at in places {
                aimed[*at].iter_mut().for_each(|aimed| aimed.fate = fate);
            }
        };
        each(aimed, CancelOutcome::Unknown);
        match self.run(&mut up.connection, &up.cancel, places) {
            Ok(signalled) => {
                for at in places {
                    done[*at] = signalled.contains(&self.targets[*at].process);
                    let fate = if done[*at] { CancelOutcome::Arrived } else { CancelOutcome::NotSent };
                    aimed[*at].iter_mut().for_each(|aimed| aimed.fate = fate);
                }
                Ok(())
            }
            // The statement has ended, however far it had got.
            Err(error @ WireError::Server(_)) => {
                each(aimed, CancelOutcome::Arrived);
                Err(error)
            }
            Err(error @ WireError::Refused(_)) => {
                each(aimed, CancelOutcome::NotSent);
                Err(error)
            }
            Err(error) => {
                let over = LEASE + LEASE_MARGIN;
                std::thread::sleep(over.saturating_sub(self.looked_at.here.elapsed()));
                each(aimed, CancelOutcome::Arrived);
                Err(error)
            }
        }
    }

    /// Cancels the targets at these places as their clients would, by the keys that the server issued to them.
    fn by_key(
        &self,
        up: &mut Up,
        settings: &Settings,
        places: &[usize],
        aimed: &mut [Option<Aimed<'_>>],
        done: &mut [bool],
    ) -> Result<(), WireError> {
        let in_the_way = self.run(&mut up.connection, &up.check, places)?;
        for &at in places {
            let Some(aimed) = aimed[at].as_mut().filter(|_| in_the_way.contains(&self.targets[at].process)) else {
                continue;
            };
            let Some(key) = aimed.card.server_key() else { continue };
            let url = super::control::impatient(&settings.server);
            aimed.fate = CancelOutcome::Unknown;
            aimed.fate = match Cancel::by_key(&url, key.process, &key.secret).deliver() {
                Ok(true) => CancelOutcome::Arrived,
                Ok(false) => CancelOutcome::Unknown,
                Err(error) => {
                    super::levers::keys_do_not_work(self.governor, &error);
                    CancelOutcome::NotSent
                }
            };
            done[at] = aimed.fate != CancelOutcome::NotSent;
        }
        Ok(())
    }

    /// Runs one of the statements for the targets at these places; returns the processes that it signalled.
    fn run(&self, connection: &mut Connection, prepared: &Prepared, places: &[usize]) -> Result<Vec<i32>, WireError> {
        let targets = || places.iter().map(|at| &self.targets[*at]);
        let links: Vec<(i32, i32, i32)> =
            targets().flat_map(|target| target.chain.iter().map(|link| (target.process, link.0, link.1))).collect();
        let column = |of: fn(&(i32, i32, i32)) -> i32| array(&links.iter().map(of).collect::<Vec<i32>>());
        let parameters = [
            array(&targets().map(|target| target.process).collect::<Vec<_>>()),
            array(&targets().map(|target| target.if_waiting).collect::<Vec<_>>()),
            column(|link| link.0),
            column(|link| link.1),
            column(|link| link.2),
            format!("{:.6}", self.looked_at.server + LEASE.as_secs_f64()),
            array(&targets().map(|target| target.may_commit).collect::<Vec<_>>()),
        ];
        let mut done = Vec::new();
        connection.prepared_text_rows(prepared, &parameters.each_ref().map(String::as_str), &mut |row| {
            if let [Some(pid), Some("t")] = row {
                done.extend(pid.parse::<i32>());
            }
        })?;
        Ok(done)
    }
}

/// Gives a holder the CPU share of its waiters; returns whether its share has changed.
pub(super) fn inherit(agent: &mut Agent, settings: &Settings, holder: &Node, priority: Priority) -> bool {
    let Some((card, state)) = &holder.session else { return false };
    agent.inherit(settings, card, state.transaction, share_of(settings, priority), Instant::now())
}

/// The CPU share of a priority: that of the highest class at or below it.
fn share_of(settings: &Settings, priority: Priority) -> CpuShare {
    let below = settings.classes.iter().filter(|class| class.limits.priority <= priority);
    below.max_by_key(|class| class.limits.priority).map_or(CpuShare::Untouched, |class| class.cpu)
}
