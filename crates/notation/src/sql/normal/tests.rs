//! Normal forms of texts, and which texts have the same.

use proptest::prelude::*;

use super::*;

#[test]
fn texts_have_their_normal_form() {
    let check = |sql: &str, expect: &str| assert_eq!(normalised(sql.as_bytes()), expect, "{sql}");
    check("SELECT  1", "select ?");
    check("select a.\"B c\", x::int4[] from T as a", "select a.\"B c\", x::int4[] from t as a");
    check("insert into t(a,b) values(1,'x'),(2,'y')", "insert into t(a, b) values (?)");
    check("insert into t values (1, now()), (2, now())", "insert into t values (?, now()), (?, now())");
    check("insert into t values (1), (a), (2)", "insert into t values (?), (a), (?)");
    check("insert into t values (1, 2), (3, a)", "insert into t values (?), (?, a)");
    check("insert into t values (1), (2, 3", "insert into t values (?), (?");
    check("insert into t values (1), (2, 3,", "insert into t values (?), (?,");
    check("select f(1, 2), g()", "select f(?, ?), g()");
    check("select (1), (2), 3", "select (?), ?");
    check("select * from t where a in (1, 2, b, 3)", "select * from t where a in (?, b, ?)");
    check("select array[1,2], a[1]", "select array[?], a[?]");
    check("select -1, a -1, a - -1, (-1), -a", "select ?, a - ?, a - ?, (?), - a");
    check("where x=-1 and y<-1 limit +5", "where x = ? and y < ? limit ?");
    check("select E'\\'', $$;$$, U&'x', 1.5e3, $7", "select ?, ?, ?, ?, ?");
    check(";; begin ;; commit;;", "begin; commit");
    check("select 1 /* a; b */ -- c\n+ 2", "select ? + ?");
    check("select a->>'k', b || c", "select a ->> ?, b || c");
    check("SELECT Ä", "select Ä");
    check("", "");
    check("(((1,2)))", "(((?)))");
    check("select in (1", "select in (?");
    check("in (1, 2);in (3), (4)", "in (?); in (?)");
    assert_eq!(normalised(b"select \xff"), "select \u{fffd}");
}

#[test]
fn texts_that_differ_only_in_values_are_alike() {
    let check = |one: &str, other: &str| {
        assert_eq!(fingerprint(one.as_bytes()), fingerprint(other.as_bytes()), "{one} | {other}");
    };
    check("select a from t where b = 1", "SELECT a\n\tFROM t WHERE b='x;y'");
    check("select 1", "select /* why */ $1;");
    check("update t set a = -5 where b = 7", "update t set a = 5 where b = -7");
    check("select a from t where b in (1)", "select a from t where b in (1,2,\n3)");
    check("insert into t values (1, 2)", "insert into t values (1, 2), (3, 4), (5, 6)");
    check("begin", "BEGIN /*class='high'*/;");
}

#[test]
fn other_texts_differ() {
    let texts = [
        "select a from t",
        "select b from t",
        "select a from \"T\"",
        "select a from \"t\"",
        "select a from t where b = 1",
        "select a from t where b = c",
        "select a from t where b = 1 or c = 1",
        "select a from t where b is null",
        "select f(1)",
        "select f(1, 2)",
        "select a - 1",
        "select a, -1",
        "begin; commit",
        "begin commit",
        "",
    ];
    for (at, one) in texts.iter().enumerate() {
        for other in &texts[..at] {
            assert_ne!(fingerprint(one.as_bytes()), fingerprint(other.as_bytes()), "{one} | {other}");
        }
    }
}

/// Rules in files contain these numbers: they must never change.
#[test]
fn fingerprints_stay_as_they_are() {
    let check = |sql: &str, expect: u64| assert_eq!(fingerprint(sql.as_bytes()), expect, "{sql}");
    check("", 0xe3b0_c442_98fc_1c14);
    check("SELECT 1", 0xe1c7_1d16_61ae_46e0);
    check("INSERT INTO \"T\" (a) VALUES (1, $2), ('x', 2)", 0x40c4_a8f7_6488_57c8);
    check(
        "select count(*) from orders o join lines l on l.order_id = o.id where o.day > now() - interval '7 days'",
        0x8fd9_4b43_53d0_a9e8,
    );
}

#[test]
fn key_words_are_in_order_and_in_lower_case() {
    assert!(BEFORE_EXPRESSIONS.is_sorted());
    assert!(BEFORE_EXPRESSIONS.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
}

proptest! {
    #[test]
    fn any_bytes_have_a_fingerprint_which_is_that_of_their_normal_form(sql in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut text = Vec::new();
        Normaliser::new(&sql, |bytes: &[u8]| text.extend_from_slice(bytes)).run();
        let hash = Sha256::digest(&text);
        prop_assert_eq!(&fingerprint(&sql).to_be_bytes()[..], &hash[..8]);
        // At most three bytes for each token: itself, a space, and a semicolon or comma.
        prop_assert!(text.len() <= 3 * sql.len());
    }

    /// White space, comments, the case of letters, and values make no difference.
    #[test]
    fn what_is_said_otherwise_is_alike(words in prop::collection::vec(0..9_usize, 0..30), seed in any::<u64>()) {
        const WAYS: [[&str; 3]; 9] = [
            ["select", "SELECT", "Select"],
            ["1", "'it''s; (select'", "$1"],
            ["(", " (\n", "("],
            [")", ")", " )"],
            [",", " , ", ", /* , */"],
            ["a.b", "A . B", "a.B"],
            ["\"Q\"", "\"Q\" ", " \"Q\""],
            ["=", " = ", "= --x\n"],
            ["in", "IN", "/*/**/*/in"],
        ];
        let say = |mut seed: u64| {
            let mut said = Vec::new();
            for word in &words {
                said.push(WAYS[*word][(seed % 3) as usize]);
                seed = seed.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
            said.join(" ")
        };
        let (one, other) = (say(0), say(seed));
        prop_assert_eq!(normalised(one.as_bytes()), normalised(other.as_bytes()), "{} | {}", one, other);
    }
}
