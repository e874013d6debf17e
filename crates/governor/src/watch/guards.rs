//! The guards' looks at the server: statements behind which others queue, transactions that hold up others while their client thinks,
//! and statements that exceed a limit of their class.
//!
//! One statement reads who waits for which lock. It runs while some session's statement takes longer than usual, at most twice per
//! second; limits of statements are checked on the cards alone, and rows of results are counted where they pass. What is
//! seen is named once for each statement or transaction, with what it costs others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::WireError;
use plimsoll_policy::{GuardMode, HeldUp, LockWaiter, Runaway, Taken, held_up_by};

use super::act::{INSUFFICIENT_PRIVILEGE, LookedAt, Target, cancel};
use super::control::{Signals, Up};
use super::late::cards_of;
use super::look::{array, read_array};
use super::statements;
use crate::governor::{Governor, Repeated, SessionCommand};
use crate::registry::{EventId, Phase, SessionCard, SessionId, Stake};
use crate::session::limit_of;
use crate::settings::Settings;
use crate::statistics::count;

/// The time between two looks.
const EVERY: Duration = Duration::from_millis(500);

/// While no statement has taken so long, none is held up noticeably.
const LONG: Duration = Duration::from_millis(200);

/// How often the sizes of temporary files are read.
const TEMP_EVERY: Duration = Duration::from_secs(1);

/// Modes of locks that stop readers or writers of a table.
const STRONG_MODES: [&str; 4] = ["AccessExclusiveLock", "ExclusiveLock", "ShareRowExclusiveLock", "ShareLock"];

/// The state of the looks.
#[derive(Debug)]
pub(super) struct Guards {
    governor: Arc<Governor>,
    next: Instant,
    next_temp: Instant,
    /// Why the sizes of temporary files cannot be read; it is said once.
    is_temp_refused: bool,
    /// What was named at the last look: statements by their process and start, and transactions likewise.
    named: BTreeSet<(i32, i64)>,
    /// The runaway units that were dealt with.
    dealt_with: BTreeMap<SessionId, (u64, u64)>,
}

/// A process that waits, as the server shows it.
#[derive(Debug)]
struct Seen {
    mode: String,
    relation: Option<String>,
    process_began: i64,
    statement_began: i64,
}

/// A process whose client thinks within a transaction.
#[derive(Debug)]
struct Thinking {
    process: i32,
    application: String,
    process_began: i64,
    transaction_began: i64,
    since: i64,
}

impl Guards {
    pub(super) fn new(governor: Arc<Governor>, now: Instant) -> Self {
        let (named, dealt_with) = (BTreeSet::new(), BTreeMap::new());
        Guards { governor, next: now, next_temp: now, is_temp_refused: false, named, dealt_with }
    }

    /// The time until the next look; `None` if no guard looks.
    pub(super) fn due(&self, settings: &Settings, now: Instant) -> Option<Duration> {
        let looks = settings.guards.look_for_waiters() || settings.limits_runaways();
        looks.then(|| self.next.saturating_duration_since(now))
    }

    /// Whether a look is due, or a statement has returned too many rows.
    pub(super) fn is_due(&self, settings: &Settings, now: Instant) -> bool {
        let has_rows = || self.governor.registry.all().iter().any(|card| exceeds_rows(card));
        self.due(settings, now).is_some_and(|due| due.is_zero() || settings.limits_runaways() && has_rows())
    }

