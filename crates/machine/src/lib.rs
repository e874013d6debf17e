//! What the host is, what it can measure, and what it can limit.
//!
//! The only crate that reads `/proc`, `/sys` and hardware counters. It knows no database.
//!
//! In reading order: [`MachineFacts`] is what the host is, [`sensor`] lists what can be measured and [`control`] what can
//! be limited, [`describe`] puts it all in words. Measurements: [`cpu_time`] is what threads and this process have used,
//! [`process_tree`] what processes and their descendants have, [`block_io_delay`] how long threads waited for block I/O,
//! [`counters`] are hardware events, [`device`] is how busy processors and disks are, [`pressure`] and [`group_use`] are what the kernel tells of control groups,
//! [`resctrl`] what the processor tells of them, [`frequency`] and [`processor_time`] how fast cores run and what
//! a guest's host takes of them, [`space`] is what memory and disk are free, [`process_identity`] tells processes apart,
//! [`process_share`] is what one of them gets of the cores, [`placement`] on which of them a thread of ours runs, [`run_queue`] how many threads want one,
//! [`group_folder`] is a group that it can be moved to,
//! [`disk_watch`] what a server's processes do on its disk, [`disk_group`] a group that limits some of them and [`idle_group`] one whose processes get idle cores only (both are an [`own_group`]). [`host`] and [`cgroup`] are where the others
//! read from: a [`host::Host`] may be the real one or a folder that looks like one. A [`limiter::Limiter`] puts limits in
//! force, sees whether they bite, and puts the machine back; [`change`] is all that is ever done to a machine.

pub mod availability;
pub mod block_io_delay;
pub mod cache_miss;
pub mod cgroup;
pub mod change;
pub mod control;
pub mod counters;
pub mod cpu_time;
pub mod describe;
pub mod device;
pub mod disk_group;
pub mod disk_watch;
pub mod facts;
pub mod frequency;
pub mod group_folder;
pub mod group_use;
pub mod hog;
pub mod host;
pub mod idle_group;
pub mod limiter;
pub mod memory_speed;
pub mod own_group;
pub mod placement;
pub mod pressure;
pub mod process_identity;
pub mod process_share;
pub mod process_tree;
pub mod processor_time;
pub mod resctrl;
pub mod run_queue;
pub mod sensor;
pub mod space;
pub mod top_down;

pub use describe::Description;
pub use facts::MachineFacts;
