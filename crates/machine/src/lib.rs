//! The host: facts about it, measurements of it, and limits on it.
//!
//! This is the only crate that reads `/proc`, `/sys` and hardware counters. It does not know databases.
//!
//! Start with [`MachineFacts`] (what the host is), [`sensor`] (the list of sensors), [`control`] (the list of limits) and
//! [`describe`] (all of these in words).
//!
//! Measurements:
//! - Time: [`cpu_time`] of threads and of this process, [`process_tree`] of processes and their descendants,
//!   `block_io_delay` (waiting for block I/O), [`processor_time`] (including time stolen by the host of a guest),
//!   [`run_queue`] (runnable threads).
//! - Devices: `device` (load of processors and disks), [`disk_watch`] (a server's processes on its disk), `frequency` of cores, [`space`]
//!   (free memory and disk), [`memory_speed`] (latencies and bandwidths).
//! - Hardware events: [`counters`], interpreted by [`top_down`] and the older [`cache_miss`]; [`simulated_counters`] where the
//!   processor shows none.
//! - Of [`groups`]: [`pressure`] and use by the kernel's figures, [`resctrl`] by the processor's.
//! - Processes: [`busy_processes`] names those that took the cores, [`process_identity`] distinguishes them, [`process_share`] is the CPU share of one, [`process_room`] says how many more
//!   threads and files this one can have.
//!
//! Limits:
//! - A [`limiter::Limiter`] puts limits in force, checks that they take effect, and restores the machine. [`hog`]s occupy
//!   resources that cannot be limited.
//! - [`groups`] are read and made, and processes are moved to them: to those of an operator, and to our own, which limit
//!   reads from a disk or give idle cores only.
//! - [`placement`] binds threads of this process to cores.
//!
//! All reading goes through [`host`] and [`groups`], and all changes go through [`change`]. A [`host::Host`] is the real host or a folder
//! that looks like one.

mod availability;
mod block_io_delay;
pub mod busy_processes;
pub mod cache_miss;
pub mod change;
pub mod control;
pub mod counters;
pub mod cpu_time;
pub mod describe;
mod device;
pub mod disk_speed;
pub mod disk_watch;
pub mod facts;
mod frequency;
pub mod groups;
pub mod hog;
pub mod host;
pub mod idle_latency;
pub mod limiter;
pub mod memory_speed;
pub mod placement;
pub mod pressure;
pub mod process_identity;
pub mod process_room;
pub mod process_share;
pub mod process_tree;
pub mod processor_time;
pub mod run_queue;
pub mod sensor;
pub mod simulated_counters;
pub mod space;
pub mod thread_share;
pub mod top_down;

pub use describe::Description;
pub use facts::MachineFacts;
pub use groups::resctrl;
