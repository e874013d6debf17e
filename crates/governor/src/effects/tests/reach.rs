//! Only what names may mean is followed, and no question waits for a lock of others.

use super::*;

/// A function that runs a text.
const DYNAMIC: &str = "create function other.dynamic(int, int) returns bool language plpgsql as \
    $$ begin execute 'select 1'; return true; end $$";

/// Any user who may create objects in one schema could switch replay off for the whole database.
#[test]
fn objects_out_of_reach_change_no_verdict() {
    let mut client = Client::new(
        "out_of_reach",
        &[
            "create table t (a int); create schema other",
            DYNAMIC,
            "create operator other.= (leftarg = int, rightarg = int, function = other.dynamic)",
            "create operator ~~~> (leftarg = int, rightarg = int, function = other.dynamic)",
            "create function other.count(int) returns int language plpgsql as $$ begin execute 'x'; end $$",
            "create type other.kind as enum ('a')",
            "create function other.of_kind(other.kind) returns text language plpgsql as $$ begin execute 'x'; end $$",
            "create cast (other.kind as text) with function other.of_kind as implicit",
            "create table other.t (a int); create rule r as on insert to other.t do also select other.dynamic(1, 2)",
        ],
    );
    let text = "insert into t values (1); select count(a) from t where a = 5 and a in (1, 2)";
    client.is_safe(text);
    client.is_unsafe("select count(a) from t where a operator(other.=) 5", Unsafe::Function);
    client.is_unsafe("select a ~~~> 5 from t", Unsafe::Function);
    client.is_unsafe("insert into other.t values (1)", Unsafe::Function);
    client.is_unsafe("insert into \"other\".t values (1)", Unsafe::Function);
    client.is_unsafe("set local search_path = other, public; insert into t values (1)", Unsafe::Function);
    client
        .is_unsafe("select set_config('search_path', 'oth' || 'er', true); insert into t values (1)", Unsafe::Function);
    client.run("set search_path = public, other");
    client.is_unsafe(text, Unsafe::Function);
}

/// A function has a path of its own, or runs with the rights and the `"$user"` of another.
#[test]
fn settings_of_functions_are_followed() {
    let mut client = Client::new(
        "own_settings",
        &[
            "create schema other; create role other_owner; create schema other_owner authorization other_owner",
            DYNAMIC,
            "create function other_owner.mine() returns bool language sql as 'select other.dynamic(1, 2)'",
            "create function with_path() returns bool language sql set search_path = other as 'select dynamic(1, 2)'",
            "create function as_owner() returns bool language plpgsql security definer as \
             $$ begin return mine(); end $$",
            "alter function as_owner() owner to other_owner",
            "create function plain() returns bool language plpgsql as $$ begin return mine(); end $$",
        ],
    );
    client.is_unsafe("select with_path()", Unsafe::Function);
    client.is_unsafe("select as_owner()", Unsafe::Function);
    client.is_safe("select plain()");
}

/// A database has a schema for each of 1,100 customers, with the same tables. The tables of all of them were followed, more
/// than an inquiry may.
#[test]
fn a_thousand_namesakes_do_not_count() {
    let mut client = Client::new("namesakes", &[]);
    client.run(
        "do $$ begin for n in 1..1100 loop execute format('create schema s%s create table orders (a int)', n); \
        end loop; end $$",
    );
    client.run("set search_path = s7");
    client.is_safe("update orders set a = 1; select a from s8.orders");
}

/// Another session holds the strongest lock on a table, its view and a namesake. The questions waited for it, and the client
/// whose transaction was rolled back waited with them.
#[test]
fn no_question_waits_for_a_lock() {
    let mut client = Client::new(
        "locked",
        &[
            "create table t (a int default 1 check (a > 0), b text); create index on t (lower(b)) where a > 1",
            "create view v as select a, b from t; create rule r as on delete to v do instead delete from t",
            "create schema other create table t (a int) create view v as select a from other.t",
            "create table p (a int) partition by range (abs(a)); create table q partition of p for values from (1) to (2)",
            "create function parsed() returns bigint language sql begin atomic select count(*) from t; end",
            "set lock_timeout = 100",
        ],
    );
    let last = client.last();
    let mut another = client.another();
    another
        .run("begin; lock table t, v, other.t, other.v, p, q in access exclusive mode; alter table t add c int")
        .unwrap();
    client.begins_after(last);
    client.is_safe(
        "delete from v where a = 1; insert into t values (1); insert into p values (1); select parsed(), other.t",
    );
    another.run("rollback").unwrap();
}
