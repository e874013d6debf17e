//! CPU priority of threads that work for transactions: their nice values.
//!
//! When a transaction begins, its thread gets the transaction's nice value. The thread gets a better one when the
//! transaction inherits CPU priority, and falls back when the transaction ends. To lower a nice value, a thread needs
//! `CAP_SYS_NICE` or a sufficient limit `nice`. Refused calls are counted; nothing fails.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use plimsoll_policy::{CpuScheduler, Priority};
use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::gettid;

/// The threads of a system and their nice values. A trait, so that tests can refuse calls and record them.
pub trait Threads: Debug + Send + Sync {
    /// The calling thread's number.
    fn current(&self) -> i32;
    /// A thread's nice value.
    fn nice(&self, thread: i32) -> io::Result<i32>;
    /// Gives a thread a nice value.
    fn set_nice(&self, thread: i32, nice: i32) -> io::Result<()>;
}

/// The threads of this machine. On Linux each thread has a nice value, and setpriority(2) accepts a thread's number as
/// a process's (see BUGS there).
#[derive(Debug)]
pub struct SystemThreads;

impl Threads for SystemThreads {
    fn current(&self) -> i32 {
        thread_local!(static NUMBER: i32 = gettid().as_raw_nonzero().get());
        NUMBER.with(|number| *number)
    }

    fn nice(&self, thread: i32) -> io::Result<i32> {
        Ok(getpriority_process(Pid::from_raw(thread))?)
    }

    fn set_nice(&self, thread: i32, nice: i32) -> io::Result<()> {
        Ok(setpriority_process(Pid::from_raw(thread), nice)?)
    }
}

/// Applies the decisions of a CPU scheduler.
#[derive(Debug)]
pub struct CpuPriority {
    pub(crate) scheduler: &'static dyn CpuScheduler,
    threads: Arc<dyn Threads>,
    /// The nice value to which the scheduler's values are added: that of the thread which created this object.
    base: i32,
    /// Whether all priorities get the same value.
    is_off: bool,
    refused: AtomicU64,
}

/// The nice values that a member has given to its thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadPriority(Mutex<ThreadValues>);

#[derive(Debug, Default)]
struct ThreadValues {
    /// The thread that began the transaction.
    thread: i32,
    /// The transaction's serial number; 0 for none.
    serial: u64,
    /// The nice value at the transaction's begin.
    own: i32,
    /// The thread's current nice value.
    now: i32,
}

impl CpuPriority {
    /// Applies `scheduler` to the threads of this machine.
    pub fn new(scheduler: &'static dyn CpuScheduler) -> Self {
        CpuPriority::on(scheduler, Arc::new(SystemThreads))
    }

    /// Applies `scheduler` to these threads.
    pub fn on(scheduler: &'static dyn CpuScheduler, threads: Arc<dyn Threads>) -> Self {
        let levels = (0..=u8::MAX).map(|level| Priority::of_level(level).unwrap_or(Priority::PROMOTED));
        let is_off = levels.map(|level| scheduler.nice(level)).all(|nice| nice == scheduler.nice(Priority::LOW));
        let base = if is_off { 0 } else { threads.nice(threads.current()).unwrap_or(0) };
        CpuPriority { scheduler, threads, base, is_off, refused: AtomicU64::new(0) }
    }

    /// Whether the nice values of threads are never changed.
    pub(crate) fn is_off(&self) -> bool {
        self.is_off
    }

    /// The number of times that a thread could not be given its nice value.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// From now on the calling thread works for a transaction with this CPU priority.
    pub(crate) fn begin(&self, kept: &ThreadPriority, serial: u64, priority: Priority) {
        if self.is_off {
            return;
        }
        let thread = self.threads.current();
        let own = self.wanted(priority);
        // A thread may serve several connections, so its nice value is read rather than remembered.
        let present = self.threads.nice(thread).unwrap_or(own);
        let now = if present == own { own } else { self.set(thread, present, own) };
        *kept.0.lock() = ThreadValues { thread, serial, own, now };
    }

