//! A server with a shop and reports, and their clients, for looks at a live server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

/// Each client changes a row of its own: a shop that waits for locks would not be predicted.
pub const SHOP: &[&str] = &[
    "begin",
    "select sum(id) from items where id < 3000",
    "update items set n = n + 1 where id = 1 + pg_backend_pid() % 20000",
    "commit",
];

/// A report is one long statement without parallel workers.
pub const REPORTS: &[&str] = &["select sum(a.id * b.id % 7) from items as a, items as b where b.id < 80"];

/// A server with the tables and roles.
pub fn server() -> PrivateServer {
    let mut settings = ServerSettings::for_this_machine();
    for (name, value) in [("shared_buffers", "64MB"), ("fsync", "off")] {
        settings.set(name, value).unwrap();
    }
    let server = PrivateServer::start(settings).expect("a PostgreSQL server is needed");
    let setup = "create table items (id int primary key, n int); \
        insert into items select i, 0 from generate_series(1, 20000) as i; analyze items; grant all on items to public; \
        create role shop login; create role reports login; create role monitor login in role pg_monitor; \
        alter role reports set max_parallel_workers_per_gather = 0";
    Connection::open(&url(&server, server.user())).unwrap().run(setup).unwrap();
    server
}

/// The server as a user reaches it.
pub fn url(server: &PrivateServer, user: &str) -> ServerUrl {
    ServerUrl::of_socket(server.socket_folder(), server.port(), user, server.database())
}

/// A request of a client.
#[allow(dead_code, reason = "tests do not measure")]
pub struct Request {
    /// When it began, since the clients were started.
    pub at: Duration,
    /// Its response time.
    pub response: Duration,
}

/// Clients that run a script again and again, with pauses, until they are dropped.
pub struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Request>>>,
}

impl Clients {
    /// Starts so many clients of a user.
    pub fn start(
        server: &PrivateServer,
        user: &str,
        count: usize,
        script: &'static [&'static str],
        pause: Duration,
    ) -> Clients {
        let (stop, started) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let client = |at: usize| {
            let (url, stop) = (url(server, user), Arc::clone(&stop));
            spawn(move || {
                let mut connection = Connection::open(&url).unwrap();
                sleep(pause.mul_f64(at as f64 / count as f64));
                let mut requests = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    for sql in script {
                        connection.run(sql).unwrap();
                    }
                    requests.push(Request { at: began - started, response: began.elapsed() });
                    sleep(pause);
                }
                requests
            })
        };
        let threads = (0..count).map(client).collect();
        Clients { stop, threads }
    }

    /// Ends them; returns every request.
    #[allow(dead_code, reason = "tests do not measure")]
    pub fn end(mut self) -> Vec<Request> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).flat_map(|thread| thread.join().unwrap()).collect()
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
