//! The watcher's levers and whether they work, in words, for the governor's health.

use std::time::Instant;

use plimsoll_pg::connection::WireError;

use super::control::Signals;
use crate::governor::Governor;
use crate::settings::levers::*;

/// No lever works, for this reason.
pub(super) fn all_off(governor: &Governor, why: &str) {
    let settings = governor.settings();
    let observing = settings.observes().then_some(SESSIONS).into_iter();
    let beside = settings.is_beside.then_some(IDLE_BOUND);
    let all = [PREEMPTION, SHARES, INHERITANCE, CONTROL_GROUPS, DISK, CACHE];
    for name in all.into_iter().chain(observing).chain(beside) {
        governor.report(name, Err(why.to_owned()));
    }
}

/// The server can be queried, and victims are signalled in that way. Beside a server the keys of sessions are unknown.
pub(super) fn preemption(governor: &Governor, signals: Signals, role: &str) {
    let settings = governor.settings();
    let policy = &settings.preemption.policy;
    let opted_in = settings.names_of(|class| class.preemptible && class.retries);
    let commits_wait = governor.health.lock().commits_may_wait(Instant::now());
    let works = match (settings.is_beside, signals) {
        _ if !policy.watches() => Err("the policy is never".to_owned()),
        _ if !policy.acts() => Err("the policy is track: only counted".to_owned()),
        (false, Signals::ByRight) => {
            let but = if commits_wait {
                ", but no statement outside of a block while `synchronous_standby_names` is set, and 15 s longer: it may be waiting for \
                 a standby after its commit"
            } else {
                ""
            };
            Ok(format!("the role {role} cancels by pg_cancel_backend{but}"))
        }
        (false, Signals::ByKey) => Ok(format!(
            "by each session's own key, which takes a connection for each, since the role {role} may not signal others; \
             quicker with `GRANT pg_signal_backend TO {role}`"
        )),
        (true, _) if opted_in.is_empty() => {
            Err("only counted: no class has preemptible = \"retry-by-application\"".to_owned())
        }
        (true, Signals::ByRight) if commits_wait => Err(
            "only counted: `synchronous_standby_names` is set, and beside a server a cancel could meet a commit that \
             waits for a standby, which a failover would then lose; clients that come through the governor can be \
             rolled back"
                .to_owned(),
        ),
        (true, Signals::ByRight) => {
            Ok(format!("statements of {opted_in} are cancelled by pg_cancel_backend, as role {role}"))
        }
        (true, Signals::ByKey) => {
            Err(format!("the role {role} may not cancel statements of others: GRANT pg_signal_backend TO {role}"))
        }
    };
    governor.report(PREEMPTION, works);
}

/// Only SQL is possible at this server, for this reason and because its machine is out of reach or not; or more is.
pub(super) fn by_sql_alone(governor: &Governor, why: Option<(String, bool)>) {
    let was = std::mem::replace(&mut governor.health.lock().by_sql_alone, why.clone());
    if let Some((why, _)) = why.filter(|why| was.as_ref() != Some(why)) {
        tracing::info!(why, "the governor works by SQL alone");
    }
}

/// The server refuses to tell which sessions wait for which.
pub(super) fn look_failed(governor: &Governor, error: &WireError) {
    governor.report(PREEMPTION, Err(format!("the last look at the sessions that wait has failed: {error}")));
}

/// The sessions at the server are not governed, for this reason.
pub(super) fn no_sessions(governor: &Governor, why: String) {
    governor.report(SESSIONS, Err(why));
}

/// Whether the role sees the activity of other roles' sessions, whether the server records it, and how
/// many sessions cannot be seen.
pub(super) fn sessions(governor: &Governor, (sees_all, keeps_account): (bool, bool), unseen: usize, role: &str) {
    let works = match (sees_all, keeps_account) {
        (true, true) if unseen == 0 => Ok(format!("the role {role} sees what every session does")),
        (true, true) => Ok(format!("{unseen} sessions have `track_activities` off and are left alone")),
        (true, false) => Err("the server does not record what sessions do: set track_activities = on".to_owned()),
        (false, _) => Err(format!(
            "the role {role} may not see what sessions of other roles do, so that {unseen} are left alone: \
             GRANT pg_read_all_stats TO {role}"
        )),
    };
    governor.report(SESSIONS, works);
}

/// The last look at the sessions has failed, for this reason, or has not.
pub(super) fn blind(governor: &Governor, why: Option<&str>) {
    let was = std::mem::replace(&mut governor.health.lock().blind, why.map(str::to_owned));
    if let Some(why) = why {
        governor.report(SESSIONS, Err(format!("the sessions at the server cannot be seen: {why}")));
    }
    if was.is_some() != why.is_some() {
        match why {
            Some(why) => tracing::warn!(why, "the sessions at the server cannot be seen, and are left alone"),
            None => tracing::info!("the sessions at the server can be seen again"),
        }
    }
}

/// Beside a server: whether sessions can be ended if their clients keep a transaction waiting for too long.
pub(super) fn idle_bound(governor: &Governor, signals: Signals, role: &str) {
    let bounded = governor.settings().names_of(|class| class.idle_in_transaction_timeout.is_some());
    let works = match (bounded.is_empty(), signals) {
        (true, _) => Err("no class has an `idle_in_transaction_timeout`".to_owned()),
        (false, Signals::ByRight) => Ok(format!("sessions of {bounded} are ended by pg_terminate_backend")),
        (false, Signals::ByKey) => {
            Err(format!("the role {role} may not end sessions of others: GRANT pg_signal_backend TO {role}"))
        }
    };
    governor.report(IDLE_BOUND, works);
}

/// A cancel by a session's own key has failed.
pub(super) fn keys_do_not_work(governor: &Governor, error: &WireError) {
    governor.report(PREEMPTION, Err(format!("sessions cannot be cancelled by their keys: {error}")));
}
