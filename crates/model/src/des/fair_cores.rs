//! Cores as a fair kernel gives them, process by process: a truth that predictions from each workload alone are tested
//! against.
//!
//! The rules are those of Linux since 6.6 (EEVDF), and no number in them is fitted:
//! - Each core has a queue. Of the processes that have had no more CPU time than the average of their queue, the one with
//!   the earliest deadline runs. A deadline is a process's CPU time at the beginning of its turn, and a slice.
//! - A process that runs is not interrupted within a slice. After it, one that wakes and has an earlier deadline takes
//!   its place; otherwise turns end at ticks of the clock.
//! - A process that sleeps keeps what it is owed, up to two slices or a tick. One that has had more than its share stays
//!   in the queue until it has not.
//! - A process that wakes goes to an idle core. Without one it stays where it was, or goes to the core of the process
//!   that woke it, if that is to be so and no more processes are there.
//! - A core that becomes idle takes a process from the longest queue, and at each tick the longest queue gives one to the
//!   shortest.
//!
//! Processes are those of clients, each with a process of the server, and others that always compute.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_distr::Exp1;
use rand_pcg::Pcg64;

use super::station::Seconds;

/// What is simulated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FairCores {
    pub(crate) cores: usize,
    pub(crate) slice_s: f64,
    pub(crate) tick_s: f64,
    /// Processes that always compute.
    pub(crate) endless: usize,
    pub(crate) clients: usize,
    /// Mean seconds from an answer to the next request.
    pub(crate) think_s: f64,
    /// Statements of a request. Client and server take turns in it.
    pub(crate) statements: u32,
    /// Mean CPU seconds of a request, of both processes: a fifth is the client's.
    pub(crate) cpu_s: f64,
    /// Mean seconds between two statements.
    pub(crate) round_trip_s: f64,
    /// Whether a process may follow the one that woke it to its core.
    pub(crate) follows: bool,
    /// Whether a process that sleeps keeps what it is owed. An unfair kernel forgets it.
    pub(crate) keeps_owed: bool,
}

/// The client's part of CPU seconds.
const CLIENT_SHARE: f64 = 0.2;
/// Responses that are not measured, as a share of those that are.
const WARM_UP: f64 = 0.1;
/// Sums of CPU times are no more exact than this.
const ROUNDING_S: f64 = 1e-12;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Asleep,
    Queued,
    Running,
    /// Asleep, but in the queue: it has had more than its share.
    Owing,
}

#[derive(Debug, Clone, Copy)]
enum Role {
    Endless,
    Client { server: usize, statements_left: u32, began_s: f64 },
    Server { client: usize },
}

struct Process {
    role: Role,
    state: State,
    core: usize,
    /// CPU seconds that it has had, as far as its queue counts them.
    had_s: f64,
    deadline_s: f64,
    /// Not interrupted before it has had this.
    protected_s: f64,
    /// What it is owed while it sleeps.
    owed_s: f64,
    /// CPU seconds until it sleeps.
    left_s: f64,
}

#[derive(Default)]
struct Core {
    queue: Vec<usize>,
    running: Option<usize>,
    /// The moment up to which the running process's time is accounted for.
    accounted_s: f64,
}

struct Simulation<'a> {
    of: &'a FairCores,
    random: Pcg64,
    now_s: f64,
    next_tick_s: f64,
    processes: Vec<Process>,
    cores: Vec<Core>,
    timers: BinaryHeap<Reverse<(Seconds, usize)>>,
    responses: (f64, u64),
}

/// An event: the earliest happens next.
enum Event {
    Tick,
    Timer,
    /// The running process of a core has done its work.
    Done(usize),
}

impl FairCores {
    /// The mean response of this many requests, seconds.
    pub(crate) fn response_s(&self, requests: u64, seed: u64) -> f64 {
        let mut simulation = Simulation::new(self, seed);
        simulation.until((requests as f64 * WARM_UP).ceil() as u64);
        simulation.responses = (0.0, 0);
        simulation.until(requests);
        simulation.responses.0 / simulation.responses.1 as f64
    }

