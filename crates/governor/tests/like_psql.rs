//! Texts are cut into statements where PostgreSQL cuts them: psql's lexer is the server's, and it sends one at a time.
//!
//! Where psql takes a semicolon for the end of a statement, so must we: a COMMIT after it is one. The other way round there may
//! be a difference: psql counts parentheses and the words BEGIN, CASE and END wherever they stand, while we take a semicolon for
//! part of a statement only where a rule or a function's body needs it.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::process::{Command, Stdio};

use plimsoll_governor::statement::lexer::{Kind, Lexer};
use plimsoll_governor::statement::{Strings, read};
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What matters to a lexer. Backslashes and colons are psql's own.
const PARTS: &[&str] = &[
    "'", "''", "\"", "$$", "$a$", "$1", "$", "/*", "*/", "--", "\n", " ", "E'", "b'", "n'", "u&'", "U&\"", "a", "é",
    "_", "1", ".", "+", "-", "*", "/", "@", "=", "(", ")", ",", " begin ", " end ", " case ", "0x", "1e",
];

/// Within a function's body, semicolons end nothing.
const BEGINNINGS: &[&str] =
    &["", "", "", "create function f() begin atomic ", "create or replace procedure p() ", "create rule r do also ("];

/// How many statements psql sends: in a transaction that has failed each of them is an error.
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

#[test]
fn texts_have_several_statements_where_psql_sends_several() {
    let mut settings = ServerSettings::for_this_machine();
    settings.set("shared_buffers", "16MB").unwrap();
    let server = PrivateServer::start(settings).unwrap_or_else(|error| panic!("this test needs PostgreSQL: {error}"));
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
        let is_open = last.is_some_and(|token| token.kind == Kind::Comment && !token.text.ends_with(b"*/"));
        // An open comment is nothing to us and an error to the server; what ends the transaction is no error.
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