    /// The next look is due as late as after one.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.next = now + EVERY;
    }

    pub(super) fn look(&mut self, up: &mut Up, settings: &Settings, now: Instant) -> Result<(), WireError> {
        self.postpone(now);
        if settings.limits_runaways() {
            self.end_runaways(up, settings, now)?;
        }
        if !settings.guards.look_for_waiters() || !self.takes_anything_long(now) {
            self.named.clear();
            return Ok(());
        }
        let began = Instant::now();
        let (waiters, seen) = waiters(up)?;
        self.governor.statistics.count_look(began.elapsed());
        let mut named = BTreeSet::new();
        if settings.guards.migrations > GuardMode::Off {
            self.guard_migrations(up, settings, &waiters, &seen, &mut named)?;
        }
        if settings.guards.idle > GuardMode::Off {
            self.guard_idle(up, settings, &waiters, &mut named)?;
        }
        self.named = named;
        Ok(())
    }

    /// Whether some session's statement has taken long.
    fn takes_anything_long(&self, now: Instant) -> bool {
        self.governor.registry.all().iter().any(|card| {
            let state = card.state();
            state.phase == Phase::Active && now.saturating_duration_since(state.since) > LONG
        })
    }

    /// Names statements behind which others queue, and cancels those that do not pass through the governor.
    fn guard_migrations(
        &self,
        up: &mut Up,
        settings: &Settings,
        waiters: &[LockWaiter],
        seen: &BTreeMap<i32, Seen>,
        named: &mut BTreeSet<(i32, i64)>,
    ) -> Result<(), WireError> {
        for waiter in waiters {
            let Some(seen) = seen.get(&waiter.process).filter(|seen| STRONG_MODES.contains(&seen.mode.as_str())) else {
                continue;
            };
            let held_up = held_up_by(waiter.process, waiters);
            if held_up.others == 0 || waiter.waited < settings.guards.migrations_wait {
                continue;
            }
            let card = cards_of(&self.governor, &[waiter.process]).pop().map(|(_, card)| card);
            let is_enforced = settings.guards.migrations == GuardMode::Enforce;
            // One that passes through the governor steps back by itself.
            if is_enforced && card.as_ref().is_some_and(|card| !card.is_direct()) {
                continue;
            }
            let key = (waiter.process, seen.statement_began);
            let is_new = !self.named.contains(&key) && named.insert(key);
            named.insert(key);
            let is_cancelled = is_enforced
                && card.as_ref().is_some_and(|card| may_be_cancelled(settings, card))
                && self.cancel_waiter(up, waiter.process, seen)?;
            if is_new || is_cancelled {
                if let Some(card) = &card {
                    count(&self.governor.statistics.class(card.state().class).lock_queues);
                }
                self.tell_migration(waiter, seen, held_up, is_cancelled);
            }
        }
        Ok(())
    }

    fn tell_migration(&self, waiter: &LockWaiter, seen: &Seen, held_up: HeldUp, is_cancelled: bool) {
        if !self.governor.logs(Repeated::Guarded) {
            return;
        }
        let (process, waited_ms) = (waiter.process, waiter.waited.as_millis() as u64);
        let relation = seen.relation.as_deref().unwrap_or("a relation");
        let done = match is_cancelled {
            true => "it was cancelled (57014)",
            false => "with `migrations = \"enforce\"` in [guards] it would step back",
        };
        tracing::warn!(process, waited_ms, behind = ?waiter.blockers, "{held_up}: it waits for {} on {relation}; {done}", seen.mode);
    }

    fn cancel_waiter(&self, up: &mut Up, process: i32, seen: &Seen) -> Result<bool, WireError> {
        let parameters = [process.to_string(), seen.process_began.to_string(), seen.statement_began.to_string()];
        signals(up, |up| &up.cancel_waiter, &parameters)
    }

    /// Names transactions that hold up others while their client thinks, and ends those that cost too much.
    fn guard_idle(
        &self,
        up: &mut Up,
        settings: &Settings,
        waiters: &[LockWaiter],
        named: &mut BTreeSet<(i32, i64)>,
    ) -> Result<(), WireError> {
        let mut blockers: Vec<i32> = waiters.iter().flat_map(|waiter| waiter.blockers.iter().copied()).collect();
        blockers.sort_unstable();
        blockers.dedup();
        if blockers.is_empty() {
            return Ok(());
        }
        for thinking in thinking(up, &blockers)? {
            let held_up = held_up_by(thinking.process, waiters);
            if held_up.waited < settings.guards.idle_cost {
                continue;
            }
            let key = (thinking.process, thinking.transaction_began);
            let is_new = !self.named.contains(&key);
            named.insert(key);
            if is_new {
                self.end_thinking(up, settings, &thinking, held_up)?;
            }
        }
        Ok(())
    }

    fn end_thinking(
        &self,
        up: &mut Up,
        settings: &Settings,
        idle: &Thinking,
        held_up: HeldUp,
    ) -> Result<(), WireError> {
        let card = cards_of(&self.governor, &[idle.process]).pop().map(|(_, card)| card);
        let is_enforced = settings.guards.idle == GuardMode::Enforce;
        let why = format!("terminating connection: its transaction waits for its client while {held_up}");
        let is_ended = match &card {
            // Sessions of others are not ours to end.
            None => false,
            Some(card) if is_enforced && !card.is_direct() => {
                let command = SessionCommand::EndIdle { transaction: card.state().transaction, why };
                self.governor.tell(card.worker, card.id, command);
                true
            }
            Some(_) if is_enforced => {
                let parameters = [idle.process.into(), idle.process_began, idle.transaction_began, idle.since]
                    .map(|number| number.to_string());
                signals(up, |up| &up.end_thinking, &parameters)?
            }
            Some(_) => false,
        };
        if let Some(card) = &card {
            count(&self.governor.statistics.class(card.state().class).idle_holders);
        }
        if self.governor.logs(Repeated::Guarded) {
            let (process, application) = (idle.process, &idle.application);
            let done = match is_ended {
                true => "its session is ended (25P03)",
                false => "with `idle = \"enforce\"` in [guards] its session would be ended",
            };
            tracing::warn!(process, application, "{held_up}, and its client thinks; {done}");
        }
        Ok(())
    }

    /// Finds statements that exceed a limit of their class, and cancels them.
    fn end_runaways(&mut self, up: &mut Up, settings: &Settings, now: Instant) -> Result<(), WireError> {
        let temp = self.temp_bytes(up, settings, now)?;
        let cards = self.governor.registry.all();
        let ids: BTreeSet<SessionId> = cards.iter().map(|card| card.id).collect();
        self.dealt_with.retain(|id, _| ids.contains(id));
        let mut targets = Vec::new();
        for card in &cards {
            let Some((target, limit)) = runaway(card, settings, &temp, now) else { continue };
            let unit = (target.transaction, target.unit);
            if self.dealt_with.insert(card.id, unit) == Some(unit) {
                continue;
            }
            let class = card.state().class;
            count(&self.governor.statistics.class(class).runaways);
            if self.governor.logs(Repeated::Guarded) {
                let done = match (settings.runaways_of(class), settings.class(class).guards) {
                    (GuardMode::Enforce, _) => "it is cancelled (54000)",
                    (_, None) => "with `runaways = \"enforce\"` in [guards] it would be cancelled",
                    (_, Some(_)) => "with `guards = \"enforce\"` of the class it would be cancelled",
                };
                let (session, process) = (card.id.0, target.process);
                let limit = limit_of(&settings.class(class).name, limit);
                tracing::warn!(session, process, "a statement exceeds a limit: {limit}; {done}");
            }
            if settings.runaways_of(class) == GuardMode::Enforce {
                targets.push(target);
            }
        }
        if targets.is_empty() {
            return Ok(());
        }
        let server = up.connection.text(statements::CLOCK)?.and_then(|clock| clock.parse().ok()).unwrap_or_default();
        let looked_at = LookedAt { server, here: now };
        let (direct, relayed): (Vec<Target>, Vec<Target>) =
            targets.into_iter().partition(|target| target.card.is_direct());
        if !direct.is_empty() {
            super::beside::cancel(up, &self.governor, &direct, looked_at)?;
        }
        if !relayed.is_empty() {
            cancel(up, &self.governor, settings, &relayed, looked_at)?;
        }
        Ok(())
    }

    /// The bytes of temporary files by process; empty if no class limits them, or if the role may not read them.
    fn temp_bytes(&mut self, up: &mut Up, settings: &Settings, now: Instant) -> Result<BTreeMap<i32, u64>, WireError> {
        let mut sizes = BTreeMap::new();
        let is_wanted = settings.classes.iter().any(|class| class.runaway.temp_bytes.is_some());
        if !is_wanted || self.is_temp_refused || now < self.next_temp {
            return Ok(sizes);
        }
        self.next_temp = now + TEMP_EVERY;
        let read = up.connection.text_rows(statements::TEMP_FILES, &mut |row| {
            if let [Some(name), Some(size)] = row
                && let (Some(process), Ok(size)) = (process_of_file(name), size.parse::<u64>())
            {
                *sizes.entry(process).or_default() += size;
            }
        });
        match read {
            Err(error) if error.server().is_some_and(|error| error.code == INSUFFICIENT_PRIVILEGE) => {
                tracing::warn!(%error, "`temp_max` has no effect: grant pg_monitor to the role of `control`");
                self.is_temp_refused = true;
            }
            read => read?,
        }
        Ok(sizes)
    }
}

