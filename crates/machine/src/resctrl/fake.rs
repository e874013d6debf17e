//! A resctrl in memory that follows the kernel's rules and uses its words (fs/resctrl/rdtgroup.c and ctrlmondata.c), so that what
//! is done by way of [`ResctrlFiles`] meets the refusals of a real one on a machine that has none.
//!
//! [`Shape`] is the machine, and a [`Mirror`] shows the fake as a folder. It is for tests, of this crate and of those that use it; the
//! program itself uses nothing of it. Pseudo-locking, slow memory and the debug files are not here; nothing uses them.

mod mirror;
mod schemata;
mod shape;
#[cfg(test)]
pub(crate) mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard};

use rustix::io::Errno;

use super::files::ResctrlFiles;
pub use mirror::Mirror;
use schemata::Schema;
pub use shape::{CacheShape, MonitoringShape, Shape};

/// A mounted resctrl that exists in memory only.
#[derive(Debug)]
pub struct FakeKernel {
    shape: Shape,
    state: Mutex<State>,
}

/// What has become of it. Two equal states are the same to every reader, but for `last_cmd_status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// By path; the empty one is the default group.
    groups: BTreeMap<String, FakeGroup>,
    /// Every thread of the machine, and the group it is in.
    tasks: BTreeMap<i32, String>,
    /// What `info/last_cmd_status` says; empty is `ok`.
    status: String,
    /// What counters read, by group, domain and event.
    counters: BTreeMap<(String, u32, String), String>,
    /// Ids of monitoring that were freed and may not be used yet.
    limbo: u32,
}

/// What a group has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FakeGroup {
    /// By resource and domain. Empty for a monitoring group.
    values: BTreeMap<(String, u32), u32>,
    exclusive: bool,
    cpus: BTreeSet<u32>,
    mba_event: String,
}

/// A refusal: the error of the call, and what `last_cmd_status` gets.
pub(super) type Outcome<T> = Result<T, Refusal>;

pub(super) struct Refusal(Errno, String);

/// Refuses with an error and a line for `last_cmd_status`, which is empty where the kernel says nothing.
pub(super) fn refuse<T>(errno: Errno, told: impl Into<String>) -> Outcome<T> {
    Err(Refusal(errno, told.into()))
}

const MON_GROUPS: &str = "mon_groups";

impl FakeKernel {
    /// A fresh mount: one group, which has everything, and these threads in it.
    pub fn new(shape: Shape, tasks: impl IntoIterator<Item = i32>) -> FakeKernel {
        let values = shape.schemas().iter().flat_map(|schema| schema.defaults(&shape)).collect();
        let group = FakeGroup {
            values,
            exclusive: false,
            cpus: (0..shape.cpus).collect(),
            mba_event: shape.monitoring.as_ref().map_or(String::new(), |_| "mbm_local_bytes".to_owned()),
        };
        let state = State {
            groups: BTreeMap::from([(String::new(), group)]),
            tasks: tasks.into_iter().map(|task| (task, String::new())).collect(),
            status: String::new(),
            counters: BTreeMap::new(),
            limbo: 0,
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

    /// What a counter reads: a number or one of the kernel's words; `Unavailable|7` is a word at first and then a number.
    pub fn set_counter(&self, group: &str, domain: u32, event: &str, reads: impl ToString) {
        self.state().counters.insert((group.to_owned(), domain, event.to_owned()), reads.to_string());
    }

    /// Everything that a reader could see, but for the status of the last command and what was counted.
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

/// The group that a monitoring group counts in; `None` if it is none.
fn parent_of(path: &str) -> Option<&str> {
    let (folder, _) = split(path);
    if folder == MON_GROUPS { Some("") } else { folder.strip_suffix("/mon_groups") }
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
                file => self.shape.info(file, &state.groups).map_or_else(not_found, Ok),
            };
        }
        let (folder, file) = split(path);
        if let Some((group, domain)) = folder.rsplit_once("mon_data/mon_L3_") {
            let domain = domain.parse().map_err(|_| io::Error::from(Errno::NOENT))?;
            return state.counter(&self.shape, group.trim_end_matches('/'), domain, file).map_or_else(not_found, Ok);
        }
        let Some(group) = state.groups.get(folder) else { return not_found() };
        let is_control = parent_of(folder).is_none();
        match file {
            "tasks" => Ok(state.members(folder).map(|task| format!("{task}\n")).collect()),
            "cpus_list" => Ok(format!("{}\n", shape::list(&group.cpus))),
            "cpus" => Ok(format!("{:x}\n", group.cpus.iter().fold(0u64, |mask, cpu| mask | 1 << cpu))),
            "mode" if is_control => Ok(format!("{}\n", if group.exclusive { "exclusive" } else { "shareable" })),
            "schemata" if is_control => {
                Ok(self.shape.show(|schema, id| schema.text(group.values[&(schema.name.clone(), id)])))
            }
            "size" if is_control => {
                Ok(self.shape.show(|schema, id| schema.size(group.values[&(schema.name.clone(), id)]).to_string()))
            }
            "mba_MBps_event" if is_control && self.shape.megabytes => Ok(format!("{}\n", group.mba_event)),
            _ => not_found(),
        }
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let (folder, file) = split(path);
        if !self.state().groups.contains_key(folder) {
            return not_found();
        }
        let is_control = parent_of(folder).is_none();
        match file {
            "tasks" => self.command(|_, state| state.move_tasks(folder, text)),
            "cpus_list" if is_control => self.command(|shape, state| state.move_cpus(shape, folder, text)),
            "schemata" | "mode" | "mba_MBps_event" if is_control => {
                // Without a newline the kernel refuses before it looks at anything, the status included.
                let Some(text) = text.strip_suffix('\n') else { return Err(io::Error::from(Errno::INVAL)) };
                self.command(|shape, state| match file {
                    "schemata" => schemata::write(shape, &mut state.groups, folder, text),
                    "mode" => state.set_mode(shape, folder, text),
                    _ => state.set_event(shape, folder, text),
                })
            }
            _ => Err(io::Error::from(Errno::ACCESS)),
        }
    }

