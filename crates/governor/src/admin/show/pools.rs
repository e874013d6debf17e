//! `SHOW POOLS`: pgbouncer's columns, then the classes and transactions of each pool.

use super::figures::{Figures, PoolFigures};
use crate::admin::answer::{Answer, Cell, Column, Refusal, int, int4, text};
use crate::admin::command::Call;

pub const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    int4("cl_active"),
    int4("cl_waiting"),
    int4("cl_active_cancel_req"),
    int4("cl_waiting_cancel_req"),
    int4("sv_active"),
    int4("sv_active_cancel"),
    int4("sv_being_canceled"),
    int4("sv_idle"),
    int4("sv_used"),
    int4("sv_tested"),
    int4("sv_login"),
    int4("maxwait"),
    int4("maxwait_us"),
    text("pool_mode"),
    text("load_balance_hosts"),
    text("classes"),
    int("admitted"),
    int("preempted"),
];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let (settings, figures) = (call.governor.settings(), Figures::of(call.governor));
    let row = |((database, user), pool): ((String, String), PoolFigures)| {
        let classes: Vec<&str> = pool.classes.iter().map(|class| settings.class(*class).name.as_str()).collect();
        vec![
            Cell::from(database),
            user.into(),
            Cell::int4(pool.clients_active),
            Cell::int4(pool.clients_waiting),
            Cell::int4(pool.cancels_active),
            Cell::int4(pool.cancels_waiting),
            Cell::int4(pool.servers_active),
            Cell::int4(0),
            Cell::int4(pool.servers_being_cancelled),
            Cell::int4(pool.servers_idle),
            // Server connections are neither checked nor reset between clients.
            Cell::int4(0),
            Cell::int4(0),
            Cell::int4(pool.servers_logging_in),
            Cell::int4(pool.waited_longest.as_secs()),
            Cell::int4(pool.waited_longest.subsec_micros()),
            figures.mode().into(),
            Cell::Null,
            classes.join(", ").into(),
            pool.admitted.into(),
            pool.preempted.into(),
        ]
    };
    Ok(Answer::of(figures.pools(call.now).into_iter().map(row).collect()))
}
