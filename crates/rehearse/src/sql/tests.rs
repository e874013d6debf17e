//! Texts and what is known of them without a server.

use super::*;

/// The contexts of a text's values: `value=column`, `?` for unknown, `#` for an amount.
fn contexts(sql: &str) -> String {
    let all = statements(sql.as_bytes());
    let places = all.iter().flat_map(|statement| &statement.places);
    let shown = |place: &Place| {
        let context = match &place.context {
            Context::Column(name) => name.as_str(),
            Context::Unknown => "?",
            Context::Amount => "#",
        };
        format!("{}={context}", &sql[place.range.clone()])
    };
    places.map(shown).collect::<Vec<_>>().join(" ")
}

#[test]
fn values_have_the_columns_that_they_are_compared_with() {
    for (sql, expect) in [
        ("select * from orders o where o.id = 57 and state <> 'new' limit 10", "57=id 'new'=state 10=#"),
        ("select 1 from t where $1 = order_id and a in ($2, $3) and b not in (4)", "1=? $1=order_id $2=a $3=a 4=b"),
        ("update items set stock = stock - 3, seen = 7 where id between 5 and 6", "3=# 7=seen 5=id 6=id"),
        (
            "insert into lines (order_id, item, n) values ($1, 'x', 2), ($2, lower('Y'), 3 + 4)",
            "$1=order_id 'x'=item 2=n $2=order_id 'Y'=? 3=# 4=#",
        ),
        ("select f(57), x from t where id = any ($1)", "57=? $1=id"),
        ("select 1; delete from t where \"Id\" = '5'::int", "1=? '5'=Id"),
        ("insert into t values (1, 2)", "1=? 2=?"),
    ] {
        assert_eq!(contexts(sql), expect, "{sql}");
    }
}

#[test]
fn tables_and_acts_are_seen() {
    let seen = |sql: &str| {
        let one = statements(sql.as_bytes()).remove(0);
        format!("{:?} {}", one.act, one.tables.join(" "))
    };
    for (sql, expect) in [
        ("select a from orders, customers c join shop.items on x = y", "Read customers items orders"),
        ("insert into orders (id) select id from old", "Write old orders"),
        ("select id from t for update", "Read t"),
        ("update only t set a = 1", "Write t"),
        ("with x as (delete from t returning id) select * from x", "Write t x"),
        ("insert into t (a) values (1) on conflict do update set a = 2", "Write t"),
        ("select nextval('t_id_seq')", "Write "),
        ("BEGIN", "Control "),
        ("set search_path = shop", "Control "),
        ("create table t (a int)", "Write t"),
        ("call pay(3)", "Write "),
    ] {
        assert_eq!(seen(sql), expect, "{sql}");
    }
}

#[test]
fn what_cannot_be_replayed_is_known_by_its_words() {
    for (sql, expect) in [
        ("LISTEN jobs", Some(Reason::Notification)),
        ("select pg_notify('a', 'b')", Some(Reason::Notification)),
        ("PREPARE TRANSACTION 'x'", Some(Reason::TwoPhase)),
        ("COMMIT PREPARED 'x'", Some(Reason::TwoPhase)),
        ("alter role ann password '<secret>'", Some(Reason::Secret)),
        ("create database x", Some(Reason::Administration)),
        ("select pg_terminate_backend(17)", Some(Reason::Administration)),
        ("copy t from '/tmp/x'", Some(Reason::ServerFile)),
        ("copy t from stdin", None),
        ("copy t to stdout", None),
        ("rollback to savepoint a", None),
        ("prepare p as select 1", None),
    ] {
        assert_eq!(statements(sql.as_bytes())[0].unfit, expect, "{sql}");
    }
}

#[test]
fn sequences_and_columns_of_inserts_are_named() {
    let one = |sql: &str| statements(sql.as_bytes()).remove(0);
    assert_eq!(one("select nextval('public.orders_id_seq')").sequence.as_deref(), Some("orders_id_seq"));
    let insert = one("INSERT INTO shop.orders AS o (customer, \"Note\") VALUES (1, 'x') RETURNING id");
    let columns = vec!["customer".to_owned(), "Note".to_owned()];
    assert_eq!(insert.inserted, Some(("orders".to_owned(), columns)));
    assert!(insert.has_returning && insert.may_return && !insert.is_volatile);
    assert!(one("select now()").is_volatile && one("select * from t where d < 'today'").is_volatile);
}

#[test]
fn names_match_by_table() {
    let tables = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let check = |used: &str, used_in: &[&str], made: &str, made_in: &[&str], expect: bool| {
        let found = names_match(used, &tables(used_in), made, &tables(made_in));
        assert_eq!(found, expect, "{used} of {used_in:?}, {made} of {made_in:?}");
    };
    check("id", &["orders"], "id", &["orders"], true);
    check("id", &["customers"], "id", &["orders"], false);
    check("order_id", &["lines"], "id", &["orders"], true);
    check("o_id", &["lines"], "o_id", &["orders"], true);
    check("kind", &["items"], "id", &["orders"], false);
    check("category_id", &["items"], "id", &["categories"], true);
}
