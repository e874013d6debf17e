//! Lock waits and commit groups in many orders of their threads' steps, each drawn from a seed.
//!
//! The sources of the lock table and of the log's queue are compiled into this program as they are. But `parking_lot`,
//! `std::sync::atomic` and the futex are others here (`primitives`): threads run one at a time, and at each step of one of these a
//! scheduler (`scheduler`) draws who goes on. So a seed fixes an order; a wake-up that is lost ends in a world in which everybody
//! sleeps, which is reported. Orders of memory operations are not explored: what is written is seen by all at once.
//!
//! Each model is also run with primitives that are broken on purpose, which must be noticed. `PLIMSOLL_LONG=1` runs more seeds.

#![allow(dead_code, reason = "the sources have more than the models use")]
#![allow(clippy::unit_arg, clippy::upper_case_acronyms, reason = "the sources are checked where they belong")]
#![allow(missing_docs, reason = "primitives do what those do that they are named after")]

extern crate rustix as system_rustix;
extern crate std as system;

// The sources name these crates; what they find is here.
extern crate self as parking_lot;
extern crate self as rustix;
extern crate self as std;

#[path = "../src/clock.rs"]
mod clock;
#[path = "../src/cpu_priority.rs"]
mod cpu_priority;
#[path = "interleaving/lock.rs"]
mod lock;
#[path = "interleaving/log.rs"]
mod log;
#[path = "interleaving/primitives.rs"]
mod primitives;
#[path = "interleaving/scheduler.rs"]
mod scheduler;
#[path = "interleaving/table.rs"]
mod table;

/// What is looked for in `parking_lot`.
pub use primitives::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
/// All of `std` that is not replaced below.
pub use system::*;

/// Of `std`.
pub mod sync {
    pub use crate::primitives::atomic;
    pub use system::sync::*;
}

/// Of `std` and of `rustix`.
pub mod thread {
    pub use crate::primitives::futex;
    pub use system::thread::*;
    pub use system_rustix::thread::gettid;
}

/// Of `rustix`.
pub mod process {
    pub use system_rustix::process::{Pid, getpriority_process, setpriority_process};
}

/// More seeds where somebody wants to search longer.
fn scaled(seeds: u64) -> u64 {
    if system::env::var_os("PLIMSOLL_LONG").is_some() { seeds * 50 } else { seeds }
}

/// Each seed of this number ends well.
fn check(seeds: u64, run: impl Fn(u64) -> Result<(), String>) {
    for seed in 0..scaled(seeds) {
        if let Err(error) = run(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

/// One of the first seeds ends badly, and says so in these words.
fn check_that_it_is_noticed(run: impl Fn(u64) -> Result<(), String>, words: &str) {
    let error = (0..1_000).find_map(|seed| Some((seed, run(seed).err()?)));
    let (seed, error) = error.unwrap_or_else(|| panic!("not noticed; expected `{words}`"));
    println!("seed {seed}: {error}");
    assert!(error.contains(words), "seed {seed}: {error}");
}
