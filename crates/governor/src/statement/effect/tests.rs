//! Every listed function exists in the server, and every volatile function of the server is listed.

use plimsoll_pg::connection::{Connection, SUPPORTED};
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

use super::*;

#[test]
fn every_function_is_found_by_its_first_letter() {
    let locks = SESSION_LOCKS.iter().map(|name| (*name, Unsafe::SessionLock));
    let seeded = SEEDED.iter().map(|name| (*name, Unsafe::Random));
    for (name, effect) in locks.chain(seeded).chain(BEGINNINGS.iter().copied()) {
        for text in [name.to_string(), name.to_uppercase(), format!("\"{name}\"")] {
            let kind = if text.starts_with('"') { TokenKind::Quoted } else { TokenKind::Word };
            let token = Token { kind, text: text.as_bytes() };
            assert_eq!(effect_of_function(&token), Some(effect), "{text}");
        }
    }
}

#[test]
fn other_functions_are_safe() {
    for name in ["nextval", "set_config", "pg_notify", "lower", "count", "coalesce", "table_name", "random_string"] {
        assert_eq!(effect_of_function(&Token { kind: TokenKind::Word, text: name.as_bytes() }), None, "{name}");
    }
    let hidden = Token { kind: TokenKind::Quoted, text: b"U&\"pg\\005fadvisory_lock\"" };
    assert_eq!(effect_of_function(&hidden), Some(Unsafe::OutsideEffect));
}

/// If a new version of PostgreSQL has a function that restarts something and the lists are not updated, a transaction
/// that calls it is replayed. Therefore this test fails until the function is on one of the lists.
#[test]
fn every_volatile_function_of_the_server_is_known() {
    check_functions(None);
    for folder in SUPPORTED.map_while(plimsoll_testing::postgres_version) {
        check_functions(folder.to_str());
    }
}

/// Compares the lists with the server whose programs are in the given directory, or with the installed one.
fn check_functions(programs: Option<&str>) {
    let mut settings = ServerSettings::for_this_machine();
    if let Some(programs) = programs {
        settings.set("bin_folder", programs).unwrap();
    }
    settings.set("shared_buffers", "16MB").unwrap();
    let server = PrivateServer::start(settings).expect("this test needs a PostgreSQL server");
    let url = ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database());
    let mut connection = Connection::open(&url).unwrap();
    let sql = "select distinct proname from pg_proc \
        where provolatile = 'v' and pronamespace = 'pg_catalog'::regnamespace and oid < 16384";
    let (mut count, mut unknown) = (0, Vec::new());
    let mut row = |row: &[Option<&str>]| {
        let name = row[0].expect("functions have names");
        count += 1;
        if !is_known_volatile(name.as_bytes()) {
            unknown.push(name.to_owned());
        }
    };
    connection.text_rows(sql, &mut row).unwrap();
    assert!(count > 100, "{count} volatile functions");
    assert!(unknown.is_empty(), "volatile and on no list, in {programs:?}: {unknown:?}");
}
