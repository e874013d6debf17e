//! Objects that users have created under every name that the governor's sessions use. They record that they ran.

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;

use super::acting::{end_hit, scene_of};
use super::stage::{Client, HIGH, LOW, Stage, server, url};
use crate::watch::beside::Observing;
use crate::watch::control::{self, Up};
use crate::watch::look::{advisory_holders, look, waited_for};
use crate::watch::statements;

/// Functions by name, arguments and result: each records its call and returns the result of the server's own function.
const FUNCTIONS: [(&str, &str, &str, &str); 19] = [
    ("unnest", "a int4[]", "setof int4", "return query select pg_catalog.unnest(a)"),
    ("unnest", "a bool[]", "setof bool", "return query select pg_catalog.unnest(a)"),
    ("pg_blocking_pids", "a int4", "int4[]", "return pg_catalog.pg_blocking_pids(a)"),
    ("pg_cancel_backend", "a int4", "bool", "return pg_catalog.pg_cancel_backend(a)"),
    ("pg_terminate_backend", "a int4", "bool", "return false"),
    ("textsend", "a text", "bytea", "return pg_catalog.textsend(a)"),
    ("substr", "a bytea, b int4, c int4", "bytea", "return pg_catalog.substr(a, b, c)"),
    ("clock_timestamp", "", "timestamptz", "return pg_catalog.clock_timestamp()"),
    ("date_part", "a text, b timestamptz", "float8", "return pg_catalog.date_part(a, b)"),
    ("extract", "a text, b timestamptz", "numeric", "return pg_catalog.date_part(a, b)"),
    ("pg_has_role", "a name, b name, c text", "bool", "return true"),
    ("pg_has_role", "a name, b text, c text", "bool", "return true"),
    ("pg_backend_pid", "", "int4", "return pg_catalog.pg_backend_pid()"),
    ("text", "a float8", "text", "return 'none'"),
    ("int8", "a float8", "int8", "return 0"),
    ("same", "a int4, b int4", "bool", "return a operator(pg_catalog.=) b"),
    ("same", "a text, b text", "bool", "return a operator(pg_catalog.=) b"),
    ("other", "a int4[], b int4[]", "bool", "return a operator(pg_catalog.<>) b"),
    ("less", "a float8, b float8", "bool", "return a operator(pg_catalog.<) b"),
];

/// Operators, their types, and the function behind each.
const OPERATORS: [(&str, &str, &str); 4] = [
    ("=", "int4", "public.same"),
    ("=", "text", "public.same"),
    ("<>", "int4[]", "public.other"),
    ("<", "float8", "public.less"),
];

/// Types and relations with the names of the server's own.
const TYPES: [&str; 5] = ["int4", "int8", "bool", "text", "float8"];
const RELATIONS: [(&str, &str); 3] =
    [("pg_roles", "true as rolsuper, 'x' as rolname"), ("pg_locks", "1 as pid"), ("pg_stat_activity", "1 as pid")];

/// Creates all of them in a schema where any user may create objects.
fn plant(connection: &mut Connection) {
    let mut run = |sql: &str| connection.run(sql).unwrap();
    run("set search_path = ''; create role mallory; grant create, usage on schema public to public; \
         create table public.ran (what pg_catalog.text); grant insert on public.ran to public; \
         create function public.note(what pg_catalog.text) returns pg_catalog.bool language plpgsql as \
         $$ begin insert into public.ran values (what); return true; end $$; set role mallory");
    for (name, arguments, result, body) in FUNCTIONS {
        run(&format!(
            "create function public.\"{name}\"({arguments}) returns {result} language plpgsql as \
             $$ begin perform public.note('function {name}'); {body}; end $$"
        ));
    }
    for (name, of, function) in OPERATORS {
        run(&format!("create operator public.{name} (leftarg = {of}, rightarg = {of}, function = {function})"));
    }
    for (name, columns) in RELATIONS {
        run(&format!(
            "create view public.{name} as select {columns} where public.note('view {name}'); \
             grant select on public.{name} to public"
        ));
    }
    for name in TYPES {
        run(&format!("create domain public.{name} as pg_catalog.{name} check (public.note('type {name}'))"));
    }
    run("reset role");
}

/// The objects that have run since the last call.
fn what_ran(connection: &mut Connection) -> Vec<String> {
    let mut ran = Vec::new();
    let sql = "delete from public.ran returning what";
    connection.text_rows(sql, &mut |row| ran.extend(row[0].map(str::to_owned))).unwrap();
    ran.sort();
    ran.dedup();
    ran
}

