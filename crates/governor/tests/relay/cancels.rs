//! A client's cancel reaches its own session's statement, and no other.

use crate::world::*;

/// A session with a query in flight, and a connection with a cancel for it that has reached the server.
fn cancelled(world: &World, key: &[u8]) -> (Peer, Peer, Peer, Peer) {
    let (mut client, mut server) = world.session("ann", key);
    client.send(&query("select slow"));
    server.message();
    let mut canceller = world.client();
    canceller.send(&cancel(key));
    let mut arrival = world.accept();
    assert_eq!(arrival.packet(), cancel(key));
    (client, server, canceller, arrival)
}

#[test]
fn nothing_is_sent_while_a_cancel_is_on_its_way() {
    for key in [&[1; 4][..], &[2; 256]] {
        let world = World::new();
        let (mut client, mut server, mut canceller, arrival) = cancelled(&world, key);
        // The statement ends before the cancel has arrived, and the client continues.
        server.send(&done("SELECT 1"));
        assert_eq!(client.until(b'Z'), done("SELECT 1"));
        client.send(&query("select next"));
        assert!(server.is_silent() && canceller.is_silent());
        // It has arrived: only now may the next statement be sent, and the client that cancelled is notified.
        drop(arrival);
        assert!(canceller.is_closed());
        assert_eq!(server.message(), query("select next"));
        server.send(&done("SELECT 2"));
        assert_eq!(client.until(b'Z'), done("SELECT 2"));
    }
}

#[test]
fn a_cancel_goes_on_when_its_sender_has_gone() {
    let world = World::new();
    let (mut client, mut server, canceller, arrival) = cancelled(&world, &[1; 4]);
    drop(canceller);
    server.send(&done("SELECT 1"));
    client.until(b'Z');
    client.send(&query("select next"));
    assert!(server.is_silent());
    drop(arrival);
    assert_eq!(server.message(), query("select next"));
}

#[test]
fn wrong_keys_and_idle_sessions_are_not_passed_on() {
    let world = World::new();
    let (_client, _server) = world.session("ann", &[1; 4]);
    for key in [&[2; 4][..], &[1; 5], &[1; 4]] {
        let mut canceller = world.client();
        canceller.send(&cancel(key));
        assert!(canceller.is_closed());
    }
    assert!(world.nobody_comes());
}

#[test]
fn a_cancel_during_which_the_server_goes_does_no_harm() {
    let world = World::new();
    let (mut client, server, mut canceller, arrival) = cancelled(&world, &[1; 4]);
    drop(server);
    assert!(client.is_closed());
    drop(arrival);
    assert!(canceller.is_closed());
    let _next = world.session("ann", &[1; 4]);
}

/// The work of a user in `break_glass` is not tracked, and so its cancels were never passed on.
#[test]
fn users_in_break_glass_can_cancel() {
    let world = World::new();
    let (mut fireman, mut server) = world.session("fireman", &[1; 4]);
    fireman.send(&query("select slow"));
    server.message();
    let mut canceller = world.client();
    canceller.send(&cancel(&[1; 4]));
    let mut arrival = world.accept();
    assert_eq!(arrival.packet(), cancel(&[1; 4]));
    drop(arrival);
    assert!(canceller.is_closed());
}
