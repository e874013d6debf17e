//! One of the two connections of a pair: bytes to be sent on it, and received bytes that wait.

use std::io;
use std::time::Duration;

use mio::{Interest, Registry, Token};

use super::wire::{Taken, Wire};
use crate::pool::link::Link;
use crate::session::Outbox;

/// How many bytes may wait for a slow peer; above this limit the other peer is not read.
pub(super) const PENDING_MAX: usize = 256 << 10;

/// The largest joined write; longer pieces are written by themselves.
const JOINED_MAX: usize = 16 << 10;

/// How long a peer may take to receive its last bytes.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// Spare buffers that a worker keeps.
const SPARE_MAX: usize = 16;

/// One connection of a pair.
#[derive(Debug)]
pub(super) struct Side {
    wire: Wire,
    token: Token,
    /// Bytes still to be sent, from index `sent` on.
    pending: Vec<u8>,
    sent: usize,
    /// Received bytes that no phase has accepted yet.
    pub(super) held: Vec<u8>,
    /// Complete messages are held, because the phase does not accept them now: they are offered again when that may
    /// have changed.
    pub(super) is_blocked: bool,
    /// The socket may have bytes to read.
    pub(super) is_readable: bool,
    /// The peer has closed its direction, or is gone.
    pub(super) is_hung_up: bool,
    /// The peer has closed both directions: it reads no more.
    pub(super) is_closed: bool,
    /// The connection has failed, for one because its peer has reset it.
    pub(super) is_reset: bool,
    /// The end was read: no more bytes can be read.
    pub(super) is_at_end: bool,
    /// Sending has failed: no more bytes can be sent.
    pub(super) is_deaf: bool,
    is_watched_for_room: bool,
    /// The connection is still being made: the socket becomes writable when it is established.
    pub(super) is_connecting: bool,
}

