//! All changes that Plimsoll makes to a machine.
//!
//! A [`Host`](crate::host::Host) passes its changes through here. A test passes a fake that behaves like a kernel
//! (a new control group has its files), or that fails at a chosen moment.

use std::fmt::Debug;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::CpuSet;

/// The changes that can be made to a machine. Paths are those of this machine, regardless of the host's root.
pub trait Changes: Debug + Send + Sync {
    /// Writes to an existing file in a single write.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Makes a folder in an existing one.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Lets a thread run on these cores only.
    fn set_affinity(&self, _thread: i32, _cores: &[usize]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Gives a thread a nice value.
    fn set_nice(&self, _thread: i32, _nice: i32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Gives a thread a scheduling policy without real-time guarantees, as the kernel numbers them (sched(7)).
    fn set_scheduling_policy(&self, _thread: i32, _policy: i32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// For how long a thread keeps a core while others wait for it; `None` where the kernel does not report it (Linux
    /// before 6.12).
    fn slice(&self, _thread: i32) -> Option<Duration> {
        None
    }
    /// Sets that time, 0.1 to 100 ms. It has no effect on a thread with `SCHED_IDLE`.
    fn set_slice(&self, _thread: i32, _slice: Duration) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Gives a model-specific register a value, through the file of its core.
    fn set_register(&self, _path: &Path, _register: u32, _value: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The kernel of this machine. If the host is only a folder, only files can be changed.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Whether thread numbers are those of this machine.
    pub is_real: bool,
}

impl Kernel {
    /// A thread number of a fake machine belongs to an unrelated thread here.
    fn thread(&self, thread: i32) -> io::Result<Option<Pid>> {
        // `from_raw` asserts that the number is not negative.
        match Some(thread).filter(|thread| *thread > 0).and_then(Pid::from_raw) {
            Some(pid) if self.is_real => Ok(Some(pid)),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "no thread of this machine")),
        }
    }
}

impl Changes for Kernel {
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        // Never create the file: if the kernel does not offer it, the controller is missing.
        OpenOptions::new().write(true).truncate(!self.is_real).open(path)?.write_all(text.as_bytes())
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn set_affinity(&self, thread: i32, cores: &[usize]) -> io::Result<()> {
        let mut set = CpuSet::new();
        for core in cores {
            if *core >= CpuSet::MAX_CPU {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("core {core} is beyond every machine"),
                ));
            }
            set.set(*core);
        }
        Ok(rustix::thread::sched_setaffinity(self.thread(thread)?, &set)?)
    }

    fn set_nice(&self, thread: i32, nice: i32) -> io::Result<()> {
        // Linux keeps the nice value of each thread, and accepts a thread's number in place of a process's
        // (setpriority(2), BUGS).
        Ok(rustix::process::setpriority_process(self.thread(thread)?, nice)?)
    }

    fn set_scheduling_policy(&self, thread: i32, policy: i32) -> io::Result<()> {
        let Some(thread) = self.thread(thread)? else { return Err(io::ErrorKind::Unsupported.into()) };
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the kernel reads one `sched_param`, which lives until the call returns, and writes nothing of ours.
        let done = unsafe { libc::sched_setscheduler(thread.as_raw_pid(), policy, &raw const parameters) };
        if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn slice(&self, thread: i32) -> Option<Duration> {
        let attributes = attributes(self.thread(thread).ok()??).ok()?;
        Some(Duration::from_nanos(attributes.sched_runtime)).filter(|slice| !slice.is_zero())
    }

    fn set_slice(&self, thread: i32, slice: Duration) -> io::Result<()> {
        let Some(thread) = self.thread(thread)? else { return Err(io::ErrorKind::Unsupported.into()) };
        let mut attributes = attributes(thread)?;
        attributes.sched_runtime = slice.as_nanos() as u64;
        // SAFETY: the kernel reads one `sched_attr` of the size stated in it, which lives until the call returns.
        let done = unsafe { libc::syscall(libc::SYS_sched_setattr, thread.as_raw_pid(), &raw const attributes, 0) };
        if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn set_register(&self, path: &Path, register: u32, value: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all_at(&value.to_le_bytes(), register.into())
    }
}

/// How the kernel schedules a thread. The runtime of a thread without real-time guarantees is its slice (Linux 6.12,
/// sched_setattr(2)).
fn attributes(thread: Pid) -> io::Result<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>();
    // SAFETY: all fields of a `sched_attr` are numbers, and each may be zero.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size` bytes to one `sched_attr` of that size.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, thread.as_raw_pid(), &raw mut attributes, size, 0) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(attributes) }
}
