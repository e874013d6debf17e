//! What texts leave, in plain and in hostile spellings.

use super::*;

fn left(sql: &str) -> Residue {
    residue_of(sql.as_bytes(), TextRules::default())
}

fn check(cases: &[(&str, Residue)]) {
    for (sql, expect) in cases {
        assert_eq!(&left(sql), expect, "{sql}");
    }
}

/// These settings.
fn settings(names: &[&str]) -> Residue {
    Residue { settings: names.iter().map(|name| name.as_bytes().into()).collect(), ..Residue::NOTHING }
}

fn pin(pin: Pin) -> Residue {
    Residue::pinned_by(Some(pin))
}

#[test]
fn most_texts_leave_nothing_and_are_not_read() {
    for sql in [
        "",
        ";",
        "select 1",
        "  BEGIN;",
        "start transaction isolation level serializable",
        "commit",
        "ROLLBACK TO SAVEPOINT a",
        "select settings, temperature from configs where interval_value > 5 and a_value = $1",
        "insert into t (a, listen, prepare) values ($1, 'set x = 1', 'listen')",
        "update t set role = 'x', a = 1 where b = 2 returning c",
        "delete from t where a in (1, 2, 3)",
        "with x as (select 1) select * from x",
        "copy t from stdin",
        "select pg_advisory_xact_lock(1)",
        "select valid, retrieval, ovals from t",
    ] {
        let is_read = quick::may_leave(sql.as_bytes());
        let expect = sql.is_empty() || sql == ";" || sql.contains("pg_advisory");
        assert_eq!(is_read, expect, "{sql}");
        assert!(left(sql).is_nothing(), "{sql}");
    }
}

#[test]
fn settings_are_named_in_all_forms() {
    let path = |names: &[&str]| Residue { moves_path: true, ..settings(names) };
    let rules = |names: &[&str]| Residue { changes_rules: true, ..settings(names) };
    let characteristics =
        ["default_transaction_deferrable", "default_transaction_isolation", "default_transaction_read_only"];
    check(&[
        ("set statement_timeout = 5", settings(&["statement_timeout"])),
        ("SET SESSION Work_Mem TO '1MB'", settings(&["work_mem"])),
        ("/* a */ set -- b\n /* c /* d */ */ work_mem = 1", settings(&["work_mem"])),
        ("set \"Work_MEM\" to default", settings(&["work_mem"])),
        ("set a.b = 'c'", settings(&["a.b"])),
        ("set A . \"b\" . c to 1", settings(&["a.b.c"])),
        ("set plimsoll.class = 'high'", settings(&["plimsoll.class"])),
        ("set work_mem from current", settings(&["work_mem"])),
        ("set datestyle = iso, mdy", settings(&["datestyle"])),
        ("set time zone 'UTC'", settings(&["timezone"])),
        ("set session time zone local", settings(&["timezone"])),
        ("SET TIME ZONE INTERVAL '1' HOUR TO MINUTE", settings(&["timezone"])),
        ("set timezone to 'UTC'", settings(&["timezone"])),
        ("set time.zone = 1", settings(&["time.zone"])),
        ("set names 'utf8'", rules(&["client_encoding"])),
        ("set names", rules(&["client_encoding"])),
        ("set names.a = 1", settings(&["names.a"])),
        ("set client_encoding to latin1", rules(&["client_encoding"])),
        ("set standard_conforming_strings = off", rules(&["standard_conforming_strings"])),
        ("set role admin", path(&["role"])),
        ("set role = 'admin'", path(&["role"])),
        ("set session role none", path(&["role"])),
        ("reset role", path(&["role"])),
        ("set schema 'a'", path(&["search_path"])),
        ("set search_path to a, b", path(&["search_path"])),
        ("set xml option document", settings(&["xmloption"])),
        ("set session characteristics as transaction read only", settings(&characteristics)),
        ("set session session characteristics as transaction read only", settings(&characteristics)),
        ("reset work_mem", settings(&["work_mem"])),
        ("RESET \"a\".b", settings(&["a.b"])),
        ("reset time zone", settings(&["timezone"])),
        ("set session.a = 1", settings(&["session.a"])),
        ("set local.a = 1", settings(&["local.a"])),
        ("set work_mem = 1; select 2; set a.b = 3", settings(&["a.b", "work_mem"])),
        ("begin;set work_mem=1;commit", settings(&["work_mem"])),
        ("set session authorization default", path(&["role"])),
        ("reset session authorization", path(&["role"])),
        ("reset session_authorization", path(&["role"])),
    ]);
}

