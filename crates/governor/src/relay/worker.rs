//! A worker's loop: waits for sockets, timers and other threads, and advances the pairs concerned.

use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Poll, Token};

use super::context::{Context, Note, Visitor};
use super::door::Door;
use super::pair::{self, Aimed, End, Pair, PairProgress};
use super::side::Side;
use super::timers::Timers;
use super::wire::Wire;
use crate::governor::{SessionCommand, WorkerCommand};
use crate::registry::SessionId;

/// Other threads wake the worker with it.
pub(super) const WAKER: Token = Token(usize::MAX);

const EVENTS_MAX: usize = 1024;

/// The shortest wait for a timer, which bounds the rate of wake-ups; epoll's resolution is no finer.
const TIMER_MIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Worker {
    poll: Poll,
    pub(super) context: Context,
    door: Option<Door>,
    commands: Receiver<WorkerCommand>,
    notes: Receiver<Note>,
    pairs: Vec<Option<Box<Pair>>>,
    /// Places without a pair.
    free: Vec<u32>,
    /// Counts pairs, so that a message for a pair that has ended does not reach its successor.
    generation: u32,
    timers: Timers,
    /// Pairs that can continue.
    again: Vec<u64>,
    /// When a transaction times out waiting for admission.
    expires_at: Option<Instant>,
    /// When to look for idle connections of pools.
    pub(super) looks_for_idle_at: Option<Instant>,
    /// Connections are on their way between pairs.
    pub(super) is_lending: bool,
    is_stopped: bool,
    /// The other workers know that the last session has ended.
    has_passed_on_drain: bool,
}

impl Worker {
    /// A worker without pairs. One of the workers has the door.
    pub(super) fn new(
        poll: Poll,
        context: Context,
        door: Option<Door>,
        commands: Receiver<WorkerCommand>,
        notes: Receiver<Note>,
    ) -> Self {
        Worker {
            poll,
            context,
            door,
            commands,
            notes,
            pairs: Vec::new(),
            free: Vec::new(),
            generation: 0,
            timers: Timers::default(),
            again: Vec::new(),
            expires_at: None,
            looks_for_idle_at: None,
            is_lending: false,
            is_stopped: false,
            has_passed_on_drain: false,
        }
    }

