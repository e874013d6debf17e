//! `SHOW POOLS`: pgbouncer's columns, plus the class and its own columns.
//!
//! Each client has a server process of its own here. A "pool" is therefore the sessions of one user in one database and
//! class, and the columns for a pool's spare connections are zero.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_policy::ClassIndex;

use crate::admin::answer::{Answer, Cell, Column, Refusal, int, text};
use crate::admin::command::Call;
use crate::registry::Phase;

pub const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    int("cl_active"),
    int("cl_waiting"),
    int("cl_active_cancel_req"),
    int("cl_waiting_cancel_req"),
    int("sv_active"),
    int("sv_active_cancel"),
    int("sv_being_canceled"),
    int("sv_idle"),
    int("sv_used"),
    int("sv_tested"),
    int("sv_login"),
    int("maxwait"),
    int("maxwait_us"),
    text("pool_mode"),
    text("class"),
    int("admitted"),
    int("queued"),
    int("preempted"),
];

/// The sessions of one user in one database and class.
#[derive(Default)]
struct Pool {
    waiting: u64,
    others: u64,
    in_transaction: u64,
    being_cancelled: u64,
    idle: u64,
    starting: u64,
    preempted: u64,
    waited_longest: Duration,
}

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let settings = call.governor.settings();
    let mut pools: BTreeMap<(String, String, ClassIndex), Pool> = BTreeMap::new();
    for card in call.governor.registry.all() {
        let state = card.state().clone();
        let key = (card.login.database.to_string(), card.login.user.to_string(), state.class);
        let pool = pools.entry(key).or_default();
        pool.being_cancelled += u64::from(state.cancels.in_flight > 0);
        match state.phase {
            Phase::Starting => pool.starting += 1,
            Phase::Idle => pool.idle += 1,
            Phase::Queued => {
                pool.waiting += 1;
                let waited = call.now.saturating_duration_since(state.since);
                pool.waited_longest = pool.waited_longest.max(waited);
            }
            Phase::Active | Phase::IdleInTransaction | Phase::Ungoverned => pool.in_transaction += 1,
            Phase::Preempted => pool.preempted += 1,
        }
        pool.others += u64::from(state.phase != Phase::Queued);
    }
    let row = |((database, user, class), pool): ((String, String, ClassIndex), Pool)| {
        let zero = || Cell::Int(0);
        vec![
            Cell::from(database),
            user.into(),
            pool.others.into(),
            pool.waiting.into(),
            pool.being_cancelled.into(),
            zero(),
            (pool.in_transaction + pool.preempted).into(),
            zero(),
            pool.being_cancelled.into(),
            (pool.idle + pool.waiting).into(),
            zero(),
            zero(),
            pool.starting.into(),
            pool.waited_longest.as_secs().into(),
            pool.waited_longest.subsec_micros().into(),
            "session".into(),
            settings.class(class).name.as_str().into(),
            pool.in_transaction.into(),
            pool.waiting.into(),
            pool.preempted.into(),
        ]
    };
    Ok(Answer::of(pools.into_iter().map(row).collect()))
}
