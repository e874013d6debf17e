//! Which transactions generate values that differ in another run, and which act elsewhere.

use super::*;

const TABLES: &[&str] = &[
    "create table plain (a int primary key, b text default 'x', c int default 5 + 1)",
    "create table serial_id (id serial primary key, a int)",
    "create table identity_id (id int generated always as identity, a int)",
    "create table uuid_id (id uuid default gen_random_uuid(), a int)",
    "create table timed (a int, made timestamptz default now())",
    "create table timed_by_word (a int, made timestamptz default current_timestamp)",
    "create table indirectly (a int, made timestamptz default (now() + interval '1 day')::date)",
    "create table touched (a int, changed timestamptz)",
    "create function touch() returns trigger language plpgsql as $$ begin new.changed := now(); return new; end $$",
    "create trigger t before update on touched for each row execute function touch()",
    "create table counted (a int)",
    "create rule r as on insert to counted do also insert into serial_id (a) values (new.a)",
    "create view recent as select a from timed where made > now() - interval '1 day'",
    "create view newest as select xmin, a from plain",
    "create view steady as select upper(b) as b, a from plain",
    "create function clock() returns timestamptz language sql as 'select now()'",
    "create function parsed() returns timestamptz language sql begin atomic select current_timestamp; end",
    "create function sum_of(int) returns bigint language sql stable as 'select sum(a) + $1 from plain'",
];

/// Texts whose answers depend on what the server does, or on other sessions.
const OF_THE_SERVER: &[&str] = &[
    "select last_value, is_called from serial_id_id_seq",
    "table serial_id_id_seq",
    "explain (analyze) select 1",
    "explain update plain set a = 2",
    "select a from plain tablesample system (10)",
    "select a from plain limit 1 for update skip locked",
    "lock plain nowait",
    "select pid from pg_locks",
    "select pg_locks.* from pg_catalog.pg_locks",
    "select query from pg_stat_activity",
    "select * from pg_stat_user_tables",
    "select * from pg_statio_sys_indexes",
    "select last_value from pg_sequences",
    "select name from pg_cursors",
    "select * from pg_timezone_names",
    "select * from pg_replication_slots",
    "create table made (a int)",
];

#[test]
fn values_that_differ_in_another_run_are_known_beforehand() {
    let mut client = Client::new("generated", TABLES);
    let mut check = |text: &str, expect: bool| {
        assert_eq!(client.verdict(&[text]).map(|safe| safe.generates), Ok(expect), "{text}");
    };
    for text in [
        "insert into serial_id (a) values (1) returning id",
        "insert into identity_id (a) values (1) returning id",
        "insert into uuid_id (a) values (1) returning id",
        "insert into timed (a) values (1) returning made",
        "insert into timed_by_word (a) values (1)",
        "insert into indirectly (a) values (1)",
        "insert into plain values (1) returning xmin",
        "insert into plain values (1, now()::text)",
        "insert into counted values (1)",
        "insert into plain values (1, 'now'::timestamp::text)",
        "merge into timed t using plain p on t.a = p.a when not matched then insert (a) values (p.a)",
        "update timed set made = default",
        "update touched set a = 1",
        "select now()",
        "select CURRENT_DATE",
        "select clock_timestamp(), 1",
        "select nextval('serial_id_id_seq')",
        "select lastval()",
        "select currval('serial_id_id_seq')",
        "select txid_current()",
        "select pg_current_xact_id()",
        "select ctid from plain",
        "select gen_random_uuid()",
        "select a from recent",
        "select a from newest",
        "select clock()",
        "select parsed()",
        "select age(made) from timed",
        "select pg_stat_get_numscans(1)",
    ] {
        check(text, true);
    }
    OF_THE_SERVER.iter().for_each(|text| check(text, true));
    for text in [
        "insert into plain (a) values (1) returning a, b, c",
        "select id, a from serial_id where id = 5",
        "select id, a from serial_id where id = 5 for update",
        "select a, made from timed order by made",
        "update serial_id set a = a + 1 where id = 5 returning a",
        "delete from uuid_id where a = 5 returning id",
        "select * from touched",
        "select b from steady",
        "select sum_of(a), count(*), upper(b), coalesce(a, 1), to_char(a, '9') from plain group by 1",
        "select set_config('application_name', 'x', false), current_setting('application_name'), current_user",
        "select tableoid, pg_sleep(0) from plain",
        "select tablename from pg_tables where schemaname = 'public'",
        "select column_name from information_schema.columns where table_name = 'plain'",
        "select name, setting from pg_settings where name = 'work_mem'",
        "select relname from pg_class",
    ] {
        check(text, false);
    }
}

