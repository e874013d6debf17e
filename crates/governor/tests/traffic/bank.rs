//! A bank whose clients, cancels, backends and governor fail at any moment, and whose money must not change.
//!
//! Tellers move money between few accounts in four ways ([`transfer`]), each transfer with a number of its own, and
//! note its outcome: acknowledged, refused, or unknown because the connection was lost during the commit. At the same
//! time tellers are cancelled, backends are ended, and clients vanish in the middle of a message. The governor's own
//! session is stopped for a while, it gets no more files, and it is killed and restarted. The server is killed while a
//! teller waits for the answer to its COMMIT. A teller that does not know the outcome of its transfer looks for it in
//! its next session. In the end every acknowledged transfer exists exactly once, no refused one exists, none exists
//! twice, and the balances match the transfers.
//!
//! The tellers of class high are never cancelled on purpose. If one of them is, a cancel has hit the wrong session.

mod audit;
mod teller;
mod transfer;

use std::env;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_testing::until;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::process::{Pid, Signal, kill_process};

use super::client::PATIENCE;
use super::governed::Governed;
use super::server::Server;
use teller::{Attempt, Bank, Teller};

/// Accounts; few, so that transfers wait for each other.
const ACCOUNTS: i32 = 10;

/// The initial balance of each.
const OPENING_BALANCE: i64 = 1_000_000;

/// Tellers by user; those of class low exceed the number that may be inside at once.
const TELLERS: [(&str, usize); 3] = [("low", 4), ("low_other", 2), ("high", 2)];

/// The governor is killed each time after this many other faults.
const MISFORTUNES_BETWEEN_KILLS: usize = 60;

/// The same for every run, so that failures are more likely to be reproducible.
const SEED: u64 = 20_160_503;

fn kills() -> usize {
    if env::var_os("PLIMSOLL_LONG").is_some() { 30 } else { 3 }
}

/// The governor's counts over all of its restarts.
#[derive(Debug, Default)]
struct Deeds {
    preempted: u64,
    replayed: u64,
    differed: u64,
    queued: u64,
}

impl Deeds {
    fn add(&mut self, governed: &Governed) {
        let count = |name: &str| governed.count(Some("low"), name);
        self.preempted += count("preempted_waiting") + count("preempted_running") + count("preempted_idle");
        self.replayed += count("replays_verified");
        self.differed += count("replays_differed");
        self.queued += count("queued");
        assert_eq!(governed.count(None, "desyncs"), 0, "a session was given up as not understood");
    }
}

/// How often the server may be killed again until some teller had to look for the outcome of a transfer.
const DOUBTS_MAX: usize = 20;

fn open_bank(server: &Server) {
    let sql = format!(
        "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 20);
         INSERT INTO account SELECT id, {OPENING_BALANCE} FROM generate_series(1, {ACCOUNTS}) id;
         -- Without a key: one that is there twice is to be found, not refused.
         CREATE TABLE transfer (id bigint NOT NULL, source int NOT NULL, target int NOT NULL, amount bigint NOT NULL);
         GRANT ALL ON account, transfer TO public"
    );
    server.connection().run(&sql).unwrap();
}

