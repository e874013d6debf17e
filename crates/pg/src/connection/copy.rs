//! Rows into a table by COPY, in its binary format.

use postgres_protocol::message::frontend;

use super::{Connection, WireError, unexpected};

/// The signature, the flags and the length of the extension that such data begins with.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The column count that marks the end of the data.
const TRAILER: &[u8] = &[0xff, 0xff];

/// Rows on their way into a table. None of them is kept unless [`finish`](CopyIn::finish) succeeds.
#[derive(Debug)]
pub struct CopyIn<'a> {
    connection: &'a mut Connection,
    is_finished: bool,
}

impl Connection {
    /// Begins a `COPY … FROM STDIN (FORMAT binary)`.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, WireError> {
        self.check()?;
        frontend::query(sql, &mut self.output).map_err(|error| self.refused(&error))?;
        self.send()?;
        self.receive(b'G', |tag, _| Err(unexpected(tag)))?;
        let mut copy = CopyIn { connection: self, is_finished: false };
        copy.write(HEADER)?;
        Ok(copy)
    }
}

impl CopyIn<'_> {
    /// Sends rows in COPY's binary format.
    pub fn write(&mut self, rows: &[u8]) -> Result<(), WireError> {
        let data = frontend::CopyData::new(rows).map_err(|error| WireError::Refused(error.to_string()))?;
        data.write(&mut self.connection.output);
        self.connection.send()
    }

    /// Ends the copy; the rows are in the table if this succeeds.
    pub fn finish(mut self) -> Result<(), WireError> {
        self.write(TRAILER)?;
        self.is_finished = true;
        frontend::copy_done(&mut self.connection.output);
        self.connection.exchange(|tag, _| if tag == b'C' { Ok(()) } else { Err(unexpected(tag)) })
    }
}

impl Drop for CopyIn<'_> {
    /// Cancels the copy, so that the connection remains usable.
    fn drop(&mut self) {
        if self.is_finished || self.connection.lost().is_some() {
            return;
        }
        self.connection.output.clear();
        let written = frontend::copy_fail("the sender gave up", &mut self.connection.output);
        // The server answers with the requested error; after any other message, the connection is marked lost.
        let _ = written.map(|()| self.connection.exchange(|tag, _| Err(unexpected(tag))));
    }
}
