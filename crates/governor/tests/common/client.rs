//! A simple client, which can stop in the middle of a message.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;
use socket2::Socket;

/// The password of every role that has one.
pub const PASSWORD: &str = "pässword";

/// An operation that takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A message of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub tag: u8,
    /// The bytes after its length field.
    pub body: Vec<u8>,
}

impl fmt::Debug for Message {
    /// Its essential contents, in short form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tag {
            b'1' => f.write_str("parsed"),
            b'2' => f.write_str("bound"),
            b'3' => f.write_str("closed"),
            b'C' => f.write_str(&text(&self.body)),
            b'D' => {
                let values: Vec<String> =
                    fields(&self.body).into_iter().map(|value| value.unwrap_or("NULL".to_owned())).collect();
                write!(f, "row({:.200})", values.join(" | "))
            }
            b'E' => write!(f, "error({} {})", self.field(b'C'), self.field(b'M')),
            b'T' => f.write_str("columns"),
            b'Z' => write!(f, "ready({})", self.body.escape_ascii()),
            tag => write!(f, "{}({:.200})", char::from(tag), self.body.escape_ascii().to_string()),
        }
    }
}

impl Message {
    /// A field of an `ErrorResponse` or `NoticeResponse`; empty if it is missing.
    pub fn field(&self, kind: u8) -> String {
        let mut fields = self.body.split(|&byte| byte == 0);
        let field = fields.find(|field| field.first() == Some(&kind));
        field.map(|field| String::from_utf8_lossy(&field[1..]).into_owned()).unwrap_or_default()
    }
}

/// Removes the first message, if it is complete.
pub fn take_message(bytes: &mut BytesMut) -> Option<Message> {
    let head = bytes.first_chunk::<5>()?;
    let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
    assert!(length >= 4, "a message {head:?}");
    if bytes.len() <= length {
        return None;
    }
    let message = bytes.split_to(1 + length);
    Some(Message { tag: message[0], body: message[5..].to_vec() })
}

/// The contents of an `ErrorResponse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// SQLSTATE.
    pub state: String,
    pub message: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// The server, or the governor, refused; the connection remains open unless it was closed afterwards.
    Refused(Refusal),
    Lost(io::Error),
}

impl Failure {
    /// The SQLSTATE of a refusal.
    pub fn state(&self) -> Option<&str> {
        match self {
            Failure::Refused(refusal) => Some(&refusal.state),
            Failure::Lost(_) => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(Refusal { state, message }) => write!(formatter, "{state}: {message}"),
            Failure::Lost(error) => write!(formatter, "connection lost: {error}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Lost(error)
    }
}

/// The complete answer to one unit, up to its `ReadyForQuery`.
#[derive(Debug, Default)]
pub struct Answer {
    /// Fields in text form.
    pub rows: Vec<Vec<Option<String>>>,
    /// The command tag of each statement, such as `UPDATE 1`.
    pub commands: Vec<String>,
    /// The first refusal.
    pub refusal: Option<Refusal>,
    /// The transaction status: `I`, `T` or `E`.
    pub status: u8,
    /// The types of all messages in order.
    pub tags: Vec<u8>,
}

impl Answer {
    /// The first value of the first row.
    pub fn value(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }
}

#[derive(Debug, Clone)]
pub enum Destination {
    /// A governor.
    Tcp(SocketAddr),
    /// A server.
    Unix(PathBuf),
}

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Self {
        Destination::Tcp(address)
    }
}

impl From<&Destination> for Destination {
    fn from(place: &Destination) -> Self {
        place.clone()
    }
}

impl From<&Path> for Destination {
    fn from(path: &Path) -> Self {
        Destination::Unix(path.to_owned())
    }
}

impl Destination {
    fn open(&self) -> io::Result<Socket> {
        let socket = match self {
            Destination::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, PATIENCE)?;
                stream.set_nodelay(true)?;
                Socket::from(stream)
            }
            Destination::Unix(path) => Socket::from(UnixStream::connect(path)?),
        };
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(socket)
    }
}

