//! Waiting for events: asleep, or polling first while an important chain of statements is under way and a core is idle.
//!
//! A worker sleeps twice for each statement that it relays. Where cores go idle in between, waking up is most of what a hop costs a chain
//! of statements that wait for each other. When to poll, and for how long, is [`policy::Spin`](plimsoll_policy::Spin)'s; this is what it
//! is told: which sessions are amid a chain, how long messages take to come, and whether a core is idle.
//!
//! `SO_BUSY_POLL` would not do: it polls the receive queue of a network device, which Unix sockets and the loopback
//! interface do not have.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use plimsoll_machine::host::Host;
use plimsoll_machine::processor_time::ProcessorTicks;
use plimsoll_policy::{Awaited, Spin, SpinRule};

/// Between two looks at the processors, whose time the kernel counts in hundredths of a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A poll takes less than a microsecond. If one took that long, somebody else had the core in between.
const POLL_MAX: Duration = Duration::from_micros(40);

/// How a worker waits.
#[derive(Debug)]
pub(super) struct Waiter {
    spin: Spin,
    host: Host,
    /// Important sessions of this worker that wait for their server, and for their client within a transaction.
    for_server: usize,
    for_client: usize,
    last_look: Option<Look>,
    /// How long it has polled since the last look.
    polled: Duration,
}

/// What the processors had done at a moment.
#[derive(Debug)]
struct Look {
    at: Instant,
    ticks: ProcessorTicks,
}

impl Waiter {
    pub(super) fn new(rule: SpinRule) -> Self {
        Waiter::on(rule, Host::real())
    }

    fn on(rule: SpinRule, host: Host) -> Self {
        let spin = Spin::new(rule);
        Waiter { spin, host, for_server: 0, for_client: 0, last_look: None, polled: Duration::ZERO }
    }

    /// Whether it wants to know what sessions wait for.
    pub(super) fn asks(&self) -> bool {
        self.spin.is_on()
    }

    /// A session that waited for `before` waits for `now`.
    pub(super) fn changes(&mut self, before: Option<Awaited>, now: Option<Awaited>) {
        if before == now {
            return;
        }
        if let Some(count) = self.count(before) {
            *count -= 1;
        }
        if let Some(count) = self.count(now) {
            *count += 1;
        }
    }

    fn count(&mut self, awaited: Option<Awaited>) -> Option<&mut usize> {
        match awaited? {
            Awaited::Server => Some(&mut self.for_server),
            Awaited::Client => Some(&mut self.for_client),
        }
    }

    /// Who sends the next message, most likely: a server's answer comes sooner than what a client thinks of.
    fn awaited(&self) -> Option<Awaited> {
        match (self.for_server, self.for_client) {
            (0, 0) => None,
            (0, _) => Some(Awaited::Client),
            _ => Some(Awaited::Server),
        }
    }

    /// Waits for events, or that long.
    pub(super) fn wait(&mut self, poll: &mut Poll, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let awaited = self.awaited().filter(|_| timeout != Some(Duration::ZERO));
        let Some(awaited) = awaited else { return poll.poll(events, timeout) };
        let began = Instant::now();
        self.look(began);
        let budget = self.spin.budget(awaited).min(timeout.unwrap_or(Duration::MAX));
        let polled = if budget.is_zero() { Duration::ZERO } else { self.poll_for(poll, events, began, budget)? };
        let has_slept = polled.is_zero() || events.is_empty();
        if has_slept {
            poll.poll(events, timeout.map(|timeout| timeout.saturating_sub(polled)))?;
        }
        self.spin.on_message(awaited, began.elapsed(), has_slept);
        Ok(())
    }

    /// Polls until there is an event, for that long at most, or until somebody else wants this core; for how long it did.
    fn poll_for(
        &mut self,
        poll: &mut Poll,
        events: &mut Events,
        began: Instant,
        budget: Duration,
    ) -> io::Result<Duration> {
        let mut before = began;
        loop {
            poll.poll(events, Some(Duration::ZERO))?;
            let now = Instant::now();
            let (polled, took) = (now.duration_since(began), now.duration_since(before));
            let is_crowded = events.is_empty() && took > POLL_MAX;
            if is_crowded {
                self.spin.on_crowd();
            }
            if is_crowded || !events.is_empty() || polled >= budget {
                self.polled += polled;
                return Ok(polled.max(Duration::from_nanos(1)));
            }
            // Whoever else is to run on this core runs now.
            thread::yield_now();
            before = now;
        }
    }

