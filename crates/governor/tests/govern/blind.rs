//! What a governor sees of sessions whose texts are not valid in the encoding of its own connection.

use plimsoll_postgres::connection::Connection;
use plimsoll_postgres::url::ServerUrl;
use plimsoll_testing::until;

use super::beside::{CLASSES, beside_at, client, lever, open, server};
use super::process::{Governor, socket, url};

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
