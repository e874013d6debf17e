//! Verdicts are about the code that has run, not about what the catalogs say later.

use super::*;

const CODE: &[&str] = &[
    "create schema first; create schema second; create schema third",
    "create function second.send(int) returns int language sql as 'select 1'",
    "create function third.send(int) returns int language sql as 'select 2'",
    "create table second.mails (a int default 1, b text); create view second.seen as select a from second.mails",
    "create type second.kind as enum ('a'); create table second.kinds (k second.kind)",
    "create domain second.amount as int",
    "create function second.of_kind(second.kind) returns int language sql as 'select 1'",
    "alter table second.mails enable row level security",
    "create table second.parted (a int) partition by list (a)",
    "create table second.part (a int)",
    "create function second.on_row() returns trigger language plpgsql as $$ begin return new; end $$",
    "set search_path = first, second, public",
];

const TEXT: &str = "insert into mails (b) values ('x'); select send(1), a from seen; select k = k from kinds; \
    insert into parted values (1::amount)";

/// A transaction sent a mail by a function. Before it was rolled back, or between its run and the inquiry, an administrator
/// replaced the function by a harmless one. The verdict was about the new one, and the mail was sent twice.
#[test]
fn code_that_was_changed_since_a_transaction_began_proves_nothing() {
    let changes = [
        "create or replace function second.send(int) returns int language sql as 'select 3'",
        "create function first.send(int) returns int language sql as 'select 3'",
        "alter function second.send(int) volatile",
        "create or replace view second.seen as select a + 1 as a from second.mails",
        "alter table second.mails alter column a set default 2",
        "alter table second.mails add check (a > 0)",
        "create trigger t before insert on second.mails for each row execute function second.on_row()",
        "create rule r as on insert to second.mails do also nothing",
        "create policy p on second.mails using (true)",
        "create index on second.mails (abs(a))",
        "alter domain second.amount add check (value > 0)",
        "create cast (second.kind as int) with function second.of_kind as implicit",
        "alter table second.parted attach partition second.part for values in (1)",
        "alter schema first rename to fourth; alter schema third rename to first",
        "create function second.same(second.kind, second.kind) returns bool language sql as 'select true'; \
         create operator second.= (leftarg = second.kind, rightarg = second.kind, function = second.same)",
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut client = Client::new(&format!("changed_{number}"), CODE);
        client.begins();
        client.is_safe(TEXT);
        client.another().run(change).unwrap();
        client.is_unsafe(TEXT, Unsafe::ChangedCode);
        client.begins();
        client.is_safe(TEXT);
    }
}

/// A GRANT rewrites the table's row in the catalog, and an inquiry once took that for a change of code. A relation that comes
/// under the name changes the row type.
#[test]
fn a_grant_on_a_table_changes_no_code_and_a_new_name_does() {
    for (number, (change, expect)) in [
        ("grant select on second.mails, second.seen to public; revoke select on second.mails from public", Ok(())),
        ("alter table second.mails rename to letters; alter table second.letters rename to mails", Err(())),
        ("alter table second.mails set schema third; alter table third.mails set schema second", Err(())),
        ("alter view second.seen rename to a; alter view second.a rename to seen", Err(())),
        ("create table first.mails (b text)", Err(())),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = Client::new(&format!("granted_{number}"), CODE);
        client.begins();
        client.is_safe(TEXT);
        client.another().run(change).unwrap();
        let verdict = client.verdict(&[TEXT]);
        assert_eq!(verdict.map_err(|because| assert_eq!(because, Unsafe::ChangedCode)).map(|_| ()), expect, "{change}");
    }
}

/// The forecast has the number of the last change.
#[test]
fn the_last_change_is_known_from_a_forecast() {
    let mut client = Client::new("last_change", CODE);
    let before = client.last();
    client.run("create or replace function second.send(int) returns int language sql as 'select 3'");
    let after = client.last();
    client.run("create table second.others (a int)");
    client.is_safe(TEXT);
    assert!(before < client.newest && client.newest < after, "{before} {} {after}", client.newest);
}

/// The change is of a transaction that began earlier, is of a subtransaction, or ends as a prepared one.
#[test]
fn changes_count_from_their_commit() {
    let mut client = Client::new("committed_later", CODE);
    let last = client.last();
    let mut another = client.another();
    another
        .run(
            "begin; do $$ begin create or replace function second.send(int) returns int language sql as 'select 3'; \
        exception when others then raise; end $$",
        )
        .unwrap();
    client.begins_after(last);
    client.is_safe(TEXT);
    another.run("commit").unwrap();
    client.is_unsafe(TEXT, Unsafe::ChangedCode);
    client.begins();
    client.is_safe(TEXT);
}

/// Without a horizon, with that of another server, or with one that is ahead of the server, nothing shows what has run.
#[test]
fn a_horizon_of_another_server_proves_nothing() {
    let mut client = Client::new("another_server", CODE);
    client.begins();
    let horizon = client.horizon.unwrap();
    for wrong in [horizon.to_bits() ^ (1 << 60), horizon.to_bits() + 1_000_000] {
        client.horizon = Horizon::from_bits(wrong);
        client.is_unsafe(TEXT, Unsafe::ChangedCode);
    }
    client.horizon = None;
    let mut unknown = inquiry(TEXT).of_transaction(None);
    assert!(matches!(unknown.next(), Next::Ask(_)), "the answer shows a horizon for later transactions");
    unknown.on_row(&[Some(b"g"), None, Some(b"200"), Some(b"path"), Some(b"1"), Some(b"150")]);
    unknown.on_answered(true);
    assert_eq!(unknown.next(), Next::Known(Err(Unsafe::ChangedCode)));
    assert_eq!(unknown.seen_horizon(), Horizon::new(150, 1));
}

/// A finding is confirmed by one question, for every transaction that began after the code was last changed.
#[test]
fn a_finding_is_confirmed_by_one_question() {
    let mut client = Client::new("confirmed", CODE);
    client.begins();
    let older = client.horizon;
    client.is_safe(TEXT);
    assert!(client.questions > 2);
    client.is_safe(TEXT);
    assert_eq!(client.questions, 1);
    // Changes of other code do not matter.
    client.run(
        "create table second.others (a int); create function third.others() returns int language sql as 'select 1'",
    );
    client.is_safe(TEXT);
    assert_eq!(client.questions, 1);
    client.run("create or replace function second.send(int) returns int language sql as 'select 3'");
    client.begins();
    client.is_safe(TEXT);
    assert!(client.questions > 2, "the finding was about another function");
    client.is_safe(TEXT);
    assert_eq!(client.questions, 1);
    client.horizon = older;
    client.is_unsafe(TEXT, Unsafe::ChangedCode);
    client.begins();
    client.run("set search_path = third, second, public");
    client.is_safe(TEXT);
    assert!(client.questions > 2, "the names mean something else");
}

/// A transaction could be replayed, and its function was replaced by one that takes a lock. The finding was kept for a
/// second, and the lock was taken twice.
#[test]
fn a_finding_is_not_used_for_other_code() {
    let mut client = Client::new("other_code", CODE);
    client.begins();
    client.is_safe(TEXT);
    client.another().run(LOCKER).unwrap();
    let calls =
        "create or replace function second.send(int) returns int language sql as 'select public.locker(1)::int'";
    client.another().run(calls).unwrap();
    client.begins();
    client.is_unsafe(TEXT, Unsafe::SessionLock);
}
