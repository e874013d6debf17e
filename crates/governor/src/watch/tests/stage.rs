//! A server, a governor that knows it, and clients whose cards tests change by hand.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::{ClassIndex, Login, PreemptionPolicy};
use plimsoll_postgres::server::PrivateServer;

use crate::agent::Agent;
use crate::governor::{Governor, SessionCommand, WorkerCommand, WorkerHandle};
use crate::registry::{BackendKey, Phase, SessionCard, SessionId};
use crate::settings::Settings;
use crate::testing;
pub(super) use crate::testing::url;
use crate::watch::control::Control;
use crate::watch::pace::Seen;
use crate::watch::round::Round;
use crate::watch::{late, round};

pub(super) const HIGH: ClassIndex = ClassIndex(0);
pub(super) const LOW: ClassIndex = ClassIndex(1);

/// One server for all tests, which use locks and tables of their own. It ends with the last test.
pub(super) fn server() -> Arc<PrivateServer> {
    static SHARED: Mutex<Weak<PrivateServer>> = Mutex::new(Weak::new());
    // A test that fails while it starts the server fails alone; the next one tries again.
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        // The server's own deadlock check is not under test: a session that waits too long fails its test.
        let settings =
            [("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "256MB"), ("deadlock_timeout", "60s")];
        let mut server = testing::server(&settings);
        let mut connection = Connection::open(&url(&server)).unwrap();
        connection.run("alter system set max_prepared_transactions = 10").unwrap();
        connection.run("create role timid login").unwrap();
        connection.run("create role signaller login; grant pg_signal_backend to signaller").unwrap();
        connection.run("create role customer login").unwrap();
        drop(connection);
        server.restart().unwrap();
        let server = Arc::new(server);
        *shared = Arc::downgrade(&server);
        server
    })
}

/// A watcher's parts, driven by hand.
pub(super) struct Stage {
    pub control: Control,
    pub agent: Agent,
    pub round: Round,
    pub governor: Arc<Governor>,
    /// The commands that sessions were sent.
    commands: Receiver<WorkerCommand>,
    _poll: mio::Poll,
    pub server: Arc<PrivateServer>,
}

/// A governor of that server, with one worker, whose commands arrive at the channel.
pub(super) fn governor(
    server: &PrivateServer,
    policy: &str,
    change: impl FnOnce(&mut Settings),
) -> (Arc<Governor>, Receiver<WorkerCommand>, mio::Poll) {
    let governor = testing::governor(|settings| {
        (settings.server, settings.control) = (url(server), Some(url(server)));
        settings.preemption.policy = PreemptionPolicy::parse(policy).unwrap();
        change(settings);
    });
    let poll = mio::Poll::new().unwrap();
    let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0)).unwrap());
    let (sender, commands) = channel();
    governor.set_workers(vec![WorkerHandle { sender, waker }]);
    (governor, commands, poll)
}

impl Stage {
    pub(super) fn new(policy: &str) -> Stage {
        Stage::with(policy, |_| {})
    }

    pub(super) fn with(policy: &str, change: impl FnOnce(&mut Settings)) -> Stage {
        let server = server();
        let (governor, commands, _poll) = governor(&server, policy, change);
        let mut control = Control::new(governor.clone());
        control.tend(&governor.settings(), Instant::now());
        assert_eq!(governor.health.lock().control_error, None);
        let (agent, round) = (Agent::new(governor.clone()), Round::new(governor.clone()));
        Stage { control, agent, round, governor, commands, _poll, server }
    }

    /// One round, for all late sessions.
    pub(super) fn round(&mut self) -> Result<Seen, WireError> {
        let settings = self.governor.settings();
        assert!(round::rules(&settings, &self.agent).is_some());
        let late = late::late(&self.governor, &settings, Instant::now());
        let up = self.control.connection().expect("it is up");
        self.round.go(up, &settings, &late.processes, &mut self.agent)
    }

    /// The commands that sessions were sent since the last call.
    pub(super) fn told(&self) -> Vec<(SessionId, SessionCommand)> {
        let session = |command| match command {
            WorkerCommand::Session(id, command) => (id, command),
            other => panic!("{other:?}"),
        };
        self.commands.try_iter().map(session).collect()
    }

    /// A client of that class, as the server's superuser.
    pub(super) fn client(&self, class: ClassIndex) -> Client {
        Client::new(&self.governor, &url(&self.server), class)
    }

