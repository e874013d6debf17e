//! All statements that the governor's own sessions send to the server.
//!
//! Such a session runs as a role that may signal others, in a database in which others may create functions, operators, types and
//! tables. It therefore begins with an empty `search_path` ([`Connection::open_isolated`]), and every name below is qualified
//! with `pg_catalog`; a test reads them.
//!
//! [`Connection::open_isolated`]: plimsoll_pg::connection::Connection::open_isolated

/// Whether commits may wait for standbys. Such a wait must never be cancelled: the transaction is committed, its client
/// receives a success, and a failover loses it.
macro_rules! commits_wait {
    ($before:literal) => {
        concat!($before, "(pg_catalog.current_setting('synchronous_standby_names') operator(pg_catalog.<>) '')")
    };
}

/// Whether the process `pid` waits for a standby, even if `synchronous_standby_names` is no longer set: the server wakes those
/// that wait some time after its sessions have read their settings. Unknown, and so false, for a role that may not see the
/// activity of others.
macro_rules! waits_for_standby {
    ($pid:literal) => {
        concat!(
            "exists (select from pg_catalog.pg_stat_get_activity(",
            $pid,
            ") as s where s.wait_event operator(pg_catalog.=) 'SyncRep')"
        )
    };
}

/// The first statements of every session. A look must be quick or fail; none of its statements needs a plan that is
/// made to measure.
pub(crate) const OPENING: &str = "set statement_timeout = '1s'; set lock_timeout = '100ms'; \
    set plan_cache_mode = force_generic_plan; set jit = off; set max_parallel_workers_per_gather = 0";

/// Additionally since PostgreSQL 14, which has a timeout for idle sessions.
pub(crate) const OPENING_SINCE_14: &str = "set idle_session_timeout = 0";

/// Whether the server still answers, and whether its commits wait for standbys.
pub(crate) const TRY_OUT: &str = commits_wait!("select ");

/// The horizon ([`Horizon::of_text`](crate::effects::Horizon::of_text)): the oldest transaction number in use, and when the
/// server was started.
pub(crate) const HORIZON: &str = "select pg_catalog.concat(\
    pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()), ' ', (pg_catalog.date_part('epoch', \
    pg_catalog.pg_postmaster_start_time()) operator(pg_catalog.*) 1000000)::pg_catalog.int8)";

/// The role, whether it is a superuser, and whether it may signal the processes of others.
pub(crate) const RIGHTS: &str = "select current_user, \
    (select r.rolsuper from pg_catalog.pg_roles as r where r.rolname operator(pg_catalog.=) current_user), \
    pg_catalog.pg_has_role(current_user, 'pg_signal_backend', 'usage')";

/// When this session's process began, seconds since 1970.
pub(crate) const BACKEND_BEGAN: &str = "select pg_catalog.date_part('epoch', a.backend_start)::pg_catalog.int8 \
    from pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) as a";

/// Which processes wait for which, beginning with the processes `$1`. A process that does not wait has no row. One that
/// waits for a prepared transaction has 0 among its blockers, and parallel workers appear as their leader, several
/// times. Each row also has the moment, and whether commits may wait for standbys.
pub(crate) const LOOK: &str = concat!(
    "with recursive seen(pid) as (select pg_catalog.unnest($1::pg_catalog.int4[]) ",
    "union select pg_catalog.unnest(pg_catalog.pg_blocking_pids(pid)) from seen) ",
    "select pid, blockers, pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())::pg_catalog.text, ",
    commits_wait!(""),
    " from (select pid, pg_catalog.pg_blocking_pids(pid) as blockers from seen offset 0) as of_each ",
    "where blockers operator(pg_catalog.<>) '{}'"
);

/// Which of the processes `$1` hold an advisory lock.
pub(crate) const ADVISORY: &str = "select l.pid from pg_catalog.pg_locks as l \
    where l.locktype operator(pg_catalog.=) 'advisory' and l.granted \
    and l.pid operator(pg_catalog.=) any ($1::pg_catalog.int4[])";

