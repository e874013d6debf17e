//! `autogroups`: whether the scheduler treats every session of processes as a group (sched(7)). For the whole machine.
//!
//! With autogroups each PostgreSQL process is a group of its own, and groups compete by weight alone. A process that should run only
//! on idle cores (`SCHED_IDLE`) then still keeps a core for a slice of a few milliseconds before a process that wakes gets
//! it. Autogroups are meant for desktops, but are on by default on most servers too.

use super::kernel_word::KernelWord;
use crate::process_share::AUTOGROUPS_FILE;

pub(super) static AUTOGROUPS: KernelWord = KernelWord {
    key: "autogroups",
    unit: "on or off",
    meaning: "automatic groups of the scheduler, of the whole machine: with them no nice value counts outside of its session",
    file: AUTOGROUPS_FILE,
    words: &[("on", "1"), ("off", "0")],
    absent: "the kernel has no autogroups (CONFIG_SCHED_AUTOGROUP)",
    absent_is: Some("0"),
};
