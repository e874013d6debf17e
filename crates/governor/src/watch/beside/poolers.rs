//! Asks the poolers in front of the server which client each of their server connections serves.
//!
//! Each pooler has a thread of its own, so that one that does not answer holds nothing up. It sends `SHOW SERVERS` and
//! `SHOW CLIENTS` to the pooler's console and leaves the result for the watcher ([`Poolers::shown`]).

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::Login;

use super::links::{ClientRow, Links, Process, ServerRow, Span};
use crate::watch::control::{PATIENCE, impatient};

/// The shortest and the longest time between two rounds of questions. pgbouncer has one thread, which answers nothing
/// else meanwhile.
const EVERY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// After a round the pooler has this many times as long without questions.
const REST_FACTOR: u32 = 50;

/// The time between two attempts to connect: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// The poolers of the settings.
#[derive(Debug, Default)]
pub(super) struct Poolers(Vec<Pooler>);

/// What is known from a pooler.
pub(super) type Shown = Result<Arc<Links>, String>;

#[derive(Debug)]
struct Pooler {
    url: ServerUrl,
    shown: Arc<Mutex<Shown>>,
    /// Dropping it ends the thread.
    _stop: Sender<()>,
}

impl Poolers {
    /// Asks the poolers at these consoles from now on, and no others. Returns whether they are others than before.
    pub(super) fn ask(&mut self, consoles: &[ServerUrl]) -> bool {
        let is_new = !self.0.iter().map(|pooler| &pooler.url).eq(consoles);
        if is_new {
            let mut before = std::mem::take(&mut self.0);
            for url in consoles {
                let known = before.iter().position(|pooler| pooler.url == *url);
                self.0.push(known.map_or_else(|| Pooler::start(url), |place| before.swap_remove(place)));
            }
        }
        is_new
    }

    /// The last answers of each, or why there are none.
    pub(super) fn shown(&self) -> Vec<(String, Shown)> {
        self.0.iter().map(|pooler| (pooler.url.address(), pooler.shown.lock().clone())).collect()
    }
}

impl Pooler {
    fn start(url: &ServerUrl) -> Pooler {
        let shown: Arc<Mutex<Shown>> = Arc::new(Mutex::new(Err("it has not been asked yet".to_owned())));
        let (stop, stops) = mpsc::channel();
        let asking = Asking { url: impatient(url), shown: shown.clone(), stops };
        let thread = std::thread::Builder::new().name("pooler".to_owned()).spawn(move || asking.run());
        if let Err(error) = thread {
            *shown.lock() = Err(format!("no thread can be started: {error}"));
        }
        Pooler { url: url.clone(), shown, _stop: stop }
    }
}

/// The thread of a pooler.
struct Asking {
    url: ServerUrl,
    shown: Arc<Mutex<Shown>>,
    stops: Receiver<()>,
}

impl Asking {
    fn run(self) {
        let mut retry = RETRY.0;
        let mut told = None;
        loop {
            let began = Instant::now();
            let error = match self.connect() {
                Ok(mut connection) => {
                    tracing::info!(pgbouncer = self.url.address(), "its clients are known from now on");
                    (retry, told) = (RETRY.0, None);
                    match self.ask_repeatedly(&mut connection) {
                        Some(error) => error,
                        None => return,
                    }
                }
                Err(error) => error,
            };
            let why = why(&error);
            *self.shown.lock() = Err(why.clone());
            if told.as_ref() != Some(&why) {
                tracing::warn!(pgbouncer = self.url.address(), why, "its clients are not known");
                told = Some(why);
            }
            if self.is_stopped_within(retry.saturating_sub(began.elapsed())) {
                return;
            }
            retry = (retry * 2).min(RETRY.1);
        }
    }

