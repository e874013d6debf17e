//! What a governor sees of sessions whose texts are not valid in the encoding of its own connection.

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_testing::until;

use super::beside::{CLASSES, beside_at, client, lever, open, server};
use super::process::{Governor, rows, socket, url};

/// One session with a letter that the control database's encoding has not, or that the server had cut in two, and the
/// governor saw no session at all: `SHOW LEVERS` and `/healthz` said that all was well.
#[test]
fn a_text_in_another_encoding_hides_no_session() {
    let (server, mut own) = server();
    own.run("create role \"j\u{f6}rg\" login").unwrap();
    for (name, encoding) in [("ascii", "SQL_ASCII"), ("japanese", "EUC_JP"), ("latin", "LATIN1")] {
        own.run(&format!("create database {name} encoding '{encoding}' locale 'C' template template0")).unwrap();
    }
    let latin = ServerUrl { database: "latin".to_owned(), ..url(&server, "shop") };
    let mut odd = Connection::open(&latin).unwrap();
    odd.run("begin; select '\u{e4}\u{f6}\u{fc}'").unwrap();
    // Of a text of 1023 bytes, an odd number of letters of two bytes.
    let mut cut = open(&server, "batch");
    cut.run(&format!("begin; select '{}'", "\u{e4}".repeat(2000))).unwrap();
    let plain = open(&server, "analyst");
    let jorg = open(&server, "j\u{f6}rg");
    for database in ["ascii", "japanese", "latin"] {
        let control = format!("postgres://{}@/{database}?{}", server.user(), socket(&server));
        let governor = Governor::start_with(beside_at(&control, CLASSES), false);
        governor.logged("are governed from now on");
        let mut admin = governor.console("admin");
        for (session, class) in [(&odd, "high"), (&cut, "batch"), (&plain, "report"), (&jorg, "report")] {
            until("every session to be seen", || client(&mut admin, session.process_id()).is_some());
            assert_eq!(client(&mut admin, session.process_id()).unwrap().0, class, "{database}");
        }
        let (works, why) = lever(&mut admin, "sessions");
        assert!(works, "{database}: {why}");
        drop(admin);
        governor.end();
    }
}

/// A monitor that goes blind reports it, and also when it sees again.
#[test]
fn a_governor_that_cannot_see_sessions_reports_it() {
    let (server, mut own) = server();
    own.run("grant pg_read_all_stats, pg_signal_backend to timid").unwrap();
    let control = format!("postgres://timid@/{}?{}", server.database(), socket(&server));
    let governor = Governor::start_with(beside_at(&control, CLASSES), false);
    governor.logged("are governed from now on");
    let shop = open(&server, "shop");
    let mut admin = governor.console("admin");
    until("the session to be seen", || client(&mut admin, shop.process_id()).is_some());
    own.run("revoke all on pg_catalog.pg_stat_activity from public, timid").unwrap();
    let state = |admin: &mut Connection| {
        let row = rows(admin, "SHOW LEVERS").into_iter().find(|row| row[0] == "sessions").expect("there is a row");
        (row[3].clone(), row[2].clone())
    };
    until("the lever to fail", || {
        let (state, why) = state(&mut admin);
        state == "failing" && why.contains("cannot be seen") && why.contains("permission denied")
    });
    assert_eq!(client(&mut admin, shop.process_id()), None, "what it did a while ago says nothing about now");
    own.run("grant select on pg_catalog.pg_stat_activity to public").unwrap();
    until("the lever to work", || state(&mut admin).0 == "works");
    until("the session to be seen again", || client(&mut admin, shop.process_id()).is_some());
    drop(admin);
    governor.end();
}