    /// The most that a sleeping process is owed.
    fn owed_max_s(&self) -> f64 {
        if self.keeps_owed { self.tick_s.max(2.0 * self.slice_s) } else { 0.0 }
    }
}

impl<'a> Simulation<'a> {
    fn new(of: &'a FairCores, seed: u64) -> Self {
        let process = |role, state, core| Process {
            role,
            state,
            core,
            had_s: 0.0,
            deadline_s: of.slice_s,
            protected_s: 0.0,
            owed_s: 0.0,
            left_s: f64::INFINITY,
        };
        let mut processes = Vec::new();
        for at in 0..of.endless {
            processes.push(process(Role::Endless, State::Queued, at % of.cores));
        }
        for at in 0..of.clients {
            let client = processes.len();
            let role = Role::Client { server: client + 1, statements_left: 0, began_s: 0.0 };
            processes.push(process(role, State::Asleep, at % of.cores));
            processes.push(process(Role::Server { client }, State::Asleep, at % of.cores));
        }
        let mut simulation = Simulation {
            of,
            random: Pcg64::seed_from_u64(seed),
            now_s: 0.0,
            next_tick_s: of.tick_s,
            cores: (0..of.cores).map(|_| Core::default()).collect(),
            timers: BinaryHeap::new(),
            responses: (0.0, 0),
            processes,
        };
        for at in 0..simulation.processes.len() {
            match simulation.processes[at].role {
                Role::Endless => simulation.cores[at % of.cores].queue.push(at),
                Role::Client { .. } => simulation.timer(at, of.think_s),
                Role::Server { .. } => {}
            }
        }
        (0..of.cores).for_each(|core| simulation.next_turn(core));
        simulation
    }

    fn until(&mut self, responses: u64) {
        while self.responses.1 < responses {
            let (at_s, event) = self.next_event();
            self.now_s = at_s.max(self.now_s);
            match event {
                Event::Tick => self.tick(),
                Event::Timer => self.timer_ends(),
                Event::Done(core) => self.done(core),
            }
        }
    }

    fn next_event(&self) -> (f64, Event) {
        let mut next = (self.next_tick_s, Event::Tick);
        if let Some(Reverse((at, _))) = self.timers.peek()
            && at.0 < next.0
        {
            next = (at.0, Event::Timer);
        }
        for (at, core) in self.cores.iter().enumerate() {
            let done_s = core.running.map(|process| core.accounted_s + self.processes[process].left_s);
            if let Some(done_s) = done_s.filter(|done_s| *done_s < next.0) {
                next = (done_s, Event::Done(at));
            }
        }
        next
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        let one: f64 = self.random.sample(Exp1);
        mean * one
    }

    fn timer(&mut self, process: usize, mean_s: f64) {
        let at_s = self.now_s + self.exponential(mean_s);
        self.timers.push(Reverse((Seconds(at_s), process)));
    }

    /// A client thought, or its answer has travelled.
    fn timer_ends(&mut self) {
        let Reverse((_, client)) = self.timers.pop().expect("the timer that was seen");
        let now_s = self.now_s;
        if let Role::Client { statements_left, began_s, .. } = &mut self.processes[client].role
            && *statements_left == 0
        {
            (*statements_left, *began_s) = (self.of.statements, now_s);
        }
        self.works(client);
        self.wake(client, None);
    }

    /// Draws what a process does until it sleeps.
    fn works(&mut self, process: usize) {
        let statement_s = self.of.cpu_s / f64::from(self.of.statements);
        let mean_s = match self.processes[process].role {
            Role::Endless => return,
            Role::Server { .. } => statement_s * (1.0 - CLIENT_SHARE),
            // It also sends the first statement.
            Role::Client { .. } => self.of.cpu_s * CLIENT_SHARE / f64::from(self.of.statements + 1),
        };
        self.processes[process].left_s = self.exponential(mean_s);
    }

