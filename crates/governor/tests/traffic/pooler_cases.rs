//! The subjects of pgbouncer's own tests, as far as they concern a governor: each case is played at the server itself
//! and through a governor, and the answers must be the same to the last byte.
//!
//! `../pgbouncer.md` lists all of their tests, our corresponding ones, and why the others do not apply. None of their
//! code is copied: they drive libpq, and these are messages.

mod connecting;
mod messages;
mod operating;
mod replication;

use super::client::{Client, Destination, Message};
use super::governed::Governed;
use super::requests::{query, sync};
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

/// A server, and a governor that admits one transaction of class low.
struct World {
    governed: Governed,
    server: Server,
}

impl World {
    fn start() -> World {
        let server = Server::start();
        server.connection().run("CREATE TABLE copied (i int); GRANT ALL ON copied TO public").unwrap();
        let governed = Governed::start_with(&server, "", "mpl = 1");
        World { governed, server }
    }

    fn direct(&self, user: &str) -> Client {
        Client::connect(Destination::Unix(self.server.socket()), user, self.server.database()).unwrap()
    }

    fn governed(&self, user: &str) -> Client {
        self.governed.client(user, self.server.database())
    }

    /// Plays cases one after the other on one connection of each kind.
    fn check(&mut self, cases: &[(String, Vec<CaseStep>)]) {
        for user in ["low", "high"] {
            let (mut direct, mut governed) = (self.direct(user), self.governed(user));
            for (name, steps) in cases {
                let expect = play(&mut direct, steps);
                let heard = play(&mut governed, steps);
                assert_eq!(heard, expect, "{user}: {name}");
            }
        }
        self.governed.assert_alive();
    }
}