    /// A session that does not go through the governor.
    pub(super) fn stranger(&self) -> Client {
        let (governor, ..) = governor(&self.server, "never", |_| {});
        Client::new(&governor, &url(&self.server), LOW)
    }

    /// The counters of the low class: too late, tracked. Sessions count the rest.
    pub(super) fn counts(&self) -> [u64; 2] {
        let low = self.governor.statistics.class(LOW);
        [&low.preempted_too_late, &low.preemptions_tracked]
            .map(|counter| counter.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// Waits until a client's process waits for a lock.
    pub(super) fn until_it_waits(&self, client: &Client) {
        let process = client.process();
        let sql = format!("select pg_blocking_pids({process}) <> '{{}}'");
        self.until(&format!("process {process} waits"), &sql);
    }

    /// Waits until a client's process is in `pg_sleep`.
    pub(super) fn until_it_sleeps(&self, client: &Client) {
        let process = client.process();
        let sql = format!("select wait_event = 'PgSleep' from pg_stat_activity where pid = {process}");
        self.until(&format!("process {process} sleeps"), &sql);
    }

    /// Waits until the query about the server returns true.
    pub(super) fn until(&self, what: &str, sql: &str) {
        let mut connection = Connection::open(&url(&self.server)).unwrap();
        plimsoll_testing::until(what, || connection.text(sql).unwrap().as_deref() == Some("t"));
    }
}

/// A card of a connection whose client is idle.
pub(super) fn card(
    governor: &Governor,
    url: &ServerUrl,
    connection: &Connection,
    class: ClassIndex,
) -> Arc<SessionCard> {
    let login = Login { user: url.user.clone(), database: url.database.clone(), application_name: "test".to_owned() };
    let card = SessionCard::new(governor.registry.next_id(), 0, "here".to_owned(), login, class, Instant::now());
    let key = BackendKey { process: connection.process_id(), secret: connection.secret_key().into() };
    card.key.set(key).expect("set once");
    card.state().phase = Phase::Idle;
    let card = Arc::new(card);
    governor.registry.insert(card.clone());
    card
}

/// A connection on a thread of its own, and a card.
pub(super) struct Client {
    pub card: Arc<SessionCard>,
    statements: Option<Sender<String>>,
    outcomes: Receiver<Result<(), WireError>>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    pub(super) fn new(governor: &Arc<Governor>, url: &ServerUrl, class: ClassIndex) -> Client {
        let mut connection = Connection::open(url).unwrap();
        let card = card(governor, url, &connection, class);
        let (statements, todo) = channel::<String>();
        let (done, outcomes) = channel();
        let thread = std::thread::spawn(move || {
            for sql in todo {
                if done.send(connection.run(&sql)).is_err() {
                    break;
                }
            }
        });
        Client { card, statements: Some(statements), outcomes, thread: Some(thread) }
    }

    pub(super) fn process(&self) -> i32 {
        self.card.process().unwrap()
    }

    /// Begins a statement; its card shows it as in flight for long enough to be late.
    pub(super) fn send(&self, sql: &str) {
        let mut state = self.card.state();
        if matches!(state.phase, Phase::Idle) {
            state.transaction += 1;
        }
        state.unit += 1;
        state.phase = Phase::Active;
        state.since = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        state.preemptible = state.class == LOW;
        state.cancels.preempting = None;
        drop(state);
        self.statements.as_ref().unwrap().send(sql.to_owned()).unwrap();
    }

    /// The outcome of the statement; its transaction stays open.
    pub(super) fn outcome(&self) -> Result<(), WireError> {
        let outcome = self.outcomes.recv_timeout(Duration::from_secs(60)).expect("it has an end");
        self.card.state().phase = Phase::IdleInTransaction;
        outcome
    }

    /// Runs a statement that succeeds.
    pub(super) fn run(&self, sql: &str) {
        self.send(sql);
        self.outcome().unwrap();
    }

    /// The SQLSTATE with which the statement has failed.
    pub(super) fn failure(&self) -> String {
        self.outcome().expect_err("it fails").server().expect("the server says so").code.clone()
    }

    /// Its current transaction and unit.
    pub(super) fn place(&self) -> (u64, u64) {
        let state = self.card.state();
        (state.transaction, state.unit)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.statements = None;
        if let Some(thread) = self.thread.take() {
            // A client that is still blocked when its test fails must not keep the test from ending.
            if !std::thread::panicking() {
                let _ = thread.join();
            }
        }
    }
}
