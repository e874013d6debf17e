//! Several sessions of one governor in front of a small server, with cancels, preemptions, time-outs and lost clients
//! at any moment: invariants 1 to 5 of `src/session/README.md` hold.
//!
//! 1. *A cancel hits the unit that it was aimed at, or none.* A client receives 57014 only for units that it had sent
//!    when it cancelled, and a client of class high receives no other error for a cancel or a rollback.
//! 2. *Every message is answered once, in order.* [`client`] accepts only answers to its own requests.
//! 3. *Nothing is run twice that may have been committed.* Each statement is unique; acknowledged ones are in one
//!    committed transaction of the server, refused ones in none, and no statement in two.
//! 4. *A replay is unnoticed or reported.* The answers in an acknowledged transaction are those that the server gave in
//!    the one transaction that it committed.
//! 5. *An admission is returned once.* When all clients have disconnected, no transaction is inside or waits.

mod client;
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_governor::governor::{SessionCommand, WorkerCommand};
use plimsoll_governor::registry::{EventId, Phase, SessionCard, SessionId};
use plimsoll_governor::session::{Outbox, Session};

use super::choices::Choices;
use super::world::{LOW, World};
use client::{Client, Known, TransactionOutcome};
use server::{Backend, Database};

/// One client of class high and three of class low, of which two may be inside and one may wait.
const USERS: [&str; 4] = ["high", "low", "low", "low"];

/// The number of bytes that decide each step; a search for the shortest failing bytes can leave steps out.
pub const STEP_BYTES: usize = 7;

/// The number of lines that each client's session may use.
const LINES_OF_A_SESSION: usize = 100_000;

/// In this number of rounds without decisions, everything that can end has ended.
const ROUNDS_TO_REST: usize = 2_000;

/// Counts of events, so that a test can verify that it has tried them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub acknowledged: usize,
    pub refused: usize,
    /// Replays that no client noticed.
    pub replayed: u64,
    /// Replays with a different answer.
    pub differed: u64,
    /// Transactions rolled back while their clients were thinking.
    pub idle: u64,
    pub queued: u64,
    /// Transactions that timed out waiting for admission.
    pub timed_out: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.replayed += other.replayed;
        self.differed += other.differed;
        self.idle += other.idle;
        self.queued += other.queued;
        self.timed_out += other.timed_out;
    }
}

#[derive(Debug, Clone, Copy)]
struct Cancel {
    place: usize,
    session: SessionId,
    is_preempting: bool,
    /// Whether the server's process has been signalled; `None` before the attempt.
    is_signalled: Option<bool>,
}

struct Seat {
    user: &'static str,
    client: Client,
    session: Session,
    card: Arc<SessionCard>,
    backend: Backend,
    to_session: Vec<u8>,
}

struct Out<'a> {
    backend: &'a mut Backend,
    client: &'a mut Vec<u8>,
}

impl Outbox for Out<'_> {
    fn to_server(&mut self, bytes: &[u8]) {
        self.backend.take(bytes);
    }
    fn to_client(&mut self, bytes: &[u8]) {
        self.client.extend_from_slice(bytes);
    }
}

struct Society {
    world: World,
    database: Database,
    seats: Vec<Seat>,
    cancels: Vec<Cancel>,
    sessions_begun: usize,
    /// The knowledge of clients whose sessions are over.
    known: Vec<Known>,
    now: Instant,
    /// Whether all events are printed.
    is_told: bool,
}

/// Runs a society with the decisions that `bytes` encode, and fails if it violates an invariant. If `is_told`, all
/// events are printed.
pub fn live(bytes: &[u8], is_told: bool) -> Tally {
    let mut society = Society::new(is_told);
    for bytes in bytes.chunks(STEP_BYTES) {
        society.happens(&mut Choices::of(bytes));
    }
    society.come_to_rest();
    society.end()
}

impl Society {
    fn new(is_told: bool) -> Society {
        let now = Instant::now();
        let mut society = Society {
            world: World::new(now),
            database: Database::default(),
            seats: Vec::new(),
            cancels: Vec::new(),
            sessions_begun: 0,
            known: Vec::new(),
            now,
            is_told,
        };
        society.seats = USERS.iter().map(|user| society.seat(user)).collect();
        society
    }

    fn seat(&mut self, user: &'static str) -> Seat {
        self.sessions_begun += 1;
        let (session, card) = self.world.session(user, self.now);
        let client = Client::new(user != "high", self.sessions_begun * LINES_OF_A_SESSION);
        Seat { user, client, session, card, backend: Backend::default(), to_session: Vec::new() }
    }

    fn tell(&self, what: impl Fn(&Society) -> String) {
        if self.is_told {
            println!("{}", what(self));
        }
    }

