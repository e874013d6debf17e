//! One connection between the governor and the server.

mod answers;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use plimsoll_governor::governor::{Governor, SessionCommand};
use plimsoll_governor::registry::{Immunity, Phase, SessionCard};

use super::super::rival::RIVAL;
use super::super::script::{Injection, Settles};
use super::super::wire::{Message, PATIENCE, tagged, take_message};
use super::failures::{is_change, make_idle, preemption};
use super::{Canary, Shared};
use answers::Answers;

const CANCEL_REQUEST: i32 = 80_877_102;

/// How long to wait for a client's next unit; there may be none.
const NEXT_UNIT_MAX: Duration = Duration::from_millis(100);

/// Between two looks at a card.
const MOMENT: Duration = Duration::from_micros(100);

/// The state shared by both directions of a connection.
pub struct Link {
    pub shared: Arc<Shared>,
    process: AtomicI32,
    /// Whether the unit before was a question for the settings of a session.
    has_asked: AtomicBool,
    has_logged_in: AtomicBool,
    /// The transaction status that the server reported last.
    pub status: AtomicU8,
    /// Units, counted from 0, whose error is to be that of a cancelled statement.
    pub cancelled: Mutex<Vec<usize>>,
    /// Units whose error is to be a serialization failure.
    aborted: Mutex<Vec<usize>>,
    /// Units whose first statement is ours, so that its answer is dropped.
    pub commits_failed: Mutex<Vec<usize>>,
    /// The unit with which the governor rolls a block back and begins an empty one.
    rolls_back: Mutex<Option<usize>>,
    /// Whether the block is empty: the session holds no locks.
    is_empty: AtomicBool,
    /// Whether the client sends data, among which a server ignores every `Sync` and `Flush`.
    is_copying: AtomicBool,
    /// Units that the governor has not sent: see [`Canary::Twice`].
    unasked: Mutex<Vec<usize>>,
    /// Units without an answer yet: the place in the first run that each is compared with, and its request.
    pub replayed: Mutex<VecDeque<(Option<usize>, Vec<u8>)>>,
    /// The unit after whose answer a session is notified that its cancel has arrived.
    arrives_after: Mutex<Option<(usize, Arc<SessionCard>)>>,
}

/// Serves a connection of the governor, from its first byte to its last.
pub fn connection(mut governor: TcpStream, server: &Path, shared: Arc<Shared>) -> io::Result<()> {
    governor.set_nodelay(true)?;
    let mut head = [0; 4];
    governor.read_exact(&mut head)?;
    let mut startup = vec![0; u32::from_be_bytes(head) as usize - 4];
    governor.read_exact(&mut startup)?;
    if startup[..4] == CANCEL_REQUEST.to_be_bytes() {
        // The connection closes when the signal has been sent; the script decides whether one is sent.
        shared.cancels.fetch_add(1, Ordering::SeqCst);
        return Ok(());
    }
    let mut server = UnixStream::connect(server)?;
    server.write_all(&[&head[..], &startup].concat())?;
    let link = Arc::new(Link {
        shared,
        process: AtomicI32::new(0),
        has_asked: AtomicBool::new(false),
        has_logged_in: AtomicBool::new(false),
        status: AtomicU8::new(b'I'),
        cancelled: Mutex::default(),
        aborted: Mutex::default(),
        commits_failed: Mutex::default(),
        rolls_back: Mutex::default(),
        is_empty: AtomicBool::new(false),
        is_copying: AtomicBool::new(false),
        unasked: Mutex::default(),
        arrives_after: Mutex::default(),
        replayed: Mutex::default(),
    });
    let (from, to, own) = (server.try_clone()?, governor.try_clone()?, Arc::clone(&link));
    let answers = thread::spawn(move || answers(from, to, &own));
    let result = requests(governor, &mut server, &link);
    // A server that has received everything answers it before it ends.
    let _ = server.shutdown(if result.is_ok() { Shutdown::Write } else { Shutdown::Both });
    let _ = answers.join();
    result
}

