//! The facts about texts, in short form.

mod classes;
mod generated;

use super::*;

/// `begins; ends Commit; several; class Session high; unsafe copy; copy; tag x`, as far as they apply.
fn told(statement: &Statement<'_>) -> String {
    let class = statement.set_class.as_ref();
    let parts = [
        statement.begins.then(|| "begins".to_owned()),
        statement.ends.map(|end| format!("ends {end:?}")),
        statement.several.then(|| "several".to_owned()),
        class.map(|it| format!("class {:?} {}", it.scope, it.class.as_deref().unwrap_or("-"))),
        statement.unreplayable.map(|because| format!("unsafe {because}")),
        statement.copy.then(|| "copy".to_owned()),
        statement.tag.as_ref().map(|tag| format!("tag {tag}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn check(sql: &str, expect: &str) {
    assert_eq!(told(&read(sql.as_bytes())), expect, "{sql}");
}

#[test]
fn transactions_begin_and_end() {
    for sql in ["begin", "BEGIN WORK", "Begin Isolation Level Serializable", "start transaction read only", " ;begin;"]
    {
        check(sql, "begins");
    }
    for sql in
        ["commit", "COMMIT WORK", "end", "END TRANSACTION", "commit prepared 'x'", "commit and no chain", "/*x*/commit"]
    {
        check(sql, "ends Commit");
    }
    for sql in ["rollback", "ABORT", "rollback work", "rollback and no chain", "rollback transaction;"] {
        check(sql, "ends Rollback");
    }
    check("commit and chain", "begins; ends Commit");
    check("commit work and chain", "begins; ends Commit");
    check("rollback transaction and chain", "begins; ends Rollback");
    check("prepare transaction 'x'", "ends Prepare; unsafe prepared-statement");
    check("rollback prepared 'x'", "ends Rollback; unsafe outside-effect");
    for sql in [
        "rollback to a",
        "rollback to savepoint a",
        "rollback work to a",
        "rollback transaction to savepoint a",
        "savepoint commit",
        "release begin",
        "start",
        "select begin from commit",
        "",
        ";",
        "--commit",
        "(commit)",
        "select case when a then b end",
        "set transaction read only",
    ] {
        check(sql, "");
    }
}

#[test]
fn each_of_several_statements_counts() {
    check("begin; select 1; commit", "begins; ends Commit; several");
    check("rollback; commit", "ends Commit; several");
    check("commit; rollback", "ends Commit; several");
    check("select 1;;", "");
    check("select 1;; select 2", "several");
    check("select 1; listen a; copy t from stdin", "several; unsafe listen; copy");
    check("set plimsoll.class = a; set plimsoll.class = b", "several; class Session b");
}

#[test]
fn semicolons_within_a_statement_do_not_end_it() {
    check("create rule r as on insert to t do also (insert into u values (1); notify a; delete from u)", "");
    let body = "begin atomic select case a when 1 then 2 end; with a as (select 1) select 2 as case, a.case; end";
    check(&format!("create function f() returns int language sql {body}"), "");
    check(&format!("create or replace procedure p() {body}; commit"), "ends Commit; several");
    check("create function f() returns int return case when true then 1 end; commit", "ends Commit; several");
    check("create table begin (a int); commit", "ends Commit; several");
}

/// A function had a parameter named `begin`, which was mistaken for the beginning of a body. The COMMIT after it was
/// therefore not seen, and committed work was replayed.
#[test]
fn nothing_but_a_body_hides_an_end() {
    for sql in [
        "create function f(begin int) returns int language sql as 'select 1'; commit",
        "create function f(begin atomic) returns int language sql as 'select 1'; commit",
        "create function begin() returns int language sql as 'select 1'; commit",
        "create function f() returns begin language sql as 'select 1'; commit",
        "create procedure p(a int default 1, begin text) language sql as ''; commit",
        // Within a body, CASE may be a name, and then its END is that of the body.
        "create function f() begin atomic select a case; end; commit",
        "create function f() begin atomic select 1 as case; end; commit",
        "create function f() begin atomic select t.case from t; end; commit",
        "create function f() begin atomic select t . case; select (1; end; commit",
        // Elsewhere a semicolon never belongs to a statement.
        "create table t (a int; commit",
        "select (; commit",
        "create view v as begin atomic select 1; commit",
        "create rule r as on insert to t do also (select 1; commit",
        "create rule r as on insert to t do also (select 1; select 2); commit",
        "select $a$ ; $a$; commit",
        "select /* /* */ ; */ 1; commit",
        "select 1 /* ' */; commit",
        "select \"a\"\"\"; commit",
        "select e'\\\\'; commit",
    ] {
        let read = read(sql.as_bytes());
        assert_eq!((read.ends, read.several), (Some(End::Commit), true), "{sql}");
    }
}

/// A character's second byte is a backslash in its client's encoding. It was mistaken for an escape, so the quote after
/// it did not end the literal, and the COMMIT behind it was not seen: committed work was replayed.
#[test]
fn a_backslash_may_be_half_of_a_character() {
    let check = |encoding: &str, sql: &[u8], ends: bool| {
        let rules = TextRules { strings: Strings::Escaped, encoding: Encoding::of_parameter(encoding.as_bytes()) };
        assert_eq!(read_with(sql, rules).ends.is_some(), ends, "{encoding} {sql:x?}");
    };
    for encoding in ["SJIS", "SHIFT_JIS_2004", "BIG5", "GBK", "UHC", "GB18030", "JOHAB"] {
        check(encoding, b"select '\x95\x5c'; commit; --'", true);
        check(encoding, b"select e'\x95\x5c'; commit; --'", true);
        check(encoding, b"select '\\\x95\x5c'; commit; --'", true);
        check(encoding, b"select '\\'; commit; --'", false);
        // A word continues after a character whose second byte is not a letter.
        check(encoding, b"\x95\x7ccommit", false);
        check(encoding, b"select $\x95\x5c$; commit; $\x95\x5c$", false);
    }
    check("SJIS", b"select '\xb1\x5c'; commit; --'", false);
    check("GB18030", b"select '\x81\x30\x81\x30\x5c'; commit; --'", false);
    check("UTF8", b"select '\xe8\x5c'; commit; --'", false);
}

#[test]
fn ends_are_told_from_savepoints_and_chains() {
    let check = |sql: &str, chains: bool, savepoint: bool| {
        let read = read(sql.as_bytes());
        assert_eq!((read.chains, read.savepoint), (chains, savepoint), "{sql}");
    };
    for sql in ["commit and chain", "ROLLBACK WORK AND CHAIN", "end transaction and chain", "abort and chain"] {
        check(sql, true, false);
    }
    for sql in ["commit", "rollback and no chain", "begin", "select 1 and chain", "commit prepared 'and chain'"] {
        check(sql, false, false);
    }
    for sql in ["savepoint a", "release a", "release savepoint a", "rollback to a", "abort work to savepoint a"] {
        check(sql, false, true);
    }
    let bare = |sql: &str| read(sql.as_bytes()).is_bare_begin;
    for sql in ["begin", "START TRANSACTION isolation level serializable, read only;", "/* a */ begin -- b"] {
        assert!(bare(sql), "{sql}");
    }
    for sql in ["begin; select 1", "begin; begin", "commit and chain", "select 1", "start replication", "", ";"] {
        assert!(!bare(sql), "{sql}");
    }
}

#[test]
fn cursors_and_prepared_statements_are_known_by_name() {
    let check = |sql: &str, declares: &[&str], moves: &[&str], executes: &[&str]| {
        let read = read(sql.as_bytes());
        let told = |names: &Names<'_>| names.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect();
        let told: [Vec<String>; 3] = [told(&read.declares), told(&read.moves), told(&read.executes)];
        assert_eq!(
            told,
            [declares, moves, executes].map(|names| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()),
            "{sql}"
        );
    };
    check("declare C cursor with hold for select 1", &["c"], &[], &[]);
    check("declare \"A\"\"b\" binary cursor for select 1", &["A\"b"], &[], &[]);
    check("fetch c", &[], &["c"], &[]);
    check("FETCH BACKWARD ALL FROM C", &[], &["c"], &[]);
    check("move forward 5 in \"C\" -- x", &[], &["C"], &[]);
    check("close c;", &[], &["c"], &[]);
    check("declare c cursor for select 1; fetch 5 c; close d", &["c"], &["c", "d"], &[]);
    check("execute P (1, 2)", &[], &[], &["p"]);
    check("explain (analyze, buffers) execute p", &[], &[], &["p"]);
    check("create table t (a) as execute \"P\"(1)", &[], &[], &["P"]);
    check("explain analyze create table t as execute p; execute q", &[], &[], &["p", "q"]);
    check("grant execute on function f to g", &[], &[], &[]);
    check("create trigger a after insert on t execute function f()", &[], &[], &[]);
    check("select execute from t", &[], &[], &[]);
    let because = |sql: &str| read(sql.as_bytes()).unreplayable;
    assert_eq!(because("close all"), Some(Unsafe::Cursor));
    assert_eq!(because("fetch U&\"\\0063\""), Some(Unsafe::Cursor));
    assert_eq!(because("execute U&\"\\0063\""), Some(Unsafe::PreparedStatement));
    assert_eq!(because("fetch c"), None);
}

#[test]
fn changes_of_code_are_told_from_those_of_data() {
    for sql in [
        "create function f() returns int language sql as 'select 1'",
        "create or replace view v as select 1",
        "create temp view v as select 1",
        "create trigger a after insert on t execute function f()",
        "create rule r as on insert to t do nothing",
        "create policy p on t",
        "create extension hstore",
        "create domain d as int check (value > 0)",
        "create foreign table t (a int) server s",
        "create user mapping for u server s",
        "create schema s create table t (a int)",
        "alter function f() volatile",
        "alter type t add value 'a'",
        "alter table t enable trigger all",
        "alter table t alter column a set default f()",
        "alter table t add constraint c check (a > 0)",
        "alter table t attach partition u for values in (1)",
        "drop operator +++ (int, int)",
        "drop owned by u",
        "security label on table t is 'x'",
        "do $$ begin end $$",
        "select 1; create event trigger e on sql_drop execute function f()",
    ] {
        assert!(read(sql.as_bytes()).changes_code, "{sql}");
    }
    for sql in [
        "create table t (a int default f(), check (a > 0))",
        "create unlogged table t as select 1",
        "create unique index i on t (f(a))",
        "create temp sequence s",
        "create user u",
        "alter table t rename to u",
        "alter table t add column a int",
        "alter sequence s restart",
        "drop table t cascade",
        "drop index i",
        "insert into function values (1)",
        "comment on function f() is 'create'",
        "grant execute on function f() to u",
        "refresh materialized view v",
    ] {
        assert!(!read(sql.as_bytes()).changes_code, "{sql}");
    }
    for sql in ["create table t (a int)", "drop index i", "grant a to b", "select 1 into t", "comment on table t is ''"]
    {
        assert!(read(sql.as_bytes()).is_ddl, "{sql}");
    }
    assert!(!read(b"insert into t select 1").is_ddl);
}

#[test]
fn settings_that_change_how_texts_are_read_are_seen() {
    for sql in [
        "set standard_conforming_strings = off",
        "SET LOCAL Client_Encoding TO 'sjis'",
        "set session \"client_encoding\" = sjis",
        "set names 'gbk'",
        "reset client_encoding",
        "reset all",
        "discard all",
        "select set_config('Client_Encoding', 'sjis', false)",
        "select pg_catalog.set_config(a || 'b', 'sjis', false)",
        "select \"set_config\" (setting_name => 'client_encoding')",
        "update pg_settings set setting = 'off'",
    ] {
        assert!(read(sql.as_bytes()).changes_rules, "{sql}");
    }
    for sql in [
        "set search_path = a",
        "select set_config('app.user', 'client_encoding', true)",
        "select client_encoding from names",
        "show client_encoding",
        "select * from pg_settings",
        "reset role",
    ] {
        assert!(!read(sql.as_bytes()).changes_rules, "{sql}");
    }
}

#[test]
fn what_must_not_be_run_twice_is_seen() {
    let check = |sql, because: Unsafe| assert_eq!(read(str::as_bytes(sql)).unreplayable, Some(because), "{sql}");
    check("copy t to stdout", Unsafe::Copy);
    check("COPY t FROM PROGRAM 'x'", Unsafe::Copy);
    check("listen a", Unsafe::Listen);
    check("unlisten *", Unsafe::Listen);
    for sql in [
        "create temp table t (a int)",
        "create temporary table t as select 1",
        "CREATE LOCAL TEMP TABLE t (a int)",
        "create or replace temp view v as select 1",
        "create temp sequence s",
        "select 1 into temp t",
        "select a into temporary table t from b",
        "explain analyze create temp table t as select 1",
        "select * from pg_temp.t",
        "create table pg_temp.t (a int)",
    ] {
        check(sql, Unsafe::TempTable);
    }
    check("select pg_advisory_lock(1)", Unsafe::SessionLock);
    check("select pg_catalog . PG_TRY_ADVISORY_LOCK /* x */ (1, 2)", Unsafe::SessionLock);
    check("select \"pg_advisory_unlock_all\"()", Unsafe::SessionLock);
    for sql in [
        "select pg_advisory_xact_lock(1)",
        "select Pg_Try_Advisory_Xact_Lock_Shared(1, 2)",
        "update t set a = 1 where pg_try_advisory_xact_lock(a)",
    ] {
        check(sql, Unsafe::AdvisoryLock);
    }
    for sql in [
        "select query_to_xml('select pg_advisory_lock(1)', true, true, '')",
        "select table_to_xml('v', true, true, '')",
        "select cursor_to_xmlschema('c', true, true, '')",
        "select * from ts_stat('select a from t')",
        "select * from crosstab('select 1')",
        "select pg_input_is_valid('1', 'd')",
    ] {
        check(sql, Unsafe::Function);
    }
    check("select * from \"pg_temp\".t", Unsafe::TempTable);
    check("prepare p as select 1", Unsafe::PreparedStatement);
    check("deallocate all", Unsafe::PreparedStatement);
    for sql in [
        "select * from dblink_exec('x', 'y')",
        "select lo_export(1, '/tmp/x')",
        "select pg_terminate_backend(1)",
        "select setval('s', 1)",
        "call p()",
        "do $$ begin commit; end $$",
        "vacuum t",
        "create unique index concurrently i on t (a)",
        "drop database d",
        "alter system set a = 1",
        "alter table if exists only a . b . c detach partition d . e . f concurrently",
        "drop index concurrently if exists a . b",
        "analyze t",
        "start_replication slot x",
        "flashback t",
        "\"commit\"",
    ] {
        check(sql, Unsafe::OutsideEffect);
    }
}

#[test]
fn what_may_be_run_twice_is_not_held_to_be_unsafe() {
    for sql in [
        "select nextval('s'), set_config('a', 'b', true), pg_notify('a', 'b')",
        "select pg_advisory_lock, dblink from setval",
        "select 'pg_advisory_lock(1)', \"dblink\" (1) is null, $$call p()$$ /* pg_terminate_backend(1) */",
        "insert into temp values (1)",
        "insert into temp (a) select a from temporary",
        "create table temp (a int)",
        "create table database_of_systems (a int) tablespace x",
        "execute p(1)",
        "declare c cursor for select 1",
        "notify a",
        "lock table t",
        "truncate t",
        "refresh materialized view concurrently v",
        "alter table t detach partition p",
        "(select 1) union (values (2))",
        "table t",
        "select copy, listen, call from t",
        "with a as (insert into t values (1) returning *) select * from a",
    ] {
        let expect = if sql.contains("\"dblink\" (1)") { Some(Unsafe::OutsideEffect) } else { None };
        assert_eq!(read(sql.as_bytes()).unreplayable, expect, "{sql}");
    }
}

#[test]
fn what_is_read_can_outlive_its_text() {
    let sql = b"set plimsoll.class = 'a' /*class='b'*/".to_vec();
    let owned = read(&sql).into_owned();
    drop(sql);
    assert_eq!(told(&owned), "class Session a; tag b");
}

#[test]
fn escapes_follow_the_setting() {
    let sql = br"select '\'; commit; --'";
    assert_eq!(read(sql).ends, Some(End::Commit));
    assert_eq!(read_with(sql, Strings::Escaped), Statement::default());
}

#[test]
fn what_sets_how_long_the_server_waits_is_known() {
    for sql in [
        "SET idle_in_transaction_session_timeout = 0",
        "set local Idle_In_Transaction_Session_Timeout to '1h'",
        "SET LOCAL \"transaction_timeout\" = 0",
        "SET U&\"transaction\\005ftimeout\" = 0",
        "select set_config('idle_in_transaction_session_timeout', '0', true)",
        "select set_config($1, $2, true)",
    ] {
        assert!(read(sql.as_bytes()).changes_patience, "{sql}");
    }
    for sql in ["SET work_mem = '1MB'", "select set_config('work_mem', '1MB', true)", "SET LOCAL statement_timeout = 0"]
    {
        assert!(!read(sql.as_bytes()).changes_patience, "{sql}");
    }
}
