//! Name lookup for servers in a thread of its own: a lookup may take seconds, and no session must wait for another's.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How long an answer is reused, and so how soon a server's new address is found.
const KEPT: Duration = Duration::from_secs(15);

struct Question {
    host: String,
    port: u16,
    answer: Box<dyn FnOnce(io::Result<Vec<SocketAddr>>) + Send>,
}

/// Sends questions to the thread, which ends with the last of these.
#[derive(Clone)]
pub(super) struct Resolver(Sender<Question>);

impl Resolver {
    pub(super) fn start() -> io::Result<Self> {
        let (sender, questions) = mpsc::channel::<Question>();
        let mut known: HashMap<(String, u16), (Instant, Vec<SocketAddr>)> = HashMap::new();
        thread::Builder::new().name("names".to_owned()).spawn(move || {
            for Question { host, port, answer } in questions {
                let key = (host, port);
                if let Some((_, addresses)) = known.get(&key).filter(|(at, _)| at.elapsed() < KEPT) {
                    answer(Ok(addresses.clone()));
                    continue;
                }
                let found = (key.0.as_str(), port).to_socket_addrs().map(Vec::from_iter);
                if let Ok(addresses) = &found {
                    known.insert(key, (Instant::now(), addresses.clone()));
                }
                answer(found);
            }
        })?;
        Ok(Resolver(sender))
    }

    /// Asks; the resolver's thread calls `answer`.
    pub(super) fn ask(&self, host: &str, port: u16, answer: impl FnOnce(io::Result<Vec<SocketAddr>>) + Send + 'static) {
        let question = Question { host: host.to_owned(), port, answer: Box::new(answer) };
        self.0.send(question).expect("the thread lives as long as its asker");
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_or_not() {
        let resolver = Resolver::start().unwrap();
        let (sender, answers) = mpsc::channel();
        for host in ["localhost", "localhost", "no-such-host.invalid"] {
            let sender = sender.clone();
            resolver.ask(host, 5432, move |answer| sender.send(answer).unwrap());
        }
        let next = || answers.recv().unwrap();
        let found = next().unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 5432), "{found:?}");
        assert_eq!(next().unwrap(), found);
        assert!(next().is_err());
    }
}
