//! Sessions that move quickly while they are aimed at: no statement but the aimed one is ever cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::ClassIndex;
use plimsoll_postgres::server::PrivateServer;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::stage::{HIGH, LOW, card, governor, server, url};
use crate::governor::{Governor, WorkerCommand};
use crate::registry::{Phase, SessionCard};
use crate::watch;

/// Transactions of each high session, at least.
const HIGH_TRANSACTIONS: usize = 150;

/// The high sessions go on until a low one was preempted, but not for longer: on a busy machine few looks fall into
/// the short time in which a lock is waited for.
const PREEMPTED_WITHIN: Duration = Duration::from_mins(1);

/// The rows that all sessions contend for.
const ROWS: u32 = 4;

/// A session that keeps the registry's invariant as the real one does: it begins a unit only while no cancel is in
/// flight.
struct Player {
    card: Arc<SessionCard>,
    connection: Connection,
    random: Pcg64,
    table: &'static str,
}

impl Player {
    fn new(governor: &Governor, url: &ServerUrl, class: ClassIndex, seed: u64, table: &'static str) -> Player {
        let connection = Connection::open(url).unwrap();
        let card = card(governor, url, &connection, class);
        Player { card, connection, random: Pcg64::seed_from_u64(seed), table }
    }

    /// Runs one unit; false if it was cancelled for another session.
    ///
    /// # Panics
    /// If it was cancelled although it was not aimed at, or if it fails in another way.
    fn unit(&mut self, sql: &str, governor: &Governor, ends: bool) -> bool {
        let unit = loop {
            let mut state = self.card.state();
            if state.cancels.in_flight == 0 {
                if state.phase != Phase::Active && state.phase != Phase::IdleInTransaction {
                    state.transaction += 1;
                }
                state.unit += 1;
                (state.phase, state.since, state.cancels.preempting) = (Phase::Active, Instant::now(), None);
                state.preemptible = state.class == LOW && !ends;
                break state.unit;
            }
            drop(state);
            std::thread::yield_now();
        };
        if self.card.state().class == HIGH {
            governor.bell.ring();
        }
        let outcome = self.connection.run(sql);
        let mut state = self.card.state();
        state.phase = if ends { Phase::Idle } else { Phase::IdleInTransaction };
        match outcome {
            Ok(()) => true,
            Err(error) => {
                let code = error.server().map(|error| error.code.clone());
                assert_eq!(code.as_deref(), Some("57014"), "{sql}: {error}");
                assert_eq!(state.cancels.preempting, Some(unit), "nobody had aimed at this: {sql}");
                false
            }
        }
    }

    /// One transaction; returns how often it was preempted (a rollback is never aimed at).
    fn transaction(&mut self, governor: &Governor) -> u32 {
        let mut preempted = 0;
        'again: loop {
            assert!(self.unit("begin", governor, false), "nothing waits for a lock here");
            let mut rows: Vec<u32> = (0..3).map(|_| self.random.random_range(0..ROWS)).collect();
            rows.sort_unstable();
            for row in rows {
                // Short statements among those that wait: a stray cancel would hit these.
                for _ in 0..self.random.random_range(0..4) {
                    assert!(self.unit("select 1", governor, false), "it waits for nobody");
                }
                let update = format!("update {} set n = n + 1 where id = {row}", self.table);
                if !self.unit(&update, governor, false) {
                    preempted += 1;
                    assert!(self.unit("rollback", governor, true), "a rollback is not to be preempted");
                    continue 'again;
                }
            }
            assert!(self.unit("commit", governor, true), "a commit is not to be preempted");
            return preempted;
        }
    }
}

/// Runs low sessions for as long as the high ones run; returns how many preemptions they have noticed.
fn play(server: &PrivateServer, control: ServerUrl, table: &'static str, seed: u64) -> (Arc<Governor>, u32) {
    let mut connection = Connection::open(&url(server)).unwrap();
    let rows = ROWS - 1;
    connection
        .run(&format!("create table {table} as select g as id, 0 as n from generate_series(0, {rows}) g"))
        .unwrap();
    connection.run(&format!("create unique index on {table} (id); grant all on {table} to public")).unwrap();
    let (governor, commands, _poll) = governor(server, "pow", |settings| {
        settings.control = Some(control);
        // Sessions that often lose are not promoted, so that they can be aimed at all the time.
        settings.preemption.bound = plimsoll_policy::StarvationBound::none();
        settings.preemption.threshold = Duration::ZERO;
        settings.preemption.look_interval = Duration::from_micros(200);
        settings.preemption.idle_counts_as_waiting = false;
    });
    let watcher = watch::start(governor.clone());
    watcher.wait_until_asked();
    let customer = ServerUrl { user: "customer".to_owned(), ..url(server) };
    let noticed = AtomicU32::new(0);
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for at in 0..6 {
            let mut player = Player::new(&governor, &customer, LOW, seed + at, table);
            let (governor, noticed, is_over) = (&governor, &noticed, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    noticed.fetch_add(player.transaction(governor), Ordering::Relaxed);
                }
            });
        }
        let high: Vec<_> = (0..2)
            .map(|at| {
                let mut player = Player::new(&governor, &customer, HIGH, seed + 100 + at, table);
                let (governor, noticed) = (&governor, &noticed);
                let is_seen = move || noticed.load(Ordering::Relaxed) > 0 || began.elapsed() > PREEMPTED_WITHIN;
                scope.spawn(move || {
                    for _ in (0..).take_while(|&done| done < HIGH_TRANSACTIONS || !is_seen()) {
                        assert_eq!(player.transaction(governor), 0, "nobody is above it");
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = high.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    watcher.stop();
    for command in commands.try_iter() {
        assert!(!format!("{command:?}").contains("End"), "every cancel has arrived: {command:?}");
        assert!(matches!(command, WorkerCommand::Session(..)));
    }
    for card in governor.registry.all() {
        assert_eq!(card.state().cancels.in_flight, 0);
    }
    (governor, noticed.into_inner())
}

fn check(control: ServerUrl, server: &PrivateServer, table: &'static str, seed: u64) {
    let (governor, noticed) = play(server, control, table, seed);
    assert!(noticed > 0, "{:?}", governor.health.lock());
    let looks = governor.statistics.looks.load(Ordering::Relaxed);
    println!("seed {seed}: {looks} looks, {noticed} preempted");
}

#[test]
fn nobody_but_the_victim_is_hit() {
    let server = server();
    check(url(&server), &server, "played_by_right", 7);
}

#[test]
fn nobody_but_the_victim_is_hit_by_keys() {
    let server = server();
    check(ServerUrl { user: "timid".to_owned(), ..url(&server) }, &server, "played_by_key", 8);
}