#[test]
fn what_ends_with_the_transaction_leaves_nothing() {
    let path = Residue { moves_path: true, ..Residue::NOTHING };
    let rules = Residue { changes_rules: true, ..Residue::NOTHING };
    check(&[
        ("set local work_mem = 1", Residue::NOTHING),
        ("SET LOCAL a.b TO 1", Residue::NOTHING),
        ("set local search_path = a", path.clone()),
        ("set local role a", path.clone()),
        ("set local session authorization a", path.clone()),
        ("set local standard_conforming_strings = off", rules),
        ("set transaction isolation level serializable", Residue::NOTHING),
        ("set session transaction read only", Residue::NOTHING),
        ("set transaction snapshot 'a'", Residue::NOTHING),
        ("set transaction_isolation = 'serializable'", Residue::NOTHING),
        ("set constraints all deferred", Residue::NOTHING),
        ("set constraints a.b immediate", Residue::NOTHING),
        ("reset transaction isolation level", Residue::NOTHING),
        ("unlisten *", Residue::NOTHING),
        ("close all", Residue::NOTHING),
        ("discard temp", Residue::NOTHING),
        ("discard plans", Residue::NOTHING),
        ("prepare transaction 'x'", Residue::NOTHING),
        ("select pg_advisory_unlock_all(), pg_advisory_unlock(1)", Residue::NOTHING),
        ("declare c cursor for select 1", Residue::NOTHING),
        ("declare c cursor without hold for select 1", Residue::NOTHING),
        ("alter role a set work_mem = 1", Residue::NOTHING),
        ("alter system set work_mem = 1", Residue::NOTHING),
        ("select set_config('work_mem', $1, true)", Residue::NOTHING),
        ("select set_config('search_path', $1, TRUE)", path),
        ("show all", Residue::NOTHING),
        ("notify a, 'b'", Residue::NOTHING),
        ("update t set work_mem = 1; insert into t values (1) on conflict (a) do update set b = 2", Residue::NOTHING),
    ]);
}

#[test]
fn set_config_is_read_by_its_arguments() {
    let path = |names: &[&str]| Residue { moves_path: true, ..settings(names) };
    let computed = || Residue { moves_path: true, changes_rules: true, ..pin(Pin::ComputedSetting) };
    check(&[
        ("select set_config('work_mem', '1MB', false)", settings(&["work_mem"])),
        ("SELECT pg_catalog.SET_CONFIG ('Work_Mem', f(a, b[1, 2]), is_local => false)", settings(&["work_mem"])),
        ("select \"set_config\"('a.b', 'x', 'true')", settings(&["a.b"])),
        ("select set_config('a.b', 'x', true and false)", settings(&["a.b"])),
        ("select set_config($$a.b$$, 'x', $1)", settings(&["a.b"])),
        ("select set_config('a.b'::text, 'x', false)", settings(&["a.b"])),
        ("select set_config('search_path', 'x', false)", path(&["search_path"])),
        ("select set_config('a' || 'b', 'x', false)", computed()),
        ("select set_config($1, $2, false)", computed()),
        ("select set_config(name, setting, false) from saved", computed()),
        ("select set_config(E'a\\x2eb', 'x', false)", computed()),
        ("select set_config('a''b', 'x', false)", computed()),
        ("select set_config('a' /* , */ , 'x', false), set_config('b', '(', false)", settings(&["a", "b"])),
        ("select set_config($1, $2, true)", Residue { pin: None, ..computed() }),
        ("select 'set_config(a)'", Residue::NOTHING),
        ("with a as (select set_config('work_mem', '1', false)) select * from a", settings(&["work_mem"])),
        ("select set_config", Residue::NOTHING),
        ("select set_config('seed', '0.5', true)", pin(Pin::Seed)),
        ("update pg_settings set setting = '1' where name = 'work_mem'", pin(Pin::ComputedSetting)),
        ("select set_limit(0.5)", settings(&["pg_trgm.similarity_threshold"])),
    ]);
}