    /// The running process of a core sleeps, and wakes the next one.
    fn done(&mut self, core: usize) {
        self.account(core);
        let process = self.cores[core].running.expect("it was seen");
        self.sleep(core);
        let next = match &mut self.processes[process].role {
            Role::Endless => unreachable!("it is never done"),
            Role::Server { client } => Some(*client),
            Role::Client { statements_left: 0, began_s, .. } => {
                self.responses.0 += self.now_s - *began_s;
                self.responses.1 += 1;
                self.timer(process, self.of.think_s);
                None
            }
            Role::Client { server, statements_left, .. } => {
                *statements_left -= 1;
                Some(*server)
            }
        };
        if let Some(next) = next {
            self.works(next);
            let is_answer = matches!(self.processes[next].role, Role::Client { statements_left: 1.., .. });
            if is_answer && self.of.round_trip_s > 0.0 {
                self.timer(next, self.of.round_trip_s);
            } else {
                self.wake(next, Some(core));
            }
        }
        if self.cores[core].running.is_none() {
            self.next_turn(core);
        }
    }

    fn tick(&mut self) {
        self.next_tick_s += self.of.tick_s;
        for core in 0..self.cores.len() {
            self.account(core);
            let Some(process) = self.cores[core].running else { continue };
            let process = &mut self.processes[process];
            if process.had_s >= process.deadline_s {
                process.deadline_s = process.had_s + self.of.slice_s;
                if !self.cores[core].queue.is_empty() {
                    self.next_turn(core);
                }
            }
        }
        let shortest = (0..self.cores.len()).min_by_key(|core| self.present(*core)).unwrap_or(0);
        let longest = (0..self.cores.len()).max_by_key(|core| self.present(*core)).unwrap_or(0);
        if self.present(longest) > self.present(shortest) + 1 {
            self.account(shortest);
            self.take(longest, shortest);
            if self.cores[shortest].running.is_none() {
                self.next_turn(shortest);
            }
        }
    }
}

