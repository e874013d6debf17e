//! The subjects of pgbouncer's own tests, as far as they concern a governor: each case is played at the server itself,
//! through a governor, and through a pool of one connection that another client has whenever the case leaves it free. The
//! answers must be the same to the last byte.
//!
//! `../pgbouncer.md` lists all of their tests, our corresponding ones, and why the others do not apply. None of their
//! code is copied: they drive libpq, and these are messages.

mod connecting;
mod messages;
mod operating;
mod replication;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::client::{Client, Destination, Message};
use super::governed::Governed;
use super::requests::{bind, execute, parse, query, sync};
use super::server::Server;

#[derive(Debug, Clone)]
enum CaseStep {
    /// Sends these messages.
    Say(Vec<u8>),
    /// Waits until a message of this type has arrived.
    Hear(u8),
}
use CaseStep::{Hear, Say};

/// Several messages that are sent at once.
fn say<const N: usize>(messages: [Vec<u8>; N]) -> CaseStep {
    Say(messages.concat())
}

/// Plays a case and returns all answers, including that to a last query, which ends any state that the case has left.
fn play(client: &mut Client, steps: &[CaseStep]) -> Vec<Message> {
    const END: &str = "that was all";
    let mut heard = Vec::new();
    let end = say([sync(), query("ROLLBACK"), query(&format!("SELECT '{END}'"))]);
    for step in steps.iter().chain([&end]) {
        match step {
            Say(bytes) => client.send(bytes).unwrap(),
            Hear(tag) => loop {
                let message = client.message().unwrap_or_else(|error| panic!("{error} after {heard:?}"));
                let is_it = message.tag == *tag;
                heard.push(message);
                if is_it {
                    break;
                }
            },
        }
    }
    loop {
        let message = client.message().unwrap_or_else(|error| panic!("{error} after {heard:?}"));
        let is_last = message.tag == b'D' && message.body.ends_with(END.as_bytes());
        heard.push(message);
        if is_last {
            assert_eq!(client.answer().unwrap().status, b'I');
            return heard;
        }
    }
}

/// A server, and a governor that admits one transaction of class low; another one has a pool of one connection for each
/// user.
struct World {
    governed: Governed,
    pooled: Governed,
    server: Server,
}

impl World {
    fn start() -> World {
        let server = Server::start();
        server.connection().run("CREATE TABLE copied (i int); GRANT ALL ON copied TO public").unwrap();
        let governed = Governed::start_with(&server, "", "mpl = 1");
        let pooled = Governed::start_pool(&server, 1, "mpl = 1");
        World { governed, pooled, server }
    }

    fn direct(&self, user: &str) -> Client {
        Client::connect(Destination::Unix(self.server.socket()), user, self.server.database()).unwrap()
    }

    fn governed(&self, user: &str) -> Client {
        self.governed.client(user, self.server.database())
    }

    /// A client of a pool, and another one of the same connection.
    fn pooled(&self, user: &str) -> (Client, Rival) {
        let rival = Rival::start(&self.pooled, user, self.server.database());
        (self.pooled.client(user, self.server.database()), rival)
    }

    /// Plays cases one after the other on one connection of each kind.
    fn check(&mut self, cases: &[(String, Vec<CaseStep>)]) {
        for user in ["low", "high"] {
            let (mut pooled, _rival) = self.pooled(user);
            self.compare(user, cases, &mut [("governed", &mut self.governed(user)), ("pooled", &mut pooled)]);
        }
        self.governed.assert_alive();
        self.pooled.assert_alive();
    }

    /// The same without a pool.
    fn check_unpooled(&mut self, cases: &[(String, Vec<CaseStep>)]) {
        for user in ["low", "high"] {
            self.compare(user, cases, &mut [("governed", &mut self.governed(user))]);
        }
        self.governed.assert_alive();
    }

    /// Compares what clients hear with what a client of the server hears. Each case begins with nothing: what one has left
    /// may keep the connection of a pool.
    fn compare(&self, user: &str, cases: &[(String, Vec<CaseStep>)], clients: &mut [(&str, &mut Client)]) {
        let mut direct = self.direct(user);
        for (name, steps) in cases {
            let expect = play(&mut direct, steps);
            direct.query("DISCARD ALL").unwrap();
            for (kind, client) in &mut *clients {
                assert_eq!(play(client, steps), expect, "{user}, {kind}: {name}");
                client.query("DISCARD ALL").unwrap();
            }
        }
    }
}

/// A client of the same pool, which has the connection whenever a case leaves it free.
struct Rival {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rival {
    fn start(governed: &Governed, user: &str, database: &str) -> Rival {
        let (mut client, is_over) = (governed.client(user, database), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            client.query("SET application_name = 'rival'").unwrap();
            client.send(&[parse("p", "SELECT 'rival'"), sync()].concat()).unwrap();
            client.answer().unwrap();
            while !until.load(Ordering::Relaxed) {
                client.send(&[bind("p", &[]), execute(), sync()].concat()).unwrap();
                assert_eq!(client.answer().unwrap().value(), Some("rival"));
            }
        });
        Rival { is_over, thread: Some(thread) }
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map_or(Ok(()), JoinHandle::join);
        if !thread::panicking() {
            joined.expect("the rival gets its answers");
        }
    }
}
