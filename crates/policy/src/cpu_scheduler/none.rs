//! `none`: the operating system divides the cores as it likes.

use super::CpuScheduler;
use crate::Priority;

/// Every thread is equal. The "Default" of MW 2.7.3.
///
/// ```
/// use plimsoll_policy::{Priority, cpu_scheduler};
///
/// let none = cpu_scheduler("none").expect("listed");
/// assert_eq!(none.nice(Priority::LOW), none.nice(Priority::HIGH));
/// ```
#[derive(Debug)]
pub(super) struct NoCpuScheduling;

impl CpuScheduler for NoCpuScheduling {
    fn name(&self) -> &'static str {
        "none"
    }

    fn about(&self) -> &'static str {
        "every thread is equal"
    }

    fn nice(&self, _priority: Priority) -> i32 {
        0
    }

    fn leaves_holders_alone(&self) -> bool {
        true
    }
}