/// Forwards the governor's messages until it disconnects.
fn requests(mut governor: TcpStream, server: &mut UnixStream, link: &Link) -> io::Result<()> {
    let (mut bytes, mut pending, mut unit) = (BytesMut::new(), Vec::new(), 0);
    let mut chunk = [0; 16 << 10];
    let (mut is_late, mut place) = (false, None);
    loop {
        while let Some(message) = take_message(&mut bytes) {
            let tag = message.tag;
            if link.is_copying.load(Ordering::SeqCst) {
                link.aim_at_copy(unit);
            }
            if matches!(tag, b'c' | b'f') {
                link.is_copying.store(false, Ordering::SeqCst);
            }
            if link.is_copying.load(Ordering::SeqCst) {
                server.write_all(&tagged(tag, &message.body))?;
                continue;
            }
            pending.push(message);
            // Messages that the server answers at once. The others would wait for more.
            if !matches!(tag, b'P' | b'B' | b'D' | b'E' | b'C') {
                if matches!(tag, b'Q' | b'S' | b'F') && link.is(Canary::DropsTheLast) && link.is_last() {
                    return Ok(());
                }
                if matches!(tag, b'Q' | b'S' | b'F' | b'H') {
                    link.interfere(&mut pending, unit, &mut is_late);
                }
                if tag == b'Q' && link.is(Canary::Twice) && is_change(&pending) {
                    link.unasked.lock().unwrap().push(unit);
                    unit += 1;
                    server.write_all(&tagged(tag, &pending[0].body))?;
                }
                let out: Vec<u8> = pending.drain(..).flat_map(|one: Message| tagged(one.tag, &one.body)).collect();
                if matches!(tag, b'Q' | b'S' | b'F') {
                    link.note_request(&out, &mut place);
                }
                server.write_all(&out)?;
                unit += usize::from(matches!(tag, b'Q' | b'S' | b'F'));
            }
        }
        match governor.read(&mut chunk)? {
            0 => return Ok(()),
            length => bytes.extend_from_slice(&chunk[..length]),
        }
    }
}

/// Forwards the server's answers until it disconnects.
fn answers(mut server: UnixStream, mut governor: TcpStream, link: &Link) -> io::Result<()> {
    let (mut bytes, mut chunk) = (BytesMut::new(), [0; 16 << 10]);
    let mut answers =
        Answers { link, answer: Vec::new(), is_held: false, has_failed: false, notices: Vec::new(), unit: 0 };
    let mut pass = || -> io::Result<()> {
        loop {
            let (mut out, mut arrivals, mut units_answered) = (Vec::new(), Vec::new(), 0);
            while let Some(mut message) = take_message(&mut bytes) {
                if message.tag == b'Z' && link.has_logged_in.load(Ordering::SeqCst) {
                    let unit = answers.unit;
                    arrivals.extend(link.arrives_after.lock().unwrap().take_if(|due| due.0 == unit));
                    units_answered += 1;
                }
                if answers.changes(&mut message) {
                    answers.pass(&message, &mut out);
                }
            }
            governor.write_all(&out)?;
            link.shared.answered.fetch_add(units_answered, Ordering::SeqCst);
            for (_, card) in arrivals {
                link.arrive(&card);
            }
            match server.read(&mut chunk)? {
                0 => return Ok(()),
                length => bytes.extend_from_slice(&chunk[..length]),
            }
        }
    };
    let result = pass();
    let _ = governor.shutdown(Shutdown::Both);
    result
}

impl Link {
    fn governor(&self) -> &Governor {
        self.shared.governor.get().expect("set before anybody connects")
    }

    /// Whether a list has that unit, which is removed.
    fn takes(&self, units: &Mutex<Vec<usize>>, unit: usize) -> bool {
        let mut units = units.lock().unwrap();
        let place = units.iter().position(|&one| one == unit);
        place.map(|place| units.remove(place)).is_some()
    }

    /// Whether the client sends nothing after this unit.
    fn is_last(&self) -> bool {
        self.shared.is_leaving.load(Ordering::SeqCst)
    }

