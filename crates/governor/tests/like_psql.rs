//! Texts are split into statements where PostgreSQL splits them: psql has the server's lexer, and sends one statement
//! at a time.
//!
//! Where psql ends a statement at a semicolon, so must we, because a COMMIT after it is a statement. The converse may
//! differ: psql counts parentheses and the words BEGIN, CASE and END everywhere, while we accept a semicolon within a
//! statement only where a rule or a function's body needs it.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::process::{Command, Stdio};

use plimsoll_governor::statement::{Encoding, Strings, TextRules, read, read_with};
use plimsoll_notation::sql::{Lexer, TokenKind};
use plimsoll_pg::connection::{Connection, TransactionState};
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Texts that affect a lexer. Backslashes and colons are special to psql.
const PARTS: &[&str] = &[
    "'", "''", "\"", "$$", "$a$", "$1", "$", "/*", "*/", "--", "\n", " ", "E'", "b'", "n'", "u&'", "U&\"", "a", "é",
    "_", "1", ".", "+", "-", "*", "/", "@", "=", "(", ")", ",", " begin ", " end ", " case ", "0x", "1e",
];

/// Within a function's body, semicolons do not end the statement.
const BEGINNINGS: &[&str] =
    &["", "", "", "create function f() begin atomic ", "create or replace procedure p() ", "create rule r do also ("];

/// How many statements psql sends: in a failed transaction each of them is an error.
fn sent_by_psql(server: &PrivateServer, sql: &str) -> usize {
    let mut psql = Command::new(server.installation().program("psql"));
    psql.arg("-h").arg(server.socket_folder()).args(["-p", &server.port().to_string(), "-U", server.user()]);
    psql.args(["-d", server.database(), "-Xq"]).env("PGCLIENTENCODING", "UTF8");
    let mut psql = psql.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = psql.stdin.take().unwrap();
    input.write_all(format!("begin;\nselect 1 / 0;\n{sql}").as_bytes()).unwrap();
    drop(input);
    let told = psql.wait_with_output().unwrap().stderr;
    let told = String::from_utf8_lossy(&told);
    let errors = told.lines().filter(|line| line.starts_with("ERROR:")).count();
    errors.checked_sub(1).unwrap_or_else(|| panic!("no division by zero: {told}"))
}

fn server() -> PrivateServer {
    let mut settings = ServerSettings::for_this_machine();
    settings.set("shared_buffers", "16MB").unwrap();
    PrivateServer::start(settings).unwrap_or_else(|error| panic!("this test needs PostgreSQL: {error}"))
}

#[test]
fn texts_have_several_statements_where_psql_sends_several() {
    let server = server();
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let (mut several, mut alike) = (0, 0);
    for _ in 0..120 {
        let length = random.random_range(1..16);
        let begin = BEGINNINGS[random.random_range(0..BEGINNINGS.len())];
        // Every fifth is a semicolon.
        let rest = (0..length).map(|_| match random.random_range(0..5) {
            0 => ";",
            _ => PARTS[random.random_range(0..PARTS.len())],
        });
        let sql: String = [begin].into_iter().chain(rest).collect();
        let last = Lexer::new(sql.as_bytes(), Strings::Standard).last();
        let is_open = last.is_some_and(|token| token.kind == TokenKind::Comment && !token.text.ends_with(b"*/"));
        // An open comment is ignored by us and an error to the server; a statement that ends the transaction is not an
        // error.
        if is_open || read(sql.as_bytes()).ends.is_some() {
            continue;
        }
        let sent = sent_by_psql(&server, &sql);
        let found = read(sql.as_bytes()).several;
        assert!(found || sent <= 1, "{sql:?}: psql sent {sent}");
        several += usize::from(sent > 1);
        alike += usize::from(found == (sent > 1));
    }
    assert!(alike > 60, "{alike} texts of 120 were cut alike");
    assert!((20..100).contains(&several), "{several} texts of 120 had several statements");
}

/// Beginnings of texts that are valid if the rest is.
const OPENINGS: &[&str] = &[
    "select '",
    "select e'",
    "select n'",
    "select u&'",
    "select \"",
    "select $a$",
    "select /* ",
    "select 1 -- ",
    "create function f(begin int) returns int language sql as '",
    "create function f() returns int begin atomic select case 1 when 1 then 2 end; select 1 as case; end; select '",
    "create function f() returns int begin atomic select 1 case; end; select '",
    "create rule r as on insert to t do also (select 1; notify a); select '",
];

/// Texts that may hide an end, or resemble one. The bytes of `Á` and `中` end with the first half of a character in
/// SJIS, and in BIG5, GBK and GB18030; a backslash is then its second half.
const HIDING: &[&str] =
    &["Á", "中", "\\", "\\", "'", "''", "\"", "$a$", "*/", "/*", "\n", " ", "a", ";", "; commit; ", "; commit; ", "--"];

/// Endings that complete a text, regardless of what is open.
const CLOSINGS: &[&str] = &[
    "",
    "'",
    "\"",
    "$a$",
    "*/ 1",
    "\n",
    "'; commit",
    "' --'",
    "'; commit; --'",
    "\\'; commit; --'",
    "Á\\'; commit; --'",
    "中\\'; commit; --'",
    "中'; commit; --'",
];

/// The client's encoding has characters whose second byte is a backslash, or backslashes escape, and a COMMIT that the
/// server carries out looks like part of a literal. The governor did not see it and replayed committed work.
#[test]
fn the_server_commits_nothing_unseen() {
    let server = server();
    let url = ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database());
    let mut connection = Connection::open(&url).unwrap();
    connection.run("create table t (a int)").unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(2);
    let (mut ended, mut missed) = (0, 0);
    for encoding in ["UTF8", "SJIS", "BIG5", "GBK", "GB18030", "LATIN1"] {
        for strings in ["on", "off"] {
            connection.run("reset client_encoding").unwrap();
            connection.run(&format!("set standard_conforming_strings = {strings}")).unwrap();
            connection.run("set escape_string_warning = off; set backslash_quote = on").unwrap();
            connection.run(&format!("set client_encoding = '{encoding}'")).unwrap();
            let rules = TextRules {
                strings: Strings::of_parameter(strings.as_bytes()),
                encoding: Encoding::of_parameter(encoding.as_bytes()),
            };
            for _ in 0..400 {
                let mut part = |parts: &[&'static str]| parts[random.random_range(0..parts.len())];
                let hiding = [part(HIDING), part(HIDING)];
                let sql = format!("{}{}{}", part(OPENINGS), hiding.concat(), part(CLOSINGS));
                connection.run("begin").unwrap();
                let _ = connection.run(&sql);
                let is_ended = connection.transaction_state() == TransactionState::Idle;
                let is_seen = read_with(sql.as_bytes(), rules).ends.is_some();
                assert!(is_seen || !is_ended, "{encoding}, standard_conforming_strings {strings}: {sql:?}");
                ended += u32::from(is_ended);
                missed += u32::from(is_ended && read(sql.as_bytes()).ends.is_none());
                connection.run("rollback").unwrap();
            }
        }
    }
    assert!(ended > 200, "the server ended {ended} of 4800 transactions");
    // Without the session's rules some would be missed, which shows that the test can fail.
    assert!(missed > 10, "of {ended} ends, {missed} are missed without the session's rules");
}
