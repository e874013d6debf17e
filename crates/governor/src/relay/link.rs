//! What TLS, or plain speech, reads from and writes to: a socket, called directly or through a ring.
//!
//! Through a ring, what comes is received ahead (one buffer at most) and what goes is collected while the last of it is
//! being sent. Nothing here calls the system then: [`Link::go_on`] asks the ring for what is due, and the worker says what
//! has come of it.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::ring::{Outcome, Ring};
use super::socket::Socket;

/// Bytes that are collected while others are being sent.
const OUTBOX_MAX: usize = 64 << 10;

/// A socket, and how it is called.
#[derive(Debug)]
pub(super) struct Link {
    socket: Arc<Socket>,
    /// What a ring has received and is to send; `None` while the socket is called directly.
    lane: Option<Box<Lane>>,
}

/// Bytes on their way through a ring.
#[derive(Debug, Default)]
struct Lane {
    /// What has come, read up to `read`.
    inbox: Vec<u8>,
    read: usize,
    /// What is to be sent next.
    outbox: Vec<u8>,
    is_receiving: bool,
    is_sending: bool,
    /// A hang-up is watched for, or was told of.
    is_watched: bool,
    /// All that was there has been received.
    is_drained: bool,
    /// What follows the inbox: the end, or an error.
    end: Option<io::Result<()>>,
    /// Why nothing more can be sent.
    broken: Option<ErrorKind>,
}

impl Link {
    /// Called directly.
    pub(super) fn new(socket: Socket) -> Self {
        Link { socket: Arc::new(socket), lane: None }
    }

    /// The socket.
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether a ring receives and sends for it.
    pub(super) fn is_on_ring(&self) -> bool {
        self.lane.is_some()
    }

    /// From now on a ring receives and sends for it; it is not to be called otherwise, nor to be watched.
    pub(super) fn board(&mut self) -> io::Result<()> {
        // The kernel waits in our stead, which it would not for one that is never to be waited for.
        self.socket.options().set_nonblocking(false)?;
        self.lane = Some(Box::default());
        Ok(())
    }

    /// All that has come, if a ring has received it and nothing of it was read.
    pub(super) fn take_received(&mut self) -> Option<Vec<u8>> {
        let lane = self.lane.as_mut().filter(|lane| lane.read == 0 && !lane.inbox.is_empty())?;
        Some(mem::take(&mut lane.inbox))
    }

    /// Whether something is collected, or being sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.lane.as_ref().is_some_and(|lane| lane.is_sending || !lane.outbox.is_empty())
    }

    /// Asks the ring for what is due: to send what was collected, and to receive if `wants_more` and nothing is left to be
    /// read. While nothing is received, a hang-up is watched for.
    pub(super) fn go_on(&mut self, token: Token, ring: &mut Ring, wants_more: bool) {
        let Some(lane) = &mut self.lane else { return };
        if !lane.is_sending && !lane.outbox.is_empty() && lane.broken.is_none() {
            lane.is_sending = true;
            ring.send(token, &self.socket, mem::take(&mut lane.outbox));
        }
        if lane.read == lane.inbox.len() {
            lane.read = 0;
            ring.recycle(mem::take(&mut lane.inbox));
        } else if lane.inbox.capacity() > 2 * lane.inbox.len() {
            // It may lie here for long, and large buffers are few.
            let rest = lane.inbox[mem::take(&mut lane.read)..].to_vec();
            ring.recycle(mem::replace(&mut lane.inbox, rest));
        }
        if lane.is_receiving || lane.end.is_some() {
            return;
        }
        if lane.inbox.is_empty() && wants_more {
            lane.is_receiving = true;
            ring.receive(token, &self.socket, lane.is_drained);
        } else if !mem::replace(&mut lane.is_watched, true) {
            ring.watch_hang_up(token, &self.socket);
        }
    }

    /// What the ring has done; whether the peer has hung up.
    pub(super) fn on_outcome(&mut self, outcome: Outcome, ring: &mut Ring) -> bool {
        let Some(lane) = &mut self.lane else { return false };
        match outcome {
            Outcome::Received(Ok(bytes)) if bytes.is_empty() => {
                (lane.is_receiving, lane.end) = (false, Some(Ok(())));
                ring.recycle(bytes);
                true
            }
            Outcome::Received(Ok(bytes)) => {
                (lane.is_receiving, lane.is_drained) = (false, bytes.len() < bytes.capacity());
                lane.inbox = bytes;
                false
            }
            Outcome::Received(Err(error)) => {
                (lane.is_receiving, lane.end) = (false, Some(Err(error)));
                true
            }
            Outcome::NotReceived => {
                (lane.is_receiving, lane.is_drained) = (false, false);
                false
            }
            Outcome::Sent(Ok(sent), mut bytes) => {
                lane.is_sending = false;
                if sent < bytes.len() {
                    bytes.drain(..sent);
                    bytes.append(&mut lane.outbox);
                    lane.outbox = bytes;
                }
                false
            }
            Outcome::Sent(Err(error), _) => {
                (lane.is_sending, lane.broken) = (false, Some(error.kind()));
                lane.outbox = Vec::new();
                false
            }
            // It is not watched for again: what has hung up stays so, and would be told of at once, for ever.
            Outcome::HungUp => true,
            Outcome::Others => false,
        }
    }

    /// Says that nothing more will be sent, after what was collected since all else was sent.
    pub(super) fn finish(&mut self) {
        if let Some(lane) = self.lane.as_mut().filter(|lane| !lane.is_sending) {
            // The last word of TLS, for which there is room: its peer has taken everything before it.
            let last = mem::take(&mut lane.outbox);
            let _ = self.socket.options().send_with_flags(&last, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        }
        self.socket.shut_down(Shutdown::Write);
    }
}

