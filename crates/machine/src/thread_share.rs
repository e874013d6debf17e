//! The CPU share of a thread of this process: its nice value, or idle time of the cores only, and its slice.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::host::Host;

/// `SCHED_IDLE` (sched(7)).
const IDLE: i32 = 5;

/// The CPU share of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThreadShare {
    /// That of the thread that started it.
    #[default]
    Untouched,
    /// A nice value from 1 to 19, higher is less.
    Nice(i32),
    /// Only idle time of the cores (`SCHED_IDLE`).
    Idle,
}

impl ThreadShare {
    /// Reads `untouched`, `nice-1` to `nice-19`, or `idle`. `None` if it is none of these.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "untouched" => Some(ThreadShare::Untouched),
            "idle" => Some(ThreadShare::Idle),
            _ => {
                let nice = text.strip_prefix("nice-")?.parse().ok();
                nice.filter(|nice| (1..=19).contains(nice)).map(ThreadShare::Nice)
            }
        }
    }

    /// Gives a thread this share. No rights are needed: a share is never larger than that of its process.
    pub fn give(self, host: &Host, thread: i32) -> io::Result<()> {
        match self {
            ThreadShare::Untouched => Ok(()),
            ThreadShare::Nice(nice) => host.set_nice(thread, nice),
            ThreadShare::Idle => host.set_scheduling_policy(thread, IDLE),
        }
    }

    /// Gives it to the calling thread, and so to the threads and processes that this one starts.
    pub fn give_to_own_thread(self) -> io::Result<()> {
        self.give(&Host::real(), rustix::thread::gettid().as_raw_pid())
    }
}

impl fmt::Display for ThreadShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadShare::Untouched => f.write_str("untouched"),
            ThreadShare::Nice(nice) => write!(f, "nice-{nice}"),
            ThreadShare::Idle => f.write_str("idle"),
        }
    }
}

/// For how long the calling thread keeps a core while others wait for it; `None` where the kernel does not report it
/// (Linux before 6.12).
pub fn own_slice() -> Option<Duration> {
    Host::real().slice(rustix::thread::gettid().as_raw_pid())
}

/// Sets that time, 0.1 to 100 ms. A thread that wakes with a shorter slice than the running one takes its core at once,
/// unless it has had more than its share.
pub fn set_own_slice(slice: Duration) -> io::Result<()> {
    Host::real().set_slice(rustix::thread::gettid().as_raw_pid(), slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_written() {
        for text in ["untouched", "nice-1", "nice-19", "idle"] {
            assert_eq!(ThreadShare::parse(text).expect(text).to_string(), text);
        }
        for text in ["", "nice", "nice-0", "nice-20", "nice--5", "sleep"] {
            assert_eq!(ThreadShare::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_thread_has_the_share_that_it_was_given() {
        let share_of = |share: ThreadShare| {
            let thread = std::thread::spawn(move || {
                let id = rustix::thread::gettid().as_raw_pid();
                share.give(&Host::real(), id).expect("a smaller share needs no rights");
                let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).expect("its own");
                let fields: Vec<String> =
                    stat.rsplit_once(')').expect("a name").1.split_whitespace().map(str::to_owned).collect();
                // The nice value and the policy, fields 19 and 41 of proc(5), counted after the name.
                (fields[16].clone(), fields[38].clone())
            });
            thread.join().expect("it has ended")
        };
        let (nice, policy) = share_of(ThreadShare::Nice(19));
        assert_eq!((nice.as_str(), policy.as_str()), ("19", "0"));
        assert_eq!(share_of(ThreadShare::Idle).1, "5");
    }

    #[test]
    fn a_slice_holds_where_the_kernel_has_slices_of_threads() {
        let found = std::thread::spawn(|| {
            own_slice()?;
            set_own_slice(Duration::from_micros(100)).expect("within the kernel's range");
            own_slice()
        });
        let slice = found.join().expect("it has ended");
        assert!(slice.is_none_or(|slice| slice == Duration::from_micros(100)), "{slice:?}");
    }
}