    /// Applies the due injection to a unit, or to its part before a `Flush`.
    fn interfere(&self, messages: &mut [Message], unit: usize, is_late: &mut bool) {
        if self.is_of_the_pool(messages) {
            return;
        }
        self.change();
        let canary = *self.shared.canary.lock().unwrap();
        if std::mem::take(is_late) {
            return self.fail(messages, 0, unit);
        }
        let has =
            |words: &[u8]| messages.iter().any(|message| message.body.windows(words.len()).any(|part| part == words));
        let is_own = has(b"\x01plimsoll");
        if is_own && has(b"ROLLBACK AND CHAIN") {
            *self.rolls_back.lock().unwrap() = Some(unit);
        }
        if canary == Some(Canary::Refuses) && !is_own && self.shared.done.lock().unwrap().preempted > 0 {
            self.aborted.lock().unwrap().push(unit);
            return self.fail_at(messages, 0);
        }
        let Some(injection) = self.next_injection(is_own) else {
            if canary == Some(Canary::IdleReplay) && self.shared.done.lock().unwrap().preempted > 0 {
                messages.iter_mut().for_each(make_idle);
            }
            return;
        };
        match injection {
            Injection::Idle | Injection::Change { .. } | Injection::Replace { .. } => {}
            Injection::Cancel { at, settles, .. } => {
                let Some(card) = self.aim() else { return };
                self.shared.done.lock().unwrap().preempted += 1;
                if canary == Some(Canary::LateCancel) {
                    *is_late = true;
                } else {
                    self.fail(messages, at, unit);
                }
                self.settle(card, settles, unit);
            }
            Injection::Missed { settles, .. } => {
                let Some(card) = self.aim() else { return };
                self.shared.done.lock().unwrap().preempted += 1;
                self.settle(card, settles, unit);
            }
            Injection::Abort { at, .. } => {
                {
                    let mut done = self.shared.done.lock().unwrap();
                    done.preempted += 1;
                    done.is_aborted = true;
                }
                self.aborted.lock().unwrap().push(unit);
                self.fail_there(messages, at, unit);
            }
            Injection::ClientCancel { at } => {
                if self.client_cancels() {
                    self.shared.done.lock().unwrap().cancelled += 1;
                    self.fail(messages, at, unit);
                }
            }
            Injection::ClientCancelMissed => drop(self.client_cancels()),
        }
    }

    /// Whether a unit is one of the pool's own, or one of another session, so that no injection is meant for it.
    fn is_of_the_pool(&self, messages: &mut [Message]) -> bool {
        const SETTINGS: [&[u8]; 3] = [b"SELECT pg_catalog.set_config(E", b"RESET \"", b"DISCARD SEQUENCES"];
        const QUESTION: &[u8] = b"pg_catalog.current_setting(n, true)";
        let asks = messages.iter().any(|one| one.body.windows(QUESTION.len()).any(|part| part == QUESTION));
        // The question's statement is closed by a unit of its own.
        if self.has_asked.swap(asks, Ordering::SeqCst) || asks {
            return true;
        }
        if let [only] = messages
            && SETTINGS.iter().any(|text| only.body.starts_with(text))
        {
            if self.is(Canary::KeepsSettings) {
                only.body = b"SELECT 1\0".to_vec();
            }
            return true;
        }
        let process = Some(self.process.load(Ordering::SeqCst));
        let card = self.governor().registry.all().into_iter().find(|card| card.process() == process);
        let Some(card) = card else { return false };
        // A client cancels nothing, and nobody is rolled back, before the settings are in force.
        let deadline = Instant::now() + NEXT_UNIT_MAX;
        while card.state().is_being_prepared && Instant::now() < deadline {
            thread::sleep(MOMENT);
        }
        card.login.application_name == RIVAL
    }

    pub fn is(&self, canary: Canary) -> bool {
        *self.shared.canary.lock().unwrap() == Some(canary)
    }