    /// The transaction has this CPU priority from now on. Called by the thread that raised it, which may be any thread.
    pub(crate) fn raise(&self, kept: &ThreadPriority, serial: u64, priority: Priority) {
        if self.is_off {
            return;
        }
        // Held throughout, so that the transaction cannot end and its thread cannot serve another one.
        let mut values = kept.0.lock();
        let wanted = self.wanted(priority);
        if values.serial == serial && wanted < values.now {
            values.now = self.set(values.thread, values.now, wanted);
        }
    }

    /// The transaction ends, and its inherited priority with it.
    pub(crate) fn end(&self, kept: &ThreadPriority) {
        if self.is_off {
            return;
        }
        let mut values = kept.0.lock();
        values.serial = 0;
        if values.now < values.own {
            values.now = self.set(values.thread, values.now, values.own);
        }
    }

    /// The connection closes. Its thread, if it is the calling one, gets the base nice value back.
    pub(crate) fn leave(&self, kept: &ThreadPriority) {
        if self.is_off {
            return;
        }
        let mut values = kept.0.lock();
        if values.thread != 0 && values.thread == self.threads.current() && values.now != self.base {
            values.now = self.set(values.thread, values.now, self.base);
        }
    }

    fn wanted(&self, priority: Priority) -> i32 {
        (self.base + self.scheduler.nice(priority)).clamp(-20, 19)
    }

    /// Sets a nice value; returns the thread's value afterwards.
    fn set(&self, thread: i32, present: i32, wanted: i32) -> i32 {
        match self.threads.set_nice(thread, wanted) {
            Ok(()) => wanted,
            Err(_) => {
                // Relaxed: a count that nothing else depends on.
                self.refused.fetch_add(1, Ordering::Relaxed);
                present
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_policy::cpu_scheduler;

    /// Records each thread's value; refuses to lower one if configured so.
    #[derive(Debug, Default)]
    struct Fake {
        is_privileged: bool,
        nice: Mutex<std::collections::BTreeMap<i32, i32>>,
    }

    impl Threads for Fake {
        fn current(&self) -> i32 {
            1
        }
        fn nice(&self, thread: i32) -> io::Result<i32> {
            Ok(self.nice.lock().get(&thread).copied().unwrap_or(0))
        }
        fn set_nice(&self, thread: i32, nice: i32) -> io::Result<()> {
            if !self.is_privileged && nice < self.nice(thread)? {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.nice.lock().insert(thread, nice);
            Ok(())
        }
    }

    fn check(scheduler: &str, is_privileged: bool, expect: [i32; 5], refused: u64) {
        let fake = Arc::new(Fake { is_privileged, ..Fake::default() });
        let cpu = CpuPriority::on(cpu_scheduler(scheduler).unwrap(), Arc::clone(&fake) as Arc<dyn Threads>);
        let kept = ThreadPriority::default();
        let mut seen = Vec::new();
        let mut look = || seen.push(fake.nice(1).unwrap());
        cpu.begin(&kept, 7, Priority::LOW);
        look();
        cpu.raise(&kept, 6, Priority::HIGH);
        look();
        cpu.raise(&kept, 7, Priority::HIGH);
        look();
        cpu.end(&kept);
        look();
        cpu.leave(&kept);
        look();
        assert_eq!(seen, expect, "{scheduler}");
        assert_eq!(cpu.refused(), refused, "{scheduler}");
    }

    #[test]
    fn a_thread_has_the_nice_value_of_its_transaction() {
        check("none", true, [0, 0, 0, 0, 0], 0);
        check("cpu-prio-inherit", true, [19, 19, 0, 19, 0], 0);
        check("cpu-prio-inherit", false, [19, 19, 19, 19, 19], 2);
    }

    #[test]
    fn this_machine_tells_the_nice_value_of_a_thread() {
        let threads = SystemThreads;
        let before = threads.nice(threads.current()).unwrap();
        let nicer = std::thread::spawn(move || {
            let threads = SystemThreads;
            threads.set_nice(threads.current(), 19).unwrap();
            threads.nice(threads.current()).unwrap()
        });
        assert_eq!(nicer.join().unwrap(), 19);
        assert_eq!(threads.nice(threads.current()).unwrap(), before, "another thread was meant");
    }
}