/// The lock that each of the processes `$1` waits for, as a text; equal texts are the same lock.
pub(crate) const WAITED_FOR: &str = "select l.pid, pg_catalog.concat_ws('/', l.locktype, l.database, l.relation, l.page, l.tuple, \
    l.virtualxid, l.transactionid, l.classid, l.objid, l.objsubid) from pg_catalog.pg_locks as l \
    where not l.granted and l.pid operator(pg_catalog.=) any ($1::pg_catalog.int4[])";

/// Which of the processes `$1` may end their waiting without a victim: whether code that they may run catches errors or sets
/// timeouts. PostgreSQL's own functions, with numbers below 16384, do neither. Each row also has the server's
/// `deadlock_timeout` and, for a process of another database, the name of that: only there its code is known.
pub(crate) const GIVES_UP: &str = "with code(catches) as materialized (select exists (select from pg_catalog.pg_proc as p, \
    pg_catalog.pg_language as l where p.oid operator(pg_catalog.>=) 16384::pg_catalog.oid \
    and l.oid operator(pg_catalog.=) p.prolang \
    and not l.lanname operator(pg_catalog.=) any ('{internal,c}'::pg_catalog.name[]) \
    and (not l.lanname operator(pg_catalog.=) any ('{sql,plpgsql}'::pg_catalog.name[]) \
    or p.prosrc operator(pg_catalog.~*) 'exception\\s*(when|--|/\\*)|(lock|statement|transaction)_timeout|set_config' \
    or p.proconfig::pg_catalog.text operator(pg_catalog.~*) '(lock|statement|transaction)_timeout'))) \
    select a.pid, code.catches, pg_catalog.current_setting('deadlock_timeout'), (select d.datname from pg_catalog.pg_database as d \
    where d.oid operator(pg_catalog.=) a.datid and d.datname operator(pg_catalog.<>) pg_catalog.current_database()) \
    from rows from (pg_catalog.unnest($1::pg_catalog.int4[])) as process(pid), \
    pg_catalog.pg_stat_get_activity(process.pid) as a, code where a.datid is not null";

/// The timeouts for statements of the roles and databases of the processes `$1`, one a line; when the server read its
/// configuration; and, unless that was at `$2`, the timeouts there: to list the configuration takes a millisecond.
pub(crate) const DEFAULT_TIMEOUTS: &str = "with read(at) as materialized (\
    select pg_catalog.concat(pg_catalog.pg_conf_load_time())), \
    setting(lines) as materialized (select pg_catalog.string_agg(pg_catalog.concat(s.name, '=', s.reset_val), pg_catalog.chr(10)) \
    from pg_catalog.pg_settings as s where pg_catalog.concat(pg_catalog.pg_conf_load_time()) operator(pg_catalog.<>) $2 \
    and s.name operator(pg_catalog.~) '^(lock|statement|transaction)_timeout$') \
    select a.pid, pg_catalog.concat( \
    (select pg_catalog.string_agg(pg_catalog.array_to_string(r.setconfig, pg_catalog.chr(10)), pg_catalog.chr(10)) \
    from pg_catalog.pg_db_role_setting as r where (r.setdatabase operator(pg_catalog.=) 0::pg_catalog.oid \
    or r.setdatabase operator(pg_catalog.=) a.datid) and (r.setrole operator(pg_catalog.=) 0::pg_catalog.oid \
    or r.setrole operator(pg_catalog.=) a.usesysid))), read.at, setting.lines \
    from rows from (pg_catalog.unnest($1::pg_catalog.int4[])) as process(pid), \
    pg_catalog.pg_stat_get_activity(process.pid) as a, read, setting";

