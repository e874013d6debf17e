//! Starvation is bounded: work that was rolled back often enough goes first.

use std::num::NonZeroU32;

use crate::Priority;

/// How often work may be rolled back before it is promoted above all others.
///
/// Not in MW, where a low-priority transaction can be preempted without end.
///
/// ```
/// use plimsoll_policy::{Priority, StarvationBound};
///
/// let bound = StarvationBound::default();
/// assert_eq!(bound.present(Priority::LOW, 4), Priority::LOW);
/// assert_eq!(bound.present(Priority::LOW, 5), Priority::PROMOTED);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StarvationBound {
    rollbacks: Option<NonZeroU32>,
}

impl StarvationBound {
    /// Promotion after this many rollbacks.
    pub fn after(rollbacks: NonZeroU32) -> Self {
        StarvationBound { rollbacks: Some(rollbacks) }
    }

    /// No transaction is ever promoted: for studies of starvation.
    pub fn none() -> Self {
        StarvationBound { rollbacks: None }
    }

    /// After how many rollbacks; `None` for never.
    pub fn rollbacks(self) -> Option<u32> {
        self.rollbacks.map(NonZeroU32::get)
    }

    /// The priority of work that asked for `own` and has been rolled back `rollbacks` times.
    pub fn present(self, own: Priority, rollbacks: u32) -> Priority {
        if self.rollbacks().is_some_and(|bound| rollbacks >= bound) { Priority::PROMOTED } else { own }
    }
}

impl Default for StarvationBound {
    /// Five.
    fn default() -> Self {
        const FIVE: NonZeroU32 = NonZeroU32::new(5).expect("not zero");
        StarvationBound::after(FIVE)
    }
}
