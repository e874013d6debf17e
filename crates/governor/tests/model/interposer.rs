//! A relay between the governor and the server that makes cancels arrive exactly where a script wants them.
//!
//! A real signal hits some statement, or nothing. The interposer acts as the watcher does: it aims at the unit that
//! passes, by the session's card. Instead of having the server signalled, it replaces one statement, or one message,
//! with one that fails, and the error with that of a cancelled statement. The server's transaction has then failed
//! exactly there, with everything before done and nothing after.

mod failures;
mod first_run;
mod link;

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use plimsoll_governor::governor::Governor;

use super::script::{Injection, Unit, expanded};
use super::wire::Client;
pub use failures::{preemption, with_failing, with_failing_commit};
use link::connection;

/// A misbehaviour that the test must detect: see `main`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canary {
    /// A replay is answered as expected, but does nothing.
    IdleReplay,
    /// A cancel arrives one unit too late.
    LateCancel,
    /// During a replay, the governor always sees the answers of the first run, as if it compared nothing.
    SameAnswers,
    /// A statement that changes data is sent twice, and answered once.
    Twice,
    /// The last unit of a client that then closes its connection is dropped.
    DropsTheLast,
    /// Notices are withheld until the statement ends.
    LateNotices,
    /// A transaction that was rolled back for another fails with 40001, though nobody has changed its data.
    Refuses,
    /// The settings of a pooled session are not put in force on the connection that it gets.
    KeepsSettings,
}

/// The listener that the governor takes for its server.
pub struct Interposer {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The injections that remain, in order.
    armed: Mutex<VecDeque<Injection>>,
    /// The statements of texts that consist of several.
    statements: Mutex<HashMap<String, Vec<String>>>,
    /// The address at which the governor's client cancels, and its process and secret.
    client: Mutex<Option<(SocketAddr, Vec<u8>)>>,
    /// The number of cancel requests that came through the governor.
    cancels: AtomicUsize,
    /// A session that changes data that transactions have read.
    somebody: Mutex<Option<Client>>,
    /// Its statement before a replay, and whether the transaction has been rolled back.
    change: Mutex<Option<(String, bool)>>,
    /// How many units have been answered.
    answered: AtomicUsize,
    /// The transaction's requests and answers, for [`Canary::SameAnswers`].
    first_run: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    done: Mutex<Done>,
    governor: OnceLock<Arc<Governor>>,
    canary: Mutex<Option<Canary>>,
    /// Whether the client closes its connection behind the unit that it sends now.
    is_leaving: AtomicBool,
    is_stopped: AtomicBool,
}

/// The injections carried out since the last call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Units that failed, or would have failed, because of another session.
    pub preempted: usize,
    /// Units that their client cancelled.
    pub cancelled: usize,
    pub changed: bool,
    /// Whether the server has aborted a unit by itself.
    pub is_aborted: bool,
    /// Whether a commit failed after everything before it was done.
    pub is_commit_failed: bool,
    /// Why a unit could not be aimed at, by the session's card.
    pub spared: Option<&'static str>,
}

impl Interposer {
    /// Starts in front of the server with that socket.
    pub fn start(server: PathBuf) -> Interposer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if own.is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, server) = (Arc::clone(&own), server.clone());
                // If a connection fails, both of its ends notice and report it.
                thread::spawn(move || stream.and_then(|stream| connection(stream, &server, shared)));
            }
        });
        Interposer { address, shared }
    }

    /// Sets the governor that has the sessions.
    pub fn set_governor(&self, governor: Arc<Governor>) {
        assert!(self.shared.governor.set(governor).is_ok(), "one governor");
    }

    pub fn set_canary(&self, canary: Option<Canary>) {
        *self.shared.canary.lock().unwrap() = canary;
    }

    /// Sets the address of the governor and the cancel key of its client.
    pub fn set_client(&self, governor: SocketAddr, key: Vec<u8>) {
        *self.shared.client.lock().unwrap() = Some((governor, key));
    }

    /// A transaction has ended: later requests are not a replay of it.
    pub fn forget(&self) {
        self.shared.first_run.lock().unwrap().clear();
    }

    /// Remembers the statements of a text.
    pub fn learn_unit(&self, unit: &Unit) {
        let Unit::Query(statements) = unit else { return };
        let statements: Vec<String> = statements.iter().map(|sql| expanded(sql)).collect();
        self.shared.statements.lock().unwrap().insert(statements.join("; "), statements);
    }

    /// Applies these injections to the next units, and to nothing else.
    pub fn arm(&self, injections: impl IntoIterator<Item = Injection>) {
        *self.shared.armed.lock().unwrap() = injections.into_iter().collect();
    }

    pub fn set_leaving(&self, is_leaving: bool) {
        self.shared.is_leaving.store(is_leaving, Ordering::SeqCst);
    }

    pub fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::SeqCst)
    }

    pub fn set_somebody(&self, somebody: Client) {
        *self.shared.somebody.lock().unwrap() = Some(somebody);
    }

    /// Has another session run that statement when the transaction has been rolled back and is about to be replayed.
    /// `is_rolled_back` says that it has been rolled back already.
    pub fn arm_change(&self, change: Option<String>, is_rolled_back: bool) {
        *self.shared.change.lock().unwrap() = change.map(|sql| (sql, is_rolled_back));
    }

    /// The injections carried out since the last call.
    pub fn take_done(&self) -> Done {
        std::mem::take(&mut *self.shared.done.lock().unwrap())
    }
}

impl Drop for Interposer {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        // Wakes the listener, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}
