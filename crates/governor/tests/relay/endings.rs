//! Clients, servers and governors that end.

use crate::world::*;

#[test]
fn a_client_that_vanishes_leaves_nothing_running() {
    let world = World::new();
    let (mut client, mut server) = world.session("ann", &[5; 4]);
    client.send(&query("select slow"));
    server.message();
    drop(client);
    assert_eq!(world.accept().packet(), cancel(&[5; 4]));
    assert!(server.is_closed());
}

#[test]
fn a_client_that_takes_its_leave_cancels_nothing() {
    let world = World::new();
    let (mut client, mut server) = world.session("ann", &[5; 4]);
    client.send(&[query("commit"), tagged(b'X', b"")].concat());
    drop(client);
    assert_eq!(server.message(), query("commit"));
    assert_eq!(server.message(), tagged(b'X', b""));
    assert!(server.is_closed());
    assert!(world.nobody_comes());
}

#[test]
fn an_idle_client_that_vanishes_cancels_nothing() {
    let world = World::new();
    let (client, mut server) = world.session("ann", &[5; 4]);
    drop(client);
    assert!(server.is_closed());
    assert!(world.nobody_comes());
    assert!(world.governor.registry.is_empty());
}

#[test]
fn the_servers_last_words_are_passed_on() {
    let world = World::new();
    let (mut client, mut server) = world.session("ann", &[5; 4]);
    client.send(&query("select 1"));
    server.message();
    let words = tagged(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0");
    server.send(&words);
    drop(server);
    assert_eq!(client.until(b'E'), words);
    assert!(client.is_closed());
    // Also if they arrive before the client has sent anything, and during a login.
    let mut client = world.start_up(&[("user", "ann")]);
    let mut server = world.accept();
    server.packet();
    server.send(&words);
    drop(server);
    assert_eq!(client.until(b'E'), words);
    assert!(client.is_closed());
}

#[test]
fn draining_ends_each_session_when_it_is_idle() {
    let world = World::new();
    let (mut idle, mut idle_server) = world.session("ann", &[1; 4]);
    let (mut busy, mut busy_server) = world.session("bob", &[2; 4]);
    busy.send(&query("begin"));
    busy_server.message();
    world.running.drain();
    assert_eq!(idle.error().0, "57P01");
    assert!(idle.is_closed() && idle_server.is_closed_after_leave());
    // New clients get the reason, and drivers with a list of servers try the next one.
    let mut late = world.start_up(&[("user", "carl")]);
    assert_eq!(late.error().0, "57P03");
    // A transaction in progress is completed.
    busy_server.send(&[tagged(b'C', b"BEGIN\0"), ready(b'T')].concat());
    assert_eq!(busy.until(b'Z')[11..], ready(b'T'));
    busy.send(&query("commit"));
    assert_eq!(busy_server.message(), query("commit"));
    busy_server.send(&done("COMMIT"));
    assert_eq!(busy.until(b'Z'), done("COMMIT"));
    assert_eq!(busy.error().0, "57P01");
    assert!(busy.is_closed());
    drop((idle, busy, late));
    world.running.join();
}

#[test]
fn stopping_ends_everything() {
    let world = World::new();
    let (mut client, mut server) = world.session("ann", &[1; 4]);
    client.send(&query("begin"));
    server.message();
    world.running.stop();
    assert!(client.is_closed());
    assert!(world.governor.registry.is_empty() || server.is_closed());
    world.running.join();
    assert!(world.governor.registry.is_empty());
}

impl Peer {
    /// Whether the other end closes, with or without a Terminate message.
    fn is_closed_after_leave(&mut self) -> bool {
        let mut all = Vec::new();
        let read = self.stream.read_to_end(&mut all);
        read.is_ok() && (all.is_empty() || all == tagged(b'X', b""))
    }
}
