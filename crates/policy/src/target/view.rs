//! What the controller says: its moves with their reasons, and how each target is.

use std::fmt;
use std::time::Duration;

use super::{LeverKind, Target};
use crate::{ClassIndex, MplWhy};

/// A lever that was moved.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// Whose lever.
    pub class: ClassIndex,
    /// Which.
    pub kind: LeverKind,
    /// The amount before; `None` for no limit.
    pub from: Option<u64>,
    /// The amount from now on; `None` for no limit.
    pub to: Option<u64>,
    /// For the target of which class.
    pub target: ClassIndex,
    /// Why.
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
        /// All that were looked at.
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

/// How a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetPhase {
    /// The class alone was not seen yet, so the bound of `x alone` is not known.
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

/// A target and how it is, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetView {
    /// Whose.
    pub class: ClassIndex,
    /// The promise.
    pub target: Target,
    /// What the percentile is to stay below; `None` while `alone` is not known.
    pub bound: Option<Duration>,
    /// The percentile alone, of targets that need it.
    pub alone: Option<Duration>,
    /// The percentile of the last 10 seconds; `None` if there were too few transactions.
    pub now: Option<Duration>,
    /// Transactions that ended in the last 10 seconds.
    pub count: u64,
    /// How it is.
    pub phase: TargetPhase,
    /// Since when, by the host's clock.
    pub since: Duration,
    /// The lowest percentile reached since levers were first moved for it; `None` if none was moved, or too few transactions ended.
    pub best: Option<Duration>,
    /// The percentile before that.
    pub before: Option<Duration>,
    /// Why it is so, in words.
    pub why: String,
}

/// What a phase means, in words. `count` and `needed` are transactions.
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
