//! Requests to cancel a session's statement.

use std::fmt;
use std::io::{ErrorKind, Read, Write};

use bytes::{BufMut, BytesMut};

use super::error::WireError;
use super::stream::Stream;
use super::{refusal, tls};
use crate::url::{ServerUrl, SslMode};

/// The code that a cancel request has instead of the protocol version (PostgreSQL, Message Formats).
const CANCEL_REQUEST_CODE: i32 = 80_877_102;

/// Cancels one session's statement, from any thread.
#[derive(Clone)]
pub struct Cancel {
    pub(super) url: ServerUrl,
    pub(super) process_id: i32,
    pub(super) secret_key: Box<[u8]>,
}

impl Cancel {
    /// For the session with that key: its process id and the secret that the server sent to its client. Of the URL only
    /// the server's address and encryption matter.
    pub fn by_key(url: &ServerUrl, process_id: i32, secret_key: &[u8]) -> Self {
        Cancel { url: url.clone(), process_id, secret_key: secret_key.into() }
    }

    /// Sends the request. The server does not report whether it cancelled a statement; the session receives an error
    /// (57014).
    pub fn send(&self) -> Result<(), WireError> {
        self.deliver().map(drop)
    }

    /// Sends the request, and returns whether the server has closed the connection, which it does once it has signalled
    /// the session's process. If not, the signal may still follow. After an error nothing was sent and no signal will
    /// follow.
    pub fn deliver(&self) -> Result<bool, WireError> {
        let mut stream = self.open().map_err(|error| refusal::unreachable(&error, &self.url))?;
        let mut request = BytesMut::with_capacity(12 + self.secret_key.len());
        request.put_i32(12 + self.secret_key.len() as i32);
        request.put_i32(CANCEL_REQUEST_CODE);
        request.put_i32(self.process_id);
        request.put_slice(&self.secret_key);
        // Some or all of the request may have been sent before an error.
        let sent = stream.write_all(&request).and_then(|()| stream.flush());
        Ok(sent.is_ok() && is_closed(&mut stream))
    }

    fn open(&self) -> std::io::Result<Stream> {
        let stream = Stream::open(&self.url)?;
        let Stream::Tcp(tcp) = stream else { return Ok(stream) };
        if self.url.ssl_mode == SslMode::Disable {
            return Ok(Stream::Tcp(tcp));
        }
        Ok(match tls::ask(tcp, &self.url)? {
            tls::Asked::Encrypted(stream) => Stream::Tls(stream),
            tls::Asked::Plain(stream) => Stream::Tcp(stream),
        })
    }
}

/// Waits until the server closes the connection or the stream times out; ignores the bytes before that.
fn is_closed(stream: &mut Stream) -> bool {
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A connection closed without the shutdown of TCP or TLS is closed, too.
            Err(error) => return matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof),
        }
    }
}

impl fmt::Debug for Cancel {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("url", &self.url).field("process_id", &self.process_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::*;

    /// The bytes that a short-lived server receives, and the result of `deliver`.
    fn cancelled(secret: &[u8], closes: bool) -> (Vec<u8>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let url = ServerUrl {
            connect_timeout: Duration::from_millis(50),
            ..ServerUrl::of_socket(folder.path(), 5432, "ann", "shop")
        };
        let listener = UnixListener::bind(url.socket().unwrap()).unwrap();
        let cancel = Cancel::by_key(&url, 258, secret);
        assert!(!format!("{cancel:?}").contains("secret"));
        let length = 12 + secret.len();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut request = vec![0; length];
            stream.read_exact(&mut request).unwrap();
            (request, (!closes).then_some(stream))
        });
        let delivered = cancel.deliver().unwrap();
        let (request, _stream) = server.join().unwrap();
        (request, delivered)
    }

    #[test]
    fn a_cancel_is_delivered_when_the_server_has_closed() {
        let (request, delivered) = cancelled(&[1, 2, 3, 4], true);
        assert_eq!(request, [0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 1, 2, 1, 2, 3, 4]);
        assert!(delivered);
        let (request, delivered) = cancelled(&[7; 256], false);
        assert_eq!((request.len(), request[2..4].to_vec()), (268, vec![1, 12]));
        assert!(!delivered, "it may still come");
    }

    #[test]
    fn where_nobody_listens_nothing_was_sent() {
        let url = ServerUrl::of_socket("/nowhere", 1, "ann", "shop");
        assert!(Cancel::by_key(&url, 1, &[0; 4]).deliver().is_err());
    }
}
