//! Every statement that an observation sends to a server.
//!
//! Its session begins with an empty `search_path`, so that functions and operators are the server's own, and every
//! relation is qualified with its schema. Users who may create objects in a database can therefore not substitute their
//! own. Nothing is written, no statement waits for a lock, and table locks are held only while catalogs are read.

/// Times as microseconds since 1970.
macro_rules! micros {
    ($time:literal) => {
        concat!("(pg_catalog.date_part('epoch', ", $time, ") * 1e6)::pg_catalog.int8")
    };
}

/// The first statements of the session.
pub(crate) const OPENING: &str = "set default_transaction_read_only = on; set statement_timeout = '2s'; \
    set lock_timeout = '100ms'; set jit = off; set max_parallel_workers_per_gather = 0; \
    set plan_cache_mode = force_generic_plan; set bytea_output = 'hex'; set extra_float_digits = 1";

/// The additional ones since version 14, which has a time-out for idle sessions.
pub(crate) const OPENING_SINCE_14: &str = "set idle_session_timeout = 0";

/// The role, and what it may see.
pub(crate) const RIGHTS: &str = "select current_user, pg_catalog.current_database(), \
    (select r.rolsuper from pg_catalog.pg_roles as r where r.rolname = current_user) \
    or pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'usage'), \
    pg_catalog.current_setting('track_activities', true), \
    pg_catalog.current_setting('compute_query_id', true), \
    (select t.setting from pg_catalog.pg_settings as t where t.name = 'track_activity_query_size'), \
    pg_catalog.pg_is_in_recovery()";

/// The function under `pg_stat_statements` that belongs to the extension, and its schema.
pub(crate) const STATEMENTS_FUNCTION: &str = "select n.nspname from pg_catalog.pg_extension as e \
    join pg_catalog.pg_depend as d on d.refobjid = e.oid and d.deptype = 'e' \
        and d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass \
        and d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
    join pg_catalog.pg_proc as p on p.oid = d.objid and p.proname = 'pg_stat_statements' \
    join pg_catalog.pg_namespace as n on n.oid = p.pronamespace \
    where e.extname = 'pg_stat_statements'";

/// A setting that exists if the server has loaded the library of that extension.
pub(crate) const STATEMENTS_SETTING: &str = "select pg_catalog.current_setting('pg_stat_statements.max', true)";

/// Sessions that are not idle, parallel workers, and autovacuum. Statements that began before `$1` come without their
/// text. `$2` is the number of bytes wanted of a text.
pub(crate) fn look(major_version: u32) -> String {
    sessions(
        major_version,
        "s.state <> 'idle' and pg_catalog.date_part('epoch', s.query_start) * 1e6 >= $1::pg_catalog.float8",
        "s.pid <> pg_catalog.pg_backend_pid() and (s.backend_type = 'client backend' \
         and s.state is distinct from 'idle' or s.backend_type in ('parallel worker', 'autovacuum worker'))",
    )
}

/// The sessions of the processes `$1`, in the same columns, whatever they do. `$2` is as there.
pub(crate) fn holders(major_version: u32) -> String {
    sessions(major_version, "true", "s.pid = any ($1::pg_catalog.int4[])")
}

/// The sessions of a kind, with the texts of some.
fn sessions(major_version: u32, has_text: &str, of: &str) -> String {
    // The query id exists since version 14.
    let query_id = if major_version < 14 { "null::pg_catalog.int8" } else { "s.query_id" };
    format!(
        concat!(
            "select s.pid, s.leader_pid, s.usesysid, s.datid, s.application_name, s.state, s.wait_event_type, s.wait_event, ",
            micros!("s.xact_start"),
            ", ",
            micros!("s.query_start"),
            ", ",
            micros!("s.state_change"),
            ", {query_id}, ",
            // As bytes: a text of another database may be in another encoding.
            "case when {has_text} then pg_catalog.substr(pg_catalog.textsend(s.query), 1, $2::pg_catalog.int4) end, ",
            "s.backend_type, ",
            micros!("pg_catalog.clock_timestamp()"),
            " from pg_catalog.pg_stat_get_activity(null::pg_catalog.int4) as s where {of}"
        ),
        query_id = query_id,
        has_text = has_text,
        of = of
    )
}

