//! Asking the server to end what a session is doing.

use std::io::{Read, Write};

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::error::WireError;
use super::stream::Stream;
use super::{refusal, tls};
use crate::url::{ServerUrl, SslMode};

/// Ends what one session is doing, from any thread.
#[derive(Debug, Clone)]
pub struct Cancel {
    pub(super) url: ServerUrl,
    pub(super) process_id: i32,
    pub(super) secret_key: i32,
}

impl Cancel {
    /// Asks the server. Whether there was anything to end is not told; the session learns it as an error (57014).
    pub fn send(&self) -> Result<(), WireError> {
        self.try_send().map_err(|error| refusal::unreachable(&error, &self.url))
    }

    fn try_send(&self) -> std::io::Result<()> {
        let mut stream = Stream::open(&self.url)?;
        if let Stream::Tcp(tcp) = stream {
            stream = match self.url.ssl_mode {
                SslMode::Disable => Stream::Tcp(tcp),
                _ => match tls::ask(tcp, &self.url)? {
                    tls::Asked::Encrypted(stream) => Stream::Tls(stream),
                    tls::Asked::Plain(stream) => Stream::Tcp(stream),
                },
            };
        }
        let mut request = BytesMut::new();
        frontend::cancel_request(self.process_id, self.secret_key, &mut request);
        stream.write_all(&request)?;
        stream.flush()?;
        // The server closes when it has passed the request on; what comes before is of no interest.
        let _ = stream.read(&mut [0; 64]);
        Ok(())
    }
}