    /// Runs until it is stopped or drained.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.is_stopped && !self.is_drained() {
            let timeout = self.timeout(Instant::now());
            if let Err(error) = self.wait(&mut events, timeout) {
                tracing::error!("relay cannot wait for sockets: {error}");
                break;
            }
            let now = Instant::now();
            for id in mem::take(&mut self.again) {
                self.move_pair(id, now, |_, _| {});
            }
            self.on_timers(now);
            if self.door.as_ref().and_then(Door::opens_at).is_some_and(|at| at <= now) {
                self.accept(None, now);
            }
            self.send_cancels(now);
            self.expire(now);
            self.close_idle(now);
            self.pass_on_drain();
        }
        let now = Instant::now();
        for id in self.ids() {
            self.move_pair(id, now, |pair, context| pair.dismiss(context, now));
            self.remove(id, now);
        }
    }

    /// Waits for events, or until the time-out, and handles them.
    fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &*events {
            self.on_event(event, Instant::now());
        }
        Ok(())
    }

    fn timeout(&self, now: Instant) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let others = [self.expires_at, self.looks_for_idle_at, self.door.as_ref().and_then(Door::opens_at)];
        let others = others.into_iter().flatten().map(|at| at.saturating_duration_since(now));
        self.timers.until_next(now).into_iter().chain(others).min()
    }

    /// Whether no worker has a session left that a drain waits for; consoles stay open until then.
    fn is_drained(&self) -> bool {
        let Context { is_draining, is_retiring, .. } = self.context;
        // A retiring governor still serves its clients; a draining one refuses them.
        let is_over = |pair: &Pair| if is_draining { !pair.is_waited_for() } else { pair.is_console() };
        (is_draining || is_retiring) && self.has_served() && self.pairs.iter().flatten().all(|pair| is_over(pair))
    }

    /// Whether no worker has a session left that must end before the governor does.
    fn has_served(&self) -> bool {
        let governor = &self.context.governor;
        if self.context.is_draining { governor.awaits_nobody() } else { governor.serves_nobody() }
    }

    /// The worker of the last session notifies the others, which wait for that.
    fn pass_on_drain(&mut self) {
        let governor = &self.context.governor;
        let Context { is_draining, is_retiring, .. } = self.context;
        let is_over = (is_draining || is_retiring) && self.has_served();
        // A login that began at the same time as the drain may have finished after all other sessions had ended.
        if is_over && !self.has_passed_on_drain {
            governor.tell_all(|| if is_draining { WorkerCommand::Drain } else { WorkerCommand::Retire });
        }
        self.has_passed_on_drain = is_over;
    }

    fn on_event(&mut self, event: &Event, now: Instant) {
        match event.token() {
            WAKER => self.on_waker(now),
            token if Door::is_its(token) => self.accept(Some(token), now),
            token => {
                let (id, end) = pair::whose(token);
                let id = self.borrower(id).filter(|_| end == End::Server).unwrap_or(id);
                self.move_pair(id, now, |pair, context| pair.on_event(end, event, context, now));
            }
        }
    }

    fn on_waker(&mut self, now: Instant) {
        self.take_notes(now);
        while let Ok(command) = self.commands.try_recv() {
            match command {
                WorkerCommand::Session(session, command) => self.on_command(session, command, now),
                WorkerCommand::Drain => self.drain(now),
                WorkerCommand::CloseDoor => self.close_door(),
                WorkerCommand::Retire => {
                    self.context.is_retiring = true;
                    // The door was closed before this command was sent, so no more clients will follow.
                    self.take_notes(now);
                }
                WorkerCommand::Cancel(card, client) => {
                    self.context.cancels.extend(Aimed::at(&self.context.governor, card, Some(client)));
                }
                WorkerCommand::ReviewPools => self.review_pools(now),
                WorkerCommand::Stop => self.is_stopped = true,
            }
        }
    }

    fn close_door(&mut self) {
        if let Some(door) = self.door.take() {
            door.close(self.poll.registry());
            self.context.governor.tell_all(|| WorkerCommand::Retire);
        }
    }

    fn take_notes(&mut self, now: Instant) {
        while let Ok(note) = self.notes.try_recv() {
            match note {
                Note::Client(visitor) => self.welcome(visitor, now),
                Note::GiveWay(place) => {
                    let found = self.pairs.iter().flatten().find(|pair| pair.is_silent_at(place)).map(|pair| pair.id);
                    // It may no longer be silent, or may have disconnected.
                    if let Some(id) = found {
                        self.move_pair(id, now, |pair, _| pair.give_way());
                    }
                }
                Note::Addresses(id, addresses) => {
                    self.move_pair(id, now, |pair, context| pair.on_addresses(addresses, context, now));
                }
                Note::Fetch { home, key, client, class } => self.send_connection(home, key, (client, class), now),
                Note::Connection { moving, pair, class } => self.receive_connection(moving, (pair, class), now),
                Note::Known(id, known) => {
                    self.move_pair(id, now, |pair, context| pair.on_known(known, context, now));
                }
                Note::Welcome(id, welcome) => {
                    self.move_pair(id, now, |pair, context| pair.on_welcome(welcome, context, now));
                }
                Note::Lost { key, client, class } => self.find_another(&key, (client, class), now),
                Note::LoginTurn(id) => {
                    self.move_pair(id, now, |pair, context| pair.on_login_turn(context, now));
                }
                Note::Strands(id) => self.move_pair(id, now, |pair, context| pair.is_stranded(context, now)),
            }
        }
    }

    fn on_command(&mut self, session: SessionId, command: SessionCommand, now: Instant) {
        if let Some(id) = self.context.sessions.get(&session).copied() {
            self.move_pair(id, now, |pair, context| pair.on_command(command, context, now));
        }
    }

    fn drain(&mut self, now: Instant) {
        self.context.is_draining = true;
        for id in self.ids() {
            self.move_pair(id, now, |pair, context| pair.drain(context, now));
        }
    }

    fn ids(&self) -> Vec<u64> {
        self.pairs.iter().flatten().map(|pair| pair.id).collect()
    }

    /// Calls `act` on a pair, and then advances the pair as far as possible.
    ///
    /// A panic is a fault of the governor: it ends only this pair.
    pub(super) fn move_pair(&mut self, id: u64, now: Instant, act: impl FnOnce(&mut Pair, &mut Context)) {
        let Some(pair) = self.pairs.get_mut(id as u32 as usize).and_then(Option::as_mut) else { return };
        if pair.id != id {
            return;
        }
        let moved = shed(|| {
            act(pair, &mut self.context);
            pair.advance(&mut self.context, now)
        });
        let awake = &self.context.governor.awake;
        if awake.is_on() && pair.is_at_important_work() {
            awake.touch(now);
        }
        match moved {
            Some(PairProgress::Waits) => {
                let due = pair.wakes_at().map(|due| due.max(now + TIMER_MIN));
                // An entry that is too early stays: when it fires, the pair is asked again. Thus quick queries, each of
                // which moves the time, do not each add an entry.
                if let Some(due) = due
                    && pair.timer.is_none_or(|at| at > due)
                {
                    pair.timer = Some(due);
                    self.timers.add(due, id);
                }
            }
            Some(PairProgress::Again) => self.again.push(id),
            Some(PairProgress::Over) => self.remove(id, now),
            None => {
                self.context.restore();
                self.remove(id, now);
            }
        }
        self.settle_pools(now);
    }

    fn on_timers(&mut self, now: Instant) {
        while let Some((at, id)) = self.timers.pop_due(now) {
            let Some(pair) = self.pairs.get_mut(id as u32 as usize).and_then(Option::as_mut) else { continue };
            if pair.id != id || pair.timer != Some(at) {
                continue;
            }
            pair.timer = None;
            self.move_pair(id, now, |pair, context| {
                if pair.wakes_at().is_some_and(|at| at <= now) {
                    pair.on_time(context, now);
                }
            });
        }
    }

    fn send_cancels(&mut self, now: Instant) {
        for aimed in mem::take(&mut self.context.cancels) {
            self.add(now, |id, context| Ok(Pair::cancelling(id, aimed, context, now)));
        }
    }

    /// Rejects transactions that have waited too long for admission, unless another worker has already done so.
    fn expire(&mut self, now: Instant) {
        let is_due = self.expires_at.is_some_and(|at| at <= now);
        if mem::take(&mut self.context.may_expire) || is_due {
            let governor = &self.context.governor;
            // Rounded up, because an entry that expires a little later has not expired yet.
            self.expires_at = governor.expire_waiting(now).map(|at| governor.started + at + TIMER_MIN);
        }
    }

    fn accept(&mut self, listener: Option<Token>, now: Instant) {
        let Some(door) = &mut self.door else { return };
        let own = door.accept(listener, &self.context, now);
        for visitor in own {
            self.welcome(visitor, now);
        }
    }

    /// Serves a new client.
    fn welcome(&mut self, Visitor { socket, peer, place }: Visitor, now: Instant) {
        let deadline = now + self.context.governor.settings().listen.login_timeout;
        self.add(now, |id, context| {
            socket.tune();
            let side = Side::new(Wire::plain(socket), pair::token(id, End::Client), &context.poll, false)?;
            Ok(Pair::new(id, peer, side, place, deadline))
        });
    }

    pub(super) fn add(&mut self, now: Instant, make: impl FnOnce(u64, &mut Context) -> io::Result<Pair>) {
        let id = self.reserve();
        match make(id, &mut self.context) {
            Ok(pair) => {
                self.put(id, pair);
                self.move_pair(id, now, |_, _| {});
            }
            Err(error) => {
                tracing::warn!("connection cannot be watched: {error}");
                self.release(id);
            }
        }
    }

    /// A number for a new pair.
    pub(super) fn reserve(&mut self) -> u64 {
        // Generations have 31 bits, because a token needs one more; two pairs in the same place are at least 2^31
        // generations apart.
        self.generation = (self.generation + 1) & 0x3fff_ffff;
        let place = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(None);
            self.pairs.len() as u32 - 1
        });
        u64::from(self.generation) << 32 | u64::from(place)
    }

    /// A number that was reserved is not needed.
    pub(super) fn release(&mut self, id: u64) {
        self.free.push(id as u32);
    }

    pub(super) fn put(&mut self, id: u64, pair: Pair) {
        self.pairs[id as u32 as usize] = Some(Box::new(pair));
    }

    pub(super) fn pair(&self, id: u64) -> Option<&Pair> {
        self.pairs.get(id as u32 as usize)?.as_deref().filter(|pair| pair.id == id)
    }

    pub(super) fn pair_mut(&mut self, id: u64) -> Option<&mut Pair> {
        self.pairs.get_mut(id as u32 as usize)?.as_deref_mut().filter(|pair| pair.id == id)
    }

    pub(super) fn remove(&mut self, id: u64, now: Instant) {
        let Some(place) = self.pairs.get_mut(id as u32 as usize) else { return };
        let Some(mut pair) = place.take_if(|pair| pair.id == id) else { return };
        self.free.push(id as u32);
        if shed(|| pair.leave(&mut self.context, now)).is_none() {
            self.context.restore();
        }
    }
}

/// Acts for one connection; `None` if it panicked, which is logged.
pub(super) fn shed<T>(act: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(act))
        .inspect_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            tracing::error!("a session has panicked and was ended; this is a fault in the governor: {text}");
        })
        .ok()
}

/// Asserts separately which types cross threads.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Worker>();
    is_send::<Aimed>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_what_panicked_and_no_more() {
        assert_eq!(shed(|| 1), Some(1));
        assert_eq!(shed(|| -> i32 { panic!("as {} as it should", "loud") }), None);
    }
}
