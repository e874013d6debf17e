//! A client's messages sent again as they were recorded, with its own settings of the session.

use postgres_protocol::message::frontend;

use super::{Connection, HEAD_BYTES, ServerError, WireError, start};
use crate::url::ServerUrl;

impl Connection {
    /// Opens a session with exactly these parameters of the startup message beside user and database, in place of our
    /// own: a recorded client's date style or search path decides what its messages mean.
    pub fn open_with(url: &ServerUrl, parameters: &[(&str, &str)]) -> Result<Self, WireError> {
        start::start_as(url, parameters)
    }

    /// Sends whole messages of a client, the last of which is a `Sync` or a `Query`, perhaps with data to copy after it.
    /// Passes each message of the answer to `on`, by tag and body, until the server is ready; errors are such messages.
    /// If the server asks for data to copy and the messages have none, the copy is refused, as a client may do.
    pub fn relay(&mut self, request: &[u8], mut on: impl FnMut(u8, &[u8])) -> Result<(), WireError> {
        self.check()?;
        self.output.clear();
        self.output.extend_from_slice(request);
        self.send()?;
        let mut failure = None;
        // The server answers each `Sync`, but for one that it receives while it waits for data to copy.
        let mut ready_left = count(request, b"S").max(1);
        loop {
            let range = match self.next_message() {
                Ok(range) => range,
                Err(lost) => return Err(self.with_last_words(lost, failure)),
            };
            let message = &self.input.bytes()[range.clone()];
            let tag = message[0];
            on(tag, &message[HEAD_BYTES..]);
            match tag {
                b'Z' => {
                    self.finish_exchange(range)?;
                    ready_left -= 1;
                    if ready_left == 0 {
                        return Ok(());
                    }
                }
                b'E' => failure = ServerError::read(message).ok().filter(ServerError::is_fatal).map(Box::new),
                b'G' if count(request, b"cf") == 0 => self.refuse_copy(request)?,
                b'G' => ready_left = (ready_left - 1).max(1),
                // Both sides stream: replication, which no statement of an application begins.
                b'W' => return Err(self.disorder(&"the server begins to stream its log")),
                _ => {}
            }
        }
    }

    fn refuse_copy(&mut self, request: &[u8]) -> Result<(), WireError> {
        let written = frontend::copy_fail("the data to copy was not recorded", &mut self.output);
        written.map_err(|error| self.refused(&error))?;
        // While it waited for data, the server has ignored the `Sync` that was sent.
        if count(request, b"S") > 0 {
            frontend::sync(&mut self.output);
        }
        self.send()
    }
}

/// How many messages of a request have one of these tags.
fn count(request: &[u8], tags: &[u8]) -> usize {
    let (mut rest, mut count) = (request, 0);
    while let Some((head, _)) = rest.split_first_chunk::<HEAD_BYTES>() {
        count += usize::from(tags.contains(&head[0]));
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        rest = rest.get(length + 1..).unwrap_or_default();
    }
    count
}