#[test]
fn what_only_the_connection_has_pins() {
    let listens = || pin(Pin::Listens);
    let creates = |pinned: Pin| Residue { creates: true, ..pin(pinned) };
    check(&[
        ("listen a", listens()),
        ("LISTEN \"A\"", listens()),
        ("/**/listen/**/a", listens()),
        ("--x\nlisten a", listens()),
        ("select 1;listen a", listens()),
        ("select ';' ; ; listen a", listens()),
        ("select $a$;$a$; listen a", listens()),
        ("select E'\\''; listen a", listens()),
        ("create temp table t (a int)", creates(Pin::Temporary)),
        ("CREATE LOCAL TEMPORARY TABLE t AS SELECT 1", creates(Pin::Temporary)),
        ("create or replace temp view v as select 1", Residue { changes_code: true, ..creates(Pin::Temporary) }),
        ("create temporary sequence s", creates(Pin::Temporary)),
        ("create table pg_temp.t (a int)", creates(Pin::Temporary)),
        ("create table \"pg_temp\".t (a int)", creates(Pin::Temporary)),
        ("create table PG_TEMP_3.t (a int)", creates(Pin::Temporary)),
        ("select 1 as a into temp t", creates(Pin::Temporary)),
        ("select 1 as a into local temporary table t", creates(Pin::Temporary)),
        ("explain analyze create temp table t as select 1", creates(Pin::Temporary)),
        ("insert into temp values (1)", Residue::NOTHING),
        ("select temporary, \"temp\" from t", Residue::NOTHING),
        ("select temp from t", Residue::NOTHING),
        ("set search_path = pg_temp", Residue { moves_path: true, ..with_setting("search_path", Pin::Temporary) }),
        (
            "set search_path = E'pg\\x5ftemp'",
            Residue { moves_path: true, ..with_setting("search_path", Pin::Temporary) },
        ),
        (
            "select set_config('search_path', 'a, pg_temp', false)",
            Residue { moves_path: true, ..with_setting("search_path", Pin::Temporary) },
        ),
        ("declare c cursor with hold for select 1", pin(Pin::HeldCursor)),
        (
            "begin; DECLARE \"C\" binary insensitive no scroll cursor WITH /**/ HOLD for select 1; commit",
            pin(Pin::HeldCursor),
        ),
        ("prepare p as select 1", pin(Pin::Prepares)),
        ("prepare transaction as select 1", pin(Pin::Prepares)),
        ("execute p(1)", pin(Pin::Prepares)),
        ("explain (analyze, buffers) execute p", pin(Pin::Prepares)),
        ("create table t as execute p", creates(Pin::Prepares)),
        ("load 'auto_explain'", pin(Pin::Loads)),
        ("select pg_advisory_lock(1)", pin(Pin::SessionLock)),
        ("select PG_CATALOG.\"pg_advisory_lock_shared\" (1, 2)", pin(Pin::SessionLock)),
        ("select case when pg_try_advisory_lock(5) then 1 end", pin(Pin::SessionLock)),
        ("set session authorization bob", Residue { moves_path: true, ..pin(Pin::Authorization) }),
        ("set session session authorization bob", Residue { moves_path: true, ..pin(Pin::Authorization) }),
        ("set session_authorization = bob", Residue { moves_path: true, ..pin(Pin::Authorization) }),
        (
            "select set_config('session_authorization', 'bob', false)",
            Residue { moves_path: true, ..pin(Pin::Authorization) },
        ),
        ("select setseed(0.5)", pin(Pin::Seed)),
        ("set seed to 0.5", pin(Pin::Seed)),
        ("select dblink_connect('a')", pin(Pin::RemoteConnection)),
        ("select dblink_connect_u('a', 'b')", pin(Pin::RemoteConnection)),
        ("select pg_replication_origin_session_setup('a')", pin(Pin::ReplicationOrigin)),
        ("select U&\"pg\\005fadvisory_lock\"(1)", pin(Pin::UnreadName)),
        ("set u&\"work\\005fmem\" = 1", pin(Pin::UnreadName)),
        ("deallocate u&\"a\"", pin(Pin::UnreadName)),
    ]);
}