const ARRANGED: &[&str] = &[
    "create table t (id int primary key, a int, n numeric)",
    "create table f (a float8)",
    "create view ordered as select a from t order by a",
    "create view first as select a from t limit 1",
    "create view listed as select array_agg(a) as a from t",
    "create view summed as select sum(n), count(*) from t",
    "create view summed_floats as select sum(a) from f",
    "create view nested as select a from first",
    "create view in_array as select array(select a from t)",
    "create function first_of() returns int language sql as 'select a from t'",
    "create function loops() returns int language plpgsql as \
     $$ declare r int; begin select a into r from t; return r; end $$",
    "create function plain(a int, b int) returns bool language plpgsql as \
     $$ begin return a is distinct from b; end $$",
    "create function step(int, int) returns int language sql as 'select $2'",
    "create aggregate last_of(int) (sfunc = step, stype = int)",
    "create function moves() returns int language plpgsql as \
     $$ begin update t set a = a + 1 where id = 1; return 1; end $$",
];

/// After a write, the order in which a table is read may be another one in a replay. That shows in several rows, and in some
/// answers of one row.
#[test]
fn answers_that_depend_on_the_order_of_rows_are_known() {
    let mut client = Client::new("arranged", ARRANGED);
    let mut check = |text: &str, expect: bool| {
        assert_eq!(client.verdict(&[text]).map(|safe| safe.arranges), Ok(expect), "{text}");
    };
    for text in [
        "select array_agg(a) from t",
        "select string_agg(a::text, ',') from t",
        "select a from t limit 1",
        "select a from t fetch first row only",
        "select distinct on (a) a, id from t",
        "select row_number() over () from t",
        "select array(select a from t)",
        "select sum(a) from f",
        "select avg(sqrt(a)) from t",
        "select sum(a::float8) from t",
        "select last_of(a) from t",
        "select a from first",
        "select a from nested",
        "select a from listed",
        "select * from summed_floats",
        "select * from in_array",
        "select first_of()",
        "select loops()",
        "fetch next from c",
        "update t set a = x.a from t x",
    ] {
        check(text, true);
    }
    for text in [
        "select a from t where id = 1",
        "select a from t order by id",
        "select count(*), sum(n), avg(a), max(a), min(n) from t where a in (1, 2)",
        "select sum(case when a > 1 then n else 0 end) from t",
        "select a from ordered",
        "select * from summed",
        "select plain(a, 1) from t where id = 1",
        "update t set a = a + 1 where id = 1 returning a",
        "select a from t where id = 1 for update",
        "delete from t where id = 1",
    ] {
        check(text, false);
    }
    let mut check = |text: &str, writes: bool, reads_own: bool| {
        let safe = client.verdict(&[text]).unwrap();
        assert_eq!((safe.writes, safe.reads_own), (writes, reads_own), "{text}");
    };
    check("select a from t for update", false, false);
    check("update t set a = 1 where id = 1 returning a", true, false);
    check("update t set a = 1 where id = 1; select a from t", true, true);
    check("select moves()", true, true);
}

/// Parallel workers bring rows in another order each time, and a client that had received them was told 40001 although
/// nothing had changed.
#[test]
fn texts_that_read_much_are_known() {
    let much = "insert into t select repeat('x', 1000) from generate_series(1, 8000)";
    let mut client = Client::new(
        "much",
        &["create table t (a text)", much, "create table few (a int)", "create view v as select a from t", "analyze"],
    );
    let mut check = |text: &str, expect: bool| {
        assert_eq!(client.verdict(&[text]).map(|safe| safe.reads_much), Ok(expect), "{text}");
    };
    check("select a from t", true);
    check("select count(*) from v", true);
    check("select a from few", false);
    check("select relname from pg_class", false);
}