/// Signals the victims `$1` (`$2`: only if they wait) until the moment `$6`. The links that make each one a victim are
/// `$3` victim, `$4` waiter, `$5` blocker. `$7` says which victims may reach their commit while the signal is on its
/// way: none is signalled if commits may wait for standbys. Has a row for each victim that was signalled.
macro_rules! of_victims {
    ($deed:literal) => {
        concat!(
            "with victim(pid, if_waiting, may_commit) as materialized (select v.pid, v.if_waiting, v.may_commit from rows from (",
            "pg_catalog.unnest($1::pg_catalog.int4[]), pg_catalog.unnest($2::pg_catalog.bool[]), ",
            "pg_catalog.unnest($7::pg_catalog.bool[])) as v(pid, if_waiting, may_commit)), ",
            "stale(pid) as materialized (select l.pid from rows from (pg_catalog.unnest($3::pg_catalog.int4[]), ",
            "pg_catalog.unnest($4::pg_catalog.int4[]), pg_catalog.unnest($5::pg_catalog.int4[])) as l(pid, waiter, blocker) ",
            "where not l.blocker operator(pg_catalog.=) any (pg_catalog.pg_blocking_pids(l.waiter))) ",
            "select pid, ",
            $deed,
            " from victim where pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) ",
            "operator(pg_catalog.<) $6::pg_catalog.float8 ",
            "and not exists (select from stale where stale.pid operator(pg_catalog.=) victim.pid) ",
            "and not (may_commit and (",
            commits_wait!(""),
            " or ",
            waits_for_standby!("pid"),
            ")) and (not if_waiting or pg_catalog.pg_blocking_pids(pid) operator(pg_catalog.<>) '{}')"
        )
    };
}

/// Cancels victims; see the macro for the parameters.
pub(crate) const CANCEL: &str = of_victims!("pg_catalog.pg_cancel_backend(pid)");

/// The same check without a signal.
pub(crate) const CHECK: &str = of_victims!("true");

/// Additional first statement beside a server: texts come as bytes.
pub(crate) const OPENING_BESIDE: &str = "set bytea_output = 'hex'";

/// Whether the role may see the activity of other roles' sessions, whether the server records activity at all, and how
/// many bytes it keeps for each text, its end included.
pub(crate) const SIGHT_RIGHTS: &str = "select pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'usage'), \
    pg_catalog.current_setting('track_activities'), (select s.setting from pg_catalog.pg_settings as s \
    where s.name operator(pg_catalog.=) 'track_activity_query_size')";

/// A moment as microseconds since 1970: equal moments are equal numbers.
macro_rules! micros {
    ($moment:literal) => {
        concat!(
            "(pg_catalog.date_part('epoch', ",
            $moment,
            ") operator(pg_catalog.*) 1e6::pg_catalog.float8)::pg_catalog.int8"
        )
    };
}

/// How many bytes of a text [`SESSIONS`] asks for.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;

/// Every session of applications and governors: process, user, database and application as bytes, address, state,
/// whether it waits for a lock, when its process, transaction, statement and state began, up to 4096 bytes of its
/// statement unless it is idle, whether it uses the control role, the moment, its client's port, and whether commits may
/// wait for standbys.
/// A row without a state is either a session that the role may not see, or not a session at all.
pub(crate) const SESSIONS: &str = concat!(
    "select a.pid, pg_catalog.textsend(a.usename::pg_catalog.text), pg_catalog.textsend(a.datname::pg_catalog.text), ",
    "pg_catalog.textsend(a.application_name), pg_catalog.host(a.client_addr), a.state, ",
    "a.wait_event_type operator(pg_catalog.=) 'Lock', ",
    micros!("a.backend_start"),
    ", ",
    micros!("a.xact_start"),
    ", ",
    micros!("a.query_start"),
    ", ",
    micros!("a.state_change"),
    ", pg_catalog.substr(pg_catalog.textsend(a.query), 1, ",
    "(a.state operator(pg_catalog.<>) 'idle')::pg_catalog.int4 operator(pg_catalog.*) 4096), ",
    "a.usename operator(pg_catalog.=) current_user, ",
    micros!("pg_catalog.clock_timestamp()"),
    ", a.client_port",
    commits_wait!(", "),
    " from pg_catalog.pg_stat_activity as a where a.usesysid operator(pg_catalog.>) 0::pg_catalog.oid ",
    "and (a.backend_type operator(pg_catalog.=) 'client backend' ",
    "or a.backend_type is null and a.datid operator(pg_catalog.>) 0::pg_catalog.oid)"
);

