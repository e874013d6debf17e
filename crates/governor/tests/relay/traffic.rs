//! Bytes both ways: in pieces, in bulk, and of unknown kinds.

use std::io::{ErrorKind, Write};
use std::thread;

use crate::world::*;

/// The most that the kernel's buffers on both ways take, with those of the relay.
const BUFFERED_MAX: usize = 48 << 20;

/// Sends rows until none is taken for a while; returns how many bytes were taken.
fn fill(peer: &mut Peer, chunk: &[u8]) -> usize {
    peer.stream.wait(A_WHILE * 4);
    let mut taken = 0;
    loop {
        match again_if_interrupted(|| peer.stream.write(&chunk[taken % chunk.len()..])) {
            Ok(bytes) => taken += bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => panic!("{error}"),
        }
        assert!(taken < BUFFERED_MAX, "memory is not bounded");
    }
    peer.stream.wait(PATIENCE);
    taken
}

/// Reads `length` bytes, which must be repetitions of the chunk.
fn drain(peer: &mut Peer, chunk: &[u8], length: usize) {
    let mut buffer = vec![0; 1 << 16];
    let mut seen = 0;
    while seen < length {
        let wanted = buffer.len().min(length - seen);
        let bytes = peer.read(&mut buffer[..wanted]).unwrap();
        assert!(bytes > 0, "the end after {seen} of {length} bytes");
        for (at, byte) in buffer[..bytes].iter().enumerate() {
            assert_eq!(*byte, chunk[(seen + at) % chunk.len()], "byte {}", seen + at);
        }
        seen += bytes;
    }
}

#[test]
fn a_slow_reader_holds_up_its_server_and_gets_everything() {
    let world = World::new();
    let (mut client, mut server) = world.session("ann", &[1; 4]);
    client.send(&query("select lots"));
    server.message();
    let row = tagged(b'D', &(0..50_000_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>());
    let taken = fill(&mut server, &row);
    let rest = row.len() - taken % row.len();
    let tail = row[taken % row.len()..].to_vec();
    let sender = thread::spawn(move || {
        server.send(&tail);
        server.send(&done("SELECT"));
        server
    });
    drain(&mut client, &row, taken + rest);
    assert_eq!(client.until(b'Z'), done("SELECT"));
    let mut server = sender.join().unwrap();
    client.send(&query("select 1"));
    assert_eq!(server.message(), query("select 1"));
}

#[test]
fn a_slow_server_holds_up_its_client_and_gets_everything() {
    let world = World::new();
    let (mut client, mut server) = world.session("ann", &[1; 4]);
    client.send(&query("copy t from stdin"));
    server.message();
    server.send(&tagged(b'G', &[0, 0, 0]));
    client.until(b'G');
    let data = tagged(b'd', &(0..30_000_u32).map(|n| (n % 241) as u8).collect::<Vec<_>>());
    let taken = fill(&mut client, &data);
    let rest = data.len() - taken % data.len();
    let tail = data[taken % data.len()..].to_vec();
    let sender = thread::spawn(move || {
        client.send(&tail);
        client.send(&tagged(b'c', b""));
        client
    });
    drain(&mut server, &data, taken + rest);
    assert_eq!(server.message(), tagged(b'c', b""));
    server.send(&done("COPY 1"));
    assert_eq!(sender.join().unwrap().until(b'Z'), done("COPY 1"));
}

#[test]
fn messages_are_put_together_whatever_the_pieces() {
    let world = World::new();
    let (mut client, mut server) = world.session("ann", &[1; 4]);
    let long = query(&"x".repeat(200_000));
    for length in [1, 3, 4, 5, 6, 1000, 70_000] {
        for chunk in long.chunks(length.max(long.len() / 100)) {
            client.send(chunk);
        }
        assert_eq!(server.message(), long);
        let answer = [tagged(b'T', &[0; 300]), tagged(b'D', &[7; 100_000]), done("SELECT 1")].concat();
        for chunk in answer.chunks(length.max(answer.len() / 100)) {
            server.send(chunk);
        }
        assert_eq!(client.until(b'Z'), answer);
    }
}

#[test]
fn replication_and_break_glass_pass_untouched() {
    let world = World::new();
    // A message that no governor knows.
    let strange = [0xff, 1, 2, 3, 4, 5, 0, 0, 0, 0, 9];
    let replica = startup(&[("user", "ann"), ("replication", "database")]);
    for packet in [replica, startup(&[("user", "fireman")])] {
        let mut client = world.client();
        client.send(&packet);
        let mut server = world.accept();
        assert_eq!(server.packet(), packet);
        server.send(&welcome(&[1; 4]));
        client.until(b'Z');
        client.send(&strange);
        assert_eq!(server.bytes(strange.len()), strange);
        server.send(&strange);
        assert_eq!(client.bytes(strange.len()), strange);
        assert_eq!(world.governor.registry.len(), 1);
        drop(server);
        assert!(client.is_closed());
    }
}

#[test]
fn what_the_client_sends_before_it_is_let_in_is_passed_on_afterwards() {
    let world = World::new();
    let mut client = world.start_up(&[("user", "ann")]);
    client.send(&query("select early"));
    let mut server = world.accept();
    server.packet();
    assert!(server.is_silent());
    server.send(&welcome(&[1; 4]));
    assert_eq!(server.message(), query("select early"));
}

#[test]
fn who_does_not_speak_the_protocol_is_ended_alone() {
    let world = World::new();
    let (mut client, mut server) = world.session("ann", &[1; 4]);
    let (mut other, mut other_server) = world.session("bob", &[2; 4]);
    client.send(&[b'Q', 0, 0, 0, 1, 0]);
    assert_eq!(client.error().0, "08P01");
    assert!(server.is_closed());
    other.send(&query("select 1"));
    assert_eq!(other_server.message(), query("select 1"));
}