    fn happens(&mut self, choices: &mut Choices<'_>) {
        self.now += Duration::from_millis(1);
        let place = choices.below(self.seats.len());
        let what = choices.below(24);
        match what {
            0..5 => self.seats[place].client.speak(choices),
            5..11 => self.server_works(place, choices),
            11..16 => self.seats[place].pass([usize::MAX, 9, usize::MAX, usize::MAX, 1][choices.below(5)], self.now),
            16..18 => self.aim(place),
            18 => self.roll_back_idle(place),
            19 if choices.once_in(3) => self.client_cancels(place),
            19..22 => self.cancel_goes_on(choices),
            22 if choices.once_in(4) => self.client_leaves(place),
            _ => self.time_passes(Duration::from_millis(if choices.once_in(40) { 4_000 } else { 5 })),
        }
        self.hear();
        self.tell(|society| format!("{place} {what}: {}", society.seats[place].described()));
    }

    /// The server works for a session, and its client usually receives the result.
    fn server_works(&mut self, place: usize, choices: &mut Choices<'_>) {
        let seat = &mut self.seats[place];
        if choices.once_in(2) {
            seat.pass(usize::MAX, self.now);
        }
        for _ in 0..choices.below(6) {
            seat.backend.step(&mut self.database);
        }
        if choices.once_in(2) {
            seat.pass(usize::MAX, self.now);
        }
    }

    /// Clients finish their transactions, until nothing more happens.
    fn come_to_rest(&mut self) {
        for _ in 0..ROUNDS_TO_REST {
            for place in 0..self.seats.len() {
                self.seats[place].pass(usize::MAX, self.now);
                self.seats[place].backend.step(&mut self.database);
                self.hear();
            }
            self.cancel_goes_on(&mut Choices::of(&[]));
            self.cancel_goes_on(&mut Choices::of(&[]));
            self.time_passes(Duration::from_millis(1));
            let is_at_rest = |seat: &Seat| seat.client.is_idle() && seat.backend.is_idle();
            if self.cancels.is_empty() && self.seats.iter().all(is_at_rest) {
                self.check_status();
            }
            // A transaction that waits for admission waits for those inside.
            let speaks = self.seats.iter_mut().map(|seat| seat.client.finish()).filter(|&speaks| speaks).count();
            if speaks == 0 && self.cancels.is_empty() && self.seats.iter().all(is_at_rest) {
                return;
            }
        }
        let stuck = self.seats.iter().map(Seat::described).collect::<Vec<_>>();
        panic!("somebody waits for ever: {stuck:#?}");
    }

    /// If a client's status is idle, its server has no transaction open.
    fn check_status(&self) {
        for seat in &self.seats {
            let (told, is) = (seat.client.status(), seat.backend.status());
            assert!(told != b'I' || is == b'I', "{} was told I, and the server is {}", seat.user, char::from(is));
        }
    }

    fn end(mut self) -> Tally {
        for place in 0..self.seats.len() {
            self.client_leaves(place);
        }
        self.hear();
        let seats = std::mem::take(&mut self.seats);
        for mut seat in seats {
            seat.session.close(self.now);
            self.known.append(&mut seat.client.known);
        }
        self.world.assert_empty();
        self.check_books();
        let low = self.world.governor.statistics.class(LOW);
        let read = |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
        let fates = |fate| self.known.iter().filter(|known| known.fate == fate).count();
        Tally {
            acknowledged: fates(TransactionOutcome::Acknowledged),
            refused: fates(TransactionOutcome::Refused),
            replayed: read(&low.replays_verified),
            differed: read(&low.replays_differed),
            idle: read(&low.preempted_idle),
            queued: read(&low.queued),
            timed_out: read(&low.refused_timeout),
        }
    }

    /// Compares the committed transactions with the knowledge of clients.
    fn check_books(&self) {
        let mut transactions = BTreeMap::new();
        for (number, lines) in self.database.committed.iter().enumerate() {
            for (line, _) in lines {
                let other = transactions.insert(line, number);
                assert_eq!(other, None, "{line} was committed twice");
            }
        }
        for known in &self.known {
            let found = known.lines.iter().map(|(line, _)| transactions.get(line)).collect::<Vec<_>>();
            match known.fate {
                TransactionOutcome::Acknowledged => {
                    let number = found[0].unwrap_or_else(|| panic!("acknowledged and not there: {known:?}"));
                    assert_eq!(self.database.committed[*number], known.lines, "what was committed, and what was told");
                }
                TransactionOutcome::Refused => {
                    assert!(found.iter().all(Option::is_none), "refused and there: {known:?}")
                }
                TransactionOutcome::Unknown => {}
            }
        }
    }

    /// Cancels a session's unit for another transaction, if that is permitted.
    fn aim(&mut self, place: usize) {
        let card = &self.seats[place].card;
        let (transaction, unit) = self.world.place(card);
        if card.aim_preemption(transaction, unit) {
            self.cancels.push(Cancel { place, session: card.id, is_preempting: true, is_signalled: None });
        }
    }

    fn roll_back_idle(&mut self, place: usize) {
        let (transaction, unit, phase, preemptible) = {
            let state = self.seats[place].card.state();
            (state.transaction, state.unit, state.phase, state.preemptible)
        };
        if phase == Phase::IdleInTransaction && preemptible {
            let command = SessionCommand::RollBackIdle { transaction, unit, event: EventId(1) };
            self.seats[place].command(command, self.now);
        }
    }