#[test]
fn money_is_neither_made_nor_lost() {
    let mut server = Server::start();
    open_bank(&server);
    let mut governed = Governed::start(&server);
    let bank = Arc::new(Bank::new(governed.address, server.database(), &TELLERS));
    let tellers = (0..bank.seats.len()).map(|seat| {
        let teller = Teller::new(Arc::clone(&bank), seat, SEED + seat as u64);
        thread::spawn(move || teller.work())
    });
    let tellers = tellers.collect::<Vec<_>>();

    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut deeds = Deeds::default();
    for kill in 0..=kills() {
        for _ in 0..MISFORTUNES_BETWEEN_KILLS {
            thread::sleep(Duration::from_millis(random.random_range(5..50)));
            misfortune(&server, &governed, &bank, &mut random);
            governed.assert_alive();
        }
        crash(&mut server, &bank);
        deeds.add(&governed);
        if kill < kills() {
            governed.kill_and_start();
            *bank.address.lock() = governed.address;
        }
    }
    let found_out = || bank.seats.iter().map(|seat| seat.found_out.load(Ordering::Relaxed)).sum::<u64>();
    // A teller is in doubt only if a kill comes between a COMMIT and its answer: some runs need several.
    for _ in 0..DOUBTS_MAX {
        if found_out() > 0 {
            break;
        }
        crash(&mut server, &bank);
        thread::sleep(Duration::from_millis(500));
    }
    bank.is_over.store(true, Ordering::Relaxed);
    let attempts = tellers.into_iter().flat_map(|teller| teller.join().expect("a teller's assertions hold"));
    let attempts = attempts.collect::<Vec<Attempt>>();

    audit::wait_for_quiet(&server);
    let told = audit::check(&server, &attempts);
    println!("{told:?}\n{deeds:?}");
    for seat in &bank.seats {
        let acknowledged = seat.acknowledged.load(Ordering::Relaxed);
        assert!(acknowledged >= 20, "{} got only {acknowledged} transfers through", seat.user);
    }
    assert!(told.unknown > 0 && told.refused > 0, "nothing went wrong: {told:?}");
    assert!(deeds.queued > 0 && deeds.preempted > 0 && deeds.replayed > 0, "it was too quiet: {deeds:?}");
    assert!(deeds.differed > 0, "nobody has read what a replay reads otherwise: {deeds:?}");
    assert!(found_out() > 0, "nobody had to ask what became of a transfer");
}

/// Kills the server while a teller waits for the answer to COMMIT, and restarts it.
fn crash(server: &mut Server, bank: &Bank) {
    let began = Instant::now();
    while bank.committing.load(Ordering::Relaxed) == 0 {
        assert!(began.elapsed() < PATIENCE, "nobody commits anything");
        thread::yield_now();
    }
    // The postmaster first, so that it does not replace the others.
    let processes = server.own().processes().into_iter().map(|process| Pid::from_raw(process).expect("a process"));
    let processes = processes.collect::<Vec<_>>();
    for &process in &processes {
        // Some end by themselves once the postmaster has ended.
        let _ = kill_process(process, Signal::KILL);
    }
    // The server refuses to start as long as one of its processes exists.
    until("processes end", || !processes.iter().any(|process| is_running(*process)));
    // The server takes a zombie process for a running one.
    let _ = fs::remove_file(server.own().data_folder().join("postmaster.pid"));
    let _ = fs::remove_file(server.socket().with_file_name(format!(".s.PGSQL.{}.lock", server.own().port())));
    server.restart();
}

/// Whether a process exists and is not a zombie.
fn is_running(process: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid()));
    status.is_ok_and(|status| !status.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// Stops the governor's own session at the server for a moment, at any point of its work.
fn stall_control(server: &Server, time: Duration) {
    let sql =
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'plimsoll%' AND pid <> pg_backend_pid() LIMIT 1";
    // It may be between two attempts to connect.
    let Some(process) = server.connection().text(sql).unwrap().and_then(|process| Pid::from_raw(process.parse().ok()?))
    else {
        return;
    };
    if kill_process(process, Signal::STOP).is_ok() {
        thread::sleep(time);
        // If it was ended in the meantime, that counts as another fault.
        let _ = kill_process(process, Signal::CONT);
    }
}

/// Cancels a teller, ends a backend, stops the governor's own session, takes its files, or checks the sum, which must
/// always be right.
fn misfortune(server: &Server, governed: &Governed, bank: &Bank, random: &mut Pcg64Mcg) {
    let mut connection = server.connection();
    match random.random_range(0..12) {
        10 => stall_control(server, Duration::from_millis(random.random_range(50..300))),
        11 => governed.without_files(Duration::from_millis(random.random_range(50..300))),
        0..6 => bank.cancel_one(random.random_range(0..bank.seats.len())),
        6..8 => {
            let user = TELLERS[random.random_range(0..TELLERS.len())].0;
            let sql = format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{user}' ORDER BY random() LIMIT 1"
            );
            connection.run(&sql).unwrap();
        }
        _ => {
            let sum = connection.text("SELECT sum(balance) FROM account").unwrap();
            assert_eq!(sum, Some((OPENING_BALANCE * i64::from(ACCOUNTS)).to_string()));
        }
    }
}
