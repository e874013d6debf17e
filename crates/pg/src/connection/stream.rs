//! The stream to a server: a socket of this machine, TCP, or TLS above it.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use crate::url::{ServerHost, ServerUrl};

#[derive(Debug)]
pub(super) enum Stream {
    /// A socket of this machine.
    Socket(UnixStream),
    /// TCP.
    Tcp(TcpStream),
    /// TCP, encrypted.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects, but sends nothing yet; every read and write may take as long as connecting may.
    pub(super) fn open(url: &ServerUrl) -> io::Result<Self> {
        let stream = match &url.host {
            ServerHost::Socket(_) => Stream::Socket(UnixStream::connect(url.socket().expect("it is a socket"))?),
            ServerHost::Tcp(host) => {
                let stream = connect_any(host, url.port, url.connect_timeout)?;
                // A statement is a message that waits for its answer, so delaying it to collect more data gains
                // nothing.
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        };
        stream.set_timeout(Some(url.connect_timeout))?;
        Ok(stream)
    }

    /// How long each read and write may take; `None` for no limit.
    pub(super) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Socket(stream) => stream.set_read_timeout(timeout).and(stream.set_write_timeout(timeout)),
            Stream::Tcp(stream) => stream.set_read_timeout(timeout).and(stream.set_write_timeout(timeout)),
            Stream::Tls(stream) => stream.sock.set_read_timeout(timeout).and(stream.sock.set_write_timeout(timeout)),
        }
    }

    /// Whether the stream is safe from eavesdroppers between here and the server.
    pub(super) fn is_private(&self) -> bool {
        !matches!(self, Stream::Tcp(_))
    }

    /// Our own port; `None` for a socket of this machine.
    pub(super) fn local_port(&self) -> Option<u16> {
        let stream = match self {
            Stream::Socket(_) => return None,
            Stream::Tcp(stream) => stream,
            Stream::Tls(stream) => &stream.sock,
        };
        stream.local_addr().ok().map(|address| address.port())
    }

    pub(super) fn is_local(&self) -> bool {
        let of_tcp = |stream: &TcpStream| stream.peer_addr().is_ok_and(|address| address.ip().is_loopback());
        match self {
            Stream::Socket(_) => true,
            Stream::Tcp(stream) => of_tcp(stream),
            Stream::Tls(stream) => of_tcp(&stream.sock),
        }
    }
}

/// Tries every address of a host, within the time for all of them.
fn connect_any(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let addresses: Vec<_> = (host, port).to_socket_addrs()?.collect();
    let each = timeout / addresses.len().max(1) as u32;
    let mut failure = io::Error::other("the host has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, each) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Socket(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Socket(stream) => stream.write(buffer),
            Stream::Tcp(stream) => stream.write(buffer),
            Stream::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Socket(stream) => stream.flush(),
            Stream::Tcp(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
