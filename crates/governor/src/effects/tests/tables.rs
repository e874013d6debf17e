//! Code that tables, views and types run is followed, over several steps, too.

use super::*;

/// Tables, views and types that run code although their names do not show it.
const HIDDEN_BY_TABLES: &[&str] = &[
    LOCKER,
    "create function on_row() returns trigger language plpgsql as $$ begin perform locker(1); return new; end $$",
    "create table parted (a int) partition by list (a)",
    "create table part_1 partition of parted for values in (1)",
    "create table part_2 partition of parted for values in (2)",
    "create trigger t after insert on part_2 for each row execute function on_row()",
    "create table parent (a int); create table child () inherits (parent)",
    "create trigger t before update on child for each row execute function on_row()",
    "create view looking as select locker(1) as a",
    "create view over_it as select * from looking",
    "create materialized view kept as select 1 as a where not locker(5)",
    "create table defaulted (a int, b bool default locker(1))",
    "create table checked (a int check (locker(a)))",
    "create table ruled (a int)",
    "create rule r as on insert to ruled do also select locker(1)",
    "create table guarded (a int); alter table guarded enable row level security",
    "create policy p on guarded using (locker(a))",
    "create function steady(int) returns int language plpgsql immutable as $$ begin return locker($1)::int; end $$",
    "create table indexed (a int); create index on indexed (steady(a))",
    "create table partly (a int); create index on partly (a) where steady(a) > 0",
    "create table split (a int) partition by range (steady(a))",
    "create table split_1 partition of split for values from (1) to (2)",
    "create table computed (a int, b int generated always as (steady(a)) stored)",
    "create domain guarded_int as int check (locker(value))",
    "create type holder as (a guarded_int)",
    "create table with_domain (a holder[])",
    "create domain by_default as bool default locker(1)",
    "create table with_when (a int)",
    "create function nothing() returns trigger language plpgsql as $$ begin return new; end $$",
    "create trigger t before insert on with_when for each row when (locker(new.a)) execute function nothing()",
    "create table referred (a int primary key)",
    "create table referring (a int references referred on delete cascade)",
    "create trigger t after delete on referring for each row execute function on_row()",
    "create table plainly_referring (a int references referred)",
    "create trigger t after delete on plainly_referring for each row execute function on_row()",
    "create table \"Quoted\"\"Name\" (a int); create rule r as on delete to \"Quoted\"\"Name\" do also select locker(1)",
    "create extension file_fdw; create server files foreign data wrapper file_fdw",
    "create foreign table program (a text) server files options (program 'date')",
    "create foreign table file (a text) server files options (filename '/etc/passwd')",
    "create foreign data wrapper wrapper; create server wrapped foreign data wrapper wrapper",
    "create foreign table elsewhere (a text) server wrapped",
    "create table plain (a int)",
];

/// A table's trigger, rule, policy, default or condition takes a lock, and no text of the transaction mentions it.
#[test]
fn tables_are_followed() {
    let mut client = Client::new("relations", HIDDEN_BY_TABLES);
    for text in [
        "insert into parted values (2)",
        "insert into public.part_2 values (2)",
        "update parent set a = 1",
        "select * from over_it",
        "refresh materialized view kept",
        "insert into defaulted (a) values (1)",
        "insert into checked values (1)",
        "insert into ruled values (1)",
        "select * from guarded",
        "insert into indexed values (1)",
        "delete from partly",
        "insert into split values (1)",
        "insert into split_1 values (1)",
        "insert into computed (a) values (1)",
        "select 1::guarded_int",
        "select null::holder",
        "insert into with_domain values (null)",
        "create table new (a by_default)",
        "insert into with_when values (1)",
        "delete from referred",
        "delete from \"Quoted\"\"Name\"",
    ] {
        client.is_unsafe(text, Unsafe::SessionLock);
    }
    client.is_unsafe("truncate plain cascade", Unsafe::Function);
    client.is_unsafe("select * from program", Unsafe::OutsideEffect);
    client.is_unsafe("insert into elsewhere values ('a')", Unsafe::OutsideEffect);
    client.is_safe("select * from file");
    client.is_safe("insert into part_1 values (1)");
    client.is_safe("insert into plain values (1); select * from kept_by_nobody");
}

/// Effects several steps away: through types of types, foreign keys of foreign keys, triggers of views.
#[test]
fn long_ways_are_followed() {
    let mut client = Client::new(
        "long_ways",
        &[
            LOCKER,
            "create domain inner_d as int check (locker(value)); create domain outer_d as inner_d",
            "create type span as range (subtype = outer_d)",
            "create type whole as (a int, b span[])",
            "create table first (a int primary key)",
            "create table second (a int primary key references first on update cascade)",
            "create table third (a int references second on update set null)",
            "create function on_row() returns trigger language plpgsql as $$ begin perform locker(1); return new; end $$",
            "create trigger t after update on third for each row execute function on_row()",
            "create view seen as select 1 as a",
            "create trigger t instead of insert on seen for each row execute function on_row()",
            "create function called() returns void language plpgsql as $$ begin insert into seen values (1); end $$",
            "create function calling() returns void language plpgsql as $$ begin perform called(); end $$",
            "create table start (a int); create rule r as on insert to start do also select calling()",
        ],
    );
    for text in [
        "select null::whole",
        "select '{[1,2)}'::span_multirange",
        "update first set a = 2",
        "insert into seen values (1)",
        "insert into start values (1)",
    ] {
        client.is_unsafe(text, Unsafe::SessionLock);
    }
}