/// In a database where users may create objects in `public`, as they may before PostgreSQL 15 and after an upgrade, a
/// user created a function `unnest(int4[])`. The governor called it with the privilege to signal every session.
#[test]
fn nothing_that_users_have_made_runs_as_the_control_role() {
    let server = server();
    let mut connection = Connection::open(&url(&server)).unwrap();
    connection.run("create database hostile").unwrap();
    connection.run("create role governor_of_hostile login; grant pg_signal_backend to governor_of_hostile").unwrap();
    connection.run("alter database hostile set search_path = public, pg_catalog").unwrap();
    connection.run("alter role governor_of_hostile set search_path = public, pg_catalog").unwrap();
    let here = ServerUrl { database: "hostile".to_owned(), ..url(&server) };
    let control = ServerUrl { user: "governor_of_hostile".to_owned(), ..here.clone() };
    let mut connection = Connection::open(&here).unwrap();
    plant(&mut connection);
    let mut open = Connection::open(&control).unwrap();
    open.run("select unnest('{1}'::pg_catalog.int4[]) = 1 from pg_locks; select 1::int4").unwrap();
    let ran = what_ran(&mut connection);
    assert_eq!(ran, ["function same", "function unnest", "type int4", "view pg_locks"], "they are hit otherwise");

    let mut stage = Stage::with("pow", |settings| {
        (settings.server, settings.control) = (here.clone(), Some(control.clone()));
    });
    let customer = ServerUrl { user: "customer".to_owned(), ..here };
    let [holder, low, high] = [LOW, LOW, HIGH].map(|class| Client::new(&stage.governor, &customer, class));
    stage.governor.registry.remove(holder.card.id);
    let (holder, low, high) = scene_of(&stage, (holder, low, high), 411);
    stage.round().unwrap();
    assert_eq!(low.failure(), "57014");
    end_hit((holder, low, high));
    let up = stage.control.connection().unwrap();
    assert_eq!(up.connection.text("show search_path").unwrap().as_deref(), Some(""));
    ask_everything(up);
    assert_eq!(what_ran(&mut connection), [""; 0]);
}

/// Sends every other statement that a round may send.
fn ask_everything(up: &mut Up) {
    let process = up.connection.process_id();
    let array = format!("{{{process}}}");
    look(up, &[process]).unwrap();
    advisory_holders(up, &[process]).unwrap();
    waited_for(up, &[process]).unwrap();
    let victims = [&array, "{f}", "{}", "{}", "{}", "4e9", "{f}"];
    let mut rows = 0;
    let check = up.check.clone();
    up.connection.prepared_text_rows(&check, &victims, &mut |_| rows += 1).unwrap();
    assert_eq!(rows, 1);
    up.connection.run(statements::TRY_OUT).unwrap();
    control::here(&mut up.connection).unwrap();
    let observing = Observing::on(&mut up.connection).unwrap();
    assert!(!observing.sight(&mut up.connection).unwrap().rows.is_empty());
    let process = process.to_string();
    for (sql, parameters) in [
        (statements::CANCEL_OBSERVED, &[process.as_str(), "1", "1", "1", "f", "{}", "{}", "4e9"][..]),
        (statements::END_OBSERVED, &[process.as_str(), "1", "1", "1"]),
    ] {
        let prepared = up.connection.prepare_text("", sql).unwrap();
        up.connection.prepared_text_rows(&prepared, parameters, &mut |row| panic!("{row:?}")).unwrap();
    }
}

/// Temporary objects precede the server's own for every name without a schema, whatever `search_path` is.
#[test]
fn nothing_temporary_is_taken_for_the_servers_own() {
    let server = server();
    let mut connection = Connection::open_isolated(&url(&server)).unwrap();
    let mut run = |sql: &str| connection.run(sql).unwrap();
    run("create temporary table ran (what pg_catalog.text); \
         create function pg_temp.note(what pg_catalog.text) returns pg_catalog.bool language plpgsql as \
         $$ begin insert into pg_temp.ran values (what); return true; end $$");
    for (name, columns) in RELATIONS {
        run(&format!("create temporary view {name} as select {columns} where pg_temp.note('view {name}')"));
    }
    for name in TYPES {
        run(&format!("create domain pg_temp.{name} as pg_catalog.{name} check (pg_temp.note('type {name}'))"));
    }
    connection.text("select 1::int4 from pg_locks").unwrap();
    let ran = |connection: &mut Connection| {
        let count = connection.text("select pg_catalog.count(*) from pg_temp.ran").unwrap().unwrap();
        connection.run("truncate pg_temp.ran").unwrap();
        count
    };
    assert_eq!(ran(&mut connection), "2", "they are hit otherwise");
    let mut up = Up::on(connection, std::time::Instant::now()).unwrap();
    ask_everything(&mut up);
    assert_eq!(ran(&mut up.connection), "0");
}