impl Drop for Link {
    /// What a ring has under way keeps the socket open; this ends it.
    fn drop(&mut self) {
        if self.lane.is_some() {
            self.socket.shut_down(Shutdown::Both);
        }
    }
}

impl Lane {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.inbox[self.read..];
        if rest.is_empty() {
            return match &mut self.end {
                None => Err(ErrorKind::WouldBlock.into()),
                Some(end) => mem::replace(end, Ok(())).map(|()| 0),
            };
        }
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.read += length;
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(kind) = self.broken {
            return Err(kind.into());
        }
        let length = bytes.len().min(OUTBOX_MAX.saturating_sub(self.outbox.len()));
        if length == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.outbox.extend_from_slice(&bytes[..length]);
        Ok(length)
    }
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.lane {
            None => (&*self.socket).read(buffer),
            Some(lane) => lane.read(buffer),
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.lane {
            None => (&*self.socket).write(bytes),
            Some(lane) => lane.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(lane) = &mut self.lane else { return (&*self.socket).write_vectored(slices) };
        let mut written = 0;
        for slice in slices {
            match lane.write(slice) {
                Ok(length) => written += length,
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// Nothing is kept that could be sent now; an error if nothing can be sent any more.
    fn flush(&mut self) -> io::Result<()> {
        match self.lane.as_ref().and_then(|lane| lane.broken) {
            None => Ok(()),
            Some(kind) => Err(kind.into()),
        }
    }
}

impl Source for Link {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        SourceFd(&self.socket.as_raw_fd()).register(registry, token, interest)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        SourceFd(&self.socket.as_raw_fd()).reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.socket.as_raw_fd()).deregister(registry)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use plimsoll_testing::{Need, skip};

    use super::*;

    /// A link on a ring, and its peer; none where there is no io_uring.
    fn boarded() -> Option<(Ring, Link, UnixStream)> {
        let ring = Ring::new().inspect_err(|error| skip(Need::Uring, error));
        let (own, peer) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let mut link = Link::new(Socket::Unix(mio::net::UnixStream::from_std(own)));
        link.board().unwrap();
        Some((ring.ok()?, link, peer))
    }

    /// Hands the link what has happened within a moment; how much that was.
    fn attend(ring: &mut Ring, link: &mut Link) -> usize {
        let mut done = Vec::new();
        for _ in 0..5 {
            ring.wait(Some(Duration::from_millis(10))).unwrap();
            ring.take_done(&mut done);
        }
        let count = done.len();
        for (_, outcome) in done {
            link.on_outcome(outcome, ring);
        }
        count
    }

    /// Watched for anew each time, it was told of anew each time, and kept a core busy until the rest was read.
    #[test]
    fn a_hang_up_behind_unread_bytes_is_told_of_once() {
        let Some((mut ring, mut link, mut peer)) = boarded() else { return };
        link.go_on(Token(1), &mut ring, true);
        peer.write_all(b"unread").unwrap();
        assert_eq!(attend(&mut ring, &mut link), 1);
        link.go_on(Token(1), &mut ring, false);
        drop(peer);
        assert_eq!(attend(&mut ring, &mut link), 1, "the hang-up");
        for _ in 0..3 {
            link.go_on(Token(1), &mut ring, false);
            assert_eq!(attend(&mut ring, &mut link), 0);
        }
        assert_eq!(link.take_received().as_deref(), Some(&b"unread"[..]));
        link.go_on(Token(1), &mut ring, true);
        assert_eq!(attend(&mut ring, &mut link), 1, "the end");
        assert_eq!(link.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn what_is_written_is_collected_up_to_a_bound_and_sent_in_order() {
        let Some((mut ring, mut link, mut peer)) = boarded() else { return };
        let (mut sent, mut heard) = (Vec::new(), Vec::new());
        peer.set_nonblocking(true).unwrap();
        for turn in 0..400_u32 {
            let piece = vec![turn as u8; 3000];
            match link.write(&piece) {
                Ok(length) => sent.extend_from_slice(&piece[..length]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            assert!(link.lane.as_ref().unwrap().outbox.len() <= OUTBOX_MAX);
            link.go_on(Token(1), &mut ring, false);
            ring.wait(Some(Duration::ZERO)).unwrap();
            let mut done = Vec::new();
            ring.take_done(&mut done);
            for (_, outcome) in done {
                link.on_outcome(outcome, &mut ring);
            }
            // It reads late, so that the link is full now and then.
            if turn % 100 == 99 {
                let _ = peer.read_to_end(&mut heard);
            }
        }
        while link.has_unsent() {
            attend(&mut ring, &mut link);
            link.go_on(Token(1), &mut ring, false);
            let _ = peer.read_to_end(&mut heard);
        }
        let _ = peer.read_to_end(&mut heard);
        assert!(sent.len() < 400 * 3000, "it was never full");
        assert!(sent == heard);
        drop(peer);
        link.write_all(b"to nobody").unwrap();
        link.go_on(Token(1), &mut ring, false);
        attend(&mut ring, &mut link);
        assert!(link.flush().is_err() && link.write(b"more").is_err());
    }
}