/// How many transactions have ended in all databases since the counts were reset. Sessions report theirs about once per
/// second.
pub(crate) const TRANSACTIONS: &str = "select pg_catalog.sum(d.xact_commit operator(pg_catalog.+) d.xact_rollback)::pg_catalog.int8 \
    from pg_catalog.pg_stat_database as d";

/// Cancels the statement of process `$1` if it is the one that was looked at: the same process (`$2`), transaction
/// (`$3`) and statement (`$4`), still active, still waiting if that is why (`$5`), still waited for link by link (`$6`
/// waiter, `$7` blocker), and before `$8`. Nothing is cancelled if commits may wait for standbys: the session goes on
/// while the signal is on its way, and may reach its commit. Has a row if it was cancelled.
pub(crate) const CANCEL_OBSERVED: &str = concat!(
    "with stale(pid) as materialized (select l.waiter from rows from (pg_catalog.unnest($6::pg_catalog.int4[]), ",
    "pg_catalog.unnest($7::pg_catalog.int4[])) as l(waiter, blocker) ",
    "where not l.blocker operator(pg_catalog.=) any (pg_catalog.pg_blocking_pids(l.waiter))) ",
    "select pg_catalog.pg_cancel_backend(a.pid) from pg_catalog.pg_stat_get_activity($1::pg_catalog.int4) as a ",
    "where not exists (select from stale) and a.state operator(pg_catalog.=) 'active' and ",
    micros!("a.backend_start"),
    " operator(pg_catalog.=) $2::pg_catalog.int8 and ",
    micros!("a.xact_start"),
    " operator(pg_catalog.=) $3::pg_catalog.int8 and ",
    micros!("a.query_start"),
    " operator(pg_catalog.=) $4::pg_catalog.int8 ",
    commits_wait!("and not "),
    " and not ",
    waits_for_standby!("a.pid"),
    " and (not $5::pg_catalog.bool or pg_catalog.pg_blocking_pids(a.pid) operator(pg_catalog.<>) '{}') ",
    "and pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) operator(pg_catalog.<) $8::pg_catalog.float8"
);

/// Ends the session of process `$1` if its client still thinks within the same transaction: the same process (`$2`),
/// transaction (`$3`) and moment at which it began to think (`$4`). Has a row if it was ended.
pub(crate) const END_OBSERVED: &str = concat!(
    "select pg_catalog.pg_terminate_backend(a.pid) from pg_catalog.pg_stat_get_activity($1::pg_catalog.int4) as a where ",
    "a.state operator(pg_catalog.=) any ('{idle in transaction,idle in transaction (aborted)}'::pg_catalog.text[]) and ",
    micros!("a.backend_start"),
    " operator(pg_catalog.=) $2::pg_catalog.int8 and ",
    micros!("a.xact_start"),
    " operator(pg_catalog.=) $3::pg_catalog.int8 and ",
    micros!("a.state_change"),
    " operator(pg_catalog.=) $4::pg_catalog.int8"
);

/// The marks of services that rent servers out: some of their roles, a setting of Neon, where the socket is, and whether
/// there is a function of Aurora.
pub(crate) const SERVICE: &str = "select (select pg_catalog.string_agg(r.rolname::pg_catalog.text, ' ') \
    from pg_catalog.pg_roles as r where r.rolname operator(pg_catalog.=) any ('{rds_superuser,rdsadmin,cloudsqlsuperuser,\
    cloudsqladmin,azure_pg_admin,azuresu,supabase_admin,authenticator,neon_superuser,streaming_replica}'::pg_catalog.name[])), \
    pg_catalog.current_setting('neon.timeline_id', true), (select s.setting from pg_catalog.pg_settings as s \
    where s.name operator(pg_catalog.=) 'unix_socket_directories'), \
    exists (select from pg_catalog.pg_proc as p where p.proname operator(pg_catalog.=) 'aurora_version')";