/// The values that `setseed` chooses are taken by `random()`, and no rollback gives them back.
#[test]
fn random_numbers_of_the_session_are_not_taken_twice() {
    let mut client = Client::new(
        "seeded",
        &[
            "create function dice() returns int language sql as 'select (random() * 6)::int'",
            "create function parsed() returns float8 language sql begin atomic select random(); end",
            "create table t (a float8 default random())",
            "create view v as select random() as a",
        ],
    );
    for text in [
        "select setseed(0.5)",
        "select dice()",
        "select parsed()",
        "insert into t default values",
        "select * from v order by RANDOM()",
    ] {
        client.is_unsafe(text, Unsafe::Random);
    }
    client.is_safe("select a from t");
}

/// A row in a foreign table is committed by the other server before this one decides about its commit, and a deferred
/// trigger runs in COMMIT.
#[test]
fn what_acts_before_the_commit_is_unsafe() {
    let mut client = Client::new(
        "elsewhere",
        &[
            "create extension postgres_fdw; create extension dblink",
            "create server other foreign data wrapper postgres_fdw options (dbname 'postgres')",
            "create foreign table remote (a int) server other",
            "create view over_it as select a from remote",
            "create table parted (a int) partition by list (a)",
            "create foreign table part partition of parted for values in (1) server other",
            "create table parent (a int); create foreign table child () inherits (parent) server other",
            "create function sends() returns void language sql as 'insert into remote values (1)'",
            "create function parsed() returns bigint language sql begin atomic select count(*) from over_it; end",
            "create function tells() returns trigger language plpgsql as \
             $$ begin perform dblink_exec('dbname=postgres', 'select 1'); return new; end $$",
            "create table told (a int)",
            "create constraint trigger t after insert on told deferrable initially deferred for each row \
             execute function tells()",
            "create table harmless (a int unique deferrable initially deferred)",
            "create table event_told (a int)",
            "create function on_event() returns event_trigger language plpgsql as \
             $$ begin perform dblink_exec('dbname=postgres', 'select 1'); end $$",
            "create event trigger e on ddl_command_end execute function on_event()",
        ],
    );
    for text in [
        "insert into remote values (1)",
        "select a from remote",
        "select a from over_it",
        "insert into parted values (1)",
        "select a from parent",
        "select sends()",
        "select parsed()",
        "insert into told values (1)",
        "select dblink_connect('dbname=postgres')",
        "create index on harmless (a)",
    ] {
        client.is_unsafe(text, Unsafe::OutsideEffect);
    }
    client.is_safe("insert into harmless values (1)");
    client.is_safe("select a from told");
    client.allowed = vec!["postgres_fdw".to_owned()];
    client.is_safe("select a from remote");
}

/// Such a transaction may end a deadlock without the server's error.
#[test]
fn code_that_catches_errors_or_sets_timeouts_is_known() {
    const CODE: &[&str] = &[
        "create table plain (a int)",
        "create table noted (a int)",
        "create function raises() returns int language plpgsql as $$ begin raise exception 'when'; end $$",
        "create function catches() returns int language plpgsql as
             $$ begin return 1; exception -- or not
             when others then return 2; end $$",
        "create function noted() returns trigger language plpgsql as $$ begin perform catches(); return new; end $$",
        "create trigger t before insert on noted for each row execute function noted()",
        "create view indirectly as select catches() as a",
        "create function hurries() returns int language sql set lock_timeout = '1s' as 'select 1'",
        "create function sets() returns int language sql as $$ select set_config('lock_timeout', '9', true)::int $$",
    ];
    let mut client = Client::new("catching", CODE);
    for (text, expect) in [
        ("update plain set a = a + 1", false),
        ("insert into plain values (raises())", false),
        ("insert into noted values (1)", true),
        ("select a from indirectly", true),
        ("select hurries()", true),
        ("select sets()", true),
        ("set local statement_timeout = 100", true),
    ] {
        assert_eq!(client.verdict(&[text]).map(|safe| safe.catches), Ok(expect), "{text}");
    }
    client.allowed = vec!["raises".to_owned()];
    assert_eq!(client.verdict(&["select raises()"]).map(|safe| safe.catches), Ok(true), "its body is not read");
}
