//! A governor with its relay, and clients and a server that the test plays.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_governor::config::{self, Surroundings};
use plimsoll_governor::governor::Governor;
use plimsoll_governor::relay::{self, Running};
use plimsoll_governor::settings::Address;
use plimsoll_governor::settings::*;
use plimsoll_pg::url::ServerUrl;
pub use plimsoll_testing::until;

/// Longer than anything here takes; only failures wait that long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait to see that nothing arrives.
pub const A_WHILE: Duration = Duration::from_millis(50);

/// Settings for a server at that URL: two classes without limits, one worker, one port of the kernel's choice.
pub fn settings(server: &str) -> Settings {
    let text = format!("server = \"{server}\"\n{}", include_str!("../two_classes.toml"));
    let surroundings = Surroundings { folder: Path::new("/"), environment: &|_| None, classes: &[] };
    let mut settings = config::parse(&text, "relay.toml", &surroundings).unwrap().settings;
    for class in &mut settings.classes {
        (class.limits.queue_max, class.limits.timeout) = (None, None);
    }
    settings.break_glass = vec!["fireman".to_owned()];
    settings.listen.logins_max_per_address = 1000;
    settings.admin.database = "console".to_owned();
    settings
}

/// A governor between the test's clients and the test's server.
pub struct World {
    pub governor: Arc<Governor>,
    pub running: Running,
    pub server: TcpListener,
}

impl World {
    pub fn new() -> Self {
        World::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://nobody@{}/none?sslmode=disable", server.local_addr().unwrap());
        let mut settings = settings(&url);
        change(&mut settings);
        let (governor, running) = govern(settings);
        World { governor, running, server }
    }

    pub fn address(&self) -> SocketAddr {
        tcp_address(&self.running)
    }

    /// A client that has sent nothing.
    pub fn client(&self) -> Peer {
        Peer::new(TcpStream::connect(self.address()).unwrap())
    }

    /// A client that has sent a start-up message.
    pub fn start_up(&self, parameters: &[(&str, &str)]) -> Peer {
        let mut client = self.client();
        client.send(&startup(parameters));
        client
    }

