//! `cr(d)`, conditional restart: priority queues, and a transaction that blocks a high-priority one is rolled back
//! after `d`.

use super::{ByPriority, LockSchedulerKind, Verdict};
use crate::PreemptionKind;
use crate::length::{parse_length, write_length};

/// Serves waiters as `nprio` does, and rolls a low-priority transaction back that still blocks a high-priority one
/// after a reprieve. CR300 of MW 3.8.3, where the reprieve is 300 ms.
///
/// The conditional restart of real-time databases (MW 3.4) rolls back at once if it estimates that the holder
/// has much work left; a reprieve needs no estimate.
///
/// High H begins to wait for a row that low L holds; 300 ms later L has not ended, and is rolled back.
pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "cr(d)",
    about: "the most urgent waiter first; a transaction that blocks a more urgent one for longer than d is rolled back",
    example: "cr(300ms)",
    at_server: &[PreemptionKind {
        name: "after(d)",
        about: "a transaction that blocks a more urgent one for longer than d is rolled back",
        example: "after(50ms)",
        acts: true,
    }],
    make: |name| {
        let reprieve = parse_length(name.strip_prefix("cr(")?.strip_suffix(')')?)?;
        // In the largest unit that needs no fraction, so that equal reprieves have equal names.
        let name = format!("cr({})", write_length(reprieve));
        (!reprieve.is_zero()).then(|| ByPriority::scheduler(name, Verdict::PreemptAfter(reprieve)))
    },
};

#[cfg(test)]
mod tests {
    use crate::lock_scheduler;

    #[test]
    fn names_are_read_and_written_in_the_largest_unit() {
        for (name, written) in [
            ("cr(300ms)", "cr(300ms)"),
            ("cr(1s)", "cr(1s)"),
            ("cr(500us)", "cr(500us)"),
            ("cr(1000ms)", "cr(1s)"),
            ("cr(1500ms)", "cr(1500ms)"),
            ("cr(1000us)", "cr(1ms)"),
            ("cr(3600s)", "cr(3600s)"),
        ] {
            let found = lock_scheduler(name).expect("a name of it");
            assert_eq!(found.name(), written);
            assert_eq!(lock_scheduler(written).expect("its own name").name(), written);
        }
    }

    #[test]
    fn other_names_are_not_its_own() {
        for name in [
            "cr",
            "cr()",
            "cr(d)",
            "cr(300)",
            "cr(ms)",
            "cr(-1ms)",
            "cr(+1ms)",
            "cr(0ms)",
            "cr(1.5s)",
            "cr( 1s)",
            "cr(1 s)",
            "cr(1min)",
            "cr(1ms",
            "cr(3601s)",
            "cr(99999999999999999999s)",
            "cr(18446744073709551615s)",
            "CR(1s)",
        ] {
            assert!(lock_scheduler(name).is_none(), "{name}");
        }
    }
}