    fn connect(&self) -> Result<Connection, WireError> {
        let mut connection = Connection::open_console(&self.url)?;
        connection.set_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// Asks until that fails; `None` if the thread is to end.
    fn ask_repeatedly(&self, connection: &mut Connection) -> Option<WireError> {
        loop {
            let began = Instant::now();
            match ask(connection) {
                Ok(links) => *self.shown.lock() = Ok(Arc::new(links)),
                Err(error) => return Some(error),
            }
            let rest = (began.elapsed() * REST_FACTOR).clamp(EVERY.0, EVERY.1);
            if self.is_stopped_within(rest) {
                return None;
            }
        }
    }

    fn is_stopped_within(&self, length: Duration) -> bool {
        self.stops.recv_timeout(length) != Err(RecvTimeoutError::Timeout)
    }
}

/// The reason, with the remedy where the pooler's own words have none.
fn why(error: &WireError) -> String {
    let text = error.to_string();
    if text.contains("not allowed") || text.contains("no such user") || text.contains("admin access") {
        return format!("{text}; name a user of its `stats_users` in the URL");
    }
    text
}

/// One round of questions.
fn ask(connection: &mut Connection) -> Result<Links, WireError> {
    let began = Instant::now();
    let before = servers(connection)?;
    let clients = clients(connection)?;
    let after = servers(connection)?;
    Ok(Links::join(Span { began, ended: Instant::now() }, &before, clients, after))
}

fn servers(connection: &mut Connection) -> Result<Vec<ServerRow>, WireError> {
    const COLUMNS: [&str; 6] = ["ptr", "link", "database", "remote_pid", "local_addr", "local_port"];
    let mut rows = Vec::new();
    connection.text_columns("SHOW SERVERS", &COLUMNS, &mut |row| rows.extend(server(row)))?;
    Ok(rows)
}

fn server(row: &[Option<&str>]) -> Option<ServerRow> {
    let &[Some(place), client, database, Some(process), address, port] = row else { return None };
    let process: i32 = process.parse().ok().filter(|process| *process > 0)?;
    // A connection by a Unix socket has the pooler's own port there.
    let port = port.filter(|_| address != Some("unix")).and_then(|port| port.parse().ok());
    Some(ServerRow {
        process: (process, port),
        place: place.to_owned(),
        client: client.unwrap_or_default().to_owned(),
        database: database.unwrap_or_default().to_owned(),
    })
}

fn clients(connection: &mut Connection) -> Result<Vec<ClientRow>, WireError> {
    const COLUMNS: [&str; 5] = ["ptr", "link", "user", "database", "application_name"];
    let mut rows = Vec::new();
    connection.text_columns("SHOW CLIENTS", &COLUMNS, &mut |row| {
        let text = |place: usize| row[place].unwrap_or_default().to_owned();
        let login = Login { user: text(2), database: text(3), application_name: text(4) };
        rows.push(ClientRow { place: text(0), server: text(1), login });
    })?;
    Ok(rows)
}

/// A server process in a row of the server's view, as a pooler names it.
pub(super) fn process(process: i32, port: Option<i32>) -> Process {
    (process, port.and_then(|port| u16::try_from(port).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_known_by_process_and_port() {
        let row = |process, address, port| {
            server(&[Some("0x1"), Some(""), Some("shop"), Some(process), Some(address), Some(port)])
                .map(|row| row.process)
        };
        assert_eq!(row("17", "127.0.0.1", "42730"), Some((17, Some(42_730))));
        assert_eq!(row("17", "unix", "6432"), Some((17, None)));
        assert_eq!(row("0", "unix", "6432"), None, "it is logging in");
        assert_eq!((process(17, Some(42_730)), process(17, Some(-1))), ((17, Some(42_730)), (17, None)));
    }

    #[test]
    fn a_pooler_that_does_not_answer_says_why() {
        let url = |port: u16| ServerUrl { port, ..ServerUrl::of_socket("/nonexistent", 1, "stats", "pgbouncer") };
        let mut poolers = Poolers::default();
        assert!(poolers.ask(&[url(1), url(2)]) && !poolers.ask(&[url(1), url(2)]));
        plimsoll_testing::until("the reason to be known", || {
            let why = |(_, shown): (String, Shown)| shown.is_err_and(|why| why.contains("/nonexistent"));
            poolers.shown().into_iter().all(why)
        });
        assert!(poolers.ask(&[url(2)]));
        assert_eq!(poolers.shown().len(), 1);
    }
}