    fn client_cancels(&mut self, place: usize) {
        let seat = &mut self.seats[place];
        seat.client.cancels();
        if seat.card.aim_client_cancel().is_some() {
            let session = seat.card.id;
            self.cancels.push(Cancel { place, session, is_preempting: false, is_signalled: None });
        } else if seat.card.state().phase == Phase::Queued {
            seat.command(SessionCommand::ClientCancelled, self.now);
        }
    }

    /// A cancel is sent, is found to be too late, or has arrived.
    fn cancel_goes_on(&mut self, choices: &mut Choices<'_>) {
        if self.cancels.is_empty() {
            return;
        }
        let number = choices.below(self.cancels.len());
        let cancel = self.cancels[number];
        let seat = &mut self.seats[cancel.place];
        if seat.card.id != cancel.session {
            self.cancels.swap_remove(number);
            return;
        }
        match cancel.is_signalled {
            None => {
                let is_sent = !choices.once_in(4);
                if is_sent {
                    seat.backend.cancel();
                }
                self.cancels[number].is_signalled = Some(is_sent);
            }
            Some(is_signalled) => {
                self.cancels.swap_remove(number);
                seat.card.cancel_arrived(is_signalled, cancel.is_preempting);
                seat.command(SessionCommand::CancelArrived, self.now);
            }
        }
    }

    /// A client disconnects without a message, and another takes its place.
    fn client_leaves(&mut self, place: usize) {
        let user = self.seats[place].user;
        let next = self.seat(user);
        let mut seat = std::mem::replace(&mut self.seats[place], next);
        seat.session.close(self.now);
        seat.backend.hang_up(&mut self.database);
        seat.client.loses_session();
        self.known.append(&mut seat.client.known);
    }

    fn time_passes(&mut self, time: Duration) {
        self.now += time;
        self.world.governor.expire_waiting(self.now);
        for seat in &mut self.seats {
            if seat.session.wakes_at().is_some_and(|at| at <= self.now) {
                seat.on_time(self.now);
            }
        }
    }

    /// Delivers the commands of other threads to sessions.
    fn hear(&mut self) {
        while let Ok(command) = self.world.commands.try_recv() {
            let WorkerCommand::Session(id, command) = command else { continue };
            if let Some(seat) = self.seats.iter_mut().find(|seat| seat.card.id == id) {
                seat.command(command, self.now);
            }
        }
    }
}

impl Seat {
    fn described(&self) -> String {
        let show = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let (said, answers) = (show(&self.client.outbox), show(&self.backend.answers));
        let (backend, phase, unit) = {
            let state = self.card.state();
            (self.backend.described(), state.phase, state.unit)
        };
        format!("{} has said {said}; {backend} has answered {answers}; {phase:?} at unit {unit}", self.user)
    }

    /// Passes at most `count_max` bytes in either direction.
    fn pass(&mut self, count_max: usize, now: Instant) {
        let count = self.client.outbox.len().min(count_max.max(1));
        let said = self.client.outbox.drain(..count);
        self.to_session.extend(said);
        self.offer(now);
        let count = self.backend.answers.len().min(count_max.max(1));
        let taken = self.answer(count, now);
        if taken < count && count < self.backend.answers.len() + taken {
            // The bytes were less than a message.
            self.answer(self.backend.answers.len(), now);
        }
        self.offer(now);
    }

    /// Offers the first `count` bytes of the server's answers. The rest is the beginning of a message, and is offered
    /// again with more of it.
    fn answer(&mut self, count: usize, now: Instant) -> usize {
        let offered = self.backend.answers[..count].to_vec();
        let taken = self.act(|session, out| session.on_server(&offered, now, out));
        let taken = taken.expect("the server keeps to the protocol");
        self.backend.answers.drain(..taken);
        taken
    }

    fn act<T>(&mut self, act: impl FnOnce(&mut Session, &mut Out<'_>) -> T) -> T {
        act(&mut self.session, &mut Out { backend: &mut self.backend, client: &mut self.client.inbox })
    }

    fn command(&mut self, command: SessionCommand, now: Instant) {
        self.act(|session, out| session.on_command(command, now, out));
        self.offer(now);
    }

    fn on_time(&mut self, now: Instant) {
        self.act(|session, out| session.on_time(now, out));
        self.offer(now);
    }

    /// Offers the client's bytes to the session, as long as it accepts any; the client reads the results.
    fn offer(&mut self, now: Instant) {
        while !self.to_session.is_empty() && self.session.takes_client_bytes() {
            let mut out = Out { backend: &mut self.backend, client: &mut self.client.inbox };
            let taken = self.session.on_client(&self.to_session, now, &mut out).expect("clients keep to the protocol");
            self.to_session.drain(..taken);
            if taken == 0 && self.session.takes_client_bytes() {
                break;
            }
        }
        assert!(!self.session.has_ended(), "the session has ended");
        self.client.read();
    }
}
