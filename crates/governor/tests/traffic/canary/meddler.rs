//! A relay between a governor and its server that changes some of the traffic.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use memchr::memmem;
use parking_lot::{Condvar, Mutex};

use super::super::client::PATIENCE;

/// A cancel request begins with its length and this code.
const CANCEL: [u8; 8] = [0, 0, 0, 16, 4, 210, 22, 46];

/// The changes to the traffic.
#[derive(Debug, Default)]
struct Plan {
    /// In the server's messages, each first text is replaced with the second, which has the same length.
    replaced: Vec<(Vec<u8>, Vec<u8>)>,
    holds_cancels: bool,
    held: usize,
}

#[derive(Debug, Default)]
struct Shared {
    plan: Mutex<Plan>,
    changed: Condvar,
}

/// Accepts connections like a server, and opens one to the server for each.
pub struct Meddler {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Meddler {
    /// One in front of the server with that socket; it stays until the test ends.
    pub fn start(server: PathBuf) -> Meddler {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let plan = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (shared, server) = (Arc::clone(&plan), server.clone());
                thread::spawn(move || pass(client.unwrap(), &server, &shared));
            }
        });
        Meddler { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same for a governor.
    pub fn url(&self) -> String {
        format!("postgres://{}/?sslmode=disable", self.address)
    }

    /// From now on replaces that text in the server's messages, too.
    pub fn replace(&self, some: &[u8], other: &[u8]) {
        assert_eq!(some.len(), other.len(), "messages keep their lengths");
        self.shared.plan.lock().replaced.push((some.to_vec(), other.to_vec()));
    }

    /// Whether cancels are held up; held ones continue once this becomes false.
    pub fn holds_cancels(&self, holds: bool) {
        self.shared.plan.lock().holds_cancels = holds;
        self.shared.changed.notify_all();
    }

    /// Waits until a cancel is held up.
    pub fn wait_for_cancel(&self) {
        let mut plan = self.shared.plan.lock();
        let is_late = self.shared.changed.wait_while_for(&mut plan, |plan| plan.held == 0, PATIENCE).timed_out();
        assert!(!is_late, "no cancel comes");
    }
}

/// Forwards a connection, in both directions, until one side ends it.
fn pass(mut client: TcpStream, server: &Path, shared: &Shared) {
    let mut chunk = [0; 1 << 16];
    let mut server = UnixStream::connect(server).unwrap();
    let Ok(length) = client.read(&mut chunk) else { return };
    if chunk[..length].starts_with(&CANCEL) {
        let mut plan = shared.plan.lock();
        plan.held += 1;
        shared.changed.notify_all();
        shared.changed.wait_while_for(&mut plan, |plan| plan.holds_cancels, PATIENCE);
    }
    let _ = server.write_all(&chunk[..length]);
    let (mut answers, mut clients_end) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut chunk = [0; 1 << 16];
            while let Ok(length @ 1..) = answers.read(&mut chunk) {
                let passing = &mut chunk[..length];
                for (some, other) in &shared.plan.lock().replaced {
                    if let Some(place) = memmem::find(passing, some) {
                        passing[place..place + other.len()].copy_from_slice(other);
                    }
                }
                if clients_end.write_all(passing).is_err() {
                    break;
                }
            }
            let _ = clients_end.shutdown(Shutdown::Both);
        });
        while let Ok(length @ 1..) = client.read(&mut chunk) {
            if server.write_all(&chunk[..length]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    });
}
