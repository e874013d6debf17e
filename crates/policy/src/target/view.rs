//! The output of the controller: its moves with their reasons, and the state of each target.

use std::fmt;
use std::time::Duration;

use super::{LeverKind, Target};
use crate::{ClassIndex, MplWhy};

/// A lever that was moved.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The class whose lever was moved.
    pub class: ClassIndex,
    /// The kind of the lever.
    pub kind: LeverKind,
    /// The amount before; `None` for no limit.
    pub from: Option<u64>,
    /// The amount from now on; `None` for no limit.
    pub to: Option<u64>,
    /// The class whose target caused the move.
    pub target: ClassIndex,
    /// The reason.
    pub why: Why,
}

/// Why a lever was moved.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Why {
    /// The target is exceeded: this many of those transactions were beyond the bound.
    Exceeded {
        /// Transactions beyond the bound.
        beyond: u64,
        /// All that were examined.
        count: u64,
    },
    /// The target is exceeded since the lever was given back a step: the step is undone.
    Undone,
    /// The target is kept with room to spare: the lever is given back a step.
    Comfortable,
    /// No transaction of the target's class was at work for a while: the lever is given back a step.
    Idle,
    /// Levers made no difference to the target, which is exceeded all the same: they are given back.
    NoHelp,
    /// There is no target; the smallest mpl that costs no throughput is searched for.
    Search(MplWhy),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Exceeded { beyond, count } => write!(f, "{beyond} of {count} transactions were beyond the target"),
            Why::Undone => f.write_str("the target was exceeded after the last step back"),
            Why::Comfortable => f.write_str("the target is kept with room to spare"),
            Why::Idle => f.write_str("the target's class is idle"),
            Why::NoHelp => f.write_str("it made no difference to the target"),
            Why::Search(why) => why.fmt(f),
        }
    }
}

/// The state of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetPhase {
    /// The class has not been observed alone yet, so the bound of `x alone` is not known.
    Learning,
    /// No transaction of the class is at work.
    Idle,
    /// Too few transactions to tell.
    TooFew,
    /// It is kept.
    Held,
    /// It was exceeded, levers are being moved, and it is not clearly kept yet.
    Limiting,
    /// It is exceeded though every lever is at its floor.
    CannotHold,
}

impl TargetPhase {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            TargetPhase::Learning => "learning",
            TargetPhase::Idle => "idle",
            TargetPhase::TooFew => "too few",
            TargetPhase::Held => "held",
            TargetPhase::Limiting => "limiting",
            TargetPhase::CannotHold => "cannot hold",
        }
    }
}

/// A target and its state, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetView {
    /// The class with the target.
    pub class: ClassIndex,
    /// The promise.
    pub target: Target,
    /// The bound of the percentile; `None` while `alone` is not known.
    pub bound: Option<Duration>,
    /// The percentile alone, of targets that need it.
    pub alone: Option<Duration>,
    /// The percentile of the last 10 seconds; `None` if there were too few transactions.
    pub now: Option<Duration>,
    /// Transactions that ended in the last 10 seconds.
    pub count: u64,
    /// Its phase.
    pub phase: TargetPhase,
    /// When the phase began, by the host's clock.
    pub since: Duration,
    /// The lowest percentile reached since levers were first moved for it; `None` if none was moved, or too few transactions ended.
    pub best: Option<Duration>,
    /// The percentile before that.
    pub before: Option<Duration>,
    /// The reason for the phase, in words.
    pub why: String,
}

/// Explains a phase in words. `count` and `needed` are transactions.
pub(super) fn explained(phase: TargetPhase, best: Option<Duration>, few: (u64, u64), is_given_back: bool) -> String {
    let reached = || best.map_or_else(String::new, |best| format!("; the best was {:.1} ms", best.as_secs_f64() * 1e3));
    match phase {
        TargetPhase::Learning => "the class was not seen alone for 10 s with enough transactions yet".to_owned(),
        TargetPhase::Idle => "no transaction of the class is at work".to_owned(),
        TargetPhase::TooFew => format!("{} transactions since the last move, {} needed", few.0, few.1),
        TargetPhase::Held => "transactions stay below it".to_owned(),
        TargetPhase::Limiting => "it was exceeded, so classes below are limited".to_owned(),
        TargetPhase::CannotHold if is_given_back => {
            format!("limits on classes below made no difference and were given back{}", reached())
        }
        TargetPhase::CannotHold => format!("nothing below is left to limit{}", reached()),
    }
}
