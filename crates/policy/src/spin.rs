//! How long a relay polls for the next message before it sleeps, while an important chain of statements is under way.
//!
//! A thread that sleeps until a message comes is woken too late, and the core that it slept on first has to wake up itself. A
//! thread that polls takes a core for that. Mutexes that spin before they block have the same problem, and the solution is theirs. The
//! next wait is most likely like the last ones, so the budget is the one that would have cost least for these
//! (A. Karlin, K. Li, M. Manasse, S. Owicki, "Empirical studies of competitive spinning for a shared-memory multiprocessor", SOSP
//! 1991). With a budget `b` a wait `w` costs
//!
//! ```text
//! min(w, b) + (SLEEP_WORTH_US if w > b)
//! ```
//!
//! microseconds of an idle core, and the mean of that is kept for each of a few budgets. The server's answers and the client's next
//! statements are learned apart: a client may think for long after answers that come at once.
//!
//! Polling is for idle cores. It needs a core that was idle in the last look at the processors, and it stops
//! until the next look when the poller has seen that another process wanted its core.

use std::fmt;
use std::time::Duration;

use crate::length::{parse_length, write_length};

/// What it is worth not to sleep, in microseconds of a core that is idle otherwise. To wake another core takes 20 to 25 us on virtual
/// machines (`perf bench sched pipe` has two of them in 43 us); an idle core's time is taken to be worth a quarter of an important statement's.
const SLEEP_WORTH_US: f64 = 4.0 * WAKE_US;

/// How much later than the message the thread runs that has slept; it is part of what was waited then.
const WAKE_US: f64 = 25.0;

/// The budgets to choose from. None is above what a sleep is worth: from there on polling has cost more than it can save.
const BUDGETS_US: [f64; 8] = [0.0, 10.0, 20.0, 30.0, 45.0, 60.0, 80.0, SLEEP_WORTH_US];

/// The share of the newest wait in the means: about the last 32 count.
const NEWEST: f64 = 1.0 / 32.0;

/// Polling needs at least that many idle cores. It should be a whole one; the rest is what the kernel's ticks may be wrong by.
const CORES_IDLE_MIN: f64 = 0.75;

/// The longest budget that can be set: it would be longer than quick statements.
const FIXED_MAX: Duration = Duration::from_millis(1);

/// Whether to poll, as settings have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpinRule {
    /// Never.
    Off,
    /// For as long as pays.
    Learned,
    /// For that long.
    Fixed(Duration),
}

/// Who is to send the next message of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The server, which works at a statement.
    Server,
    /// The client, whose transaction is open.
    Client,
}

/// Chooses budgets. See the module.
#[derive(Debug, Clone)]
pub struct Spin {
    rule: SpinRule,
    server: Waits,
    client: Waits,
    /// A core was idle at the last look, and no other process has wanted the poller's core since.
    has_core: bool,
}

/// What each budget would have cost of late, microseconds.
#[derive(Debug, Clone, Copy)]
struct Waits([f64; BUDGETS_US.len()]);

impl SpinRule {
    /// Reads `off`, `auto`, or a budget from 1 us to 1 ms.
    pub fn parse(text: &str) -> Option<SpinRule> {
        match text {
            "off" => Some(SpinRule::Off),
            "auto" => Some(SpinRule::Learned),
            _ => {
                let budget = parse_length(text)?;
                (!budget.is_zero() && budget <= FIXED_MAX).then_some(SpinRule::Fixed(budget))
            }
        }
    }
}

impl fmt::Display for SpinRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpinRule::Off => f.write_str("off"),
            SpinRule::Learned => f.write_str("auto"),
            SpinRule::Fixed(budget) => f.write_str(&write_length(*budget)),
        }
    }
}

impl Spin {
    /// Does not poll until it knows that there is an idle core.
    pub fn new(rule: SpinRule) -> Self {
        Spin { rule, server: Waits::unknown(), client: Waits::unknown(), has_core: false }
    }

    /// Whether it may poll at all.
    pub fn is_on(&self) -> bool {
        self.rule != SpinRule::Off
    }

    /// A look at the processors: so many cores were idle on average, those on which the relay polled included. `None` if that is
    /// not known.
    pub fn on_look(&mut self, cores_idle: Option<f64>) {
        self.has_core = cores_idle.is_some_and(|idle| idle >= CORES_IDLE_MIN);
    }

    /// Another process wanted the poller's core.
    pub fn on_crowd(&mut self) {
        self.has_core = false;
    }

    /// For how long to poll now; zero for sleeping at once.
    pub fn budget(&self, awaited: Awaited) -> Duration {
        match self.rule {
            _ if !self.has_core => Duration::ZERO,
            SpinRule::Off => Duration::ZERO,
            SpinRule::Fixed(budget) => budget,
            SpinRule::Learned => self.waits(awaited).best(),
        }
    }

    /// The message has come after that long, asleep at the end of it or not.
    pub fn on_message(&mut self, awaited: Awaited, waited: Duration, has_slept: bool) {
        let waited = waited.as_secs_f64() * 1e6;
        let waited = if has_slept { (waited - WAKE_US).max(0.0) } else { waited };
        match awaited {
            Awaited::Server => self.server.add(waited),
            Awaited::Client => self.client.add(waited),
        }
    }

    fn waits(&self, awaited: Awaited) -> &Waits {
        match awaited {
            Awaited::Server => &self.server,
            Awaited::Client => &self.client,
        }
    }
}

impl Waits {
    /// As if every wait were endless.
    fn unknown() -> Self {
        Waits(BUDGETS_US.map(|budget| budget + SLEEP_WORTH_US))
    }

    fn add(&mut self, waited: f64) {
        for (mean, budget) in self.0.iter_mut().zip(BUDGETS_US) {
            *mean += (cost(budget, waited) - *mean) * NEWEST;
        }
    }

    /// The budget with the least cost; of equals the shortest.
    fn best(&self) -> Duration {
        let costs = self.0.iter().zip(BUDGETS_US);
        let (_, best) = costs.min_by(|(a, _), (b, _)| a.total_cmp(b)).expect("there are budgets");
        Duration::from_secs_f64(best / 1e6)
    }
}

/// What a wait costs with a budget, both in microseconds.
fn cost(budget: f64, waited: f64) -> f64 {
    if waited <= budget { waited } else { budget + SLEEP_WORTH_US }
}

#[cfg(test)]
mod tests;
