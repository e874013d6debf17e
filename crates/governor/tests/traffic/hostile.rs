//! Malicious input. It must not make the governor panic, hang or grow, and must not harm other clients.
//!
//! Every test runs beside a well-behaved client ([`Beside`]) that logs in and queries all the time, and must get right
//! answers. In the end the governor has as many files open as before, and at most [`GROWTH_MAX`] more memory.
//!
//! The tests of each class of bugs that proxies are known for:
//!
//! | class | where |
//! |---|---|
//! | 1 a cancel hits another session | [`login::only_the_right_key_cancels`], `bank` (class high is never cancelled) |
//! | 2 a cancel desynchronises | [`order::cancels_between_statements_leave_answers_in_order`], check `cancel` of every driver |
//! | 3 a cancel meets what the proxy itself does | `bank` (cancels while replays run), [`order::a_cancelled_waiter_is_refused_and_goes_on`] |
//! | 4 a refusal within a pipeline | [`order::refused_units_leave_the_others_their_own_answers`] |
//! | 5 the client disconnects in the middle of a message | `bank`, [`order::a_client_that_goes_leaves_the_queue`] |
//! | 6 Flush without Sync | `conversation`, drivers `asyncpg` and `postgres_js` |
//! | 7 prepared statements | `conversation`, check `prepared` of every driver |
//! | 8 COPY that fails | [`messages::a_copy_may_be_left_at_any_point`], `conversation`, check `copy` of every driver |
//! | 9 the proxy's own replies out of order | [`order::the_governors_own_answers_keep_their_places`], [`rolled_back`] |
//! | 10 state of one session seen in another | [`login::what_a_session_sets_is_its_own`] |
//! | 11 FunctionCall | `conversation`, check `function` of driver `jdbc` |
//! | 12 counts of transactions inside | [`order::a_client_that_goes_leaves_the_queue`], `bank` (tellers queue after every fault) |
//! | 13 collapse above capacity | check `contended` of every driver, `bank` |
//! | 14 passwords, rights, CVEs | [`login`], [`startup`] |
//! | 15 reload | the tests beside `config` and `run` |
//! | 16 lengths and parts of messages | [`startup`], [`messages`], `conversation` |
//! | 17 wrong statistics | the tests beside `session` and `statistics` |
//! | 18 the cost of looking at locks | the tests of `watch` |

mod leaving;
mod login;
mod messages;
mod order;
mod rolled_back;
mod server_side;
mod startup;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plimsoll_testing::until;

use super::client::Client;
use super::governed::Governed;
use super::server::Server;

/// How much the governor's memory may grow during and after an attack.
const GROWTH_MAX: u64 = 48 << 20;

/// A well-behaved client that must not notice anything.
struct Beside {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Beside {
    fn start(address: SocketAddr, database: &str) -> Beside {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, database) = (Arc::clone(&is_over), database.to_owned());
        let thread = thread::spawn(move || {
            let mut asked = 0;
            loop {
                let mut client = Client::connect(address, "high_other", &database).unwrap();
                for number in 0..10 {
                    let answer = client.value(&format!("SELECT {number} * 7 -- and {asked}")).unwrap();
                    assert_eq!(answer, (number * 7).to_string());
                    asked += 1;
                    if over.load(Ordering::Relaxed) {
                        return asked;
                    }
                    thread::sleep(Duration::from_millis(2));
                }
            }
        });
        Beside { is_over, thread }
    }

    fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        assert!(self.thread.join().expect("the good client beside is not hurt") > 0);
    }
}

struct Attacked {
    server: Arc<Server>,
    governed: Governed,
    beside: Option<Beside>,
    resident_bytes: u64,
}

impl Attacked {
    /// A governor that gives clients as long to log in as a busy machine may need for a hundred of them.
    fn start() -> Attacked {
        Attacked::start_with("login_timeout = \"15s\"", "mpl = 4")
    }

    /// A governor that does not wait for clients that never log in.
    fn impatient() -> Attacked {
        Attacked::start_with("login_timeout = \"3s\"", "mpl = 4")
    }

    /// Other lines in the tables `[listen]` and of class low.
    fn start_with(listen: &str, low: &str) -> Attacked {
        // Its own, because transactions of other tests would keep replays from being proved safe.
        let server = Arc::new(Server::start());
        // Before the governor: it must be older than what the governor knows to have ended.
        let rolled = "CREATE TABLE rolled AS SELECT 0 AS low, 0 AS high; GRANT ALL ON rolled TO public";
        server.connection().run(rolled).unwrap();
        let governed = Governed::start_with(&server, listen, low);
        let beside = Beside::start(governed.address, server.database());
        // So that one-time allocations for the first clients do not count as growth.
        for _ in 0..20 {
            drop(governed.client("low", server.database()));
        }
        let resident_bytes = governed.resident_bytes();
        Attacked { server, governed, beside: Some(beside), resident_bytes }
    }

    fn address(&self) -> SocketAddr {
        self.governed.address
    }

    fn client(&self, user: &str) -> Client {
        self.governed.client(user, self.server.database())
    }

    fn bare(&self) -> Client {
        Client::bare(self.address()).unwrap()
    }

    fn assert_small(&self) {
        let now = self.governed.resident_bytes();
        let growth = now.saturating_sub(self.resident_bytes);
        assert!(growth < GROWTH_MAX, "the governor grew by {growth} bytes to {now}");
    }

    /// Fails if anything is left of the attack.
    fn stop(mut self) {
        self.assert_small();
        self.beside.take().expect("stopped once").stop();
        // The connection of the asking console may be one of them.
        let mut console = self.governed.console().unwrap();
        until("all clients leave", || console.query("SHOW CLIENTS").unwrap().rows.len() <= 1);
        self.governed.assert_alive();
    }
}
