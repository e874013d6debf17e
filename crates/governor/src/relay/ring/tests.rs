//! The ring over pairs of Unix sockets. Where the system has no io_uring there is nothing to be tested.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use plimsoll_testing::{Need, skip};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn ring() -> Option<Ring> {
    Ring::new().inspect_err(|error| skip(Need::Uring, error)).ok()
}

/// A socket for the ring, and its peer.
fn sockets() -> (Arc<Socket>, UnixStream) {
    let (own, peer) = UnixStream::pair().unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    (Arc::new(Socket::Unix(mio::net::UnixStream::from_std(own))), peer)
}

/// Waits for that many results.
fn done(ring: &mut Ring, count: usize) -> Vec<(Token, Outcome)> {
    let (mut all, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while all.len() < count {
        assert!(Instant::now() < deadline, "waited in vain: {all:?}");
        ring.wait(Some(Duration::from_millis(100))).unwrap();
        ring.take_done(&mut all);
    }
    all
}

fn one(ring: &mut Ring) -> Outcome {
    let mut all = done(ring, 1);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0).1
}

#[test]
fn bytes_come_and_go_and_end() {
    let Some(mut ring) = ring() else { return };
    let (own, mut peer) = sockets();
    ring.receive(Token(1), &own, true);
    ring.send(Token(1), &own, b"hello".to_vec());
    assert!(matches!(one(&mut ring), Outcome::Sent(Ok(5), _)));
    let mut heard = [0; 5];
    peer.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
    peer.write_all(b"good day").unwrap();
    let Outcome::Received(Ok(bytes)) = one(&mut ring) else { panic!("not received") };
    assert_eq!(bytes, b"good day");
    ring.recycle(bytes);
    ring.receive(Token(1), &own, true);
    drop(peer);
    assert!(matches!(one(&mut ring), Outcome::Received(Ok(bytes)) if bytes.is_empty()));
    ring.send(Token(1), &own, b"too late".to_vec());
    assert!(matches!(one(&mut ring), Outcome::Sent(Err(_), _)));
}

#[test]
fn more_sockets_than_buffers_and_than_the_queue_is_long() {
    let Some(mut ring) = ring() else { return };
    let mut all: HashMap<usize, (Arc<Socket>, UnixStream)> = (0..700).map(|number| (number, sockets())).collect();
    for (number, (own, peer)) in &mut all {
        peer.write_all(&number.to_be_bytes()).unwrap();
        ring.receive(Token(*number), own, false);
    }
    let (mut missing, deadline) = (all.len(), Instant::now() + PATIENCE);
    while missing > 0 {
        assert!(Instant::now() < deadline, "{missing} are missing");
        for (token, outcome) in done(&mut ring, 1) {
            match outcome {
                Outcome::Received(Ok(bytes)) => {
                    assert_eq!(bytes, token.0.to_be_bytes());
                    ring.recycle(bytes);
                    missing -= 1;
                }
                // All buffers were in use; by now they are not.
                Outcome::NotReceived => ring.receive(token, &all[&token.0].0, false),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_hang_up_is_told_though_bytes_lie_unread() {
    let Some(mut ring) = ring() else { return };
    let (own, mut peer) = sockets();
    peer.write_all(b"unread").unwrap();
    ring.watch_hang_up(Token(1), &own);
    ring.wait(Some(Duration::from_millis(20))).unwrap();
    let mut nothing = Vec::new();
    ring.take_done(&mut nothing);
    assert!(nothing.is_empty(), "{nothing:?}");
    drop(peer);
    assert!(matches!(one(&mut ring), Outcome::HungUp));
}

/// Whoever gives up a socket shuts it down; its operations end, and with the last of them it is closed.
#[test]
fn a_socket_that_is_shut_down_is_closed_when_nothing_is_under_way() {
    let Some(mut ring) = ring() else { return };
    let (own, mut peer) = sockets();
    let watched = Arc::downgrade(&own);
    ring.receive(Token(1), &own, true);
    ring.watch_hang_up(Token(1), &own);
    // More than the socket takes.
    ring.send(Token(1), &own, vec![7; 4 << 20]);
    ring.wait(Some(Duration::ZERO)).unwrap();
    own.shut_down(std::net::Shutdown::Both);
    drop(own);
    assert_eq!(done(&mut ring, 3).len(), 3);
    assert!(watched.upgrade().is_none());
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < 4 << 20);
}

#[test]
fn a_ring_ends_what_is_under_way() {
    let Some(mut ring) = ring() else { return };
    let all: Vec<_> = (0..100).map(|_| sockets()).collect();
    let watched = Arc::downgrade(&all[0].0);
    for (own, _) in &all {
        ring.receive(Token(1), own, true);
        ring.watch_hang_up(Token(1), own);
    }
    // Some were handed over, some were not.
    ring.wait(Some(Duration::ZERO)).unwrap();
    ring.send(Token(1), &all[0].0, vec![7; 4 << 20]);
    let peers: Vec<UnixStream> = all.into_iter().map(|(_, peer)| peer).collect();
    drop(ring);
    assert!(watched.upgrade().is_none());
    drop(peers);
}

#[test]
fn others_are_told_of_once() {
    let Some(mut ring) = ring() else { return };
    let (own, mut peer) = sockets();
    ring.watch_others(own.as_raw_fd());
    peer.write_all(b"ding").unwrap();
    assert!(matches!(one(&mut ring), Outcome::Others));
    ring.wait(Some(Duration::from_millis(20))).unwrap();
    let mut nothing = Vec::new();
    ring.take_done(&mut nothing);
    assert!(nothing.is_empty(), "{nothing:?}");
}