/// The statement in flight of a session if it exceeds a limit of its class, and that limit.
fn runaway(
    card: &Arc<SessionCard>,
    settings: &Settings,
    temp: &BTreeMap<i32, u64>,
    now: Instant,
) -> Option<(Target, Runaway)> {
    let process = card.process()?;
    let state = card.state();
    let limits = settings.runaway_limits(state.class);
    if state.phase != Phase::Active || !limits.is_any() {
        return None;
    }
    let taken = Taken {
        time: now.saturating_duration_since(state.since),
        rows: if state.exceeds_rows == Some(state.unit) { u64::MAX } else { 0 },
        temp_bytes: temp.get(&process).copied(),
    };
    let limit = limits.exceeded(&taken)?;
    let target = Target {
        card: card.clone(),
        process,
        transaction: state.transaction,
        unit: state.unit,
        breaks_cycle: false,
        exceeds: Some(limit),
        if_waiting: false,
        may_commit: state.may_commit,
        // There is no event to settle.
        event: EventId(0),
        stake: Stake { lost: taken.time, won: None, waiter: state.class, looked: now },
        chain: Vec::new(),
    };
    Some((target, limit))
}

fn exceeds_rows(card: &SessionCard) -> bool {
    let state = card.state();
    state.phase == Phase::Active && state.exceeds_rows == Some(state.unit) && state.cancels.runaway.is_none()
}

