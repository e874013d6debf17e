//! Cancels for sessions of other governors behind the same address.
//!
//! A client sends its cancel to the address that it knows, and a load balancer may give it to any governor there. One
//! that does not know the key passes the cancel on to every peer, in a request of its own kind, so that no peer passes
//! it on again. The client's connection stays open until all peers have closed theirs: PostgreSQL carries a cancel out
//! before it closes the connection, and libpq relies on that. A client does not learn which peer knew its key, or
//! whether one did.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Governor, SessionCommand, WorkerCommand};
use crate::registry::Phase;
use crate::relay::FORWARDED_CANCEL;
use crate::settings::Peer;

/// How many cancels may be on their way at once. Anyone may send cancels, and each takes a connection to every peer.
const UNDER_WAY_MAX: usize = 32;

/// How long a connection to a peer may take, and the cancel at the peer.
const CONNECT_MAX: Duration = Duration::from_secs(2);
const CANCEL_MAX: Duration = Duration::from_secs(10);

/// Cancels that are on their way to peers.
#[derive(Debug, Default)]
pub(crate) struct Peers(Arc<AtomicUsize>);

/// Counts a cancel for as long as it is on its way.
struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Peers {
    pub(super) fn under_way(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Passes a cancel on to all peers, and keeps the client's connection until they are done. Returns whether it did:
    /// not if there are no peers, or too many cancels are on their way.
    pub(super) fn pass_on(&self, peers: &[Peer], process: i32, secret: &[u8], client: OwnedFd) -> bool {
        if peers.is_empty() {
            return false;
        }
        // Relaxed: a count, which orders nothing.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let under_way = UnderWay(self.0.clone());
        if before >= UNDER_WAY_MAX {
            return false;
        }
        let (peers, request) = (peers.to_vec(), request(process, secret));
        let deliver = move || {
            std::thread::scope(|scope| {
                for peer in &peers {
                    let request = &request;
                    scope.spawn(move || {
                        if let Err(error) = deliver(peer, request) {
                            tracing::debug!(%peer, "a cancel was not passed on: {error}");
                        }
                    });
                }
            });
            drop((client, under_way));
        };
        std::thread::Builder::new().name("peers".to_owned()).spawn(deliver).is_ok()
    }
}

impl Governor {
    /// A client cancels with a key that no session here has: an earlier governor may have it, or a peer, unless it was a
    /// peer that has passed the cancel on. Returns whether one exists.
    pub(crate) fn cancel_elsewhere(
        &self,
        process: i32,
        secret: &[u8],
        is_forwarded: bool,
        client: BorrowedFd<'_>,
    ) -> bool {
        let mut predecessors = self.predecessors.lock();
        predecessors.retain(|predecessor| predecessor.cancel(process, secret, client));
        let is_asked = !is_forwarded && self.ask_peers(process, secret, client);
        is_asked || !predecessors.is_empty()
    }

    /// How many cancels are on their way to peers.
    pub(crate) fn cancels_at_peers(&self) -> usize {
        self.peers.under_way()
    }

    fn ask_peers(&self, process: i32, secret: &[u8], client: BorrowedFd<'_>) -> bool {
        let Ok(client) = client.try_clone_to_owned() else { return false };
        self.peers.pass_on(&self.settings().listen.peers, process, secret, client)
    }

    /// A client of a session here has cancelled at a later governor.
    pub(crate) fn cancel_from_elsewhere(&self, process: i32, secret: &[u8], client: OwnedFd) {
        // Every earlier governor is asked, so another one may have the session.
        let Some(card) = self.registry.by_key(process, secret) else { return };
        if card.state().phase == Phase::Queued {
            crate::statistics::count(&self.statistics.client_cancels);
            self.tell(card.worker, card.id, SessionCommand::ClientCancelled);
        } else if let Some(worker) = self.workers.get().and_then(|workers| workers.get(card.worker)) {
            worker.send(WorkerCommand::Cancel(card, client));
        }
    }
}

/// The request that passes a cancel on.
fn request(process: i32, secret: &[u8]) -> Vec<u8> {
    let mut request = (12 + secret.len() as u32).to_be_bytes().to_vec();
    request.extend(FORWARDED_CANCEL.to_be_bytes());
    request.extend(process.to_be_bytes());
    request.extend(secret);
    request
}

/// Sends the request and waits until the peer closes the connection.
fn deliver(peer: &Peer, request: &[u8]) -> io::Result<()> {
    match peer {
        Peer::Tcp(address) => {
            let mut stream = Err(io::Error::other("its name has no address"));
            for address in address.to_socket_addrs()? {
                stream = TcpStream::connect_timeout(&address, CONNECT_MAX);
                if stream.is_ok() {
                    break;
                }
            }
            let stream = stream?;
            stream.set_read_timeout(Some(CANCEL_MAX))?;
            exchange(stream, request)
        }
        Peer::Socket(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(CANCEL_MAX))?;
            exchange(stream, request)
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> io::Result<()> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    // An answer is an error of a peer that knows no such request.
    match stream.take(1024).read_to_end(&mut answer) {
        Ok(0) => Ok(()),
        Ok(_) => Err(io::Error::other("it does not know the request; give all governors the same version")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A peer, and a client that waits.
    fn world() -> (TcpListener, Peer, UnixStream, OwnedFd) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let peer = Peer::Tcp(listener.local_addr().unwrap().to_string());
        let (client, ours) = UnixStream::pair().unwrap();
        (listener, peer, client, ours.into())
    }

    #[test]
    fn a_client_waits_until_every_peer_is_done() {
        let (listener, peer, mut client, ours) = world();
        let gone = Peer::Socket("/nonexistent/.s.PGSQL.1".into());
        let peers = Peers::default();
        assert!(peers.pass_on(&[gone, peer], 7, &[1; 4], ours));
        let (mut arrived, _) = listener.accept().unwrap();
        let mut request = [0; 16];
        arrived.read_exact(&mut request).unwrap();
        assert_eq!(request, [0, 0, 0, 16, 4, 210, 22, 45, 0, 0, 0, 7, 1, 1, 1, 1]);
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(client.read(&mut [0]).is_err(), "it waits");
        drop(arrived);
        client.set_read_timeout(None).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "it is told by the end of its connection alone");
    }

    #[test]
    fn a_flood_of_cancels_is_bounded() {
        let (listener, peer, _client, ours) = world();
        let peers = Peers::default();
        assert!(!peers.pass_on(&[], 7, &[1; 4], ours.try_clone().unwrap()), "there are no peers");
        let mut passed = 0;
        for _ in 0..2 * UNDER_WAY_MAX {
            passed += usize::from(peers.pass_on(std::slice::from_ref(&peer), 7, &[1; 4], ours.try_clone().unwrap()));
        }
        assert_eq!(passed, UNDER_WAY_MAX);
        // Those that have ended make room.
        for _ in 0..passed {
            drop(listener.accept().unwrap());
        }
        plimsoll_testing::until("they end", || peers.0.load(Ordering::Relaxed) == 0);
        assert!(peers.pass_on(std::slice::from_ref(&peer), 7, &[1; 4], ours));
    }
}