impl Side {
    /// Watches a connection. One that is still being made is also watched for its completion.
    pub(super) fn new(mut wire: Wire, token: Token, registry: &Registry, is_connecting: bool) -> io::Result<Self> {
        let interest = if is_connecting { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        registry.register(&mut wire, token, interest)?;
        Ok(Side {
            wire,
            token,
            pending: Vec::new(),
            sent: 0,
            held: Vec::new(),
            is_blocked: false,
            is_readable: false,
            is_hung_up: false,
            is_closed: false,
            is_reset: false,
            is_at_end: false,
            is_deaf: false,
            is_watched_for_room: is_connecting,
            is_connecting,
        })
    }

    pub(super) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// From now on its events have another token.
    pub(super) fn rename(&mut self, token: Token, registry: &Registry) -> io::Result<()> {
        self.token = token;
        let interest = self.interest();
        registry.reregister(&mut self.wire, token, interest)
    }

    /// Leaves a worker, for [`join`](Self::join).
    pub(super) fn leave(&mut self, registry: &Registry) -> io::Result<()> {
        registry.deregister(&mut self.wire)
    }

    /// Comes to another worker.
    pub(super) fn join(&mut self, token: Token, registry: &Registry) -> io::Result<()> {
        self.token = token;
        // What has arrived meanwhile is reported at once, since it is a new registration.
        let interest = self.interest();
        registry.register(&mut self.wire, token, interest)
    }

    fn interest(&self) -> Interest {
        if self.is_watched_for_room { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE }
    }

    /// Reads; `None` if no bytes are available.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.wire.read(buffer) {
            Ok(Taken { bytes, is_drained }) => {
                self.is_at_end = bytes == 0;
                // No event follows a hang-up, so the socket is read to its end.
                self.is_readable = bytes > 0 && (!is_drained || self.is_hung_up);
                Ok(Some(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_readable = false;
                Ok(None)
            }
            Err(error) => {
                (self.is_at_end, self.is_reset, self.is_readable) = (true, true, false);
                Err(error)
            }
        }
    }

    /// Reads what a peer has sent that has hung up, and keeps it. Returns whether its end was reached: otherwise there is
    /// no room for more.
    pub(super) fn read_ahead(&mut self, buffer: &mut [u8], held_max: usize, spare: &mut Spare) -> bool {
        while !self.is_at_end && self.held.len() <= held_max {
            match self.read(buffer) {
                Ok(Some(bytes)) => self.hold(&buffer[..bytes], spare),
                Ok(None) => return false,
                Err(_) => {}
            }
        }
        self.is_at_end
    }

    /// Whether the peer has ended the connection in any way.
    pub(super) fn has_left(&self) -> bool {
        self.is_hung_up || self.is_at_end || self.is_deaf
    }

    /// Whether the peer receives nothing any more.
    pub(super) fn is_lost(&self) -> bool {
        self.is_reset || self.is_deaf
    }

    /// Sends bytes, and keeps those that the socket does not accept now.
    pub(super) fn send(&mut self, bytes: &[u8], spare: &mut Spare) {
        if self.is_deaf || bytes.is_empty() {
            return;
        }
        let mut written = 0;
        if self.pending.is_empty() {
            match self.wire.write(bytes) {
                Ok(taken) => written = taken,
                // A disconnect is noticed by reading, since the peer's last bytes may still be unread.
                Err(_) => return self.turn_deaf(spare),
            }
        }
        if written < bytes.len() {
            if self.pending.capacity() == 0 {
                self.pending = spare.take();
            }
            // Sent bytes are discarded before they outnumber the waiting ones, or the buffer of a peer that never
            // catches up would grow without limit.
            if self.sent > self.pending.len() / 2 {
                self.pending.drain(..std::mem::take(&mut self.sent));
            }
            self.pending.extend_from_slice(&bytes[written..]);
        }
    }

    /// Sends the kept bytes.
    pub(super) fn flush(&mut self, spare: &mut Spare) {
        if self.is_deaf || self.wire.flush().is_err() {
            return self.turn_deaf(spare);
        }
        while self.sent < self.pending.len() {
            match self.wire.write(&self.pending[self.sent..]) {
                Ok(0) => return,
                Ok(taken) => self.sent += taken,
                Err(_) => return self.turn_deaf(spare),
            }
        }
        self.drop_pending(spare);
    }

    fn turn_deaf(&mut self, spare: &mut Spare) {
        (self.is_deaf, self.is_readable) = (true, true);
        self.drop_pending(spare);
    }

    fn drop_pending(&mut self, spare: &mut Spare) {
        self.sent = 0;
        spare.put(std::mem::take(&mut self.pending));
    }

    /// Keeps received bytes that no phase accepts yet.
    pub(super) fn hold(&mut self, bytes: &[u8], spare: &mut Spare) {
        if self.held.capacity() == 0 && !bytes.is_empty() {
            self.held = spare.take();
        }
        self.held.extend_from_slice(bytes);
    }

    pub(super) fn drop_held(&mut self, spare: &mut Spare) {
        spare.put(std::mem::take(&mut self.held));
    }

    /// How many bytes are still to be sent.
    pub(super) fn pending_len(&self) -> usize {
        self.pending.len() - self.sent
    }

    /// Whether reading from the other peer must wait.
    pub(super) fn is_full(&self) -> bool {
        self.pending_len() > PENDING_MAX
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.is_deaf || (self.pending.is_empty() && !self.wire.has_unsent())
    }

    /// Asks for writable events only while bytes are waiting: a Unix socket reports one with every read of its peer.
    pub(super) fn watch(&mut self, registry: &Registry) -> io::Result<()> {
        let for_room = self.is_connecting || !self.is_flushed();
        if for_room == self.is_watched_for_room {
            return Ok(());
        }
        self.is_watched_for_room = for_room;
        let interest = self.interest();
        registry.reregister(&mut self.wire, self.token, interest)
    }
}

/// Buffers for reuse, so that flowing traffic allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Spare(Vec<Vec<u8>>);

impl Spare {
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    pub(super) fn put(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < SPARE_MAX && (1..=PENDING_MAX * 2).contains(&buffer.capacity()) {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// Pieces that are sent together: a step's output for a peer is one write.
#[derive(Debug, Default)]
pub(super) struct Joined {
    client: Vec<u8>,
    server: Vec<u8>,
}

impl Joined {
    /// Discards the output of a step that panicked.
    pub(super) fn clear(&mut self) {
        self.client.clear();
        self.server.clear();
    }
}

/// Receives a step's output.
pub(super) struct Out<'a> {
    pub(super) client: Option<&'a mut Side>,
    pub(super) server: Option<&'a mut Side>,
    pub(super) joined: &'a mut Joined,
    pub(super) spare: &'a mut Spare,
    /// What stands before the server, for a session of a pool.
    pub(super) link: Option<&'a mut Link>,
}

impl Out<'_> {
    /// Sends the joined pieces.
    pub(super) fn finish(mut self) {
        deliver(self.server.as_deref_mut(), &mut self.joined.server, self.spare);
        deliver(self.client.as_deref_mut(), &mut self.joined.client, self.spare);
    }
}

impl Outbox for Out<'_> {
    fn to_server(&mut self, bytes: &[u8]) {
        let Out { server, joined, spare, link, .. } = self;
        let mut send = |bytes: &[u8]| join(server.as_deref_mut(), &mut joined.server, bytes, spare);
        match link {
            Some(link) => link.take(bytes, &mut send),
            None => send(bytes),
        }
    }

    fn to_client(&mut self, bytes: &[u8]) {
        join(self.client.as_deref_mut(), &mut self.joined.client, bytes, self.spare);
    }
}

fn join(side: Option<&mut Side>, joined: &mut Vec<u8>, bytes: &[u8], spare: &mut Spare) {
    if joined.len() + bytes.len() <= JOINED_MAX {
        return joined.extend_from_slice(bytes);
    }
    let Some(side) = side else { return joined.clear() };
    side.send(joined, spare);
    joined.clear();
    if bytes.len() <= JOINED_MAX {
        joined.extend_from_slice(bytes);
    } else {
        side.send(bytes, spare);
    }
}

fn deliver(side: Option<&mut Side>, joined: &mut Vec<u8>, spare: &mut Spare) {
    if let Some(side) = side {
        side.send(joined, spare);
    }
    joined.clear();
}