/// The numbers of the self-test's objects, which lie in the session's temporary schema.
pub(crate) const NUMBERS_OF_SELF_TEST: &str = "select c.relname, c.oid from pg_catalog.pg_class as c \
    where c.relnamespace operator(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
    and c.relname operator(pg_catalog.~) '^plimsoll_' \
    union all select p.proname, p.oid from pg_catalog.pg_proc as p \
    where p.pronamespace operator(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
    union all select y.typname, y.oid from pg_catalog.pg_type as y \
    where y.typnamespace operator(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
    and y.typrelid operator(pg_catalog.=) 0::pg_catalog.oid and y.typname operator(pg_catalog.~) '^plimsoll_' \
    union all select pg_catalog.concat('plimsoll ', y.typname), y.oid from pg_catalog.pg_type as y \
    where y.typnamespace operator(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
    and y.typname operator(pg_catalog.=) 'plimsoll_pair' \
    union all select pg_catalog.concat('plimsoll ', o.oprname), o.oid from pg_catalog.pg_operator as o \
    where o.oprnamespace operator(pg_catalog.=) pg_catalog.pg_my_temp_schema()";

/// The names of the server's own functions that may have effects.
pub(crate) const VOLATILE_FUNCTIONS: &str = "select distinct p.proname from pg_catalog.pg_proc as p \
    where p.provolatile operator(pg_catalog.=) 'v' and p.oid operator(pg_catalog.<) 16384::pg_catalog.oid \
    and p.pronamespace operator(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace order by p.proname";

/// The server's clock, seconds since 1970.
pub(crate) const CLOCK: &str = "select pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())::pg_catalog.text";

/// Processes of the control connection's server that wait for a lock: the process and those that block it, for how long it has
/// waited in milliseconds, the lock's mode, the relation by its name in this database, and when its process and its
/// statement began. The macro takes the moment at which the waiting began.
macro_rules! waiters {
    ($since:literal) => {
        concat!(
            "select l.pid, pg_catalog.pg_blocking_pids(l.pid), (pg_catalog.date_part('epoch', ",
            "pg_catalog.clock_timestamp() operator(pg_catalog.-) ",
            $since,
            ") operator(pg_catalog.*) 1000::pg_catalog.float8)::pg_catalog.int8, l.mode, ",
            "(select c.relname from pg_catalog.pg_class as c where c.oid operator(pg_catalog.=) l.relation ",
            "and l.database operator(pg_catalog.=) (select d.oid from pg_catalog.pg_database as d ",
            "where d.datname operator(pg_catalog.=) pg_catalog.current_database())), ",
            micros!("a.backend_start"),
            ", ",
            micros!("a.query_start"),
            " from pg_catalog.pg_locks as l, pg_catalog.pg_stat_get_activity(l.pid) as a ",
            "where not l.granted and l.pid is not null limit 500"
        )
    };
}

/// Before PostgreSQL 14 the server does not say when a process began to wait: since its statement began, at most.
pub(crate) const WAITERS: &str = waiters!("a.query_start");
pub(crate) const WAITERS_SINCE_14: &str = waiters!("l.waitstart");

/// Which of the processes `$1` wait for their client within a transaction, what they run, and when their process, transaction
/// and thinking began.
pub(crate) const THINKING: &str = concat!(
    "select a.pid, a.application_name, ",
    micros!("a.backend_start"),
    ", ",
    micros!("a.xact_start"),
    ", ",
    micros!("a.state_change"),
    " from rows from (pg_catalog.unnest($1::pg_catalog.int4[])) as process(pid), ",
    "pg_catalog.pg_stat_get_activity(process.pid) as a ",
    "where a.state operator(pg_catalog.=) any ('{idle in transaction,idle in transaction (aborted)}'::pg_catalog.text[])"
);

/// Cancels the statement of process `$1` if it is the same process (`$2`) and statement (`$3`), and still waits. Has a row if it
/// was cancelled.
pub(crate) const CANCEL_WAITER: &str = concat!(
    "select pg_catalog.pg_cancel_backend(a.pid) from pg_catalog.pg_stat_get_activity($1::pg_catalog.int4) as a where ",
    micros!("a.backend_start"),
    " operator(pg_catalog.=) $2::pg_catalog.int8 and ",
    micros!("a.query_start"),
    " operator(pg_catalog.=) $3::pg_catalog.int8 ",
    "and a.state operator(pg_catalog.=) 'active' and pg_catalog.pg_blocking_pids(a.pid) operator(pg_catalog.<>) '{}'"
);

/// Every session whose statement runs: its process, up to 4096 bytes of its text in hexadecimal digits, for how many
/// milliseconds it has run, whether the server has kept only a part of the text, and true. Of a session that the role may
/// not see, that is null.
pub(crate) const RUNNING: &str = "select a.pid, \
    pg_catalog.encode(pg_catalog.substr(pg_catalog.textsend(a.query), 1, 4096), 'hex'), \
    (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() operator(pg_catalog.-) a.query_start) \
    operator(pg_catalog.*) 1000::pg_catalog.float8)::pg_catalog.int8, \
    (pg_catalog.octet_length(pg_catalog.textsend(a.query)) operator(pg_catalog.+) 1) operator(pg_catalog.>=) \
    pg_catalog.pg_size_bytes(pg_catalog.current_setting('track_activity_query_size')), \
    a.state operator(pg_catalog.=) 'active' from pg_catalog.pg_stat_activity as a \
    where (a.state operator(pg_catalog.=) 'active' or a.state is null and a.datid operator(pg_catalog.>) 0::pg_catalog.oid) \
    and (a.backend_type operator(pg_catalog.=) 'client backend' or a.backend_type is null) \
    and a.pid operator(pg_catalog.<>) pg_catalog.pg_backend_pid() limit 1000";

/// Temporary files with their sizes. A file's name begins with `pgsql_tmp` and the number of its process.
pub(crate) const TEMP_FILES: &str = "select f.name, f.size from pg_catalog.pg_tablespace as t, \
    pg_catalog.pg_ls_tmpdir(t.oid) as f where t.spcname operator(pg_catalog.<>) 'pg_global'::pg_catalog.name";

#[cfg(test)]
pub(crate) const ALL: [&str; 29] = [
    OPENING,
    OPENING_SINCE_14,
    OPENING_BESIDE,
    TRY_OUT,
    HORIZON,
    RIGHTS,
    SIGHT_RIGHTS,
    BACKEND_BEGAN,
    LOOK,
    ADVISORY,
    WAITED_FOR,
    GIVES_UP,
    DEFAULT_TIMEOUTS,
    CANCEL,
    CHECK,
    SESSIONS,
    TRANSACTIONS,
    CANCEL_OBSERVED,
    END_OBSERVED,
    SERVICE,
    NUMBERS_OF_SELF_TEST,
    VOLATILE_FUNCTIONS,
    CLOCK,
    WAITERS,
    WAITERS_SINCE_14,
    THINKING,
    RUNNING,
    CANCEL_WAITER,
    TEMP_FILES,
];

/// Every function, type, operator and relation in a text that is not qualified with `pg_catalog`, and every word that
/// implies one. Reads only statements like those above: no quoted names.
#[cfg(test)]
pub(crate) fn unqualified(sql: &str) -> Vec<String> {
    use plimsoll_notation::sql::{Lexer, Strings};

    /// Words before a parenthesis that are not functions, including those that introduce a name with columns.
    const NO_FUNCTIONS: [&str; 11] =
        ["and", "any", "as", "exists", "from", "not", "operator", "or", "select", "union", "where"];
    /// Words that the parser turns into an operator or a function that it looks up.
    const HIDDEN: [&str; 10] =
        ["between", "case", "cast", "extract", "ilike", "in", "like", "nullif", "overlaps", "similar"];
    let mut faults = Vec::new();
    for statement in sql.split(';').map(str::trim).filter(|statement| !statement.starts_with("set ")) {
        let pieces = Lexer::new(statement.as_bytes(), Strings::Standard);
        let words: Vec<String> = pieces.map(|piece| String::from_utf8_lossy(piece.text).to_ascii_lowercase()).collect();
        let at = |place: usize| words.get(place).map_or("", String::as_str);
        let is_catalog = |place: usize| place >= 2 && at(place - 1) == "." && at(place - 2) == "pg_catalog";
        let is_name = |word: &str| word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        // Names that the statement itself defines: `seen(pid) as (`, `as v(pid)`.
        let closing = |open: usize| (open..words.len()).find(|place| at(*place) == ")").unwrap_or(words.len());
        let is_given = |place: usize| {
            let is_query = || ["(", "materialized"].contains(&at(closing(place) + 2));
            place > 0 && at(place - 1) == "as" || at(closing(place) + 1) == "as" && is_query()
        };
        let given: Vec<&str> =
            (0..words.len()).filter(|place| at(place + 1) == "(" && is_given(*place)).map(at).collect();
        for place in 0..words.len() {
            let (word, next) = (at(place), at(place + 1));
            let is_function = is_name(word) && next == "(" && !NO_FUNCTIONS.contains(&word) && !given.contains(&word);
            let is_operator = word.starts_with(|first| "+-*/<>=~!@#%^&|?`".contains(first));
            let is_relation = is_name(word)
                && ["from", "join"].contains(&at(place.saturating_sub(1)))
                && !given.contains(&word)
                && word != "pg_catalog"
                && (word, next) != ("rows", "from");
            let is_type = word == "::" && (next, at(place + 2)) != ("pg_catalog", ".");
            let is_hidden = HIDDEN.contains(&word) && at(place.saturating_sub(1)) != ".";
            if (is_function || is_operator) && !is_catalog(place) || is_relation || is_type || is_hidden {
                faults.push(format!("{word} {next}").trim().to_owned());
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// `unnest($1::int4[])` resolved to `public.unnest(int4[])` if a user had created one, which then ran as the
    /// control role.
    #[test]
    fn every_name_says_that_it_is_of_the_catalog() {
        for sql in ALL {
            assert_eq!(unqualified(sql), [""; 0], "{sql}");
        }
    }

    /// No test had checked the statement that asks which lock a session waits for.
    #[test]
    fn every_statement_is_listed() {
        let constants = include_str!("statements.rs").matches(": &str = ").count();
        assert_eq!(constants - 1, ALL.len(), "all but the text above");
    }

    /// A checker that never finds a fault would be worthless.
    #[test]
    fn names_that_do_not_are_found() {
        let check = |sql: &str, expect: &[&str]| assert_eq!(unqualified(sql), expect, "{sql}");
        check("select unnest($1::pg_catalog.int4[])", &["unnest ("]);
        check("select pg_catalog.unnest($1::int4[])", &[":: int4"]);
        check("select 1 from pg_locks where pg_catalog.pg_locks.pid = 1", &["pg_locks where", "= 1"]);
        check("select public.unnest(pid) operator(public.<) 2", &["unnest (", "< )"]);
        check("with seen(pid) as (select 1) select pid from seen, other join more on true", &["more on"]);
        check("select extract(epoch from pg_catalog.now()), 1 in (2)", &["extract (", "in ("]);
        check("set x = 'now()'; select now()", &["now ("]);
    }

    /// A session that is not isolated resolves names by the settings of its role and database.
    #[test]
    fn every_session_of_the_governor_is_isolated() {
        let mut folders = vec![PathBuf::from("src")];
        let (mut seen, mut faults) = (0, Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let name = entry.file_name().unwrap().to_string_lossy().into_owned();
                if entry.is_dir() && name != "tests" {
                    folders.push(entry);
                } else if name.ends_with(".rs") && name != "tests.rs" {
                    let text = std::fs::read_to_string(&entry).unwrap();
                    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                    seen += text.matches("Connection::open_isolated(").count();
                    if text.contains(concat!("Connection::", "open(")) {
                        faults.push(entry);
                    }
                }
            }
        }
        assert!(seen >= 2 && faults.is_empty(), "{seen} isolated; not isolated: {faults:?}");
    }
}
