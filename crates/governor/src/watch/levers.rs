//! The watcher's levers and whether they work, in words, for the governor's health.

use plimsoll_postgres::connection::WireError;

use super::control::Signals;
use crate::governor::{Governor, Lever};
use crate::settings::Settings;

const PREEMPTION: &str = "preemption";
pub(crate) const SHARES: &str = "cpu shares";
pub(crate) const INHERITANCE: &str = "inheritance";
pub(crate) const CONTROL_GROUPS: &str = "control groups";
/// Beside a server: whether what sessions do can be seen.
const SESSIONS: &str = "sessions";
const IDLE_BOUND: &str = "idle bound";
pub(crate) const DISK: &str = "disk limits";
pub(crate) const CACHE: &str = "cache";
pub(crate) const AWAKE: &str = "awake cores";

/// Says whether a lever works, and how, or why not.
pub(crate) fn set(governor: &Governor, name: &'static str, is_on: bool, why: impl Into<String>) {
    let lever = Lever { name, is_on, why: why.into() };
    let mut health = governor.health.lock();
    match health.levers.iter_mut().find(|known| known.name == name) {
        Some(known) => *known = lever,
        None => health.levers.push(lever),
    }
}

/// Nothing works, for this reason.
pub(super) fn all_off(governor: &Governor, why: &str) {
    let beside = governor.settings().is_beside.then_some([SESSIONS, IDLE_BOUND]);
    let all = [PREEMPTION, SHARES, INHERITANCE, CONTROL_GROUPS, DISK, CACHE];
    for name in all.into_iter().chain(beside.into_iter().flatten()) {
        set(governor, name, false, why);
    }
}

/// The server can be asked, and victims are signalled in that way.
pub(super) fn preemption(governor: &Governor, signals: Signals, role: &str) {
    let settings = governor.settings();
    if settings.is_beside {
        return preemption_beside(governor, &settings, signals, role);
    }
    let policy = &settings.preemption.policy;
    let how = match (policy.watches(), policy.acts(), signals) {
        (false, _, _) => "the policy is never".to_owned(),
        (true, false, _) => "the policy is track: only counted".to_owned(),
        (true, true, Signals::ByRight) => format!("the role {role} cancels by pg_cancel_backend"),
        (true, true, Signals::ByKey) => format!(
            "by each session's own key, which takes a connection for each, since the role {role} may not signal others; \
             quicker with `GRANT pg_signal_backend TO {role}`"
        ),
    };
    set(governor, PREEMPTION, policy.acts(), how);
}

/// The same beside a server, where the keys of sessions are unknown.
fn preemption_beside(governor: &Governor, settings: &Settings, signals: Signals, role: &str) {
    let policy = &settings.preemption.policy;
    let opted_in = settings.classes.iter().filter(|class| class.preemptible && class.retries);
    let opted_in: Vec<&str> = opted_in.map(|class| class.name.as_str()).collect();
    let is_on = policy.acts() && !opted_in.is_empty() && signals == Signals::ByRight;
    let how = match (policy.watches(), policy.acts(), signals) {
        (false, _, _) => "the policy is never".to_owned(),
        (true, false, _) => "the policy is track: only counted".to_owned(),
        _ if opted_in.is_empty() => "only counted: no class has preemptible = \"retry-by-application\"".to_owned(),
        (true, true, Signals::ByRight) => {
            format!("statements of {} are cancelled by pg_cancel_backend, as role {role}", opted_in.join(", "))
        }
        (true, true, Signals::ByKey) => {
            format!("the role {role} may not cancel statements of others: GRANT pg_signal_backend TO {role}")
        }
    };
    set(governor, PREEMPTION, is_on, how);
}

/// Beside a server: whether the role sees what sessions of others do, whether the server keeps account of that, and how many
/// sessions cannot be seen.
pub(super) fn sessions(governor: &Governor, (sees_all, keeps_account): (bool, bool), unseen: usize, role: &str) {
    let (is_on, why) = match (sees_all, keeps_account) {
        (true, true) if unseen == 0 => (true, format!("the role {role} sees what every session does")),
        (true, true) => (true, format!("{unseen} sessions have `track_activities` off and are left alone")),
        (true, false) => (false, "the server does not record what sessions do: set track_activities = on".to_owned()),
        (false, _) => {
            let left =
                format!("the role {role} may not see what sessions of other roles do, so that {unseen} are left alone");
            (false, format!("{left}: GRANT pg_read_all_stats TO {role}"))
        }
    };
    set(governor, SESSIONS, is_on, why);
}

/// Beside a server: whether sessions can be ended whose clients let a transaction wait for too long.
pub(super) fn idle_bound(governor: &Governor, signals: Signals, role: &str) {
    let settings = governor.settings();
    let bounded = settings.classes.iter().filter(|class| class.idle_in_transaction_timeout.is_some());
    let bounded: Vec<&str> = bounded.map(|class| class.name.as_str()).collect();
    let (is_on, why) = match (bounded.is_empty(), signals) {
        (true, _) => (false, "no class has an `idle_in_transaction_timeout`".to_owned()),
        (false, Signals::ByRight) => {
            (true, format!("sessions of {} are ended by pg_terminate_backend", bounded.join(", ")))
        }
        (false, Signals::ByKey) => {
            (false, format!("the role {role} may not end sessions of others: GRANT pg_signal_backend TO {role}"))
        }
    };
    set(governor, IDLE_BOUND, is_on, why);
}

/// A cancel by a session's own key has failed.
pub(super) fn keys_do_not_work(governor: &Governor, error: &WireError) {
    set(governor, PREEMPTION, false, format!("sessions cannot be cancelled by their keys: {error}"));
}

/// Whether processes can be given shares of the cores now.
pub(crate) fn shares_work(governor: &Governor) -> bool {
    governor.health.lock().levers.iter().any(|lever| lever.name == SHARES && lever.is_on)
}