#[derive(Debug)]
pub struct Client {
    socket: Socket,
    /// Bytes that were read and not yet parsed.
    read: BytesMut,
    pub place: Destination,
    /// Process and secret of `BackendKeyData`.
    pub key: Vec<u8>,
    pub parameters: BTreeMap<String, String>,
    /// The user, if it has logged in by [`Client::log_in`].
    user: String,
}

impl Client {
    /// A connection on which nothing has been sent.
    pub fn bare(place: impl Into<Destination>) -> io::Result<Client> {
        let place = place.into();
        let socket = place.open()?;
        let (key, parameters, user) = (Vec::new(), BTreeMap::new(), String::new());
        Ok(Client { socket, read: BytesMut::new(), place, key, parameters, user })
    }

    /// Logs in with the right password.
    pub fn connect(place: impl Into<Destination>, user: &str, database: &str) -> Result<Client, Failure> {
        Client::log_in(place, &[("user", user), ("database", database)], PASSWORD)
    }

    /// Logs in with the given parameters and password.
    pub fn log_in(
        place: impl Into<Destination>,
        parameters: &[(&str, &str)],
        password: &str,
    ) -> Result<Client, Failure> {
        let mut client = Client::bare(place)?;
        client.user = parameters.iter().find(|(name, _)| *name == "user").map_or("", |(_, user)| user).to_owned();
        client.write(|out| frontend::startup_message(parameters.iter().copied(), out))?;
        client.finish_log_in(password)?;
        Ok(client)
    }

    /// Completes a login after the client's first message, until the server is ready.
    pub fn finish_log_in(&mut self, password: &str) -> Result<(), Failure> {
        let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        loop {
            let message = self.message()?;
            match message.tag {
                b'R' => self.authenticate(&message.body, password, &mut scram)?,
                b'K' => self.key = message.body,
                b'E' => return Err(Failure::Refused(refusal(&message))),
                b'Z' => return Ok(()),
                b'S' => self.keep_parameter(&message.body),
                b'N' | b'v' => {}
                tag => panic!("message {:?} while logging in", char::from(tag)),
            }
        }
    }

