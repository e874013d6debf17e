//! Clients that run random transactions against a host in a seeded order, each step compared with the specification.

use std::time::Duration;

use plimsoll_engine::lock::head::Answer;
use plimsoll_engine::lock::{Mode, RequestError, State};
use plimsoll_policy::Priority;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::events::Seen;
use super::ledger::Ledger;
use super::lock_host::{FIRST_GAP, Host, Outcome, Thing, Who};
use super::specification::{Rules, Specification};

pub const CLIENTS: usize = 6;
const THINGS: [Thing; 6] = [0, 1, 2, 3, GAPS[0], GAPS[1]];
/// Two neighbours; now and then one of them is merged into the other.
const GAPS: [Thing; 2] = [FIRST_GAP, FIRST_GAP + 1];
const STEPS: usize = 400;
/// More than every client needs to finish, one after the other, as often as it may be rolled back.
const LAST_STEPS_MAX: usize = 20_000;
/// Far below the reprieve, so that holders end before it, at it and after it.
const STEP_MAX: Duration = Duration::from_millis(40);

/// What happened in a simulation, so that a test can tell whether there was anything to check.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub waits: u64,
    pub conversions: u64,
    pub deadlocks: u64,
    /// Transactions that woke up as victims, or became victims when they were about to wait.
    pub preempted_waiting: u64,
    /// Transactions that learned of it later.
    pub preempted_running: u64,
    pub raised: u64,
    /// Threads that got a better nice value within a transaction.
    pub hurried: u64,
    pub promoted: u64,
    pub expired: u64,
    pub merges: u64,
    pub committed: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.waits += other.waits;
        self.conversions += other.conversions;
        self.deadlocks += other.deadlocks;
        self.preempted_waiting += other.preempted_waiting;
        self.preempted_running += other.preempted_running;
        self.raised += other.raised;
        self.hurried += other.hurried;
        self.promoted += other.promoted;
        self.expired += other.expired;
        self.merges += other.merges;
        self.committed += other.committed;
    }
}

/// The state of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Thinking,
    Working,
    Waiting,
    /// It knows that it is a victim, and has not begun to roll back.
    Told,
    /// It releases its locks, and then begins the same transaction again, or thinks.
    Ending {
        again: bool,
    },
}

/// One client and its transaction: its planned requests and its progress.
#[derive(Debug, Clone)]
struct Client {
    doing: Doing,
    program: Vec<(Thing, Mode)>,
    at: usize,
    own: Priority,
    rollbacks: u32,
}

/// A host, its specification, and its clients.
pub struct Simulation<'a> {
    host: &'a dyn Host,
    specification: Specification,
    ledger: Ledger,
    clients: Vec<Client>,
    random: Pcg64,
    tally: Tally,
}

impl<'a> Simulation<'a> {
    /// `host` must have [`CLIENTS`] participants and follow `rules`.
    pub fn new(host: &'a dyn Host, rules: Rules, seed: u64) -> Self {
        let idle = Client { doing: Doing::Thinking, program: Vec::new(), at: 0, own: Priority::LOW, rollbacks: 0 };
        Simulation {
            host,
            specification: Specification::new(rules, CLIENTS, &THINGS),
            ledger: Ledger::default(),
            clients: vec![idle; CLIENTS],
            random: Pcg64::seed_from_u64(seed),
            tally: Tally::default(),
        }
    }

    /// Runs the whole simulation; returns the first failure, if any.
    pub fn run(mut self) -> Result<Tally, String> {
        for step in 0..STEPS {
            let who = self.random.random_range(0..CLIENTS);
            self.step(who, true).map_err(|error| format!("step {step}: {error}"))?;
        }
        // No client begins anything new: every transaction must end, since none may wait forever.
        for step in STEPS..STEPS + LAST_STEPS_MAX {
            if self.clients.iter().all(|client| client.doing == Doing::Thinking) {
                return match self.host.thing_count() {
                    0 => Ok(self.tally),
                    left => Err(format!("nobody is left, and {left} locks are")),
                };
            }
            let who = self.random.random_range(0..CLIENTS);
            self.step(who, false).map_err(|error| format!("step {step}: {error}"))?;
        }
        Err(format!("transactions that never end: {:?}", self.clients))
    }

    fn step(&mut self, who: Who, may_begin: bool) -> Result<(), String> {
        let pause = STEP_MAX.mul_f64(self.random.random());
        self.pass_time(self.specification.now + pause)?;
        match self.clients[who].doing {
            Doing::Thinking if may_begin => self.begin_new(who),
            // A client that dies, or whose statement is cancelled.
            Doing::Working | Doing::Waiting if self.random.random_bool(0.02) => self.roll_back(who, false),
            Doing::Thinking | Doing::Waiting => Ok(()),
            Doing::Working if self.random.random_bool(0.05) => self.change_gaps(who),
            Doing::Working if self.clients[who].at < self.clients[who].program.len() => self.ask(who),
            Doing::Working => self.commit(who),
            Doing::Told => self.roll_back(who, true),
            Doing::Ending { again } => self.end(who, again),
        }
    }

