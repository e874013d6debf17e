//! Binds threads of this process to some of its cores.
//!
//! Cores are counted among those that the process may use, from 0: an experiment that is confined to some cores of a larger machine
//! places its threads within them. These are the cores of the process's first thread, which is never placed.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use rustix::process::getpid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity};

use crate::host::{Host, parse_core_list};

/// Cores of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CoreSet {
    /// All cores.
    #[default]
    All,
    /// These, counted from 0, in ascending order.
    Only(Vec<usize>),
    /// The other hardware threads of the physical cores that these belong to.
    Siblings(Vec<usize>),
}

/// Why a thread cannot be placed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// The process has fewer cores.
    #[error("there is no core {core}: this process has {count}, numbered 0 to {}", count - 1)]
    NoSuchCore {
        /// The requested core.
        core: usize,
        /// The number of cores, at least 1.
        count: usize,
    },
    /// The cores have one hardware thread each, as far as this process may use them.
    #[error("cores {0} have no sibling threads that this process may use")]
    NoSiblings(String),
    /// The kernel refused.
    #[error("thread {thread} cannot be placed on cores {cores}: {source}")]
    Refused {
        /// Its number.
        thread: i32,
        /// The cores, as the kernel numbers them.
        cores: String,
        /// Why.
        source: io::Error,
    },
}

/// The prefix of siblings in a text for [`CoreSet::parse`].
const SIBLINGS: &str = "siblings:";

impl CoreSet {
    /// Reads `all`, a list such as `0-3,8`, or `siblings:` and a list. `None` if it is none of these.
    pub fn parse(text: &str) -> Option<CoreSet> {
        let list = |text: &str| {
            let cores: BTreeSet<usize> = parse_core_list(text)?.into_iter().collect();
            Some(cores.into_iter().collect())
        };
        match (text, text.strip_prefix(SIBLINGS)) {
            ("all", _) => Some(CoreSet::All),
            (_, Some(rest)) => list(rest).map(CoreSet::Siblings),
            _ => list(text).map(CoreSet::Only),
        }
    }

    /// Whether this process has these cores now.
    pub fn check(&self) -> Result<(), PlacementError> {
        self.among(&process_cores(), &Host::real()).map(drop)
    }

    /// Lets a thread of this process run on these cores only. The process's first thread stays where it is.
    pub fn place(&self, thread: i32) -> Result<(), PlacementError> {
        if thread == getpid().as_raw_nonzero().get() {
            return Ok(());
        }
        let host = Host::real();
        let cores = self.among(&process_cores(), &host)?;
        match host.set_affinity(thread, &cores) {
            // The thread has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            Err(error) => Err(PlacementError::Refused { thread, cores: list(&cores), source: error }),
            Ok(()) => Ok(()),
        }
    }

    /// Lets the calling thread run on these cores only.
    pub fn place_caller(&self) -> Result<(), PlacementError> {
        self.place(gettid().as_raw_nonzero().get())
    }

    /// The cores as the kernel numbers them, of a process that may use `usable`.
    fn among(&self, usable: &[usize], host: &Host) -> Result<Vec<usize>, PlacementError> {
        let at = |&core: &usize| {
            usable.get(core).copied().ok_or(PlacementError::NoSuchCore { core, count: usable.len().max(1) })
        };
        match self {
            CoreSet::All => Ok(usable.to_vec()),
            CoreSet::Only(cores) => cores.iter().map(at).collect(),
            CoreSet::Siblings(cores) => {
                let own: Vec<usize> = cores.iter().map(at).collect::<Result<_, _>>()?;
                let file = |core| format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
                let siblings: BTreeSet<usize> =
                    own.iter().flat_map(|core| host.cores(file(core)).unwrap_or_default()).collect();
                let others = siblings.into_iter().filter(|core| !own.contains(core) && usable.contains(core));
                let others: Vec<usize> = others.collect();
                match others.is_empty() {
                    true => Err(PlacementError::NoSiblings(list(cores))),
                    false => Ok(others),
                }
            }
        }
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CoreSet::All => f.write_str("all"),
            CoreSet::Only(cores) => f.write_str(&list(cores)),
            CoreSet::Siblings(cores) => write!(f, "{SIBLINGS}{}", list(cores)),
        }
    }
}

fn list(cores: &[usize]) -> String {
    crate::control::core_list(cores.iter().copied())
}

/// The logical cores that this process may use, in order: those of its first thread.
pub fn process_cores() -> Vec<usize> {
    let Ok(mask) = sched_getaffinity(Some(getpid())) else { return crate::facts::usable_cores() };
    (0..CpuSet::MAX_CPU).filter(|core| mask.is_set(*core)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn sets_are_read_and_written() {
        for text in ["all", "0", "0-1", "0-2,5", "siblings:0", "siblings:0-1"] {
            assert_eq!(CoreSet::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(CoreSet::parse("1,0,1"), Some(CoreSet::Only(vec![0, 1])));
        for text in ["", "some", "1-0", "0-", "siblings:", "siblings:x", "-1", "70000"] {
            assert_eq!(CoreSet::parse(text), None, "{text}");
        }
    }

    #[test]
    fn cores_are_counted_among_those_of_the_process() {
        // A process that may use the cores 2, 3 and 6 of a machine with two threads a core, 4 apart.
        let host = FakeHost::new(&[]);
        for core in 0..8 {
            let file = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
            host.write(&file, &format!("{},{}\n", core % 4, core % 4 + 4));
        }
        let check = |text: &str, expect: Result<&[usize], &str>| {
            let found = CoreSet::parse(text).expect(text).among(&[2, 3, 6], &host.host());
            let found = found.map_err(|error| error.to_string());
            assert_eq!(found, expect.map(<[usize]>::to_vec).map_err(str::to_owned), "{text}");
        };
        check("all", Ok(&[2, 3, 6]));
        check("0", Ok(&[2]));
        check("1-2", Ok(&[3, 6]));
        check("3", Err("there is no core 3: this process has 3, numbered 0 to 2"));
        check("siblings:0", Ok(&[6]));
        check("siblings:1", Err("cores 1 have no sibling threads that this process may use"));
        check("siblings:0,2", Err("cores 0,2 have no sibling threads that this process may use"));
        check("siblings:7", Err("there is no core 7: this process has 3, numbered 0 to 2"));
    }

    #[test]
    fn a_thread_runs_where_it_was_placed_and_goes_back() {
        let last = process_cores().len() - 1;
        std::thread::spawn(move || {
            let own = || sched_getaffinity(None).expect("a mask").count() as usize;
            CoreSet::Only(vec![last]).place_caller().expect("its own core");
            assert_eq!(own(), 1);
            CoreSet::All.place_caller().expect("all of them");
            assert_eq!(own(), last + 1);
            let error = CoreSet::Only(vec![last + 1]).place_caller().expect_err("there is none");
            assert!(error.to_string().ends_with(&format!("numbered 0 to {last}")), "{error}");
        })
        .join()
        .expect("it has ended");
    }
}
