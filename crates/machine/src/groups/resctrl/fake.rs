//! A resctrl in memory that follows the kernel's rules and uses its words (fs/resctrl/rdtgroup.c and ctrlmondata.c), so that what
//! is done by way of [`ResctrlFiles`] meets the refusals of a real one on a machine that has none.
//!
//! [`Shape`] is the machine, and a [`Mirror`] shows the fake as a folder. It is only for tests of this crate and of its
//! users; the program does not use it. It leaves out features that Plimsoll does not use: monitoring groups, exclusive
//! groups, pseudo-locking, groups of processors, slow memory and the debug files.

mod mirror;
mod schemata;
mod shape;
#[cfg(test)]
pub(crate) mod world;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard};

use rustix::io::Errno;

use super::files::ResctrlFiles;
pub use mirror::Mirror;
use schemata::{Schema, Values};
pub use shape::{CacheShape, MonitoringShape, Shape};

/// A mounted resctrl that exists in memory only.
#[derive(Debug)]
pub struct FakeKernel {
    shape: Shape,
    state: Mutex<State>,
}

/// The state of the fake. Equal states look the same to every reader, except for `last_cmd_status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The groups by path; the empty path is the default group.
    groups: BTreeMap<String, Values>,
    /// Every thread of the machine, and the group it is in.
    tasks: BTreeMap<i32, String>,
    /// The content of `info/last_cmd_status`; empty means `ok`.
    status: String,
    /// The counters, by group, domain and event.
    counters: BTreeMap<(String, u32, String), String>,
}

/// A refusal: the error of the call, and what `last_cmd_status` gets.
pub(super) type Outcome<T> = Result<T, Refusal>;

pub(super) struct Refusal(Errno, String);

/// Refuses with an error and a line for `last_cmd_status`, which is empty where the kernel says nothing.
pub(super) fn refuse<T>(errno: Errno, told: impl Into<String>) -> Outcome<T> {
    Err(Refusal(errno, told.into()))
}

impl FakeKernel {
    /// A fresh mount: one group, which has everything, and these threads in it.
    pub fn new(shape: Shape, tasks: impl IntoIterator<Item = i32>) -> FakeKernel {
        let state = State {
            groups: BTreeMap::from([(String::new(), shape.defaults())]),
            tasks: tasks.into_iter().map(|task| (task, String::new())).collect(),
            status: String::new(),
            counters: BTreeMap::new(),
        };
        FakeKernel { shape, state: Mutex::new(state) }
    }

    /// A thread begins in the default group.
    pub fn begin(&self, task: i32) {
        self.state().tasks.insert(task, String::new());
    }

    /// A thread is made by another, and belongs to its group.
    pub fn fork(&self, maker: i32, task: i32) {
        let mut state = self.state();
        let group = state.tasks[&maker].clone();
        state.tasks.insert(task, group);
    }

    /// A thread ends.
    pub fn exit(&self, task: i32) {
        self.state().tasks.remove(&task);
    }

    /// The value of a counter: a number or one of the kernel's words; `Unavailable|7` is first a word and then a
    /// number.
    pub fn set_counter(&self, group: &str, domain: u32, event: &str, reads: impl ToString) {
        self.state().counters.insert((group.to_owned(), domain, event.to_owned()), reads.to_string());
    }

    /// Everything that a reader can see, except for the status of the last command and the counters.
    pub fn snapshot(&self) -> State {
        State { status: String::new(), counters: BTreeMap::new(), ..self.state().clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the lock")
    }

    /// A command: clears the status, and says there what went wrong.
    fn command<T>(&self, act: impl FnOnce(&Shape, &mut State) -> Outcome<T>) -> io::Result<T> {
        let mut state = self.state();
        state.status.clear();
        act(&self.shape, &mut state).map_err(|Refusal(errno, told)| {
            state.status = told;
            io::Error::from(errno)
        })
    }
}

/// `p0` and `tasks` of `p0/tasks`; a file of the default group has an empty folder.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn not_found<T>() -> io::Result<T> {
    Err(io::Error::from(Errno::NOENT))
}

impl ResctrlFiles for FakeKernel {
    fn read(&self, path: &str) -> io::Result<String> {
        let mut state = self.state();
        if let Some(file) = path.strip_prefix("info/") {
            return match file {
                "last_cmd_status" if state.status.is_empty() => Ok("ok\n".to_owned()),
                "last_cmd_status" => Ok(format!("{}\n", state.status)),
                file => self.shape.info(file).map_or_else(not_found, Ok),
            };
        }
        let (folder, file) = split(path);
        if let Some((group, domain)) = folder.rsplit_once("mon_data/mon_L3_") {
            let domain = domain.parse().map_err(|_| io::Error::from(Errno::NOENT))?;
            return state.counter(&self.shape, group.trim_end_matches('/'), domain, file).map_or_else(not_found, Ok);
        }
        let Some(group) = state.groups.get(folder) else { return not_found() };
        match file {
            "tasks" => {
                let members = state.tasks.iter().filter(|(_, group)| *group == folder);
                Ok(members.map(|(task, _)| format!("{task}\n")).collect())
            }
            "schemata" => Ok(self.shape.show(|schema, id| schema.text(group[&(schema.name.clone(), id)]))),
            "size" => Ok(self.shape.show(|schema, id| schema.size(group[&(schema.name.clone(), id)]).to_string())),
            "mba_MBps_event" if self.shape.megabytes => {
                Ok(self.shape.monitoring.as_ref().map_or("\n", |_| "mbm_local_bytes\n").to_owned())
            }
            _ => not_found(),
        }
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let (folder, file) = split(path);
        if !self.state().groups.contains_key(folder) {
            return not_found();
        }
        match file {
            "tasks" => self.command(|_, state| state.move_tasks(folder, text)),
            "schemata" => {
                // Without a newline the kernel refuses before it looks at anything, the status included.
                let Some(text) = text.strip_suffix('\n') else { return Err(io::Error::from(Errno::INVAL)) };
                self.command(|shape, state| {
                    let group = state.groups.get_mut(folder).expect("the group was looked up before");
                    schemata::write(shape, group, text)
                })
            }
            _ => Err(io::Error::from(Errno::ACCESS)),
        }
    }

