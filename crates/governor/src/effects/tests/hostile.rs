//! Verdicts under the settings, schemas and rights of others, some of them chosen to deceive.

use super::*;
use crate::statement::Strings;

/// An attacker has created tables, functions, operators and casts where the client looks first, and the client has
/// settings that change the meaning or the output of SQL. The answers are the same, and none of the attacker's objects
/// is run.
#[test]
fn hostile_settings_and_schemas_change_nothing() {
    let mut client = Client::new(
        "hostile",
        &[
            LOCKER,
            "create table ran (a int); create table plain (a int); create domain d as int check (locker(value))",
            "prepare \"p\"\"\\\" as select locker(1)",
            "prepare fine as select 1",
            "create schema evil",
            "create function evil.boom() returns bool language plpgsql as \
             $$ begin raise exception 'something of theirs has run'; end $$",
            "create function evil.same(oid, oid) returns bool language sql as 'select evil.boom()'",
            "create operator evil.= (leftarg = oid, rightarg = oid, function = evil.same)",
            "create operator evil.>= (leftarg = oid, rightarg = oid, function = evil.same)",
            "create function evil.same(name, name) returns bool language sql as 'select evil.boom()'",
            "create operator evil.= (leftarg = name, rightarg = name, function = evil.same)",
            "create operator evil.<> (leftarg = name, rightarg = name, function = evil.same)",
            "create function evil.same(text, text) returns bool language sql as 'select evil.boom()'",
            "create operator evil.= (leftarg = text, rightarg = text, function = evil.same)",
            "create function evil.same(\"char\", \"char\") returns bool language sql as 'select evil.boom()'",
            "create operator evil.= (leftarg = \"char\", rightarg = \"char\", function = evil.same)",
            "create function evil.unnest(oid[]) returns setof oid language sql as 'select 1::oid where evil.boom()'",
            "create function evil.concat(text, text, text) returns text language sql as 'select evil.boom()::text'",
            "create view evil.pg_prepared_statements as select 'a' as name, 'b' as statement where evil.boom()",
            "create table evil.pg_class (oid oid, relname name); create table evil.pg_proc (oid oid)",
            "create table evil.pg_type (oid oid); create table evil.pg_cursors (a int)",
            "create domain evil.oid as int; create domain evil.name as text; create domain evil.text as int; \
             create domain evil.bool as int",
            "set search_path = evil, public, pg_catalog",
            "set standard_conforming_strings = off",
            "set quote_all_identifiers = on",
            "set default_transaction_read_only = on",
        ],
    );
    client.allowed = ["same", "boom"].map(str::to_owned).to_vec();
    client.rules.strings = Strings::Escaped;
    client.is_safe("select * from plain");
    client.is_safe("execute fine");
    client.is_unsafe("select locker(1)", Unsafe::SessionLock);
    client.is_unsafe("select 1::d", Unsafe::SessionLock);
    client.is_unsafe("execute \"p\"\"\\\"", Unsafe::SessionLock);
    client.is_safe("fetch c");
}

/// A client has only the right to connect. Either it sees enough for the verdict, or the verdict is that nothing is
/// proved.
#[test]
fn a_client_without_rights_gets_verdicts() {
    let mut client = Client::new(
        "rights",
        &[
            LOCKER,
            "create schema closed; revoke all on schema public, closed from public",
            "create table plain (a int default 1)",
            "create view closed.looking as select locker(1)",
            "create role powerless; set role powerless",
        ],
    );
    client.is_safe("select * from plain");
    client.is_unsafe("select * from closed.looking", Unsafe::SessionLock);
    client.run("reset role");
    client.run("revoke select on pg_catalog.pg_proc from public; set role powerless");
    client.is_unsafe("select * from plain", Unsafe::Function);
}
