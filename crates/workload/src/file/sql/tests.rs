//! SQL text as users type it, and the facts found in it.

use proptest::prelude::*;

use super::*;

#[test]
fn names_become_numbers() {
    let check = |text: &str, uses: Uses, sql: &str, names: &[&str]| {
        let found = translate(text, uses).unwrap();
        let found_names: Vec<&str> = found.parameters.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((found.sql.as_str(), &found_names[..]), (sql, names), "{text}");
    };
    check("SELECT :a, :b, :a", Uses::One, "SELECT $1, $2, $1", &["a", "b"]);
    check("SELECT :a, :b, :a", Uses::Each, "SELECT $1, $2, $3", &["a", "b", "a"]);
    check("SELECT ':a', x::int -- :b\n, :c::text", Uses::One, "SELECT ':a', x::int -- :b\n, $1::text", &["c"]);
    check("SELECT a[1:n], a[:lo: :hi], $$:x$$", Uses::One, "SELECT a[1:n], a[$1: $2], $$:x$$", &["lo", "hi"]);
    check("CALL f(a := :a)", Uses::One, "CALL f(a := $1)", &["a"]);
    assert_eq!(translate("SELECT $1, :a", Uses::One), Err(7));
}

#[test]
fn places_in_a_translation_are_found_in_what_was_typed() {
    let check = |text: &str, uses: Uses, place: usize, expect: Option<&str>| {
        assert_eq!(rest_at(text, uses, place), expect, "{text} {place}");
    };
    let text = "SELECT :first, :last, :first, é";
    check(text, Uses::One, 0, Some(text));
    check(text, Uses::One, 8, Some(":first, :last, :first, é"));
    // SELECT $1, $2, $1, é
    check(text, Uses::One, 11, Some(":last, :first, é"));
    check(text, Uses::One, 19, Some("é"));
    check(text, Uses::One, 20, None);
    let many = "f(:a,:a,:a,:a,:a,:a,:a,:a,:a,:a,b)";
    check(many, Uses::One, 32, Some("b)"));
    check(many, Uses::Each, 33, Some("b)"));
}

#[test]
fn constants_are_put_in() {
    let constants = [("scale", "4".to_owned())];
    assert_eq!(inline("SELECT 10 * :scale, ':scale'", &constants).unwrap(), "SELECT 10 * 4, ':scale'");
    assert_eq!(inline("SELECT :scal", &constants).unwrap_err(), ("scal".to_owned(), 7));
}

