//! The clients that move money, and their records.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::super::client::{Client, Failure, cancel};
use super::ACCOUNTS;
use super::transfer::{End, Transfer, Way};

/// The state that all tellers share.
pub struct Bank {
    pub address: Mutex<SocketAddr>,
    pub database: String,
    /// When tellers stop.
    pub is_over: AtomicBool,
    /// How many tellers wait for the answer to a COMMIT.
    pub committing: AtomicU64,
    pub seats: Vec<Seat>,
}

/// The public facts about a teller.
pub struct Seat {
    pub user: &'static str,
    /// Address and key of its session.
    key: Mutex<Option<(SocketAddr, Vec<u8>)>>,
    /// Cancels sent for it, counted before they are sent.
    cancels: AtomicU64,
    /// Transfers that succeeded.
    pub acknowledged: AtomicU64,
    /// Transfers whose outcome it did not know at first, but found out.
    pub found_out: AtomicU64,
}

impl Bank {
    /// A bank with the given number of tellers for each user.
    pub fn new(address: SocketAddr, database: &str, tellers: &[(&'static str, usize)]) -> Bank {
        let users = tellers.iter().flat_map(|&(user, count)| std::iter::repeat_n(user, count));
        let seat = |user| Seat {
            user,
            key: Mutex::default(),
            cancels: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            found_out: AtomicU64::new(0),
        };
        Bank {
            address: Mutex::new(address),
            database: database.to_owned(),
            is_over: AtomicBool::new(false),
            committing: AtomicU64::new(0),
            seats: users.map(seat).collect(),
        }
    }

    /// Cancels the statement of a teller of class low.
    pub fn cancel_one(&self, seat: usize) {
        let seat = &self.seats[seat];
        let Some((address, key)) = seat.key.lock().clone().filter(|_| seat.is_low()) else { return };
        seat.cancels.fetch_add(1, Ordering::SeqCst);
        // A governor that has ended cancels nothing.
        let _ = cancel(address, &key);
    }
}

impl Seat {
    fn is_low(&self) -> bool {
        self.user.starts_with("low")
    }
}

/// The outcome of a transfer, as far as its teller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferOutcome {
    /// It was committed.
    Acknowledged,
    /// It was not committed.
    Refused,
    /// It is unknown.
    Unknown,
}

/// An attempt at a transfer; each attempt has a number of its own.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub id: i64,
    pub fate: TransferOutcome,
}

/// A client that moves money until the bank closes.
pub struct Teller {
    bank: Arc<Bank>,
    seat: usize,
    random: Pcg64Mcg,
    /// The number of transfers attempted.
    made: i64,
    attempts: Vec<Attempt>,
    /// The number of cancels reported to it.
    cancelled: u64,
    /// A transfer whose outcome it does not know yet, but can find out.
    in_doubt: Option<Transfer>,
}

impl Teller {
    pub fn new(bank: Arc<Bank>, seat: usize, seed: u64) -> Teller {
        Teller {
            bank,
            seat,
            random: Pcg64Mcg::seed_from_u64(seed),
            made: 0,
            attempts: Vec::new(),
            cancelled: 0,
            in_doubt: None,
        }
    }

    /// Works until the bank closes, and returns its attempts.
    pub fn work(mut self) -> Vec<Attempt> {
        while !self.bank.is_over.load(Ordering::Relaxed) {
            let address = *self.bank.address.lock();
            match Client::connect(address, self.bank.seats[self.seat].user, &self.bank.database) {
                Ok(client) => self.serve(client, address),
                // The governor is being restarted, or a backend has ended.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
        if let Some(transfer) = self.in_doubt {
            self.attempts.push(Attempt { id: transfer.id, fate: TransferOutcome::Unknown });
        }
        self.attempts
    }

    /// Moves money until the connection is lost, by a fault or on purpose.
    fn serve(&mut self, mut client: Client, address: SocketAddr) {
        *self.bank.seats[self.seat].key.lock() = Some((address, client.key.clone()));
        while !self.bank.is_over.load(Ordering::Relaxed) {
            if !self.finds_out(&mut client) {
                return;
            }
            let transfer = self.next();
            let way = match self.random.random_range(0..10) {
                0..3 => Way::ReadThenWrite,
                3..7 => Way::Blind,
                7..9 => Way::OneStatement,
                _ => Way::AtOnce,
            };
            let end = transfer.make(way, &mut client, &mut self.random, &self.bank.committing);
            self.made += 1;
            if matches!(end, End::Unknown) && way.holds_its_rows() {
                self.in_doubt = Some(transfer);
                return;
            }
            let (fate, goes_on) = match end {
                End::Acknowledged => (TransferOutcome::Acknowledged, true),
                End::Abandoned => (TransferOutcome::Refused, false),
                End::Unknown | End::Left => (TransferOutcome::Unknown, false),
                End::Refused(failure) => {
                    self.note_refusal(&failure, way);
                    let is_rolled_back = matches!(failure, Failure::Refused(_)) && client.query("ROLLBACK").is_ok();
                    (TransferOutcome::Refused, is_rolled_back)
                }
            };
            self.attempts.push(Attempt { id: transfer.id, fate });
            if fate == TransferOutcome::Acknowledged {
                self.bank.seats[self.seat].acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Looks for the outcome of the transfer in doubt; returns whether it is known now.
    fn finds_out(&mut self, client: &mut Client) -> bool {
        let Some(transfer) = self.in_doubt else { return true };
        let Ok(is_there) = transfer.is_there(client) else { return false };
        let seat = &self.bank.seats[self.seat];
        seat.found_out.fetch_add(1, Ordering::Relaxed);
        seat.acknowledged.fetch_add(u64::from(is_there), Ordering::Relaxed);
        let fate = if is_there { TransferOutcome::Acknowledged } else { TransferOutcome::Refused };
        self.attempts.push(Attempt { id: transfer.id, fate });
        self.in_doubt = None;
        true
    }

    fn next(&mut self) -> Transfer {
        let source = self.random.random_range(1..=ACCOUNTS);
        let target = 1 + (source - 1 + self.random.random_range(1..ACCOUNTS)) % ACCOUNTS;
        let number = self.made;
        Transfer { id: (self.seat as i64) << 32 | number, source, target, amount: self.random.random_range(1..100) }
    }

    /// A client may get only the errors that can happen to it.
    fn note_refusal(&mut self, failure: &Failure, way: Way) {
        let seat = &self.bank.seats[self.seat];
        match failure.state() {
            // Deadlocks can happen to any client, and so can the ends of a backend and of the server.
            None | Some("40P01" | "57P01" | "57P02") => {}
            Some("40001") => assert!(seat.is_low(), "{} {way:?}: {failure}", seat.user),
            Some("57014") => {
                self.cancelled += 1;
                let sent = seat.cancels.load(Ordering::SeqCst);
                assert!(self.cancelled <= sent, "{} was cancelled {} times, of {sent}", seat.user, self.cancelled);
            }
            Some(_) => panic!("{} {way:?}: {failure}", seat.user),
        }
    }
}