fn with_setting(name: &str, pinned: Pin) -> Residue {
    Residue { pin: Some(pinned), ..settings(&[name]) }
}

#[test]
fn what_is_reset_and_dropped_is_named() {
    let all = || Residue { moves_path: true, changes_rules: true, ..Residue::NOTHING };
    check(&[
        ("reset all", Residue { all_settings: true, ..all() }),
        (
            "set a.b = 1; RESET ALL",
            Residue { all_settings: true, moves_path: true, changes_rules: true, ..settings(&["a.b"]) },
        ),
        ("discard all", Residue { discards: Some(Discard::All), ..all() }),
        ("DISCARD sequences", Residue { discards: Some(Discard::Sequences), ..Residue::NOTHING }),
        ("deallocate all", Residue { deallocates_all: true, ..Residue::NOTHING }),
        ("DEALLOCATE PREPARE ALL", Residue { deallocates_all: true, ..Residue::NOTHING }),
        ("deallocate P", Residue { deallocates: [(*b"p").into()].into(), ..Residue::NOTHING }),
        ("deallocate prepare \"P\"", Residue { deallocates: [(*b"P").into()].into(), ..Residue::NOTHING }),
        ("deallocate \"all\"", Residue { deallocates: [(*b"all").into()].into(), ..Residue::NOTHING }),
        ("select nextval('s')", Residue { sequences: true, ..Residue::NOTHING }),
        (
            "insert into t values (pg_catalog.NextVal('s'), setval('u', 1))",
            Residue { sequences: true, ..Residue::NOTHING },
        ),
        ("select currval('s')", Residue { reads_sequences: true, ..Residue::NOTHING }),
        ("select lastval()", Residue { reads_sequences: true, ..Residue::NOTHING }),
        (
            "create function f() returns int language sql as 'select 1'",
            Residue { changes_code: true, ..Residue::NOTHING },
        ),
        (
            "create trigger a before insert on t execute function f()",
            Residue { changes_code: true, ..Residue::NOTHING },
        ),
        ("create table t (a int)", Residue { creates: true, ..Residue::NOTHING }),
        ("select 1 as a into t", Residue { creates: true, ..Residue::NOTHING }),
        ("with a as (insert into t values (1) returning a) select * from a", Residue::NOTHING),
        ("create index i on t (a)", Residue::NOTHING),
    ]);
}