    /// The next connection that the server gets.
    pub fn accept(&self) -> Peer {
        let deadline = Instant::now() + PATIENCE;
        self.server.set_nonblocking(true).unwrap();
        loop {
            match self.server.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).unwrap();
                    return Peer::new(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(Instant::now() < deadline, "nobody came")
                }
                Err(error) => panic!("{error}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether no connection reaches the server for a while.
    pub fn nobody_comes(&self) -> bool {
        self.server.set_nonblocking(true).unwrap();
        std::thread::sleep(A_WHILE);
        self.server.accept().is_err()
    }

    /// A client that has logged in as that user, and its connection at the server with that key.
    pub fn session(&self, user: &str, key: &[u8]) -> (Peer, Peer) {
        let mut client = self.start_up(&[("user", user)]);
        let mut server = self.accept();
        assert_eq!(server.packet(), startup(&[("user", user)]));
        let_in(&mut client, &mut server, key);
        (client, server)
    }
}

/// Admits a client whose start-up message the server has read.
pub fn let_in(client: &mut Peer, server: &mut Peer, key: &[u8]) {
    server.send(&welcome(key));
    assert_eq!(client.until(b'Z'), welcome(key));
}

/// A URL that depends on nothing but its text.
pub fn url(text: &str) -> ServerUrl {
    ServerUrl::parse_in(text, &|_| None).unwrap()
}

/// Starts a governor's relay.
pub fn govern(settings: Settings) -> (Arc<Governor>, Running) {
    let governor = Arc::new(Governor::new(settings, Instant::now()));
    let running = relay::start(Arc::clone(&governor)).unwrap();
    (governor, running)
}

/// The first TCP address of a relay.
pub fn tcp_address(running: &Running) -> SocketAddr {
    let tcp = |address: &Address| if let Address::Tcp(address) = address { Some(*address) } else { None };
    running.addresses().iter().find_map(tcp).unwrap()
}

/// One end of a connection, played by the test.
pub struct Peer {
    pub stream: Box<dyn Stream>,
}

/// What a peer speaks through.
pub trait Stream: Read + Write + Send {
    fn wait(&self, at_most: Duration);
}

impl Stream for TcpStream {
    fn wait(&self, at_most: Duration) {
        self.set_read_timeout(Some(at_most)).unwrap();
        self.set_write_timeout(Some(at_most)).unwrap();
    }
}

impl Stream for std::os::unix::net::UnixStream {
    fn wait(&self, at_most: Duration) {
        self.set_read_timeout(Some(at_most)).unwrap();
        self.set_write_timeout(Some(at_most)).unwrap();
    }
}

impl Peer {
    pub fn new(stream: impl Stream + 'static) -> Self {
        stream.wait(PATIENCE);
        Peer { stream: Box::new(stream) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// A packet without a tag.
    pub fn packet(&mut self) -> Vec<u8> {
        let head = self.bytes(4);
        let length = u32::from_be_bytes(head[..].try_into().unwrap()) as usize;
        [head, self.bytes(length - 4)].concat()
    }

    pub fn message(&mut self) -> Vec<u8> {
        let head = self.bytes(5);
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        [head, self.bytes(length - 4)].concat()
    }

    /// All messages up to one with that tag.
    pub fn until(&mut self, tag: u8) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let message = self.message();
            all.extend_from_slice(&message);
            if message[0] == tag {
                return all;
            }
        }
    }

    /// Reads an error, and returns its SQLSTATE and all of it as text.
    pub fn error(&mut self) -> (String, String) {
        let message = loop {
            let message = self.message();
            if message[0] == b'E' {
                break message;
            }
        };
        let text = String::from_utf8_lossy(&message[5..]).into_owned();
        let code = text.split('\0').find_map(|field| field.strip_prefix('C')).unwrap_or_default().to_owned();
        (code, text)
    }

    /// Reads an error with that SQLSTATE and that in its text.
    #[track_caller]
    pub fn refused(&mut self, expect: &str, part: &str) -> String {
        let (code, text) = self.error();
        assert!(code == expect && text.contains(part), "{text}");
        text
    }

    /// Reads the available bytes, waiting for some if necessary.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        again_if_interrupted(|| self.stream.read(bytes))
    }

    /// Whether the other end closes without another message.
    pub fn is_closed(&mut self) -> bool {
        match self.read(&mut [0]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// Whether nothing arrives for a while.
    pub fn is_silent(&mut self) -> bool {
        self.stream.wait(A_WHILE);
        let read = self.read(&mut [0]);
        self.stream.wait(PATIENCE);
        matches!(read, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }
}

/// A read or write with a time limit is interrupted by signals and events of the process, such as completions of a
/// ring.
pub fn again_if_interrupted<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match act() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

pub fn tagged(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

pub fn query(sql: &str) -> Vec<u8> {
    tagged(b'Q', format!("{sql}\0").as_bytes())
}

pub fn ready(status: u8) -> Vec<u8> {
    tagged(b'Z', &[status])
}

/// An answer without rows.
pub fn done(tag: &str) -> Vec<u8> {
    [tagged(b'C', format!("{tag}\0").as_bytes()), ready(b'I')].concat()
}

/// A packet without a tag.
pub fn packet(code: [u16; 2], body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 8).to_be_bytes();
    [&length[..], &code[0].to_be_bytes(), &code[1].to_be_bytes(), body].concat()
}

pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body: Vec<u8> =
        parameters.iter().flat_map(|(name, value)| format!("{name}\0{value}\0").into_bytes()).collect();
    body.push(0);
    packet([3, 0], &body)
}

/// The server's messages when it admits a client; the process is 7.
pub fn welcome(key: &[u8]) -> Vec<u8> {
    let key = [&7_i32.to_be_bytes()[..], key].concat();
    [tagged(b'R', &[0; 4]), tagged(b'S', b"server_version\x0015.0\0"), tagged(b'K', &key), ready(b'I')].concat()
}

/// A request to cancel the statement of the session with that key.
pub fn cancel(key: &[u8]) -> Vec<u8> {
    packet([1234, 5678], &[&7_i32.to_be_bytes()[..], key].concat())
}
