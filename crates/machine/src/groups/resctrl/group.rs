//! One group: its tasks, its shares, and the bytes that it holds and transfers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use rustix::io::Errno;

use super::schemata::Schemata;
use super::{Resctrl, mebibytes};
use crate::control::{ControlError, Undo};

/// A group of a mounted resctrl. Stays when dropped.
#[derive(Debug, Clone)]
pub struct Group {
    resctrl: Resctrl,
    /// Below the mount; empty is the default group.
    path: String,
}

/// A figure for each domain (socket), by its id.
pub type ByDomain = BTreeMap<u32, u64>;

/// Which bytes between caches and memory are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// All.
    Total,
    /// Those from and to the memory of the own domain.
    Local,
}

impl Traffic {
    fn event(self) -> &'static str {
        match self {
            Traffic::Total => "mbm_total_bytes",
            Traffic::Local => "mbm_local_bytes",
        }
    }
}

/// Why a counter has no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotRead {
    /// The kernel answers with a word: `Unavailable` where the processor follows other groups at the moment, `Unassigned`
    /// where no counter was given to the group, `Error` where it failed.
    #[error("{file} reads {word}")]
    Word {
        /// The file, below the mount.
        file: String,
        /// The word.
        word: String,
    },
    /// There is no such counter.
    #[error("there is no {event} in {folder}")]
    None {
        /// The counter.
        event: &'static str,
        /// Where it was looked for, below the mount.
        folder: String,
    },
    /// It could not be read.
    #[error("cannot read {file}: {error}")]
    Io {
        /// The file, below the mount.
        file: String,
        /// The system's error.
        error: io::Error,
    },
}

impl Group {
    pub(super) fn new(resctrl: Resctrl, path: String) -> Group {
        Group { resctrl, path }
    }

    pub(super) fn resctrl(&self) -> &Resctrl {
        &self.resctrl
    }

    /// Where it is below the mount; empty for the default group.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where it is on the host.
    pub fn folder(&self) -> String {
        self.resctrl.absolute(&self.path)
    }

    /// The threads in it.
    pub fn tasks(&self) -> Result<BTreeSet<i32>, ControlError> {
        let file = self.file("tasks");
        let text = self.resctrl.files.read(&file).map_err(|error| self.resctrl.refused("read", &file, error))?;
        Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
    }

    /// Moves a thread into it, out of the group it was in. A thread that has ended is an error.
    pub(crate) fn add_task(&self, thread: i32) -> Result<(), ControlError> {
        self.write("tasks", &format!("{thread}\n"))
    }

