//! `autogroups`: whether every session of processes is a group of the scheduler's (sched(7)). For the whole machine.
//!
//! With them each PostgreSQL process is a group of its own, and groups compete by weight alone: one that is to have only
//! what nobody else wants (`SCHED_IDLE`) still keeps a core for a slice of a few milliseconds before somebody who wakes gets
//! it. They are meant for desktops; servers that run as services mostly have them without knowing.

use super::kernel_word::KernelWord;
use crate::process_share::AUTOGROUPS_FILE;

/// See the module.
pub(super) static AUTOGROUPS: KernelWord = KernelWord {
    key: "autogroups",
    unit: "on or off",
    meaning: "automatic groups of the scheduler, of the whole machine: with them no nice value counts outside of its session",
    file: AUTOGROUPS_FILE,
    words: &[("on", "1"), ("off", "0")],
    absent: "the kernel has no autogroups (CONFIG_SCHED_AUTOGROUP)",
    absent_is: Some("0"),
};