#[test]
fn scripts_are_cut_into_statements() {
    let check = |text: &str, expect: &[&str]| {
        let found: Vec<&str> = statements(text).into_iter().map(|span| &text[span]).collect();
        assert_eq!(found, expect, "{text}");
    };
    check("", &[]);
    check(" ;; -- nothing\n;", &[]);
    check("SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]);
    check("-- first\nSELECT 1 /* ; */ + 1 -- then\n;", &["SELECT 1 /* ; */ + 1"]);
    check("SELECT ';'; SELECT $$;$$", &["SELECT ';'", "SELECT $$;$$"]);
    check(
        "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);",
        &["CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)"],
    );
    let function =
        "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END";
    check(&format!("{function}; SELECT 3"), &[function, "SELECT 3"]);
    check("BEGIN; SELECT 1; END", &["BEGIN", "SELECT 1", "END"]);
    check("CREATE TABLE t (\"begin\" int); SELECT 1", &["CREATE TABLE t (\"begin\" int)", "SELECT 1"]);
}

#[test]
fn queries_are_told_from_changes() {
    for (sql, expect) in [
        ("SELECT 1", true),
        ("/* a */ (select 1)", true),
        ("select * from t for no key update", true),
        ("WITH a AS (SELECT 1) SELECT * FROM a", true),
        ("WITH a AS (SELECT 1) SELECT * FROM a FOR UPDATE", true),
        ("with a as (select 1) select * from a for no key update", true),
        ("WITH a AS (DELETE FROM t RETURNING 1) SELECT * FROM a", false),
        ("INSERT INTO t SELECT 1", false),
        ("TRUNCATE t", false),
        ("VALUES (1)", true),
    ] {
        assert_eq!(is_query(sql), expect, "{sql}");
    }
}

#[test]
fn what_can_be_tried_is() {
    for (sql, expect) in [
        ("SELECT 1", Trial::Prepare),
        ("SELEC 1", Trial::Prepare),
        ("WITH a AS (SELECT 1) SELECT * FROM a", Trial::Prepare),
        ("insert into t values (1)", Trial::Prepare),
        ("SET TRANSACTION READ ONLY", Trial::None),
        ("SAVEPOINT s", Trial::None),
        ("CREATE TEMP TABLE t (a int)", Trial::NoneOfAny),
        ("SELECT 1 AS a INTO t", Trial::NoneOfAny),
    ] {
        assert_eq!(trial(sql), expect, "{sql}");
    }
}

/// The column names that PostgreSQL gives; the test on a real server compares them.
#[test]
fn columns_have_the_names_that_postgresql_gives_them() {
    for (sql, expect) in [
        ("SELECT a, t.b, \"C\", t.\"D\" FROM t", Some(vec![Some("a"), Some("b"), Some("C"), Some("D")])),
        ("SELECT a AS x, b y, (1 + 2) z, a[1] w", Some(vec![Some("x"), Some("y"), Some("z"), Some("w")])),
        ("SELECT count(*), max(a) + 1, 1, 'a'", Some(vec![Some("count"), None, None, None])),
        ("SELECT a::int, CASE WHEN true THEN 1 END", Some(vec![Some("a"), Some("case")])),
        ("SELECT DISTINCT a FROM t", Some(vec![Some("a")])),
        ("SELECT DISTINCT ON (f(a), b) c FROM t", Some(vec![Some("c")])),
        ("SELECT ALL a", Some(vec![Some("a")])),
        ("WITH q AS (SELECT x, y FROM t) SELECT z FROM q", Some(vec![Some("z")])),
        ("INSERT INTO t SELECT 1 FROM s RETURNING id, now() AS at", Some(vec![Some("id"), Some("at")])),
        ("SELECT (SELECT a FROM t) AS a, extract(year FROM d) AS y FROM s", Some(vec![Some("a"), Some("y")])),
        ("SELECT a, * FROM t", None),
        ("SELECT t.* FROM t", None),
        ("UPDATE t SET a = 1", None),
        ("SELECT coalesce(sum(a), 0) FROM t", Some(vec![Some("coalesce")])),
        ("SELECT f(1) || g(2)", Some(vec![None])),
    ] {
        let expect = expect.map(|names| names.into_iter().map(|name| name.map(str::to_owned)).collect::<Vec<_>>());
        assert_eq!(columns(sql), expect, "{sql}");
    }
}

/// Pieces of SQL in which a colon has no meaning for us.
fn opaque() -> impl Strategy<Value = String> {
    prop_oneof![
        "'([a-z: ]|''){0,8}'",
        r"E'([a-z: ]|\\'){0,8}'",
        "\"[a-z: ]{1,8}\"",
        "\\$\\$[a-z: ']{0,8}\\$\\$",
        "\\$tag\\$[a-z: ']{0,8}\\$tag\\$",
        "--[a-z: '\"]{0,8}\n",
        "/\\*[a-z: '\"]{0,8}\\*/",
        "x::[a-z]{1,4}",
        "a\\[[0-9]:[a-z]\\]",
        "f\\(a := [0-9]\\)",
        "[a-z]{1,6}",
        "[0-9]{1,3}",
    ]
    .prop_map(|piece| format!("{piece} "))
}

proptest! {
    /// In any mixture with text in which colons have no meaning, exactly the parameters are replaced, in order.
    #[test]
    fn only_parameters_are_replaced(
        pieces in prop::collection::vec((opaque(), prop::option::of("[a-z_][a-z0-9_]{0,5}")), 0..12)
    ) {
        let (mut text, mut expect, mut names) = (String::new(), String::new(), Vec::<String>::new());
        for (opaque, name) in pieces {
            text += &opaque;
            expect += &opaque;
            if let Some(name) = name {
                text += &format!(":{name} ");
                names.push(name);
                expect += &format!("${} ", names.len());
            }
        }
        let found = translate(&text, Uses::Each).unwrap();
        prop_assert_eq!(&found.sql, &expect);
        let (found_names, places): (Vec<String>, Vec<usize>) = found.parameters.into_iter().unzip();
        prop_assert_eq!(&found_names, &names);
        for (name, place) in names.iter().zip(places) {
            prop_assert!(text[place + 1..].starts_with(name.as_str()));
        }
        // With one number per name, there are as many parameters as different names.
        let one = translate(&text, Uses::One).unwrap();
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        prop_assert_eq!(one.parameters.len(), distinct.len());
    }
}
