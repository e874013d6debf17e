//! One connection's socket: TCP or Unix, never blocking.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::sockopt::socket_peercred;
use rustix::process::Uid;
use socket2::{SockRef, TcpKeepalive};

/// Idle time after which the kernel probes whether a peer is alive, and the interval between probes. A peer that has
/// vanished silently keeps its session, and its locks, for about three minutes instead of two hours.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(120), Duration::from_secs(15));

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Sends small messages at once, and detects peers that vanish.
    pub(super) fn tune(&self) {
        if let Socket::Tcp(stream) = self {
            let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE.0).with_interval(KEEP_ALIVE.1);
            // A socket without these options still works; a closed one reports so when it is read.
            let _ = stream.set_nodelay(true);
            let _ = SockRef::from(stream).set_tcp_keepalive(&keep_alive);
        }
    }

    /// Whether the connection is established; an error if it failed.
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

    /// Its own address; `None` for a Unix socket.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(stream) => stream.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    /// The IP address at the other end; `None` for a Unix socket.
    pub(super) fn peer_ip(&self) -> Option<IpAddr> {
        match self {
            Socket::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip()),
            Socket::Unix(_) => None,
        }
    }

    /// The account at the other end of a Unix socket, as the kernel knows it.
    pub(super) fn peer_account(&self) -> Option<Uid> {
        match self {
            Socket::Tcp(_) => None,
            Socket::Unix(stream) => socket_peercred(stream).ok().map(|peer| peer.uid),
        }
    }

    /// Closes one direction or both. Errors of a peer that is gone are ignored.
    pub(super) fn shut_down(&self, how: Shutdown) {
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Socket::Tcp(stream) => stream.as_raw_fd(),
            Socket::Unix(stream) => stream.as_raw_fd(),
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

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.register(registry, token, interest),
            Socket::Unix(stream) => stream.register(registry, token, interest),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.reregister(registry, token, interest),
            Socket::Unix(stream) => stream.reregister(registry, token, interest),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.deregister(registry),
            Socket::Unix(stream) => stream.deregister(registry),
        }
    }
}