    /// Lets time pass, with a stop at the end of each reprieve, of the host or of the specification.
    fn pass_time(&mut self, until: Duration) -> Result<(), String> {
        loop {
            let deadlines = (0..CLIENTS).filter_map(|who| self.host.deadline(who));
            let Some(due) = deadlines.chain(self.specification.next_due()).min().filter(|due| *due <= until) else {
                break;
            };
            self.set_time(due.max(self.specification.now));
            let is_due = |who: &Who| self.host.deadline(*who).is_some_and(|deadline| deadline <= due);
            for who in (0..CLIENTS).filter(is_due) {
                self.host.expire(who);
                self.tally.expired += 1;
            }
            if let Some(who) = (0..CLIENTS).find(is_due) {
                return Err(format!("{who} is to be looked at again at {due:?}"));
            }
            self.settle(|| format!("a reprieve is over at {due:?}"), None)?;
        }
        self.set_time(until);
        Ok(())
    }

    fn set_time(&mut self, now: Duration) {
        self.specification.now = now;
        self.host.set_time(now);
    }

    fn begin_new(&mut self, who: Who) -> Result<(), String> {
        let random = &mut self.random;
        let length = random.random_range(1..6);
        let program = (0..length).map(|_| random_request(random)).collect();
        let level = [0, 0, 0, 1, 1, 2][random.random_range(0..6)];
        let own = Priority::of_level(level).expect("a level");
        self.clients[who] = Client { doing: Doing::Working, program, at: 0, own, rollbacks: 0 };
        self.begin(who)
    }

    fn begin(&mut self, who: Who) -> Result<(), String> {
        let Client { own, rollbacks, .. } = self.clients[who];
        self.clients[who].doing = Doing::Working;
        self.clients[who].at = 0;
        self.host.begin(who, own, rollbacks);
        self.specification.begin(who, own, rollbacks);
        self.tally.promoted += u64::from(rollbacks >= self.specification.rules.bound);
        self.settle(|| format!("{who} begins"), None)
    }

    fn ask(&mut self, who: Who) -> Result<(), String> {
        let (thing, mode) = self.clients[who].program[self.clients[who].at];
        let what = || format!("{who} asks for {mode:?} on {thing}");
        self.ledger.ask(who, thing, mode);
        let answer = self.host.ask(who, thing, mode);
        self.ledger.hear(who, answer).map_err(|error| format!("{}: {error}", what()))?;
        match self.specification.ask(who, thing, mode) {
            Some(expect) if expect == answer => {
                self.take(who, answer, false);
                self.settle(what, None)
            }
            Some(expect) => Err(format!("{} and is answered {answer:?}, not {expect:?}", what())),
            None => {
                self.clients[who].doing = Doing::Waiting;
                self.tally.waits += 1;
                self.settle(what, Some((who, answer)))
            }
        }
    }

    /// An insertion is done, or an entry is removed.
    fn change_gaps(&mut self, who: Who) -> Result<(), String> {
        let held = self.specification.held(who);
        let intends = |gap: &Thing| self.specification.locks[gap].grants[&who].covers(Mode::IX);
        if let Some(gap) = held.into_iter().filter(|thing| *thing >= FIRST_GAP).find(intends) {
            let is_left = self.specification.give_up_intention(who, gap);
            if self.host.give_up_intention(who, gap) != is_left {
                return Err(format!("{who} has inserted into {gap}: that it has read it is {is_left}"));
            }
            return self.settle(|| format!("{who} has inserted into {gap}"), None);
        }
        let [gap, into] = if self.random.random() { GAPS } else { [GAPS[1], GAPS[0]] };
        self.host.merge(gap, into);
        self.specification.merge(gap, into);
        self.tally.merges += u64::from(!self.specification.heirs.is_empty());
        self.settle(|| format!("{gap} disappears into {into}"), None)
    }

    fn commit(&mut self, who: Who) -> Result<(), String> {
        let (answer, expect) = (self.host.commit_point(who), self.specification.commit_point(who));
        if answer != expect {
            return Err(format!("{who} commits: {answer:?}, not {expect:?}"));
        }
        match answer {
            Ok(()) => {
                self.clients[who].doing = Doing::Ending { again: false };
                self.tally.committed += 1;
            }
            Err(error) => self.take(who, Err(error), false),
        }
        self.settle(|| format!("{who} commits"), None)
    }

