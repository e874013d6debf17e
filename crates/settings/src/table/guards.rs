//! The rows of the guards.

use std::time::Duration;

use plimsoll_policy::GuardMode;

use super::kind::Kind::{Length, Text, Wait};
use super::row::{Row, rows};
use crate::settings::Settings;
use crate::values;

/// A shorter try would end before the server has handed over a lock that is free.
const TRY_LEAST: Duration = Duration::from_millis(5);

pub(super) fn mode(name: &str) -> Result<GuardMode, String> {
    values::word(name, "mode of a guard", &GuardMode::NAMES)
}

pub(super) fn name(mode: GuardMode) -> String {
    values::name_of(&GuardMode::NAMES, &mode)
}

pub(super) static GUARDS: &[Row<Settings>] = rows! { Settings;
    /// Statements that need a lock which stops readers or writers (ALTER TABLE, DROP, TRUNCATE, CREATE INDEX, VACUUM
    /// FULL, LOCK TABLE and others): `off`, `warn` (the log names one behind which others queue, and what it waits
    /// for), or `enforce`. In the connection path `enforce` has it wait for a short time, step back and try again;
    /// beside a server it cancels the statement (57014), for classes with `preemptible = "retry-by-application"`.
    migrations = "warn", Text(
        |all| name(all.guards.migrations),
        |all, name, _| mode(name).map(|mode| all.guards.migrations = mode)), set();
    /// How long such a statement may wait for a lock in one try, and so how long it holds up others at most. A
    /// statement that cannot be run again has one try of ten times that, and then fails (55P03).
    migrations_wait = "100ms", Length(TRY_LEAST, |all| &mut all.guards.migrations_wait), set();
    /// For how long the governor tries before the client gets 55P03. The client's own `lock_timeout` and
    /// `statement_timeout` end it as ever. The default is no limit.
    migrations_patience = "none", Wait(|all| &mut all.guards.migrations_patience),
        set(), in_path("beside a server a statement is cancelled, and its application tries again");
    /// Transactions that wait for their client while others wait for their locks: `off`, `warn` (the log names one with
    /// what it holds up), or `enforce` (its session is ended, 25P03). How long a transaction may wait for its client
    /// without holding up others is `idle_in_transaction_timeout` of its class.
    idle = "warn", Text(
        |all| name(all.guards.idle),
        |all, name, _| mode(name).map(|mode| all.guards.idle = mode)), set();
    /// How much waiting such a transaction may cause: that of all others behind it, added up.
    idle_cost = "30s", Length(Duration::from_millis(100), |all| &mut all.guards.idle_cost), set();
    /// Statements that exceed `time_max`, `rows_max` or `temp_max` of their class: `off`, `warn` (counted and logged),
    /// or `enforce` (the statement is cancelled, and its client receives 54000 with the limit).
    runaways = "warn", Text(
        |all| name(all.guards.runaways),
        |all, name, _| mode(name).map(|mode| all.guards.runaways = mode)), set();
    /// Transactions beyond the `rate` of their class: `off`, `warn` (those that would have waited are counted), or
    /// `enforce` (they wait for admission).
    budgets = "warn", Text(
        |all| name(all.guards.budgets),
        |all, name, _| mode(name).map(|mode| all.guards.budgets = mode)), set(), in_path("no transaction waits for admission");
};