#[test]
fn blocks_are_read_and_their_values_count() {
    check(&[
        ("do $$ begin set work_mem = 1; end $$", settings(&["work_mem"])),
        (
            "DO LANGUAGE plpgsql 'begin if a then set work_mem = ''1''; else reset a.b; end if; end'",
            settings(&["a.b", "work_mem"]),
        ),
        (
            "do $a$ begin perform set_config('a.b', '1', false); perform pg_advisory_lock(1); end $a$ language \"plpgsql\"",
            with_setting("a.b", Pin::SessionLock),
        ),
        ("do $$ begin execute 'listen a'; end $$", pin(Pin::Dynamic)),
        ("do $$ <<a>> set work_mem = 1; $$", settings(&["work_mem"])),
        ("do $$ begin update t set a = 1; end $$", Residue::NOTHING),
        ("do $$ begin do $x$ begin end $x$; end $$", pin(Pin::Dynamic)),
        ("do $$ listen $$ language plperl", pin(Pin::Unknown("DO".into()))),
        ("do E'begin\\n end'", pin(Pin::Unknown("DO".into()))),
    ]);
    for (sql, expect) in
        [("do $$ $$", true), ("select 1; /* */ DO $$ $$", true), ("-- a\ndo $$ $$", true), ("select 'do'", false)]
    {
        assert_eq!(has_body(sql.as_bytes(), TextRules::default()), expect, "{sql}");
    }
}

#[test]
fn bodies_of_functions_are_read() {
    let body = |text: &str, is_plpgsql| residue_of_body(text.as_bytes(), TextRules::default(), is_plpgsql);
    assert_eq!(body("begin\n set work_mem = 1; return new; end", true), settings(&["work_mem"]));
    assert_eq!(body("select set_config('a.b', $1, false)", false), settings(&["a.b"]));
    assert_eq!(body("select 1; listen a", false), pin(Pin::Listens));
    assert_eq!(body("begin return query execute q; end", true), pin(Pin::Dynamic));
    assert_eq!(body("begin select a into b from t; new.execute := 1; end", true), Residue::NOTHING);
    assert_eq!(body("deallocate all", false).pin, Some(Pin::Deallocates));
    assert_eq!(body("do $$ begin end $$", false), pin(Pin::Dynamic));
    // Only one of the two readings has the call.
    for text in [
        r"begin x := '\'; perform pg_advisory_lock(1); --'; end",
        r"begin x := '\''; perform pg_advisory_lock(1); --'; end",
    ] {
        assert_eq!(body(text, true).pin, Some(Pin::SessionLock), "{text}");
    }
}

#[test]
fn a_text_that_cannot_be_bounded_pins() {
    let many: String = (0..=SETTINGS_MAX).map(|name| format!("set a.b{name} = 1;")).collect();
    assert_eq!(left(&many).pin, Some(Pin::ManySettings));
    // Reading takes time in proportion to the length.
    for part in ["update pg_settings;", "set_config(", "create ", "begin set ", "explain execute;", "do $$ begin ", "("]
    {
        let sql = part.repeat((60 << 10) / part.len());
        let begun = std::time::Instant::now();
        left(&sql);
        residue_of_body(sql.as_bytes(), TextRules::default(), true);
        assert!(begun.elapsed() < std::time::Duration::from_secs(1), "{part} took {:?}", begun.elapsed());
    }
}

#[test]
fn statements_that_run_no_code_are_known() {
    for (sql, expect) in [
        ("begin", true),
        (" COMMIT ; ", true),
        ("set a = 1", true),
        ("fetch 5 from c", true),
        ("begin; select f()", false),
        ("select 1", false),
        ("/**/ begin", false),
        ("execute p", false),
        ("do $$ $$", false),
    ] {
        assert_eq!(runs_no_code(sql.as_bytes()), expect, "{sql}");
    }
}

#[test]
fn residues_add_up_and_the_first_pin_counts() {
    let mut residue = left("set a.b = 1");
    residue.add(&left("listen a; set c.d = 1"));
    residue.add(&left("load 'a'"));
    assert_eq!(residue, with_setting("a.b", Pin::Listens).with(&["c.d"]));
}

impl Residue {
    fn with(mut self, names: &[&str]) -> Residue {
        self.settings.extend(names.iter().map(|name| name.as_bytes().into()));
        self
    }
}
