//! Lock waits and commit groups in many orders of their threads' steps, each drawn from a seed.
//!
//! The sources of the lock table and of the log's queue are compiled into this program as they are. But `parking_lot`,
//! `std::sync::atomic` and the futex are replaced (`primitives`): threads run one at a time, and at each step of a
//! primitive a scheduler (`scheduler`) draws the thread that continues. So a seed fixes an order. A lost wake-up ends
//! in a world in which all threads sleep, which is reported. Orders of memory operations are not explored: all threads
//! see a write at once.
//!
//! Each model is also run with primitives that are broken on purpose, which the test must detect. `PLIMSOLL_LONG=1`
//! runs more seeds.

#![allow(dead_code, reason = "the sources have more than the models use")]
#![allow(clippy::unit_arg, clippy::upper_case_acronyms, reason = "the sources are checked where they belong")]
#![allow(missing_docs, reason = "primitives do what those do that they are named after")]

extern crate rustix as system_rustix;
extern crate std as system;

// The sources name these crates; the names resolve to this test.
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

/// Replacements for `parking_lot`.
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

/// The number of seeds; can be raised for a longer search.
fn scaled(seeds: u64) -> u64 {
    if system::env::var_os("PLIMSOLL_LONG").is_some() { seeds * 50 } else { seeds }
}

/// Each of these seeds ends well.
fn check(seeds: u64, run: impl Fn(u64) -> Result<(), String>) {
    for seed in 0..scaled(seeds) {
        if let Err(error) = run(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

/// One of the first seeds fails, with these words in its error.
fn check_that_it_is_noticed(run: impl Fn(u64) -> Result<(), String>, words: &str) {
    let error = (0..1_000).find_map(|seed| Some((seed, run(seed).err()?)));
    let (seed, error) = error.unwrap_or_else(|| panic!("not noticed; expected `{words}`"));
    println!("seed {seed}: {error}");
    assert!(error.contains(words), "seed {seed}: {error}");
}
