//! Figures of lock waiting and preemption that claims can be about (MW 3.7).

use std::fmt;

use super::syntax::Function;

/// A figure of how requests waited for locks, and of what was rolled back for others: over requests that ended, completed or
/// given up. Not of [`Part::Transaction`](super::Part).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockFigure {
    /// Mean QueueTime of a lock request that had to wait, microseconds.
    QueueTime,
    /// Mean WaitExcess of one, microseconds.
    WaitExcess,
    /// Mean WaitRemainder of one, microseconds.
    WaitRemainder,
    /// Lock requests that had to wait, per request.
    Waits,
    /// Share of response time that was spent in lock queues, 0 to 1.
    QueueShare,
    /// Share of requests that waited for so many locks, 0 to 1.
    Waited(Times),
    /// Mean latency of those that completed, microseconds.
    MeanWaited(Times),
    /// Attempts rolled back for another transaction, per request.
    Preemptions,
    /// Share of requests that were preempted so many times, 0 to 1.
    Preempted(Times),
    /// Attempts rolled back for another transaction or as a deadlock's victim, per request.
    Rollbacks,
    /// Mean time that one of these rollbacks took, microseconds.
    RollbackTime,
    /// Mean age of an attempt when it was preempted, over the mean length of attempts that got through.
    WorkLost,
}

/// How many times something happened to a request: so many, `2`, or at least so many, `3+`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Times {
    /// The least number.
    pub from: usize,
    /// The largest number; `None` if there is none.
    pub to: Option<usize>,
}

/// Requests to which something happened this often, and more often, are counted as one.
const TIMES_MAX: usize = 100;

impl Times {
    /// Reads one; `None` if the text is no number of times that is counted apart.
    pub(super) fn of(text: &str) -> Option<Times> {
        let digits = text.strip_suffix('+').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let from: usize = digits.parse().ok().filter(|from| is_number && *from <= TIMES_MAX)?;
        match (from, digits.len() < text.len()) {
            (_, true) => Some(Times { from, to: None }),
            (TIMES_MAX, false) => None,
            (_, false) => Some(Times { from, to: Some(from) }),
        }
    }

    /// Whether the latency of requests that waited so often is kept: it is of 0, 1 and 2, and of 3 and more as one.
    pub(super) fn has_latency(self) -> bool {
        matches!(self, Times { from: 0..=2, .. } | Times { from: 3, to: None })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.from, if self.to.is_none() { "+" } else { "" })
    }
}

impl LockFigure {
    /// The figure that a function gives, of so many times where it is asked for some; `None` of a function of something else.
    pub(super) fn of(function: Function, times: Option<Times>) -> Option<LockFigure> {
        Some(match function {
            Function::QueueTime => LockFigure::QueueTime,
            Function::WaitExcess => LockFigure::WaitExcess,
            Function::WaitRemainder => LockFigure::WaitRemainder,
            Function::Waits => LockFigure::Waits,
            Function::QueueShare => LockFigure::QueueShare,
            Function::Waited => LockFigure::Waited(times?),
            Function::MeanWaited => LockFigure::MeanWaited(times?),
            Function::Preemptions => LockFigure::Preemptions,
            Function::Preempted => LockFigure::Preempted(times?),
            Function::Rollbacks => LockFigure::Rollbacks,
            Function::RollbackTime => LockFigure::RollbackTime,
            Function::WorkLost => LockFigure::WorkLost,
            _ => return None,
        })
    }
}