    fn make_group(&self, path: &str) -> io::Result<()> {
        let (folder, name) = split(path);
        let parent = if folder == MON_GROUPS { "" } else { folder.strip_suffix("/mon_groups").unwrap_or(folder) };
        if !self.state().groups.contains_key(parent) {
            return not_found();
        }
        self.command(|shape, state| {
            let taken = ["info", "mon_data", MON_GROUPS].contains(&path) || state.groups.contains_key(path);
            if taken {
                return refuse(Errno::EXIST, "kernfs create error");
            }
            match (folder, shape.schemas().is_empty()) {
                ("", false) => state.make_control_group(shape, path),
                _ if parent != folder && name != MON_GROUPS && shape.monitoring.is_some() => {
                    state.take_rmid(shape)?;
                    state.groups.insert(path.to_owned(), FakeGroup::counting());
                    Ok(())
                }
                _ => refuse(Errno::PERM, ""),
            }
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
        state.remove(&self.shape, path);
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
        let below = |folder: &str| {
            let names = state.groups.keys().filter(move |group| !group.is_empty() && split(group).0 == folder);
            names.map(|group| split(group).1.to_owned()).collect::<Vec<_>>()
        };
        if path.ends_with(MON_GROUPS) && monitors {
            return Ok(below(path));
        }
        let Some(_) = state.groups.get(path) else { return not_found() };
        let mut names: Vec<String> = if monitors { vec!["mon_data".to_owned()] } else { Vec::new() };
        if parent_of(path).is_none() && monitors {
            names.push(MON_GROUPS.to_owned());
        }
        if path.is_empty() {
            names.push("info".to_owned());
            names.extend(below(""));
        }
        Ok(names)
    }
}

impl FakeGroup {
    /// A group that has no shares of its own.
    fn counting() -> FakeGroup {
        FakeGroup { values: BTreeMap::new(), exclusive: false, cpus: BTreeSet::new(), mba_event: String::new() }
    }
}

impl State {
    /// The threads of a group; a control group has those of its monitoring groups too.
    fn members<'a>(&'a self, group: &'a str) -> impl Iterator<Item = i32> + 'a {
        let belongs = move |at: &str| at == group || parent_of(at) == Some(group);
        self.tasks.iter().filter(move |(_, at)| belongs(at)).map(|(task, _)| *task)
    }

    /// The counter of a group; that of a control group is the sum over it and its monitoring groups.
    fn counter(&mut self, shape: &Shape, group: &str, domain: u32, event: &str) -> Option<String> {
        let exists = self.groups.contains_key(group) && shape.domains.contains(&domain);
        if !exists || !shape.monitoring.as_ref()?.events.contains(&event) {
            return None;
        }
        let mut sum = 0u64;
        for part in self.groups.keys().filter(|path| *path == group || parent_of(path) == Some(group)) {
            let Some(reads) = self.counters.get_mut(&(part.clone(), domain, event.to_owned())) else { continue };
            let (now, next) = reads
                .split_once('|')
                .map_or((reads.clone(), reads.clone()), |(now, next)| (now.to_owned(), next.to_owned()));
            *reads = next;
            match now.parse::<u64>() {
                Ok(value) => sum += value,
                Err(_) => return Some(format!("{now}\n")),
            }
        }
        Some(format!("{sum}\n"))
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
            let control = parent_of(at).unwrap_or(at);
            if parent_of(group).is_some_and(|parent| parent != control) {
                return refuse(Errno::INVAL, format!("Can't move task to different control group\n{failed}"));
            }
            *at = group.to_owned();
        }
        Ok(())
    }

    fn move_cpus(&mut self, shape: &Shape, group: &str, text: &str) -> Outcome<()> {
        let Some(wanted) = shape::parse_list(text.trim()) else { return refuse(Errno::INVAL, "Bad CPU list/mask") };
        if wanted.iter().any(|cpu| *cpu >= shape.cpus) {
            return refuse(Errno::INVAL, "Can only assign online CPUs");
        }
        let dropped: Vec<u32> = self.groups[group].cpus.difference(&wanted).copied().collect();
        if group.is_empty() && !dropped.is_empty() {
            return refuse(Errno::INVAL, "Can't drop CPUs from default group");
        }
        self.groups.values_mut().for_each(|other| other.cpus.retain(|cpu| !wanted.contains(cpu)));
        self.group_mut(group).cpus = wanted;
        self.group_mut("").cpus.extend(dropped);
        Ok(())
    }

    fn set_mode(&mut self, shape: &Shape, group: &str, mode: &str) -> Outcome<()> {
        match mode {
            "shareable" => self.group_mut(group).exclusive = false,
            "exclusive" if self.groups[group].exclusive => {}
            "exclusive" => {
                schemata::may_be_exclusive(shape, &self.groups, group)?;
                self.group_mut(group).exclusive = true;
            }
            _ => return refuse(Errno::INVAL, "Unknown or unsupported mode"),
        }
        Ok(())
    }

    fn set_event(&mut self, shape: &Shape, group: &str, event: &str) -> Outcome<()> {
        let known = shape.megabytes
            && event.starts_with("mbm_")
            && shape.monitoring.as_ref().is_some_and(|m| m.events.contains(&event));
        if !known {
            return refuse(Errno::INVAL, format!("Unsupported event id '{event}'"));
        }
        self.group_mut(group).mba_event = event.to_owned();
        Ok(())
    }

    fn make_control_group(&mut self, shape: &Shape, path: &str) -> Outcome<()> {
        let taken = self.groups.keys().filter(|path| parent_of(path).is_none()).count();
        let schemas = shape.schemas();
        let closids = schemas.iter().map(|schema| schema.closids).min().unwrap_or(0);
        if taken >= closids as usize {
            return refuse(Errno::NOSPC, "Out of CLOSIDs");
        }
        self.take_rmid(shape)?;
        let mut values = BTreeMap::new();
        for schema in &schemas {
            values.extend(schema.initial(shape, &self.groups)?);
        }
        let mba_event = self.groups[""].mba_event.clone();
        self.groups.insert(path.to_owned(), FakeGroup { values, mba_event, ..FakeGroup::counting() });
        Ok(())
    }

    /// Whether one more group can be counted. An id in limbo makes the error `EBUSY`: later it may be free.
    fn take_rmid(&mut self, shape: &Shape) -> Outcome<()> {
        let Some(monitoring) = &shape.monitoring else { return Ok(()) };
        if self.groups.len() as u32 + self.limbo < monitoring.rmids {
            return Ok(());
        }
        refuse(if self.limbo > 0 { Errno::BUSY } else { Errno::NOSPC }, "Out of RMIDs")
    }

    /// Gives threads and processors back to where the group belongs, and removes it with its monitoring groups.
    fn remove(&mut self, shape: &Shape, path: &str) {
        let heir = parent_of(path).unwrap_or("").to_owned();
        let gone: Vec<String> =
            self.groups.keys().filter(|group| *group == path || parent_of(group) == Some(path)).cloned().collect();
        for group in gone {
            let removed = self.groups.remove(&group).expect("it was listed");
            self.group_mut(&heir).cpus.extend(removed.cpus);
            self.tasks.values_mut().filter(|at| **at == group).for_each(|at| at.clone_from(&heir));
            self.counters.retain(|(of, ..), _| *of != group);
            if shape.monitoring.as_ref().is_some_and(|monitoring| monitoring.limbo) {
                self.limbo += 1;
            }
        }
    }

    fn group_mut(&mut self, path: &str) -> &mut FakeGroup {
        self.groups.get_mut(path).expect("the group was looked up before")
    }
}

/// The resources of the shape, for those who know schemas only.
impl Shape {
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
