//! One connection's bytes: a TCP or Unix socket, plain or with TLS above it, never blocking.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use socket2::{SockRef, TcpKeepalive};

/// Silence after which the kernel asks whether a peer is still there, and how often it asks again. A peer that has
/// vanished without a word holds its session, and with it locks, for about three minutes instead of two hours.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(120), Duration::from_secs(15));

/// A socket.
#[derive(Debug)]
pub(super) enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

/// A socket, and TLS if that is spoken over it.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    tls: Option<Box<Connection>>,
}

/// What a read has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    /// Bytes; 0 is the end.
    pub(super) bytes: usize,
    /// Nothing more is there now: no need to ask again before the next event.
    pub(super) is_drained: bool,
}

impl Socket {
    /// Small messages are sent at once, and peers that vanish are noticed.
    pub(super) fn tune(&self) {
        if let Socket::Tcp(stream) = self {
            let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE.0).with_interval(KEEP_ALIVE.1);
            // A socket without these still works; one that is gone already says so when it is read.
            let _ = stream.set_nodelay(true);
            let _ = SockRef::from(stream).set_tcp_keepalive(&keep_alive);
        }
    }

    /// Whether a connection that was begun stands; an error if it failed.
    pub(super) fn is_connected(&self) -> io::Result<bool> {
        let (error, peer) = match self {
            Socket::Tcp(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
            Socket::Unix(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
        };
        match (error, peer) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(true),
            (None, Err(error)) if error.kind() == ErrorKind::NotConnected => Ok(false),
            (None, Err(error)) => Err(error),
        }
    }
}

impl Wire {
    /// A socket that speaks plainly.
    pub(super) fn plain(socket: Socket) -> Self {
        Wire { socket, tls: None }
    }

    /// Speaks TLS from now on, as the server.
    pub(super) fn accept_tls(&mut self, settings: Arc<ServerConfig>) -> io::Result<()> {
        let connection = ServerConnection::new(settings).map_err(io::Error::other)?;
        self.tls = Some(Box::new(Connection::Server(connection)));
        Ok(())
    }

    /// Speaks TLS from now on, as the client, and says hello.
    pub(super) fn begin_tls(&mut self, settings: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<()> {
        let connection = ClientConnection::new(settings, name).map_err(io::Error::other)?;
        self.tls = Some(Box::new(Connection::Client(connection)));
        self.flush()
    }

    /// Whether TLS is spoken.
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The socket.
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Reads what is there; `WouldBlock` if nothing is.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Taken> {
        let Some(tls) = self.tls.as_mut() else {
            let bytes = read_again(|| self.socket.read(buffer))?;
            // Less than fits was all there was: what comes later, the end included, is told by another event.
            return Ok(Taken { bytes, is_drained: bytes < buffer.len() });
        };
        loop {
            // What rustls has deciphered must be taken before it is fed: no event tells that it is there.
            match tls.reader().read(buffer) {
                Ok(bytes) => return Ok(Taken { bytes, is_drained: false }),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Ok(Taken { bytes: 0, is_drained: false });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            read_again(|| tls.read_tls(&mut self.socket))?;
            let processed = tls.process_new_packets();
            // Answers of a handshake, new keys, or the alert that says what is wrong.
            send_tls(tls, &mut self.socket)?;
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }

    /// Writes as much as is taken now, which may be nothing.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = self.tls.as_mut() else {
            return match read_again(|| self.socket.write(bytes)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                written => written,
            };
        };
        let mut written = 0;
        loop {
            // Ciphertext is kept by rustls up to a bound; it takes nothing while that is reached.
            let taken = tls.writer().write(&bytes[written..])?;
            written += taken;
            send_tls(tls, &mut self.socket)?;
            if written == bytes.len() || taken == 0 || tls.wants_write() {
                return Ok(written);
            }
        }
    }

    /// Sends what TLS has kept.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| send_tls(tls, &mut self.socket))
    }

    /// Whether TLS has kept something that is to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Says that nothing more will be sent.
    pub(super) fn finish(&mut self) {
        if let Some(tls) = self.tls.as_mut() {
            tls.send_close_notify();
        }
        // Whoever has gone already need not be told.
        let _ = self.flush();
        let _ = match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

/// Sends ciphertext until none is left or no more is taken.
fn send_tls(tls: &mut Connection, socket: &mut Socket) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(socket) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Repeats what a signal has interrupted.
fn read_again(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write_vectored(slices),
            Socket::Unix(stream) => stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Wire {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => stream.register(registry, token, interest),
            Socket::Unix(stream) => stream.register(registry, token, interest),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => stream.reregister(registry, token, interest),
            Socket::Unix(stream) => stream.reregister(registry, token, interest),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => stream.deregister(registry),
            Socket::Unix(stream) => stream.deregister(registry),
        }
    }
}
