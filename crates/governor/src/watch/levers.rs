//! What works of what the watcher does, in words, for the governor's health.

use plimsoll_postgres::connection::WireError;

use super::control::Signals;
use crate::governor::{Governor, Lever};

const PREEMPTION: &str = "preemption";
const SHARES: &str = "cpu shares";
const INHERITANCE: &str = "inheritance";
const CONTROL_GROUPS: &str = "control groups";
const DISK: &str = "disk limits";

/// Says what is the matter with a lever.
fn set(governor: &Governor, name: &'static str, is_on: bool, why: impl Into<String>) {
    let lever = Lever { name, is_on, why: why.into() };
    let mut health = governor.health.lock();
    match health.levers.iter_mut().find(|known| known.name == name) {
        Some(known) => *known = lever,
        None => health.levers.push(lever),
    }
}

/// Nothing works, for this reason.
pub(super) fn all_off(governor: &Governor, why: &str) {
    for name in [PREEMPTION, SHARES, INHERITANCE, CONTROL_GROUPS, DISK] {
        set(governor, name, false, why);
    }
}

/// The server can be asked, and victims are signalled in that way.
pub(super) fn preemption(governor: &Governor, signals: Signals, role: &str) {
    let policy = &governor.settings().preemption.policy;
    let how = match (policy.watches(), policy.acts(), signals) {
        (false, _, _) => "the policy is never".to_owned(),
        (true, false, _) => "the policy is track: counted, and not done".to_owned(),
        (true, true, Signals::ByRight) => format!("the role {role} cancels by pg_cancel_backend"),
        (true, true, Signals::ByKey) => format!(
            "by each session's own key, which takes a connection for each, since the role {role} may not signal others; \
             quicker with `GRANT pg_signal_backend TO {role}`"
        ),
    };
    set(governor, PREEMPTION, policy.acts(), how);
}

/// A cancel by a session's own key has failed.
pub(super) fn keys_do_not_work(governor: &Governor, error: &WireError) {
    set(governor, PREEMPTION, false, format!("sessions cannot be cancelled by their keys: {error}"));
}

/// Processes are given shares of the cores, or not, for this reason.
pub(crate) fn shares(governor: &Governor, is_on: bool, why: &str) {
    set(governor, SHARES, is_on, why);
}

/// Holders inherit the shares of those who wait for them, or not, for this reason.
pub(crate) fn inheritance(governor: &Governor, is_on: bool, why: &str) {
    set(governor, INHERITANCE, is_on, why);
}

/// What processes read of the disk can be limited, or not, for this reason.
pub(crate) fn disk(governor: &Governor, is_on: bool, why: &str) {
    set(governor, DISK, is_on, why);
}

/// Processes are moved to the control groups of their classes, or not, for this reason.
pub(crate) fn control_groups(governor: &Governor, is_on: bool, why: &str) {
    set(governor, CONTROL_GROUPS, is_on, why);
}
