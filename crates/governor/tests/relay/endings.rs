//! Clients, servers and governors that end.

use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use crate::world::*;

/// Statements of these sessions are read, and a block is known as one.
fn reading() -> World {
    World::with(|settings| settings.classes.iter_mut().for_each(|class| class.retry_aborted = 1))
}

/// A client, its handle for closing, and its connection at the server.
fn session(world: &World, key: &[u8]) -> (Peer, TcpStream, Peer) {
    let stream = TcpStream::connect(world.address()).unwrap();
    let handle = stream.try_clone().unwrap();
    let mut client = Peer::new(stream);
    client.send(&startup(&[("user", "ann")]));
    let mut server = world.accept();
    server.packet();
    let_in(&mut client, &mut server, key);
    (client, handle, server)
}

fn begin(client: &mut Peer, server: &mut Peer) {
    client.send(&query("begin"));
    assert_eq!(server.message(), query("begin"));
    server.send(&[tagged(b'C', b"BEGIN\0"), ready(b'T')].concat());
    client.until(b'Z');
}

/// Nothing of a block outlasts its client: its statement would only hold locks.
#[test]
fn a_client_that_vanishes_within_a_block_leaves_nothing_running() {
    let world = reading();
    let (mut client, mut server) = world.session("ann", &[5; 4]);
    begin(&mut client, &mut server);
    client.send(&query("select slow"));
    server.message();
    drop(client);
    assert_eq!(world.accept().packet(), cancel(&[5; 4]));
    assert!(server.is_closed());
}

/// A client sent an INSERT and closed its connection, as scripts do that wait for no answer. The governor cancelled the
/// statement, and dropped what it had not sent yet. A server runs all that it has received.
#[test]
fn what_a_client_has_sent_is_run_although_it_has_gone() {
    let commit = || query("insert 2; commit");
    for sent in [vec![query("insert")], vec![query("begin"), commit()], vec![query("insert 1"), commit()]] {
        let world = reading();
        let (mut client, mut server) = world.session("ann", &[5; 4]);
        client.send(&sent.concat());
        drop(client);
        for message in &sent {
            assert_eq!(server.message(), *message);
            server.send(&done("INSERT 0 1"));
        }
        assert!(server.is_closed() && world.nobody_comes());
        until("the session to end", || world.governor.registry.is_empty());
    }
}

/// A client closed only its direction, and waited for its answers (`nc -N`, shell scripts). It received none.
#[test]
fn a_client_that_only_ceases_to_send_gets_its_answers() {
    let world = reading();
    let (mut client, handle, mut server) = session(&world, &[5; 4]);
    client.send(&query("select 1"));
    handle.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.message(), query("select 1"));
    server.send(&done("SELECT 1"));
    assert_eq!(client.until(b'Z'), done("SELECT 1"));
    assert!(client.is_closed() && server.is_closed());
    // Within a block, too: it is asked whether it still reads, which changes nothing for it.
    let (mut client, handle, mut server) = session(&world, &[6; 4]);
    begin(&mut client, &mut server);
    client.send(&query("select 2"));
    handle.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.message(), query("select 2"));
    assert_eq!(client.message(), tagged(b'S', b"integer_datetimes\0on\0"));
    assert!(world.nobody_comes());
    server.send(&[tagged(b'C', b"SELECT 1\0"), ready(b'T')].concat());
    assert_eq!(client.until(b'Z')[..1], *b"C");
    assert!(client.is_closed() && server.is_closed());
}

/// A transaction that waits for admission is work that the client has handed over, unless it is a block that the server
/// would roll back, or the client has reset the connection.
#[test]
fn the_queue_keeps_what_a_server_would_have_run_and_no_more() {
    let world = World::with(|settings| settings.classes[1].limits.mpl = Some(1));
    let (mut holder, mut holder_server) = world.session("ann", &[1; 4]);
    begin(&mut holder, &mut holder_server);
    let queued = |count: usize| until("the queue", || world.governor.waiting().len() == count);
    let (mut client, _handle, mut server) = session(&world, &[2; 4]);
    client.send(&query("insert"));
    queued(1);
    drop((client, _handle));
    let (mut client, handle, mut block_server) = session(&world, &[3; 4]);
    client.send(&query("begin"));
    queued(2);
    drop((client, handle));
    queued(1);
    assert!(block_server.is_closed());
    let (mut client, handle, mut reset_server) = session(&world, &[4; 4]);
    client.send(&query("insert too"));
    queued(2);
    SockRef::from(&handle).set_linger(Some(Duration::ZERO)).unwrap();
    drop((client, handle));
    queued(1);
    assert!(reset_server.is_closed());
    holder.send(&query("commit"));
    holder_server.message();
    holder_server.send(&done("COMMIT"));
    assert_eq!(server.message(), query("insert"));
    server.send(&done("INSERT 0 1"));
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

/// A server stopped at once, and its clients saw a closed connection without a reason: the warning had been withheld with
/// the answer of a statement that commits by itself, or was lost because the connection was reset.
#[test]
fn the_servers_last_words_are_passed_on_however_it_ends() {
    let row = tagged(b'T', &[0, 0]);
    let warning = tagged(b'N', b"SWARNING\0VWARNING\0C57P01\0Mterminating connection\0\0");
    for is_reset in [false, true] {
        let world = reading();
        let (mut client, mut server) = world.session("ann", &[5; 4]);
        client.send(&query("select slow"));
        if !is_reset {
            server.message();
        }
        server.send(&[row.clone(), warning.clone()].concat());
        drop(server);
        assert_eq!(client.until(b'N'), [row.clone(), warning.clone()].concat());
        assert!(client.is_closed());
    }
    // An answer without a warning is not lost, either.
    let world = reading();
    let (mut client, mut server) = world.session("ann", &[5; 4]);
    client.send(&query("select slow"));
    server.message();
    server.send(&row);
    drop(server);
    assert_eq!(client.message(), row);
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
