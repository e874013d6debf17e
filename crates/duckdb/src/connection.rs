//! A connection to DuckDB: one request, one answer.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use plimsoll_workload::database::DatabaseError;

use crate::process::Process;

/// The kinds of messages, as `server.py` describes them.
const QUERY: u8 = b'q';
const EXECUTE: u8 = b'x';
const BATCH: u8 = b'b';
const DONE: u8 = b'd';

/// The name that the rows of [`Connection::keep`] have in statements.
pub const KEPT: &str = "batch";

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    process: Arc<Process>,
}

impl Connection {
    /// Opens one.
    pub fn open(process: &Arc<Process>) -> Result<Connection, DatabaseError> {
        Ok(Connection { stream: process.connect()?, process: Arc::clone(process) })
    }

    /// All rows of a query.
    pub fn query(&mut self, sql: &str) -> Result<Vec<RecordBatch>, DatabaseError> {
        let answer = self.ask(QUERY, sql.as_bytes())?;
        let batches = StreamReader::try_new(answer.as_slice(), None).and_then(Iterator::collect);
        batches.map_err(|error: ArrowError| DatabaseError::Failed(format!("DuckDB's answer cannot be read: {error}")))
    }

    /// Runs statements that have no answer, with semicolons between them.
    pub fn execute(&mut self, sql: &str) -> Result<(), DatabaseError> {
        self.ask(EXECUTE, sql.as_bytes()).map(drop)
    }

    /// Makes rows known to later statements as [`KEPT`].
    pub fn keep(&mut self, batch: &RecordBatch) -> Result<(), DatabaseError> {
        let stream = stream_of(batch).map_err(|error| DatabaseError::Failed(error.to_string()))?;
        self.ask(BATCH, &stream).map(drop)
    }

    fn ask(&mut self, kind: u8, body: &[u8]) -> Result<Vec<u8>, DatabaseError> {
        let answer = send(&mut self.stream, kind, body).and_then(|()| receive(&mut self.stream));
        match answer.map_err(|error| self.process.lost(&error))? {
            (DONE, body) => Ok(body),
            (_, text) => Err(DatabaseError::Failed(String::from_utf8_lossy(&text).into_owned())),
        }
    }
}

fn send(stream: &mut UnixStream, kind: u8, body: &[u8]) -> io::Result<()> {
    let mut head = [kind; 9];
    head[1..].copy_from_slice(&(body.len() as u64).to_le_bytes());
    stream.write_all(&head)?;
    stream.write_all(body)
}

/// The kind and the body of a message.
fn receive(stream: &mut UnixStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let length = u64::from_le_bytes(length);
    let mut body = Vec::with_capacity(usize::try_from(length).map_err(io::Error::other)?);
    stream.take(length).read_to_end(&mut body)?;
    if body.len() as u64 == length { Ok((kind, body)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// A batch as an Arrow stream.
fn stream_of(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::with_capacity(batch.get_array_memory_size()), &batch.schema())?;
    writer.write(batch)?;
    writer.into_inner()
}