    /// Makes the change that is due before a replay: the session holds no locks while no transaction is open.
    fn change(&self) {
        if !self.is_empty.swap(false, Ordering::SeqCst) && self.status.load(Ordering::SeqCst) != b'I' {
            return;
        }
        let mut done = self.shared.done.lock().unwrap();
        let is_due = |(_, is_rolled_back): &mut (String, bool)| *is_rolled_back || done.preempted > 0;
        let Some((sql, _)) = self.shared.change.lock().unwrap().take_if(is_due) else { return };
        let mut somebody = self.shared.somebody.lock().unwrap();
        done.changed = somebody.as_mut().expect("there is somebody").query(&sql).is_ok();
    }

    /// Aims at a unit that copies data, if an injection is due. No statement in it can be made to fail.
    fn aim_at_copy(&self, unit: usize) {
        let is_due = |injection: &Injection| matches!(injection, Injection::Cancel { after: 0, .. });
        if !self.shared.armed.lock().unwrap().front().is_some_and(is_due) {
            return;
        }
        let Some(Injection::Cancel { settles, .. }) = self.next_injection(false) else { return };
        let Some(card) = self.aim() else { return };
        self.shared.done.lock().unwrap().preempted += 1;
        self.settle(card, settles, unit);
    }

    /// The injection for this unit; counts down those for later units. The server never aborts the governor's own
    /// statements.
    fn next_injection(&self, is_own: bool) -> Option<Injection> {
        let mut armed = self.shared.armed.lock().unwrap();
        match armed.front_mut()? {
            Injection::Abort { .. } if is_own => None,
            Injection::Cancel { after, .. } | Injection::Missed { after, .. } | Injection::Abort { after, .. }
                if *after > 0 =>
            {
                *after -= 1;
                None
            }
            _ => armed.pop_front(),
        }
    }

    /// Aims at the unit that passes, as the watcher would; `None` if it may not be cancelled.
    fn aim(&self) -> Option<Arc<SessionCard>> {
        let process = self.process.load(Ordering::SeqCst);
        let card = self.governor().registry.all().into_iter().find(|card| card.process() == Some(process))?;
        let deadline = Instant::now() + Duration::from_millis(5);
        loop {
            let (transaction, unit, phase) = {
                let state = card.state();
                (state.transaction, state.unit, state.phase)
            };
            if card.aim_preemption(transaction, unit) {
                let event = self.governor().note(preemption(&card));
                card.state().cancels.event = Some(event);
                return Some(card);
            }
            // A unit of a replay is sent slightly before its card shows it.
            if phase != Phase::Preempted || Instant::now() > deadline {
                let immune = card.state().immune.map(Immunity::name);
                self.shared.done.lock().unwrap().spared = immune;
                return None;
            }
            thread::sleep(MOMENT);
        }
    }

    /// The cancel has arrived, now or after the answer.
    fn settle(&self, card: Arc<SessionCard>, settles: Settles, unit: usize) {
        match settles {
            Settles::Before => self.arrive(&card),
            Settles::Early => {
                let aimed_at = card.state().unit;
                self.arrive(&card);
                let deadline = Instant::now() + NEXT_UNIT_MAX;
                while card.state().unit == aimed_at && Instant::now() < deadline {
                    thread::sleep(MOMENT);
                }
            }
            Settles::After => *self.arrives_after.lock().unwrap() = Some((unit, card)),
        }
    }

    fn arrive(&self, card: &SessionCard) {
        card.cancel_arrived(true, true);
        self.governor().tell(card.worker, card.id, SessionCommand::CancelArrived);
    }

    /// Has the client cancel, and returns whether the request came through.
    fn client_cancels(&self) -> bool {
        let Some((governor, key)) = self.shared.client.lock().unwrap().clone() else { return false };
        let before = self.shared.cancels.load(Ordering::SeqCst);
        let Ok(mut stream) = TcpStream::connect_timeout(&governor, PATIENCE) else { return false };
        let body = [&CANCEL_REQUEST.to_be_bytes()[..], &key].concat();
        let request = [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat();
        let asked = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.write_all(&request));
        // The governor closes the connection once the request was delivered or dropped.
        let _ = asked.and_then(|()| stream.read(&mut [0]));
        self.shared.cancels.load(Ordering::SeqCst) > before
    }
}
