//! The classes that texts set, by a statement or by a tag.

use super::*;

#[test]
fn classes_are_set_and_reset() {
    for sql in [
        "set plimsoll.class = 'high'",
        "SET PLIMSOLL.CLASS TO high",
        "set session plimsoll.class='high';",
        "set plimsoll.class = HIGH",
        "set \"plimsoll\".\"Class\" to \"high\"",
        "set \"plimsoll.class\" = 'high'",
        "set plimsoll /* x */ . class = 'high' -- y",
    ] {
        check(sql, "class Session high");
    }
    check("set local plimsoll.class = 'low'", "class Transaction low");
    check("set plimsoll.class = 'it''s'", "class Session it's");
    check("set plimsoll.class = 5", "class Session 5");
    check("set plimsoll.class to default", "class Session -");
    check("set local plimsoll.class to default", "class Transaction -");
    check("reset plimsoll.class", "class Session -");
    check("reset all", "class Session -");
    check("discard all", "class Session -; unsafe prepared-statement");
    for sql in [
        "set plimsoll.classes = 'high'",
        "set plimsoll = 'high'",
        "set plimsoll.class",
        "set plimsoll.class =",
        "set plimsoll.class = a, b",
        "set plimsoll.class a",
        "set class = 'high'",
        "set x.plimsoll.class = 'high'",
        "set session authorization plimsoll",
        "reset plimsoll.class x",
        "reset plimsoll",
        "select 'set plimsoll.class = a'",
        "update t set plimsoll.class = 'a'",
    ] {
        check(sql, "");
    }
}

#[test]
fn tags_stand_before_everything_or_after_it() {
    check("/*class='high'*/ begin", "begins; tag high");
    check("begin /*class='high'*/", "begins; tag high");
    check("begin\n/*class='high'*/;", "begins; tag high");
    check("begin; /*class='high'*/", "begins; tag high");
    check("select 1 /*action='a',class='h%C3%A4'*/ -- x", "tag hä");
    check("/*class='a'*/ select 1 /*class='b'*/", "tag a");
    check("/*no*/ /*class='a'*/ select 1", "tag a");
    check("select 1 /*class='b'*/ /*no*/", "tag b");
    check("/*class='a'*/", "tag a");
    check("select /*class='a'*/ 1", "");
    check("select 1 /*class='a'*/; select 2", "several");
    check("select '/*class=''a''*/'", "");
}