    fn roll_back(&mut self, who: Who, again: bool) -> Result<(), String> {
        self.clients[who].doing = Doing::Ending { again };
        self.host.roll_back(who);
        self.ledger.give_up(who);
        self.specification.roll_back(who);
        self.settle(|| format!("{who} rolls back"), None)
    }

    /// Releases one lock; after the last one the transaction is over.
    fn end(&mut self, who: Who, again: bool) -> Result<(), String> {
        let held = self.specification.held(who);
        if !held.is_empty() {
            let thing = held[self.random.random_range(0..held.len())];
            self.host.release(who, thing);
            self.ledger.release(who, thing);
            self.specification.release(who, thing);
            return self.settle(|| format!("{who} gives back {thing}"), None);
        }
        self.host.end(who);
        self.specification.end(who);
        self.clients[who].doing = Doing::Thinking;
        self.settle(|| format!("{who} ends"), None)?;
        if again {
            self.clients[who].rollbacks += 1;
            self.begin(who)?;
        }
        Ok(())
    }

    /// A client learns of a decision.
    fn take(&mut self, who: Who, outcome: Outcome, waited: bool) {
        self.clients[who].doing = match outcome {
            Ok(answer) => {
                self.clients[who].at += 1;
                self.tally.conversions += u64::from(answer == Answer::Converted);
                Doing::Working
            }
            Err(error) => {
                match error {
                    RequestError::Deadlock => self.tally.deadlocks += 1,
                    RequestError::Preempted if waited => self.tally.preempted_waiting += 1,
                    RequestError::Preempted => self.tally.preempted_running += 1,
                }
                Doing::Told
            }
        };
    }

    /// Everything visible now must follow from the known state and the last action. `asked` is the client that has
    /// begun to wait, and the answer it had.
    fn settle(&mut self, what: impl Fn() -> String, asked: Option<(Who, Outcome)>) -> Result<(), String> {
        let mut seen = Vec::with_capacity(CLIENTS);
        for who in 0..CLIENTS {
            let at_once = asked.filter(|(asked, answer)| *asked == who && *answer != Ok(Answer::Wait));
            let outcome = match at_once {
                Some((_, answer)) => Some(answer),
                None => self.host.outcome(who),
            };
            if let (None, Some(outcome)) = (at_once, outcome) {
                self.ledger.hear(who, outcome).map_err(|error| format!("{}: {error}", what()))?;
            }
            let (state, priority, nice) = (self.host.state(who), self.host.priority(who), self.host.nice(who));
            seen.push(Seen { state, priority, nice, outcome });
        }
        self.check_waiting().map_err(|error| format!("{}: {error}", what()))?;
        let Some(after) = self.specification.explain(&seen) else {
            let wrong = format!("{}: cannot lead to {seen:?}", what());
            return Err(format!("{wrong}\nexpected {:?} of {:?}", self.specification.events(), self.specification));
        };
        let raised = |who: &Who| after.transactions[*who].priority > self.specification.transactions[*who].priority;
        self.tally.raised += (0..CLIENTS).filter(raised).count() as u64;
        let hurries = |who: &Who| after.nice(*who) < self.specification.nice(*who);
        self.tally.hurried += (0..CLIENTS).filter(hurries).count() as u64;
        self.specification = after;
        for (who, seen) in seen.iter().enumerate() {
            if let Some(outcome) = seen.outcome {
                self.specification.transactions[who].outcome = None;
                self.take(who, outcome, true);
            }
        }
        let waits = |who: &Who| self.host.state(*who) == State::Waiting;
        match (0..CLIENTS).find(|who| waits(who) != (self.clients[*who].doing == Doing::Waiting)) {
            Some(who) => Err(format!("{}: {who} is at {:?} and waits: {}", what(), self.clients[who], waits(&who))),
            None => Ok(()),
        }
    }

    /// Every waiter waits for a transaction, and some transaction does not wait: asks the host, and compares with the
    /// clients' ledger.
    fn check_waiting(&self) -> Result<(), String> {
        let waiting: Vec<Who> = (0..CLIENTS).filter(|who| self.host.state(*who) == State::Waiting).collect();
        self.ledger.check_waiting(&waiting)?;
        if waiting.len() == CLIENTS { Err("everybody waits".to_owned()) } else { Ok(()) }
    }
}

/// Every mode of a row; of a gap those of readers and inserters.
fn random_request(random: &mut Pcg64) -> (Thing, Mode) {
    let thing = THINGS[random.random_range(0..THINGS.len())];
    let modes: &[Mode] = if thing < FIRST_GAP { &Mode::ALL } else { &[Mode::S, Mode::IX] };
    (thing, modes[random.random_range(0..modes.len())])
}
