//! A proxy that lets its clients in itself, and logs in at the server with what remains of their proofs.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use plimsoll_governor::credentials::{FailureKind, Found, Gate, Refused, ServerCredentials, Source, Step};
use plimsoll_governor::settings::Login;

use crate::server::log_in;

/// The code of a request for TLS.
const TLS: [u8; 4] = [4, 210, 22, 47];

pub struct Pooler {
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    server: PathBuf,
    login: Mutex<Login>,
    source: Source,
    must_be_asked: bool,
    /// The reasons for which clients were not let in.
    told: Mutex<Vec<String>>,
}

impl Pooler {
    /// Listens for clients. Its threads end with the test.
    pub fn start(server: PathBuf, login: Login, must_be_asked: bool) -> Pooler {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (login, told) = (Mutex::new(login), Mutex::default());
        let inner = Arc::new(Inner { server, login, source: Source::default(), must_be_asked, told });
        let pooler = Pooler { address, inner: inner.clone() };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let inner = inner.clone();
                // A client that leaves early is no failure.
                std::thread::spawn(move || inner.serve(client?));
            }
        });
        pooler
    }

    /// The reasons so far.
    pub fn told(&self) -> String {
        std::mem::take(&mut *self.inner.told.lock().unwrap()).join("\n")
    }

    /// Reads the settings again.
    pub fn reload(&self, login: Login) {
        *self.inner.login.lock().unwrap() = login;
    }

    /// What psql prints for `SELECT current_user`, or its error.
    pub fn psql(&self, user: &str, password: &str) -> Result<String, String> {
        let mut psql = Command::new("psql");
        psql.args(["-XAtc", "SELECT current_user"]).env("PGHOST", "127.0.0.1").env("PGUSER", user);
        psql.env("PGPORT", self.address.port().to_string()).env("PGPASSWORD", password).env("PGDATABASE", "postgres");
        psql.env("PGSSLMODE", "disable").env("PGCONNECT_TIMEOUT", "30").env("PGPASSFILE", "/dev/null");
        let output = psql.output().unwrap_or_else(|error| panic!("psql: {error}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

impl Inner {
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        client.set_read_timeout(Some(Duration::from_secs(30)))?;
        let (user, database) = start_up(&mut client)?;
        let Some(credentials) = self.let_in(&mut client, &user)? else { return Ok(()) };
        match log_in(&self.server, &user, &database, credentials, self.must_be_asked) {
            Ok((session, server)) => {
                let mut greeting = Vec::new();
                for (name, value) in &session.parameters {
                    message(&mut greeting, b'S', &[name, b"\0", value, b"\0"]);
                }
                let key = session.key.expect("PostgreSQL sends one");
                message(&mut greeting, b'K', &[&key.process.to_be_bytes(), &key.secret]);
                message(&mut greeting, b'Z', &[b"I"]);
                client.write_all(&greeting)?;
                let (mut to_client, mut from_server) = (client.try_clone()?, server.try_clone()?);
                std::thread::spawn(move || io::copy(&mut from_server, &mut to_client));
                io::copy(&mut client, &mut &server).map(drop)
            }
            Err(failure) => {
                if failure.kind == FailureKind::Secret {
                    self.source.forget(&user, Instant::now());
                }
                self.told.lock().unwrap().push(format!("{}: {failure}", failure.kind));
                let own = b"SFATAL\0C08006\0Mthe server does not let us in\0\0";
                let mut error = Vec::new();
                message(&mut error, b'E', &[own]);
                client.write_all(failure.error.as_deref().unwrap_or(&error))
            }
        }
    }

    /// Asks a client for its proof.
    fn let_in(&self, client: &mut TcpStream, user: &str) -> io::Result<Option<ServerCredentials>> {
        let (answers, received) = mpsc::channel();
        let answer = Box::new(move |known| drop(answers.send(known)));
        let login = self.login.lock().unwrap().clone();
        let known = match self.source.find(&login, user, Instant::now(), answer) {
            Found::Now(known) => known,
            Found::Asking => received.recv_timeout(Duration::from_secs(30)).expect("an answer"),
        };
        let (mut out, mut got, mut chunk) = (Vec::new(), Vec::new(), [0; 4096]);
        let mut gate = Gate::new(user, &known, None, &mut out);
        loop {
            client.write_all(&std::mem::take(&mut out))?;
            let read = client.read(&mut chunk)?;
            got.extend_from_slice(&chunk[..read]);
            let (taken, step) =
                if read == 0 { (0, Step::Refused(Refused::Left)) } else { gate.on_client(&got, &mut out) };
            got.drain(..taken);
            match step {
                Step::More => {}
                Step::In(credentials) => {
                    client.write_all(&out)?;
                    return Ok(Some(credentials));
                }
                Step::Refused(why) => {
                    if matches!(why, Refused::Proof(_)) {
                        self.source.forget(user, Instant::now());
                    }
                    self.told.lock().unwrap().push(format!("{why:?}, {:?}", known.origin));
                    client.write_all(&out)?;
                    return Ok(None);
                }
            }
        }
    }
}

/// User and database of a client, which is not encrypted.
fn start_up(client: &mut TcpStream) -> io::Result<(String, String)> {
    loop {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut packet = vec![0; u32::from_be_bytes(length) as usize - 4];
        client.read_exact(&mut packet)?;
        if packet == TLS {
            client.write_all(b"N")?;
            continue;
        }
        let words: Vec<String> =
            packet[4..].split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let value = |name: &str| words.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone());
        let user = value("user").unwrap_or_default();
        let database = value("database").unwrap_or_else(|| user.clone());
        return Ok((user, database));
    }
}

fn message(out: &mut Vec<u8>, tag: u8, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.push(tag);
    out.extend((length as u32 + 4).to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}
