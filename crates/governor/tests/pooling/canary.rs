//! What one client leaves on a connection is gone before the next one comes. And a canary: with one of these steps skipped, the
//! checks must fail. A relay between the governor and its server makes that step another statement of the same length.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;

use memchr::memmem;
use plimsoll_governor::settings::Settings;
use plimsoll_pg::url::ServerHost;

use super::world::World;

/// A step that cleans, what it is replaced with, what two clients do one after the other, and what the first one then finds
/// of the second.
struct Step {
    text: &'static [u8],
    other: &'static [u8],
    own: &'static str,
    leave: &'static str,
    find: &'static str,
}

const STEPS: [Step; 3] = [
    Step {
        text: b"RESET \"",
        other: b"SHOW  \"",
        own: "SELECT 1",
        leave: "SET search_path = a",
        find: "SHOW search_path",
    },
    Step {
        text: b"pg_catalog.set_config(E'work_mem',",
        other: b"pg_catalog.set_config(E'work.mem',",
        own: "SET work_mem = '1MB'",
        leave: "SET work_mem = '2MB'",
        find: "SHOW work_mem",
    },
    Step {
        text: b"DISCARD SEQUENCES",
        other: b"SELECT 'sequence'",
        own: "SELECT 1",
        leave: "SELECT nextval('numbers')",
        find: "SELECT currval('numbers')",
    },
];

/// Relays to the server, with that text replaced in what the governor says. It stays until the test ends.
pub fn skip(settings: &mut Settings, text: &'static [u8], other: &'static [u8]) {
    let ServerHost::Socket(folder) = &settings.server.host else { panic!("the server has a socket") };
    let server = PathBuf::from(folder).join(format!(".s.PGSQL.{}", settings.server.port));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    settings.server.host = ServerHost::Tcp(address.ip().to_string());
    settings.server.port = address.port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let server = UnixStream::connect(&server).unwrap();
            thread::spawn(move || pass(client.unwrap(), server, text, other));
        }
    });
}

fn pass(mut client: TcpStream, mut server: UnixStream, text: &[u8], other: &[u8]) {
    let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut chunk = [0; 1 << 16];
    while let Ok(length @ 1..) = client.read(&mut chunk) {
        let passing = &mut chunk[..length];
        while let Some(place) = memmem::find(passing, text) {
            passing[place..place + other.len()].copy_from_slice(other);
        }
        if server.write_all(passing).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

/// What a client finds after another one, on the only connection of the pool: a value, or the SQLSTATE of its error.
fn found(world: &World, step: &Step) -> String {
    world.connection().run("CREATE SEQUENCE numbers; GRANT ALL ON numbers TO public").unwrap();
    let [mut one, mut other] = ["ann", "ann"].map(|user| world.client(user));
    one.query(step.own).unwrap();
    other.query(step.leave).unwrap();
    one.value(step.find).unwrap_or_else(|failure| failure.state().unwrap().to_owned())
}

#[test]
fn nothing_of_a_client_is_found_by_the_next() {
    let expect = ["\"$user\", public", "1MB", "55000"];
    for (step, expect) in STEPS.iter().zip(expect) {
        assert_eq!(found(&World::new(1, true, |_| {}), step), expect, "{}", step.leave);
        let relayed =
            World::new(1, true, |settings| skip(settings, b"no text of the governor's", b"NO TEXT OF THE GOVERNOR'S"));
        assert_eq!(found(&relayed, step), expect, "{}: the relay itself changes nothing", step.leave);
    }
}

/// Canary: each step is needed, and the check above fails without it.
#[test]
fn a_step_that_is_skipped_is_noticed() {
    let expect = ["a", "2MB", "1"];
    for (step, expect) in STEPS.iter().zip(expect) {
        assert_eq!(step.text.len(), step.other.len(), "messages keep their lengths");
        let world = World::new(1, true, |settings| skip(settings, step.text, step.other));
        assert_eq!(found(&world, step), expect, "{}: nobody has noticed", step.leave);
    }
}
