//! Settings of the guards.

use std::time::Duration;

use plimsoll_policy::{ClassIndex, GuardMode, Pace, RunawayLimits};

use super::{ClassSettings, Settings};

/// What is done about work that holds up others by accident.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Guards {
    /// Statements that need a lock which stops readers or writers.
    pub migrations: GuardMode,
    /// How long such a statement may wait for a lock in one try.
    pub migrations_wait: Duration,
    /// For how long it is tried; `None` for no limit.
    pub migrations_patience: Option<Duration>,
    /// Transactions that hold up others while they wait for their client.
    pub idle: GuardMode,
    /// How much waiting of others, added up, such a transaction may cause.
    pub idle_cost: Duration,
    /// Statements that exceed the limits of their class.
    pub runaways: GuardMode,
    /// Transactions beyond the rate of their class.
    pub budgets: GuardMode,
}

impl Guards {
    /// Whether some guard looks at the server for waiters of locks.
    pub fn look_for_waiters(&self) -> bool {
        self.migrations > GuardMode::Off || self.idle > GuardMode::Off
    }
}

impl ClassSettings {
    /// The pace of its transactions, if it has a rate.
    pub fn pace(&self) -> Option<Pace> {
        self.rate.map(|rate| Pace { rate, burst: self.burst.unwrap_or_else(|| rate.usual_burst()) })
    }
}

impl Settings {
    /// What is done about transactions of a class beyond its rate.
    pub fn budgets_of(&self, class: ClassIndex) -> GuardMode {
        self.class(class).guards.unwrap_or(self.guards.budgets)
    }

    /// What is done about statements of a class that exceed its limits.
    pub fn runaways_of(&self, class: ClassIndex) -> GuardMode {
        self.class(class).guards.unwrap_or(self.guards.runaways)
    }

    /// The paces by which transactions wait, by class.
    pub fn paces(&self) -> impl Iterator<Item = Option<Pace>> {
        let waits = |index| self.budgets_of(index) == GuardMode::Enforce;
        self.indexed().map(move |(index, class)| class.pace().filter(|_| waits(index)))
    }

    /// The limits of a statement of that class; none while nothing looks at them.
    pub fn runaway_limits(&self, class: ClassIndex) -> RunawayLimits {
        match self.runaways_of(class) {
            GuardMode::Off => RunawayLimits::default(),
            GuardMode::Warn | GuardMode::Enforce => self.class(class).runaway,
        }
    }

    /// Whether some class limits its statements.
    pub fn limits_runaways(&self) -> bool {
        self.indexed().any(|(index, class)| class.runaway.is_any() && self.runaways_of(index) > GuardMode::Off)
    }
}
