//! One connection's bytes: plain or over TLS, never blocking.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use plimsoll_pg::connection::check_protocol;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use super::socket::Socket;

/// A connection, and TLS if that is spoken over it.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    tls: Option<Box<Connection>>,
    /// TLS was started without a request in plain text, and the application protocol is not negotiated yet.
    must_agree: bool,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    /// The number of bytes; 0 is the end.
    pub(super) bytes: usize,
    /// No more bytes are available now: the caller need not read again before the next event.
    pub(super) is_drained: bool,
}

impl Wire {
    pub(super) fn plain(socket: Socket) -> Self {
        Wire { socket, tls: None, must_agree: false }
    }

    /// Speaks TLS from now on, as the server.
    pub(super) fn accept_tls(&mut self, settings: Arc<ServerConfig>) -> io::Result<()> {
        let connection = ServerConnection::new(settings).map_err(io::Error::other)?;
        self.tls = Some(Box::new(Connection::Server(connection)));
        Ok(())
    }

    /// Speaks TLS from now on, as the server, with a client that has not requested it: its hello has been read already.
    pub(super) fn accept_tls_after(&mut self, settings: Arc<ServerConfig>, mut hello: &[u8]) -> io::Result<()> {
        self.accept_tls(settings)?;
        self.must_agree = true;
        let Some(tls) = self.tls.as_mut() else { return Ok(()) };
        let mut processed = Ok(());
        while !hello.is_empty() && processed.is_ok() {
            if tls.read_tls(&mut hello)? == 0 {
                break;
            }
            processed = tls.process_new_packets().map(drop);
        }
        // The answer, or the alert that describes the error.
        send_tls(tls, &mut self.socket)?;
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }

    /// Speaks TLS from now on, as the client, and sends its hello; `is_direct` if TLS was not requested first.
    pub(super) fn begin_tls(
        &mut self,
        settings: Arc<ClientConfig>,
        name: ServerName<'static>,
        is_direct: bool,
    ) -> io::Result<()> {
        let connection = ClientConnection::new(settings, name).map_err(io::Error::other)?;
        self.must_agree = is_direct;
        self.tls = Some(Box::new(Connection::Client(connection)));
        self.flush()
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The peer's certificate, once it is known.
    pub(super) fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Reads available bytes; `WouldBlock` if there are none.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Taken> {
        let Some(tls) = self.tls.as_mut() else {
            let bytes = read_again(|| self.socket.read(buffer))?;
            // A short read has drained the socket: later bytes, and the end, cause another event.
            return Ok(Taken { bytes, is_drained: bytes < buffer.len() });
        };
        loop {
            // Bytes that rustls has decrypted must be read before more are fed to it: no event reports them.
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
            // Handshake answers, new keys, or the alert that describes the error. A peer that takes none may still have
            // sent its last words.
            let _ = send_tls(tls, &mut self.socket);
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            if self.must_agree && !tls.is_handshaking() {
                check_protocol(tls.alpn_protocol())?;
                self.must_agree = false;
            }
        }
    }

    /// Writes as many bytes as are accepted now, possibly none.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = self.tls.as_mut() else {
            return match read_again(|| self.socket.write(bytes)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                written => written,
            };
        };
        let mut written = 0;
        loop {
            // rustls keeps ciphertext up to a limit; at the limit it accepts no more.
            let taken = tls.writer().write(&bytes[written..])?;
            written += taken;
            send_tls(tls, &mut self.socket)?;
            if written == bytes.len() || taken == 0 || tls.wants_write() {
                return Ok(written);
            }
        }
    }

    /// Sends the ciphertext that TLS has kept.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| send_tls(tls, &mut self.socket))
    }

    /// Whether TLS has kept ciphertext to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Announces that no more bytes will be sent.
    pub(super) fn finish(&mut self) {
        if let Some(tls) = self.tls.as_mut() {
            tls.send_close_notify();
        }
        // A peer that is gone needs no announcement.
        let _ = self.flush();
        self.socket.shut_down(Shutdown::Write);
    }
}

/// Sends ciphertext until none is left or the socket accepts no more.
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

/// Repeats a call that a signal interrupted.
fn read_again(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl Source for Wire {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.socket.register(registry, token, interest)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.socket.reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }
}