/// The locks, held and requested, of objects for which a session waits. The lock table is read once.
pub(crate) fn locks(major_version: u32) -> String {
    let began = if major_version < 14 { "null::pg_catalog.int8" } else { micros!("l.waitstart") };
    format!(
        "with l as materialized (select k.pid, k.locktype, k.database, k.relation, k.mode, k.granted, {began} as began, \
         pg_catalog.concat_ws('/', k.locktype, k.database, k.relation, k.page, k.tuple, k.virtualxid, k.transactionid, \
         k.classid, k.objid, k.objsubid) as object from pg_catalog.pg_locks as k) \
         select coalesce(l.pid, 0), l.object, l.locktype, case when l.database = (select d.oid \
         from pg_catalog.pg_database as d where d.datname = pg_catalog.current_database()) \
         then l.relation::pg_catalog.regclass::pg_catalog.text end, l.mode, l.granted, l.began from l \
         where l.object in (select w.object from l as w where not w.granted) \
         or l.locktype = 'tuple'",
        began = began.replace("l.waitstart", "k.waitstart")
    )
}

pub(crate) const USER: &str = "select r.rolname from pg_catalog.pg_roles as r where r.oid = $1::pg_catalog.oid";

pub(crate) const DATABASE: &str = "select d.datname from pg_catalog.pg_database as d where d.oid = $1::pg_catalog.oid";

/// Sessions whose activity this role may not see.
pub(crate) const UNSEEN: &str = "select pg_catalog.count(*) from pg_catalog.pg_stat_get_activity(null::pg_catalog.int4) as s \
    where s.backend_type is null and s.usesysid is not null";

/// The counters of each database.
pub(crate) const DATABASES: &str = "select d.datname, d.xact_commit, d.xact_rollback, d.deadlocks, d.blks_read, d.temp_bytes \
    from pg_catalog.pg_stat_database as d where d.datname is not null";

/// Every session of a client, for readings between windows.
pub(crate) const BACKENDS: &str = "select s.pid, s.usesysid, s.datid, s.application_name \
    from pg_catalog.pg_stat_get_activity(null::pg_catalog.int4) as s \
    where s.backend_type = 'client backend' and s.pid <> pg_catalog.pg_backend_pid()";

/// Statements that only control transactions and sessions: query ids, and whether they end a transaction.
pub(crate) fn control_statements(schema: &str) -> String {
    format!(
        "select s.queryid, s.query ~* '^\\s*(commit|end|abort|rollback)\\y' and s.query !~* '\\yto\\y' \
         from {}.pg_stat_statements(true) as s where s.queryid is not null and s.query ~* \
         '^\\s*(commit|end|abort|rollback|begin|start|savepoint|release|set|reset|show|discard|deallocate|prepare)\\y'",
        quoted(schema)
    )
}

/// How far a standby is, in bytes and seconds; whether replay is paused, and what it waits for.
pub(crate) const STANDBY: &str = "select pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_receive_lsn(), '0/0'::pg_catalog.pg_lsn), \
     pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_replay_lsn(), '0/0'::pg_catalog.pg_lsn), \
     case when pg_catalog.pg_last_wal_receive_lsn() = pg_catalog.pg_last_wal_replay_lsn() then 0 \
     else pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()) end, \
     pg_catalog.pg_is_wal_replay_paused(), \
     (select pg_catalog.concat_ws(':', a.wait_event_type, a.wait_event) \
      from pg_catalog.pg_stat_get_activity(null::pg_catalog.int4) as a where a.backend_type = 'startup' limit 1)";

/// Queries that a standby has cancelled for replay, by reason.
pub(crate) fn conflicts(major_version: u32) -> &'static str {
    if major_version < 16 {
        "select pg_catalog.sum(c.confl_tablespace), pg_catalog.sum(c.confl_lock), pg_catalog.sum(c.confl_snapshot), \
         pg_catalog.sum(c.confl_bufferpin), pg_catalog.sum(c.confl_deadlock) from pg_catalog.pg_stat_database_conflicts as c"
    } else {
        "select pg_catalog.sum(c.confl_tablespace), pg_catalog.sum(c.confl_lock), pg_catalog.sum(c.confl_snapshot), \
         pg_catalog.sum(c.confl_bufferpin), pg_catalog.sum(c.confl_deadlock), pg_catalog.sum(c.confl_active_logicalslot) \
         from pg_catalog.pg_stat_database_conflicts as c"
    }
}

/// The standbys of a server. One that is a standby itself passes on what it has received.
pub(crate) fn standbys(is_standby: bool) -> String {
    let position = if is_standby { "pg_last_wal_receive_lsn" } else { "pg_current_wal_lsn" };
    format!(
        "select r.application_name, r.sync_state, pg_catalog.pg_wal_lsn_diff(pg_catalog.{position}(), r.replay_lsn), \
         pg_catalog.date_part('epoch', r.replay_lag) from pg_catalog.pg_stat_replication as r"
    )
}

