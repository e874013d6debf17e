//! A small, synchronous client of the PostgreSQL protocol.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// A connection that stays silent for longer than this hangs.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// A message of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Its type.
    pub tag: u8,
    /// What follows its length.
    pub body: Vec<u8>,
}

impl fmt::Debug for Message {
    /// What matters of it, as short as it can be read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = |f: &mut fmt::Formatter<'_>| {
            let values: Vec<String> =
                fields(&self.body).into_iter().map(|value| value.unwrap_or("NULL".to_owned())).collect();
            write!(f, "row({})", values.join(" | "))
        };
        match self.tag {
            b'1' => f.write_str("parsed"),
            b'2' => f.write_str("bound"),
            b'3' => f.write_str("closed"),
            b'C' => write!(f, "{}", String::from_utf8_lossy(&self.body).trim_end_matches('\0')),
            b'D' => values(f),
            b'E' => write!(f, "error({} {})", self.field(b'C'), self.field(b'M')),
            b'T' => f.write_str("columns"),
            b'Z' => write!(f, "ready({})", self.body.escape_ascii()),
            tag => write!(f, "{}({:.80})", char::from(tag), self.body.escape_ascii().to_string()),
        }
    }
}

impl Message {
    /// A field of an `ErrorResponse` or `NoticeResponse`; empty if it is missing.
    pub fn field(&self, kind: u8) -> String {
        let mut fields = self.body.split(|&byte| byte == 0);
        let field = fields.find(|field| field.first() == Some(&kind));
        field.map_or(String::new(), |field| String::from_utf8_lossy(&field[1..]).into_owned())
    }
}

/// Where a connection leads.
#[derive(Debug, Clone)]
pub enum Destination {
    /// The governor.
    Tcp(SocketAddr),
    /// The server.
    Unix(PathBuf),
}

/// Both kinds of sockets.
pub trait Stream: Read + Write + Send {
    /// Ends reads after that time.
    fn set_patience(&self, patience: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_nodelay(true)?;
        self.set_write_timeout(Some(patience))?;
        self.set_read_timeout(Some(patience))
    }
}

impl Stream for UnixStream {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(patience))?;
        self.set_read_timeout(Some(patience))
    }
}

impl Destination {
    /// Opens a connection on which nothing has been said.
    pub fn open(&self, patience: Duration) -> io::Result<Box<dyn Stream>> {
        let stream: Box<dyn Stream> = match self {
            Destination::Tcp(address) => Box::new(TcpStream::connect_timeout(address, patience)?),
            Destination::Unix(path) => Box::new(UnixStream::connect(path)?),
        };
        stream.set_patience(patience)?;
        Ok(stream)
    }
}

/// A connection that has logged in.
pub struct Client {
    stream: Box<dyn Stream>,
    read: Vec<u8>,
    /// Process and secret of `BackendKeyData`.
    pub key: Vec<u8>,
}

impl Client {
    /// Logs in without a password.
    pub fn connect(place: &Destination, user: &str, database: &str, patience: Duration) -> io::Result<Client> {
        Client::connect_with(place, user, database, &[], patience)
    }

    /// Logs in with more parameters.
    pub fn connect_with(
        place: &Destination,
        user: &str,
        database: &str,
        more: &[&str],
        patience: Duration,
    ) -> io::Result<Client> {
        let mut client = Client { stream: place.open(patience)?, read: Vec::new(), key: Vec::new() };
        let words = ["user", user, "database", database, "client_encoding", "UTF8", "DateStyle", "ISO"];
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        words.iter().chain(more).for_each(|word| body.extend_from_slice(&text(word)));
        body.push(0);
        client.send(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat())?;
        loop {
            let message = client.message()?;
            match message.tag {
                b'K' => client.key = message.body,
                b'Z' => return Ok(client),
                b'E' => return Err(io::Error::other(format!("{message:?}"))),
                _ => {}
            }
        }
    }

    /// The server's process.
    pub fn process(&self) -> i32 {
        i32::from_be_bytes(self.key[..4].try_into().unwrap())
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next message. The end of the connection is an error, and so is silence.
    pub fn message(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = take_message(&mut self.read) {
                return Ok(message);
            }
            let mut chunk = [0; 16 << 10];
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.read.extend_from_slice(&chunk[..length]),
            }
        }
    }

    /// Runs statements by the simple protocol; returns the fields of their rows, or the error.
    pub fn query(&mut self, sql: &str) -> io::Result<Vec<Vec<Option<String>>>> {
        self.send(&query(sql))?;
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            let message = self.message()?;
            match message.tag {
                b'D' => rows.push(fields(&message.body)),
                b'E' => error = Some(format!("{sql}: {message:?}")),
                b'Z' => return error.map_or(Ok(rows), |error| Err(io::Error::other(error))),
                _ => {}
            }
        }
    }
}

/// Takes the first message off, if it is complete.
pub fn take_message(bytes: &mut Vec<u8>) -> Option<Message> {
    let head = bytes.first_chunk::<5>()?;
    let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
    if bytes.len() <= length {
        return None;
    }
    let message: Vec<u8> = bytes.drain(..=length).collect();
    Some(Message { tag: message[0], body: message[5..].to_vec() })
}

/// The fields of a `DataRow`.
pub fn fields(body: &[u8]) -> Vec<Option<String>> {
    let (mut fields, mut rest) = (Vec::new(), &body[2..]);
    while let Some(length) = rest.first_chunk::<4>() {
        rest = &rest[4..];
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            fields.push(None);
            continue;
        };
        fields.push(Some(String::from_utf8_lossy(&rest[..length]).into_owned()));
        rest = &rest[length..];
    }
    fields
}

/// A string with the zero that ends it.
pub fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// A message with a tag.
pub fn tagged(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// A `Query`.
pub fn query(sql: &str) -> Vec<u8> {
    tagged(b'Q', &text(sql))
}

/// A `Parse`; the server finds the types of parameters.
pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    tagged(b'P', &[text(name), text(sql), vec![0, 0]].concat())
}

/// A `Bind` with everything as text.
pub fn bind(portal: &str, statement: &str, values: &[Option<String>]) -> Vec<u8> {
    let mut body = [text(portal), text(statement), vec![0, 0]].concat();
    body.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            None => body.extend_from_slice(&(-1_i32).to_be_bytes()),
            Some(value) => {
                body.extend_from_slice(&(value.len() as i32).to_be_bytes());
                body.extend_from_slice(value.as_bytes());
            }
        }
    }
    body.extend_from_slice(&[0, 0]);
    tagged(b'B', &body)
}

/// A `Describe` or a `Close`, of a statement (`S`) or a portal (`P`).
pub fn named(tag: u8, kind: u8, name: &str) -> Vec<u8> {
    tagged(tag, &[&[kind][..], &text(name)].concat())
}

/// An `Execute`; 0 rows are all.
pub fn execute(portal: &str, rows: u32) -> Vec<u8> {
    tagged(b'E', &[&text(portal)[..], &rows.to_be_bytes()].concat())
}