    fn authenticate(&mut self, body: &[u8], password: &str, scram: &mut ScramSha256) -> io::Result<()> {
        match i32::from_be_bytes(body[..4].try_into().unwrap()) {
            0 => Ok(()),
            5 => {
                let salt = body[4..].try_into().unwrap();
                let hash = md5_hash(self.user.as_bytes(), password.as_bytes(), salt);
                self.write(|out| frontend::password_message(hash.as_bytes(), out))
            }
            10 => self.write(|out| frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), out)),
            11 => {
                scram.update(&body[4..])?;
                self.write(|out| frontend::sasl_response(scram.message(), out))
            }
            12 => scram.finish(&body[4..]),
            other => panic!("authentication {other} is not what the server was set to"),
        }
    }

    fn keep_parameter(&mut self, body: &[u8]) {
        let mut words = body.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        self.parameters.insert(words.next().unwrap(), words.next().unwrap());
    }

    /// The ID of the server process.
    pub fn process(&self) -> i32 {
        i32::from_be_bytes(self.key[..4].try_into().unwrap())
    }

    /// Changes the time-out of reads from [`PATIENCE`].
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(patience))
    }

    pub fn write(&mut self, build: impl FnOnce(&mut BytesMut) -> io::Result<()>) -> io::Result<()> {
        let mut out = BytesMut::new();
        build(&mut out)?;
        self.send(&out)
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Sends as many bytes as the peer accepts at once, and returns their number.
    pub fn send_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_nonblocking(true)?;
        let sent = self.socket.write(bytes);
        self.socket.set_nonblocking(false)?;
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    pub fn send_query(&mut self, sql: &str) -> io::Result<()> {
        self.write(|out| frontend::query(sql, out))
    }

    /// A duplicate of the connection, for sending while the first one reads.
    pub fn second_handle(&self) -> Client {
        Client {
            socket: self.socket.try_clone().unwrap(),
            read: BytesMut::new(),
            place: self.place.clone(),
            key: Vec::new(),
            parameters: BTreeMap::new(),
            user: self.user.clone(),
        }
    }

    pub fn close_sending(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// The next message. The end of the connection is an error, and so is a time-out.
    pub fn message(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = take_message(&mut self.read) {
                return Ok(message);
            }
            let mut chunk = [0; 16 << 10];
            match self.read_some(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.read.extend_from_slice(&chunk[..length]),
            }
        }
    }

    fn read_some(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(bytes) {
                // A signal or another notification to the process, such as completions of a ring, interrupts a read
                // with a time-out.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// The next byte, outside any message.
    pub fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        match self.read_some(&mut byte)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(byte[0]),
        }
    }

    /// All messages up to the next `ReadyForQuery`.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let mut answer = Answer::default();
        loop {
            let message = match self.message() {
                Ok(message) => message,
                // An error before the end explains it.
                Err(error) => match answer.refusal {
                    Some(refusal) => return Err(io::Error::other(format!("{refusal:?}, and then {error}"))),
                    None => return Err(error),
                },
            };
            answer.tags.push(message.tag);
            match message.tag {
                b'D' => answer.rows.push(fields(&message.body)),
                b'C' => answer.commands.push(text(&message.body)),
                b'E' => answer.refusal = answer.refusal.or_else(|| Some(refusal(&message))),
                b'S' => self.keep_parameter(&message.body),
                b'Z' => {
                    answer.status = message.body[0];
                    return Ok(answer);
                }
                _ => {}
            }
        }
    }

    /// Runs statements by the simple protocol.
    pub fn query(&mut self, sql: &str) -> Result<Answer, Failure> {
        self.send_query(sql)?;
        let answer = self.answer()?;
        match answer.refusal.clone() {
            Some(refusal) => Err(Failure::Refused(refusal)),
            None => Ok(answer),
        }
    }

    /// The first value in a statement's result.
    pub fn value(&mut self, sql: &str) -> Result<String, Failure> {
        Ok(self.query(sql)?.value().expect("asked for a value").to_owned())
    }

    /// Whether the peer has closed the connection, or does so before the time-out. Its remaining bytes are discarded.
    pub fn is_closed(&mut self) -> bool {
        let mut chunk = [0; 4 << 10];
        loop {
            match self.read_some(&mut chunk) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => {
                    return !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                }
            }
        }
    }
}

/// Requests the cancel of the statement of the session with the given key, and waits until the request was accepted.
pub fn cancel(place: impl Into<Destination>, key: &[u8]) -> io::Result<()> {
    let mut client = Client::bare(place)?;
    client.send(&cancel_request(key))?;
    client.is_closed();
    Ok(())
}

/// The bytes of a cancel request, with a key of any length.
pub fn cancel_request(key: &[u8]) -> Vec<u8> {
    let length = u32::try_from(8 + key.len()).unwrap();
    [&length.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), key].concat()
}

pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + body.len()).unwrap();
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

fn refusal(message: &Message) -> Refusal {
    Refusal { state: message.field(b'C'), message: message.field(b'M') }
}

/// The fields of a `DataRow`.
pub fn fields(body: &[u8]) -> Vec<Option<String>> {
    let count = u16::from_be_bytes([body[0], body[1]]);
    let mut rest = &body[2..];
    let mut next = || {
        let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
        rest = &rest[4..];
        let length = usize::try_from(length).ok()?;
        let (field, behind) = rest.split_at(length);
        rest = behind;
        Some(String::from_utf8_lossy(field).into_owned())
    };
    (0..count).map(|_| next()).collect()
}