/// Checkpoints: by timeout, requested, and milliseconds of writing.
pub(crate) fn checkpoints(major_version: u32) -> &'static str {
    if major_version < 17 {
        "select b.checkpoints_timed, b.checkpoints_req, b.checkpoint_write_time from pg_catalog.pg_stat_bgwriter as b"
    } else {
        "select c.num_timed, c.num_requested, c.write_time from pg_catalog.pg_stat_checkpointer as c"
    }
}

/// Tables that are being vacuumed. Those of other databases have numbers here, not names.
pub(crate) const VACUUMS: &str = "select coalesce(case when v.datname = pg_catalog.current_database() \
    then v.relid::pg_catalog.regclass::pg_catalog.text end, \
    pg_catalog.concat('table ', v.relid, ' of ', v.datname)), v.phase from pg_catalog.pg_stat_progress_vacuum as v";

/// The counters of each statement: by user, database and query id. `schema` is that of the extension's function.
pub(crate) fn statements(schema: &str) -> String {
    format!(
        "select s.userid, s.dbid, s.queryid, pg_catalog.sum(s.calls), pg_catalog.sum(s.total_exec_time), \
         pg_catalog.sum(s.rows), pg_catalog.sum(s.shared_blks_hit + s.shared_blks_read) \
         from {}.pg_stat_statements(false) as s where s.queryid is not null group by 1, 2, 3",
        quoted(schema)
    )
}

/// The texts of the statements `$1`, without values.
pub(crate) fn statement_texts(schema: &str) -> String {
    format!(
        "select s.queryid, pg_catalog.substr(pg_catalog.textsend(s.query), 1, 8192) \
         from {}.pg_stat_statements(true) as s where s.queryid = any ($1::pg_catalog.int8[]) and s.query is not null",
        quoted(schema)
    )
}

/// A name as PostgreSQL reads it in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<String> {
        let fixed = [
            BACKENDS,
            STANDBY,
            RIGHTS,
            STATEMENTS_FUNCTION,
            STATEMENTS_SETTING,
            USER,
            DATABASE,
            UNSEEN,
            DATABASES,
            VACUUMS,
        ];
        let by_version = [13, 14, 17, 18].map(|major| {
            let fixed = [checkpoints(major), conflicts(major)].map(str::to_owned);
            [vec![look(major), holders(major), locks(major)], fixed.to_vec()].concat()
        });
        let of_extension = [
            statements("public"),
            statement_texts("a\"b"),
            control_statements("public"),
            standbys(true),
            standbys(false),
        ];
        fixed.map(str::to_owned).into_iter().chain(by_version.into_iter().flatten()).chain(of_extension).collect()
    }

    /// Names after `from` and `join` without a schema, and functions without one.
    fn unqualified(sql: &str) -> Vec<String> {
        let given = ["l", "(", "l,"];
        let words: Vec<&str> = sql.split_whitespace().collect();
        let relations = words.windows(2).filter(|pair| ["from", "join"].contains(&pair[0])).map(|pair| pair[1]);
        let relations = relations.filter(|name| !name.contains('.') && !given.contains(name));
        // `distinct from`, and the parser's own words.
        let is_known = |name: &str| ["in", "coalesce", "any", "end", "case", "as", ""].contains(&name);
        let calls = sql.match_indices('(').map(|(at, _)| {
            let before = &sql[..at];
            let start = before.rfind(|c: char| !(c.is_alphanumeric() || "_.\"".contains(c))).map_or(0, |at| at + 1);
            &before[start..]
        });
        let calls = calls.filter(|name| !name.contains('.') && !is_known(name));
        let is_comparison = |name: &&str| *name == "'idle'";
        relations.filter(|name| !is_comparison(name)).chain(calls).map(str::to_owned).collect()
    }

    #[test]
    fn every_name_says_its_schema() {
        for sql in all() {
            assert_eq!(unqualified(&sql), Vec::<String>::new(), "{sql}");
        }
        assert_eq!(unqualified("select now() from pg_locks as l"), ["pg_locks", "now"]);
    }

    #[test]
    fn names_are_quoted() {
        assert!(statement_texts("a\"b").contains("from \"a\"\"b\".pg_stat_statements(true)"));
    }

    #[test]
    fn nothing_but_reading() {
        for sql in all() {
            assert!(sql.starts_with("select ") || sql.starts_with("with l as materialized (select "), "{sql}");
            assert!(!sql.contains("pg_blocking_pids"), "it keeps everybody from the lock table: {sql}");
        }
    }
}