    /// Looks now and then how many cores are idle.
    fn look(&mut self, now: Instant) {
        let last = self.last_look.as_ref().map(|look| now.duration_since(look.at));
        if last.is_some_and(|last| last < LOOK_EVERY) {
            return;
        }
        let Some(ticks) = ProcessorTicks::read(&self.host) else { return self.spin.on_look(None) };
        let before = self.last_look.replace(Look { at: now, ticks });
        let busy = before.and_then(|before| Some(ticks.since(&before.ticks).busy_share()? * ticks.cores as f64));
        // What this worker polled is busy in the kernel's books, and nobody else's.
        let own = last.map_or(0.0, |last| std::mem::take(&mut self.polled).as_secs_f64() / last.as_secs_f64());
        self.spin.on_look(busy.map(|busy| ticks.cores as f64 - (busy - own).max(0.0)));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use mio::{Interest, Token};

    use super::*;

    /// A machine with two cores that were busy for so many hundredths of a second of so many.
    fn machine(folder: &std::path::Path, busy: u64, all: u64) -> Host {
        let text = format!("cpu  {busy} 0 0 {} 0 0 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\n", all - busy);
        std::fs::create_dir_all(folder.join("proc")).unwrap();
        std::fs::write(folder.join("proc/stat"), text).unwrap();
        Host::at(folder)
    }

    #[test]
    fn it_polls_only_for_important_chains_and_on_idle_cores() {
        let folder = tempfile::tempdir().unwrap();
        let mut waiter = Waiter::on(SpinRule::Fixed(Duration::from_micros(50)), machine(folder.path(), 0, 0));
        let start = Instant::now();
        let at = |looks: u32| start + LOOK_EVERY * looks;
        let mut check = |looks: u32, busy: u64, polled: Duration, polls: bool| {
            machine(folder.path(), busy, 50 * u64::from(looks));
            waiter.polled = polled;
            waiter.look(at(looks));
            assert_eq!(!waiter.spin.budget(Awaited::Server).is_zero(), polls, "look {looks}");
        };
        check(0, 0, Duration::ZERO, false);
        check(1, 20, Duration::ZERO, true);
        check(2, 65, Duration::ZERO, false);
        // A core that is busy because it polls is idle to others.
        check(3, 110, LOOK_EVERY, true);
        check(4, 160, LOOK_EVERY, true);
        check(5, 210, Duration::ZERO, false);

        assert_eq!(waiter.awaited(), None);
        waiter.changes(None, Some(Awaited::Client));
        assert_eq!(waiter.awaited(), Some(Awaited::Client));
        waiter.changes(None, Some(Awaited::Server));
        assert_eq!(waiter.awaited(), Some(Awaited::Server));
        waiter.changes(Some(Awaited::Server), None);
        waiter.changes(Some(Awaited::Client), Some(Awaited::Client));
        waiter.changes(Some(Awaited::Client), None);
        assert_eq!(waiter.awaited(), None);
    }

    #[test]
    fn events_are_found_by_polling_and_asleep_and_time_ends_both() {
        let folder = tempfile::tempdir().unwrap();
        let (own, mut peer) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let mut own = mio::net::UnixStream::from_std(own);
        let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(8));
        poll.registry().register(&mut own, Token(1), Interest::READABLE).unwrap();
        for rule in [SpinRule::Off, SpinRule::Learned, SpinRule::Fixed(Duration::from_millis(1))] {
            let mut waiter = Waiter::on(rule, machine(folder.path(), 0, 0));
            waiter.changes(None, Some(Awaited::Server));
            waiter.last_look = Some(Look { at: Instant::now(), ticks: ProcessorTicks::read(&waiter.host).unwrap() });
            waiter.spin.on_look(Some(2.0));
            let began = Instant::now();
            waiter.wait(&mut poll, &mut events, Some(Duration::from_millis(20))).unwrap();
            assert!(events.is_empty() && began.elapsed() >= Duration::from_millis(20), "{rule}: {:?}", began.elapsed());
            waiter.spin.on_look(Some(2.0));
            peer.write_all(b"x").unwrap();
            waiter.wait(&mut poll, &mut events, None).unwrap();
            assert_eq!(events.iter().count(), 1, "{rule}");
            // Edges: taken so that the next one is told of.
            let _ = std::io::Read::read(&mut own, &mut [0; 8]).unwrap();
        }
    }
}