    fn make_group(&self, path: &str) -> io::Result<()> {
        self.command(|shape, state| {
            if ["info", "mon_data", "mon_groups"].contains(&path) || state.groups.contains_key(path) {
                return refuse(Errno::EXIST, "kernfs create error");
            }
            let closids = shape.schemas().iter().map(|schema| schema.closids).min();
            let Some(closids) = closids.filter(|_| !path.contains('/')) else { return refuse(Errno::PERM, "") };
            let taken = state.groups.len() as u32;
            if taken >= closids {
                return refuse(Errno::NOSPC, "Out of CLOSIDs");
            }
            if shape.monitoring.as_ref().is_some_and(|monitoring| taken >= monitoring.rmids) {
                return refuse(Errno::NOSPC, "Out of RMIDs");
            }
            state.groups.insert(path.to_owned(), shape.defaults());
            Ok(())
        })
    }

    fn remove_group(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.groups.contains_key(path) {
            return not_found();
        }
        if path.is_empty() {
            return Err(io::Error::from(Errno::PERM));
        }
        state.groups.remove(path);
        // Threads go back to the default group.
        state.tasks.values_mut().filter(|group| *group == path).for_each(String::clear);
        state.counters.retain(|(group, ..), _| group != path);
        Ok(())
    }

    fn folders(&self, path: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        let monitors = self.shape.monitoring.is_some();
        if path == "info" {
            return Ok(self.shape.info_folders());
        }
        if let Some(group) = path.strip_suffix("mon_data").map(|group| group.trim_end_matches('/')) {
            let Some(_) = state.groups.get(group).filter(|_| monitors) else { return not_found() };
            return Ok(self.shape.domains.iter().map(|id| format!("mon_L3_{id:02}")).collect());
        }
        let Some(_) = state.groups.get(path) else { return not_found() };
        let mut names = if monitors { vec!["mon_data".to_owned(), "mon_groups".to_owned()] } else { Vec::new() };
        if path.is_empty() {
            names.push("info".to_owned());
            names.extend(state.groups.keys().filter(|group| !group.is_empty()).cloned());
        }
        Ok(names)
    }
}

impl State {
    fn counter(&mut self, shape: &Shape, group: &str, domain: u32, event: &str) -> Option<String> {
        let exists = self.groups.contains_key(group) && shape.domains.contains(&domain);
        if !exists || !shape.monitoring.as_ref()?.events.contains(&event) {
            return None;
        }
        let Some(reads) = self.counters.get_mut(&(group.to_owned(), domain, event.to_owned())) else {
            return Some("0\n".to_owned());
        };
        let (now, next) = reads.split_once('|').unwrap_or((reads.as_str(), reads.as_str()));
        let (now, next) = (format!("{now}\n"), next.to_owned());
        *reads = next;
        Some(now)
    }

    fn move_tasks(&mut self, group: &str, text: &str) -> Outcome<()> {
        let line = text.split('\n').next().unwrap_or_default();
        for word in line.split(',').filter(|_| !line.is_empty()) {
            let Ok(task) = word.trim().parse::<i32>() else {
                return refuse(Errno::INVAL, format!("Task list parsing error pid {}", word.trim()));
            };
            if task < 0 {
                return refuse(Errno::INVAL, format!("Invalid pid {task}"));
            }
            let failed = format!("Error while processing task {task}");
            let Some(at) = self.tasks.get_mut(&task) else {
                return refuse(Errno::SRCH, format!("No task {task}\n{failed}"));
            };
            *at = group.to_owned();
        }
        Ok(())
    }
}

/// The resources of the shape, looked up by schema.
impl Shape {
    /// The shares of a new group and of the default one: everything.
    fn defaults(&self) -> Values {
        self.schemas().iter().flat_map(|schema| schema.defaults(self)).collect()
    }

    fn show(&self, value: impl Fn(&Schema, u32) -> String) -> String {
        let line = |schema: &Schema| {
            let values: Vec<String> = self.domains.iter().map(|id| format!("{id}={}", value(schema, *id))).collect();
            format!("{:>6}:{}\n", schema.name, values.join(";"))
        };
        self.schemas().iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests;