/// Whether statements of a session that does not pass through the governor may be cancelled: its application retries.
fn may_be_cancelled(settings: &Settings, card: &SessionCard) -> bool {
    let class = settings.class(card.state().class);
    card.is_direct() && settings.is_beside && class.preemptible && class.retries
}

/// Runs a statement that signals a process; returns whether it did. A missing privilege is not an error.
fn signals(
    up: &mut Up,
    statement: fn(&Up) -> &plimsoll_pg::connection::Prepared,
    parameters: &[String],
) -> Result<bool, WireError> {
    if up.signals == Signals::ByKey {
        return Ok(false);
    }
    let mut is_done = false;
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let statement = statement(up).clone();
    let outcome = up.connection.prepared_text_rows(&statement, &parameters, &mut |row| is_done |= row == [Some("t")]);
    match outcome {
        Err(error) if error.server().is_some_and(|error| error.code == INSUFFICIENT_PRIVILEGE) => Ok(is_done),
        outcome => outcome.map(|()| is_done),
    }
}

/// The processes that wait for locks.
fn waiters(up: &mut Up) -> Result<(Vec<LockWaiter>, BTreeMap<i32, Seen>), WireError> {
    let (mut waiters, mut seen) = (Vec::new(), BTreeMap::new());
    up.connection.prepared_text_rows(&up.waiters, &[], &mut |row| {
        let [Some(pid), Some(blockers), waited, Some(mode), relation, Some(process), Some(statement)] = row else {
            return;
        };
        let (Ok(process_began), Ok(statement_began)) = (process.parse(), statement.parse()) else { return };
        let Ok(pid) = pid.parse() else { return };
        let waited = waited.and_then(|waited| waited.parse::<i64>().ok()).unwrap_or(0).max(0);
        let blockers = read_array(blockers);
        waiters.push(LockWaiter { process: pid, blockers, waited: Duration::from_millis(waited.cast_unsigned()) });
        let relation = relation.map(str::to_owned);
        seen.insert(pid, Seen { mode: (*mode).to_owned(), relation, process_began, statement_began });
    })?;
    Ok((waiters, seen))
}

/// Those of the processes whose client thinks within a transaction.
fn thinking(up: &mut Up, processes: &[i32]) -> Result<Vec<Thinking>, WireError> {
    let mut all = Vec::new();
    up.connection.prepared_text_rows(&up.thinking, &[&array(processes)], &mut |row| {
        let [Some(pid), application, Some(process), Some(transaction), Some(since)] = row else { return };
        let (Ok(process_began), Ok(transaction_began)) = (process.parse(), transaction.parse()) else { return };
        let (Ok(pid), Ok(since)) = (pid.parse(), since.parse()) else { return };
        let application = application.unwrap_or_default().to_owned();
        all.push(Thinking { process: pid, application, process_began, transaction_began, since });
    })?;
    Ok(all)
}

/// The process that a temporary file belongs to: `pgsql_tmp4711.0`.
fn process_of_file(name: &str) -> Option<i32> {
    let digits = name.strip_prefix("pgsql_tmp")?.split('.').next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_process() {
        assert_eq!(process_of_file("pgsql_tmp4711.0"), Some(4711));
        assert_eq!(process_of_file("pgsql_tmp4711.12.sharedfileset"), Some(4711));
        assert_eq!((process_of_file("pgsql_tmp"), process_of_file("base")), (None, None));
    }
}