/// The rules of the queues.
impl Simulation<'_> {
    fn account(&mut self, core: usize) {
        let passed_s = self.now_s - std::mem::replace(&mut self.cores[core].accounted_s, self.now_s);
        if let Some(process) = self.cores[core].running {
            self.processes[process].had_s += passed_s;
            self.processes[process].left_s -= passed_s;
        }
    }

    fn there(&self, core: usize) -> impl Iterator<Item = usize> {
        let Core { queue, running, .. } = &self.cores[core];
        queue.iter().copied().chain(*running)
    }

    fn present(&self, core: usize) -> usize {
        self.there(core).count()
    }

    /// Processes that wait for their turn at a core.
    fn waiting(&self, core: usize) -> impl Iterator<Item = usize> {
        self.cores[core].queue.iter().copied().filter(|at| self.processes[*at].state == State::Queued)
    }

    /// The average CPU time of the processes of a core; `None` if it is idle.
    fn average_s(&self, core: usize) -> Option<f64> {
        let count = self.present(core);
        (count > 0).then(|| self.there(core).map(|at| self.processes[at].had_s).sum::<f64>() / count as f64)
    }

    /// Enters a queue with what it is owed.
    fn enter(&mut self, process: usize, core: usize) {
        let there = self.present(core) as f64;
        // It moves the average itself, which must not change what it is owed.
        let owed_s = self.processes[process].owed_s * (there + 1.0) / there;
        let had_s = self.average_s(core).map(|average_s| average_s - owed_s);
        let entered = &mut self.processes[process];
        entered.had_s = had_s.unwrap_or(entered.had_s);
        (entered.deadline_s, entered.core, entered.state) = (entered.had_s + self.of.slice_s, core, State::Queued);
        self.cores[core].queue.push(process);
    }

    fn owed_s(&self, process: usize, core: usize) -> f64 {
        let most_s = self.of.owed_max_s();
        (self.average_s(core).unwrap_or(0.0) - self.processes[process].had_s).clamp(-most_s, most_s)
    }

    fn sleep(&mut self, core: usize) {
        let process = self.cores[core].running.expect("it sleeps");
        let owed_s = self.owed_s(process, core);
        self.cores[core].running = None;
        let others = !self.cores[core].queue.is_empty();
        self.processes[process].owed_s = owed_s;
        self.processes[process].state = if owed_s < -ROUNDING_S && others { State::Owing } else { State::Asleep };
        if self.processes[process].state == State::Owing {
            self.cores[core].queue.push(process);
        }
    }

    fn wake(&mut self, process: usize, by: Option<usize>) {
        let own = self.processes[process].core;
        if self.processes[process].state == State::Owing {
            self.account(own);
            let average_s = self.average_s(own).expect("it is there");
            let woken = &mut self.processes[process];
            woken.had_s = woken.had_s.max(average_s);
            (woken.deadline_s, woken.state) = (woken.had_s + self.of.slice_s, State::Queued);
            return self.interrupt(process, own);
        }
        let follows = by.filter(|by| self.of.follows && self.present(*by) <= self.present(own));
        let mut nearest = [follows.unwrap_or(own), own].into_iter().chain(0..self.cores.len());
        let idle = nearest.find(|core| self.present(*core) == 0);
        let core = idle.or(follows).unwrap_or(own);
        self.account(core);
        self.enter(process, core);
        match self.cores[core].running {
            Some(_) => self.interrupt(process, core),
            // The core of the process that sleeps just now chooses afterwards.
            None if by == Some(core) => {}
            None => self.next_turn(core),
        }
    }

    /// The process takes the core at once, if it is its turn and the running one has had its slice.
    fn interrupt(&mut self, process: usize, core: usize) {
        let Some(running) = self.cores[core].running else { return };
        let is_protected = self.processes[running].had_s < self.processes[running].protected_s;
        if !is_protected && self.choose(core) == Some(process) {
            self.next_turn(core);
        }
    }

    /// Whose turn it is at a core.
    fn choose(&self, core: usize) -> Option<usize> {
        let average_s = self.average_s(core)? + ROUNDING_S;
        let eligible = self.there(core).filter(|at| self.processes[*at].had_s <= average_s);
        eligible.min_by(|a, b| self.processes[*a].deadline_s.total_cmp(&self.processes[*b].deadline_s))
    }

    fn next_turn(&mut self, core: usize) {
        if let Some(process) = self.cores[core].running.take() {
            self.processes[process].state = State::Queued;
            self.cores[core].queue.push(process);
        }
        loop {
            let Some(next) = self.choose(core) else {
                let longest = (0..self.cores.len()).max_by_key(|core| self.waiting(*core).count()).unwrap_or(core);
                if !self.take(longest, core) {
                    return;
                }
                continue;
            };
            let is_owing = self.processes[next].state == State::Owing;
            if is_owing {
                self.processes[next].owed_s = self.owed_s(next, core).min(0.0);
                self.processes[next].state = State::Asleep;
            }
            self.cores[core].queue.retain(|at| *at != next);
            if !is_owing {
                let chosen = &mut self.processes[next];
                chosen.state = State::Running;
                chosen.protected_s = chosen.deadline_s.min(chosen.had_s + self.of.slice_s);
                self.cores[core].running = Some(next);
                return;
            }
        }
    }

    /// Moves a waiting process to another core; false if none waits.
    fn take(&mut self, from: usize, to: usize) -> bool {
        let Some(process) = self.waiting(from).next().filter(|_| from != to) else { return false };
        self.processes[process].owed_s = self.owed_s(process, from);
        self.cores[from].queue.retain(|at| *at != process);
        self.enter(process, to);
        true
    }
}