    /// As [`add_task`](Group::add_task); a thread that has ended is none of its business, and the answer is `false`.
    pub(crate) fn add_task_if_alive(&self, thread: i32) -> Result<bool, ControlError> {
        match self.add_task(thread) {
            Err(ControlError::Refused { error, .. }) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Gives it the shares that these lines of `schemata` say. They are written at once, so that the kernel accepts all or none.
    pub(crate) fn set(&self, shares: &str) -> Result<(), ControlError> {
        self.write("schemata", shares)
    }

    /// How it gets these shares while it stays, to be noted before it gets others.
    pub(crate) fn undo(&self, shares: String) -> Undo {
        Undo::WriteFile { path: self.resctrl.absolute(&self.file("schemata")), text: shares }
    }

    /// Why these shares are not in force; `None` if they are.
    pub(crate) fn not_in_force(&self, shares: &str) -> Option<String> {
        match self.schemata() {
            Ok(found) => found.difference(&Schemata::parse(shares), &self.folder()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// The first domain in which its tasks, and others that must do with its ways, hold more of the last-level cache than these
    /// ways have, with the reason in words. The counters are estimates, for which 5 % is allowed, and may include bytes of
    /// former users of a counter.
    pub(crate) fn overfull(&self, held: &ByDomain) -> Option<(u32, String)> {
        const TOLERANCE: f64 = 1.05;
        let cache = self.resctrl.capabilities.last_level()?;
        let monitoring = self.resctrl.capabilities.monitoring.as_ref();
        let leftover = monitoring.map_or(0, |monitoring| monitoring.leftover_bytes) as f64;
        let sizes = self.sizes().map(|sizes| sizes.numbers(&cache.resources[0]));
        held.iter().find_map(|(domain, held)| {
            let held = *held as f64;
            let why = match sizes.as_ref().map(|sizes| sizes.get(domain)) {
                Err(error) => error.to_string(),
                Ok(None) => format!("the kernel does not tell how many bytes the mask has in domain {domain}"),
                Ok(Some(allowed)) if held <= *allowed as f64 * TOLERANCE + leftover => return None,
                Ok(Some(allowed)) => {
                    let schemata = self.schemata().unwrap_or_default();
                    let mask = cache.masks(&schemata).next().map_or(String::new(), |mask| format!(" {mask}"));
                    let (folder, held, allowed) = (self.folder(), mebibytes(held), mebibytes(*allowed as f64));
                    format!("threads of {folder} hold {held} in domain {domain}, where their ways{mask} have {allowed}")
                }
            };
            Some((*domain, why))
        })
    }

    /// The shares in force.
    pub fn schemata(&self) -> Result<Schemata, ControlError> {
        self.parsed("schemata")
    }

    /// The same as [`schemata`](Group::schemata), with bytes in place of masks.
    pub fn sizes(&self) -> Result<Schemata, ControlError> {
        self.parsed("size")
    }

    /// Bytes of the last-level cache that were loaded by its tasks and are still held, by domain. Lines that a task loaded
    /// before it came belong to the group it came from, and after a mask shrank lines outside it stay until others need their
    /// place.
    pub(crate) fn occupancy(&self) -> Result<ByDomain, NotRead> {
        self.counter("llc_occupancy")
    }

    /// Bytes that its tasks moved from and to memory since it was made, by domain. Two readings make a rate
    /// ([`rate`](Group::rate)).
    pub fn memory_bytes(&self, traffic: Traffic) -> Result<ByDomain, NotRead> {
        self.counter(traffic.event())
    }

    /// Bytes per second between two readings of [`memory_bytes`](Group::memory_bytes), by domain. `None` if there is no time
    /// between them, or a counter was reset.
    pub fn rate(earlier: &ByDomain, later: &ByDomain, window: Duration) -> Option<BTreeMap<u32, f64>> {
        let seconds = window.as_secs_f64();
        let rate = |(id, later): (&u32, &u64)| {
            let bytes = later.checked_sub(*earlier.get(id)?)?;
            (seconds > 0.0).then(|| (*id, bytes as f64 / seconds))
        };
        later.iter().map(rate).collect()
    }

    /// Which counter the kernel's loop watches where bandwidth is limited in MiB/s; elsewhere the widest that there is.
    pub(crate) fn traffic_limited(&self) -> Option<Traffic> {
        let monitoring = self.resctrl.capabilities.monitoring.as_ref()?;
        let told = self.resctrl.files.read(&self.file("mba_MBps_event")).ok();
        match told.as_deref().map(str::trim) {
            Some("mbm_local_bytes") => Some(Traffic::Local),
            Some("mbm_total_bytes") => Some(Traffic::Total),
            _ if monitoring.total_bytes => Some(Traffic::Total),
            _ => monitoring.local_bytes.then_some(Traffic::Local),
        }
    }

    /// Removes it. Its tasks go to the default group.
    pub fn remove(self) -> Result<(), ControlError> {
        let removed = self.resctrl.files.remove_group(&self.path);
        removed.map_err(|error| self.resctrl.refused("remove", &self.path, error))
    }

    fn counter(&self, event: &'static str) -> Result<ByDomain, NotRead> {
        let folder = self.file("mon_data");
        let names = self.resctrl.files.folders(&folder);
        let names = names.map_err(|error| NotRead::Io { file: folder.clone(), error })?;
        // `mon_L3_00`; within it `mon_sub_L3_..` may give parts of the same sum.
        let domains = names.iter().filter_map(|name| Some((name, name.strip_prefix("mon_L3_")?.parse::<u32>().ok()?)));
        let read = |(name, id): (&String, u32)| {
            let file = format!("{folder}/{name}/{event}");
            let read = || self.resctrl.files.read(&file);
            // After a counter was given to other groups its first reading is void and the next one may be right.
            let first = read();
            let text = if first.as_ref().is_ok_and(|text| text.trim() == "Unavailable") { read() } else { first };
            match text {
                Ok(text) => match text.trim().parse() {
                    Ok(value) => Ok((id, value)),
                    Err(_) => Err(NotRead::Word { file, word: text.trim().to_owned() }),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(NotRead::None { event, folder: format!("{folder}/{name}") })
                }
                Err(error) => Err(NotRead::Io { file, error }),
            }
        };
        let values: ByDomain = domains.map(read).collect::<Result<_, _>>()?;
        if values.is_empty() { Err(NotRead::None { event, folder }) } else { Ok(values) }
    }

    fn parsed(&self, name: &str) -> Result<Schemata, ControlError> {
        let file = self.file(name);
        let text = self.resctrl.files.read(&file).map_err(|error| self.resctrl.refused("read", &file, error))?;
        Ok(Schemata::parse(&text))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), ControlError> {
        let file = self.file(name);
        let doing = || format!("write \"{}\" to", text.trim_end().replace('\n', "; "));
        self.resctrl.files.write(&file, text).map_err(|error| self.resctrl.refused(doing(), &file, error))
    }

    fn file(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }
}
